package family_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// How often others take what a release has freed for a waiter of this engine.
func TestWaitersThatArePassedOverAreCounted(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	sem := e.Semaphore("s")
	setPermits(t, sem, 2)
	require.NoError(t, other.Semaphore("s").Acquire(ctx, 2))
	waits := sem.AcquireAsync(ctx, 2)
	channel := slot.SemaphoreChannel("s")
	hears := func(message string) {
		before := e.Stats().WokenByMessage
		testkit.Eventually(t, "it is woken", func() bool {
			s.Do(t, "PUBLISH", channel, message)
			return e.Stats().WokenByMessage > before
		})
		testkit.Eventually(t, "it waits again", func() bool {
			// What it was woken for is answered: only then another message wakes it. It is the same message: what
			// counts is what was said last.
			at := e.Stats().WokenByMessage
			s.Do(t, "PUBLISH", channel, message)
			return e.Stats().WokenByMessage > at
		})
	}
	hears("1")
	require.Zero(t, e.Stats().PassedOver, "it wants two, and one was free")
	hears("2")
	require.Positive(t, e.Stats().PassedOver, "two were free, and others had taken them")
	hears("1") // what that has asked for at last is answered
	passed := e.Stats().PassedOver
	require.NoError(t, other.Semaphore("s").Release(ctx, 2))
	testkit.Get(t, waits)
	require.Equal(t, passed, e.Stats().PassedOver, "who is served is not passed over")

	// Of a lock, every message frees it.
	ls := testkit.Acquire(t, other.Lock("l"))
	lock := e.Lock("l").AcquireAsync(ctx)
	channel = slot.LockChannel("l")
	hears("0")
	testkit.Eventually(t, "it is counted", func() bool { return e.Stats().PassedOver > passed })
	testkit.Release(t, ls)
	testkit.Release(t, testkit.Get(t, lock))

	// Leased permits.
	passed = e.Stats().PassedOver
	leased := e.PermitSemaphore("p", engine.WatchdogLease(engine.DefaultLease))
	set, err := leased.TrySetPermits(ctx, 1)
	require.NoError(t, err)
	require.True(t, set)
	taken, err := other.PermitSemaphore("p").Acquire(ctx, 1)
	require.NoError(t, err)
	permit := leased.AcquireAsync(ctx, 1)
	channel = slot.SemaphoreChannel("p")
	hears("1")
	testkit.Eventually(t, "it is counted", func() bool { return e.Stats().PassedOver > passed })
	require.NoError(t, taken.Release(ctx))
	require.NoError(t, testkit.Get(t, permit).Release(ctx))
	s.Do(t, "DEL", "p")
	semaphoreIsOver(t, s, "s", e, other)
}
