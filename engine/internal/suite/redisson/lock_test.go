package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// The conformance suite: what Redisson's own tests assert of a lock, under their names. A Java thread is
// an Owner here; lock(lease) is FixedLease, tryLock(wait) is MaxWait, lock() the default. docs/REDISSON.md
// lists every test of the inventory, and says which behave differently on purpose, and why.

// A subject is one kind of lock in the suite.
type subject struct {
	*testing.T
	s    *redistest.Server
	e    *engine.Engine
	lock func(e *engine.Engine, opts ...engine.Option) *engine.Lock
	open []*engine.Engine
}

// another opens one more engine: another client of Redisson's.
func (c *subject) another(change ...func(*engine.Config)) *engine.Engine {
	c.Helper()
	e := testkit.Open(c.T, c.s.Addr(), change...)
	c.open = append(c.open, e)
	return e
}

// thread is a context with an owner of its own.
func (c *subject) thread() context.Context {
	c.Helper()
	return engine.WithOwner(testkit.Limited(c.T), engine.NewOwner())
}

func (c *subject) take(ctx context.Context, l *engine.Lock) *engine.Lease {
	c.Helper()
	ls, err := l.Acquire(ctx)
	require.NoError(c, err)
	return ls
}

func (c *subject) locked() bool {
	c.Helper()
	info, err := c.lock(c.e).Inspect(testkit.Limited(c.T))
	require.NoError(c, err)
	return info.Locked
}

func (c *subject) ttl() time.Duration {
	c.Helper()
	return time.Until(testkit.Expiry(c.T, c.s, "lock"))
}

// conform runs tests of one kind, one after the other, on a server that is empty before and after each.
func conform(t *testing.T, lock func(e *engine.Engine, opts ...engine.Option) *engine.Lock, tests map[string]func(*subject)) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { conformOne(t, s, lock, test) })
	}
}

// conformApart runs tests that mostly wait beside each other, each on a server of its own.
func conformApart(t *testing.T, lock func(e *engine.Engine, opts ...engine.Option) *engine.Lock, tests map[string]func(*subject)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conformOne(t, redistest.Run(t, redistest.Options{}), lock, test)
		})
	}
}

func conformOne(t *testing.T, s *redistest.Server, lock func(e *engine.Engine, opts ...engine.Option) *engine.Lock, test func(*subject)) {
	t.Helper()
	e := testkit.Open(t, s.Addr())
	c := &subject{T: t, s: s, e: e, lock: lock, open: []*engine.Engine{e}}
	test(c)
	s.Do(t, "DEL", "redisson_lock_token:{lock}")
	testkit.Finish(t, s, c.open...)
}

