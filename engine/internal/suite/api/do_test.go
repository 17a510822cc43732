package api_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// busy tries to take a lock with ctx, and says whether somebody else has it.
func busy(t *testing.T, l *engine.Lock, ctx context.Context) bool { //nolint:revive // t is first in a test's helper
	t.Helper()
	ls, err := l.TryAcquire(ctx)
	if err == nil {
		testkit.Release(t, ls)
		return false
	}
	require.ErrorIs(t, err, engine.ErrHeld)
	return true
}

// Goroutines that work inside one Do exclude each other in every other lock.
func TestDoIsNoOwnerOfOtherLocks(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	var inside, most atomic.Int64
	err := e.Lock("tenant:1").Do(testkit.Limited(t), func(ctx context.Context) error {
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				take := func(context.Context) error {
					most.Store(max(most.Load(), inside.Add(1)))
					if !busy(t, e.Lock("seat:7"), ctx) {
						t.Error("taken twice")
					}
					inside.Add(-1)
					return nil
				}
				if i%2 == 0 {
					if err := e.Lock("seat:7").Do(ctx, take); err != nil {
						t.Error(err)
					}
					return
				}
				ls, err := e.Lock("seat:7").Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				_ = take(ctx)
				testkit.Release(t, ls)
			})
		}
		wg.Wait()
		_, has := engine.OwnerFrom(ctx)
		require.False(t, has)
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, most.Load(), "were inside at once")
	testkit.Finish(t, s, e)
}

func TestBothLocksOfNestedDosMayBeEnteredAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	a, b, c := e.Lock("a"), e.Lock("b"), e.Lock("c")
	require.NoError(t, a.Do(testkit.Limited(t), func(inA context.Context) error {
		return b.Do(inA, func(inB context.Context) error {
			require.False(t, busy(t, a, inB))
			require.False(t, busy(t, b, inB))
			require.True(t, busy(t, b, inA), "not the inner lock with the outer context")
			return a.Do(inB, func(again context.Context) error {
				require.False(t, busy(t, b, again))
				ls := testkit.Acquire(t, c)
				require.True(t, busy(t, c, again))
				testkit.Release(t, ls)
				return nil
			})
		})
	}))
	testkit.Finish(t, s, e)
}

func TestDoKeepsTheOwnerOfItsCaller(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	mine, named := engine.NewOwner(), engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), mine)
	other := e.Lock("other")
	require.NoError(t, e.Lock("name", engine.As(named)).Do(ctx, func(ctx context.Context) error {
		o, ok := engine.OwnerFrom(ctx)
		require.True(t, ok)
		require.Same(t, mine, o)
		require.Equal(t, 1, named.Holds(e.Lock("name")))
		require.False(t, busy(t, e.Lock("name"), ctx), "the lock is its named owner's")
		ls, err := other.Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, mine.Holds(other))
		require.False(t, busy(t, other, ctx))
		testkit.Release(t, ls)
		return nil
	}))
	testkit.Finish(t, s, e)
}

func TestWithOwnerTakesAwayWhatDoGave(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name")
	require.NoError(t, l.Do(testkit.Limited(t), func(ctx context.Context) error {
		require.False(t, busy(t, l, ctx))
		require.True(t, busy(t, l, engine.WithOwner(ctx, nil)))
		require.True(t, busy(t, l, engine.WithOwner(ctx, engine.NewOwner())))
		return nil
	}))
	testkit.Finish(t, s, e)
}

// What a Do has left running is no holder of its lock any more.
func TestADoThatIsOverIsNoOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name")
	var left context.Context
	failed := errors.New("failed")
	require.ErrorIs(t, l.Do(testkit.Limited(t), func(ctx context.Context) error {
		left = context.WithoutCancel(ctx)
		return failed
	}), failed)
	ls, err := l.Acquire(left)
	require.NoError(t, err)
	require.True(t, busy(t, l, left))
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}
