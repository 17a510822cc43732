package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// move moves the slot of a name to another master.
func move(t *testing.T, c *redistest.Cluster, name string) (to *redistest.Server) {
	t.Helper()
	s := slot.Of(name)
	to = testkit.AnotherMaster(t, c, s)
	require.NoError(t, c.MoveSlot(testkit.Limited(t), s, to))
	return to
}

// moveListener moves the slot of a name whose one waiter listens on a channel, and returns when it listens at the new
// owner.
func moveListener(t *testing.T, c *redistest.Cluster, name, channel string) {
	t.Helper()
	to := move(t, c, name)
	testkit.Eventually(t, "the waiter listens at the new owner", func() bool {
		return to.Do(t, "PUBSUB", "SHARDNUMSUB", channel) == channel+"\n1"
	})
}

// dropCounted deletes what nothing ends, or only after an hour.
func dropCounted(t *testing.T, c *redistest.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		owner, err := c.Owner(testkit.Limited(t), slot.Of(name))
		require.NoError(t, err)
		owner.Do(t, "DEL", name, slot.CountedRequests(name))
	}
}

// TestClusterWhoIsCountedFollowsItsSlotAndHearsOfIt: a semaphore's slot and a latch's move while others wait for them.
func TestClusterWhoIsCountedFollowsItsSlotAndHearsOfIt(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	ctx := testkit.Limited(t)
	sa, sb := a.Semaphore("permits"), b.Semaphore("permits")
	la, lb := a.CountDownLatch("latch"), b.CountDownLatch("latch")
	set, err := sa.TrySetPermits(ctx, 3)
	require.NoError(t, err)
	require.True(t, set)
	for range 3 {
		set, err := la.TrySetCount(ctx, 2)
		require.NoError(t, err)
		require.True(t, set)
		opened := lb.AwaitAsync(t.Context())
		moveListener(t, c, "latch", slot.LatchChannelInCluster("latch"))
		afterPoll(t, b, func(ctx context.Context) error { _, err := lb.Count(ctx); return err })
		polls := b.Stats().GrantsByPoll
		require.NoError(t, la.CountDown(ctx))
		require.NoError(t, la.CountDown(ctx))
		testkit.Get(t, opened)

		require.NoError(t, sa.Acquire(ctx, 3))
		permits := sb.AcquireAsync(t.Context(), 2)
		moveListener(t, c, "permits", slot.SemaphoreChannel("permits"))
		afterPoll(t, b, func(ctx context.Context) error { _, err := sb.AvailablePermits(ctx); return err })
		require.NoError(t, sa.Release(ctx, 3))
		testkit.Get(t, permits)
		require.Equal(t, polls, b.Stats().GrantsByPoll, "not by the poll")
		require.NoError(t, sb.Release(ctx, 2))
	}
	free, err := sa.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, free)
	dropCounted(t, c, "permits", "latch")
	testkit.FinishCluster(t, c, a, b)
}

// A permitsLoad takes permits of one semaphore and gives them back.
type permitsLoad func(ctx context.Context, e *engine.Engine, name string, n int) (give func(context.Context) error, err error)

func plainPermits(ctx context.Context, e *engine.Engine, name string, n int) (func(context.Context) error, error) {
	sem := e.Semaphore(name)
	return func(ctx context.Context) error { return sem.Release(ctx, n) }, sem.Acquire(ctx, n)
}

func leasedPermits(ctx context.Context, e *engine.Engine, name string, n int) (func(context.Context) error, error) {
	permit, err := e.PermitSemaphore(name, engine.WatchdogLease(30*time.Second)).Acquire(ctx, n)
	return permit.Release, err
}

// TestClusterPermitsInSlotsThatMoveUnderLoad: none is made, none is lost, and nobody sees an error.
func TestClusterPermitsInSlotsThatMoveUnderLoad(t *testing.T) {
	t.Parallel()
	for kind, take := range map[string]permitsLoad{"plain": plainPermits, "leased": leasedPermits} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const names, permits, workers, rounds = 8, 3, 32, 40
			c := redistest.RunCluster(t, 3, 0)
			engines := []*engine.Engine{testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)}
			var all []string
			for i := range names {
				all = append(all, fmt.Sprint(kind, ":", i))
				owner, err := c.Owner(testkit.Limited(t), slot.Of(all[i]))
				require.NoError(t, err)
				owner.Do(t, "SET", all[i], fmt.Sprint(permits))
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var held [names]atomic.Int32
			var grants atomic.Int64
			var wg sync.WaitGroup
			errs := make(chan error, workers)
			for w := range workers {
				wg.Go(func() {
					for ctx.Err() == nil {
						i, n := rand.N(names), 1+rand.N(2)
						give, err := take(t.Context(), engines[w%len(engines)], all[i], n)
						if err == nil {
							if now := held[i].Add(int32(n)); now > permits {
								errs <- fmt.Errorf("%d of %d permits of %s are held", now, permits, all[i])
								return
							}
							grants.Add(1)
							held[i].Add(-int32(n))
							err = give(t.Context())
						}
						if err != nil {
							errs <- err
							return
						}
					}
				})
			}
			for round := range rounds {
				move(t, c, all[round%names])
			}
			stop()
			wg.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			require.Greater(t, grants.Load(), int64(500))
			for _, name := range all {
				owner, err := c.Owner(testkit.Limited(t), slot.Of(name))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(permits), owner.Do(t, "GET", name), name)
				require.False(t, testkit.Exists(t, owner, slot.PermitTimeouts(name)))
			}
			dropCounted(t, c, all...)
			testkit.FinishCluster(t, c, engines...)
		})
	}
}
