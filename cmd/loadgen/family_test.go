package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Each scenario of a kind of its own, in every way it can be run.
func TestFamilyScenarios(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, scenario := range []string{"fenced", "fair", "rw", "multi"} {
		for _, args := range []string{
			"--keys 2 --clients 12 --engines 3 --hold 200us",
			"--keys 3 --clients 12 --engines 2 --api async --cluster 3",
			"--clients 8 --engines 2 --chaos pause,kill-conn,script-flush --chaos-every 50ms --duration 600ms",
			"--keys 3 --clients 12 --engines 2 --cluster 2 --chaos slots,script-flush --chaos-every 50ms --duration 600ms",
		} {
			t.Run(scenario+" "+args, func(t *testing.T) {
				t.Parallel()
				all := append([]string{
					"run", "--scenario", scenario, "--duration", "400ms", "--warmup", "20ms", "--json", "-",
				}, strings.Fields(args)...)
				if scenario == "multi" {
					all = append(all, "--multi-names", "2")
				}
				status, stdout, stderr := invoke(t, all...)
				require.Equal(t, report.StatusOK, status, stderr+stdout)
				r := requireContendReport(t, []byte(stdout))
				require.Empty(t, r["errors"])
				require.Positive(t, r["fairness"].(map[string]any)["min"], "every caller was served")
				requireFamilyReport(t, scenario, r)
			})
		}
	}
}

// requireFamilyReport checks that the one part that belongs to the scenario says something, and that the
// others are null.
func requireFamilyReport(t *testing.T, scenario string, r map[string]any) {
	t.Helper()
	for name, part := range map[string]string{"fenced": "tokens", "fair": "order", "rw": "rw", "multi": "multi"} {
		require.Contains(t, r, part)
		require.Equal(t, scenario == name, r[part] != nil, part)
	}
	grants := r["grants"].(float64)
	switch scenario {
	case "fenced":
		tokens := r["tokens"].(map[string]any)
		require.GreaterOrEqual(t, tokens["checked"], grants)
		require.EqualValues(t, 0, tokens["not_rising"])
	case "fair":
		order := r["order"].(map[string]any)
		require.Positive(t, order["followed"])
		for _, none := range []string{"out_of_order", "lost_place"} {
			require.EqualValues(t, 0, order[none], none)
		}
		require.Contains(t, order, "overtaken_us")
		require.Equal(t, map[bool]string{true: "queue", false: "queue and clock"}[r["chaos"] != nil], order["judged"])
	case "multi":
		multi := r["multi"].(map[string]any)
		require.InDelta(t, grants, multi["grants"], 0)
		require.EqualValues(t, 2, multi["names"])
		require.EqualValues(t, 0, multi["torn"])
	case "rw":
		rw := r["rw"].(map[string]any)
		require.InDelta(t, grants, rw["reads"].(float64)+rw["writes"].(float64), 0)
		require.InDelta(t, 0.9, rw["reads"].(float64)/grants, 0.1)
		for _, field := range []string{"reads_per_s", "writes_per_s", "most_readers"} {
			require.Positive(t, rw[field], field)
		}
		require.Positive(t, rw["write_wait_us"].(map[string]any)["max"])
		require.Positive(t, rw["read_wait_us"].(map[string]any)["max"])
	}
}

func TestReadersAreTogether(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{"--read-share 1", "--read-share 1 --api async", "--read-share 0"} {
		t.Run(args, func(t *testing.T) {
			all := append([]string{
				"run", "--scenario", "rw", "--clients", "8", "--hold", "5ms", "--duration", "300ms", "--warmup", "0s", "--json", "-",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			rw := requireContendReport(t, []byte(stdout))["rw"].(map[string]any)
			none, wait := "writes", "write_wait_us"
			if strings.HasSuffix(args, " 0") {
				none, wait = "reads", "read_wait_us"
				require.EqualValues(t, 0, rw["most_readers"])
			} else {
				require.Greater(t, rw["most_readers"], 1.0)
			}
			require.EqualValues(t, 0, rw[none])
			require.Nil(t, rw[wait])
		})
	}
}

func TestFamilyAcrossProcesses(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, scenario := range []string{"fenced", "fair", "multi"} {
		t.Run(scenario, func(t *testing.T) {
			args := []string{
				"run", "--scenario", scenario, "--addr", addr, "--clients", "4", "--duration", "500ms", "--warmup", "20ms", "--json", "-",
				"--witness", filepath.Join(t.TempDir(), "w"), "--witness-procs", "2",
			}
			if scenario == "multi" {
				args = append(args, "--multi-names", "2")
			}
			one, two := startChild(t, args...), startChild(t, args...)
			for _, c := range []*child{one, two} {
				require.Equal(t, report.StatusOK, c.wait(), c.stderr.String())
				r := requireContendReport(t, c.stdout.Bytes())
				requireFamilyReport(t, scenario, r)
				require.Len(t, r["witness"].(map[string]any)["processes"], 2)
			}
		})
	}
}

func TestFamilyTables(t *testing.T) {
	needServer(t)
	t.Parallel()
	for scenario, rows := range map[string][]string{
		"fenced": {"tokens", "0 did not rise"},
		"fair":   {"order in the queue", "order of asking", "is judged"},
		"multi":  {"locks at once", "0 were not of all of them"},
		"rw":     {"reads/s", "writes/s", "readers at once"},
	} {
		status, stdout, stderr := invoke(t, "run", "--scenario", scenario, "--clients", "8", "--duration", "200ms", "--warmup", "0s")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.True(t, strings.HasPrefix(stdout, scenario+" on "), stdout)
		for _, row := range rows {
			require.Contains(t, stdout, row)
		}
	}
}
