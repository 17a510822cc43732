package family_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A waiter that is told "too few" because callers of this very engine have the permits does not end its tenure.
func TestPermitsGoFromHandToHandThoughTheNextWaiterWasRefused(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.Semaphore("s"), testkit.Limited(t)
	setPermits(t, sem, 1)
	require.NoError(t, sem.Acquire(ctx, 1))
	next := sem.AcquireAsync(ctx, 1)
	for range 40 {
		after := sem.AcquireAsync(ctx, 1)
		requireFree(t, sem, 0) // it travels behind what asks for the next waiter: that one is refused by now
		require.NoError(t, sem.Release(ctx, 1))
		testkit.Get(t, next)
		next = after
	}
	require.Greater(t, e.Stats().GrantsByHandOff, int64(20))
	require.NoError(t, sem.Release(ctx, 1))
	testkit.Get(t, next)
	require.NoError(t, sem.Release(ctx, 1))
	semaphoreIsOver(t, s, "s", e)
}
