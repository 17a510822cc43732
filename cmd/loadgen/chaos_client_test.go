package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestAClientDiesInTheMiddle(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{
		"--scenario lock --inflight 100",
		"--scenario lock --kind fair --api sync --clients 16",
		"--scenario contend --clients 8 --hold 1ms",
		"--scenario fenced --clients 8 --engines 2 --keys 3 --cluster 3 --hold 1ms",
		"--scenario fair --clients 8 --engines 2 --hold 1ms",
		"--scenario rw --clients 8 --api async --hold 1ms",
		"--scenario multi --clients 8 --multi-names 2 --hold 1ms",
		"--scenario contend --clients 4 --sentinel --hold 1ms",
		"--scenario latch --clients 8 --engines 2 --keys 2 --hold 1ms",
		"--scenario latch --clients 8 --api async --cluster 3 --hold 1ms",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append([]string{"run", "--chaos", "client", "--duration", "4s", "--warmup", "0s", "--json", "-"}, strings.Fields(args)...)
			if !strings.Contains(args, "latch") { // which has none
				all = append(all, "--lease", "2s")
			}
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireReport(t, []byte(stdout))
			require.Empty(t, r["errors"])
			chaos := r["chaos"].(map[string]any)
			require.EqualValues(t, 1, chaos["done"].(map[string]any)["client"])
			client := chaos["client"].(map[string]any)
			require.EqualValues(t, 1, client["killed"])
			require.Positive(t, client["held"], "it died as a holder")
			require.Positive(t, client["longest_gap_s"])
			require.Equal(t, true, client["judged"])
			if l, ok := r["latch"].(map[string]any); ok {
				require.Equal(t, client["held"], l["killed_counted"])
				require.EqualValues(t, 0, l["killed_missing"].(float64)+l["early"].(float64)+l["late"].(float64))
				require.Positive(t, l["rounds"])
			}
			if w, ok := r["witness"].(map[string]any); ok {
				require.Len(t, w["processes"], 2, "exclusion was checked between both")
			} else {
				require.NotContains(t, []string{"contend", "fenced", "fair"}, r["scenario"])
			}
		})
	}
}

// Whatever ends loadgen, the client that it started does not stay.
func TestTheOtherClientEndsWithItsParent(t *testing.T) {
	needServer(t)
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	clients := func() map[string]bool {
		names := make(map[string]bool)
		for line := range strings.Lines(s.Do(t, "CLIENT", "LIST")) {
			for field := range strings.FieldsSeq(line) {
				if name, ok := strings.CutPrefix(field, "name=loadgen-"); ok {
					names[name] = true
				}
			}
		}
		return names
	}
	c := startChild(t, "run", "--scenario", "contend", "--addr", s.Addr(), "--clients", "4", "--lease", "5s", "--duration", "1m",
		"--warmup", "0s", "--chaos", "client", "--chaos-every", "3s")
	require.Eventually(t, func() bool { return len(clients()) == 2 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, c.cmd.Process.Kill())
	c.wait()
	require.Eventually(t, func() bool { return len(clients()) == 0 }, 30*time.Second, 10*time.Millisecond)
}