// common are the tests that RedissonLockTest, RedissonSpinLockTest, RedissonFairLockTest and
// RedissonReadWriteLockTest share.
func common() map[string]func(*subject) {
	return map[string]func(*subject){
		"testLockUnlock": func(c *subject) {
			for range 2 {
				ls := c.take(c.thread(), c.lock(c.e))
				require.True(c, c.locked())
				testkit.Release(c.T, ls)
				require.False(c, c.locked())
			}
		},
		"testIsLocked": func(c *subject) {
			require.False(c, c.locked())
			ls := c.take(c.thread(), c.lock(c.e))
			require.True(c, c.locked())
			testkit.Release(c.T, ls)
			require.False(c, c.locked())
		},
		"testIsLockedOtherThread": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.e))
			info, err := c.lock(c.another()).Inspect(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, info.Locked)
			require.False(c, info.Mine)
			testkit.Release(c.T, ls)
			require.False(c, c.locked())
		},
		"testGetHoldCount": func(c *subject) {
			o := engine.NewOwner()
			ctx, l := engine.WithOwner(testkit.Limited(c.T), o), c.lock(c.e)
			require.Zero(c, o.Holds(l))
			one := c.take(ctx, l)
			require.Equal(c, 1, o.Holds(l))
			testkit.Release(c.T, one)
			require.Zero(c, o.Holds(l))
			one, two := c.take(ctx, l), c.take(ctx, l)
			require.Equal(c, 2, o.Holds(l))
			testkit.Release(c.T, two)
			require.Equal(c, 1, o.Holds(l))
			testkit.Release(c.T, one)
			require.Zero(c, o.Holds(l))
		},
		"testIsHeldByCurrentThread": func(c *subject) {
			o := engine.NewOwner()
			l := c.lock(c.e)
			require.Zero(c, o.Holds(l))
			ls := c.take(engine.WithOwner(testkit.Limited(c.T), o), l)
			require.Equal(c, 1, o.Holds(l))
			testkit.Release(c.T, ls)
			require.Zero(c, o.Holds(l))
		},
		"testIsHeldByCurrentThreadOtherThread": func(c *subject) {
			other, l := engine.NewOwner(), c.lock(c.e)
			ls := c.take(c.thread(), l)
			require.Zero(c, other.Holds(l))
			testkit.Release(c.T, ls)
			require.Zero(c, other.Holds(l))
		},
		"testUnlockFail": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.e))
			testkit.Release(c.T, ls)
			again := c.take(c.thread(), c.lock(c.e))
			require.ErrorIs(c, ls.Release(testkit.Limited(c.T)), engine.ErrNotHeld, "a handle that is spent gives back nobody else's")
			require.True(c, c.locked())
			testkit.Release(c.T, again)
		},
		"testForceUnlock": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.e))
			was, err := c.lock(c.another()).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.True(c, was)
			require.False(c, c.locked())
			was, err = c.lock(c.e).ForceRelease(testkit.Limited(c.T))
			require.NoError(c, err)
			require.False(c, was)
			require.ErrorIs(c, ls.Release(testkit.Limited(c.T)), engine.ErrLost)
			c.s.Do(c.T, "DEL", "{lock}:"+ls.OwnerID()+":rwlock_timeout:1")
		},
		"testAutoExpire": func(c *subject) {
			dead := testkit.Open(c.T, c.s.Addr(), func(cfg *engine.Config) { cfg.KeepOnClose = true })
			c.take(c.thread(), c.lock(dead, engine.WatchdogLease(time.Second)))
			require.NoError(c, dead.Close(testkit.Limited(c.T)))
			require.True(c, c.locked())
			began := time.Now()
			testkit.Eventually(c.T, "it is free", func() bool { return !c.locked() })
			require.Less(c, testkit.Ran(began), 3*time.Second)
		},
		"testReentrancy": func(c *subject) {
			ctx, l := c.thread(), c.lock(c.e)
			one, err := l.TryAcquire(ctx)
			require.NoError(c, err)
			two, err := l.TryAcquire(ctx)
			require.NoError(c, err)
			testkit.Release(c.T, one)
			require.True(c, c.locked())
			testkit.Release(c.T, two)
			require.False(c, c.locked())
		},
		"testConcurrency_SingleInstance": func(c *subject) { c.count(1, 15, 1) },
		"testConcurrencyLoop_MultiInstance": func(c *subject) {
			c.count(8, 1, 30)
		},
		"testConcurrency_MultiInstance": func(c *subject) { c.count(16, 2, 2) },
	}
}

// count lets threads of several clients take the lock: alone, or, where it is shared, all of them together.
func (c *subject) count(clients, threads, loops int) {
	c.Helper()
	shared := c.shared()
	met, err := c.meet(&visitors{clients, threads, loops, shared, func(e *engine.Engine) (*engine.Lock, bool) { return c.lock(e), shared }})
	require.NoError(c, err)
	require.Zero(c, met, "two were in at once")
}

// Visitors are threads of several clients that take locks and stay inside for a moment.
type visitors struct {
	clients, threads, loops int
	together                bool // all are in at once, in their first loop
	choose                  func(e *engine.Engine) (l *engine.Lock, shares bool)
}

