package redisson_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A countedSubject is a semaphore and a latch in the suite.
type countedSubject struct {
	*testing.T
	s     *redistest.Server
	e     *engine.Engine
	sem   *engine.Semaphore
	latch *engine.CountDownLatch
	ctx   context.Context //nolint:containedctx // the test's
}

func conformCounted(t *testing.T, tests map[string]func(*countedSubject)) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := testkit.Open(t, s.Addr())
			test(&countedSubject{t, s, e, e.Semaphore("test"), e.CountDownLatch("latch"), testkit.Limited(t)})
			s.Do(t, "FLUSHALL")
		})
	}
}

func (c *countedSubject) set(n int) {
	c.Helper()
	set, err := c.sem.TrySetPermits(c.ctx, n)
	require.NoError(c, err)
	require.True(c, set)
}

func (c *countedSubject) add(n int) {
	c.Helper()
	_, err := c.sem.AddPermits(c.ctx, n)
	require.NoError(c, err)
}

func (c *countedSubject) acquire(n int) { c.Helper(); require.NoError(c, c.sem.Acquire(c.ctx, n)) }

func (c *countedSubject) release(n int) { c.Helper(); require.NoError(c, c.sem.Release(c.ctx, n)) }

func (c *countedSubject) free(n int) {
	c.Helper()
	got, err := c.sem.AvailablePermits(c.ctx)
	require.NoError(c, err)
	require.Equal(c, n, got)
}

// waiting begins an acquire and waits until it has been told that too few are free.
func (c *countedSubject) waiting(n int) *engine.Future[struct{}] {
	c.Helper()
	before := c.e.Stats().Waits
	f := c.sem.AcquireAsync(c.ctx, n)
	testkit.Eventually(c.T, "it waits", func() bool { return c.e.Stats().Waits > before })
	testkit.Pending(c.T, f)
	return f
}

// take has each of several engines take permits in turns and give them back, and checks that never more are held than
// there are.
func (c *countedSubject) take(engines, turns int, all int64, permits func(turn int) int) {
	c.Helper()
	var counter, inside, broken atomic.Int64
	var threads sync.WaitGroup
	for i := range engines {
		sem := testkit.Open(c.T, c.s.Addr()).Semaphore("test")
		threads.Go(func() {
			for turn := range turns {
				n := permits(i + turn)
				if err := sem.Acquire(c.ctx, n); err != nil {
					c.Error(err)
					return
				}
				if inside.Add(int64(n)) > all {
					broken.Add(1)
				}
				counter.Add(1)
				inside.Add(-int64(n))
				if err := sem.Release(c.ctx, n); err != nil {
					c.Error(err)
					return
				}
			}
		})
	}
	threads.Wait()
	require.EqualValues(c, engines*turns, counter.Load())
	require.Zero(c, broken.Load(), "more were held than there are")
	c.free(int(all))
}

