package engine

import (
	"context"
	"slices"
	"testing"
	"time"
)

// What nobody waits for any more keeps no lock: scenes of callers who leave.

// Who waits for replicas and leaves gives the lock back at once, wherever the acquire is: on its way, or seen by too few.
func TestWhoLeavesTheWaitForReplicasGivesTheLockBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond} {
		for _, kind := range []func(e *Engine, opts ...Option) *Lock{
			func(e *Engine, opts ...Option) *Lock { return e.Lock("a", opts...) },
			func(e *Engine, opts ...Option) *Lock { return e.FencedLock("d", opts...).Lock },
			func(e *Engine, opts ...Option) *Lock { return e.RWLock("e", opts...).ReadLock() },
			func(e *Engine, opts ...Option) *Lock { return e.FairLock("g", opts...).Lock },
		} {
			play(t, func(sc *scene) {
				ctx, cancel := sc.w.WithCancel(context.Background())
				leaves := kind(sc.e, WaitReplicas(2, 14*time.Second)).AcquireAsync(ctx)
				sc.w.Sleep(after)
				if after == 30*time.Millisecond {
					cancel()
				} else if !leaves.Cancel() {
					t.Error("it has its result already")
				}
				name := leaves.op.(*acquireOp).lock.Name()
				sc.w.Sleep(200 * time.Millisecond) // the end of a ctx is seen by the engine's look
				if is, _ := sc.server.twin.Look(name); is != 0 {
					t.Errorf("%q is still held after its caller left, %v after it asked", name, after)
				}
				from := sc.w.Now()
				sc.release(sc.acquire(kind(sc.e)))
				ls := sc.acquire(kind(sc.e, WaitReplicas(1, time.Second)))
				if took := sc.w.Now().Sub(from); took > 50*time.Millisecond {
					t.Errorf("%q: who comes next waited %v", name, took)
				}
				sc.release(ls)
				cancel()
			})
		}
	}
}

// The next in the queue waits for what it asked for itself, not for what the one before did who has left; and where both
// ask for the same it takes that one's grant.
func TestTheNextDoesNotWaitForTheReplicasOfOneWhoLeft(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		for range 20 {
			leaves := sc.e.Lock("a", WaitReplicas(2, 14*time.Second)).AcquireAsync(context.Background())
			plain := sc.e.Lock("a").AcquireAsync(context.Background())
			fewer := sc.e.Lock("a", WaitReplicas(1, time.Second)).AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond)
			left := sc.w.Now()
			if !leaves.Cancel() {
				t.Error("it has its result already")
			}
			for _, f := range []*Future[*Lease]{plain, fewer} {
				ls, err := result(sc, f)
				sc.wants(nil, err, "the next")
				sc.release(ls)
			}
			if took := sc.w.Now().Sub(left); took > 50*time.Millisecond {
				t.Errorf("the next waited %v", took)
			}
		}
		ack := WaitReplicas(2, 2*time.Second)
		began, leaves := sc.w.Now(), sc.e.Lock("a", ack).AcquireAsync(context.Background())
		same := sc.e.Lock("a", ack).AcquireAsync(context.Background())
		sc.w.Sleep(time.Second)
		leaves.Cancel()
		_, err := result(sc, same)
		sc.wants(ErrNotReplicated, err, "who asked for the same")
		if took := sc.w.Now().Sub(began); took > 2100*time.Millisecond {
			t.Errorf("who asked for the same was told after %v", took)
		}
		sc.w.Sleep(10 * time.Millisecond) // what it had is given back
		leaves = sc.e.Lock("a", ack).AcquireAsync(context.Background())
		sc.w.Sleep(50 * time.Microsecond)
		leaves.Cancel()
		began = sc.w.Now()
		_, err = result(sc, sc.e.Lock("a", ack).AcquireAsync(context.Background()))
		sc.wants(ErrNotReplicated, err, "who asked when the one before had left")
		if took := sc.w.Now().Sub(began); took < 2*time.Second {
			t.Errorf("who asked when the one before had left was told after %v", took)
		}
	})
}

// An owner enters again, for replicas, and leaves: what it has can be given back at once.
func TestWhoLeavesTheWaitForReplicasOfAnEntryHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond, time.Second} {
		play(t, func(sc *scene) {
			as := As(NewOwner())
			outer := sc.acquire(sc.e.Lock("a", as))
			inner := sc.e.Lock("a", as, WaitReplicas(2, 14*time.Second)).AcquireAsync(context.Background())
			sc.w.Sleep(after)
			if !inner.Cancel() {
				t.Error("it has its result already")
			}
			from := sc.w.Now()
			sc.release(outer)
			sc.release(sc.acquire(sc.e.Lock("a")))
			if took := sc.w.Now().Sub(from); took > 50*time.Millisecond {
				t.Errorf("%v after it began: the give-back and the next acquire took %v", after, took)
			}
		})
	}
}

