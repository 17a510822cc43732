package cluster_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// viaSentinels is the configuration of an engine that follows the master of s.
func viaSentinels(s *redistest.Sentinel) func(*engine.Config) {
	return func(c *engine.Config) { c.Addrs, c.MasterName = s.Addrs(), redistest.MasterName }
}

func openSentinel(t *testing.T, s *redistest.Sentinel, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	return testkit.Open(t, "", append([]func(*engine.Config){viaSentinels(s)}, change...)...)
}

// failOver has the sentinels promote a replica while the master lives, and returns the new master.
func failOver(t *testing.T, s *redistest.Sentinel) *redistest.Server {
	t.Helper()
	old, err := s.Current(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Eventually(t, "a sentinel begins a failover", func() bool {
		_, err := s.Sentinels[0].Command(testkit.Limited(t), "SENTINEL", "FAILOVER", redistest.MasterName)
		return err == nil
	})
	return promoted(t, s, old)
}

// promoted waits until the sentinels name another master, and returns it.
func promoted(t *testing.T, s *redistest.Sentinel, old *redistest.Server) *redistest.Server {
	t.Helper()
	var now *redistest.Server
	testkit.Eventually(t, "the sentinels name another master", func() bool {
		var err error
		now, err = s.Current(testkit.Limited(t))
		return err == nil && now != old
	})
	return now
}

func TestSentinelPlannedFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	a, b := openSentinel(t, s), openSentinel(t, s)
	names := make([]string, 20)
	waiting := make([]*engine.Future[*engine.Lease], len(names))
	for i := range names {
		names[i] = testkit.Numbered("name", i)
	}
	held := acquireAll(t, a, names, engine.WatchdogLease(10*time.Second)) // a busy machine's sentinels take seconds
	for i, name := range names {
		waiting[i] = b.Lock(name).AcquireAsync(testkit.Limited(t))
	}
	testkit.Eventually(t, "everybody waits", func() bool { return b.Stats().Waits == int64(len(names)) })
	master := failOver(t, s)
	testkit.Follows(t, a, master)
	testkit.Follows(t, b, master)
	began := time.Now()
	for i := 0; time.Since(began) < 11*time.Second; i++ { // longer than a lease
		testkit.Release(t, testkit.Acquire(t, a.Lock(testkit.Numbered("pair", i%50))))
	}
	require.Zero(t, testkit.LostOf(held), "what was handed over is renewed")
	for i, ls := range held {
		testkit.RequireHeldOnce(t, master, ls)
		testkit.Release(t, ls)
		got, err := waiting[i].Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	}
	require.Positive(t, a.Stats().Slots.Masters)
	testkit.Finish(t, master, a, b)
}

// TestC084_KilledMasterIsReplaced: holders keep what the replica had, waiters are served, and new locks
// are granted soon after the promotion. One of the sentinels is dead, too.
func TestC084_KilledMasterIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 4)
	holder, rival := openSentinel(t, s), openSentinel(t, s)
	names := make([]string, 200)
	for i := range names {
		names[i] = testkit.Numbered("name", i)
	}
	held := acquireAll(t, holder, names, engine.WatchdogLease(20*time.Second), engine.WaitReplicas(1, 10*time.Second))
	waiting := make([]*engine.Future[*engine.Lease], len(held))
	for i, name := range names {
		waiting[i] = rival.Lock(name).AcquireAsync(testkit.Limited(t))
	}
	testkit.Eventually(t, "everybody waits", func() bool { return rival.Stats().Waits == int64(len(names)) })
	s.Sentinels[3].Kill()
	s.Master.Kill()
	fresh := holder.Lock("fresh").AcquireAsync(testkit.Limited(t)) // asked while nobody answers
	killed := time.Now()
	master := promoted(t, s, s.Master)
	at := time.Now()
	testkit.Release(t, testkit.Acquire(t, rival.Lock("after")))
	require.Less(t, testkit.Ran(at), 5*time.Second)
	ls, err := fresh.Await(testkit.Limited(t))
	if err == nil {
		testkit.Release(t, ls)
	} else { // an acquire that nobody answers is tried for so long, and the sentinels were slower
		require.GreaterOrEqual(t, at.Sub(killed), 3*testkit.AttemptLimit, err)
		var said *engine.ServerError
		require.True(t, errors.As(err, &said) || errors.Is(err, engine.ErrUnknown), err)
	}
	require.Zero(t, testkit.LostOf(held), "what the replica had is held")
	for _, ls := range held[100:] {
		testkit.RequireHeldOnce(t, master, ls)
	}
	testkit.Eventually(t, "who waits listens at the new master", func() bool {
		return rival.Stats().Nodes[0].Subscriptions.Confirmed >= int64(len(names))
	})
	from := time.Now()
	for _, ls := range held {
		testkit.Release(t, ls)
	}
	for _, f := range waiting {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	require.Less(t, testkit.Ran(from), 10*time.Second)
	require.Positive(t, rival.Stats().WokenByMessage, "subscriptions follow")
	testkit.Finish(t, master, holder, rival)
}

