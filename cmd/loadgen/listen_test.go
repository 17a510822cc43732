package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Where more channels are listened to than are worth asking for, every release is published.
func TestListen(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	share := func(channels string) float64 {
		status, stdout, stderr := invoke(t, "run", "--addr", addr, "--inflight", "256", "--duration", "200ms", "--warmup", "50ms",
			"--listen", channels, "--json", "-", "--check-server", "on")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		r := requireReport(t, []byte(stdout))
		require.Contains(t, r["server_check"], "agrees")
		return r["server_commands"].(map[string]any)["publish"].(float64) / r["pairs"].(float64)
	}
	require.Less(t, share("0"), 0.5)
	require.Greater(t, share("3000"), 0.5)
}

func TestListenIsNotForACluster(t *testing.T) {
	needServer(t)
	t.Parallel()
	c := redistest.RunCluster(t, 1, 0)
	status, stdout, stderr := invoke(t, "run", "--addr", c.Addrs()[0], "--listen", "1")
	require.Equal(t, report.StatusConnect, status, stdout)
	require.Contains(t, stderr, "loadgen: --listen is not for a cluster")
}