// meet lets visitors in, and counts how often somebody was in beside one who had to be alone.
func (c *subject) meet(w *visitors) (met int64, err error) {
	c.Helper()
	const stay = time.Millisecond // whoever may come in meanwhile does
	var sharing, alone, wrong, total atomic.Int64
	n := w.clients * w.threads
	everybody, done := make(chan struct{}), make(chan error, n)
	thread := func(e *engine.Engine) error {
		for loop := range w.loops {
			l, shares := w.choose(e)
			ls, err := l.Acquire(c.Context())
			if err != nil {
				return err
			}
			inside := &alone
			if shares {
				inside = &sharing
			}
			if in := inside.Add(1); w.together && loop == 0 {
				if in == int64(n) {
					close(everybody)
				}
				select {
				case <-everybody:
				case <-time.After(testkit.TooLong):
					return errors.New("not all come in together")
				}
			}
			testkit.LastUntil(time.Now().Add(stay))
			if writers := alone.Load(); writers > 1 || writers > 0 && sharing.Load() > 0 {
				wrong.Add(1)
			}
			inside.Add(-1)
			total.Add(1)
			if err := ls.Release(c.Context()); err != nil {
				return err
			}
		}
		return nil
	}
	for range w.clients {
		e := c.e
		if w.clients > 1 {
			e = c.another()
		}
		for range w.threads {
			go func() { done <- thread(e) }()
		}
	}
	for range n {
		err = errors.Join(err, testkit.Await(c.T, done, "a thread"))
	}
	if made := total.Load(); err == nil && made != int64(n*w.loops) {
		err = fmt.Errorf("%d have come in, and not %d", made, n*w.loops)
	}
	return wrong.Load(), err
}

// A lock that lets two in at once is seen, by those who are to be alone, and beside readers.
func TestVisitorsSeeALockThatIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	for name, choose := range map[string]func(n int64) (reads bool){
		"TwoWriters":         func(int64) bool { return false },
		"AReaderAndAWriter":  func(n int64) bool { return n%2 == 0 },
		"AWriterAmongOthers": func(n int64) bool { return n%8 != 0 },
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.Open(t, s.Addr())
			c := &subject{T: t, s: s, e: e, open: []*engine.Engine{e}}
			var calls atomic.Int64
			met, err := c.meet(&visitors{1, 15, 4, false, func(e *engine.Engine) (*engine.Lock, bool) {
				n := calls.Add(1)
				return e.Lock(testkit.Numbered("of nobody else", int(n))), choose(n)
			}})
			require.NoError(t, err)
			require.Positive(t, met)
			testkit.Finish(t, s, c.open...)
		})
	}
}

// shared reports whether the kind lets several in at once.
func (c *subject) shared() bool {
	a, b := c.thread(), c.thread()
	one := c.take(a, c.lock(c.e))
	two, err := c.lock(c.e).TryAcquire(b)
	if err == nil {
		testkit.Release(c.T, two)
	}
	testkit.Release(c.T, one)
	return err == nil
}

// exclusive are those that only hold of locks with one holder.
func exclusive() map[string]func(*subject) {
	return map[string]func(*subject){
		"testTryLockWait": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.another()))
			began := time.Now()
			_, err := c.lock(c.e, engine.MaxWait(time.Second)).Acquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			require.GreaterOrEqual(c, time.Since(began), 990*time.Millisecond)
			require.Less(c, testkit.Ran(began), 2*time.Second)
			testkit.Release(c.T, ls)
		},
		"testExpire": func(c *subject) {
			const lease = 700 * time.Millisecond
			began := time.Now()
			lapsed := c.take(c.thread(), c.lock(c.another(), engine.FixedLease(lease)))
			ls := c.take(c.thread(), c.lock(c.e))
			require.GreaterOrEqual(c, time.Since(began), lease*8/10, "early only by what its holder gives back")
			require.Less(c, testkit.Ran(began), lease+2*time.Second)
			require.ErrorIs(c, lapsed.Release(testkit.Limited(c.T)), engine.ErrLost)
			require.True(c, c.locked(), "a late release gives back nobody else's")
			testkit.Release(c.T, ls)
		},
		"testReentrancy": func(c *subject) {
			ctx, l := c.thread(), c.lock(c.e)
			one, err := l.TryAcquire(ctx)
			require.NoError(c, err)
			two, err := l.TryAcquire(ctx)
			require.NoError(c, err)
			testkit.Release(c.T, one)
			_, err = l.TryAcquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			_, err = c.lock(c.another()).TryAcquire(c.thread())
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Release(c.T, two)
		},
	}
}

