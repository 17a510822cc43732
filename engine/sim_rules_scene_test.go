package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Who wanted to enter a fair lock again, and comes too late for that, stands behind those who have asked before: the
// first of them hears of the release. If it stood in the seat of the hold that is over, nobody would be told.
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

func (nobody) Wake(resp.WakeCause, string) {}
