package redisson_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Three locks on as many servers, one after the other, as RedissonMultiLockTest and RedissonRedLockTest have them.
type trio struct {
	*testing.T
	servers []*redistest.Server
	engines []*engine.Engine
	locks   []*engine.Lock
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	c := &trio{T: t}
	for i := range 3 {
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		c.servers, c.engines = append(c.servers, s), append(c.engines, e)
		c.locks = append(c.locks, e.Lock(testkit.Numbered("lock", i)))
	}
	return c
}

// finish checks that nothing is left at the servers.
func (c *trio) finish() {
	c.Helper()
	for i, s := range c.servers {
		testkit.Eventually(c.T, "nothing is left", func() bool { return len(s.Keys(c.T)) == 0 })
		testkit.Finish(c.T, s, c.engines[i])
	}
}

func TestRedissonMultiLock(t *testing.T) {
	three := []string{"lock1", "lock2", "lock3"}
	for name, test := range map[string]func(*testing.T, *engine.Engine){
		"testLockUnlock": func(t *testing.T, e *engine.Engine) {
			o := engine.NewOwner()
			m := e.MultiLock(three...).With(engine.FixedLease(10 * time.Second))
			ls, err := m.Acquire(engine.WithOwner(testkit.Limited(t), o))
			require.NoError(t, err)
			for _, n := range three {
				require.Equal(t, 1, o.Holds(e.Lock(n)))
			}
			require.NoError(t, ls.Release(testkit.Limited(t)))
			for _, n := range three {
				require.Zero(t, o.Holds(e.Lock(n)))
			}
		},
		"testWaitAndLeaseTimeouts": func(t *testing.T, e *engine.Engine) {
			m := e.MultiLock(three...).With(engine.FixedLease(10 * time.Second))
			leases := make(chan *engine.MultiLease, 10)
			var threads sync.WaitGroup
			for range cap(leases) {
				threads.Go(func() {
					if ls, err := m.TryAcquire(testkit.Limited(t)); err == nil {
						leases <- ls
					}
				})
			}
			threads.Wait()
			require.LessOrEqual(t, len(leases), 1, "never two; none where two had some each: see the page")
			for range len(leases) {
				require.NoError(t, (<-leases).Release(testkit.Limited(t)))
			}
			last, err := m.Acquire(testkit.Limited(t))
			require.NoError(t, err, "those in vain left nothing")
			require.NoError(t, last.Release(testkit.Limited(t)))
		},
		"testMultiThreads": func(t *testing.T, e *engine.Engine) {
			m := e.MultiLock(three...)
			first, err := m.Acquire(testkit.Limited(t))
			require.NoError(t, err)
			f := m.AcquireAsync(testkit.Limited(t))
			testkit.Pending(t, f)
			require.NoError(t, first.Release(testkit.Limited(t)))
			require.NoError(t, testkit.Get(t, f).Release(testkit.Limited(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr())
			test(t, e)
			testkit.Finish(t, s, e)
		})
	}
	t.Run("test", func(t *testing.T) {
		c := newTrio(t)
		m := engine.Multi(c.locks...)
		ls, err := m.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		for range 2 {
			_, err = m.TryAcquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrHeld)
		}
		require.NoError(t, ls.Release(testkit.Limited(t)))
		c.finish()
	})
}

// counts has ten threads take a lock twice each, and write a number one greater that nothing else guards.
func (c *trio) counts(r *engine.RedLock) {
	c.Helper()
	const threads, turns = 10, 2
	counter := 0
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for range turns {
				var ls *engine.RedLease
				err := engine.ErrHeld
				for testkit.ErrorIsAny(err, engine.ErrHeld) {
					ls, err = r.Acquire(testkit.Limited(c.T))
				}
				if err != nil {
					c.Error(err)
					return
				}
				counter++
				if err := ls.Release(testkit.Limited(c.T)); err != nil {
					c.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(c, threads*turns, counter)
}

// Redisson's tests have three or seven locks on two servers; here each is on a server of its own, as Red asks for.
func TestRedissonRedLock(t *testing.T) {
	for name, test := range map[string]func(*trio, *engine.RedLock){
		"testLockLeasetimeWithMilliSeconds": func(c *trio, r *engine.RedLock) {
			c.counts(r.With(engine.FixedLease(2000 * time.Millisecond)))
		},
		"testLockLeasetimeWithSeconds": func(c *trio, r *engine.RedLock) { c.counts(r.With(engine.FixedLease(2 * time.Second))) },
		"testLockLeasetimeWithMinutes": func(c *trio, r *engine.RedLock) { c.counts(r.With(engine.FixedLease(time.Minute))) },
		"testTryLockLeasetime": func(c *trio, r *engine.RedLock) {
			c.counts(r.With(engine.FixedLease(2*time.Second), engine.MaxWait(4*time.Second)))
		},
		"testLockFailed": func(c *trio, r *engine.RedLock) {
			one, two := testkit.Acquire(c.T, c.locks[1]), testkit.Acquire(c.T, c.locks[2])
			ctx, cancel := context.WithCancel(testkit.Limited(c.T))
			waits := r.AcquireAsync(ctx)
			_, err := r.TryAcquire(testkit.Limited(c.T))
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Pending(c.T, waits)
			cancel()
			require.ErrorIs(c, testkit.GetError(c.T, waits), context.Canceled)
			testkit.Release(c.T, one)
			testkit.Release(c.T, two)
		},
		"testLockSuccess2": func(c *trio, r *engine.RedLock) {
			one := testkit.Acquire(c.T, c.locks[1])
			ls, err := r.TryAcquire(testkit.Limited(c.T))
			require.NoError(c, err)
			require.NoError(c, ls.Release(testkit.Limited(c.T)))
			testkit.Release(c.T, one)
		},
		"testLockSuccess": func(c *trio, r *engine.RedLock) {
			for i := range c.locks {
				one := testkit.Acquire(c.T, c.locks[i])
				first, err := r.Acquire(testkit.Limited(c.T))
				require.NoError(c, err)
				next := r.AcquireAsync(testkit.Limited(c.T))
				require.NoError(c, first.Release(testkit.Limited(c.T)))
				require.NoError(c, testkit.Get(c.T, next).Release(testkit.Limited(c.T)))
				testkit.Release(c.T, one)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTrio(t)
			test(c, engine.Red(c.locks...))
			c.finish()
		})
	}
	t.Run("testConnectionFailed", func(t *testing.T) {
		c := newTrio(t)
		r := engine.Red(c.locks...)
		c.servers[2].Kill()
		first, err := r.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		next := r.AcquireAsync(testkit.Limited(t))
		require.NoError(t, first.Release(testkit.Limited(t)))
		require.NoError(t, testkit.Get(t, next).Release(testkit.Limited(t)))
		for _, s := range c.servers[:2] {
			testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
		}
	})
}
