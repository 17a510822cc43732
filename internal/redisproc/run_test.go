package redisproc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run starts a server for one test. The tests of other packages have redistest, which imports this one.
func Run(t *testing.T, o Options) *Server {
	t.Helper()
	return run(t, func(ctx context.Context) (*Server, error) { return Start(ctx, o) })
}

// RunCluster is StartCluster for one test.
func RunCluster(t *testing.T, masters, replicasPer int, args ...string) *Cluster {
	t.Helper()
	return run(t, func(ctx context.Context) (*Cluster, error) { return StartCluster(ctx, masters, replicasPer, args...) })
}

// RunSentinel is StartSentinel for one test.
func RunSentinel(t *testing.T, replicas, sentinels int, args ...string) *Sentinel {
	t.Helper()
	return run(t, func(ctx context.Context) (*Sentinel, error) { return StartSentinel(ctx, replicas, sentinels, args...) })
}

func run[S interface{ Stop() }](t *testing.T, start func(context.Context) (S, error)) S {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; skipped by -short")
	}
	s, err := start(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}
