package cluster_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// dropPermits deletes semaphores, which nothing ends.
func dropPermits(t *testing.T, sems ...*engine.PermitSemaphore) {
	t.Helper()
	for _, sem := range sems {
		gone, err := sem.Delete(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, gone)
	}
}

func TestClusterPermitsOnEverySlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	var sems []*engine.PermitSemaphore
	var held []*engine.Permit
	for i := range 150 {
		name := "s:" + strconv.Itoa(i)
		if i%3 == 0 {
			name = "a{" + name + "}b"
		}
		sem := a.PermitSemaphore(name, engine.WatchdogLease(5*time.Second))
		set, err := sem.TrySetPermits(testkit.Limited(t), 3)
		require.NoError(t, err)
		require.True(t, set)
		p, err := sem.Acquire(testkit.Limited(t), 2)
		require.NoError(t, err)
		sems, held = append(sems, sem), append(held, p)
	}
	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "all are renewed", func() bool { return a.Stats().Renewals.Sent >= sent+150 })
	waits := b.PermitSemaphore(sems[0].Name()).AcquireAsync(testkit.Limited(t), 3)
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().Waits > 0 })
	for _, p := range held {
		require.NoError(t, p.Release(testkit.Limited(t)))
	}
	require.NoError(t, testkit.Get(t, waits).Release(testkit.Limited(t)))
	for _, sem := range sems {
		free, err := sem.AvailablePermits(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, 3, free)
	}
	require.ErrorIs(t, a.PermitSemaphore("a{b").Err(), engine.ErrName)
	dropPermits(t, sems...)
	testkit.FinishCluster(t, c, a, b)
}

// The number of permits and the set of those that are leased are on either side of a slot that stays half-moved: none
// is made, none is lost, held ones are renewed where they stand, and who waits is served when all have come.
func TestPermitsInASlotThatStaysHalfMoved(t *testing.T) {
	t.Parallel()
	for _, moved := range []string{"neither", "the number", "the set"} {
		t.Run(moved, func(t *testing.T) {
			t.Parallel()
			c := redistest.RunCluster(t, 3, 0)
			e := testkit.OpenCluster(t, c)
			sem := e.PermitSemaphore("s", engine.WatchdogLease(3*time.Second))
			set, err := sem.TrySetPermits(testkit.Limited(t), 4)
			require.NoError(t, err)
			require.True(t, set)
			held, err := sem.Acquire(testkit.Limited(t), 2)
			require.NoError(t, err)
			h := halfMove(t, c, "s")
			switch moved {
			case "the number":
				h.carry("s")
			case "the set":
				h.carry(slot.PermitTimeouts("s"))
			}
			wanted := sem.AcquireAsync(testkit.Limited(t), 2)
			renewed := e.Stats().Renewals.Sent
			testkit.Eventually(t, "it is renewed for more than its lease", func() bool {
				return e.Stats().Renewals.Sent >= renewed+6
			})
			require.False(t, held.Lost())
			gave := held.ReleaseAsync()
			from := e.Stats().Slots.Redirects
			testkit.Eventually(t, "it is asked for, and waits for the rest", func() bool {
				return moved == "neither" || e.Stats().Slots.Redirects > from+3
			})
			h.carryAll()
			h.finish()
			if _, err := gave.Await(testkit.Limited(t)); err != nil {
				require.ErrorIs(t, err, engine.ErrLost, "it has waited for longer than the lease")
			}
			require.NoError(t, testkit.Get(t, wanted).Release(testkit.Limited(t)))
			for range 2 {
				p, err := sem.TryAcquire(testkit.Limited(t), 4)
				require.NoError(t, err)
				require.NoError(t, p.Release(testkit.Limited(t)))
			}
			free, err := sem.Permits(testkit.Limited(t))
			require.NoError(t, err)
			require.Equal(t, 4, free)
			dropPermits(t, sem)
			testkit.FinishCluster(t, c, e)
		})
	}
}
