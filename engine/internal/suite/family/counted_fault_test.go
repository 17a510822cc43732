package family_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// lossesOfReplies are the ways in which an answer is lost, so that its request is sent again.
var lossesOfReplies = map[string]struct {
	times int
	after faultproxy.After
}{
	"once": {1, faultproxy.Cut}, "five times": {5, faultproxy.Cut}, "until the attempt's end": {1, faultproxy.Hang},
}

// A request counts once, however often it is sent.
func TestC143_AnswersOfASemaphoreAreLost(t *testing.T) {
	t.Parallel()
	for how, loss := range lossesOfReplies {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
			sem, ctx := e.Semaphore("s"), testkit.Limited(t)
			setPermits(t, sem, 7)
			lost := p.DropReply(testkit.ScriptCall("semaphore"), loss.times, loss.after)
			require.NoError(t, sem.Acquire(ctx, 3))
			require.Equal(t, loss.times, lost.Hits())
			requireFree(t, other.Semaphore("s"), 4)
			p.DropReply(testkit.ScriptCall("semaphore"), loss.times, loss.after)
			require.NoError(t, sem.TryAcquire(ctx, 2))
			requireFree(t, other.Semaphore("s"), 2)
			for range 2 { // each under a number of its own
				lost = p.DropReply(testkit.ScriptCall("semaphorerelease"), loss.times, loss.after)
				given := sem.ReleaseAsync(1)
				testkit.Get(t, given)
				require.Equal(t, loss.times, lost.Hits())
			}
			requireFree(t, other.Semaphore("s"), 4)
			require.NoError(t, sem.Release(ctx, 3))
			requireFree(t, other.Semaphore("s"), 7)
			semaphoreIsOver(t, s, "s", e, other)
		})
	}
}

func TestAnswersToCountDownsAreLost(t *testing.T) {
	t.Parallel()
	for how, loss := range lossesOfReplies {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
			l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
			setCount(t, l, 3)
			waits := other.CountDownLatch("l").AwaitAsync(ctx)
			for left := 2; left >= 0; left-- {
				lost := p.DropReply(testkit.ScriptCall("latchdown"), loss.times, loss.after)
				require.NoError(t, l.CountDown(ctx))
				require.Equal(t, loss.times, lost.Hits())
				requireCount(t, other.CountDownLatch("l"), left)
			}
			testkit.Get(t, waits)
			setCount(t, l, 1)
			requireCount(t, l, 1)
			gone, err := l.Delete(ctx)
			require.NoError(t, err)
			require.True(t, gone)
			latchIsOver(t, s, "l", e, other)
		})
	}
}

// A latch takes nothing: whoever waits for it is answered, though answers to their looks are lost.
func TestAnswersToLooksAreLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, l, 1)
	p.DropReply(testkit.ScriptCall("latch"), 2)
	waits := l.AwaitAsync(ctx)
	awaitWaits(t, e, 1)
	p.DropReply(testkit.ScriptCall("latch"), 2)
	require.NoError(t, other.CountDownLatch("l").CountDown(ctx))
	setCount(t, other.CountDownLatch("l"), 1)
	testkit.Get(t, waits)
	require.NoError(t, other.CountDownLatch("l").CountDown(ctx))
	latchIsOver(t, s, "l", e, other)
}

// A take whose answer is lost, and that nobody waits for any more, is given back.
func TestASemaphoreGetsBackWhatATakeTookWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, after := range []faultproxy.After{faultproxy.Cut, faultproxy.Hang} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
		setPermits(t, other.Semaphore("s"), 5)
		lost := p.DropReply(testkit.ScriptCall("semaphore"), 1, after)
		ctx, cancel := context.WithCancel(t.Context())
		waits := e.Semaphore("s").AcquireAsync(ctx, 3)
		testkit.Await(t, lost.C(), "the reply was dropped")
		cancel()
		require.ErrorIs(t, testkit.GetError(t, waits), context.Canceled)
		testkit.Eventually(t, "all are free", func() bool {
			free, err := other.Semaphore("s").AvailablePermits(t.Context())
			return err == nil && free == 5
		})
		require.NoError(t, e.Semaphore("s").Acquire(t.Context(), 5))
		require.NoError(t, e.Semaphore("s").Release(t.Context(), 5))
		requireFree(t, other.Semaphore("s"), 5)
		require.NoError(t, testkit.Close(e)) // it has noted all
		semaphoreIsOver(t, s, "s", other)
	}
}

