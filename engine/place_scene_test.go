package engine

import (
	"context"
	"slices"
	"testing"
	"time"
)

// order waits for futures, gives back what each has got at once, and says in which order they had it, and when the last.
func (sc *scene) order(names []string, waits []*Future[*Lease]) (order []string, took time.Duration) {
	began, left := sc.w.Now(), len(waits)
	for i, f := range waits {
		sc.w.Go(names[i], func() {
			defer func() { left-- }()
			ls, err := result(sc, f)
			if err != nil {
				sc.t.Errorf("%s: %v", names[i], err)
				return
			}
			order = append(order, names[i])
			sc.release(ls)
		})
	}
	for range 1000 {
		if left == 0 {
			break
		}
		sc.w.Sleep(5 * time.Millisecond)
	}
	return order, sc.w.Now().Sub(began)
}

// The answer that a fair lock is granted takes as long as the lease: it cannot be trusted. Who waits asks again, and has it,
// before all who asked later.
func TestAFairLockGrantedTooLateIsGrantedToTheSame(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		var waits []*Future[*Lease]
		for _, l := range []*FairLock{sc.e.FairLock("g", FixedLease(300*time.Millisecond)), sc.e.FairLock("g"), other.FairLock("g")} {
			waits = append(waits, l.AcquireAsync(context.Background()))
			sc.w.Sleep(10 * time.Millisecond)
		}
		late := false
		sc.slow = func(args []string) time.Duration {
			if late || simScriptNames[scriptArg(args)] != "fair" {
				return 0
			}
			late = true
			return 280 * time.Millisecond
		}
		sc.release(held)
		order, took := sc.order([]string{"a1", "a2", "b1"}, waits)
		if !slices.Equal(order, []string{"a1", "a2", "b1"}) || took > 400*time.Millisecond {
			t.Errorf("served %v within %v", order, took)
		}
		if s := sc.e.Stats(); s.TooLate != 1 {
			t.Errorf("%d grants came too late", s.TooLate)
		}
		sc.closes(other)
	})
}

// A ForceRelease takes a fair lock from who was just granted it, and does not know yet. That one stands at the end of the
// queue now. The lock does not wait for it: who is first there asks.
func TestAFairLockThatAForceReleaseTakesFromAWaiterGoesToTheNext(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		var waits []*Future[*Lease]
		for _, e := range []*Engine{sc.e, sc.e, other} {
			waits = append(waits, e.FairLock("g").AcquireAsync(context.Background()))
			sc.w.Sleep(10 * time.Millisecond)
		}
		sc.slowed("fair", 5*time.Millisecond)
		sc.release(held)
		sc.w.Sleep(time.Millisecond) // the first has been told, and asks
		sc.slow = nil
		forced, err := result(sc, sc.e.FairLock("g").ForceReleaseAsync(context.Background()))
		sc.wants(nil, err, "the ForceRelease")
		if !forced {
			t.Error("nobody had the lock")
		}
		order, took := sc.order([]string{"a1", "a2", "b1"}, waits)
		if !slices.Equal(order, []string{"a2", "b1", "a1"}) || took > 200*time.Millisecond {
			t.Errorf("served %v within %v", order, took)
		}
		sc.closes(other)
	})
}

// Who was not heard for long has lost its place on the server, and comes to the end of the queue there. It stands at the end
// here, too: the first of those that are left is who hears of the release.
func TestWhoHasLostItsPlaceOfAFairLockStandsBehindTheOthersHereToo(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		var waits []*Future[*Lease]
		for range 3 {
			waits = append(waits, sc.e.FairLock("g").AcquireAsync(context.Background()))
			sc.w.Sleep(10 * time.Millisecond)
		}
		first := sc.server.twin.List("redisson_lock_queue:{g}")[0]
		for _, cmd := range [][]string{
			{"LREM", "redisson_lock_queue:{g}", "0", first},
			{"ZREM", "redisson_lock_timeout:{g}", first},
			{"ZREM", "{g}:fair_heard", first},
			{"ZREM", "{g}:fair_asked", first},
		} {
			sc.server.twin.Do(cmd)
		}
		sc.w.Sleep(2 * time.Second) // all have asked again
		sc.release(held)
		order, took := sc.order([]string{"a1", "a2", "a3"}, waits)
		if !slices.Equal(order, []string{"a2", "a3", "a1"}) || took > 100*time.Millisecond {
			t.Errorf("served %v within %v", order, took)
		}
		sc.closes(other)
	})
}
