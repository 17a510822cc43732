package engine_test

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
	"github.com/seed-786ebc8c/holdfast/slot"
)

func fairOf(e *engine.Engine, opts ...engine.Option) *engine.Lock {
	return e.FairLock("lock", opts...).Lock
}

// queued waits until so many stand in the queue.
func (c *subject) queued(n int) {
	c.Helper()
	eventually(c.T, fmt.Sprint(n, " in the queue"), func() bool {
		return c.s.Do(c.T, "LLEN", slot.FairQueue("lock")) == strconv.Itoa(n)
	})
}

// line starts waiters one after the other.
func (c *subject) line(n int, from func(int) *engine.Engine, opts ...engine.Option) []*engine.Future[*engine.Lease] {
	c.Helper()
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		fs[i] = fairOf(from(i), opts...).AcquireAsync(limited(c.T))
		c.queued(i + 1)
	}
	return fs
}

// inOrder awaits waiters in the order in which they stand, and releases each.
func (c *subject) inOrder(fs []*engine.Future[*engine.Lease]) {
	c.Helper()
	for i, f := range fs {
		ls, err := f.Await(limited(c.T))
		require.NoError(c, err)
		for _, later := range fs[i+1:] {
			_, _, ok := later.Result()
			require.False(c, ok)
		}
		release(c.T, ls)
	}
}

