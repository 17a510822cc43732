package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// tenNames are ten, from the i-th on.
func tenNames(i int) (names []string) {
	for n := range 10 {
		names = append(names, testkit.Numbered("name", i+n))
	}
	return names
}

// requireHeldOnceAll checks that each key of a MultiLease shows its hold and no other.
func requireHeldOnceAll(t *testing.T, s *redistest.Server, ml *engine.MultiLease) {
	t.Helper()
	for _, view := range ml.Leases() {
		require.Equal(t, view.OwnerID()+"\n1", s.Do(t, "HGETALL", view.Name()), view.Name())
	}
}

// TestSentinelMultiLockOutlivesAFailover: ten locks are held together while the master is replaced, and others wait for
// them: for the same ten, for ten that share five, in another order.
func TestSentinelMultiLockOutlivesAFailover(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"planned", "the master is killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.RunSentinel(t, 1, 3)
			a, b := openSentinel(t, s), openSentinel(t, s)
			lease := engine.WatchdogLease(10 * time.Second) // a busy machine's sentinels take seconds
			ctx := testkit.Limited(t)
			held, err := a.MultiLock(tenNames(0)...).With(lease, engine.WaitReplicas(1, 5*time.Second)).Acquire(ctx)
			require.NoError(t, err)
			unbounded := t.Context()
			same := b.MultiLock(tenNames(0)...).With(lease).AcquireAsync(unbounded)
			shared := b.MultiLock(tenNames(5)...).With(lease).AcquireAsync(unbounded)
			own := a.MultiLock(tenNames(5)...).With(lease).AcquireAsync(unbounded)
			testkit.Eventually(t, "those of the other engine were told that they have to wait", func() bool { return b.Stats().Waits >= 2 })
			var master *redistest.Server
			if how == "planned" {
				master = failOver(t, s)
			} else {
				s.Master.Kill()
				master = promoted(t, s, s.Master)
			}
			testkit.Follows(t, a, master)
			testkit.Follows(t, b, master)
			renewed := a.Stats().Renewals.Sent
			testkit.Eventually(t, "it is renewed at the new master", func() bool { return a.Stats().Renewals.Sent >= renewed+20 })
			require.False(t, held.Lost(), "what the replica had is held")
			requireHeldOnceAll(t, master, held)
			for _, f := range []*engine.Future[*engine.MultiLease]{same, shared, own} {
				testkit.Pending(t, f)
			}
			fresh, err := b.MultiLock(tenNames(30)...).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			requireHeldOnceAll(t, master, fresh)
			require.NoError(t, fresh.Release(testkit.Limited(t)))

			require.NoError(t, held.Release(testkit.Limited(t)))
			got := make(chan *engine.MultiLease, 3)
			for _, f := range []*engine.Future[*engine.MultiLease]{same, shared, own} {
				f.OnComplete(func(ml *engine.MultiLease, err error) {
					if err != nil {
						t.Error(err)
					}
					got <- ml
				})
			}
			for range cap(got) { // one after the other, in any order: they share names
				ml := testkit.Await(t, got, "the next is served")
				require.NotNil(t, ml)
				require.Empty(t, got, "two of them hold what they share")
				requireHeldOnceAll(t, master, ml)
				require.NoError(t, ml.Release(testkit.Limited(t)))
			}
			testkit.Finish(t, master, a, b)
		})
	}
}

// TestClusterMultiLockIsHeldAndWaitedForWhileItsSlotsMove: of ten names on three masters each slot moves once, under the
// holder and under who waits.
func TestClusterMultiLockIsHeldAndWaitedForWhileItsSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	names := tenNames(0)
	held, err := a.MultiLock(names...).With(engine.WatchdogLease(3 * time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	waits := b.MultiLock(names...).AcquireAsync(t.Context())
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().Waits > 0 })
	for _, name := range names {
		move(t, c, name)
	}
	renewed := a.Stats().Renewals.Sent
	testkit.Eventually(t, "all are renewed where they are", func() bool { return a.Stats().Renewals.Sent >= renewed+20 })
	require.False(t, held.Lost())
	testkit.Pending(t, waits)
	require.NoError(t, held.Release(testkit.Limited(t)))
	ml := testkit.Get(t, waits)
	require.Len(t, ml.Leases(), len(names))
	require.NoError(t, ml.Release(testkit.Limited(t)), fmt.Sprint(names))
	testkit.FinishCluster(t, c, a, b)
}
