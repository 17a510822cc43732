package family_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func setCount(t *testing.T, l *engine.CountDownLatch, n int) {
	t.Helper()
	set, err := l.TrySetCount(testkit.Limited(t), n)
	require.NoError(t, err)
	require.True(t, set)
}

func requireCount(t *testing.T, l *engine.CountDownLatch, n int) {
	t.Helper()
	count, err := l.Count(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, n, count)
}

// parked returns when n waiters of an engine were told that the latch is closed.
func awaitWaits(t *testing.T, e *engine.Engine, n int64) {
	t.Helper()
	testkit.Eventually(t, "they wait", func() bool { return e.Stats().Waits >= n })
}

// awaitHears waits until who waits hears of openings, and has seen the latch closed since: before that it takes what is
// gone for opened.
func awaitHears(t *testing.T, s *redistest.Server) {
	t.Helper()
	looks := int64(0)
	testkit.Eventually(t, "it hears", func() bool {
		looks = testkit.CallsOf(t, s, "evalsha")
		return testkit.Int(t, s, "PUBLISH", slot.LatchChannel("l"), "1") == 1
	})
	testkit.Eventually(t, "it looks", func() bool { return testkit.CallsOf(t, s, "evalsha") > looks })
}

func TestALatchOpensForEverybodyWhenItIsZero(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	requireCount(t, la, 0)
	require.NoError(t, la.Await(ctx), "what has no count is open")
	require.NoError(t, la.CountDown(ctx), "counting it down changes nothing")
	requireCount(t, la, 0)
	setCount(t, la, 3)
	set, err := lb.TrySetCount(ctx, 5)
	require.NoError(t, err)
	require.False(t, set)
	var all []*engine.Future[struct{}]
	for range 100 {
		all = append(all, la.AwaitAsync(ctx), lb.AwaitAsync(ctx))
	}
	awaitWaits(t, a, 100)
	awaitWaits(t, b, 100)
	require.ErrorIs(t, la.With(engine.MaxWait(100*time.Millisecond)).Await(ctx), engine.ErrNotOpen)
	require.NoError(t, lb.CountDown(ctx))
	testkit.Get(t, la.CountDownAsync(1))
	requireCount(t, lb, 1)
	for _, f := range all {
		testkit.Pending(t, f)
	}
	began := time.Now()
	require.NoError(t, la.CountDown(ctx))
	for _, f := range all {
		testkit.Get(t, f)
	}
	require.Less(t, testkit.Ran(began), testkit.Soon, "they were told")
	requireCount(t, lb, 0)
	require.False(t, testkit.Exists(t, s, "l"), "as Redisson leaves it")
	require.NoError(t, lb.Await(ctx))
	s.Do(t, "DEL", slot.CountedRequests("l"))
	testkit.Finish(t, s, a, b)
}

// Who waits is let in by the opening, though the latch has another count when they come to look.
func TestALatchThatIsSetAgainAtOnceLetsThoseInWhoWaited(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.NoSubscribe = true })
	b := testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, lb, 1)
	waits := la.AwaitAsync(ctx)
	awaitWaits(t, a, 1)
	require.NoError(t, lb.CountDown(ctx))
	setCount(t, lb, 2)
	testkit.Get(t, waits)
	next := la.AwaitAsync(ctx)
	awaitWaits(t, a, 2)
	testkit.Pending(t, next)
	testkit.Get(t, lb.CountDownAsync(5))
	testkit.Get(t, next)
	requireCount(t, lb, 0)
	s.Do(t, "DEL", slot.CountedRequests("l"))
	testkit.Finish(t, s, a, b)
}

func TestALatchThatIsDeletedOrLostIsNotOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	for what, end := range map[string]func(){
		"deleted": func() {
			gone, err := lb.Delete(ctx)
			require.NoError(t, err)
			require.True(t, gone)
		},
		"lost":              func() { s.Do(t, "DEL", "l") },
		"everything lost":   func() { s.Do(t, "FLUSHALL") },
		"deleted by a Java": func() { s.Do(t, "DEL", "l"); s.Do(t, "PUBLISH", slot.LatchChannel("l"), "1") },
	} {
		setCount(t, lb, 2)
		before := a.Stats().Waits
		waits := la.AwaitAsync(ctx)
		awaitWaits(t, a, before+1)
		awaitHears(t, s)
		require.NoError(t, lb.CountDown(ctx))
		testkit.Pending(t, waits)
		end()
		require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrLatchGone, what)
	}
	gone, err := lb.Delete(ctx)
	require.NoError(t, err)
	require.False(t, gone)
	s.Do(t, "DEL", slot.CountedRequests("l"))
	testkit.Finish(t, s, a, b)
}

// Redisson leaves no note when it opens a latch: its message says so.
func TestALatchThatRedissonOpensIsOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a := testkit.Open(t, s.Addr())
	la, ctx := a.CountDownLatch("l"), testkit.Limited(t)
	for i := range 40 {
		setCount(t, la, 1)
		before := a.Stats().Waits
		waits := la.AwaitAsync(ctx)
		awaitWaits(t, a, before+1)
		if i%2 == 0 { // else it may be open before anybody listens
			awaitHears(t, s)
		}
		s.Do(t, "EVAL", `redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0')`, "1", "l", slot.LatchChannel("l"))
		testkit.Get(t, waits)
	}
	testkit.Finish(t, s, a)
}

func TestALatchCountsExactly(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	const callers, each = 16, 50
	l := engines[0].CountDownLatch("l")
	setCount(t, l, callers*each+1)
	var wg sync.WaitGroup
	for i := range callers {
		down := engines[i%2].CountDownLatch("l")
		wg.Go(func() {
			for range each {
				_ = down.CountDown(context.WithoutCancel(t.Context()))
			}
		})
	}
	wg.Wait()
	requireCount(t, l, 1)
	require.NoError(t, l.CountDown(t.Context()))
	requireCount(t, l, 0)
	s.Do(t, "DEL", slot.CountedRequests("l"))
	testkit.Finish(t, s, engines...)
}

func TestALatchRefusesWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	for _, n := range []int{0, -1} {
		_, err := l.TrySetCount(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
	}
	require.ErrorIs(t, testkit.GetError(t, l.CountDownAsync(-1)), engine.ErrLease)
	require.ErrorIs(t, e.CountDownLatch("l", engine.FixedLease(time.Second)).Await(ctx), engine.ErrLease)
	require.ErrorIs(t, e.CountDownLatch("").Await(ctx), engine.ErrName)
	require.Empty(t, s.Do(t, "KEYS", "*"))
	for _, make := range [][]string{{"HSET", "l", "a", "1"}, {"SET", "l", "text"}} {
		s.Do(t, make...)
		require.ErrorIs(t, l.Await(ctx), engine.ErrWrongKind, make)
		require.ErrorIs(t, l.CountDown(ctx), engine.ErrWrongKind, make)
		_, err := l.Count(ctx)
		require.ErrorIs(t, err, engine.ErrWrongKind, make)
		s.Do(t, "DEL", "l")
	}
	require.False(t, testkit.Exists(t, s, slot.CountedRequests("l")))
	testkit.Finish(t, s, e)
}
