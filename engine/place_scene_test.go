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

// lines is what a scene sees of a fair lock's queue: on the server, and here.
func (sc *scene) lines(name string) (there, here []string) {
	l := sc.e.FairLock(name)
	for child := sc.e.shard(l.hash).names.get(l.hash, l.key).firstChild(); child != nil; child = child.nextChild() {
		if a := child.Attempt(); a != nil { // else it holds the lock
			here = append(here, a.op.Field)
		}
	}
	return slices.Clone(sc.server.twin.List("redisson_lock_queue:{" + name + "}")), here
}

// standsBehind has so many ask for a fair lock, one after the other.
func (sc *scene) standsBehind(name string, n int) (waits []*Future[*Lease]) {
	for range n {
		waits = append(waits, sc.e.FairLock(name).AcquireAsync(context.Background()))
		sc.w.Sleep(10 * time.Millisecond)
	}
	return waits
}

// losesPlace takes a waiter out of a fair lock's queue, as Redisson does; with all that is known of it there, if forgotten.
func (sc *scene) losesPlace(name, field string, forgotten bool) {
	sc.server.twin.Do([]string{"LREM", "redisson_lock_queue:{" + name + "}", "0", field})
	sets := []string{"redisson_lock_timeout:{" + name + "}"}
	if forgotten {
		sets = append(sets, "{"+name+"}:fair_heard", "{"+name+"}:fair_asked")
	}
	for _, set := range sets {
		sc.server.twin.Do([]string{"ZREM", set, field})
	}
}

// Redisson takes waiters of ours out that nobody has heard for long. They come back to their places, in whatever order they ask
// again: who asks before all others is last for a moment, and stands where it stood all the same.
func TestWhoComesBackToItsPlaceOfAFairLockStandsWhereItStood(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1}, func(sc *scene) {
			other := sc.another()
			held := sc.acquire(other.FairLock("g").Lock)
			waits := sc.standsBehind("g", 5)
			before, _ := sc.lines("g")
			for _, field := range before {
				sc.losesPlace("g", field, false)
			}
			sc.w.Sleep(2 * time.Second)
			if there, here := sc.lines("g"); !slices.Equal(there, before) || !slices.Equal(here, before) {
				t.Errorf("seed %d: there %v, and here %v; it was %v", seed, there, here, before)
			}
			sc.release(held)
			names := []string{"1", "2", "3", "4", "5"}
			if order, took := sc.order(names, waits); took > 100*time.Millisecond || !slices.Equal(order, names) {
				t.Errorf("seed %d: served %v within %v", seed, order, took)
			}
			sc.closes(other)
		})
	}
}

// The first question of one is answered, and the answer is lost; so it is not told that it has come last. Who comes again after
// that stands behind it.
func TestWhoWasNotToldOfItsPlaceOfAFairLockStandsBeforeWhoComesAgain(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		waits := sc.standsBehind("g", 2)
		sc.slowed("fair", -1)
		waits = append(waits, sc.e.FairLock("g").AcquireAsync(context.Background()))
		sc.w.Sleep(5 * time.Millisecond)
		sc.slow = nil
		sc.w.Sleep(4 * time.Second)
		there, _ := sc.lines("g")
		sc.losesPlace("g", there[0], true)
		sc.w.Sleep(2 * time.Second)
		if there, here := sc.lines("g"); len(there) != 3 || !slices.Equal(there, here) {
			t.Errorf("there %v, and here %v", there, here)
		}
		sc.release(held)
		if order, took := sc.order([]string{"a1", "a2", "a3"}, waits); !slices.Equal(order, []string{"a2", "a3", "a1"}) {
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
		waits := sc.standsBehind("g", 3)
		first := sc.server.twin.List("redisson_lock_queue:{g}")[0]
		sc.losesPlace("g", first, true)
		sc.w.Sleep(2 * time.Second) // all have asked again
		sc.release(held)
		order, took := sc.order([]string{"a1", "a2", "a3"}, waits)
		if !slices.Equal(order, []string{"a2", "a3", "a1"}) || took > 100*time.Millisecond {
			t.Errorf("served %v within %v", order, took)
		}
		sc.closes(other)
	})
}

// heldElsewhere plays a scene in which another engine holds a fair lock, with so many seeds.
func heldElsewhere(t *testing.T, seeds uint64, does func(sc *scene, held *Lease)) {
	t.Helper()
	for seed := range seeds {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1}, func(sc *scene) {
			other := sc.another()
			does(sc, sc.acquire(other.FairLock("g").Lock))
			sc.closes(other)
		})
	}
}

