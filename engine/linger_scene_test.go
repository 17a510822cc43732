package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
)

// Scenes of locks that were given back and linger.

// lingerLate is how much later than asked for lingering may end: a short timer, and the way to the server.
const lingerLate = 6 * time.Millisecond

// is reports whether there is a key.
func (sc *scene) is(key string) bool {
	kind, _ := sc.server.twin.Look(key)
	return kind != 0
}

// Who asks while a lock lingers has it without a command, as a new holder, and nobody is left behind when nobody asks.
func TestALockThatLingersIsGrantedWithoutACommand(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{false, true} {
		play(t, func(sc *scene) {
			l := sc.e.Lock("a", Linger(5*time.Millisecond))
			ls := sc.acquire(l)
			first, before := ls, sc.commands
			for range 5 {
				sc.w.Sleep(time.Millisecond)
				ctx := ls.Context()
				sc.release(ls)
				sc.wants(ErrReleased, context.Cause(ctx), "its context")
				sc.w.Sleep(2 * time.Millisecond)
				require.True(t, sc.is("a"))
				again := l.AcquireAsync
				if try {
					again = l.TryAcquireAsync
				}
				next, err := result(sc, again(context.Background()))
				sc.wants(nil, err, "the next")
				require.NotSame(t, ls, next)
				ls = next
				require.Same(t, first.hold, ls.hold)
				require.False(t, ls.Lost())
				require.NoError(t, ls.Context().Err())
			}
			require.Equal(t, before, sc.commands, "nothing was sent")
			_, err := result(sc, first.ReleaseAsync())
			sc.wants(ErrNotHeld, err, "a handle that is spent")
			sc.release(ls)
			sc.w.Sleep(5*time.Millisecond + lingerLate)
			require.False(t, sc.is("a"), "it is given back")
			st := sc.e.Stats()
			require.Equal(t, []int64{6, 6, 5, 5, 0, 0, 0},
				[]int64{st.Grants, st.Releases, st.GrantsByHandOff, st.GrantsByLinger, st.LingersLost, st.Held, st.Names})
			require.Equal(t, st.Releases, st.Hold.Count)
		})
	}
}

// Lingering ends when it is over, counted from the last release, however often the lock was passed on before.
func TestLingeringEndsInTime(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{1, 5, 19, 50, 100} {
		for phase := range time.Duration(10) {
			for _, grants := range []int{1, 2, 7} {
				play(t, func(sc *scene) {
					d := d * time.Millisecond
					sc.w.Sleep(phase * 700 * time.Microsecond)
					l := sc.e.Lock("a", Linger(d))
					for range grants {
						sc.release(sc.acquire(l))
						sc.w.Sleep(min(d/2, time.Millisecond))
					}
					sc.release(sc.acquire(l))
					released := sc.w.Now()
					sc.w.Sleep(d - time.Microsecond)
					if !sc.is("a") {
						t.Errorf("Linger(%v) ended early", d)
					}
					for sc.is("a") && sc.w.Now().Sub(released) < time.Second {
						sc.w.Sleep(50 * time.Microsecond)
					}
					if late := sc.w.Now().Sub(released) - d; late > lingerLate {
						t.Errorf("Linger(%v) of a lock that was granted %d times ended %v late", d, grants+1, late)
					}
				})
			}
		}
	}
}

// A shorter lingering is not kept up by the timer of a longer one.
func TestAShorterLingeringEndsBeforeALongerOneWouldHave(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.release(sc.acquire(sc.e.Lock("a", Linger(100*time.Millisecond))))
		sc.release(sc.acquire(sc.e.Lock("a", Linger(2*time.Millisecond))))
		sc.w.Sleep(2*time.Millisecond + lingerLate)
		require.False(t, sc.is("a"))
		sc.release(sc.acquire(sc.e.Lock("a", Linger(100*time.Millisecond))))
		sc.release(sc.acquire(sc.e.Lock("a"))) // without the option: it is released
		require.False(t, sc.is("a"))
	})
}

