package cluster_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestClusterLocksOfAllSlotsAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	const names = 5000
	futures := make([]*engine.Future[*engine.Lease], names)
	for i := range futures {
		futures[i] = e.Lock("lock:" + strconv.Itoa(i)).AcquireAsync(t.Context())
	}
	leases, err := engine.All(futures...).Await(testkit.Limited(t))
	require.NoError(t, err)
	total := 0
	for _, m := range c.Masters {
		total += len(m.Keys(t))
	}
	require.Equal(t, names, total, "every lock stands on the node of its slot")
	info, err := e.Lock("lock:7").Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, info.Mine)
	for _, ls := range leases {
		ls.ReleaseAsync()
	}
	testkit.FinishCluster(t, c, e)
}

// A waiter that listens asks once more. When the server has answered that "busy", too, it is the message of the release that
// sends for the lock. On a busy machine the message may overtake that answer, which is not believed then: the lock is asked
// for at once, too, but not by the message. It never waits for a poll.
func TestClusterWaiterIsWokenByTheMessage(t *testing.T) {
	t.Parallel()
	const names = 30
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	for i := range names {
		name := fmt.Sprint("lock:", i)
		testkit.Release(t, testkit.Acquire(t, b.Lock(name))) // its node knows the scripts now
		owner, err := c.Owner(t.Context(), slot.Of(name))
		require.NoError(t, err)
		ls := testkit.Acquire(t, a.Lock(name))
		before, subscribed := testkit.CallsOf(t, owner, "evalsha"), b.Stats().WokenBySubscribe
		waiter := b.Lock(name).AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "the waiter listens, and has asked again", func() bool {
			return b.Stats().WokenBySubscribe > subscribed && testkit.CallsOf(t, owner, "evalsha") >= before+2
		})
		testkit.Release(t, ls)
		got, err := waiter.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	}
	require.Zero(t, b.Stats().GrantsByPoll)
	require.Greater(t, b.Stats().GrantsByMessage, int64(names/2))
	testkit.FinishCluster(t, c, a, b)
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
			e := testkit.OpenCluster(t, c, testkit.AsApp)
			const names = 3000
			futures := make([]*engine.Future[*engine.Lease], names)
			for i := range futures {
				futures[i] = e.Lock("lock:"+strconv.Itoa(i), engine.WatchdogLease(20*time.Second)).AcquireAsync(t.Context())
			}
			leases, err := engine.All(futures...).Await(testkit.Limited(t))
			require.NoError(t, err)
			var set, restored int64
			for _, m := range c.Masters {
				require.Empty(t, m.ImmortalKeys(t))
				set, restored = set+testkit.CallsOf(t, m, "hset"), restored+testkit.CallsOf(t, m, "restore")
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
					testkit.RequireHeldOnce(t, owner, ls)
				}
				ls.ReleaseAsync()
			}
			testkit.FinishCluster(t, c, e)
		})
	}
}

// Where everybody subscribes at masters, those are published of many that somebody waits for.
func TestClusterWaitersAreWokenByReleasesAmongMany(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	masters := func(cfg *engine.Config) { cfg.Publish = engine.PublishMasters }
	a, b := testkit.OpenCluster(t, c, masters), testkit.OpenCluster(t, c, masters)
	published := func() (n int64) {
		for _, m := range c.Masters {
			n += testkit.CallsOf(t, m, "spublish")
		}
		return n
	}
	var leases []*engine.Lease
	var waiters []*engine.Future[*engine.Lease]
	for _, names := range testkit.NamesOf(c, 200) {
		for i, name := range names {
			leases = append(leases, testkit.Acquire(t, a.Lock(name)))
			if i%50 == 0 {
				waiters = append(waiters, b.Lock(name).AcquireAsync(testkit.Limited(t)))
			}
		}
	}
	testkit.Eventually(t, "the waiters listen", func() bool { return b.Stats().WokenBySubscribe >= int64(len(waiters)) })
	before := published()
	var releases []*engine.Future[struct{}]
	for _, ls := range leases {
		releases = append(releases, ls.ReleaseAsync())
	}
	for _, r := range releases {
		testkit.Get(t, r)
	}
	require.Less(t, published()-before, int64(len(leases)))
	for _, f := range waiters {
		testkit.Release(t, testkit.Get(t, f))
	}
	require.Zero(t, b.Stats().GrantsByPoll)
	testkit.FinishCluster(t, c, a, b)
}
