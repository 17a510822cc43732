package engine_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// openCluster opens an engine on one node of a cluster and closes it at the test's end.
func openCluster(tb testing.TB, c *redistest.Cluster, change ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	return openEngine(tb, c.Masters[0].Addr(), change...)
}

// finishCluster closes the engines and checks that no master keeps anything.
func finishCluster(tb testing.TB, c *redistest.Cluster, engines ...*engine.Engine) {
	tb.Helper()
	for _, m := range c.Masters {
		require.Empty(tb, m.ImmortalKeys(tb), "keys without an expiry")
	}
	for _, e := range engines {
		eventually(tb, "nothing goes on in the engine", func() bool { return e.Stats().Names == 0 })
		require.NoError(tb, e.Close(limited(tb)))
	}
	for _, m := range c.Masters {
		require.Empty(tb, m.Keys(tb), "keys left on %s", m.Addr())
	}
}

func TestClusterLocksOfAllSlotsAreTakenAndGivenBack(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0)
	e := openCluster(t, c)
	const names = 5000
	futures := make([]*engine.Future[*engine.Lease], names)
	for i := range futures {
		futures[i] = e.Lock("lock:" + strconv.Itoa(i)).AcquireAsync(t.Context())
	}
	leases, err := engine.All(futures...).Await(limited(t))
	require.NoError(t, err)
	total := 0
	for _, m := range c.Masters {
		total += len(m.Keys(t))
	}
	require.Equal(t, names, total, "every lock stands on the node of its slot")
	info, err := e.Lock("lock:7").Inspect(limited(t))
	require.NoError(t, err)
	require.True(t, info.Mine)
	for _, ls := range leases {
		ls.ReleaseAsync()
	}
	finishCluster(t, c, e)
}

func TestClusterWaiterIsWokenByTheMessage(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0)
	a, b := openCluster(t, c), openCluster(t, c)
	for i := range 30 {
		name := fmt.Sprint("lock:", i)
		ls := acquire(t, a.Lock(name))
		waiter := b.Lock(name).AcquireAsync(t.Context())
		eventually(t, "the waiter listens", func() bool {
			s := b.Stats()
			n := int64(0)
			for _, node := range s.Nodes {
				n += node.Subscriptions.Confirmed
			}
			return n > int64(i)
		})
		began := time.Now()
		release(t, ls)
		got, err := waiter.Await(limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(began), 500*time.Millisecond)
		release(t, got)
	}
	require.GreaterOrEqual(t, b.Stats().GrantsByMessage, int64(25))
	finishCluster(t, c, a, b)
}
