package enginetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What is counted works on the in-process server: taken, waited for, given back.
func TestEverythingThatIsCounted(t *testing.T) {
	s := enginetest.Start(t)
	a, b, ctx := s.NewEngine(), s.NewEngine(), testkit.Limited(t)
	set, err := a.Semaphore("s").TrySetPermits(ctx, 1)
	require.NoError(t, err)
	require.True(t, set)
	require.NoError(t, a.Semaphore("s").Acquire(ctx, 1))
	taken := b.Semaphore("s").AcquireAsync(ctx, 1)
	s.AwaitWaiters("s", 1)
	require.NoError(t, a.Semaphore("s").Release(ctx, 1))
	testkit.Get(t, taken)

	set, err = a.CountDownLatch("l").TrySetCount(ctx, 1)
	require.NoError(t, err)
	require.True(t, set)
	open := b.CountDownLatch("l").AwaitAsync(ctx)
	s.AwaitWaiters("l", 1)
	require.NoError(t, a.CountDownLatch("l").CountDown(ctx))
	testkit.Get(t, open)

	passed := b.Barrier("b", 2).AwaitAsync(ctx)
	s.AwaitWaiters("b", 1)
	require.NoError(t, a.Barrier("b", 2).Await(ctx))
	testkit.Get(t, passed)
	broken := b.Barrier("b", 2).AwaitAsync(ctx)
	s.AwaitWaiters("b", 1)
	_, err = a.Barrier("b", 2).Reset(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, testkit.GetError(t, broken), engine.ErrBarrierBroken)
}

func TestLosePermits(t *testing.T) {
	s := enginetest.Start(t)
	a, b, ctx := s.NewEngine(), s.NewEngine(func(c *engine.Config) { c.Prefix = "app:" }), testkit.Limited(t)
	renewed := engine.WatchdogLease(engine.DefaultLease)
	all := a.PermitSemaphore("app:s", renewed)
	set, err := all.TrySetPermits(ctx, 3)
	require.NoError(t, err)
	require.True(t, set)
	s.LosePermits("app:s") // nobody has any
	mine, err := all.Acquire(ctx, 2)
	require.NoError(t, err)
	theirs, err := b.PermitSemaphore("s", renewed).Acquire(ctx, 1)
	require.NoError(t, err)
	s.LosePermits("app:s")
	require.True(t, mine.Lost())
	require.True(t, theirs.Lost())
	require.ErrorIs(t, mine.Release(ctx), engine.ErrLost)
	free, err := all.AvailablePermits(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, free)
}

// What has no memory for an acquire has none for permits or at a barrier either.
func TestRefusalsOfWhatIsCounted(t *testing.T) {
	s := enginetest.Start(t)
	e, ctx := s.Engine(), testkit.Limited(t)
	_, err := e.Semaphore("s").TrySetPermits(ctx, 1)
	require.NoError(t, err)
	_, err = e.PermitSemaphore("p").TrySetPermits(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, e.Semaphore("s").Acquire(ctx, 1))
	s.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
	_, err = e.PermitSemaphore("p").TryAcquire(ctx, 1)
	require.Equal(t, engine.ClassOOM, testkit.ServerClass(err))
	require.Equal(t, engine.ClassOOM, testkit.ServerClass(e.Semaphore("s").TryAcquire(ctx, 1)))
	require.Equal(t, engine.ClassOOM, testkit.ServerClass(e.Barrier("b", 2, engine.MaxWait(time.Minute)).Await(ctx)))
	_, err = e.FencedLock("f").TryAcquire(ctx)
	require.Equal(t, engine.ClassOOM, testkit.ServerClass(err))
	require.NoError(t, e.Semaphore("s").Release(ctx, 1), "to give back needs none")
	require.NoError(t, e.CountDownLatch("l").Await(ctx), "nor to look at a latch")
	s.Refuse("READONLY You can't write against a read only replica.")
	_, err = e.PermitSemaphore("p").TryAcquire(ctx, 1)
	require.Equal(t, engine.ClassReadOnly, testkit.ServerClass(err))
	s.Accept()
	require.NoError(t, e.Semaphore("s").TryAcquire(ctx, 1))
}
