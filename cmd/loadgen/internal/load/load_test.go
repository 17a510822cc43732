package load

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// ownEngine opens an engine at a server in this process.
func ownEngine(t *testing.T) *engine.Engine {
	t.Helper()
	t.Setenv("PATH", t.TempDir()) // any server will do: the one in this process
	t.Setenv(redistest.BinaryEnv, "")
	own, err := embedded.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(own.Stop)
	eng, err := engine.Open(t.Context(), engine.Config{Addrs: []string{own.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close(context.Background())) })
	return eng
}

// At a low rate the client waits for the next start most of the time. What it finds done then took as long as the way to the
// server takes at the least: it is not measured by a clock that was read before it was asked for.
func TestAnOpenLoopMeasuresWhatItFindsDone(t *testing.T) {
	cfg := &config.Config{
		Inflight: 64, Clients: 1, Keys: 64, API: "async", Prefix: "open", Lease: 30 * time.Second, CheckServer: "off", Rate: 1000,
	}
	l := New(cfg, []*engine.Engine{ownEngine(t)}, topology.Homes{})
	rec, skipped := l.Drive(t.Context(), 300*time.Millisecond)
	require.Zero(t, skipped)
	require.EqualValues(t, 300, rec.Released)
	require.Greater(t, rec.Acquires.Min(), int64(time.Microsecond))
	require.Greater(t, rec.Releases.Min(), int64(time.Microsecond))
}

// The violation is planted in the ledger, where another holder has the lock that the
// engine rightly grants; from there on all is the real driver.
func TestAPlantedViolationEndsInStatus4(t *testing.T) {
	eng := ownEngine(t)
	cfg := &config.Config{Inflight: 1, Clients: 1, Keys: 1, API: "async", Prefix: "planted", Lease: 30 * time.Second, CheckServer: "off"}
	l := New(cfg, []*engine.Engine{eng}, topology.Homes{})
	l.Ledger.Take(0, 99) // somebody else's, who never lets go
	rec, _ := l.Drive(t.Context(), 50*time.Millisecond)
	require.Positive(t, rec.Released)
	require.Positive(t, l.Ledger.Violations.Load())

	r := &report.Report{Errors: map[string]int64{}}
	r.AddRounds(cfg, []report.Round{{Rec: rec, Cost: meter.Cost{Wall: time.Second}}})
	r.AddViolations(l.Ledger)
	r.Settle()
	require.Equal(t, report.StatusViolation, r.Status)
	require.Contains(t, r.Failures[len(r.Failures)-1], "holder 99")
}

func TestCutLeavesNothingOutAndOverlapsNowhere(t *testing.T) {
	for n := 1; n < 60; n++ {
		for parts := 1; parts <= n; parts++ {
			next := 0
			for _, r := range cut(n, parts) {
				require.Equal(t, next, r.first)
				require.Contains(t, []int{n / parts, n/parts + 1}, r.count)
				next += r.count
			}
			require.Equal(t, n, next)
		}
	}
}

func TestEveryClientHasKeysOfOneHome(t *testing.T) {
	cfg := &config.Config{API: "async", Inflight: 30, Clients: 6, Keys: 400, Prefix: "p"}
	h := topology.Homes{N: 3, Of: func(name string) int { return int(name[len(name)-1]-'0') % 3 }}
	numbers := place(h, cfg)
	seen := make(map[int]bool)
	for key, number := range numbers {
		require.False(t, seen[number], "number %d twice", number)
		seen[number] = true
		client := key % cfg.Inflight / 5
		require.Equal(t, client%3, h.Of(cfg.LockName('k', number)), "key %d", key)
	}
	cfg.Clients = 4 // cannot be shared out evenly
	for key, number := range place(h, cfg) {
		require.Equal(t, key, number)
	}
}
