package redisson_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func readOf(e *engine.Engine, opts ...engine.Option) *engine.Lock {
	return e.RWLock("lock", opts...).ReadLock()
}

func writeOf(e *engine.Engine, opts ...engine.Option) *engine.Lock {
	return e.RWLock("lock", opts...).WriteLock()
}

// free reports whether a writer elsewhere could have the lock now.
func (c *subject) free() bool {
	c.Helper()
	ls, err := writeOf(c.e).TryAcquire(c.thread())
	if err == nil {
		testkit.Release(c.T, ls)
	}
	return err == nil
}

func TestRedissonReadWriteLock(t *testing.T) {
	t.Parallel()
	t.Run("OnTheReadLock", func(t *testing.T) { conform(t, readOf, common()) })
	t.Run("OnTheWriteLock", func(t *testing.T) { conform(t, writeOf, with(common(), exclusive())) })
	conform(t, readOf, sharedModes())
	conformApart(t, readOf, sharedLeases())
}

// sharedLeases are the tests of RedissonReadWriteLockTest about time.
func sharedLeases() map[string]func(*subject) {
	return map[string]func(*subject){
		"testReadLockExpiration": func(c *subject) { // the longest reader counts
			c.take(c.thread(), readOf(c.another(), engine.FixedLease(1500*time.Millisecond)))
			c.take(c.thread(), readOf(c.another(), engine.FixedLease(300*time.Millisecond)))
			began := time.Now()
			w := c.take(c.thread(), writeOf(c.e))
			require.Greater(c, time.Since(began), time.Second)
			require.Less(c, testkit.Ran(began), 4*time.Second)
			testkit.Release(c.T, w)
		},
		"testReadLockExpirationRenewal": func(c *subject) {
			var all []*engine.Lease
			for range 20 {
				all = append(all, c.take(c.thread(), readOf(c.e, engine.WatchdogLease(time.Second))))
			}
			sent := c.e.Stats().Renewals.Sent
			testkit.Eventually(c.T, "five renewals", func() bool { return c.e.Stats().Renewals.Sent >= sent+5 })
			for _, ls := range all {
				testkit.Release(c.T, ls)
			}
		},
		"testWriteLockExpiration": func(c *subject) { // entering again for less takes nothing away
			ctx := c.thread()
			long := c.take(ctx, writeOf(c.e, engine.FixedLease(10*time.Second)))
			short := c.take(ctx, writeOf(c.e, engine.FixedLease(time.Second)))
			require.Greater(c, c.ttl(), 8*time.Second)
			require.LessOrEqual(c, c.ttl(), 10*time.Second)
			testkit.Release(c.T, short)
			testkit.Release(c.T, long)
		},
		"testReadLockLeaseTimeoutDiffThreadsWRR": func(c *subject) {
			const lease = time.Second
			began := time.Now()
			c.take(c.thread(), writeOf(c.another(), engine.FixedLease(lease)))
			one := readOf(c.e).AcquireAsync(c.thread())
			two := readOf(c.another()).AcquireAsync(c.thread())
			var all []*engine.Lease
			for _, f := range []*engine.Future[*engine.Lease]{one, two} {
				ls, err := f.Await(testkit.Limited(c.T))
				require.NoError(c, err)
				require.GreaterOrEqual(c, time.Since(began), lease*8/10, "early only by what the writer gives back")
				require.Less(c, testkit.Ran(began), 6*lease, "long after the writer")
				all = append(all, ls)
			}
			for _, ls := range all { // the second came in beside the first
				require.False(c, ls.Lost())
				testkit.Release(c.T, ls)
			}
		},
		"testReadLockLeaseTimeoutDiffThreadsRRW": func(c *subject) {
			c.take(c.thread(), readOf(c.another(), engine.FixedLease(time.Second)))
			testkit.Release(c.T, c.take(c.thread(), readOf(c.another(), engine.FixedLease(10*time.Second))))
			began := time.Now()
			w := c.take(c.thread(), writeOf(c.e))
			require.Less(c, testkit.Ran(began), 5*time.Second, "the one that left does not count")
			testkit.Release(c.T, w)
		},
		"testReadLockLeaseTimeout": func(c *subject) {
			first := c.take(c.thread(), readOf(c.e, engine.FixedLease(700*time.Millisecond)))
			testkit.Release(c.T, c.take(c.thread(), readOf(c.another(), engine.FixedLease(10*time.Second))))
			testkit.Eventually(c.T, "free with the first lease", c.free)
			require.ErrorIs(c, first.Release(testkit.Limited(c.T)), engine.ErrLost)
		},
		"testReadWriteTTL": func(c *subject) { // the lock's key, and the reader's own
			const lease = 4 * time.Second
			ctx := c.thread()
			w := c.take(ctx, writeOf(c.e, engine.WatchdogLease(lease)))
			r := c.take(ctx, readOf(c.e, engine.WatchdogLease(lease)))
			own := "{lock}:" + r.OwnerID() + ":rwlock_timeout:1"
			renewed := func(held ...*engine.Lease) {
				lock, reader := testkit.Expiry(c.T, c.s, "lock"), testkit.Expiry(c.T, c.s, own)
				for _, ls := range held {
					trusted := ls.Deadline()
					testkit.Eventually(c.T, "each is renewed", func() bool { return ls.Deadline().After(trusted.Add(lease / 8)) })
					require.False(c, ls.Lost())
				}
				require.Greater(c, testkit.Expiry(c.T, c.s, "lock"), lock.Add(lease/8))
				require.Greater(c, testkit.Expiry(c.T, c.s, own), reader.Add(lease/8))
			}
			renewed(w, r)
			testkit.Release(c.T, w)
			renewed(r)
			testkit.Release(c.T, r)
		},
		"testExpireRead": func(c *subject) {
			lapsed := c.take(c.thread(), readOf(c.another(), engine.FixedLease(300*time.Millisecond)))
			ls, err := readOf(c.e).TryAcquire(c.thread())
			require.NoError(c, err, "a reader waits for no reader")
			testkit.Await(c.T, lapsed.Context().Done(), "the end of its lease")
			require.ErrorIs(c, lapsed.Release(testkit.Limited(c.T)), engine.ErrLost)
			testkit.Release(c.T, ls)
		},
		"testExpireWrite": func(c *subject) {
			lapsed := c.take(c.thread(), writeOf(c.another(), engine.FixedLease(500*time.Millisecond)))
			ls := c.take(c.thread(), readOf(c.e))
			require.ErrorIs(c, lapsed.Release(testkit.Limited(c.T)), engine.ErrLost)
			testkit.Release(c.T, ls)
		},
		"testMultiInstanceReadLockZombieCleanup": func(c *subject) {
			dead := testkit.Open(c.T, c.s.Addr(), func(cfg *engine.Config) { cfg.KeepOnClose = true })
			c.take(c.thread(), readOf(dead, engine.WatchdogLease(time.Second)))
			require.NoError(c, dead.Close(testkit.Limited(c.T)))
			living := c.take(c.thread(), readOf(c.e, engine.WatchdogLease(2*time.Second)))
			sent := c.e.Stats().Renewals.Sent
			testkit.Eventually(c.T, "it outlives the dead one's lease", func() bool { return c.e.Stats().Renewals.Sent >= sent+3 })
			testkit.Release(c.T, living)
			w, err := writeOf(c.another(), engine.MaxWait(5*time.Second)).Acquire(c.thread())
			require.NoError(c, err)
			testkit.Release(c.T, w)
		},
	}
}