// lockOnly are those of RedissonLockTest, and of RedissonSpinLockTest where it has them, that look closer.
func lockOnly() map[string]func(*subject) {
	return map[string]func(*subject){
		"testRemainTimeToLive2": func(c *subject) {
			ctx, l := c.thread(), c.lock(c.e, engine.FixedLease(10*time.Second))
			all := []*engine.Lease{c.take(ctx, l), c.take(ctx, l), c.take(ctx, l)}
			testkit.Release(c.T, all[0])
			testkit.Release(c.T, all[1])
			require.Greater(c, c.ttl(), 5*time.Second, "the lease is what it was")
			require.LessOrEqual(c, c.ttl(), 10*time.Second)
			testkit.Release(c.T, all[2])
		},
		"testRemainTimeToLive": func(c *subject) {
			l := c.lock(c.e)
			ls := c.take(c.thread(), l.With(engine.FixedLease(time.Hour)))
			require.InDelta(c, time.Hour, c.ttl(), float64(time.Minute))
			testkit.Release(c.T, ls)
			require.Equal(c, "-2", c.s.Do(c.T, "PTTL", "lock"))
			ls = c.take(c.thread(), l)
			require.InDelta(c, engine.DefaultLease, c.ttl(), float64(10*time.Second))
			testkit.Release(c.T, ls)
		},
		"testSubscriptionsPerConnection": func(c *subject) {
			done := make(chan error, 32)
			var turn atomic.Int64
			for range 32 {
				go func() {
					for range 40 {
						n := int(turn.Add(1)) % 5
						ls, err := c.e.Lock(testkit.Numbered("lock", n)).Acquire(c.Context())
						if err != nil {
							done <- err
							return
						}
						if err := ls.Release(c.Context()); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range 32 {
				require.NoError(c, testkit.Await(c.T, done, "a thread"))
			}
			testkit.Eventually(c.T, "no subscription is left", func() bool {
				return c.s.Do(c.T, "PUBSUB", "CHANNELS", "redisson*") == ""
			})
		},
		"testSinglePubSub": func(c *subject) { // four wait at once, over one connection
			other := c.another()
			var held []*engine.Lease
			var fs []*engine.Future[*engine.Lease]
			for i := range 4 {
				held = append(held, testkit.Acquire(c.T, other.Lock(testkit.Numbered("lock", i))))
				fs = append(fs, c.e.Lock(testkit.Numbered("lock", i), engine.MaxWait(testkit.TooLong)).AcquireAsync(testkit.Limited(c.T)))
			}
			channels := func() int { return len(strings.Fields(c.s.Do(c.T, "PUBSUB", "CHANNELS", "redisson_lock*"))) }
			testkit.Eventually(c.T, "each has its channel", func() bool { return channels() == len(fs) })
			require.Equal(c, 1, strings.Count(c.s.Do(c.T, "CLIENT", "LIST", "TYPE", "pubsub"), "id="), "one connection for all")
			for _, ls := range held {
				testkit.Release(c.T, ls)
			}
			for _, f := range fs {
				got, err := f.Await(testkit.Limited(c.T))
				require.NoError(c, err)
				testkit.Release(c.T, got)
			}
			testkit.Eventually(c.T, "no subscription is left", func() bool { return channels() == 0 })
		},
		"testLockIsNotRenewedAfterInterruptedTryLock": func(c *subject) {
			for range 50 {
				ctx, cancel := context.WithCancel(c.thread())
				f := c.lock(c.e, engine.WatchdogLease(time.Second)).TryAcquireAsync(ctx)
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
		"testConcurrencyTryLockUnLock": func(c *subject) {
			done := make(chan error, 16)
			for range 16 {
				go func() {
					for range 200 {
						ls, err := c.lock(c.e).TryAcquire(c.Context())
						if errors.Is(err, engine.ErrHeld) {
							continue
						}
						if err == nil {
							if c.e.Stats().Renewals.Watched == 0 {
								err = errors.New("held, and not under watch")
							} else {
								err = ls.Release(c.Context())
							}
						}
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range 16 {
				require.NoError(c, testkit.Await(c.T, done, "a thread"))
			}
		},
		"testLockListener": func(c *subject) {
			events := c.e.Events(16)
			testkit.Release(c.T, c.take(c.thread(), c.lock(c.e)))
			kinds, _ := testkit.KindsOf(c.T, events, 2)
			require.Equal(c, []engine.EventKind{engine.EventHeld, engine.EventReleased}, kinds)
			lapsed := c.take(c.thread(), c.lock(c.e, engine.FixedLease(200*time.Millisecond)))
			kinds, _ = testkit.KindsOf(c.T, events, 2)
			require.Equal(c, []engine.EventKind{engine.EventHeld, engine.EventLost}, kinds)
			require.ErrorIs(c, lapsed.Release(testkit.Limited(c.T)), engine.ErrLost)
			events.Stop()
			testkit.Release(c.T, c.take(c.thread(), c.lock(c.e)))
			_, open := <-events.C()
			require.False(c, open)
		},
	}
}

// with merges tests.
func with(all ...map[string]func(*subject)) map[string]func(*subject) {
	merged := make(map[string]func(*subject))
	for _, tests := range all {
		for name, test := range tests {
			merged[name] = test
		}
	}
	return merged
}

func TestRedissonLock(t *testing.T) {
	t.Parallel()
	conform(t, func(e *engine.Engine, opts ...engine.Option) *engine.Lock { return e.Lock("lock", opts...) },
		with(common(), exclusive(), lockOnly()))
}

func TestRedissonSpinLock(t *testing.T) {
	t.Parallel()
	conform(t, func(e *engine.Engine, opts ...engine.Option) *engine.Lock {
		return e.Lock("lock", append(opts, engine.Spin(time.Millisecond, 128*time.Millisecond))...)
	}, with(common(), exclusive(), spinOnly()))
}

func TestRedissonFencedLock(t *testing.T) {
	t.Parallel()
	conform(t, func(e *engine.Engine, opts ...engine.Option) *engine.Lock { return e.FencedLock("lock", opts...).Lock },
		with(common(), exclusive(), map[string]func(*subject){
			"testTokenIncrease": func(c *subject) {
				last := int64(0)
				for _, opts := range [][]engine.Option{nil, nil, nil, {engine.FixedLease(10 * time.Second)}, {engine.MaxWait(time.Second)}} {
					ls := c.take(c.thread(), c.lock(c.e, opts...))
					require.Greater(c, ls.Token(), last)
					last = ls.Token()
					testkit.Release(c.T, ls)
				}
			},
		}))
}

// spinOnly are the asynchronous tests of RedissonSpinLockTest.
func spinOnly() map[string]func(*subject) {
	return map[string]func(*subject){
		"testTryLockAsync": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.another()))
			f := c.lock(c.e).AcquireAsync(c.thread())
			testkit.Release(c.T, ls)
			began := time.Now()
			got, err := f.Await(testkit.Limited(c.T))
			require.NoError(c, err)
			require.Less(c, testkit.Ran(began), 2*time.Second)
			testkit.Release(c.T, got)
		},
		"testTimedTryLockAsync": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.another()))
			f := c.lock(c.e, engine.MaxWait(20*time.Second)).AcquireAsync(c.thread())
			testkit.Release(c.T, ls)
			got, err := f.Await(testkit.Limited(c.T))
			require.NoError(c, err)
			testkit.Release(c.T, got)
		},
		"testTryLockAsyncWaitTime": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.another()))
			began := time.Now()
			_, err := c.lock(c.e, engine.MaxWait(300*time.Millisecond)).AcquireAsync(c.thread()).Await(testkit.Limited(c.T))
			require.ErrorIs(c, err, engine.ErrHeld)
			require.GreaterOrEqual(c, time.Since(began), 290*time.Millisecond)
			testkit.Release(c.T, ls)
		},
		"testTryLockAsyncFailed": func(c *subject) {
			ls := c.take(c.thread(), c.lock(c.another()))
			_, err := c.lock(c.e).TryAcquireAsync(c.thread()).Await(testkit.Limited(c.T))
			require.ErrorIs(c, err, engine.ErrHeld)
			testkit.Release(c.T, ls)
		},
		"testTryLockAsyncSucceed": func(c *subject) {
			ls, err := c.lock(c.e).TryAcquireAsync(c.thread()).Await(testkit.Limited(c.T))
			require.NoError(c, err)
			testkit.Release(c.T, ls)
		},
	}
}
