package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// acquireAll takes all names.
func acquireAll(tb testing.TB, e *engine.Engine, names []string, opts ...engine.Option) []*engine.Lease {
	tb.Helper()
	leases := make([]*engine.Lease, 0, len(names))
	for _, name := range names {
		leases = append(leases, testkit.Acquire(tb, e.Lock(name, opts...)))
	}
	return leases
}

func TestC095_OneStoppedMasterDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	e := testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 100)
	lease := engine.WatchdogLease(3 * time.Second)
	var leases [3][]*engine.Lease
	for m := range names {
		leases[m] = acquireAll(t, e, names[m], lease)
	}
	stopped := c.Masters[1]
	stopped.Pause()
	from := time.Now()
	waiting := e.Lock(names[1][0]+"{x}", lease).AcquireAsync(t.Context())
	_ = waiting.Cancel()
	slowest := time.Duration(0)
	for i := 0; time.Since(from) < 5*time.Second; i++ {
		name := fmt.Sprintf("free:%d{%s}", i, names[2*(i%2)][0])
		began := time.Now()
		ls := testkit.Acquire(t, e.Lock(name))
		testkit.Release(t, ls)
		slowest = max(slowest, testkit.Ran(began))
		if i%100 == 99 {
			require.Zero(t, testkit.LostOf(leases[0])+testkit.LostOf(leases[2]), "a healthy shard lost a lock")
		}
	}
	require.Less(t, slowest, time.Second, "pairs on healthy masters")
	require.Equal(t, 100, testkit.LostOf(leases[1]), "each lock of the stopped master is told lost by its deadline")
	require.Zero(t, e.Stats().Renewals.Jeopardies-jeopardiesOf(leases[1]), "no lock of a healthy shard was in jeopardy")
	stopped.Resume()
	for _, name := range names[1] {
		testkit.Release(t, testkit.Acquire(t, e.Lock(name)))
	}
	for _, m := range []int{0, 2} {
		for _, ls := range leases[m] {
			testkit.Release(t, ls)
		}
	}
	testkit.FinishCluster(t, c, e)
}

// jeopardiesOf is how many jeopardies these leases account for: each was in it once.
func jeopardiesOf(leases []*engine.Lease) int64 { return int64(len(leases)) }

func TestC086_PlannedFailoversAreFollowed(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 1)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 10)
	held := acquireAll(t, a, names[0], engine.WatchdogLease(2*time.Second))
	waiting := make([]*engine.Future[*engine.Lease], len(held))
	for i, name := range names[0] {
		waiting[i] = b.Lock(name).AcquireAsync(t.Context())
	}
	master, replica := c.Masters[0], c.Replicas[0]
	for range 2 {
		testkit.Eventually(t, "the failover is accepted", func() bool {
			_, err := replica.Command(testkit.Limited(t), "CLUSTER", "FAILOVER")
			return err == nil
		})
		testkit.Eventually(t, "the replica is master", func() bool {
			owner, err := c.Owner(testkit.Limited(t), 0)
			return err == nil && owner == replica
		})
		require.NoError(t, c.AwaitOK(testkit.Limited(t)))
		for _, name := range names[0] {
			pair := name + "{" + name + "}"
			testkit.Release(t, testkit.Acquire(t, a.Lock(pair)))
		}
		master, replica = replica, master
	}
	require.Zero(t, testkit.LostOf(held), "what a planned failover hands over is renewed")
	for i, ls := range held {
		testkit.Release(t, ls)
		got, err := waiting[i].Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	}
	testkit.FinishCluster(t, c, a, b)
}