// Close returns within its bound though no answer comes any more, whatever was on its way.
func TestCloseEndsInTimeThoughNoAnswerComes(t *testing.T) {
	t.Parallel()
	for before := time.Duration(0); before < 4*time.Second; before += 370 * time.Millisecond {
		play(t, func(sc *scene) {
			given := sc.acquire(sc.e.Lock("a"))
			for _, l := range []*Lock{sc.e.Lock("b"), sc.e.FencedLock("d").Lock, sc.e.RWLock("e").ReadLock(), sc.e.FairLock("g").Lock} {
				sc.acquire(l)
			}
			sc.slow = func([]string) time.Duration { return time.Hour }
			released := given.ReleaseAsync()
			fresh := sc.e.Lock("c").AcquireAsync(context.Background())
			sc.w.Sleep(before)
			from := sc.w.Now()
			if err := sc.e.Close(context.Background()); err == nil {
				t.Error("Close says that all was well")
			}
			if took := sc.w.Now().Sub(from); took > 15*time.Second {
				t.Errorf("Close took %v", took)
			}
			_, err := result(sc, fresh)
			sc.wants(ErrClosed, err, "an acquire")
			_, err = result(sc, released)
			sc.wants(ErrUnknown, err, "a release")
		})
	}
}

// A reader wants no renewals any more. Others keep the hold renewed while they read; then it has what was left to it when it
// stopped, and not what was proven for them.
func TestAReaderThatStoppedIsTrustedForItsOwnLease(t *testing.T) {
	t.Parallel()
	for _, with := range []time.Duration{500 * time.Millisecond, 1900 * time.Millisecond, 5 * time.Second} {
		play(t, func(sc *scene) {
			rw := sc.e.RWLock("e", WatchdogLease(2*time.Second))
			reads, stops := sc.acquire(rw.ReadLock()), sc.acquire(rw.ReadLock())
			if reads.hold != stops.hold {
				t.Error("they do not share a hold")
			}
			stopped := sc.w.Now()
			stops.StopRenewing()
			sc.w.Sleep(with)
			if stops.Lost() {
				t.Errorf("lost after %v though another reader keeps the hold", with)
			}
			sc.release(reads)
			most := max(stopped.Add(2*time.Second), sc.w.Now().Add(MinFixedLease))
			if until := stops.hold.Deadline(); until > most {
				t.Errorf("trusted for %v longer than its lease", until.Sub(most))
			}
			sc.w.Sleep(most.Sub(sc.w.Now()))
			if !stops.Lost() {
				t.Error("it is not lost")
			}
			sc.w.Sleep(100 * time.Millisecond)
			if is, _ := sc.server.twin.Look("e"); is != 0 {
				t.Error("what nobody believes in stays")
			}
			_, err := result(sc, stops.ReleaseAsync())
			sc.wants(ErrLost, err, "its release")
		})
	}
}

// A writer that had to wait has the lock, and loses it: to a server that says so, to a key that is gone or is another's. Its
// note goes with it, and a reader waits for nobody.
func TestALostWriterLeavesNoNote(t *testing.T) {
	t.Parallel()
	for at, loses := range []func(sc *scene, w *Lease){
		func(sc *scene, w *Lease) { // it has expired there
			sc.server.twin.Do([]string{"DEL", "e"})
			sc.wants(ErrLost, w.Extend(context.Background(), time.Second), "an Extend")
		},
		func(sc *scene, w *Lease) { // somebody else reads
			sc.server.twin.Do([]string{"HDEL", "e", w.hold.Field})
			sc.server.twin.Do([]string{"HSET", "e", "mode", "read", "somebody", "1"})
			sc.server.twin.Do([]string{"SET", "{e}:somebody:rwlock_timeout:1", "1", "PX", "60000"})
			sc.server.twin.Do([]string{"PEXPIRE", "e", "60000"})
			sc.wants(ErrLost, w.Extend(context.Background(), time.Second), "an Extend")
		},
	} {
		play(t, func(sc *scene) {
			sc.server.twin.Do([]string{"HSET", "e", "mode", "read", "somebody", "1"})
			sc.server.twin.Do([]string{"PEXPIRE", "e", "20"})
			rw := sc.e.RWLock("e", As(NewOwner()))
			w := sc.acquire(sc.e.RWLock("e", FixedLease(time.Second)).WriteLock())
			if is, _ := sc.server.twin.Look("{e}:rwlock_writer"); is == 0 {
				t.Error("it left no note when it waited")
			}
			loses(sc, w)
			from := sc.w.Now()
			sc.release(sc.acquire(rw.ReadLock()))
			if took := sc.w.Now().Sub(from); took > 50*time.Millisecond {
				t.Errorf("%d: a reader waited %v for nobody", at, took)
			}
			_, err := result(sc, w.ReleaseAsync())
			sc.wants(ErrLost, err, "its release")
			sc.server.twin.Do([]string{"DEL", "e"})
		})
	}
}

