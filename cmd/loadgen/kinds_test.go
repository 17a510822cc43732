package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Each kind costs the server what it says it costs, which it would not if another kind were taken.
func TestKinds(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, kind := range lockKinds {
		for _, args := range []string{"--inflight 100", "--api sync --clients 16", "--inflight 100 --yardstick --rounds 1"} {
			t.Run(kind+" "+args, func(t *testing.T) {
				all := append([]string{
					"run", "--addr", addr, "--kind", kind, "--duration", "200ms", "--warmup", "0s", "--json", "-",
					"--check-server", "on", // the connections of the run before may not have ended yet
				}, strings.Fields(args)...)
				status, stdout, stderr := invoke(t, all...)
				require.Equal(t, report.StatusOK, status, stderr+stdout)
				r := requireReport(t, []byte(stdout))
				require.Equal(t, kind, r["kind"])
				require.Contains(t, r["server_check"], "agrees: one acquiring command")
				told := r["server_commands"].(map[string]any)["publish"]
				switch released := r["pairs"].(float64); kind {
				case config.KindSpin, config.KindFair:
					require.Zero(t, told, "nobody is told")
				case config.KindLock, config.KindFenced:
					if strings.Contains(args, "sync") { // at most 16 are given back together
						require.Positive(t, told)
					} else { // most of up to 100 are, and nobody listens
						require.Less(t, told, released)
					}
				default:
					require.Positive(t, told)
				}
				require.Equal(t, strings.Contains(args, "yardstick"), r["ratio_to_yardstick"] != nil)
			})
		}
	}
}

func TestKindsInACluster(t *testing.T) {
	needServer(t)
	t.Parallel()
	nodes := redistest.RunCluster(t, 3, 0).Addrs()
	for _, kind := range lockKinds {
		t.Run(kind, func(t *testing.T) {
			status, stdout, stderr := invoke(t, "run", "--addr", nodes[0], "--kind", kind, "--inflight", "100",
				"--duration", "200ms", "--warmup", "0s", "--json", "-")
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireReport(t, []byte(stdout))
			require.Equal(t, "cluster", r["topology"])
			require.Contains(t, r["server_check"], "agrees: one acquiring command")
		})
	}
}

func TestContendForEachKindThatExcludes(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, kind := range lockKinds {
		if kind == config.KindRead {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			status, stdout, stderr := invoke(t, "run", "--scenario", "contend", "--addr", addr, "--kind", kind, "--clients", "8",
				"--engines", "2", "--duration", "300ms", "--warmup", "0s", "--json", "-")
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			require.Contains(t, r["server_check"], "agrees")
			require.Positive(t, r["fairness"].(map[string]any)["max"])
		})
	}
}

func TestTheTableNamesTheKind(t *testing.T) {
	withoutServer(t)
	status, stdout, stderr := invoke(t, "run", "--kind", "fenced", "--duration", "200ms", "--warmup", "0s", "--inflight", "16")
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	require.True(t, strings.HasPrefix(stdout, fmt.Sprintf("lock (%s locks) on ", config.KindFenced)), stdout)
}
