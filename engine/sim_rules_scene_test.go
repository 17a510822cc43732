package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Who wanted to enter a fair lock again, and comes too late for that, stands behind those who have asked before: the
// first of them hears of the release. If it stood in the child of the hold that is over, nobody would be told.
func TestWhoComesTooLateToEnterAFairLockAgainIsBehindWhoAskedBefore(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		anybodys := sc.e.FairLock("g").Lock
		mine := anybodys.With(As(NewOwner()))
		ls := sc.acquire(mine)
		sc.slow = func(args []string) time.Duration {
			return map[string]time.Duration{"reacquire": 2 * time.Millisecond, "fair": 6 * time.Millisecond}[simScriptNames[scriptArg(args)]]
		}
		again := mine.AcquireAsync(context.Background())
		sc.w.Sleep(300 * time.Microsecond)
		first := anybodys.AcquireAsync(context.Background()) // its answer comes when the release has been sent
		again.Cancel()
		released := ls.ReleaseAsync()
		last := mine.AcquireAsync(context.Background())
		asked := sc.w.Now()
		for _, f := range []*Future[*Lease]{first, last} {
			ls, err := result(sc, f)
			if err != nil {
				t.Errorf("who waits: %v", err)
				return
			}
			if took := sc.w.Now().Sub(asked); took > 100*time.Millisecond {
				t.Errorf("granted after %v, not by a message", took)
			}
			sc.release(ls)
		}
		_, err := result(sc, released)
		sc.wants(nil, err, "the release")
	})
}

// An engine leaves a lock to others for a moment that it has just given back, and refuses a Try behind who waits for it
// here. Nobody has the lock then: least of all for ever.
func TestATryBehindWhoLeavesTheLockToOthersIsToldOfNoHolderForEver(t *testing.T) {
	t.Parallel()
	play(t, func(sc *scene) {
		if _, err := newSimSubs(sc.server, &world.Process{}).Subscribe(slot.LockChannel("a"), nobody{}); err != nil {
			t.Error(err)
		}
		sc.w.Sleep(10 * time.Millisecond)
		l := sc.e.Lock("a")
		sc.release(sc.acquire(l))
		waits := l.AcquireAsync(context.Background())
		_, err := result(sc, l.TryAcquireAsync(context.Background()))
		held := (*HeldError)(nil)
		if !errors.As(err, &held) || held.Remaining != 0 {
			t.Errorf("a Try behind who waits: %v", err)
		}
		ls, err := result(sc, waits)
		sc.wants(nil, err, "who waits")
		sc.release(ls)
	})
}

// A lock is lost, and its holder is just told. Nobody has it any more: a Try waits until that is done and is granted then, also
// as another kind, and whose MaxWait ends meanwhile is told of no holder.
func TestALockWhoseLossIsJustToldIsNobodys(t *testing.T) {
	t.Parallel()
	for _, kind := range []func(e *Engine) *Lock{
		func(e *Engine) *Lock { return e.Lock("a") },
		func(e *Engine) *Lock { return e.RWLock("a").WriteLock() },
		func(e *Engine) *Lock { return e.FairLock("a").Lock },
	} {
		play(t, func(sc *scene) {
			l := kind(sc.e)
			tried := []*Lock{l, sc.e.FencedLock("a").Lock, sc.e.RWLock("a").WriteLock()}
			for _, next := range tried {
				first := sc.acquire(l)
				sc.server.twin.Do([]string{"DEL", "a"})
				sc.w.OnYield(func(at string) {
					if at == "section.tellLoss: contexts cancelled | freed" {
						sc.w.Sleep(time.Second)
					}
				})
				sc.w.Go("lose", func() { sc.e.watchdog.Lose(first.hold, renew.CauseNotOurs) })
				sc.w.Sleep(time.Millisecond)
				_, err := result(sc, first.ReleaseAsync())
				sc.wants(ErrLost, err, "the release of what was lost")
				try := next.TryAcquireAsync(context.Background())
				sc.w.Sleep(2 * time.Second)
				sc.w.OnYield(nil)
				ls, err := result(sc, try)
				sc.wants(nil, err, "a Try")
				if err == nil {
					sc.release(ls)
				}
				sc.w.Sleep(time.Second)
			}
		})
	}
	play(t, func(sc *scene) {
		first := sc.acquire(sc.e.Lock("a"))
		sc.w.OnYield(func(at string) {
			if at == "section.tellLoss: contexts cancelled | freed" {
				sc.w.Sleep(time.Second)
			}
		})
		sc.w.Go("lose", func() { sc.e.watchdog.Lose(first.hold, renew.CauseNotOurs) })
		sc.w.Sleep(time.Millisecond)
		_, err := result(sc, sc.e.Lock("a", MaxWait(100*time.Millisecond)).AcquireAsync(context.Background()))
		sc.wants(ErrUnknown, err, "who waits")
		sc.w.OnYield(nil)
		sc.w.Sleep(2 * time.Second)
		_, err = result(sc, first.ReleaseAsync())
		sc.wants(ErrLost, err, "the release of what was lost")
	})
}

