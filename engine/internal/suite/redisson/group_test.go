package redisson_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A groupSubject is two values of one group, as RedissonFasterMultiLockTest has them.
type groupSubject struct {
	*testing.T
	s *redistest.Server
	e *engine.Engine
}

func (c *groupSubject) two(opts ...engine.Option) *engine.GroupLock { return twoOf(c.e, opts...) }

func twoOf(e *engine.Engine, opts ...engine.Option) *engine.GroupLock {
	return e.GroupLock("group", engine.KryoStrings("1", "2"), opts...)
}

func (c *groupSubject) thread() (context.Context, *engine.Owner) {
	o := engine.NewOwner()
	return engine.WithOwner(testkit.Limited(c.T), o), o
}

func (c *groupSubject) take(ctx context.Context, g *engine.GroupLock) *engine.Lease {
	c.Helper()
	ls, err := g.Acquire(ctx)
	require.NoError(c, err)
	return ls
}

// locked is isLocked: one of the values is held at least.
func (c *groupSubject) locked() bool {
	c.Helper()
	holders, err := c.two().Holders(testkit.Limited(c.T))
	require.NoError(c, err)
	return len(holders) > 0
}

// fields are those of the hash that end so, with their values.
func (c *groupSubject) fields(suffix string) (values []string) {
	c.Helper()
	all := strings.Split(c.s.Do(c.T, "HGETALL", "group"), "\n")
	for i := 0; i+1 < len(all); i += 2 {
		if strings.HasSuffix(all[i], suffix) {
			values = append(values, all[i+1])
		}
	}
	return values
}

