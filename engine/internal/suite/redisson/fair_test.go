package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func fairOf(e *engine.Engine, opts ...engine.Option) *engine.Lock {
	return e.FairLock("lock", opts...).Lock
}

// queued waits until so many stand in the queue.
func (c *subject) queued(n int) {
	c.Helper()
	testkit.Eventually(c.T, fmt.Sprint(n, " in the queue"), func() bool {
		return c.s.Do(c.T, "LLEN", slot.FairQueue("lock")) == strconv.Itoa(n)
	})
}

// line starts waiters one after the other.
func (c *subject) line(n int, from func(int) *engine.Engine, opts ...engine.Option) []*engine.Future[*engine.Lease] {
	c.Helper()
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		fs[i] = fairOf(from(i), opts...).AcquireAsync(testkit.Limited(c.T))
		c.queued(i + 1)
	}
	return fs
}

// inOrder awaits waiters in the order in which they stand, and releases each.
func (c *subject) inOrder(fs []*engine.Future[*engine.Lease]) {
	c.Helper()
	for i, f := range fs {
		ls, err := f.Await(testkit.Limited(c.T))
		require.NoError(c, err)
		for _, later := range fs[i+1:] {
			_, _, ok := later.Result()
			require.False(c, ok)
		}
		testkit.Release(c.T, ls)
	}
}

// fairPlace is how long a place in the queue is kept for who does not ask again. Redisson's is five minutes.
const fairPlace = 5 * time.Second

// behind awaits a waiter that stands behind dead ones, whose places are kept until then: not sooner, and soon after.
func (c *subject) behind(f *engine.Future[*engine.Lease], over time.Time) {
	c.Helper()
	ls, err := f.Await(testkit.Limited(c.T))
	granted := time.Now()
	require.NoError(c, err)
	require.Greater(c, granted, over.Add(-50*time.Millisecond), "the dead one's place was its own")
	require.Less(c, granted, over.Add(2*fairPlace))
	testkit.Release(c.T, ls)
}

func TestRedissonFairLock(t *testing.T) {
	t.Parallel()
	conform(t, fairOf, with(common(), exclusive()))
	conformApart(t, fairOf, fairTimes())
	conformApart(t, fairOf, fairOrder())
}

