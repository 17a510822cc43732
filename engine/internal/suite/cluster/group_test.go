package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// TestValuesOfAGroupInACluster: groups of every master, renewed and given back together, and waited for from elsewhere.
func TestValuesOfAGroupInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	var held []*engine.Lease
	var waits []*engine.Future[*engine.Lease]
	for i := range 60 {
		group := fmt.Sprint("g:", i)
		if i%3 == 0 {
			group = "a{" + group + "}b"
		}
		for _, values := range [][]string{{"a", "b"}, {"c", "d"}} {
			ls, err := a.GroupLock(group, engine.KryoStrings(values...), engine.WatchdogLease(3*time.Second)).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			held = append(held, ls)
		}
		if i < 6 {
			waits = append(waits, b.GroupLock(group, engine.KryoStrings("b", "c")).AcquireAsync(testkit.Limited(t)))
		}
	}
	testkit.Eventually(t, "they wait", func() bool { return b.Stats().Waiting == 6 })
	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "all are renewed", func() bool { return a.Stats().Renewals.Sent >= sent+240 })
	for _, ls := range held {
		require.NoError(t, ls.Release(testkit.Limited(t)))
	}
	for _, f := range waits {
		require.NoError(t, testkit.Get(t, f).Release(testkit.Limited(t)))
	}
	require.ErrorIs(t, a.GroupLock("a{b", engine.KryoStrings("a")).Err(), engine.ErrName)
	testkit.FinishCluster(t, c, a, b)
}

// TestValuesFollowTheSlotOfTheirGroup: they are renewed, waited for and given back where it has gone.
func TestValuesFollowTheSlotOfTheirGroup(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	ls, err := a.GroupLock("g", engine.KryoStrings("a", "b"), engine.WatchdogLease(3*time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	f := b.GroupLock("g", engine.KryoStrings("b", "c")).AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().Waits > 0 })
	require.NoError(t, c.MoveSlot(testkit.Limited(t), slot.Of("g"), testkit.AnotherMaster(t, c, slot.Of("g"))))
	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "it is renewed for longer than its lease", func() bool { return a.Stats().Renewals.Sent >= sent+4 })
	require.False(t, ls.Lost())
	testkit.Pending(t, f)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.NoError(t, testkit.Get(t, f).Release(testkit.Limited(t)))
	testkit.FinishCluster(t, c, a, b)
}
