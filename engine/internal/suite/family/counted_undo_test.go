package family_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// What a take took whose answer is lost is given back before others of this engine take: the server remembers one take.
func TestATakeIsGivenBackThoughOthersTakeMeanwhile(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	setPermits(t, other.Semaphore("s"), 5)
	lost := p.DropReply(testkit.ScriptCall("semaphore"), 1, faultproxy.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	waits := e.Semaphore("s").AcquireAsync(ctx, 3)
	testkit.Await(t, lost.C(), "the reply was dropped")
	requireFree(t, other.Semaphore("s"), 2)
	undone := p.DropCommand(testkit.ScriptCall("semaphorerelease"), 4)
	cancel()
	require.ErrorIs(t, testkit.GetError(t, waits), context.Canceled)
	testkit.Await(t, undone.C(), "giving back was dropped")
	testkit.Await(t, undone.C(), "and again: the engine knows that it has failed")
	require.NoError(t, e.Semaphore("s").Acquire(t.Context(), 1))
	require.NoError(t, e.Semaphore("s").Release(t.Context(), 1))
	testkit.Eventually(t, "all are free", func() bool {
		free, err := other.Semaphore("s").AvailablePermits(t.Context())
		return err == nil && free == 5
	})
	require.NoError(t, testkit.Close(e))
	semaphoreIsOver(t, s, "s", other)
}

// A set is not sent again: whether it was done is not known.
func TestASetWhoseAnswerIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ctx := testkit.Limited(t)
	p.DropReply(testkit.ScriptCall("semaphoreset"), 1)
	_, err := e.Semaphore("s").TrySetPermits(ctx, 3)
	require.ErrorIs(t, err, engine.ErrUnknown)
	requireFree(t, e.Semaphore("s"), 3)
	p.DropReply(testkit.ScriptCall("latchset"), 1)
	_, err = e.CountDownLatch("l").TrySetCount(ctx, 3)
	require.ErrorIs(t, err, engine.ErrUnknown)
	p.DropReply(testkit.ScriptCall("latchset"), 1)
	requireCount(t, e.CountDownLatch("l"), 3)
	s.Do(t, "DEL", "l")
	semaphoreIsOver(t, s, "s", e)
}

// An engine whose callers take and give without a pause leaves permits to others.
func TestASemaphoreIsNotKeptByOneEngine(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	setPermits(t, sem, 1)
	over := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if sem.Acquire(context.WithoutCancel(ctx), 1) != nil || sem.Release(context.WithoutCancel(ctx), 1) != nil {
					return
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	testkit.Eventually(t, "they hand it out", func() bool { return e.Stats().GrantsByHandOff > 100 })
	for range 3 {
		require.NoError(t, other.Semaphore("s").Acquire(ctx, 1))
		require.NoError(t, other.Semaphore("s").Release(ctx, 1))
	}
	close(over)
	wg.Wait()
	requireFree(t, sem, 1)
	semaphoreIsOver(t, s, "s", e, other)
}

// Who comes when a latch was open and is closed again waits for the next opening, though others are let in by the last.
func TestANewcomerIsNotLetInByAnOpeningBeforeIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.NoSubscribe = true })
	b := testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, lb, 1)
	waits := la.AwaitAsync(ctx)
	awaitWaits(t, a, 1)
	require.NoError(t, lb.CountDown(ctx))
	setCount(t, lb, 1)
	next := la.AwaitAsync(ctx) // it is asked for with the first one
	testkit.Get(t, waits)
	awaitWaits(t, a, 2)
	testkit.Pending(t, next)
	require.NoError(t, lb.CountDown(ctx))
	testkit.Get(t, next)
	latchIsOver(t, s, "l", a, b)
}

// Whoever was told that a latch is open, and saw it closed after that, is not let in when it is lost.
func TestAMessageOfAnOpeningBeforeLetsNobodyIn(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, l, 2)
	waits := l.AwaitAsync(ctx)
	awaitWaits(t, e, 1)
	testkit.Eventually(t, "it hears", func() bool { return testkit.Int(t, s, "PUBLISH", slot.LatchChannel("l"), "1") == 1 })
	looks := testkit.CallsOf(t, s, "evalsha")
	s.Do(t, "PUBLISH", slot.LatchChannel("l"), "0")
	testkit.Eventually(t, "it has looked again", func() bool { return testkit.CallsOf(t, s, "evalsha") >= looks+3 })
	testkit.Pending(t, waits)
	s.Do(t, "DEL", "l")
	require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrLatchGone)
	testkit.Finish(t, s, e)
}

// To look takes nothing: there is nothing to give back.
func TestALookThatNobodyWaitsForLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.CountDownLatch("l")
	setCount(t, l, 5)
	lost := p.DropReply(testkit.ScriptCall("latch"), 1, faultproxy.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	waits := l.AwaitAsync(ctx)
	testkit.Await(t, lost.C(), "the reply was dropped")
	counts := testkit.WatchCommands(p, testkit.ScriptCall("latchdown"))
	cancel()
	require.ErrorIs(t, testkit.GetError(t, waits), context.Canceled)
	require.NoError(t, testkit.Close(e))
	require.Empty(t, counts)
	require.Equal(t, "5", s.Do(t, "GET", "l"))
	s.Do(t, "DEL", "l")
	testkit.Finish(t, s)
}

// Of what is released some goes to those who wait here; the rest is given back, and no more.
func TestWhatIsHandedOutIsNotGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	setPermits(t, sem, 4)
	for rounds := 0; e.Stats().GrantsByHandOff < 5; rounds++ {
		require.Less(t, rounds, 5000, "nothing is handed out")
		all, waits := sem.AcquireAsync(ctx, 4), sem.AcquireAsync(ctx, 1)
		testkit.Get(t, all)
		require.NoError(t, sem.Release(ctx, 4))
		testkit.Get(t, waits)
		require.NoError(t, sem.Release(ctx, 1))
		testkit.Eventually(t, "all are free, and no more", func() bool {
			free, err := sem.AvailablePermits(ctx)
			return err == nil && free == 4
		})
	}
	semaphoreIsOver(t, s, "s", e)
}