// fairTimes are the tests of RedissonFairLockTest about places in the queue, and how long they last.
func fairTimes() map[string]func(*subject) {
	return map[string]func(*subject){
		"testLeaseTimeout": func(c *subject) { // nobody gives back: the leases of eight run out, one after the other
			const lease, n = 300 * time.Millisecond, 8
			began := time.Now()
			first := c.take(c.thread(), fairOf(c.another(), engine.FixedLease(3*time.Second)))
			fs := c.line(n, func(int) *engine.Engine { return c.e }, engine.FixedLease(lease), engine.MaxWait(testkit.TooLong))
			last := first.Deadline()
			for _, f := range fs {
				ls, err := f.Await(testkit.Limited(c.T))
				require.NoError(c, err)
				require.Greater(c, ls.Deadline(), last, "in the order in which they came, however late this test is told")
				last = ls.Deadline()
				testkit.Await(c.T, ls.Context().Done(), "the end of its lease")
				require.ErrorIs(c, ls.Release(testkit.Limited(c.T)), engine.ErrLost)
			}
			require.GreaterOrEqual(c, last.Sub(first.Deadline()), n*lease*8/10, "each had its time")
			require.Less(c, testkit.Ran(began), 11*time.Second, "and none had another's")
			require.ErrorIs(c, first.Release(testkit.Limited(c.T)), engine.ErrLost)
		},
		"testWaitTimeoutDrift": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			for range 3 {
				var leaving []*engine.Future[*engine.Lease]
				for range 10 {
					leaving = append(leaving, fairOf(c.e, engine.MaxWait(time.Second)).AcquireAsync(c.thread()))
				}
				for _, f := range leaving {
					_, err := f.Await(testkit.Limited(c.T))
					require.ErrorIs(c, err, engine.ErrHeld)
				}
			}
			c.queued(0)
			stay := fairOf(c.e).AcquireAsync(testkit.Limited(c.T))
			c.queued(1)
			places, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Len(c, places, 1)
			require.LessOrEqual(c, places[0].Kept, 5*time.Second, "who left has pushed nobody back")
			testkit.Release(c.T, held)
			c.inOrder([]*engine.Future[*engine.Lease]{stay})
		},
		"testLockAcquiredTimeoutDrift": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(10, func(int) *engine.Engine { return c.e })
			testkit.Release(c.T, held)
			c.inOrder(fs)
			require.Equal(c, "0", c.s.Do(c.T, "EXISTS", slot.FairTimeouts("lock")))
		},
		"testAcquireFailedTimeoutDrift_Descrete": func(c *subject) { // the second of four gives up
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(4, func(int) *engine.Engine { return c.e })
			before, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, fs[1].Cancel())
			c.queued(3)
			now, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Equal(c, []string{before[0].OwnerID, before[2].OwnerID, before[3].OwnerID}, []string{now[0].OwnerID, now[1].OwnerID, now[2].OwnerID})
			for _, p := range slices.Concat(before, now) { // a place is worth nothing: none is moved when one is given up
				require.InDelta(c, 4*time.Second, p.Kept, float64(2*time.Second))
			}
			testkit.Release(c.T, held)
			c.inOrder([]*engine.Future[*engine.Lease]{fs[0], fs[2], fs[3]})
		},
		"testLockAcquiredBooleanTimeoutDrift_Descrete": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another(), engine.FixedLease(500*time.Millisecond)))
			_, err := fairOf(c.e).TryAcquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			require.Equal(c, "0", c.s.Do(c.T, "EXISTS", slot.FairQueue("lock")), "a Try leaves nothing")
			var ls *engine.Lease
			testkit.Eventually(c.T, "the lease is over", func() bool {
				ls, err = fairOf(c.e).TryAcquire(c.thread())
				return err == nil
			})
			require.ErrorIs(c, held.Release(testkit.Limited(c.T)), engine.ErrLost)
			testkit.Release(c.T, ls)
		},
		"testLockAcquiredTimeoutDrift_Descrete": func(c *subject) { // a grant moves nobody's time
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(3, func(int) *engine.Engine { return c.e })
			before, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			testkit.Release(c.T, held)
			first, err := fs[0].Await(testkit.Limited(c.T))
			require.NoError(c, err)
			after, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Equal(c, []string{before[1].OwnerID, before[2].OwnerID}, []string{after[0].OwnerID, after[1].OwnerID})
			for _, p := range slices.Concat(before, after) {
				require.InDelta(c, 4*time.Second, p.Kept, float64(2*time.Second))
			}
			testkit.Release(c.T, first)
			c.inOrder(fs[1:])
		},
		"testAbandonedTimeoutDrift_Descrete": func(c *subject) { // two dead waiters before a live one
			held := c.take(c.thread(), fairOf(c.another()))
			var over time.Time // the time of the last of them
			for i, dead := range []string{"dead:1", "dead:2"} {
				c.s.Do(c.T, "RPUSH", slot.FairQueue("lock"), dead)
				over = time.Now().Add(time.Second * time.Duration(i+1))
				c.s.Do(c.T, "ZADD", slot.FairTimeouts("lock"), strconv.FormatInt(over.UnixMilli(), 10), dead)
			}
			f := fairOf(c.e).AcquireAsync(testkit.Limited(c.T))
			c.queued(3)
			testkit.Release(c.T, held)
			c.behind(f, over)
			require.Equal(c, "1", c.s.Do(c.T, "DEL", slot.FairNotes("lock")), "it is known for ten minutes who stood here beside others")
		},
		"testFirstThreadDeathTimeoutDrift": func(c *subject) { // the head's process is gone, and has not said so
			held := c.take(c.thread(), fairOf(c.another()))
			p := faultproxy.Run(c.T, c.s.Addr())
			dead := testkit.Open(c.T, p.Addr())
			c.open = append(c.open, dead)
			gone := fairOf(dead).AcquireAsync(testkit.Limited(c.T))
			c.queued(1)
			f := fairOf(c.e).AcquireAsync(testkit.Limited(c.T))
			c.queued(2)
			p.RefuseNew(true)
			p.CutAll()
			places, err := c.e.FairLock("lock").Queue(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Len(c, places, 2, "the dead one's place is there")
			for _, place := range places {
				require.LessOrEqual(c, place.Kept, fairPlace, "whatever stands before it")
			}
			over := time.Now().Add(places[0].Kept)
			testkit.Release(c.T, held)
			c.behind(f, over)
			require.True(c, gone.Cancel())
			p.RefuseNew(false)
		},
		"testTryLockNonDelayed": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			_, err := fairOf(c.e, engine.MaxWait(time.Second)).Acquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			c.queued(0)
			testkit.Release(c.T, held)
			ls, err := fairOf(c.e).TryAcquire(c.thread())
			require.NoError(c, err)
			testkit.Release(c.T, ls)
		},
	}
}