// Who wants something else has it as soon as what lingers is given back, and is never refused for it.
func TestWhoWantsAnotherLockThanTheOneThatLingersDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(e *Engine) *Lock{
		"Lease":     func(e *Engine) *Lock { return e.Lock("a", WatchdogLease(5*time.Second)) },
		"Fixed":     func(e *Engine) *Lock { return e.Lock("a", FixedLease(5*time.Second)) },
		"FixedSame": func(e *Engine) *Lock { return e.Lock("a", FixedLease(DefaultLease)) },
		"MaxHold":   func(e *Engine) *Lock { return e.Lock("a", MaxHold(time.Second)) },
		"Spin":      func(e *Engine) *Lock { return e.Lock("a", Spin(time.Millisecond, time.Millisecond)) },
		"Fenced":    func(e *Engine) *Lock { return e.FencedLock("a").Lock },
		"Fair":      func(e *Engine) *Lock { return e.FairLock("a").Lock },
		"Read":      func(e *Engine) *Lock { return e.RWLock("a").ReadLock() },
		"Write":     func(e *Engine) *Lock { return e.RWLock("a").WriteLock() },
	} {
		for _, try := range []bool{false, true} {
			play(t, func(sc *scene) {
				first := sc.acquire(sc.e.Lock("a", Linger(MaxLinger)))
				sc.release(first)
				asked := sc.w.Now()
				f := ask(sc.e).AcquireAsync
				if try {
					f = ask(sc.e).TryAcquireAsync
				}
				ls, err := result(sc, f(context.Background()))
				sc.wants(nil, err, name)
				if err != nil {
					return
				}
				require.NotSame(t, first.hold, ls.hold, name)
				if took := sc.w.Now().Sub(asked); took > lockstate.YieldLeast {
					t.Errorf("%s waited %v", name, took)
				}
				require.Zero(t, sc.e.Stats().GrantsByLinger)
				sc.release(ls)
			})
		}
	}
	play(t, func(sc *scene) { // one that replicas have to see, which they did not
		first := sc.acquire(sc.e.Lock("a", Linger(MaxLinger)))
		sc.release(first)
		_, err := result(sc, sc.e.Lock("a", WaitReplicas(1, time.Millisecond)).AcquireAsync(context.Background()))
		if err == nil {
			require.Positive(t, sc.e.Stats().Grants-sc.e.Stats().GrantsByHandOff)
		}
		require.Zero(t, sc.e.Stats().GrantsByLinger)
	})
}

// Somebody elsewhere waits: as long as this engine's turn lasts, and for what lingers at its end, and no longer. Then it
// is known, and nothing lingers until the lock is only ours again.
func TestWhoWaitsElsewhereWaitsForTheTurnAndTheLingering(t *testing.T) {
	t.Parallel()
	const d = 5 * time.Millisecond
	for phase := range time.Duration(8) {
		play(t, func(sc *scene) {
			other := sc.another()
			l, theirs := sc.e.Lock("a", Linger(d)), other.Lock("a")
			over := false
			sc.w.In(sc.se.proc, "busy", func() {
				for !over {
					sc.release(sc.acquire(l))
					sc.w.Sleep(500 * time.Microsecond)
				}
			})
			sc.w.Sleep(30*time.Millisecond + phase*3*time.Millisecond)
			turns := 0 // of ours, in which it lingers
			for i := range 20 {
				asked, lingered := sc.w.Now(), sc.e.Stats().GrantsByLinger
				ls, err := result(sc, theirs.AcquireAsync(context.Background()))
				sc.wants(nil, err, "who waits elsewhere")
				if took := sc.w.Now().Sub(asked); took > lockstate.TenureLeast+d+lingerLate+5*time.Millisecond {
					t.Errorf("phase %d, %d: it waited %v", phase, i, took)
				}
				if sc.e.Stats().GrantsByLinger > lingered {
					turns++
				}
				sc.release(ls)
			}
			if turns > 4 { // the first, and where it asked before who waits elsewhere did so again
				t.Errorf("phase %d: it lingers in %d turns of 20 though somebody waits elsewhere all the time", phase, turns)
			}
			sc.closes(other) // its subscription outlives its last waiter
			before := sc.e.Stats().GrantsByLinger
			sc.w.Sleep(200 * time.Millisecond)
			require.Greater(t, sc.e.Stats().GrantsByLinger, before, "nobody wants it any more")
			over = true
			sc.w.Sleep(50 * time.Millisecond)
		})
	}
}

// A lock that had to be waited for does not linger in that turn: who had it may want it again.
func TestALockThatSomebodyElseHadDoesNotLinger(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.Lock("a"))
		f := sc.e.Lock("a", Linger(MaxLinger)).AcquireAsync(context.Background())
		sc.w.Sleep(time.Millisecond)
		sc.release(held)
		ls, err := result(sc, f)
		sc.wants(nil, err, "the next")
		sc.release(ls)
		require.False(t, sc.is("a"))
		sc.release(sc.acquire(sc.e.Lock("a", Linger(MaxLinger))))
		require.True(t, sc.is("a"), "the next turn begins without others")
		sc.closes(other)
	})
}