func TestClusterKilledMasterIsReplacedAndItsNamesAreLockedAgain(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 1)
	e, rival := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 30)
	lease := 20 * time.Second // a failover may take long on a busy machine
	var leases [3][]*engine.Lease
	for m := range names {
		leases[m] = acquireAll(t, e, names[m], engine.WatchdogLease(lease))
	}
	testkit.Eventually(t, "the replica has them", func() bool {
		return len(c.Replicas[1].Keys(t)) == len(names[1])
	})
	waiting := rival.Lock(names[1][0]).AcquireAsync(t.Context())
	c.Masters[1].Kill()
	testkit.Eventually(t, "the replica is promoted", func() bool {
		owner, err := c.Owner(testkit.Limited(t), slot.Of(names[1][0]))
		return err == nil && owner == c.Replicas[1]
	})
	promoted := time.Now()
	testkit.Eventually(t, "all are renewed where they are now", func() bool {
		for _, ls := range slices.Concat(leases[0], leases[1], leases[2]) {
			if ls.Deadline().Before(promoted.Add(lease - time.Second)) { // a lease is trusted for a little less than it lasts
				return false
			}
		}
		return true
	})
	require.Zero(t, testkit.LostOf(leases[0])+testkit.LostOf(leases[2]), "locks of other masters")
	require.Zero(t, testkit.LostOf(leases[1]), "locks that the promoted replica had")
	_, _, done := waiting.Result()
	require.False(t, done, "the lock that survived is still held")
	testkit.Release(t, leases[1][0])
	got, err := waiting.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, got)
	for i, ls := range leases[1][1:] {
		testkit.Release(t, ls)
		testkit.Release(t, testkit.Acquire(t, rival.Lock(names[1][i+1])))
	}
	for _, m := range []int{0, 2} {
		for _, ls := range leases[m] {
			testkit.Release(t, ls)
		}
	}
	for _, en := range []*engine.Engine{e, rival} {
		require.NoError(t, en.Close(testkit.Limited(t)))
	}
}

func TestC098_DownClusterKeepsWaitersWaiting(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 2)
	held := testkit.Acquire(t, e.Lock(names[0][0], engine.WatchdogLease(2*time.Second)))
	waiter := e.Lock(names[0][0]).AcquireAsync(t.Context())
	c.Masters[2].Kill()
	testkit.Eventually(t, "the cluster is down", func() bool {
		_, err := c.Masters[0].Command(testkit.Limited(t), "GET", names[0][0])
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN")
	})
	_, err := e.Lock(names[0][1]).TryAcquire(testkit.Limited(t))
	var refused *engine.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "clusterdown", refused.Class.String())
	require.True(t, engine.SafeToRetry(err))
	testkit.Await(t, held.Context().Done(), "the holder is told")
	_, _, done := waiter.Result()
	require.False(t, done, "the waiter waits")
	require.NoError(t, c.Masters[2].Restart(testkit.Limited(t)))
	got, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, got)
	testkit.FinishCluster(t, c, e)
}

func TestC094_NodesThatDisagreeForEverAreReportedAndHurtNobodyElse(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	names := testkit.NamesOf(c, 2)
	s := fmt.Sprint(slot.Of(names[0][0]))
	a, b := c.Masters[0], c.Masters[1]
	idA, idB := a.Do(t, "CLUSTER", "MYID"), b.Do(t, "CLUSTER", "MYID")
	a.Do(t, "CLUSTER", "SETSLOT", s, "NODE", idB)
	b.Do(t, "CLUSTER", "SETSLOT", s, "NODE", idA)
	failed := e.Lock(names[0][0]).TryAcquireAsync(t.Context())
	testkit.Release(t, testkit.Acquire(t, e.Lock(names[1][1])))
	_, err := failed.Await(testkit.Limited(t))
	var refused *engine.ServerError
	require.ErrorAs(t, err, &refused)
	require.True(t, engine.SafeToRetry(err))
	for _, m := range c.Masters {
		_, _ = m.Command(testkit.Limited(t), "CLUSTER", "SETSLOT", s, "NODE", idA)
	}
	testkit.Release(t, testkit.Acquire(t, e.Lock(names[0][0])))
	testkit.FinishCluster(t, c, e)
}

