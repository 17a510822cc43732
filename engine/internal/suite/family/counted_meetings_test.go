package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// What a grant took that came too late is given back, though giving back is refused at first.
func TestASurplusIsGivenBackThoughThatIsRefusedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	setPermits(t, other.Semaphore("s"), 3)
	p.Refuse(testkit.ScriptCall("semaphorerelease"), 1, "NOPERM User app has no permissions to run the 'hset' command")
	p.Delay(0, 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.Semaphore("s").Acquire(ctx, 2), context.DeadlineExceeded)
	p.Delay(0, 0)
	testkit.Eventually(t, "all are free", func() bool {
		free, err := other.Semaphore("s").AvailablePermits(t.Context())
		return err == nil && free == 3
	})
	require.NoError(t, testkit.Close(e))
	semaphoreIsOver(t, s, "s", other)
}

// Nobody knows whether it was given: the engine goes on, and to give once more would count twice.
func TestAReleaseThatHadNoAnswerGoesOnThoughItIsRefusedThen(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	setPermits(t, other.Semaphore("s"), 3)
	require.NoError(t, e.Semaphore("s").Acquire(t.Context(), 2))
	p.DropCommand(testkit.ScriptCall("semaphorerelease"), 1)
	p.Refuse(testkit.ScriptCall("semaphorerelease"), 1, "NOAUTH Authentication required.")
	require.NoError(t, e.Semaphore("s").Release(t.Context(), 2))
	requireFree(t, other.Semaphore("s"), 3)

	// What is not sent again may have been done.
	p.DropReply(testkit.ScriptCall("semaphoreset"), 1, faultproxy.Cut)
	_, err := e.Semaphore("s").AddPermits(t.Context(), 1)
	require.ErrorIs(t, err, engine.ErrUnknown)
	require.False(t, engine.SafeToRetry(err), "%v", err)
	require.NotContains(t, err.Error(), "free by")
	requireFree(t, other.Semaphore("s"), 4)
	require.NoError(t, testkit.Close(e))
	semaphoreIsOver(t, s, "s", other)
}

// Tries that come at once are each asked for: none is refused for those before it.
func TestTriesOfASemaphoreThatComeTogetherAreEachAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem := e.Semaphore("s")
	setPermits(t, sem, 100)
	var all []*engine.Future[struct{}]
	for range 64 {
		all = append(all, sem.TryAcquireAsync(t.Context(), 1))
	}
	for _, f := range all {
		testkit.Get(t, f)
	}
	requireFree(t, sem, 36)
	semaphoreIsOver(t, s, "s", e)
}

// Who is mistaken about what stands under a name is refused, and changes nothing for those who are not.
func TestALatchIsNotASemaphoreForThoseWhoReleaseIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("x"), testkit.Limited(t)
	setCount(t, l, 3)
	waits := l.AwaitAsync(ctx)
	awaitWaits(t, e, 1)
	require.NoError(t, e.Semaphore("x").Release(ctx, 1), "the number is the latch's: that makes it one more")
	before, err := l.Count(ctx)
	require.NoError(t, err)
	require.Equal(t, 4, before)
	for i := range before {
		testkit.Pending(t, waits)
		require.NoError(t, l.CountDown(ctx))
		requireCount(t, l, before-1-i)
	}
	testkit.Get(t, waits)
	s.Do(t, "DEL", "x", slot.CountedRequests("x"))
	testkit.Finish(t, s, e)
}

// Whoever comes to a latch that others wait for sees for itself that it is closed, so that it is let in by the next
// opening, however short that is.
func TestWhoComesLaterToALatchIsLetInByItsNextOpening(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.NoSubscribe = true })
	b := testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, lb, 1)
	first := la.AwaitAsync(ctx)
	awaitWaits(t, a, 1)
	second := la.AwaitAsync(ctx)
	awaitWaits(t, a, 2)
	require.NoError(t, lb.CountDown(ctx))
	setCount(t, lb, 1)
	testkit.Get(t, first)
	testkit.Get(t, second)
	require.NoError(t, lb.CountDown(ctx))
	s.Do(t, "DEL", slot.CountedRequests("l"))
	testkit.Finish(t, s, a, b)
}