// thereStand waits until so many stand in the queue on the server.
func (sc *scene) thereStand(n int) (there []string) {
	sc.t.Helper()
	for range 1000 {
		if there, _ = sc.lines("g"); len(there) == n {
			return there
		}
		sc.w.Sleep(10 * time.Microsecond)
	}
	sc.t.Fatalf("there stand %v, not %d", there, n)
	return nil
}

// servedAsThere checks that the waiters of this engine stand here as they do on the server, gives back what is in their way, and
// checks that they are served in that order, each at once.
func (sc *scene) servedAsThere(held *Lease, waits []*Future[*Lease], want ...string) {
	sc.t.Helper()
	if there, here := sc.lines("g"); len(there) != len(waits) || !slices.Equal(there, here) {
		sc.t.Errorf("there %v, and here %v", there, here)
	}
	sc.release(held)
	names := []string{"a1", "a2", "a3", "a4"}[:len(waits)]
	if order, took := sc.order(names, waits); !slices.Equal(order, want) || took > 100*time.Millisecond {
		sc.t.Errorf("served %v within %v", order, took)
	}
}

// A waiter has lost its place, and comes to the end of the queue: that answer is lost.
func TestWhoComesLastToAFairLockStandsLastHereThoughTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		waits := sc.standsBehind("g", 3)
		there, _ := sc.lines("g")
		sc.losesPlace("g", there[0], true)
		lost := false
		sc.slow = func(args []string) time.Duration {
			if lost || !slices.Contains(args, there[0]) {
				return 0
			}
			lost = true
			return -1
		}
		sc.w.Sleep(4 * time.Second)
		if !lost {
			t.Error("no answer was lost")
		}
		sc.servedAsThere(held, waits, "a2", "a3", "a1")
		sc.closes(other)
	})
}

// The first question of one is carried out, its answer is lost, and so is all that is asked for a while. One that came before
// it is taken for dead meanwhile. That one comes again, first or last.
func TestWhoIsTakenForDeadInAnOutageStandsBehindWhomNobodyTold(t *testing.T) {
	t.Parallel()
	heldElsewhere(t, 10, func(sc *scene, held *Lease) {
		waits := sc.standsBehind("g", 1)
		sc.w.Sleep(800 * time.Millisecond)
		sc.slowed("fair", -1)
		waits = append(waits, sc.e.FairLock("g").AcquireAsync(context.Background()))
		there := sc.thereStand(2)
		sc.slow = nil
		sc.server.dark = sc.w.Now().Add(2500 * time.Millisecond)
		sc.losesPlace("g", there[0], true)
		sc.w.Sleep(6 * time.Second)
		sc.servedAsThere(held, waits, "a2", "a1")
	})
}

// The first question of one comes late to the server, over a connection that has broken: after that of one who asked later.
func TestWhoseQuestionIsLateStandsWhereItIsCarriedOut(t *testing.T) {
	t.Parallel()
	heldElsewhere(t, 10, func(sc *scene, held *Lease) {
		var late []string
		sc.slow = func(args []string) time.Duration {
			if simScriptNames[scriptArg(args)] != "fair" || late != nil {
				return 0
			}
			late = slices.Clone(args)
			return -1
		}
		waits := []*Future[*Lease]{sc.e.FairLock("g").AcquireAsync(context.Background())}
		sc.losesPlace("g", sc.thereStand(1)[0], true) // as if it were still on its way
		waits = append(waits, sc.e.FairLock("g").AcquireAsync(context.Background()))
		sc.thereStand(1)
		sc.server.twin.Do(late)
		sc.w.Sleep(3 * time.Second)
		sc.servedAsThere(held, waits, "a2", "a1")
	})
}

// One asks for replicas, over a connection of its own, and that question is lost on its way. Who asks later is first in the
// queue, and hears of the release.
func TestWhoIsInTheQueueHearsOfAReleaseThoughOneThatAskedBeforeHasNoAnswer(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		other := sc.another()
		held := sc.acquire(other.FairLock("g").Lock)
		sc.server.dark = sc.w.Now().Add(5 * time.Millisecond)
		waits := []*Future[*Lease]{sc.e.FairLock("g", WaitReplicas(1, time.Second)).AcquireAsync(context.Background())}
		sc.w.Sleep(5 * time.Millisecond)
		waits = append(waits, sc.standsBehind("g", 2)...)
		if there, here := sc.lines("g"); !slices.Equal(there, here[1:]) {
			t.Errorf("there %v, and here %v", there, here)
		}
		sc.release(held)
		sc.w.Sleep(10 * time.Millisecond)
		if n := sc.e.Stats().WokenByMessage; n != 1 {
			t.Errorf("%d have heard of the release", n)
		}
		if ls, err, done := waits[1].Result(); !done || err != nil {
			t.Errorf("who is first in the queue has it: %v, %v", done, err)
		} else {
			sc.release(ls)
		}
		if order, _ := sc.order([]string{"a1", "a3"}, []*Future[*Lease]{waits[0], waits[2]}); !slices.Equal(order, []string{"a3", "a1"}) {
			t.Errorf("served %v", order)
		}
		sc.closes(other)
	})
}

