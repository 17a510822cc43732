package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// redOf makes the lease of a RedLock by hand: of three locks, of which the first two have answered. That they are one
// engine's does not matter to it.
func (sc *scene) redOf(opts ...Option) (rl *RedLease, third *Lease) {
	sc.e.joints.watch = nil
	m := sc.e.MultiLock("a", "b", "c").With(opts...)
	rl = &RedLease{lock: &RedLock{m}, lead: sc.e, parts: make([]redPart, 3)}
	rl.group = newGroupContext(context.Background(), rl.Lost)
	for i := range 2 {
		rl.parts[i].lease.Store(sc.acquire(m.sorted[i]))
	}
	return rl, sc.acquire(m.sorted[2])
}

func TestRedWatchesAPartOnceThatJoinsWhileItBegins(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf()
		rl.join(2, third)
		rl.begin()
		for i, ls := range rl.granted() {
			if w := ls.hold.watches(); w != &rl.parts[i].watch || w.next != nil {
				sc.t.Fatalf("%q is not watched once", ls.Name()) // the list may be a ring: nothing may walk it
			}
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

func TestRedStopsRenewingWhatJoinsLater(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(WatchdogLease(time.Second))
		rl.begin()
		rl.StopRenewing()
		rl.join(2, third)
		sc.w.Sleep(2 * time.Second)
		if !third.Lost() || !rl.Lost() {
			sc.t.Error("what has joined is renewed")
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(ErrLost, err, "nothing was renewed")
	})
}

func TestRedExtendsWhatJoinsLater(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(FixedLease(time.Second))
		rl.begin()
		sc.wants(nil, rl.Extend(context.Background(), 10*time.Second), "all are held")
		rl.join(2, third)
		sc.w.Sleep(2 * time.Second)
		if third.Lost() || rl.Held() != 3 {
			sc.t.Error("what has joined has run out")
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all were extended")
	})
}

// A deadline does not say how long the command asked for that it comes from: so much the clocks may drift.
func TestRedTakesTheDriftOfWhatWasExtendedTo(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(FixedLease(time.Second))
		sc.release(third)
		rl.begin()
		extended := func(d time.Duration) {
			sc.wants(nil, rl.Extend(context.Background(), d), "all are held")
			want := rl.parts[0].lease.Load().hold.Deadline()
			want = min(want, rl.parts[1].lease.Load().hold.Deadline()).Add(-drift(d))
			if got := rl.validity(); got != want {
				sc.t.Errorf("extended to %v it is trusted for %v, and not for %v", d, got.Sub(sc.w.Now()), want.Sub(sc.w.Now()))
			}
		}
		extended(100 * time.Second)
		sc.w.Sleep(95 * time.Second)
		extended(20 * time.Second)
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all are held")
	})
}

// Its answer may be no, or never come.
func TestRedIsTrustedAsBeforeWhileAnExtendIsOnItsWay(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(FixedLease(time.Second))
		rl.begin()
		before := rl.validity()
		sc.slow = func([]string) time.Duration { return 400 * time.Millisecond }
		f := rl.extend(0, rl.parts[0].lease.Load(), time.Hour)
		g := rl.extend(1, rl.parts[1].lease.Load(), time.Hour)
		sc.w.Sleep(100 * time.Millisecond)
		if got := rl.validity(); got != before || rl.Lost() {
			sc.t.Errorf("it is trusted for %v, and was for %v", got, before)
		}
		await(sc.sim, f)
		await(sc.sim, g)
		sc.slow = nil
		if left := rl.validity().Sub(sc.w.Now()); left < 58*time.Minute || left > time.Hour*98/100 {
			sc.t.Errorf("extended to an hour it is trusted for %v", left)
		}
		_, err := result(sc, rl.ReleaseAsync())
		sc.wants(nil, err, "all are held")
		sc.release(third)
	})
}

// What one server has lost says nothing about the majority.
func TestRedExtendSaysLostOnlyWhenTheMajorityIs(t *testing.T) {
	play(t, func(sc *scene) {
		rl, third := sc.redOf(FixedLease(time.Minute))
		rl.join(2, third)
		rl.begin()
		sc.server.twin.Delete("a")
		silent := true
		sc.slow = func(args []string) time.Duration {
			if silent && slices.Contains(args, "c") {
				return -1
			}
			return 0
		}
		err := rl.Extend(context.Background(), 2*time.Minute)
		silent = false
		sc.wants(ErrUnknown, err, "one server has lost it, and one has not answered")
		if errors.Is(err, ErrLost) || rl.Lost() {
			sc.t.Errorf("two of three have it: %v", err)
		}
		sc.server.twin.Delete("b")
		sc.wants(ErrLost, rl.Extend(context.Background(), 2*time.Minute), "the majority is gone")
		_, err = result(sc, rl.ReleaseAsync())
		sc.wants(ErrLost, err, "the majority is gone")
	})
}

// One of three is held by somebody else, and of the others one is so far away that it never answers in a hurry.
func TestRedWaitsForAServerThatIsFarAwayNowAndThen(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.joints.watch = nil
		near, far := sc.another(), sc.another()
		held := sc.acquire(sc.e.Lock("a"))
		sc.slow = func(args []string) time.Duration {
			if slices.Contains(args, "c") {
				return 600 * time.Millisecond
			}
			return 0
		}
		r := Red(sc.e.Lock("a"), near.Lock("b"), far.Lock("c"))
		for range 5 {
			began := sc.w.Now()
			ls, err := result(sc, r.AcquireAsync(context.Background()))
			sc.wants(nil, err, "two of three are free")
			if took := sc.w.Now().Sub(began); took > 3*time.Second {
				sc.t.Errorf("it took %v", took)
			}
			_, err = result(sc, ls.ReleaseAsync())
			sc.wants(nil, err, "a majority was held")
		}
		sc.slow = nil
		sc.release(held)
		sc.closes(near)
		sc.closes(far)
	})
}