// TestC085_StoppedMasterComesBack: a master that is stopped and replaced comes back as a master for a
// moment. Nobody of ours talks to it any more, and what it had is not believed.
func TestC085_StoppedMasterComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	e, rival := openSentinel(t, s), openSentinel(t, s)
	lease := engine.WatchdogLease(15 * time.Second)
	held := testkit.Acquire(t, e.Lock("held", lease, engine.WaitReplicas(1, 5*time.Second)))
	waiting := rival.Lock("held", lease).AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return rival.Stats().Waits == 1 })
	s.Master.Pause()
	inFlight, began := e.Lock("stuck", lease).AcquireAsync(testkit.Limited(t)), time.Now()
	master := promoted(t, s, s.Master)
	testkit.Follows(t, e, master)
	late := time.Since(began) > 6*time.Second // the sentinels needed a second election: it gives up after 7.5 s
	testkit.Follows(t, rival, master)
	stuck, err := inFlight.Await(testkit.Limited(t))
	if late && errors.Is(err, engine.ErrUnknown) {
		stuck, err = e.Lock("stuck", lease).Acquire(testkit.Limited(t))
	}
	require.NoError(t, err)
	s.Master.Resume()
	testkit.RequireHeldOnce(t, master, stuck)
	for range 200 {
		testkit.Release(t, testkit.Acquire(t, rival.Lock("other")))
	}
	require.False(t, held.Lost())
	testkit.Release(t, held)
	ls, err := waiting.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Release(t, stuck)
	testkit.Eventually(t, "the old master is demoted", func() bool {
		role, err := s.Master.InfoField("replication", "role")
		return err == nil && role == "slave"
	})
	testkit.Finish(t, master, e, rival)
}

// TestC079_UnreplicatedGrantIsReportedLost: a grant that no replica has seen is gone after the failover.
// Its holder and a new one may both believe for a while; the old one is told by its next renewal.
func TestC079_UnreplicatedGrantIsReportedLost(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	a, b := openSentinel(t, s), openSentinel(t, s)
	s.Replicas[0].Do(t, "REPLICAOF", "127.0.0.1", "1")
	testkit.Eventually(t, "no replica is left", func() bool {
		n, err := s.Master.InfoField("replication", "connected_slaves")
		return err == nil && n == "0"
	})
	_, err := a.Lock("safe", engine.WaitReplicas(1, 100*time.Millisecond)).TryAcquire(testkit.Limited(t))
	requireNotReplicated(t, err, 1, 0)
	ls := testkit.Acquire(t, a.Lock("name", engine.WatchdogLease(6*time.Second)))
	s.Replicas[0].Do(t, "REPLICAOF", "NO", "ONE")
	s.Master.Kill()
	moveMonitor(t, s, s.Replicas[0]) // a replica with so old a link is not promoted by itself
	testkit.Follows(t, a, s.Replicas[0])
	testkit.Follows(t, b, s.Replicas[0])
	other := testkit.Acquire(t, b.Lock("name"))
	testkit.Await(t, ls.Context().Done(), "the old holder is told")
	require.True(t, ls.Lost())
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Release(t, other)
	require.EqualValues(t, 1, a.Stats().Lost)
	testkit.Finish(t, s.Replicas[0], a, b)
}