func TestRedissonSemaphore(t *testing.T) {
	conformCounted(t, map[string]func(*countedSubject){
		"testAcquireAfterAddPermits": func(c *countedSubject) {
			c.add(1)
			f := c.waiting(2)
			require.ErrorIs(c, c.sem.TryAcquire(c.ctx, 1), engine.ErrNoPermits, "it is kept for who waits: see the page")
			other := testkit.Open(c.T, c.s.Addr()).Semaphore("test")
			require.NoError(c, other.Acquire(c.ctx, 1))
			require.NoError(c, other.Release(c.ctx, 1))
			testkit.Pending(c.T, f)
			c.add(1)
			testkit.Get(c.T, f)
		},
		"testZero": func(c *countedSubject) {
			require.NoError(c, c.sem.With(engine.MaxWait(10*time.Minute)).Acquire(c.ctx, 0))
			c.release(0)
			c.free(0)
		},
		"testAcquireWithoutSetPermits": func(c *countedSubject) {
			c.release(1)
			c.release(1)
			c.acquire(2)
		},
		"testTrySetPermits": func(c *countedSubject) {
			c.set(10)
			c.free(10)
			set, err := c.sem.TrySetPermits(c.ctx, 15)
			require.NoError(c, err)
			require.False(c, set)
			c.free(10)
			_, err = c.sem.Delete(c.ctx)
			require.NoError(c, err)
			require.False(c, testkit.Exists(c.T, c.s, "test"))
			require.True(c, testkit.Get(c.T, c.sem.TrySetPermitsAsync(c.ctx, 1, time.Second)))
			c.free(1)
			testkit.Eventually(c.T, "it is gone", func() bool { return !testkit.Exists(c.T, c.s, "test") })
			c.free(0)
		},
		"testAddPermits": func(c *countedSubject) {
			c.set(10)
			c.acquire(10)
			c.free(0)
			c.add(4)
			c.free(4)
			c.release(10)
			c.free(14)
			c.acquire(5)
			c.free(9)
		},
		"testReducePermits": func(c *countedSubject) {
			c.set(10)
			c.acquire(10)
			c.add(-5)
			c.free(-5)
			c.release(10)
			c.free(5)
			c.acquire(5)
			c.free(0)
		},
		"testBlockingAcquire": func(c *countedSubject) {
			c.set(1)
			c.acquire(1)
			c.free(0)
			f := c.waiting(1)
			c.release(1)
			testkit.Get(c.T, f)
			require.ErrorIs(c, c.sem.TryAcquire(c.ctx, 1), engine.ErrNoPermits)
			c.free(0)
		},
		"testBlockingNAcquire": func(c *countedSubject) {
			c.set(5)
			c.acquire(3)
			c.free(2)
			f := c.waiting(4)
			c.release(1)
			testkit.Pending(c.T, f)
			c.release(1)
			testkit.Get(c.T, f)
			c.free(0)
		},
		"testTryNAcquire": func(c *countedSubject) {
			c.set(5)
			require.NoError(c, c.sem.TryAcquire(c.ctx, 3))
			require.ErrorIs(c, c.sem.TryAcquire(c.ctx, 4), engine.ErrNoPermits)
			before := c.e.Stats().Waits
			f := c.sem.With(engine.MaxWait(testkit.TooLong)).AcquireAsync(c.ctx, 4)
			testkit.Eventually(c.T, "it waits", func() bool { return c.e.Stats().Waits > before })
			c.release(1)
			testkit.Pending(c.T, f)
			c.release(1)
			testkit.Get(c.T, f)
			c.free(0)
		},
		"testReleaseWithoutPermits": func(c *countedSubject) {
			c.release(1)
			c.free(1)
		},
		"testDrainPermits": func(c *countedSubject) {
			for _, want := range []int{0, 7} {
				n, err := c.sem.DrainPermits(c.ctx)
				require.NoError(c, err)
				require.Equal(c, want, n)
				if want == 0 {
					c.add(10)
					c.acquire(3)
				}
			}
			c.free(0)
		},
		"testReleaseAcquire": func(c *countedSubject) {
			c.set(10)
			c.acquire(1)
			c.free(9)
			c.release(1)
			c.free(10)
			c.acquire(5)
			c.free(5)
			c.release(5)
			c.free(10)
		},
		"testReleaseIfExists": func(c *countedSubject) {
			done, err := c.sem.ReleaseIfExists(c.ctx, 1)
			require.NoError(c, err)
			require.False(c, done)
			require.False(c, testkit.Exists(c.T, c.s, "test"))
			c.set(1)
			done, err = c.sem.ReleaseIfExists(c.ctx, 2)
			require.NoError(c, err)
			require.True(c, done)
			c.free(3)
		},
		"testConcurrency_SingleInstance": func(c *countedSubject) {
			c.set(1)
			c.take(1, 15, 1, func(int) int { return 1 })
		},
		"testConcurrencyLoopMax_MultiInstance": func(c *countedSubject) {
			c.set(math.MaxInt32)
			c.take(4, 10, math.MaxInt32, func(turn int) int { return []int{1, math.MaxInt32}[turn%2] })
		},
		"testConcurrencyLoop_MultiInstance": func(c *countedSubject) {
			c.set(1)
			c.take(16, 100, 1, func(int) int { return 1 })
		},
		"testConcurrency_MultiInstance_1_permits": func(c *countedSubject) {
			c.set(1)
			c.take(30, 1, 1, func(int) int { return 1 })
		},
	})
}

