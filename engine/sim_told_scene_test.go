package engine

import (
	"context"
	"testing"
	"time"
)

// kinds reads what a stream has told up to now.
func kinds(s *Events) (all []EventKind) {
	for {
		select {
		case ev, ok := <-s.C():
			if !ok {
				return all
			}
			all = append(all, ev.Kind)
		default:
			return all
		}
	}
}

func count(all []EventKind, kind EventKind) (n int) {
	for _, k := range all {
		if k == kind {
			n++
		}
	}
	return n
}

// Close gives back what is held, each handle of it: the stream tells of all of them, and of none twice whose release is
// just on its way.
func TestCloseTellsOfEachHandleThatItGivesBack(t *testing.T) {
	t.Parallel()
	for _, given := range []int{0, 1, 2} {
		play(t, func(sc *scene) {
			events := sc.e.Events(100)
			l := sc.e.Lock("a", As(NewOwner()))
			for _, ls := range []*Lease{sc.acquire(l), sc.acquire(l)}[:given] {
				ls.ReleaseAsync()
			}
			ctx, cancel := sc.w.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := sc.e.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			if all := kinds(events); count(all, EventHeld) != 2 || count(all, EventReleased) != 2 {
				t.Errorf("with %d given back: %v", given, all)
			}
		})
	}
}

// A lock that was given back or lost since the watchdog looked is in no jeopardy.
func TestNoJeopardyIsToldOfWhatIsOver(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		events := sc.e.Events(100)
		ls := sc.acquire(sc.e.Lock("a"))
		listener{sc.e}.Jeopardy(ls.hold)
		sc.release(ls)
		listener{sc.e}.Jeopardy(ls.hold)
		if n := count(kinds(events), EventJeopardy); n != 1 {
			t.Errorf("jeopardy was told of %d times", n)
		}
	})
}

// The watchdog may come to a lease only after its end: the process was suspended, or the machine is busy. Until then, too,
// nobody holds it, and a context that is asked for has ended.
func TestALeaseThatIsOverIsNotHeldAndHasNoContextBeforeTheWatchdogComesToIt(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := NewOwner()
		for _, l := range []*Lock{sc.e.RWLock("e", As(owner)).ReadLock(), sc.e.Lock("a", As(owner))} {
			ls := sc.acquire(l)
			sc.e.watchdog.Forget(ls.hold) // it does not come at all
			before := ls.Context()
			for !ls.Lost() {
				sc.w.Sleep(time.Millisecond)
			}
			if n := owner.Holds(l); n != 0 {
				t.Errorf("a lease that is over is held %d times", n)
			}
			for what, c := range map[string]context.Context{"asked for before": before, "asked for now": ls.Context()} {
				select {
				case <-c.Done():
				default:
					t.Errorf("its context, %s, has not ended", what)
				}
			}
			_, _ = result(sc, ls.ReleaseAsync())
		}
	})
}

// The release of a fair lock is passed on to a waiter here, which must not believe it: a ForceRelease is on its way. That is
// no hand-off.
func TestAGrantThatIsPassedOnAndNotBelievedIsNoHandOff(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		l := sc.e.FairLock("g").Lock
		ls := sc.acquire(l)
		waits := l.AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		sc.slowed("force", 50*time.Millisecond)
		released, forced := ls.ReleaseAsync(), l.ForceReleaseAsync(context.Background())
		_, err := result(sc, released)
		sc.wants(nil, err, "the release")
		if st := sc.e.Stats(); st.GrantsByHandOff != 0 {
			t.Errorf("%d grants, %d of them by hand-off", st.Grants, st.GrantsByHandOff)
		}
		_, err = result(sc, forced)
		sc.wants(nil, err, "the ForceRelease")
		next, err := result(sc, waits)
		sc.wants(nil, err, "who waits")
		sc.release(next)
	})
}

// A lock that was taken away elsewhere is held here until that is known, and its owner may have another kind of the name
// by then. Each is asked for by itself.
func TestAnOwnerIsToldOfEachKindOfLockThatItHoldsUnderAName(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		fair, plain := sc.e.FairLock("g", owner).Lock, sc.e.Lock("g", owner)
		was := sc.acquire(plain)
		other := sc.e.FairLock("g").Lock
		sc.server.twin.Delete("g")
		next := sc.acquire(other) // of nobody: an owner that holds one kind is refused another
		next.hold.owner = was.owner
		if n, m := was.owner.Holds(plain), was.owner.Holds(fair); n != 1 || m != 1 {
			t.Errorf("it holds the lock %d times, and the fair one %d times", n, m)
		}
		next.hold.owner = nil
		sc.release(next)
		_, _ = result(sc, was.ReleaseAsync())
	})
}