// The watchdog finds that the time of a lock is over, just when its owner enters it again. Either that entry keeps the lock,
// or it is refused: it is not granted to be lost at once. Nor is it extended.
func TestALockThatIsEnteredAgainInItsLastMomentIsKeptOrNotGranted(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]error{
		"Cohorts.fire: decided | a loss told":           nil,
		"Cohorts.Lose: the watch ended | the loss told": ErrLost,
		"Cohorts.fire: decided | given to the senders":  nil,
		"section.tellLoss: contexts cancelled | freed":  ErrLost,
	} {
		play(t, func(sc *scene) {
			owner := NewOwner()
			first := sc.acquire(sc.e.Lock("a", As(owner), FixedLease(200*time.Millisecond)))
			var again *Future[*Lease]
			var longer *Future[struct{}]
			sc.w.OnYield(func(here string) {
				if here == at && again == nil && sc.w.Now().Sub(first.hold.Deadline()) > -100*time.Millisecond {
					again = sc.e.Lock("a", As(owner), WatchdogLease(time.Second)).AcquireAsync(context.Background())
					longer = first.extend(context.Background(), time.Second)
					sc.w.Sleep(10 * time.Millisecond)
				}
			})
			sc.w.Sleep(3 * time.Second)
			sc.w.OnYield(nil)
			if again == nil {
				t.Errorf("%s: nobody came by", at)
				return
			}
			_, err := result(sc, longer)
			sc.wants(want, err, at)
			ls, err := result(sc, again)
			sc.wants(want, err, at)
			if err == nil {
				if ls.Lost() {
					t.Errorf("%s: it was granted, and lost", at)
				}
				sc.release(ls)
			}
			_, _ = result(sc, first.ReleaseAsync())
		})
	}
}

// Who asks for replicas travels on another connection, and may come to a fair lock's queue before or behind who has asked
// later here. The first there hears of the release, whichever it is, and of those who ask for none not more than one.
func TestTheFirstInTheServersQueueHearsOfAReleaseThoughItAskedLater(t *testing.T) {
	t.Parallel()
	overtaken := 0
	for seed := range uint64(20) {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1}, func(sc *scene) {
			sc.server.twin.Do([]string{"HSET", "g", "somebody", "1"})
			sc.server.twin.Do([]string{"PEXPIRE", "g", "60000"})
			var waits []*Future[*Lease]
			for _, opts := range [][]Option{{WaitReplicas(1, time.Second)}, {WaitReplicas(1, time.Second)}, nil, nil} {
				waits = append(waits, sc.e.FairLock("g", opts...).AcquireAsync(context.Background()))
			}
			sc.w.Sleep(50 * time.Millisecond)
			queue := sc.server.twin.List("redisson_lock_queue:{g}")
			l, listens := sc.e.FairLock("g"), 0
			for child := sc.e.shard(l.hash).names.get(l.hash, l.key).firstChild(); child != nil; child = child.nextChild() {
				hears := child.wakeups() != nil && child.wakeups().sub != nil
				if hears && !child.acks() {
					listens++
				}
				if first := child.Attempt().op.Field == queue[0]; first && !hears {
					t.Errorf("seed %d: the first in the queue, %s, hears nothing", seed, queue[0])
				} else if first && !child.acks() {
					overtaken++
				}
			}
			if listens > 1 {
				t.Errorf("seed %d: %d listen", seed, listens)
			}
			for _, f := range waits {
				f.Cancel()
			}
			sc.w.Sleep(100 * time.Millisecond)
			sc.server.twin.Do([]string{"DEL", "g"})
		})
	}
	if overtaken == 0 {
		t.Error("nobody has overtaken")
	}
}

// A holder here is told that it lost the lock before a ForceRelease is sent, also where another ForceRelease is just
// telling it.
func TestTheHolderIsToldBeforeEachOfTwoForceReleasesIsSent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		playAs(t, simPlan{seed: seed, engines: 1, owners: 1, yields: 500}, func(sc *scene) {
			l := sc.e.Lock("a")
			ls := sc.acquire(l)
			both := sc.w.NewLatch()
			left := 2
			for range 2 {
				sc.w.Go("force", func() {
					f := l.ForceReleaseAsync(context.Background())
					if !ls.Lost() {
						t.Error("a ForceRelease is sent, and the holder believes")
					}
					_, err := result(sc, f)
					sc.wants(nil, err, "a ForceRelease")
					if left--; left == 0 {
						both.Open()
					}
				})
			}
			both.WaitIn(context.Background())
		})
	}
}

// nobody is a waiter of another client.
type nobody struct{}

func (nobody) Wake(pubsub.WakeCause, string) {}