// TestSentinelDemotedMasterThatAnswersIsLeft: the master becomes a replica and keeps its connections, and
// nothing is published: what it refuses sends the engine back to the sentinels.
func TestSentinelDemotedMasterThatAnswersIsLeft(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 1)
	e := openSentinel(t, s)
	held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(20*time.Second), engine.WaitReplicas(1, 5*time.Second)))
	master := s.Replicas[0]
	master.Do(t, "REPLICAOF", "NO", "ONE")
	moveMonitor(t, s, master)
	s.Master.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port()))
	ls := testkit.Acquire(t, e.Lock("name"))
	testkit.RequireHeldOnce(t, master, ls)
	testkit.RequireHeldOnce(t, master, held)
	testkit.Release(t, ls)
	testkit.Release(t, held)
	testkit.Finish(t, master, e)
}

// moveMonitor makes the sentinels watch another master under the same name. They publish nothing of it.
func moveMonitor(t *testing.T, s *redistest.Sentinel, master *redistest.Server) {
	t.Helper()
	for _, sentinel := range s.Sentinels {
		sentinel.Do(t, "SENTINEL", "REMOVE", redistest.MasterName)
		sentinel.Do(t, "SENTINEL", "MONITOR", redistest.MasterName, "127.0.0.1", strconv.Itoa(master.Port()), "1")
	}
}

func TestSentinelOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 2)
	refused := func(what string, change ...func(*engine.Config)) {
		t.Helper()
		cfg := engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName}
		for _, c := range change {
			c(&cfg)
		}
		_, err := engine.Open(testkit.Limited(t), cfg)
		require.ErrorIs(t, err, engine.ErrConfig)
		require.ErrorContains(t, err, what)
		require.NotRegexp(t, "^.+holdfast: ", err.Error(), "one prefix")
		require.False(t, engine.SafeToRetry(err))
	}
	refused(`no master named "other"`, func(c *engine.Config) { c.MasterName = "other" })
	refused("is a sentinel", func(c *engine.Config) { c.MasterName, c.Addrs = "", c.Addrs[:1] })
	refused("is a sentinel", func(c *engine.Config) { c.MasterName = "" })
	refused("is not a sentinel", func(c *engine.Config) { c.Addrs = []string{s.Master.Addr()} })
	refused("needs TopologySentinel, not TopologyCluster", func(c *engine.Config) { c.Topology = engine.TopologyCluster })
	refused("needs TopologySentinel, not TopologySingle", func(c *engine.Config) { c.Topology = engine.TopologySingle })
	refused("no MasterName", func(c *engine.Config) { c.MasterName, c.Topology = "", engine.TopologySentinel })
	refused("no MasterName", func(c *engine.Config) { c.MasterName, c.SentinelPassword = "", "x" })
	refused("SentinelPassword", func(c *engine.Config) { c.SentinelUsername = "x" })
	refused("spaces", func(c *engine.Config) { c.MasterName = "a b" })

	s.Sentinels[0].Kill() // one that answers is enough
	e := openSentinel(t, s)
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	url := "redis://" + s.Sentinels[1].Addr() + "?master_set=" + redistest.MasterName
	byURL := testkit.Open(t, url, func(c *engine.Config) { c.Topology = engine.TopologySentinel })
	testkit.Release(t, testkit.Acquire(t, byURL.Lock("name")))
	s.Sentinels[1].Kill()
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
	testkit.Release(t, testkit.Acquire(t, e.Lock("name"))) // who has found the master needs no sentinel
	testkit.Finish(t, s.Master, e, byURL)
}

// TestSentinelStoppedOneDelaysNobody: a sentinel that hangs is no reason to wait, at Open or later.
func TestSentinelStoppedOneDelaysNobody(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	s.Sentinels[2].Pause()
	from := time.Now()
	e := openSentinel(t, s)
	require.Less(t, testkit.Ran(from), 1500*time.Millisecond)
	held := testkit.Acquire(t, e.Lock("held"))
	master := failOver(t, s)
	testkit.Follows(t, e, master)
	testkit.Release(t, held)
	require.NoError(t, e.Close(testkit.Limited(t)))
}