// A release that was a change of a hold, or waits for what its owner asks to read, is told when nobody knows as early as one
// that stands alone: what comes of it in the end has no patience of its own.
func TestTheRestOfAChangeHasNoPatienceOfItsOwn(t *testing.T) {
	t.Parallel()
	const lone, attempt = 11 * time.Second, simAttempt + 200*time.Millisecond
	never := func(scripts ...string) func(args []string) time.Duration {
		return func(args []string) time.Duration {
			if slices.Contains(scripts, simScriptNames[scriptArg(args)]) {
				return time.Hour
			}
			return 0
		}
	}
	t.Run("GivenBackTwice", func(t *testing.T) {
		play(t, func(sc *scene) {
			l := sc.e.Lock("a", As(NewOwner()), WatchdogLease(time.Minute))
			outer, inner := sc.acquire(l), sc.acquire(l)
			sc.slow = never("reacquire", "release")
			from := sc.w.Now()
			first, last := inner.ReleaseAsync(), outer.ReleaseAsync()
			sc.w.Sleep(7 * time.Second)
			sc.slow = never("release")
			_, err := result(sc, first)
			sc.wants(nil, err, "the first")
			_, err = result(sc, last)
			sc.wants(ErrUnknown, err, "the last")
			if took := sc.w.Now().Sub(from); took > lone+attempt {
				t.Errorf("it was told after %v", took)
			}
			sc.slow = nil
			sc.w.Sleep(10 * time.Second)
		})
	})
	t.Run("Downgrade", func(t *testing.T) {
		play(t, func(sc *scene) {
			rw := sc.e.RWLock("e", As(NewOwner()), WatchdogLease(time.Minute))
			writes := sc.acquire(rw.WriteLock())
			sc.slow = never("read", "writerelease", "readrelease")
			from := sc.w.Now()
			reads, given := rw.ReadLock().AcquireAsync(context.Background()), writes.ReleaseAsync()
			_, err := result(sc, given)
			sc.wants(ErrUnknown, err, "the release of the write lock")
			_, err = result(sc, reads)
			sc.wants(ErrUnknown, err, "the reading")
			if took := sc.w.Now().Sub(from); took > lone {
				t.Errorf("it was told after %v", took)
			}
			sc.slow = nil
			sc.w.Sleep(10 * time.Second)
			if is, _ := sc.server.twin.Look("e"); is != 0 {
				t.Error("it is still held")
			}
		})
	})
	t.Run("Extend", func(t *testing.T) {
		play(t, func(sc *scene) {
			as := As(NewOwner())
			outer := sc.acquire(sc.e.Lock("a", as, FixedLease(time.Minute)))
			inner := sc.acquire(sc.e.Lock("a", as, FixedLease(2*time.Minute)))
			sc.slow = never("reacquire", "renew")
			from := sc.w.Now()
			first, extended := inner.ReleaseAsync(), outer.extend(context.Background(), time.Hour)
			sc.w.Sleep(7 * time.Second)
			sc.slow = never("renew")
			_, err := result(sc, first)
			sc.wants(nil, err, "the release")
			_, err = result(sc, extended)
			sc.wants(ErrUnknown, err, "the Extend")
			if took := sc.w.Now().Sub(from); took > lone+attempt {
				t.Errorf("it was told after %v", took)
			}
			sc.slow = nil
			sc.w.Sleep(10 * time.Second)
		})
	})
}

