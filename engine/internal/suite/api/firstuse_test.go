package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestTheFirstUseOfWhateverKindCostsNoSecondRound: the server has never seen a script. Whatever is used first brings its
// own along, so nobody is told that one is missing.
func TestTheFirstUseOfWhateverKindCostsNoSecondRound(t *testing.T) {
	t.Parallel()
	locks := map[string]func(*engine.Engine) *engine.Lock{
		"Lock":   func(e *engine.Engine) *engine.Lock { return e.Lock("name") },
		"Spin":   func(e *engine.Engine) *engine.Lock { return e.Lock("name", engine.Spin(time.Millisecond, time.Second)) },
		"Fenced": func(e *engine.Engine) *engine.Lock { return e.FencedLock("name").Lock },
		"Fair":   func(e *engine.Engine) *engine.Lock { return e.FairLock("name").Lock },
		"Read":   func(e *engine.Engine) *engine.Lock { return e.RWLock("name").ReadLock() },
		"Write":  func(e *engine.Engine) *engine.Lock { return e.RWLock("name").WriteLock() },
	}
	kinds := map[string]func(*testing.T, *engine.Engine){
		"Group": func(t *testing.T, e *engine.Engine) {
			g := e.GroupLock("name", engine.KryoStrings("a", "b"))
			ls, err := g.Acquire(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, ls)
			_, err = g.ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
		},
		"Barrier": func(t *testing.T, e *engine.Engine) {
			b := e.Barrier("name", 2)
			first := b.AwaitAsync(testkit.Limited(t))
			require.NoError(t, b.Await(testkit.Limited(t)))
			testkit.Get(t, first)
			testkit.Get(t, b.ResetAsync(testkit.Limited(t)))
		},
		"Semaphore": func(t *testing.T, e *engine.Engine) {
			s := e.Semaphore("name")
			testkit.Get(t, s.TrySetPermitsAsync(testkit.Limited(t), 2, 0))
			require.NoError(t, s.Acquire(testkit.Limited(t), 1))
			require.NoError(t, s.Release(testkit.Limited(t), 1))
		},
		"Latch": func(t *testing.T, e *engine.Engine) {
			l := e.CountDownLatch("name")
			testkit.Get(t, l.TrySetCountAsync(testkit.Limited(t), 1))
			waits := l.AwaitAsync(testkit.Limited(t))
			require.NoError(t, l.CountDown(testkit.Limited(t)))
			testkit.Get(t, waits)
		},
		"Permits": func(t *testing.T, e *engine.Engine) {
			s := e.PermitSemaphore("name")
			testkit.Get(t, s.TrySetPermitsAsync(testkit.Limited(t), 2))
			p, err := s.Acquire(testkit.Limited(t), 1)
			require.NoError(t, err)
			require.NoError(t, p.Release(testkit.Limited(t)))
		},
		"Multi": func(t *testing.T, e *engine.Engine) {
			ls, err := e.MultiLock("name", "other").Acquire(testkit.Limited(t))
			require.NoError(t, err)
			require.NoError(t, ls.Release(testkit.Limited(t)))
		},
	}
	for name, of := range locks {
		kinds[name] = func(t *testing.T, e *engine.Engine) {
			l := of(e).With(engine.WatchdogLease(time.Second))
			owner := engine.As(engine.NewOwner())
			ls := testkit.Acquire(t, l.With(owner))
			again := testkit.Acquire(t, l.With(owner)) // a count
			sent := e.Stats().Renewals.Sent
			testkit.Eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent > sent })
			_, err := l.Inspect(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, again)
			testkit.Release(t, ls)
			_, err = l.ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
		}
	}
	for name, use := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.OpenChecked(t, s.Addr())
			use(t, e)
			require.NotContains(t, s.Do(t, "INFO", "errorstats"), "NOSCRIPT")
			require.Zero(t, e.Stats().Nodes[0].ScriptReloads)
			s.Do(t, "SCRIPT", "FLUSH") // it would be counted there
			testkit.Release(t, testkit.Acquire(t, e.Lock("after")))
			require.Contains(t, s.Do(t, "INFO", "errorstats"), "NOSCRIPT")
		})
	}
}