// TestSentinelThatNamesAReplicaIsNotFollowedThere: what is no master is not written to.
func TestSentinelThatNamesAReplicaIsNotFollowedThere(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 1)
	moveMonitor(t, s, s.Replicas[0])
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassReadOnly, testkit.ServerClass(err))
	require.True(t, engine.SafeToRetry(err))
}

// TestSentinelWaitReplicasForAllKeepsExclusionThroughFailovers: with grants that every replica has seen,
// and held for less than a renewal, a failover costs waiting, never exclusion. A release that the new
// master has not seen leaves the lock to expire. Nothing is granted until the old master follows the new
// one: the sentinels see to that after some ten seconds.
func TestSentinelWaitReplicasForAllKeepsExclusionThroughFailovers(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	engines := []*engine.Engine{openSentinel(t, s), openSentinel(t, s)}
	opts := []engine.Option{engine.FixedLease(2 * time.Second), engine.WaitReplicas(1, 500*time.Millisecond)}
	var witnesses [5]testkit.Witness
	var grants, unseen atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 20 {
		wg.Go(func() {
			w := &witnesses[i%5]
			l := engines[i/5%2].Lock(testkit.Numbered("name", i%5), opts...)
			for ctx.Err() == nil {
				ls, err := l.Acquire(ctx)
				switch {
				case errors.Is(err, engine.ErrNotReplicated):
					unseen.Add(1)
				case err == nil:
					w.Enter()
					grants.Add(1)
					w.Leave()
					_ = ls.Release(ctx)
				}
			}
		})
	}
	granted := func(what string) {
		t.Helper()
		before := grants.Load()
		testkit.Eventually(t, what, func() bool { return grants.Load() > before+100 })
	}
	granted("locks are granted")
	for range 2 {
		master := failOver(t, s)
		testkit.Eventually(t, "the old master is a replica in step", func() bool {
			replica, err := master.InfoField("replication", "slave0")
			return err == nil && strings.Contains(replica, "state=online")
		})
		granted("locks are granted again")
	}
	stop()
	wg.Wait()
	for i := range witnesses {
		require.Zero(t, witnesses[i].Violations.Load())
	}
	t.Log("grants", grants.Load(), "not replicated", unseen.Load())
	for _, e := range engines {
		require.NoError(t, e.Close(testkit.Limited(t)))
	}
}

func TestSentinelPasswordsAreOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 1)
	for _, n := range []*redistest.Server{s.Sentinels[0], s.Master} {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">"+n.Addr(), "~*", "&*", "+@all")
	}
	s.Sentinels[0].Do(t, "ACL", "SETUSER", "default", "-@all", "+ping", "+hello", "+auth")
	e := openSentinel(t, s, func(c *engine.Config) {
		c.SentinelUsername, c.SentinelPassword = "app", s.Sentinels[0].Addr()
		c.Username, c.Password = "app", s.Master.Addr()
	})
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	require.NoError(t, e.Close(testkit.Limited(t)))
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err))
}

func TestSentinelBorrowedClientFollows(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	cfg := engine.Config{}
	viaSentinels(s)(&cfg)
	client, err := rueidis.NewClient(engine.ClientOption(cfg))
	require.NoError(t, err)
	defer client.Close()
	e, err := engine.Open(testkit.Limited(t), engine.Config{Client: client, Topology: engine.TopologySentinel})
	require.NoError(t, err)
	// A borrowed client's connections stay where they are until the old master is told to follow the new one, about
	// ten seconds later: until then renewals reach the old one only, and the lease has to outlast that.
	held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(30*time.Second)))
	master := failOver(t, s)
	testkit.Eventually(t, "locks are granted by the new master", func() bool {
		ls, err := e.Lock("name").Acquire(testkit.Limited(t))
		if err != nil {
			return false
		}
		defer func() { _ = ls.Release(context.Background()) }()
		return strings.Contains(master.Do(t, "HGETALL", "name"), ls.OwnerID())
	})
	require.False(t, held.Lost())
	testkit.Release(t, held)
	testkit.Finish(t, master, e)
}
