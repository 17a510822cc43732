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
	// says publishes until what it leads to is seen: who waits is woken again only when what it was woken for before is
	// answered, so not by every message. What counts is what was said last.
	says := func(message, what string, seen func() bool) {
		testkit.Eventually(t, what, func() bool {
			s.Do(t, "PUBLISH", channel, message)
			return seen()
		})
	}
	counted := func(than int64) func() bool {
		return func() bool { return e.Stats().PassedOver > than }
	}
	for range 2 { // it is woken a second time when what it asked for at first is answered
		woken := e.Stats().WokenByMessage
		says("1", "it is woken", func() bool { return e.Stats().WokenByMessage > woken })
	}
	require.Zero(t, e.Stats().PassedOver, "it wants two, and one was free")
	says("2", "two were free, and others had taken them", counted(0))
	require.NoError(t, other.Semaphore("s").Release(ctx, 2))
	testkit.Get(t, waits)

	// Who is served is not passed over: nothing was published but what the release says.
	served := e.Semaphore("served")
	setPermits(t, served, 2)
	require.NoError(t, other.Semaphore("served").Acquire(ctx, 2))
	passed, woken := e.Stats().PassedOver, e.Stats().WokenBySubscribe
	waits = served.AcquireAsync(ctx, 2)
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > woken })
	require.NoError(t, other.Semaphore("served").Release(ctx, 2))
	testkit.Get(t, waits)
	require.Equal(t, passed, e.Stats().PassedOver, "who is served is not passed over")

	// Of a lock, every message frees it.
	ls := testkit.Acquire(t, other.Lock("l"))
	lock := e.Lock("l").AcquireAsync(ctx)
	channel = slot.LockChannel("l")
	says("0", "it is counted", counted(passed))
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
	says("1", "it is counted", counted(passed))
	require.NoError(t, taken.Release(ctx))
	require.NoError(t, testkit.Get(t, permit).Release(ctx))
	s.Do(t, "DEL", "p")
	s.Do(t, "DEL", "served", slot.CountedRequests("served"))
	semaphoreIsOver(t, s, "s", e, other)
}