func (c *countedSubject) setCount(l *engine.CountDownLatch, n int) bool {
	c.Helper()
	set, err := l.TrySetCount(c.ctx, n)
	require.NoError(c, err)
	return set
}

func (c *countedSubject) count(l *engine.CountDownLatch, n int) {
	c.Helper()
	got, err := l.Count(c.ctx)
	require.NoError(c, err)
	require.Equal(c, n, got)
}

func (c *countedSubject) deletes() bool {
	c.Helper()
	was, err := c.latch.Delete(c.ctx)
	require.NoError(c, err)
	return was
}

func TestRedissonCountDownLatch(t *testing.T) {
	conformCounted(t, map[string]func(*countedSubject){
		"testAwaitTimeout": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 1))
			f := c.latch.With(engine.MaxWait(testkit.TooLong)).AwaitAsync(c.ctx)
			testkit.Pending(c.T, f)
			require.NoError(c, c.latch.CountDown(c.ctx))
			testkit.Get(c.T, f)
		},
		"testAwaitTimeoutFail": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 1))
			c.count(c.latch, 1)
			require.ErrorIs(c, c.latch.With(engine.MaxWait(100*time.Millisecond)).Await(c.ctx), engine.ErrNotOpen)
			require.NoError(c, c.latch.CountDown(c.ctx))
		},
		"testMultiAwait": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 5))
			var all []*engine.Future[struct{}]
			for range 5 {
				all = append(all, c.latch.AwaitAsync(c.ctx))
			}
			for range 5 {
				for _, f := range all {
					testkit.Pending(c.T, f)
				}
				require.NoError(c, c.latch.CountDown(c.ctx))
			}
			for _, f := range all {
				testkit.Get(c.T, f)
			}
			c.count(c.latch, 0)
		},
		"testCountDown": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 2))
			c.count(c.latch, 2)
			for _, left := range []int{1, 0, 0, 0} { // the last two are too much
				require.NoError(c, c.latch.CountDown(c.ctx))
				c.count(c.latch, left)
			}
			require.NoError(c, c.latch.Await(c.ctx))
			one, missing := c.e.CountDownLatch("latch1"), c.e.CountDownLatch("latch3")
			require.True(c, c.setCount(one, 1))
			c.count(c.latch, 0)
			require.NoError(c, one.CountDown(c.ctx))
			require.NoError(c, one.CountDown(c.ctx))
			require.NoError(c, one.Await(c.ctx))
			require.NoError(c, missing.Await(c.ctx))
			require.NoError(c, missing.CountDown(c.ctx))
			require.NoError(c, missing.Await(c.ctx))
			c.count(missing, 0)
		},
		"testDelete": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 1))
			require.True(c, c.deletes())
		},
		"testDeleteFailed": func(c *countedSubject) { require.False(c, c.deletes()) },
		"testTrySetCount": func(c *countedSubject) {
			require.True(c, c.setCount(c.latch, 1))
			require.False(c, c.setCount(c.latch, 2))
		},
		"testCount": func(c *countedSubject) { c.count(c.latch, 0) },
	})
}

func TestRedissonCountDownLatchConcurrent(t *testing.T) {
	conformCounted(t, map[string]func(*countedSubject){
		"testSingleCountDownAwait_SingleInstance": func(c *countedSubject) {
			n := 3 * runtime.NumCPU()
			require.True(c, c.setCount(c.latch, n))
			var counter atomic.Int64
			var threads sync.WaitGroup
			for range n {
				threads.Go(func() {
					if err := c.latch.Await(c.ctx); err != nil {
						c.Error(err)
						return
					}
					if got := counter.Load(); got != int64(n) {
						c.Errorf("let in after %d of %d", got, n)
					}
				})
				threads.Go(func() {
					counter.Add(1)
					if err := c.latch.CountDown(c.ctx); err != nil {
						c.Error(err)
					}
				})
			}
			threads.Wait()
			c.count(c.latch, 0)
		},
	})
}