// Close gives back what lingers; what is to be kept is kept for its holders.
func TestCloseGivesBackWhatLingers(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		play(t, func(sc *scene) {
			e := sc.another()
			e.cfg.KeepOnClose = keep
			sc.release(sc.acquire(e.Lock("a", Linger(MaxLinger))))
			sc.acquire(e.Lock("b", Linger(MaxLinger)))
			sc.closes(e)
			require.False(t, sc.is("a"))
			require.Equal(t, keep, sc.is("b"))
			sc.server.twin.Delete("b")
		})
	}
}

// What lingers and is lost is nobody's: nobody is told, it is counted, and who asks next begins anew.
func TestALossOfWhatLingersIsToldToNobody(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		events := sc.e.Events(100)
		l := sc.e.Lock("a", Linger(MaxLinger))
		first := sc.acquire(l)
		ctx := first.Context()
		sc.release(first)
		taken, err := result(sc, sc.e.Lock("a").ForceReleaseAsync(context.Background()))
		sc.wants(nil, err, "a ForceRelease")
		require.True(t, taken, "on the server it was held")
		require.False(t, sc.is("a"))
		sc.wants(ErrReleased, context.Cause(ctx), "who gave it back")
		st := sc.e.Stats()
		require.Equal(t, []int64{0, 1, 0}, []int64{st.Lost, st.LingersLost, st.Held})
		events.Stop()
		for ev := range events.C() {
			require.NotEqual(t, EventLost, ev.Kind)
		}
		next := sc.acquire(l)
		require.NotSame(t, first.hold, next.hold)
		sc.release(next)
	})
	// A renewal finds it gone, or the server says nothing for so long.
	for at := range time.Duration(40) {
		play(t, func(sc *scene) {
			sc.line = 10 * time.Millisecond // so that a turn lasts for 200 ms
			l := sc.e.Lock("a", WatchdogLease(MinWatchdogLease), Linger(MaxLinger))
			ls := sc.acquire(l)
			sc.w.Sleep(at * 4 * time.Millisecond)
			sc.release(ls)
			sc.server.twin.Delete("a")
			sc.w.Sleep(MaxLinger + 50*time.Millisecond)
			st := sc.e.Stats()
			require.Equal(t, []int64{0, 0, 0, 0}, []int64{st.Lost, st.Leaked, st.Held, st.Ghosts})
			sc.release(sc.acquire(l))
		})
	}
}

// A renewal in the meantime is no sign of a leak.
func TestWhatLingersIsNoLeak(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("a", WatchdogLease(MinWatchdogLease), Linger(MaxLinger))
		ls := sc.acquire(l)
		h := ls.hold
		sc.release(ls)
		require.True(t, h.Lingers())
		for range 2 * leakEvery {
			sc.renewed(h)
		}
		require.Zero(t, sc.e.Stats().Leaked)
	})
}

// The process did not run for as long as the lease: what lingered is not granted any more.
func TestWhatLingeredIsNotGrantedWhenItsLeaseIsHalfOver(t *testing.T) {
	t.Parallel()
	for _, slept := range []time.Duration{400, 700, 985, 1500} {
		play(t, func(sc *scene) {
			sc.lateTimers(5 * time.Second)
			l := sc.e.Lock("a", WatchdogLease(MinWatchdogLease), Linger(5*time.Millisecond))
			first := sc.acquire(l)
			sc.release(first)
			sc.w.Sleep(slept * time.Millisecond)
			require.True(t, first.hold.Held(), "the moment was missed")
			next := sc.acquire(l)
			require.Equal(t, slept < 500, next.hold == first.hold, "after %d ms", slept)
			require.False(t, next.Lost())
			sc.release(next)
		})
	}
}

// Nobody owns what lingers: its owner enters nothing, and who asks is its holder.
func TestWhatLingersIsNobodys(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		one, two := NewOwner(), NewOwner()
		l := sc.e.Lock("a", Linger(MaxLinger), As(one))
		outer := sc.acquire(l)
		inner := sc.acquire(l)
		sc.release(outer)
		require.Equal(t, 1, one.Holds(l))
		sc.release(inner)
		require.True(t, sc.is("a"))
		require.Equal(t, []int{0, 0}, []int{one.Holds(l), two.Holds(l)})
		ls := sc.acquire(l.With(NonReentrant()))
		require.Equal(t, 1, one.Holds(l))
		sc.release(ls)
		ls = sc.acquire(l.With(As(two)))
		require.Equal(t, []int{0, 1}, []int{one.Holds(l), two.Holds(l)})
		require.Equal(t, outer.hold, ls.hold)
		_, err := result(sc, l.TryAcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "who had it before")
		sc.release(ls)
	})
}