// fairOrder are those about the order, and what stands on the server.
func fairOrder() map[string]func(*subject) {
	return map[string]func(*subject){
		"testMultipleLocks": func(c *subject) { c.count(1, 200, 1) },
		"testConcurrency_MultiInstance_Ordering": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			others := []*engine.Engine{c.e, c.another(), c.another(), c.another()}
			fs := c.line(8, func(i int) *engine.Engine { return others[i%4] })
			testkit.Release(c.T, held)
			c.inOrder(fs)
		},
		"testNameMapper": func(c *subject) {
			e := c.another(func(cfg *engine.Config) { cfg.Prefix = "test:" })
			ls := c.take(c.thread(), fairOf(e))
			f := fairOf(e).AcquireAsync(testkit.Limited(c.T))
			testkit.Eventually(c.T, "it queues under the mapped name", func() bool { return testkit.Exists(c.T, c.s, slot.FairQueue("test:lock")) })
			require.True(c, testkit.Exists(c.T, c.s, "test:lock"))
			testkit.Release(c.T, ls)
			c.inOrder([]*engine.Future[*engine.Lease]{f})
		},
		"testAcquireFailedNotCalledOnRedisTimeout": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			ctx, cancel := context.WithTimeout(c.Context(), 500*time.Millisecond)
			defer cancel()
			f := fairOf(c.e).AcquireAsync(ctx)
			c.queued(1)
			c.s.Do(c.T, "CLIENT", "PAUSE", "1000", "WRITE")
			_, err := f.Await(testkit.Limited(c.T))
			require.ErrorIs(c, err, context.DeadlineExceeded)
			testkit.Eventually(c.T, "it has left the queue", func() bool { return c.s.Do(c.T, "LLEN", slot.FairQueue("lock")) == "0" })
			testkit.Release(c.T, held)
		},
	}
}

// nonReentrant are RedissonNonReentrantLockTest and RedissonNonReentrantFairLockTest.
func nonReentrant() map[string]func(*subject) {
	return map[string]func(*subject){
		"testContendingThreadBlocksAndAcquiresOnRelease": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.e))
			f := c.lock(c.e).AcquireAsync(c.thread())
			testkit.Eventually(c.T, "it waits", func() bool { return c.e.Stats().Waiting == 1 })
			testkit.Release(c.T, ls)
			got, err := f.Await(testkit.Limited(c.T))
			require.NoError(c, err)
			testkit.Release(c.T, got)
		},
		"testSameThreadReacquireThrows": func(c *subject) {
			ctx, l := c.thread(), c.lock(c.e)
			ls := c.take(ctx, l)
			_, locked := l.Acquire(ctx)
			_, tried := l.TryAcquire(ctx)
			_, waited := l.With(engine.MaxWait(100 * time.Millisecond)).Acquire(ctx)
			for _, err := range []error{locked, tried, waited} {
				require.True(c, errors.Is(err, engine.ErrReentry), "%v", err)
			}
			require.True(c, c.locked())
			testkit.Release(c.T, ls)
			require.False(c, c.locked())
		},
		"testCrossInstanceSameThreadReentryThrows": func(c *subject) {
			ctx := c.thread()
			ls := c.take(ctx, c.lock(c.e))
			_, err := c.lock(c.e).Acquire(ctx)
			require.ErrorIs(c, err, engine.ErrReentry)
			testkit.Release(c.T, ls)
		},
	}
}

func TestRedissonNonReentrantLock(t *testing.T) {
	conform(t, func(e *engine.Engine, opts ...engine.Option) *engine.Lock {
		return e.Lock("lock", append(opts, engine.NonReentrant())...)
	}, nonReentrant())
}

func TestRedissonNonReentrantFairLock(t *testing.T) {
	conform(t, func(e *engine.Engine, opts ...engine.Option) *engine.Lock {
		return fairOf(e, append(opts, engine.NonReentrant())...)
	}, nonReentrant())
}
