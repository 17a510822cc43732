package engine_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
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
	t.Parallel()
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

// A waiter that listens asks once more. When the server has answered that "busy", too, it is the message of the release that
// sends for the lock. On a busy machine the message may overtake that answer, which is not believed then: the lock is asked
// for at once, too, but not by the message. It never waits for a poll.
func TestClusterWaiterIsWokenByTheMessage(t *testing.T) {
	t.Parallel()
	const names = 30
	c := redistest.RunCluster(t, 3, 0)
	a, b := openCluster(t, c), openCluster(t, c)
	for i := range names {
		name := fmt.Sprint("lock:", i)
		release(t, acquire(t, b.Lock(name))) // its node knows the scripts now
		owner, err := c.Owner(t.Context(), slot.Of(name))
		require.NoError(t, err)
		ls := acquire(t, a.Lock(name))
		before := calls(t, owner, "evalsha")
		waiter := b.Lock(name).AcquireAsync(limited(t))
		eventually(t, "the waiter listens, and has asked again", func() bool {
			confirmed := int64(0)
			for _, node := range b.Stats().Nodes {
				confirmed += node.Subscriptions.Confirmed
			}
			return confirmed > int64(i) && calls(t, owner, "evalsha") >= before+2
		})
		release(t, ls)
		got, err := waiter.Await(limited(t))
		require.NoError(t, err)
		release(t, got)
	}
	require.Zero(t, b.Stats().GrantsByPoll)
	require.Greater(t, b.Stats().GrantsByMessage, int64(names/2))
	finishCluster(t, c, a, b)
}

// Further keys of an EVALSHA are restored from what DUMP says of the first one. Where the ACL refuses
// that, the plain commands write the same bytes.
func TestClusterFurtherKeysAreRestoredUnlessThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name, rule string
		restores   bool
	}{
		{"Allowed", "+@all", true},
		{"RestoreRefused", "-restore", false},
		{"DumpRefused", "-dump", false},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			c := redistest.RunCluster(t, 3, 0)
			for _, m := range c.Masters {
				m.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", how.rule)
			}
			e := openCluster(t, c, asApp)
			const names = 3000
			futures := make([]*engine.Future[*engine.Lease], names)
			for i := range futures {
				futures[i] = e.Lock("lock:"+strconv.Itoa(i), engine.WatchdogLease(20*time.Second)).AcquireAsync(t.Context())
			}
			leases, err := engine.All(futures...).Await(limited(t))
			require.NoError(t, err)
			var set, restored int64
			for _, m := range c.Masters {
				require.Empty(t, m.ImmortalKeys(t))
				set, restored = set+calls(t, m, "hset"), restored+calls(t, m, "restore")
			}
			if how.restores {
				require.Positive(t, restored)
				require.EqualValues(t, names, set+restored)
			} else {
				require.EqualValues(t, names, set)
			}
			for i, ls := range leases {
				if i%500 == 0 {
					owner, err := c.Owner(t.Context(), slot.Of(ls.Name()))
					require.NoError(t, err)
					requireHeldOnce(t, owner, ls)
				}
				ls.ReleaseAsync()
			}
			finishCluster(t, c, e)
		})
	}
}