// sharedModes are those about who may be in together.
func sharedModes() map[string]func(*subject) {
	return map[string]func(*subject){
		"testReadLockIsLocked": func(c *subject) {
			ctx := c.thread()
			w := c.take(ctx, writeOf(c.e))
			require.False(c, c.locked())
			r, err := readOf(c.e).TryAcquire(ctx)
			require.NoError(c, err)
			require.True(c, c.locked())
			testkit.Release(c.T, r)
			testkit.Release(c.T, w)
		},
		"testName": func(c *subject) {
			for range 10 {
				l := c.e.RWLock("{test}:abc:key").ReadLock()
				one, two := c.take(c.thread(), l), c.take(c.thread(), l)
				testkit.Release(c.T, one)
				testkit.Release(c.T, two)
			}
		},
		"testWR": func(c *subject) {
			ctx := c.thread()
			w := c.take(ctx, writeOf(c.e))
			r := c.take(ctx, readOf(c.e))
			testkit.Release(c.T, r)
			info, err := writeOf(c.e).Inspect(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, info.Locked)
			testkit.Release(c.T, w)
			require.True(c, c.free())
		},
		"testWriteRead": func(c *subject) { // all readers who wait are let in together
			w := c.take(c.thread(), writeOf(c.another()))
			var fs []*engine.Future[*engine.Lease]
			var others []*engine.Engine
			for range 4 {
				others = append(others, c.another())
			}
			for i := range 20 {
				fs = append(fs, readOf(others[i%4]).AcquireAsync(c.thread()))
			}
			testkit.Release(c.T, w)
			var all []*engine.Lease
			for _, f := range fs {
				ls, err := f.Await(testkit.Limited(c.T))
				require.NoError(c, err)
				all = append(all, ls) // nobody has left yet
			}
			for _, ls := range all {
				testkit.Release(c.T, ls)
			}
		},
		"testWriteReadReentrancy": func(c *subject) {
			ctx := c.thread()
			w := c.take(ctx, writeOf(c.e))
			r := c.take(ctx, readOf(c.e))
			_, err := readOf(c.another()).TryAcquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Release(c.T, w)
			require.False(c, c.free())
			other, err := readOf(c.another()).TryAcquire(c.thread())
			require.NoError(c, err)
			testkit.Release(c.T, other)
			testkit.Release(c.T, r)
			require.True(c, c.free())
		},
		"testWriteLock": func(c *subject) {
			ctx, far := c.thread(), c.another()
			one, two := c.take(ctx, writeOf(c.e)), c.take(ctx, writeOf(c.e))
			refused := func() {
				_, err := readOf(far).TryAcquire(c.thread())
				require.ErrorIs(c, err, engine.ErrHeld)
			}
			refused()
			testkit.Release(c.T, one)
			refused()
			testkit.Release(c.T, two)
			r, err := readOf(far).TryAcquire(c.thread())
			require.NoError(c, err)
			testkit.Release(c.T, r)
		},
		"testMultiRead": func(c *subject) {
			one, two := c.take(c.thread(), readOf(c.e)), c.take(c.thread(), readOf(c.another()))
			require.False(c, c.free())
			testkit.Release(c.T, one)
			require.False(c, c.free())
			testkit.Release(c.T, two)
			require.True(c, c.free())
			was, err := readOf(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.False(c, was)
		},
		"testForceUnlock": func(c *subject) {
			r := c.take(c.thread(), readOf(c.e))
			was, err := writeOf(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.False(c, was)
			was, err = readOf(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, was)
			require.ErrorIs(c, r.Release(testkit.Limited(c.T)), engine.ErrLost)
			c.s.Do(c.T, "DEL", "{lock}:"+r.OwnerID()+":rwlock_timeout:1")
			w := c.take(c.thread(), writeOf(c.e))
			was, err = readOf(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.False(c, was)
			was, err = writeOf(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, was)
			require.ErrorIs(c, w.Release(testkit.Limited(c.T)), engine.ErrLost)
		},
		"testHoldCount": func(c *subject) {
			for _, half := range []func(*engine.Engine, ...engine.Option) *engine.Lock{readOf, writeOf} {
				o := engine.NewOwner()
				ctx, l := engine.WithOwner(testkit.Limited(c.T), o), half(c.e)
				require.Zero(c, o.Holds(l))
				one := c.take(ctx, l)
				require.Equal(c, 1, o.Holds(l))
				two := c.take(ctx, l)
				require.Equal(c, 2, o.Holds(l))
				testkit.Release(c.T, one)
				require.Equal(c, 1, o.Holds(l))
				testkit.Release(c.T, two)
				require.Zero(c, o.Holds(l))
			}
		},
		"testConcurrency_SingleInstance":    func(c *subject) { c.mixed(1, 15, 1) },
		"testConcurrencyLoop_MultiInstance": func(c *subject) { c.mixed(8, 1, 30) },
		"testConcurrency_MultiInstance":     func(c *subject) { c.mixed(16, 2, 2) },
	}
}

// mixed lets threads of several clients read and write at random: writers are alone.
func (c *subject) mixed(clients, threads, loops int) {
	c.Helper()
	met, err := c.meet(&visitors{clients, threads, loops, false, func(e *engine.Engine) (l *engine.Lock, reads bool) {
		if rand.IntN(2) == 0 {
			return readOf(e), true
		}
		return writeOf(e), false
	}})
	require.NoError(c, err)
	require.Zero(c, met, "somebody was in beside a writer")
}
