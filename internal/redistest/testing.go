package redistest

import (
	"context"
	"errors"
	"slices"
	"testing"
)

const installHint = "install Redis or Valkey (apt-get install redis-server, brew install redis), " +
	"or set " + BinaryEnv + " to a server binary; `go test -short` skips these tests"

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

// Do runs one command and returns its reply as [Text] renders it. A failure or an
// error reply fails the test.
func (s *Server) Do(tb testing.TB, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	v, err := s.Command(ctx, args...)
	if err != nil {
		tb.Fatalf("redistest: %q: %v", args, err)
	}
	return Text(v)
}

// Keys returns the names of all keys, sorted.
func (s *Server) Keys(tb testing.TB) []string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	keys, err := s.KeyNames(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// ImmortalKeys returns the names of all keys without an expiry, sorted.
func (s *Server) ImmortalKeys(tb testing.TB) []string {
	tb.Helper()
	return slices.DeleteFunc(s.Keys(tb), func(key string) bool {
		return s.Do(tb, "PTTL", key) != "-1"
	})
}