func TestRedissonFairLock(t *testing.T) {
	t.Parallel()
	conform(t, fairOf, with(common(), exclusive(), map[string]func(*subject){
		"testLeaseTimeout": func(c *subject) { // nobody gives back: leases run out, in order
			fs := make([]*engine.Future[*engine.Lease], 4)
			first := c.take(c.thread(), fairOf(c.e, engine.FixedLease(300*time.Millisecond)))
			for i := range fs {
				fs[i] = fairOf(c.e, engine.FixedLease(300*time.Millisecond), engine.MaxWait(20*time.Second)).AcquireAsync(limited(c.T))
				if i == 0 {
					continue
				}
				eventually(c.T, "it waits", func() bool { return c.e.Stats().Waiting > 0 })
			}
			for _, f := range fs {
				ls, err := f.Await(limited(c.T))
				require.NoError(c, err)
				await(c.T, ls.Context().Done(), "the end of its lease")
				require.ErrorIs(c, ls.Release(limited(c.T)), engine.ErrLost)
			}
			require.ErrorIs(c, first.Release(limited(c.T)), engine.ErrLost)
		},
		"testMultipleLocks": func(c *subject) { c.count(1, 200, 1) },
		"testWaitTimeoutDrift": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			for range 30 {
				_, err := fairOf(c.e, engine.MaxWait(100*time.Millisecond)).Acquire(c.thread()) // an answer comes sooner
				require.ErrorIs(c, err, engine.ErrHeld)
			}
			c.queued(0)
			stay := fairOf(c.e).AcquireAsync(limited(c.T))
			c.queued(1)
			places, err := c.e.FairLock("lock").Queue(limited(c.T))
			require.NoError(c, err)
			require.Len(c, places, 1)
			require.LessOrEqual(c, places[0].Kept, 5*time.Second, "who left has pushed nobody back")
			release(c.T, held)
			c.inOrder([]*engine.Future[*engine.Lease]{stay})
		},
		"testLockAcquiredTimeoutDrift": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(10, func(int) *engine.Engine { return c.e })
			release(c.T, held)
			c.inOrder(fs)
			require.Equal(c, "0", c.s.Do(c.T, "EXISTS", slot.FairTimeouts("lock")))
		},
		"testAcquireFailedTimeoutDrift_Descrete": func(c *subject) { // the second of four gives up
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(4, func(int) *engine.Engine { return c.e })
			before, err := c.e.FairLock("lock").Queue(limited(c.T))
			require.NoError(c, err)
			require.True(c, fs[1].Cancel())
			c.queued(3)
			now, err := c.e.FairLock("lock").Queue(limited(c.T))
			require.NoError(c, err)
			require.Equal(c, []string{before[0].OwnerID, before[2].OwnerID, before[3].OwnerID}, []string{now[0].OwnerID, now[1].OwnerID, now[2].OwnerID})
			for _, p := range slices.Concat(before, now) { // a place is worth nothing: none is moved when one is given up
				require.InDelta(c, 4*time.Second, p.Kept, float64(2*time.Second))
			}
			release(c.T, held)
			c.inOrder([]*engine.Future[*engine.Lease]{fs[0], fs[2], fs[3]})
		},
		"testLockAcquiredBooleanTimeoutDrift_Descrete": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another(), engine.FixedLease(500*time.Millisecond)))
			_, err := fairOf(c.e).TryAcquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			require.Equal(c, "0", c.s.Do(c.T, "EXISTS", slot.FairQueue("lock")), "a Try leaves nothing")
			var ls *engine.Lease
			eventually(c.T, "the lease is over", func() bool {
				ls, err = fairOf(c.e).TryAcquire(c.thread())
				return err == nil
			})
			require.ErrorIs(c, held.Release(limited(c.T)), engine.ErrLost)
			release(c.T, ls)
		},
		"testLockAcquiredTimeoutDrift_Descrete": func(c *subject) { // a grant moves nobody's time
			held := c.take(c.thread(), fairOf(c.another()))
			fs := c.line(3, func(int) *engine.Engine { return c.e })
			before, err := c.e.FairLock("lock").Queue(limited(c.T))
			require.NoError(c, err)
			release(c.T, held)
			first, err := fs[0].Await(limited(c.T))
			require.NoError(c, err)
			after, err := c.e.FairLock("lock").Queue(limited(c.T))
			require.NoError(c, err)
			require.Equal(c, []string{before[1].OwnerID, before[2].OwnerID}, []string{after[0].OwnerID, after[1].OwnerID})
			for _, p := range slices.Concat(before, after) {
				require.InDelta(c, 4*time.Second, p.Kept, float64(2*time.Second))
			}
			release(c.T, first)
			c.inOrder(fs[1:])
		},
		"testAbandonedTimeoutDrift_Descrete": func(c *subject) { // two dead waiters before a live one
			held := c.take(c.thread(), fairOf(c.another()))
			for i, dead := range []string{"dead:1", "dead:2"} {
				c.s.Do(c.T, "RPUSH", slot.FairQueue("lock"), dead)
				c.s.Do(c.T, "ZADD", slot.FairTimeouts("lock"), strconv.FormatInt(time.Now().Add(time.Second*time.Duration(i+1)).UnixMilli(), 10), dead)
			}
			f := fairOf(c.e).AcquireAsync(limited(c.T))
			c.queued(3)
			release(c.T, held)
			c.inOrder([]*engine.Future[*engine.Lease]{f})
			require.Equal(c, "1", c.s.Do(c.T, "DEL", slot.FairNotes("lock")), "it is known for ten minutes who stood here beside others")
		},
		"testFirstThreadDeathTimeoutDrift": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			dead := openEngine(c.T, c.s.Addr(), func(cfg *engine.Config) { cfg.KeepOnClose = true })
			gone := fairOf(dead).AcquireAsync(limited(c.T))
			c.queued(1)
			fs := []*engine.Future[*engine.Lease]{fairOf(c.e).AcquireAsync(limited(c.T))}
			c.queued(2)
			require.NoError(c, dead.Close(limited(c.T)))
			_, err := gone.Await(limited(c.T))
			require.ErrorIs(c, err, engine.ErrClosed)
			c.queued(1)
			release(c.T, held)
			c.inOrder(fs)
		},
		"testTryLockNonDelayed": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			_, err := fairOf(c.e, engine.MaxWait(100*time.Millisecond)).Acquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			c.queued(0)
			release(c.T, held)
			ls, err := fairOf(c.e).TryAcquire(c.thread())
			require.NoError(c, err)
			release(c.T, ls)
		},
		"testConcurrency_MultiInstance_Ordering": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			others := []*engine.Engine{c.e, c.another(), c.another(), c.another()}
			fs := c.line(8, func(i int) *engine.Engine { return others[i%4] })
			release(c.T, held)
			c.inOrder(fs)
		},
		"testNameMapper": func(c *subject) {
			e := c.another(func(cfg *engine.Config) { cfg.Prefix = "test:" })
			ls := c.take(c.thread(), fairOf(e))
			f := fairOf(e).AcquireAsync(limited(c.T))
			eventually(c.T, "it queues under the mapped name", func() bool { return exists(c.T, c.s, slot.FairQueue("test:lock")) })
			require.True(c, exists(c.T, c.s, "test:lock"))
			release(c.T, ls)
			c.inOrder([]*engine.Future[*engine.Lease]{f})
		},
		"testAcquireFailedNotCalledOnRedisTimeout": func(c *subject) {
			held := c.take(c.thread(), fairOf(c.another()))
			ctx, cancel := context.WithTimeout(c.Context(), 500*time.Millisecond)
			defer cancel()
			f := fairOf(c.e).AcquireAsync(ctx)
			c.queued(1)
			c.s.Do(c.T, "CLIENT", "PAUSE", "1000", "WRITE")
			_, err := f.Await(limited(c.T))
			require.ErrorIs(c, err, context.DeadlineExceeded)
			eventually(c.T, "it has left the queue", func() bool { return c.s.Do(c.T, "LLEN", slot.FairQueue("lock")) == "0" })
			release(c.T, held)
		},
	}))
}

// nonReentrant are RedissonNonReentrantLockTest and RedissonNonReentrantFairLockTest.
func nonReentrant() map[string]func(*subject) {
	return map[string]func(*subject){
		"testContendingThreadBlocksAndAcquiresOnRelease": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.e))
			f := c.lock(c.e).AcquireAsync(c.thread())
			eventually(c.T, "it waits", func() bool { return c.e.Stats().Waiting == 1 })
			release(c.T, ls)
			got, err := f.Await(limited(c.T))
			require.NoError(c, err)
			release(c.T, got)
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
			release(c.T, ls)
			require.False(c, c.locked())
		},
		"testCrossInstanceSameThreadReentryThrows": func(c *subject) {
			ctx := c.thread()
			ls := c.take(ctx, c.lock(c.e))
			_, err := c.lock(c.e).Acquire(ctx)
			require.ErrorIs(c, err, engine.ErrReentry)
			release(c.T, ls)
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
