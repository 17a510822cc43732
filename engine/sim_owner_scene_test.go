package engine

import (
	"context"
	"testing"
	"time"
)

// What an owner holds, or has lost, when an acquire of its own is answered decides, not what it held when it asked.

// unheard makes the server hear nothing of a call: what it sends is sent again much later.
func (sc *scene) unheard(call func()) {
	sc.server.dark = sc.w.Now().Add(2 * time.Millisecond)
	call()
	sc.w.Sleep(3 * time.Millisecond)
}

// Its reading is heard when what it was to stand beside was given back, and the owner writes: it reads beside that.
func TestAnOwnerThatWritesByNowDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	for what, opts := range map[string][]Option{"another lease": {WatchdogLease(20 * time.Second)}, "replicas": {WaitReplicas(1, time.Second)}} {
		play(t, func(sc *scene) {
			owner := As(NewOwner())
			rw := sc.e.RWLock("e", owner)
			r := sc.acquire(rw.ReadLock())
			var asks *Future[*Lease]
			sc.unheard(func() { asks = sc.e.RWLock("e", append(opts, owner)...).ReadLock().AcquireAsync(context.Background()) })
			sc.release(r)
			w := sc.acquire(rw.WriteLock())
			sc.w.Sleep(10 * time.Second)
			ls, err, done := asks.Result()
			if !done || err != nil {
				t.Errorf("%s: the reading is answered: %v, %v", what, done, err)
				asks.Cancel()
				return
			}
			sc.release(w)
			sc.release(ls)
		})
	}
}

// The same where nothing is held any more and something is lost: whether the name is free by then, or somebody else has it.
func TestAnOwnerThatHasLostTheLockByNowIsNotLetInAnew(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		play(t, func(sc *scene) {
			owner := As(NewOwner())
			rw := sc.e.RWLock("e", owner)
			brief := sc.acquire(sc.e.RWLock("e", owner, FixedLease(100*time.Millisecond)).ReadLock())
			r := sc.acquire(rw.ReadLock())
			var asks *Future[*Lease]
			sc.unheard(func() {
				asks = sc.e.RWLock("e", owner, WatchdogLease(20*time.Second)).ReadLock().AcquireAsync(context.Background())
			})
			sc.w.Sleep(200 * time.Millisecond)
			if !brief.Lost() {
				t.Error("the brief one is not lost")
			}
			sc.release(r)
			if taken {
				sc.server.twin.Do([]string{"HSET", "e", "mode", "write", "somebody:write", "1"})
				sc.server.twin.Do([]string{"PEXPIRE", "e", "5000"})
			}
			_, err := result(sc, rw.ReadLock().TryAcquireAsync(context.Background()))
			sc.wants(ErrLost, err, "who asks now")
			_, err = result(sc, asks)
			sc.wants(ErrLost, err, "who asked before")
			_, err = result(sc, brief.ReleaseAsync())
			sc.wants(ErrLost, err, "the release of what was lost")
			sc.release(sc.acquire(rw.ReadLock()))
		})
	}
}

// An owner gives its write lock back while it asks for more, and then loses what else it has: nothing that it asked for is
// granted any more.
func TestAnOwnerThatGivesBackAndLosesTheRestGetsNothingItAskedFor(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{false, true} {
		play(t, func(sc *scene) {
			owner := As(NewOwner())
			rw := sc.e.RWLock("e", owner)
			w := sc.acquire(rw.WriteLock())
			brief := sc.acquire(sc.e.RWLock("e", owner, FixedLease(100*time.Millisecond)).ReadLock())
			sc.slow = func(args []string) time.Duration {
				if name := simScriptNames[scriptArg(args)]; name == "read" || name == "reacquire" {
					return time.Second
				}
				return 0
			}
			lock := rw.WriteLock()
			if reads {
				lock = rw.ReadLock()
			}
			asks := lock.AcquireAsync(context.Background())
			sc.w.Sleep(time.Millisecond)
			given := w.ReleaseAsync()
			sc.w.Sleep(200 * time.Millisecond)
			if told := asks.state.Load() != futurePending; !brief.Lost() || told != reads { // the other is asked for by the hold
				t.Errorf("lost: %v, answered: %v", brief.Lost(), told)
			}
			_, err := result(sc, rw.ReadLock().AcquireAsync(context.Background()))
			sc.wants(ErrLost, err, "who asks now")
			_, err = result(sc, asks)
			sc.wants(ErrLost, err, "who asked before")
			_, err = result(sc, given)
			sc.wants(nil, err, "the release")
			_, err = result(sc, brief.ReleaseAsync())
			sc.wants(ErrLost, err, "the release of what was lost")
			sc.release(sc.acquire(rw.WriteLock()))
		})
	}
}

// A Try to write is granted while a ForceRelease of the read lock is on its way, which takes nothing: the grant is not
// believed, but it is not in the way of the Try either, which asks again.
func TestATryIsNotToldOfItsOwnGrantThatAForceReleaseCrossed(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		sc.slowed("force", 10*time.Millisecond)
		rw := sc.e.RWLock("e")
		tries := rw.WriteLock().TryAcquireAsync(context.Background())
		sc.w.Sleep(20 * time.Microsecond) // it is on its way
		forces := rw.ReadLock().ForceReleaseAsync(context.Background())
		took, err := result(sc, forces)
		if took || err != nil {
			t.Errorf("the ForceRelease: %v, %v", took, err)
		}
		ls, err := result(sc, tries)
		sc.wants(nil, err, "the Try")
		if err == nil {
			sc.release(ls)
		}
	})
}
