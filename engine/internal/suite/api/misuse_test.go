package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What callers do wrong is theirs to see: a panic in their own goroutine, or an error that speaks of what they called.
func TestMisuseIsToldToWhoDidIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	var none context.Context
	require.Panics(t, func() { _ = e.Ping(none) })
	ended, cancel := context.WithCancel(testkit.Limited(t))
	cancel()
	require.ErrorIs(t, e.Ping(ended), context.Canceled)
	_, err := e.CountDownLatch("l").CountDownAsync(-1).Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrLease)
	require.ErrorContains(t, err, "CountDown of -1 steps is not from 0 to 2147483647")
	ls, err := e.MultiLock("a", "b").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.ErrorIs(t, ls.Extend(testkit.Limited(t), time.Minute), engine.ErrNotHeld)
	testkit.Finish(t, s, e)
}