// count lets threads of several clients in, and counts who is not alone.
func (c *groupSubject) count(clients, threads, loops int) {
	c.Helper()
	var inside, wrong, total atomic.Int64
	var all sync.WaitGroup
	for range clients {
		e := testkit.Open(c.T, c.s.Addr())
		for range threads {
			all.Go(func() {
				for range loops {
					err := twoOf(e).Do(c.Context(), func(context.Context) error {
						if inside.Add(1) > 1 {
							wrong.Add(1)
						}
						total.Add(1)
						inside.Add(-1)
						return nil
					})
					if err != nil {
						c.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	require.Zero(c, wrong.Load())
	require.Equal(c, int64(clients*threads*loops), total.Load())
}

func TestRedissonFasterMultiLock(t *testing.T) {
	tests := groupHeld()
	for name, test := range groupWaited() {
		tests[name] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			c := &groupSubject{t, s, testkit.Open(t, s.Addr())}
			test(c)
			testkit.Finish(t, s, c.e)
		})
	}
	t.Run("testRedisFailed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		s.Kill()
		_, err := twoOf(e, engine.MaxWait(5*time.Second), engine.FixedLease(10*time.Second)).Acquire(testkit.Limited(t))
		require.Error(t, err)
	})
	t.Run("testInCluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.RunCluster(t, 3, 0)
		e := testkit.OpenCluster(t, c)
		for range 3 {
			ls, err := twoOf(e).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, ls)
		}
		testkit.FinishCluster(t, c, e)
	})
}

// groupHeld: what is held, and by whom.
func groupHeld() map[string]func(*groupSubject) {
	return map[string]func(*groupSubject){
		"testSimpleLock": func(c *groupSubject) {
			ctx, _ := c.thread()
			ls := c.take(ctx, c.two())
			require.Equal(c, []string{"1", "1"}, c.fields(":lock_count"))
			require.Len(c, c.fields(":expire_time"), 2)
			require.Len(c, c.fields(""), 6)
			testkit.Release(c.T, ls)
			require.False(c, testkit.Exists(c.T, c.s, "group"))
		},
		"testReentrantLock": func(c *groupSubject) {
			ctx, _ := c.thread()
			one, two := c.take(ctx, c.two()), c.take(ctx, c.two())
			require.Equal(c, []string{"2", "2"}, c.fields(":lock_count"))
			testkit.Release(c.T, two)
			require.Equal(c, []string{"1", "1"}, c.fields(":lock_count"))
			testkit.Release(c.T, one)
			require.False(c, testkit.Exists(c.T, c.s, "group"))
		},
		"testReentrancy": func(c *groupSubject) {
			ctx, _ := c.thread()
			one, two := c.take(ctx, c.two()), c.take(ctx, c.two())
			testkit.Release(c.T, one)
			other, _ := c.thread()
			_, err := c.two().TryAcquire(other)
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Release(c.T, two)
		},
		"testForceUnLock": func(c *groupSubject) {
			ls := c.take(testkit.Limited(c.T), c.two())
			was, err := twoOf(testkit.Open(c.T, c.s.Addr())).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, was)
			require.False(c, testkit.Exists(c.T, c.s, "group"))
			require.ErrorIs(c, ls.Release(testkit.Limited(c.T)), engine.ErrLost)
		},
		"testRenewExpiration": func(c *groupSubject) {
			ls := c.take(testkit.Limited(c.T), c.two(engine.WatchdogLease(time.Second)))
			before := c.fields(":expire_time")
			testkit.RequireKept(c.T, c.e, ls, 0, 2)
			for i, till := range c.fields(":expire_time") {
				require.Greater(c, till, before[i])
			}
			testkit.Release(c.T, ls)
		},
		"testIsLocked": func(c *groupSubject) {
			require.False(c, c.locked())
			ls := c.take(testkit.Limited(c.T), c.two())
			require.True(c, c.locked())
			testkit.Release(c.T, ls)
			require.False(c, c.locked())
		},
		"testIsLockedOtherThread": func(c *groupSubject) {
			ls := c.take(testkit.Limited(c.T), c.two())
			holders, err := twoOf(testkit.Open(c.T, c.s.Addr())).Holders(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Len(c, holders, 2)
			require.False(c, holders[0].Mine)
			testkit.Release(c.T, ls)
		},
		"testIsHeldByCurrentThread": func(c *groupSubject) {
			ctx, o := c.thread()
			require.Zero(c, c.two().HeldBy(o))
			ls := c.take(ctx, c.two())
			require.Equal(c, 1, c.two().HeldBy(o))
			testkit.Release(c.T, ls)
			require.Zero(c, c.two().HeldBy(o))
		},
		"testIsHeldByCurrentThreadOtherThread": func(c *groupSubject) {
			ls := c.take(testkit.Limited(c.T), c.two())
			require.Zero(c, c.two().HeldBy(engine.NewOwner()))
			testkit.Release(c.T, ls)
		},
		"testIsHeldAndIsLockedByThread": func(c *groupSubject) {
			ctx, o := c.thread()
			ls := c.take(ctx, c.two())
			require.True(c, c.locked())
			require.Equal(c, 1, c.two().HeldBy(o))
			require.Zero(c, c.two().HeldBy(engine.NewOwner()))
			testkit.Release(c.T, ls)
			require.False(c, c.locked())
			require.Zero(c, c.two().HeldBy(o))
		},
		"testUnlockFail": func(c *groupSubject) {
			ls := c.take(testkit.Limited(c.T), c.two())
			testkit.Release(c.T, ls)
			again := c.take(testkit.Limited(c.T), c.two())
			require.ErrorIs(c, ls.Release(testkit.Limited(c.T)), engine.ErrNotHeld)
			require.True(c, c.locked())
			testkit.Release(c.T, again)
		},
		"testAutoExpire": func(c *groupSubject) {
			dead := testkit.Open(c.T, c.s.Addr(), func(cfg *engine.Config) { cfg.KeepOnClose = true })
			c.take(testkit.Limited(c.T), twoOf(dead, engine.WatchdogLease(time.Second)))
			require.NoError(c, dead.Close(testkit.Limited(c.T)))
			require.True(c, c.locked())
			testkit.Eventually(c.T, "it is free", func() bool { return !c.locked() })
		},
	}
}

// groupWaited: who waits, and who gives up.
func groupWaited() map[string]func(*groupSubject) {
	return map[string]func(*groupSubject){
		"testTryLock": func(c *groupSubject) {
			ctx, _ := c.thread()
			ls, err := c.two().TryAcquire(ctx)
			require.NoError(c, err)
			other, _ := c.thread()
			_, err = c.two().TryAcquire(other)
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Release(c.T, ls)
		},
		"testTryLockWait": func(c *groupSubject) {
			c.take(testkit.Limited(c.T), twoOf(testkit.Open(c.T, c.s.Addr()), engine.FixedLease(2*time.Second)))
			began := time.Now()
			ls := c.take(testkit.Limited(c.T), c.two(engine.MaxWait(10*time.Second)))
			require.Greater(c, time.Since(began), time.Second)
			testkit.Release(c.T, ls)
		},
		"testExpire": func(c *groupSubject) {
			lapsed := c.take(testkit.Limited(c.T), twoOf(testkit.Open(c.T, c.s.Addr()), engine.FixedLease(500*time.Millisecond)))
			ls := c.take(testkit.Limited(c.T), c.two())
			require.ErrorIs(c, lapsed.Release(testkit.Limited(c.T)), engine.ErrLost)
			require.True(c, c.locked(), "a late release gives back nobody else's")
			testkit.Release(c.T, ls)
		},
		"testLockIsNotRenewedAfterInterruptedTryLock": func(c *groupSubject) {
			for range 50 {
				ctx, cancel := context.WithCancel(c.Context())
				f := c.two(engine.WatchdogLease(time.Second)).TryAcquireAsync(ctx)
				cancel()
				if ls, err := f.Await(testkit.Limited(c.T)); err == nil {
					testkit.Release(c.T, ls)
				} else {
					require.ErrorIs(c, err, context.Canceled)
				}
			}
			testkit.Eventually(c.T, "what was granted is given back", func() bool { return !c.locked() })
			require.Zero(c, c.e.Stats().Renewals.Watched)
		},
		"testSubscriptionsPerConnection": func(c *groupSubject) {
			var turn atomic.Int64
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					for range 40 {
						group := testkit.Numbered("group", int(turn.Add(1))%5)
						err := c.e.GroupLock(group, engine.KryoStrings("1", "2")).Do(c.Context(), func(context.Context) error { return nil })
						if err != nil {
							c.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			testkit.Eventually(c.T, "no subscription is left", func() bool {
				return c.s.Do(c.T, "PUBSUB", "CHANNELS", "redisson*") == ""
			})
		},
		"testSinglePubSub": func(c *groupSubject) { // four wait at once, over one connection
			other := testkit.Open(c.T, c.s.Addr())
			var held []*engine.Lease
			var waits []*engine.Future[*engine.Lease]
			for i := range 4 {
				values := engine.KryoStrings("1", "2")
				held = append(held, c.take(testkit.Limited(c.T), other.GroupLock(testkit.Numbered("group", i), values)))
				waits = append(waits, c.e.GroupLock(testkit.Numbered("group", i), values).AcquireAsync(testkit.Limited(c.T)))
			}
			testkit.Eventually(c.T, "each has its channel", func() bool {
				return len(strings.Fields(c.s.Do(c.T, "PUBSUB", "CHANNELS", "redisson_lock*"))) == len(waits)
			})
			require.Equal(c, 1, strings.Count(c.s.Do(c.T, "CLIENT", "LIST", "TYPE", "pubsub"), "id="), "one connection for all")
			for i, ls := range held {
				testkit.Release(c.T, ls)
				testkit.Release(c.T, testkit.Get(c.T, waits[i]))
			}
		},
		"testConcurrency_SingleInstance":    func(c *groupSubject) { c.count(1, 15, 1) },
		"testConcurrencyLoop_MultiInstance": func(c *groupSubject) { c.count(8, 1, 30) },
		"testConcurrency_MultiInstance":     func(c *groupSubject) { c.count(16, 2, 2) },
	}
}
