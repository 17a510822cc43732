package wait_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Where a lock is not handed over, an engine's turn is several grants in a row all the same; then it is
// somebody else's.
func TestATurnIsManyGrantsWithoutHandOff(t *testing.T) {
	for _, kind := range []struct {
		name   string
		lock   func(*engine.Engine) *engine.Lock
		change func(*engine.Config)
	}{
		{"Fenced", func(e *engine.Engine) *engine.Lock { return e.FencedLock("hot").Lock }, func(*engine.Config) {}},
		{"NoHandOff", func(e *engine.Engine) *engine.Lock { return e.Lock("hot") }, func(c *engine.Config) { c.NoHandOff = true }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			engines := []*engine.Engine{testkit.Open(t, s.Addr(), kind.change), testkit.Open(t, s.Addr(), kind.change)}
			const callers, grants = 16, 3000
			var turns, served [2]int // guarded by the lock
			last, total := -1, 0
			longest := make(chan time.Duration, callers)
			for c := range callers {
				go func() {
					worst := time.Duration(0)
					for {
						began := time.Now()
						ls, err := kind.lock(engines[c%2]).Acquire(t.Context())
						if err != nil {
							worst = time.Hour
							break
						}
						worst = max(worst, time.Since(began))
						served[c%2]++
						if last != c%2 {
							last = c % 2
							turns[last]++
						}
						total++
						over := total >= grants
						if ls.Release(t.Context()) != nil {
							worst = time.Hour
							break
						}
						if over {
							break
						}
					}
					longest <- worst
				}()
			}
			for range callers {
				require.Less(t, testkit.Await(t, longest, "a caller"), 3*time.Second)
			}
			require.Greater(t, turns[0]+turns[1], 3, "the turns change")
			require.Greater(t, total, 3*(turns[0]+turns[1]), "a turn is more than a grant or two")
			require.Greater(t, min(served[0], served[1]), grants/10)
			s.Do(t, "DEL", "redisson_lock_token:{hot}")
			testkit.Finish(t, s, engines...)
		})
	}
}

// A turn ends after its grants, also when they were handed over, and then somebody else has the lock: it is
// not taken again in the rest of the turn's time.
func TestATurnOfHandOffsEndsWithItsGrants(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	stop := make(chan struct{})
	done := make(chan error, 16)
	for range 16 {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				ls, err := a.Lock("hot").Acquire(t.Context())
				if err == nil {
					err = ls.Release(t.Context())
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
	}
	const rounds = 40
	before := a.Stats().Grants
	for range rounds {
		testkit.Release(t, testkit.Acquire(t, b.Lock("hot")))
	}
	between := a.Stats().Grants - before
	close(stop)
	for range 16 {
		require.NoError(t, testkit.Await(t, done, "a caller"))
	}
	require.Less(t, between/rounds, int64(2*256), "grants of the one engine for each of the other's")
	testkit.Finish(t, s, a, b)
}
