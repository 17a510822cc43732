package engine

import (
	"context"
	"errors"
	"testing"
	"time"
)

// How long a hold is renewed, in a simulated world: nothing is late there but what a test makes late.

// kept lives for a while and requires that a lease is never trusted for less than least, nor its key gone sooner.
func (sc *scene) kept(ls *Lease, least, lasts time.Duration) {
	for end := sc.w.Now().Add(lasts); sc.w.Now().Before(end); sc.w.Sleep(5 * time.Millisecond) {
		trusted, lives := ls.hold.Deadline().Sub(sc.w.Now()), sc.lives(ls.Name())
		if ls.Lost() || trusted < least || lives < trusted {
			sc.t.Errorf("%q: trusted for %v, the key lives %v, lost: %v", ls.Name(), trusted, lives, ls.Lost())
			return
		}
	}
}

// runsOut waits until a lease is lost, which must be when its time is over: it is renewed no more.
func (sc *scene) runsOut(ls *Lease) {
	done, trusted := ls.Context().Done(), ls.hold.Deadline()
	for told := false; !told; {
		select {
		case <-done:
			told = true
		default:
			if sc.w.Now().After(trusted) {
				sc.t.Errorf("%q lasts, and was trusted until %v ago", ls.Name(), sc.w.Now().Sub(trusted))
				return
			}
			sc.w.Sleep(time.Millisecond)
		}
	}
	if early := trusted.Sub(sc.w.Now()); early > ls.set.Lease/4 || !errors.Is(context.Cause(ls.Context()), ErrLost) {
		sc.t.Errorf("%q has ended %v before its time: %v", ls.Name(), early, context.Cause(ls.Context()))
	}
	_, err := result(sc, ls.ReleaseAsync())
	sc.wants(ErrLost, err, "the release of what ran out")
}

func TestWatchdogKeepsALeaseOfOneSecondWellAboveItsEnd(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("name", WatchdogLease(time.Second)))
		sc.kept(ls, 600*time.Millisecond, 3500*time.Millisecond) // renewed each third
		stats := sc.e.Stats().Renewals
		if stats.Sent < 9 || stats.Sent > 16 || stats.Failed != 0 || stats.Watched != 1 {
			t.Errorf("three a second at least, in three and a half, and not many more: %+v", stats)
		}
		sc.release(ls)
		if n := sc.e.Stats().Renewals.Watched; n != 0 {
			t.Errorf("%d are watched when nothing is held", n)
		}
	})
}

// The promise of WatchdogLease: round trips of less than a third of the lease lose nothing.
func TestAWatchdogLeaseSurvivesASlowLine(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("name", WatchdogLease(3*time.Second)))
		sc.kept(ls, 0, time.Second) // the connections stand
		sc.line = 300 * time.Millisecond
		sc.kept(ls, 900*time.Millisecond, 10*time.Second)
		if failed := sc.e.Stats().Renewals.Failed; failed != 0 {
			t.Errorf("%d renewals failed", failed)
		}
		sc.line = 0
		sc.release(ls)
	})
}

func TestStopRenewingLetsTheLeaseRunOut(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		ls := sc.acquire(sc.e.Lock("name", WatchdogLease(time.Second)))
		sc.kept(ls, 600*time.Millisecond, 2*time.Second)
		ls.StopRenewing()
		sc.runsOut(ls)
		if sc.w.Sleep(time.Second); sc.lives("name") > 0 {
			t.Error("it was renewed")
		}
		ls = sc.acquire(sc.e.Lock("name", WatchdogLease(time.Minute)))
		ls.StopRenewing()
		sc.release(ls) // it can still be released in time
	})
}

// A reader that wants no renewal any more is renewed for as long as others share its hold, and no longer.
func TestStopRenewingOfOneOfSeveralReaders(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.RWLock("rw", WatchdogLease(2*time.Second)).ReadLock()
		one, two := sc.acquire(l), sc.acquire(l)
		if one.OwnerID() != two.OwnerID() {
			t.Error("they do not share a hold")
		}
		one.StopRenewing()
		one.StopRenewing()
		sc.kept(one, time.Second, 20*time.Second)
		sc.release(two)
		sc.runsOut(one)
	})
}

