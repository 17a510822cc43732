package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

func TestLatch(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{
		"",
		"--clients 1 --count 1",
		"--clients 12 --keys 3 --engines 2 --count 20 --hold 1ms",
		"--api async --clients 12 --engines 2 --cluster 3 --keys 4",
		"--clients 8 --engines 2 --chaos pause,kill-conn,script-flush --chaos-every 50ms --duration 600ms",
		"--clients 8 --chaos client,kill-conn --chaos-every 100ms --duration 4s --hold 1ms",
		"--clients 12 --keys 3 --cluster 2 --chaos slots,script-flush --chaos-every 50ms --duration 600ms",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append([]string{
				"run", "--scenario", "latch", "--duration", "400ms", "--warmup", "20ms", "--json", "-",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			require.Empty(t, r["errors"])
			require.Positive(t, r["fairness"].(map[string]any)["min"], "every caller was let in")
			l := r["latch"].(map[string]any)
			require.Positive(t, l["rounds"])
			require.EqualValues(t, 0, l["early"].(float64)+l["late"].(float64))
			require.Less(t, l["last_s"], l["bound_s"])
		})
	}
}
