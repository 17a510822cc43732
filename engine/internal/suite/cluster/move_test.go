package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestC089_HoldOutlivesTheMoveOfItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e, rival := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	const name = "moving"
	s := slot.Of(name)
	lock := e.Lock(name, engine.WatchdogLease(3*time.Second))
	ls := testkit.Acquire(t, lock)
	second := "second{" + name + "}"
	to := testkit.AnotherMaster(t, c, s)
	move, err := c.BeginMove(testkit.Limited(t), s, to)
	require.NoError(t, err)

	renewedPast := func(what string) {
		t.Helper()
		from := time.Now()
		testkit.Eventually(t, what, func() bool { return time.Since(from) > 3400*time.Millisecond || ls.Lost() })
		require.False(t, ls.Lost(), what)
	}
	renewedPast("renewed where its slot is migrating")
	fresh := testkit.Acquire(t, e.Lock(second)) // absent at the source: it is taken at the target
	require.Equal(t, []string{second}, to.Keys(t))
	_, err = rival.Lock(second).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	testkit.Release(t, fresh)

	require.NoError(t, move.Keys(testkit.Limited(t)))
	renewedPast("renewed at the target, behind ASKING")
	_, err = rival.Lock(name).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.NoError(t, move.Finish(testkit.Limited(t)))
	renewedPast("renewed at its new owner")
	require.Equal(t, []string{name}, to.Keys(t))
	testkit.Release(t, ls)
	testkit.FinishCluster(t, c, e, rival)
}

func TestClusterReleaseAndReentryFollowAMovingKey(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	for i, stage := range []string{"migrating", "keys gone", "moved"} {
		name := fmt.Sprint("stage:", i)
		s := slot.Of(name)
		ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
		first, err := e.Lock(name).Acquire(ctx)
		require.NoError(t, err)
		to := testkit.AnotherMaster(t, c, s)
		move, err := c.BeginMove(testkit.Limited(t), s, to)
		require.NoError(t, err)
		if i > 0 {
			require.NoError(t, move.Keys(testkit.Limited(t)))
		}
		if i > 1 {
			require.NoError(t, move.Finish(testkit.Limited(t)))
		}
		second, err := e.Lock(name).Acquire(ctx)
		require.NoError(t, err, stage)
		info, err := e.Lock(name).Inspect(testkit.Limited(t))
		require.NoError(t, err, stage)
		require.Equal(t, 2, info.Holds, stage)
		testkit.Release(t, second)
		testkit.Release(t, first)
		require.NoError(t, move.Finish(testkit.Limited(t)))
	}
	testkit.FinishCluster(t, c, e)
}

// listens tells whether one subscriber hears of a lock's releases at a server.
func listens(tb testing.TB, at *redistest.Server, name string) func() bool {
	channel := slot.LockChannel(name)
	return func() bool { return at.Do(tb, "PUBSUB", "SHARDNUMSUB", channel) == channel+"\n1" }
}

// afterPoll returns just after the one waiter of an engine has polled and was told no: its next poll is most of a second
// off, and does not meet what is done now. ask is a question about the same name, answered after what was sent before.
func afterPoll(tb testing.TB, e *engine.Engine, ask func(context.Context) error) {
	tb.Helper()
	polls := e.Stats().WokenByPoll
	testkit.Eventually(tb, "the waiter polls", func() bool { return e.Stats().WokenByPoll > polls })
	require.NoError(tb, ask(testkit.Limited(tb)))
}

// requireHeard gives a lock back and checks that who waits for it gets it by the message, or by the look that follows a
// subscription, if that was still on its way.
func requireHeard(tb testing.TB, e *engine.Engine, ls *engine.Lease, waiter *engine.Future[*engine.Lease]) {
	tb.Helper()
	afterPoll(tb, e, func(ctx context.Context) error {
		_, err := e.Lock(ls.Name()).Inspect(ctx)
		return err
	})
	before := e.Stats()
	testkit.Release(tb, ls)
	got, err := waiter.Await(testkit.Limited(tb))
	require.NoError(tb, err)
	require.Equal(tb, before.GrantsByPoll, e.Stats().GrantsByPoll, "not by the poll")
	testkit.Release(tb, got)
}

func TestClusterWaiterFollowsItsSlotAndHearsTheRelease(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	const name = "waited for"
	s := slot.Of(name)
	for range 3 {
		ls := testkit.Acquire(t, a.Lock(name))
		waiter := b.Lock(name).AcquireAsync(t.Context())
		to := testkit.AnotherMaster(t, c, s)
		require.NoError(t, c.MoveSlot(testkit.Limited(t), s, to))
		testkit.Eventually(t, "the waiter listens at the new owner", listens(t, to, name))
		requireHeard(t, b, ls, waiter)
	}
	testkit.FinishCluster(t, c, a, b)
}

// Other traffic on the slot meets the MOVED first, so the table is right before it is read again: whoever waits has to
// move all the same.
func TestClusterWaiterFollowsItsSlotThoughOthersLearnFirst(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	const name = "waited for"
	s := slot.Of(name)
	for range 3 {
		ls := testkit.Acquire(t, a.Lock(name))
		waiter := b.Lock(name).AcquireAsync(t.Context())
		from, err := c.Owner(testkit.Limited(t), s)
		require.NoError(t, err)
		testkit.Eventually(t, "the waiter listens", listens(t, from, name))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		errs := make(chan error, 4)
		for w := range cap(errs) {
			wg.Go(func() {
				l := b.Lock(fmt.Sprintf("t%d{%s}", w, name))
				for ctx.Err() == nil {
					ls, err := l.Acquire(t.Context())
					if err == nil {
						err = ls.Release(t.Context())
					}
					if err != nil {
						errs <- err
						return
					}
				}
			})
		}
		to := testkit.AnotherMaster(t, c, s)
		require.NoError(t, c.MoveSlot(testkit.Limited(t), s, to))
		testkit.Eventually(t, "the waiter listens at the new owner", listens(t, to, name))
		stop()
		wg.Wait()
		close(errs)
		require.NoError(t, <-errs)
		requireHeard(t, b, ls, waiter)
	}
	testkit.FinishCluster(t, c, a, b)
}