// Whatever is cut, and how often: in the end as many permits are free as there were.
func TestPermitsAreNotLostWithTheirConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	const permits, callers, cuts = 6, 12, 25
	setPermits(t, other.Semaphore("s"), permits)
	setCount(t, other.CountDownLatch("l"), 1_000_000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	counted, over := 0, make(chan struct{})
	failed := make(chan error, callers)
	for i := range callers {
		sem, l, n := e.Semaphore("s"), e.CountDownLatch("l"), 1+i%3
		wg.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Duration(1+i)*20*time.Millisecond)
				err := sem.Acquire(ctx, n)
				cancel()
				if err == nil {
					err = sem.Release(context.WithoutCancel(t.Context()), n)
				} else if testkit.ErrorIsAny(err, context.DeadlineExceeded, engine.ErrUnknown) {
					err = nil
				}
				if err == nil {
					mu.Lock()
					counted++
					mu.Unlock()
					err = l.CountDown(context.WithoutCancel(t.Context()))
				}
				if err != nil {
					failed <- err
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
	for range cuts {
		before := e.Stats().Grants
		testkit.Eventually(t, "it goes on", func() bool { return e.Stats().Grants > before+3 })
		p.CutAll()
	}
	close(over)
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	testkit.Eventually(t, "all are free", func() bool {
		free, err := other.Semaphore("s").AvailablePermits(t.Context())
		return err == nil && free == permits
	})
	requireCount(t, other.CountDownLatch("l"), 1_000_000-counted)
	require.NoError(t, testkit.Close(e)) // it has noted all
	s.Do(t, "DEL", "l", slot.CountedRequests("l"))
	semaphoreIsOver(t, s, "s", other)
}

func latchIsOver(t *testing.T, s *redistest.Server, name string, engines ...*engine.Engine) {
	t.Helper()
	s.Do(t, "DEL", slot.CountedRequests(name))
	testkit.Finish(t, s, engines...)
}

// Each waits for something else under one name: whoever is not served by what stands there is told, the others are served.
func TestALatchBehindALockOfItsName(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	held := testkit.Acquire(t, b.Lock("l"))
	locks := a.Lock("l").AcquireAsync(ctx)
	awaitWaits(t, a, 1)
	waits := a.CountDownLatch("l").AwaitAsync(ctx)
	testkit.Release(t, held)
	ls := testkit.Get(t, locks) // the latch's waiter is behind it
	testkit.Release(t, ls)
	testkit.Get(t, waits)
	held = testkit.Acquire(t, b.Lock("l"))
	locks = a.Lock("l").AcquireAsync(ctx)
	awaitWaits(t, a, 2)
	waits = a.CountDownLatch("l").AwaitAsync(ctx)
	s.Do(t, "SET", "l", "1") // in the lock's place, at once: who looks in between would have the lock
	require.ErrorIs(t, testkit.GetError(t, locks), engine.ErrWrongKind)
	awaitWaits(t, a, 3)
	require.NoError(t, a.CountDownLatch("l").CountDown(ctx))
	testkit.Get(t, waits)
	require.ErrorIs(t, held.Release(ctx), engine.ErrLost)
	latchIsOver(t, s, "l", a, b)
}

// Whoever waits for a closed latch is not asked for again and again because somebody waits behind them for a lock.
func TestALockBehindALatchOfItsNameIsPatient(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, l, 1)
	waits := l.AwaitAsync(ctx)
	awaitWaits(t, e, 1)
	locks := e.Lock("l").AcquireAsync(ctx)
	testkit.ResetCalls(t, s)
	require.ErrorIs(t, l.With(engine.MaxWait(500*time.Millisecond)).Await(ctx), engine.ErrNotOpen)
	require.Less(t, testkit.CallsOf(t, s, "evalsha"), int64(20), "it looks now and then")
	testkit.Pending(t, waits)
	require.NoError(t, l.CountDown(ctx))
	testkit.Get(t, waits)
	testkit.Release(t, testkit.Get(t, locks))
	latchIsOver(t, s, "l", e)
}