func TestC097_NodesAreAddedAndRemovedUnderAnEngine(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	// It is to stay a master when it has lost its only slot, as a node does that is on its way out. By default
	// it would follow the slot's new owner and have that one's keys.
	added := redistest.Run(t, redistest.Options{Cluster: true, Args: []string{"--cluster-allow-replica-migration", "no"}})
	require.NoError(t, c.Add(testkit.Limited(t), added))
	const name = "mover"
	s := slot.Of(name)
	old, err := c.Owner(testkit.Limited(t), s)
	require.NoError(t, err)
	ls := testkit.Acquire(t, e.Lock(name, engine.WatchdogLease(time.Second)))
	require.NoError(t, c.MoveSlot(testkit.Limited(t), s, added))
	testkit.Release(t, testkit.Acquire(t, e.Lock("x{"+name+"}")))
	require.Len(t, e.Stats().Nodes, 4)
	require.NoError(t, c.MoveSlot(testkit.Limited(t), s, old))
	testkit.Release(t, ls)
	testkit.FinishCluster(t, c, e)
	require.Contains(t, added.Do(t, "CLUSTER", "NODES"), "myself,master", "what was checked was no master's own")
}

func TestClusterOpenTakesAnySeedThatAnswers(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	dead := redistest.Run(t, redistest.Options{})
	addr := dead.Addr()
	dead.Kill()
	e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{addr, c.Masters[2].Addr()}})
	require.NoError(t, err)
	testkit.Release(t, testkit.Acquire(t, e.Lock("any")))
	require.NoError(t, e.Ping(testkit.Limited(t)))
	testkit.FinishCluster(t, c, e)

	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{addr, addr}})
	var refused *engine.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, engine.ClassUnreachable, refused.Class)
	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{c.Masters[0].Addr()}, Topology: engine.TopologySingle})
	require.ErrorIs(t, err, engine.ErrConfig)
	require.ErrorContains(t, err, "a node of a cluster")
	single := redistest.Run(t, redistest.Options{})
	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{single.Addr()}, Topology: engine.TopologyCluster})
	require.ErrorIs(t, err, engine.ErrConfig)
	require.ErrorContains(t, err, "not a cluster")
}

func TestClusterBorrowedClientIsUsedAndLeftOpen(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	cfg := engine.Config{Addrs: c.Addrs(), Topology: engine.TopologyCluster}
	client, err := rueidis.NewClient(engine.ClientOption(cfg))
	require.NoError(t, err)
	defer client.Close()
	e, err := engine.Open(testkit.Limited(t), engine.Config{Client: client})
	require.NoError(t, err)
	for _, names := range testkit.NamesOf(c, 3) {
		for _, ls := range acquireAll(t, e, names) {
			testkit.Release(t, ls)
		}
	}
	testkit.FinishCluster(t, c, e)
	require.NoError(t, client.Do(context.Background(), client.B().Ping().Build()).Error())
}

func TestC151_NamesWhoseKeysWouldBeSplitAreRefused(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	for _, name := range []string{"a{b", "a}b", "x{}y", "}{", "{}", ""} {
		_, err := e.Lock(name).TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrName, "%q", name)
	}
	testkit.Release(t, testkit.Acquire(t, e.Lock("a{tag}")))
	testkit.FinishCluster(t, c, e)
}

func TestClusterPlainChannelsWakeWaitersOfOtherEngines(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	plain := func(cfg *engine.Config) { cfg.PubSub = engine.PubSubPlain }
	a, b := testkit.OpenCluster(t, c, plain), testkit.OpenCluster(t, c, plain)
	for i := range 6 {
		name := fmt.Sprint("plain:", i)
		ls := testkit.Acquire(t, a.Lock(name))
		waiter := b.Lock(name).AcquireAsync(t.Context())
		owner, err := c.Owner(testkit.Limited(t), slot.Of(name))
		require.NoError(t, err)
		testkit.Eventually(t, "the waiter listens", func() bool {
			return owner.Do(t, "PUBSUB", "NUMSUB", slot.LockChannel(name)) == slot.LockChannel(name)+"\n1"
		})
		testkit.Release(t, ls)
		got, err := waiter.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	}
	require.Positive(t, b.Stats().GrantsByMessage)
	testkit.FinishCluster(t, c, a, b)
}
