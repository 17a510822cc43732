package engine

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// renewedTimes lets time go by until a lock has been renewed so often. Then the collector runs.
func (sc *scene) renewedTimes(n int64) {
	for sc.e.Stats().Renewals.Sent < n {
		sc.w.Sleep(10 * time.Millisecond)
	}
	require.Equal(sc.t, n, sc.e.Stats().Renewals.Sent)
	runtime.GC()
}

// A lease that is dropped is found by the fourth renewal after the sixth, once, and nobody holds on to it until then.
func TestADroppedLeaseIsFoundAfterTwoLeases(t *testing.T) {
	play(t, func(sc *scene) {
		func() { sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease))) }()
		for _, at := range []struct{ renewals, leaked int64 }{
			{leakAfter, 0}, {leakAfter + leakEvery - 1, 0}, {leakAfter + leakEvery, 1}, {leakAfter + 3*leakEvery, 1},
		} {
			sc.renewedTimes(at.renewals)
			require.Equal(t, at.leaked, sc.e.Stats().Leaked, "%d renewals", at.renewals)
		}
	})
}

// One that is kept is never found, nor one whose context is.
func TestALeaseThatIsKeptIsNoLeak(t *testing.T) {
	for name, keep := range map[string]func(*Lease) any{
		"lease": func(ls *Lease) any { return ls }, "context": func(ls *Lease) any { return ls.Context() },
	} {
		play(t, func(sc *scene) {
			kept := keep(sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease))))
			sc.renewedTimes(leakAfter + 3*leakEvery)
			require.Zero(t, sc.e.Stats().Leaked, name)
			runtime.KeepAlive(kept)
		})
	}
}

// A lease released and forgotten is no leak, also when the answer to a renewal that looks comes after the release.
func TestALeaseThatWasReleasedBeforeItsRenewalWasAnsweredIsNoLeak(t *testing.T) {
	play(t, func(sc *scene) {
		var h *hold
		func() {
			ls := sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))
			h = ls.hold
			for range leakAfter {
				listener{sc.e}.Renewed(h, 0)
			}
			sc.release(ls)
		}()
		runtime.GC()
		require.Nil(t, h.weak.Value(), "it is forgotten")
		for range 2 * leakEvery {
			listener{sc.e}.Renewed(h, 0)
		}
		require.Zero(t, sc.e.Stats().Leaked)
	})
}

// Whoever asked for a context and dropped it with the lease is found as soon as who never asked, whenever that was; a
// context derived from it counts until it has ended.
func TestADroppedLeaseIsFoundThoughItsContextWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		use   func(sc *scene, ls *Lease)
		found int64 // after so many renewals
	}{
		"at once": {func(_ *scene, ls *Lease) { _ = ls.Context() }, leakAfter + leakEvery},
		"several times": {func(sc *scene, ls *Lease) {
			for n := range int64(leakAfter + leakEvery) {
				sc.renewedTimes(n)
				_ = ls.Context().Err()
			}
		}, leakAfter + 2*leakEvery}, // the first look finds one that was just asked for
		"derived and ended": {func(_ *scene, ls *Lease) {
			_, cancel := context.WithCancel(ls.Context())
			cancel()
		}, leakAfter + leakEvery},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(sc *scene) {
				func() { c.use(sc, sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))) }()
				sc.renewedTimes(c.found - 1)
				require.Zero(t, sc.e.Stats().Leaked)
				sc.renewedTimes(c.found)
				require.EqualValues(t, 1, sc.e.Stats().Leaked)
			})
		})
	}
	play(t, func(sc *scene) {
		child := func() context.Context {
			ctx, cancel := context.WithCancel(sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease))).Context())
			t.Cleanup(cancel)
			return ctx
		}()
		sc.renewedTimes(leakAfter + 3*leakEvery)
		require.Zero(t, sc.e.Stats().Leaked, "a child works under it")
		require.NoError(t, child.Err())
	})
}

// The context of a lease that is kept for long stays the same one to everybody: asked for early or late, it ends with the
// lease. The engine has one entry for it.
func TestAContextIsOneHoweverLongItsLeaseIsKept(t *testing.T) {
	for _, how := range []error{ErrReleased, ErrLost} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))
			var asked []context.Context
			for n := range int64(leakAfter + 3*leakEvery) {
				sc.renewedTimes(n)
				if n%3 == 0 {
					asked = append(asked, ls.Context())
					require.Same(t, asked[len(asked)-1], ls.Context(), "asked twice")
				}
				if w := ls.hold.watch; w != nil {
					require.Nil(t, w.next)
				}
			}
			for _, ctx := range asked {
				require.NoError(t, ctx.Err())
				require.Equal(t, asked[0].Done(), ctx.Done())
			}
			if how == ErrLost {
				_, err := sc.e.Lock("a").ForceRelease(t.Context())
				require.NoError(t, err)
			} else {
				sc.release(ls)
				require.Nil(t, ls.hold.watch)
			}
			for _, ctx := range asked {
				require.ErrorIs(t, context.Cause(ctx), how)
			}
		})
	}
}

// One that was let go ends, too, by who releases or by who finds the lock lost.
func TestAContextThatWasLetGoEndsWithItsLease(t *testing.T) {
	for _, how := range []error{ErrReleased, ErrLost} {
		play(t, func(sc *scene) {
			ls := sc.acquire(sc.e.Lock("a", WatchdogLease(MinWatchdogLease)))
			ctx := ls.Context()
			sc.renewedTimes(leakAfter + leakEvery)
			require.Nil(t, ls.hold.watch.lease, "it is let go")
			if how == ErrLost {
				_, err := sc.e.Lock("a").ForceRelease(t.Context())
				require.NoError(t, err)
			} else {
				sc.release(ls)
			}
			require.ErrorIs(t, context.Cause(ctx), how)
			require.ErrorIs(t, context.Cause(ls.Context()), how)
		})
	}
}
