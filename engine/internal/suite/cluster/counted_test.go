package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Permits are taken and given, and latches open, on every node; whoever waits elsewhere hears of it, hash tag or not.
func TestClusterSemaphoresAndLatchesAreHeardOf(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	ctx := testkit.Limited(t)
	var names []string
	for _, of := range testkit.NamesOf(c, 2) {
		names = append(names, of...)
	}
	for _, name := range append(names, "a{t}", "{t}b", "{t}{u}", "a{x}b") {
		la, lb := a.CountDownLatch("l"+name), b.CountDownLatch("l"+name)
		require.NoError(t, la.Err(), name)
		set, err := la.TrySetCount(ctx, 2)
		require.NoError(t, err, name)
		require.True(t, set)
		waits := lb.AwaitAsync(ctx)
		owner, err := c.Owner(ctx, slot.Of("l"+name))
		require.NoError(t, err)
		channel := slot.LatchChannelInCluster("l" + name)
		testkit.Eventually(t, "it hears", func() bool {
			return owner.Do(t, "PUBSUB", "SHARDNUMSUB", channel) == channel+"\n1"
		})
		testkit.Get(t, la.CountDownAsync(1))
		testkit.Pending(t, waits)
		began := time.Now()
		require.NoError(t, lb.CountDown(ctx))
		testkit.Get(t, waits)
		require.Less(t, testkit.Ran(began), testkit.Soon, name)
		set, err = la.TrySetCount(ctx, 1)
		require.NoError(t, err)
		require.True(t, set)
		gone, err := lb.Delete(ctx)
		require.NoError(t, err)
		require.True(t, gone)

		sa, sb := a.Semaphore("s"+name), b.Semaphore("s"+name)
		set, err = sa.TrySetPermits(ctx, 3)
		require.NoError(t, err, name)
		require.True(t, set)
		require.NoError(t, sb.Acquire(ctx, 2))
		require.ErrorIs(t, sa.TryAcquire(ctx, 2), engine.ErrNoPermits)
		given := sa.AcquireAsync(ctx, 3)
		require.NoError(t, sb.Release(ctx, 2))
		testkit.Get(t, given)
		gone, err = sa.Delete(ctx)
		require.NoError(t, err)
		require.True(t, gone)
		for _, key := range []string{slot.CountedRequests("l" + name), slot.CountedRequests("s" + name)} {
			owner, err := c.Owner(ctx, slot.Of(key))
			require.NoError(t, err)
			owner.Do(t, "DEL", key)
		}
	}
	testkit.FinishCluster(t, c, a, b)
}

// All of a generation pass on every node, hash tag or not, and those who wait elsewhere hear of it.
func TestClusterBarriersAreHeardOf(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	ctx := testkit.Limited(t)
	var names []string
	for _, of := range testkit.NamesOf(c, 2) {
		names = append(names, of...)
	}
	for _, name := range append(names, "a{t}", "{t}b", "{t}{u}", "a{x}b") {
		ba, bb := a.Barrier(name, 2), b.Barrier(name, 2)
		require.NoError(t, ba.Err(), name)
		waits := ba.AwaitAsync(ctx)
		owner, err := c.Owner(ctx, slot.Of(name))
		require.NoError(t, err)
		channel := slot.BarrierChannel(name)
		testkit.Eventually(t, "it hears", func() bool {
			return owner.Do(t, "PUBSUB", "SHARDNUMSUB", channel) == channel+"\n1"
		})
		testkit.Pending(t, waits)
		began := time.Now()
		require.NoError(t, bb.Await(ctx))
		testkit.Get(t, waits)
		require.Less(t, testkit.Ran(began), testkit.Soon, name)

		waits = ba.AwaitAsync(ctx)
		testkit.Eventually(t, "it waits", func() bool {
			n, err := bb.Waiting(ctx)
			return err == nil && n == 1
		})
		require.ErrorIs(t, b.Barrier(name, 3).Await(ctx), engine.ErrParties, "the other waits for two")
		done, err := bb.Reset(ctx)
		require.NoError(t, err)
		require.True(t, done)
		require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrBarrierBroken)
		owner.Do(t, "DEL", name)
	}
	testkit.FinishCluster(t, c, a, b)
}
