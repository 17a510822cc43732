package family_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func setPermits(t *testing.T, s *engine.Semaphore, n int) {
	t.Helper()
	set, err := s.TrySetPermits(testkit.Limited(t), n)
	require.NoError(t, err)
	require.True(t, set)
}

func requireFree(t *testing.T, s *engine.Semaphore, n int) {
	t.Helper()
	free, err := s.AvailablePermits(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, n, free)
}

// semaphoreIsOver deletes what a semaphore leaves: its permits stay, and notes of requests for an hour.
func semaphoreIsOver(t *testing.T, s *redistest.Server, name string, engines ...*engine.Engine) {
	t.Helper()
	notes := slot.CountedRequests(name)
	if testkit.Exists(t, s, notes) {
		left := testkit.Int(t, s, "PTTL", notes)
		require.Positive(t, left)
		require.LessOrEqual(t, left, time.Hour.Milliseconds())
	}
	s.Do(t, "DEL", name, notes)
	testkit.Finish(t, s, engines...)
}

func TestASemaphoreIsItsNumberOfPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	requireFree(t, sem, 0)
	require.ErrorIs(t, sem.TryAcquire(ctx, 1), engine.ErrNoPermits, "nobody has given it any")
	setPermits(t, sem, 10)
	set, err := sem.TrySetPermits(ctx, 20)
	require.NoError(t, err)
	require.False(t, set, "it has permits already")

	require.NoError(t, sem.Acquire(ctx, 1))
	require.NoError(t, sem.TryAcquire(ctx, 6))
	requireFree(t, sem, 3)
	var none *engine.NoPermitsError
	err = sem.TryAcquire(ctx, 4)
	require.ErrorAs(t, err, &none)
	require.ErrorIs(t, err, engine.ErrHeld)
	require.Equal(t, engine.NoPermitsError{Name: "s", Wanted: 4}, *none)
	require.NoError(t, sem.TryAcquire(ctx, 0), "none are always free")
	require.NoError(t, sem.Release(ctx, 0))
	requireFree(t, sem, 3)

	drained, err := sem.DrainPermits(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, drained)
	requireFree(t, sem, 0)
	drained, err = sem.DrainPermits(ctx)
	require.NoError(t, err)
	require.Zero(t, drained)
	require.NoError(t, sem.Release(ctx, 10))
	requireFree(t, sem, 10)

	free, err := sem.AddPermits(ctx, 5)
	require.NoError(t, err)
	require.Equal(t, 15, free)
	free, err = sem.AddPermits(ctx, -20)
	require.NoError(t, err)
	require.Equal(t, -5, free)
	requireFree(t, sem, -5)
	require.ErrorIs(t, sem.TryAcquire(ctx, 1), engine.ErrNoPermits)

	exists, err := sem.ReleaseIfExists(ctx, 6)
	require.NoError(t, err)
	require.True(t, exists)
	requireFree(t, sem, 1)
	gone, err := sem.Delete(ctx)
	require.NoError(t, err)
	require.True(t, gone)
	gone, err = sem.Delete(ctx)
	require.NoError(t, err)
	require.False(t, gone)
	exists, err = sem.ReleaseIfExists(ctx, 1)
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, sem.Release(ctx, 1), "as Redisson's, it makes one")
	requireFree(t, sem, 1)
	semaphoreIsOver(t, s, "s", e)
}

func TestASemaphoreForAWhileIsGoneAfterIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem := e.Semaphore("s")
	require.True(t, testkit.Get(t, sem.TrySetPermitsAsync(t.Context(), 3, 5*time.Second)))
	require.NoError(t, sem.Acquire(t.Context(), 1))
	left := testkit.Int(t, s, "PTTL", "s")
	require.Greater(t, left, int64(3000))
	require.LessOrEqual(t, left, int64(5000), "to take some does not prolong it")
	semaphoreIsOver(t, s, "s", e)
}

func TestASemaphoreRefusesWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	for _, n := range []int{-1, math.MaxInt32 + 1} {
		require.ErrorIs(t, sem.Acquire(ctx, n), engine.ErrLease)
		require.ErrorIs(t, sem.TryAcquire(ctx, n), engine.ErrLease)
		require.ErrorIs(t, testkit.GetError(t, sem.AcquireAsync(ctx, n)), engine.ErrLease)
		require.ErrorIs(t, sem.Release(ctx, n), engine.ErrLease)
		_, err := sem.TrySetPermits(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
	}
	for what, opt := range map[string]engine.Option{
		"lease": engine.WatchdogLease(5 * time.Second), "fixed lease": engine.FixedLease(time.Second),
		"hold": engine.MaxHold(time.Second), "replicas": engine.WaitReplicas(1, time.Second),
		"owner": engine.As(engine.NewOwner()), "once": engine.NonReentrant(), "nil": nil,
	} {
		require.Error(t, e.Semaphore("s", opt).Err(), what)
		require.ErrorIs(t, e.Semaphore("s", opt).Acquire(ctx, 1), engine.ErrLease, what)
		require.Error(t, sem.With(opt).Err(), what)
	}
	require.ErrorIs(t, e.Semaphore("s", engine.Spin(time.Millisecond, time.Second)).Err(), engine.ErrLease)
	require.NoError(t, sem.With(engine.MaxWait(time.Second)).Err())
	require.ErrorIs(t, e.Semaphore("").Err(), engine.ErrName)
	require.Empty(t, s.Do(t, "KEYS", "*"))

	// Another object under the name.
	for _, make := range [][]string{{"HSET", "s", "a", "1"}, {"SET", "s", "text"}, {"RPUSH", "s", "1"}} {
		s.Do(t, make...)
		require.ErrorIs(t, sem.TryAcquire(ctx, 1), engine.ErrWrongKind, make)
		require.ErrorIs(t, sem.Acquire(ctx, 1), engine.ErrWrongKind, make)
		_, err := sem.AvailablePermits(ctx)
		require.ErrorIs(t, err, engine.ErrWrongKind, make)
		s.Do(t, "DEL", "s")
	}
	ls := testkit.Acquire(t, e.Lock("s"))
	require.ErrorIs(t, sem.Acquire(ctx, 1), engine.ErrWrongKind)
	testkit.Release(t, ls)
	semaphoreIsOver(t, s, "s", e)
}