func TestStopRenewingOfOneHandleIsNotUndoneByAnother(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("name", As(NewOwner()), WatchdogLease(time.Second))
		stopped := sc.acquire(l)
		stopped.StopRenewing()
		inner := sc.acquire(l)
		sc.kept(inner, 500*time.Millisecond, 5*time.Second)
		sc.release(inner)
		sc.runsOut(stopped)
	})
}

func TestStopRenewingOfOneHandleLeavesTheOthersRenewed(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("name", As(NewOwner()), WatchdogLease(time.Second))
		outer, inner := sc.acquire(l), sc.acquire(l)
		inner.StopRenewing()
		inner.StopRenewing()
		sc.kept(outer, 500*time.Millisecond, 5*time.Second)
		sc.release(inner)
		sc.kept(outer, 500*time.Millisecond, 5*time.Second)
		sc.release(outer)
	})
}

func TestANestedLongerWatchdogLeaseIsRenewedWithItsOwnLength(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		outer := sc.acquire(sc.e.Lock("name", owner, WatchdogLease(time.Second)))
		inner := sc.acquire(sc.e.Lock("name", owner, WatchdogLease(3*time.Second)))
		sc.kept(outer, 1500*time.Millisecond, 5*time.Second)
		sc.release(outer)
		sc.kept(inner, 1500*time.Millisecond, 5*time.Second)
		sc.release(inner)
	})
}

func TestAWatchdogLeaseInsideAShortFixedOneIsRenewedLikeAnyOther(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		outer := sc.acquire(sc.e.Lock("name", owner, FixedLease(100*time.Millisecond)))
		inner := sc.acquire(sc.e.Lock("name", owner, WatchdogLease(2*time.Second)))
		sc.release(outer)
		sc.kept(inner, time.Second, 2*time.Second)
		if sent := sc.e.Stats().Renewals.Sent; sent > 4 {
			t.Errorf("%d renewals, and not one in a third of its own lease", sent)
		}
		sc.server.dark = sc.w.Now().Add(300 * time.Millisecond) // three times the fixed lease
		sc.kept(inner, 500*time.Millisecond, 2*time.Second)
		sc.release(inner)
	})
}

func TestMaxHoldOfOneHandleEndsNoOther(t *testing.T) {
	t.Parallel()
	for _, released := range []bool{false, true} {
		play(t, func(sc *scene) {
			l := sc.e.Lock("name", As(NewOwner()), WatchdogLease(time.Second))
			outer, inner := sc.acquire(l.With(MaxHold(time.Second))), sc.acquire(l)
			if released {
				sc.release(outer)
			}
			sc.kept(inner, 500*time.Millisecond, 5*time.Second)
			if !released {
				sc.release(outer)
			}
			sc.release(inner)
		})
	}
}

func TestMaxHoldOfTheInnerHandleEndsWithIt(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.Lock("name", As(NewOwner()), WatchdogLease(time.Second))
		outer, inner := sc.acquire(l), sc.acquire(l.With(MaxHold(time.Second)))
		began := sc.w.Now()
		sc.release(outer)
		sc.kept(inner, 500*time.Millisecond, 950*time.Millisecond)
		sc.w.Sleep(100 * time.Millisecond)
		sc.runsOut(inner)
		if held := sc.w.Now().Sub(began); held > 2*time.Second {
			t.Errorf("held for %v", held)
		}
	})
}

func TestC020_MaxHoldEndsALeaseThatNobodyReleases(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		began := sc.w.Now()
		ls := sc.acquire(sc.e.Lock("name", WatchdogLease(time.Second), MaxHold(1500*time.Millisecond)))
		done := ls.Context().Done()
		next := sc.e.Lock("name").AcquireAsync(context.Background())
		sc.kept(ls, 500*time.Millisecond, 1490*time.Millisecond)
		sc.w.Sleep(20 * time.Millisecond)
		if _, _, told := next.Result(); told {
			t.Error("the next has it already")
		}
		sc.runsOut(ls)
		select {
		case <-done:
		default:
			t.Error("its context goes on")
		}
		if held := sc.w.Now().Sub(began); held > 2500*time.Millisecond {
			t.Errorf("held for %v: it is one lease longer at most", held)
		}
		ended := sc.w.Now()
		then, err := result(sc, next)
		sc.wants(nil, err, "whoever waits")
		if waited := sc.w.Now().Sub(ended); waited > 100*time.Millisecond {
			t.Errorf("whoever waits is served %v later", waited)
		}
		sc.release(then)
	})
}