// Redis has evicted what has an end: when each has asked last, and when each has come. They stand where they stood all the same,
// and come back there when Redisson takes them out.
func TestWaitersOfAFairLockKeepTheirOrderThoughRedisEvictsWhenTheyCame(t *testing.T) {
	t.Parallel()
	for _, evicted := range [][]string{{"{g}:fair_asked"}, {"{g}:fair_heard"}, {"{g}:fair_asked", "{g}:fair_heard"}} {
		heldElsewhere(t, 5, func(sc *scene, held *Lease) {
			waits := sc.standsBehind("g", 3)
			for _, key := range evicted {
				sc.server.twin.Do([]string{"DEL", key})
			}
			waits = append(waits, sc.standsBehind("g", 1)...)
			before, _ := sc.lines("g")
			sc.w.Sleep(3 * time.Second)
			for _, field := range before {
				sc.losesPlace("g", field, false)
			}
			sc.w.Sleep(3 * time.Second)
			if there, _ := sc.lines("g"); !slices.Equal(there, before) {
				t.Errorf("without %v: it was %v, and is %v", evicted, before, there)
			}
			sc.servedAsThere(held, waits, "a1", "a2", "a3", "a4")
		})
	}
}

// One that asks for replicas is granted the lock, and waits for them, when a ForceRelease takes it away. The next in the queue is
// told at once, and hears it.
func TestTheNextHearsThatTheLockWasTakenFromOneThatWaitsForReplicas(t *testing.T) {
	t.Parallel()
	forcedAny := false
	for phase := range 10 {
		play(t, func(sc *scene) {
			other := sc.another()
			held := sc.acquire(other.FairLock("g").Lock)
			sc.server.twin.Acks = 0
			first := sc.e.FairLock("g", WaitReplicas(1, 900*time.Millisecond)).AcquireAsync(context.Background())
			sc.w.Sleep(time.Second)
			next := sc.standsBehind("g", 1)[0]
			sc.w.Sleep(time.Duration(phase) * 100 * time.Millisecond)
			sc.release(held)
			sc.w.Sleep(5 * time.Millisecond)
			forced, err := result(sc, other.FairLock("g").ForceReleaseAsync(context.Background()))
			sc.wants(nil, err, "the ForceRelease")
			began := sc.w.Now()
			ls, err := result(sc, next)
			sc.wants(nil, err, "the next")
			if took := sc.w.Now().Sub(began); forced && took > 100*time.Millisecond {
				t.Errorf("phase %d: the next has it after %v", phase, took)
			}
			forcedAny = forcedAny || forced
			sc.release(ls)
			first.Cancel()
			sc.w.Sleep(2 * time.Second)
			sc.closes(other)
		})
	}
	if !forcedAny {
		t.Error("nothing was taken away")
	}
}

// Redis has evicted when they came, and more wait than a script goes through. Who stands behind those is not known to stand
// anywhere: who is first there is first here all the same, and is named to the release.
func TestTheFirstOfManyIsFirstHereThoughRedisEvictsWhenTheyCame(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		held := sc.acquire(sc.e.FairLock("g").Lock)
		var waits []*Future[*Lease]
		for range 1010 {
			waits = append(waits, sc.e.FairLock("g").AcquireAsync(context.Background()))
			sc.w.Sleep(100 * time.Microsecond)
		}
		sc.w.Sleep(2 * time.Second)
		sc.server.twin.Do([]string{"DEL", "{g}:fair_asked"})
		sc.w.Sleep(3 * time.Second)
		waits[0].Cancel()
		sc.w.Sleep(3 * time.Second)
		there, _ := sc.lines("g")
		l := sc.e.FairLock("g")
		at := sc.e.shard(l.hash).names.get(l.hash, l.key).children().head
		for i, field := range there[:1000] {
			if at.Attempt().op.Field != field {
				t.Fatalf("%d here is %s, and there %s", i, at.Attempt().op.Field, field)
			}
			for at = at.nextChild(); at != nil && at.children().since == 0; at = at.nextChild() {
			}
		}
		sc.release(held)
		for _, w := range waits[1:4] {
			ls, err := result(sc, w)
			sc.wants(nil, err, "the next")
			sc.release(ls)
		}
		if n := sc.e.Stats().GrantsByHandOff; n < 3 {
			t.Errorf("%d were handed on", n)
		}
		for _, w := range waits[4:] {
			w.Cancel()
		}
		sc.w.Sleep(2 * time.Second)
	})
}
