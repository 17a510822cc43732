package engine

import (
	"context"
	"testing"
	"time"
)

// A queue that rests until answers have come is told of the last of them, wherever that one was asked for.

// Two readings that nobody wants any more are given back at once, one of the name's own queue and one beside what their
// owner read. A writer waits for both answers, and asks when the second has come, which is not that of its own queue.
func TestAQueueGoesOnWhenTheLastOfItsSeatsGivesBackIsAnswered(t *testing.T) {
	t.Parallel()
	for _, leases := range [][2]time.Duration{{20 * time.Second, 40 * time.Second}, {40 * time.Second, 20 * time.Second}} { // they order a batch
		play(t, func(sc *scene) {
			owner, seen := As(NewOwner()), WaitReplicas(1, time.Second)
			reads := sc.acquire(sc.e.RWLock("e", owner).ReadLock())
			sc.slowed("read", time.Millisecond)
			root := sc.e.RWLock("e", seen, WatchdogLease(leases[0])).ReadLock().AcquireAsync(context.Background())
			child := sc.e.RWLock("e", seen, WatchdogLease(leases[1]), owner).ReadLock().AcquireAsync(context.Background())
			sc.w.Sleep(500 * time.Microsecond)
			root.Cancel()
			child.Cancel()
			writes := sc.e.RWLock("e").WriteLock().AcquireAsync(context.Background())
			sc.release(reads)
			sc.w.Sleep(100 * time.Millisecond)
			ls, err, done := writes.Result()
			if !done || err != nil {
				t.Errorf("everything was given back long ago, and the writer waits: %v", err)
				return
			}
			sc.release(ls)
		})
	}
}