// To the server a latch and a semaphore are the same number. An engine that has just had permits of the name hands no
// count of a latch to those who wait: the latch is not open yet.
func TestACountIsNotHandedToThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	for range 100 {
		s.Do(t, "SET", "l", "5")
		takes, waits := e.Semaphore("l").AcquireAsync(ctx, 1), l.AwaitAsync(ctx)
		testkit.Get(t, takes) // its tenure begins
		require.NoError(t, l.CountDown(ctx))
		testkit.Pending(t, waits)
		requireCount(t, l, 3)
		require.NoError(t, l.CountDown(ctx))
		testkit.Get(t, l.CountDownAsync(2))
		testkit.Get(t, waits)
	}
	latchIsOver(t, s, "l", e)
}

// Whoever cannot hear does not take a latch for open that was lost before they looked again.
func TestALatchThatIsLostToOneWhoHearsNothing(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t, "~*", "+@all", "resetchannels")
	e := testkit.Open(t, s.Addr(), testkit.AsApp)
	for i := range 3 {
		l := e.CountDownLatch(testkit.Numbered("l", i))
		setCount(t, l, 1)
		polls := e.Stats().WokenByPoll
		waits := l.AwaitAsync(testkit.Limited(t))
		testkit.Eventually(t, "it was refused to hear", func() bool { return s.Do(t, "ACL", "LOG") != "" })
		testkit.Eventually(t, "it knows, and polls", func() bool { return e.Stats().WokenByPoll > polls })
		s.Do(t, "ACL", "LOG", "RESET")
		s.Do(t, "DEL", l.Name())
		require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrLatchGone)
	}
	testkit.Finish(t, s, e)
}

// It is another latch that was set since then.
func TestALatchThatIsDeletedAndSetAgainIsNotTheSame(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.NoSubscribe = true })
	b := testkit.Open(t, s.Addr())
	la, lb, ctx := a.CountDownLatch("l"), b.CountDownLatch("l"), testkit.Limited(t)
	setCount(t, lb, 1)
	var all []*engine.Future[struct{}]
	for range 3 {
		all = append(all, la.AwaitAsync(ctx))
	}
	awaitWaits(t, a, 3)
	gone, err := lb.Delete(ctx)
	require.NoError(t, err)
	require.True(t, gone)
	setCount(t, lb, 1)
	next := la.AwaitAsync(ctx)
	for _, f := range all {
		require.ErrorIs(t, testkit.GetError(t, f), engine.ErrLatchGone)
	}
	awaitWaits(t, a, 4)
	testkit.Pending(t, next)
	require.NoError(t, lb.CountDown(ctx))
	testkit.Get(t, next)
	latchIsOver(t, s, "l", a, b)
}

func TestC148_ManyWaitForALatch(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	const each = 2000
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	ctx := testkit.Limited(t)
	setCount(t, engines[0].CountDownLatch("l"), 2)
	var all []*engine.Future[struct{}]
	for i := range each * len(engines) {
		all = append(all, engines[i%len(engines)].CountDownLatch("l").AwaitAsync(ctx))
	}
	for _, e := range engines {
		awaitWaits(t, e, each)
	}
	require.NoError(t, engines[0].CountDownLatch("l").CountDown(ctx))
	testkit.Get(t, engines[1].CountDownLatch("l").CountDownAsync(1))
	for i, f := range all {
		_, err := f.Await(ctx)
		require.NoError(t, err, i)
	}
	latchIsOver(t, s, "l", engines...)
}

func TestNumbersThatNoCountCanBe(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l, ctx := e.CountDownLatch("l"), testkit.Limited(t)
	for _, n := range []int{0, -1, 1 << 31} {
		_, err := l.TrySetCount(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease, fmt.Sprint(n))
	}
	require.ErrorIs(t, testkit.GetError(t, l.CountDownAsync(1<<31)), engine.ErrLease)
	require.Empty(t, s.Do(t, "KEYS", "*"))
	testkit.Finish(t, s, e)
}