// Who waits first is served first, whatever it wants: one that wants many is not passed over.
func TestASemaphoreServesItsEngineInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	setPermits(t, sem, 4)
	require.NoError(t, sem.Acquire(ctx, 4))
	many := sem.AcquireAsync(ctx, 3)
	one := sem.AcquireAsync(ctx, 1)
	require.ErrorIs(t, sem.TryAcquire(ctx, 1), engine.ErrNoPermits, "others wait")
	require.NoError(t, sem.Release(ctx, 2))
	requireFree(t, sem, 2)
	testkit.Pending(t, many)
	testkit.Pending(t, one)
	require.NoError(t, sem.Release(ctx, 2))
	testkit.Get(t, many)
	testkit.Get(t, one)
	require.NoError(t, sem.Release(ctx, 4))
	requireFree(t, sem, 4)
	semaphoreIsOver(t, s, "s", e)
}

func TestASemaphoreWaitsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem := e.Semaphore("s")
	setPermits(t, sem, 1)
	require.NoError(t, sem.Acquire(t.Context(), 1))
	began := time.Now()
	require.ErrorIs(t, sem.With(engine.MaxWait(200*time.Millisecond)).Acquire(t.Context(), 1), engine.ErrNoPermits)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	waits := sem.AcquireAsync(ctx, 1)
	cancelled := sem.AcquireAsync(t.Context(), 1)
	next := sem.AcquireAsync(t.Context(), 1)
	cancel()
	require.ErrorIs(t, testkit.GetError(t, waits), context.Canceled)
	require.True(t, cancelled.Cancel())
	require.ErrorIs(t, testkit.GetError(t, cancelled), engine.ErrCancelled)
	testkit.Pending(t, next)
	require.NoError(t, sem.Release(t.Context(), 1))
	testkit.Get(t, next)
	require.NoError(t, sem.Release(t.Context(), 1))
	requireFree(t, sem, 1)
	semaphoreIsOver(t, s, "s", e)
}

// Several engines and many callers: never more inside than there are permits, and in the end all are free.
func TestASemaphoreLetsInNoMoreThanItHasPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	const permits, callers, rounds = 5, 24, 40
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	setPermits(t, engines[0].Semaphore("s"), permits)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for i := range callers {
		sem, n := engines[i%len(engines)].Semaphore("s"), int64(1+i%3)
		wg.Go(func() {
			for range rounds {
				if err := sem.Acquire(t.Context(), int(n)); err != nil {
					errs <- err
					return
				}
				now := inside.Add(n)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				inside.Add(-n)
				if err := sem.Release(t.Context(), int(n)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, most.Load(), int64(permits))
	require.Greater(t, most.Load(), int64(1), "several were inside")
	requireFree(t, engines[0].Semaphore("s"), permits)
	semaphoreIsOver(t, s, "s", engines...)
}

// What is left over, because who wanted it has gone, is given back.
func TestASemaphoreGetsBackWhatNobodyWantsAnyMore(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem := e.Semaphore("s")
	setPermits(t, sem, 64)
	for range 50 {
		var all []*engine.Future[struct{}]
		for range 64 {
			all = append(all, sem.AcquireAsync(t.Context(), 1))
		}
		taken := 0
		for i, f := range all {
			if i%2 == 0 {
				f.Cancel()
			}
			if _, err := f.Await(t.Context()); err == nil {
				taken++
			} else if !errors.Is(err, engine.ErrCancelled) {
				require.NoError(t, err)
			}
		}
		require.NoError(t, sem.Release(t.Context(), taken))
		testkit.Eventually(t, "all are free: "+strconv.Itoa(taken), func() bool {
			free, err := sem.AvailablePermits(t.Context())
			return err == nil && free == 64
		})
	}
	semaphoreIsOver(t, s, "s", e)
}

func TestCloseEndsWaitersOfASemaphore(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	sem := e.Semaphore("s")
	setPermits(t, sem, 1)
	require.NoError(t, sem.Acquire(t.Context(), 1))
	waits := sem.AcquireAsync(t.Context(), 1)
	given := sem.ReleaseAsync(1) // with the last waiter it is handed out, or given back
	require.NoError(t, testkit.Close(e))
	_, err := waits.Await(t.Context())
	_, failed := given.Await(t.Context())
	require.NoError(t, failed)
	requireFree(t, other.Semaphore("s"), map[bool]int{true: 0, false: 1}[err == nil])
	require.ErrorIs(t, sem.Acquire(t.Context(), 1), engine.ErrClosed)
	require.ErrorIs(t, sem.Release(t.Context(), 1), engine.ErrClosed)
	semaphoreIsOver(t, s, "s", other)
}