// A node that was added a moment ago, or was thrown out, answers and knows of no slots.
func TestClusterIsFoundBehindASeedThatKnowsNoSlots(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	empty := redistest.Run(t, redistest.Options{Cluster: true})
	for _, addrs := range [][]string{
		{empty.Addr(), c.Masters[0].Addr(), c.Masters[1].Addr()},
		{c.Masters[0].Addr(), empty.Addr()},
	} {
		e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: addrs})
		require.NoError(t, err)
		testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
		require.NoError(t, e.Close(testkit.Limited(t)))
	}
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{empty.Addr()}})
	require.ErrorContains(t, err, "knows of no slot that is served")
	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{"127.0.0.1:1", empty.Addr()}})
	require.ErrorContains(t, err, "knows of no slot that is served", "more than that another does not answer")
}

func TestClusterSlotsThatMoveUnderLoadCostNoErrorAndNoExclusion(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	engines := []*engine.Engine{testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)}
	const names, workers = 64, 32
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var holders [names]atomic.Int32
	var grants atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for w := range workers {
		wg.Go(func() {
			e := engines[w%len(engines)]
			for ctx.Err() == nil {
				i := rand.N(names)
				ls, err := e.Lock(fmt.Sprint("load:", i)).Acquire(t.Context())
				if err != nil {
					errs <- err
					return
				}
				if holders[i].Add(1) != 1 {
					errs <- fmt.Errorf("two holders of load:%d", i)
					return
				}
				grants.Add(1)
				holders[i].Add(-1)
				if err := ls.Release(t.Context()); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for round := range 60 {
		s := slot.Of(fmt.Sprint("load:", round%names))
		require.NoError(t, c.MoveSlot(testkit.Limited(t), s, testkit.AnotherMaster(t, c, s)))
	}
	stop()
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Greater(t, grants.Load(), int64(1000))
	testkit.FinishCluster(t, c, engines...)
}

// What is given back is redirected by itself. A Try behind it does not get there first, and so is not told of a place, or
// a grant, of its own engine.
func TestATryBehindWhoLeftIsNotRefusedWhereTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	s := slot.Of("{moving}")
	var over atomic.Bool
	defer over.Store(true)
	var tries atomic.Int64
	var refused atomic.Value
	var wg sync.WaitGroup
	for i := range 40 {
		name := testkit.Numbered("{moving}", i)
		l := e.Lock(name)
		if i%2 == 0 {
			l = e.FairLock(name).Lock
		}
		wg.Go(func() {
			for !over.Load() {
				leaves := l.AcquireAsync(context.Background())
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				if !leaves.Cancel() {
					testkit.Release(t, testkit.Get(t, leaves))
				}
				ctx, cancel := context.WithTimeout(context.Background(), testkit.TooLong)
				ls, err := l.TryAcquire(ctx)
				cancel()
				tries.Add(1)
				if errors.Is(err, engine.ErrHeld) {
					refused.Store(err)
					continue
				}
				if assert.NoError(t, err) {
					testkit.Release(t, ls)
				}
			}
		})
	}
	for range 30 {
		move, err := c.BeginMove(testkit.Limited(t), s, testkit.AnotherMaster(t, c, s))
		require.NoError(t, err)
		asked := tries.Load()
		testkit.Eventually(t, "tries beside it", func() bool { return tries.Load() > asked+200 })
		require.NoError(t, move.Keys(testkit.Limited(t)))
		require.NoError(t, move.Finish(testkit.Limited(t)))
	}
	over.Store(true)
	wg.Wait()
	require.Nil(t, refused.Load(), "of %d tries of locks that nobody has", tries.Load())
	testkit.FinishCluster(t, c, e)
}

// Two Tries that there is room for both have what they ask for, also beside what is given back.
func TestTwoTriesBesideWhatIsGivenBackAreNotRefused(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	sem, read := e.PermitSemaphore("permits"), e.RWLock("rw").ReadLock()
	_, err := sem.TrySetPermits(testkit.Limited(t), 10)
	require.NoError(t, err)
	for range 1000 {
		permit, ls := sem.AcquireAsync(testkit.Limited(t), 1), read.AcquireAsync(testkit.Limited(t))
		time.Sleep(time.Duration(rand.IntN(60)) * time.Microsecond)
		had, hadRead := !permit.Cancel(), !ls.Cancel()
		time.Sleep(time.Duration(rand.IntN(150)) * time.Microsecond)
		one, two := sem.TryAcquireAsync(testkit.Limited(t), 1), sem.TryAcquireAsync(testkit.Limited(t), 1)
		readOne, readTwo := read.TryAcquireAsync(testkit.Limited(t)), read.TryAcquireAsync(testkit.Limited(t))
		testkit.Release(t, testkit.Get(t, readOne))
		testkit.Release(t, testkit.Get(t, readTwo))
		for _, f := range []*engine.Future[*engine.Permit]{one, two} {
			require.NoError(t, testkit.Get(t, f).Release(testkit.Limited(t)))
		}
		if had {
			require.NoError(t, testkit.Get(t, permit).Release(testkit.Limited(t)))
		}
		if hadRead {
			testkit.Release(t, testkit.Get(t, ls))
		}
	}
	_, err = sem.Delete(testkit.Limited(t))
	require.NoError(t, err)
	testkit.FinishCluster(t, c, e)
}