// The context of a lease ends before its deadline, however short the lease is and whenever it began: by the smaller of 75 ms
// and a quarter of the lease, less what a cohort takes.
func TestTheContextOfAShortLeaseEndsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		for _, lease := range []time.Duration{100, 101, 150, 200, 250, 299, 300, 301, 500} {
			for phase := range time.Duration(11) {
				sc.w.Sleep(phase * 5 * time.Millisecond)
				ls := sc.acquire(sc.e.Lock("a", FixedLease(lease*time.Millisecond)))
				ctx, deadline := ls.Context(), ls.hold.Deadline()
				early := min(75*time.Millisecond, lease*time.Millisecond/4)
				sc.w.Sleep(deadline.Add(-early).Sub(sc.w.Now()) - time.Millisecond)
				if ended(ctx) {
					t.Errorf("a lease of %d ms ends its context too early", lease)
				}
				sc.w.Sleep(deadline.Sub(sc.w.Now()))
				if !ended(ctx) {
					t.Errorf("a lease of %d ms: its context outlives it", lease)
				}
				_, err := result(sc, ls.ReleaseAsync())
				sc.wants(ErrLost, err, "its release")
			}
		}
	})
}

// A Try waits for each who left here, once: whatever is answered meanwhile goes on with the name, and looks at all who
// have left again.
func TestATryWaitsOnceForEachWhoLeft(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		g := sc.e.FairLock("g").Lock
		ls := sc.acquire(g)
		sc.slowed("acquire", 2*time.Millisecond)
		before := sc.e.Lock("a").AcquireAsync(context.Background())
		sc.w.Sleep(time.Millisecond)
		// Both travel together, the release first.
		released, leaves := ls.ReleaseAsync(), g.AcquireAsync(context.Background())
		sc.slowed("fair", time.Millisecond)
		_, err := result(sc, before)
		sc.wants(nil, err, "what is before them")
		sc.w.Sleep(200 * time.Microsecond)
		if !leaves.Cancel() {
			t.Error("it has its result already")
		}
		from := sc.w.Now()
		ctx, cancel := sc.w.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		again, err := result(sc, sc.e.FairLock("g", WaitReplicas(1, time.Second)).TryAcquireAsync(ctx))
		sc.wants(nil, err, "a Try")
		if err == nil {
			sc.release(again)
		}
		if took := sc.w.Now().Sub(from); took > 20*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		_, err = result(sc, released)
		sc.wants(nil, err, "the release")
	})
}

// Who asks behind a Try that waits for such a one does not overtake it.
func TestWhoAsksBehindATryThatWaitsForLeaversStaysBehindIt(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		g := sc.e.FairLock("g").Lock
		sc.release(sc.acquire(g))
		sc.w.Sleep(50 * time.Millisecond)
		sc.slow = func([]string) time.Duration { return 2 * time.Millisecond }
		leaves := g.AcquireAsync(context.Background())
		sc.w.Sleep(time.Millisecond)
		if !leaves.Cancel() {
			t.Error("it has its result already")
		}
		try, later := g.TryAcquireAsync(context.Background()), g.AcquireAsync(context.Background())
		ls, err := result(sc, try)
		sc.wants(nil, err, "the Try")
		if err == nil {
			sc.release(ls)
		}
		ls, err = result(sc, later)
		sc.wants(nil, err, "who asked behind it")
		sc.release(ls)
	})
}

// A Try does not wait for one who has left, where that one's question stands behind the replicas of another name: also
// where it has a place in the queue, which is an answer, and no reason to wait. It asks again once a second, at one of these times.
func TestATryDoesNotWaitForTheReplicasOfAnotherName(t *testing.T) {
	t.Parallel()
	for phase := range 50 {
		play(t, func(sc *scene) {
			g, seen := sc.e.FairLock("g").Lock, sc.e.FairLock("g", WaitReplicas(1, time.Second)).Lock
			held, leaves := sc.acquire(g), (*Future[*Lease])(nil)
			placed := phase > 0
			if placed {
				leaves = seen.AcquireAsync(context.Background())
				sc.w.Sleep(50 * time.Millisecond)
			}
			other := sc.e.Lock("other", WaitReplicas(2, 10*time.Second)).AcquireAsync(context.Background())
			sc.w.Sleep(800*time.Millisecond + time.Duration(phase)*10*time.Millisecond)
			sc.release(held)
			if !placed {
				leaves = seen.AcquireAsync(context.Background())
				sc.w.Sleep(5 * time.Millisecond)
			}
			left := leaves.Cancel()
			from := sc.w.Now()
			ls, err := result(sc, g.TryAcquireAsync(context.Background()))
			if took := sc.w.Now().Sub(from); took > 20*time.Millisecond {
				t.Errorf("phase %d: it took %v", phase, took)
			}
			switch {
			case err == nil:
				sc.release(ls)
			case left && !placed:
				t.Error(err)
			}
			if !left { // it was passed on, or had just been granted
				ls, err := result(sc, leaves)
				sc.wants(nil, err, "who did not leave")
				sc.release(ls)
			}
			_, err = result(sc, other)
			sc.wants(ErrNotReplicated, err, "the other")
		})
	}
}
