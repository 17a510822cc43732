package redistest

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

const installHint = "install Redis or Valkey (apt-get install redis-server, brew install redis), " +
	"or set " + redisproc.BinaryEnv + " to a server binary; `go test -short` skips these tests"

// Run starts a server for one test and stops it at the test's end. Under -short
// the test is skipped; without a server binary it fails.
func Run(tb testing.TB, o Options) *Server {
	tb.Helper()
	return run(tb, func(ctx context.Context) (*Server, error) { return Start(ctx, o) })
}

// RunCluster is [StartCluster] for one test; see [Run].
func RunCluster(tb testing.TB, masters, replicasPer int, args ...string) *Cluster {
	tb.Helper()
	return run(tb, func(ctx context.Context) (*Cluster, error) {
		return StartCluster(ctx, masters, replicasPer, args...)
	})
}

// RunSentinel is [StartSentinel] for one test; see [Run].
func RunSentinel(tb testing.TB, replicas, sentinels int, args ...string) *Sentinel {
	tb.Helper()
	return run(tb, func(ctx context.Context) (*Sentinel, error) {
		return StartSentinel(ctx, replicas, sentinels, args...)
	})
}

func run[S interface{ Stop() }](tb testing.TB, start func(context.Context) (S, error)) S {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a server; skipped by -short")
	}
	s, err := start(tb.Context())
	if errors.Is(err, ErrNoServer) {
		tb.Fatalf("%v; %s", err, installHint)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}