// The release that ends the lingering has no answer: who asks meanwhile waits for it, and has the lock.
func TestTheReleaseOfWhatLingeredHasNoAnswer(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("a", Linger(time.Millisecond))
		sc.release(sc.acquire(l))
		sc.slowed("release", -1)
		sc.w.Sleep(2*time.Millisecond + lingerLate)
		sc.slow = nil
		sc.release(sc.acquire(l))
		sc.w.Sleep(10 * time.Second)
		require.False(t, sc.is("a"))
	})
}

func TestWithoutHandOffNothingLingers(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.e.cfg.NoHandOff = true
		sc.release(sc.acquire(sc.e.Lock("a", Linger(MaxLinger))))
		require.False(t, sc.is("a"))
	})
}

// What several locks are released by lingers, too.
func TestSeveralLocksLinger(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		m := Multi(sc.e.Lock("a", Linger(5*time.Millisecond)), sc.e.Lock("b", Linger(5*time.Millisecond)))
		for range 3 {
			ml, err := result(sc, m.AcquireAsync(context.Background()))
			sc.wants(nil, err, "both")
			_, err = result(sc, ml.ReleaseAsync())
			sc.wants(nil, err, "both are held")
		}
		require.EqualValues(t, 4, sc.e.Stats().GrantsByLinger)
	})
}

func TestLingerIsForPlainLocks(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		e, five := sc.e, Linger(5*time.Millisecond)
		for i, c := range []struct {
			l    *Lock
			want error
		}{
			{e.Lock("a", Linger(time.Nanosecond)), nil},
			{e.Lock("a", Linger(MaxLinger)), nil},
			{e.Lock("a", Linger(0)), ErrLease},
			{e.Lock("a", Linger(-time.Second)), ErrLease},
			{e.Lock("a", Linger(MaxLinger+1)), ErrLease},
			{e.Lock("a", five, FixedLease(time.Second)), ErrLease},
			{e.Lock("a", FixedLease(time.Second), five), ErrLease},
			{e.Lock("a", five).With(FixedLease(time.Second)), ErrLease},
			{e.Lock("a", FixedLease(time.Second), five, WatchdogLease(time.Second)), nil},
			{e.Lock("a", five, Spin(time.Millisecond, time.Millisecond)), ErrLease},
			{e.Lock("a", Spin(time.Millisecond, time.Millisecond), five), ErrLease},
			{e.FencedLock("a", five).Lock, ErrLease},
			{e.FairLock("a", five).Lock, ErrLease},
			{e.RWLock("a", five).ReadLock(), ErrLease},
			{e.RWLock("a", five).WriteLock(), ErrLease},
		} {
			sc.wants(c.want, c.l.Err(), fmt.Sprint(i))
		}
		require.Equal(t, time.Millisecond, e.Lock("a", Linger(time.Nanosecond)).set.Linger)
	})
}

// Somebody elsewhere waits when lingering ends, after the turn. Who asks here while the release is on its way goes behind
// its answer, and leaves the lock to who waited before.
func TestWhoAsksWhileLingeringEndsGoesBehindItsRelease(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		l := sc.e.Lock("a", Linger(lockstate.TenureLeast+5*time.Millisecond))
		sc.release(sc.acquire(l))
		theirs := other.Lock("a").AcquireAsync(context.Background())
		for sc.e.Stats().Held > 0 {
			sc.w.Sleep(10 * time.Microsecond)
		}
		require.True(t, sc.is("a"), "the release is on its way")
		ours := l.AcquireAsync(context.Background())
		sc.w.Sleep(lockstate.YieldLeast / 2)
		if ls, _, told := ours.Result(); told {
			t.Error("it has overtaken who waited before")
			sc.release(ls)
		}
		ls, err := result(sc, theirs)
		sc.wants(nil, err, "who waits elsewhere")
		sc.release(ls)
		ls, err = result(sc, ours)
		sc.wants(nil, err, "who asked here")
		sc.release(ls)
		sc.closes(other)
	})
}
