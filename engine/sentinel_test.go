package engine_test

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
)

// viaSentinels is the configuration of an engine that follows the master of s.
func viaSentinels(s *redistest.Sentinel) func(*engine.Config) {
	return func(c *engine.Config) { c.Addrs, c.MasterName = s.Addrs(), redistest.MasterName }
}

func openSentinel(t *testing.T, s *redistest.Sentinel, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	return openEngine(t, "", append([]func(*engine.Config){viaSentinels(s)}, change...)...)
}

// failOver has the sentinels promote a replica while the master lives, and returns the new master.
func failOver(t *testing.T, s *redistest.Sentinel) *redistest.Server {
	t.Helper()
	old, err := s.Current(limited(t))
	require.NoError(t, err)
	eventually(t, "a sentinel begins a failover", func() bool {
		_, err := s.Sentinels[0].Command(limited(t), "SENTINEL", "FAILOVER", redistest.MasterName)
		return err == nil
	})
	return promoted(t, s, old)
}

// promoted waits until the sentinels name another master, and returns it.
func promoted(t *testing.T, s *redistest.Sentinel, old *redistest.Server) *redistest.Server {
	t.Helper()
	var now *redistest.Server
	eventually(t, "the sentinels name another master", func() bool {
		var err error
		now, err = s.Current(limited(t))
		return err == nil && now != old
	})
	return now
}

// follows waits until the engine is where the master is.
func follows(t *testing.T, e *engine.Engine, master *redistest.Server) {
	t.Helper()
	eventually(t, "the engine follows", func() bool { return e.Stats().Nodes[0].Addr == master.Addr() })
}

func TestSentinelPlannedFailoverLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	a, b := openSentinel(t, s), openSentinel(t, s)
	names := make([]string, 20)
	waiting := make([]*engine.Future[*engine.Lease], len(names))
	for i := range names {
		names[i] = numbered("name", i)
	}
	held := acquireAll(t, a, names, engine.WatchdogLease(10*time.Second)) // a busy machine's sentinels take seconds
	for i, name := range names {
		waiting[i] = b.Lock(name).AcquireAsync(limited(t))
	}
	eventually(t, "everybody waits", func() bool { return b.Stats().Waits == int64(len(names)) })
	master := failOver(t, s)
	follows(t, a, master)
	follows(t, b, master)
	began := time.Now()
	for i := 0; time.Since(began) < 11*time.Second; i++ { // longer than a lease
		release(t, acquire(t, a.Lock(numbered("pair", i%50))))
	}
	require.Zero(t, lostOf(held), "what was handed over is renewed")
	for i, ls := range held {
		requireHeldOnce(t, master, ls)
		release(t, ls)
		got, err := waiting[i].Await(limited(t))
		require.NoError(t, err)
		release(t, got)
	}
	require.Positive(t, a.Stats().Slots.Masters)
	finish(t, master, a, b)
}

// TestC084KilledMasterIsReplaced: holders keep what the replica had, waiters are served, and new locks
// are granted soon after the promotion. One of the sentinels is dead, too.
func TestC084KilledMasterIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 4)
	holder, rival := openSentinel(t, s), openSentinel(t, s)
	names := make([]string, 200)
	for i := range names {
		names[i] = numbered("name", i)
	}
	held := acquireAll(t, holder, names, engine.WatchdogLease(20*time.Second), engine.WaitReplicas(1, 10*time.Second))
	waiting := make([]*engine.Future[*engine.Lease], len(held))
	for i, name := range names {
		waiting[i] = rival.Lock(name).AcquireAsync(limited(t))
	}
	eventually(t, "everybody waits", func() bool { return rival.Stats().Waits == int64(len(names)) })
	s.Sentinels[3].Kill()
	s.Master.Kill()
	fresh := holder.Lock("fresh").AcquireAsync(limited(t)) // asked while nobody answers
	master := promoted(t, s, s.Master)
	at := time.Now()
	release(t, acquire(t, rival.Lock("after")))
	require.Less(t, time.Since(at), 5*time.Second)
	ls, err := fresh.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	require.Zero(t, lostOf(held), "what the replica had is held")
	for _, ls := range held[100:] {
		requireHeldOnce(t, master, ls)
	}
	from := time.Now()
	for _, ls := range held {
		release(t, ls)
	}
	for _, f := range waiting {
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	require.Less(t, time.Since(from), 10*time.Second)
	require.Positive(t, rival.Stats().WokenByMessage, "subscriptions follow")
	finish(t, master, holder, rival)
}

// TestC085StoppedMasterComesBack: a master that is stopped and replaced comes back as a master for a
// moment. Nobody of ours talks to it any more, and what it had is not believed.
func TestC085StoppedMasterComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	e, rival := openSentinel(t, s), openSentinel(t, s)
	lease := engine.WatchdogLease(15 * time.Second)
	held := acquire(t, e.Lock("held", lease, engine.WaitReplicas(1, 5*time.Second)))
	waiting := rival.Lock("held", lease).AcquireAsync(limited(t))
	eventually(t, "it waits", func() bool { return rival.Stats().Waits == 1 })
	s.Master.Pause()
	inFlight := e.Lock("stuck", lease).AcquireAsync(limited(t))
	master := promoted(t, s, s.Master)
	follows(t, e, master)
	follows(t, rival, master)
	stuck, err := inFlight.Await(limited(t))
	require.NoError(t, err)
	s.Master.Resume()
	requireHeldOnce(t, master, stuck)
	for range 200 {
		release(t, acquire(t, rival.Lock("other")))
	}
	require.False(t, held.Lost())
	release(t, held)
	ls, err := waiting.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	release(t, stuck)
	eventually(t, "the old master is demoted", func() bool {
		role, err := s.Master.InfoField("replication", "role")
		return err == nil && role == "slave"
	})
	finish(t, master, e, rival)
}

// TestC079UnreplicatedGrantIsReportedLost: a grant that no replica has seen is gone after the failover.
// Its holder and a new one may both believe for a while; the old one is told by its next renewal.
func TestC079UnreplicatedGrantIsReportedLost(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	a, b := openSentinel(t, s), openSentinel(t, s)
	s.Replicas[0].Do(t, "REPLICAOF", "127.0.0.1", "1")
	eventually(t, "no replica is left", func() bool {
		n, err := s.Master.InfoField("replication", "connected_slaves")
		return err == nil && n == "0"
	})
	_, err := a.Lock("safe", engine.WaitReplicas(1, 100*time.Millisecond)).TryAcquire(limited(t))
	requireNotReplicated(t, err, 1, 0)
	ls := acquire(t, a.Lock("name", engine.WatchdogLease(6*time.Second)))
	s.Replicas[0].Do(t, "REPLICAOF", "NO", "ONE")
	s.Master.Kill()
	moveMonitor(t, s, s.Replicas[0]) // a replica with so old a link is not promoted by itself
	follows(t, a, s.Replicas[0])
	follows(t, b, s.Replicas[0])
	other := acquire(t, b.Lock("name"))
	await(t, ls.Context().Done(), "the old holder is told")
	require.True(t, ls.Lost())
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)
	release(t, other)
	require.EqualValues(t, 1, a.Stats().Lost)
	finish(t, s.Replicas[0], a, b)
}

// TestSentinelDemotedMasterThatAnswersIsLeft: the master becomes a replica and keeps its connections, and
// nothing is published: what it refuses sends the engine back to the sentinels.
func TestSentinelDemotedMasterThatAnswersIsLeft(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 1)
	e := openSentinel(t, s)
	held := acquire(t, e.Lock("held", engine.WatchdogLease(20*time.Second), engine.WaitReplicas(1, 5*time.Second)))
	master := s.Replicas[0]
	master.Do(t, "REPLICAOF", "NO", "ONE")
	moveMonitor(t, s, master)
	s.Master.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port()))
	ls := acquire(t, e.Lock("name"))
	requireHeldOnce(t, master, ls)
	requireHeldOnce(t, master, held)
	release(t, ls)
	release(t, held)
	finish(t, master, e)
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
		_, err := engine.Open(limited(t), cfg)
		require.ErrorIs(t, err, engine.ErrConfig)
		require.ErrorContains(t, err, what)
		require.False(t, engine.SafeToRetry(err))
	}
	refused(`no master named "other"`, func(c *engine.Config) { c.MasterName = "other" })
	refused("is a sentinel", func(c *engine.Config) { c.MasterName, c.Addrs = "", c.Addrs[:1] })
	refused("is a sentinel", func(c *engine.Config) { c.MasterName = "" })
	refused("is not a sentinel", func(c *engine.Config) { c.Addrs = []string{s.Master.Addr()} })
	refused("Topology", func(c *engine.Config) { c.Topology = engine.TopologyCluster })
	refused("Topology", func(c *engine.Config) { c.Topology = engine.TopologySingle })
	refused("no MasterName", func(c *engine.Config) { c.MasterName, c.Topology = "", engine.TopologySentinel })
	refused("no MasterName", func(c *engine.Config) { c.MasterName, c.SentinelPassword = "", "x" })
	refused("SentinelPassword", func(c *engine.Config) { c.SentinelUsername = "x" })
	refused("spaces", func(c *engine.Config) { c.MasterName = "a b" })

	s.Sentinels[0].Kill() // one that answers is enough
	e := openSentinel(t, s)
	release(t, acquire(t, e.Lock("name")))
	url := "redis://" + s.Sentinels[1].Addr() + "?master_set=" + redistest.MasterName
	byURL := openEngine(t, url, func(c *engine.Config) { c.Topology = engine.TopologySentinel })
	release(t, acquire(t, byURL.Lock("name")))
	s.Sentinels[1].Kill()
	_, err := engine.Open(limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassUnreachable, serverClass(err))
	release(t, acquire(t, e.Lock("name"))) // who has found the master needs no sentinel
	finish(t, s.Master, e, byURL)
}

// TestSentinelStoppedOneDelaysNobody: a sentinel that hangs is no reason to wait, at Open or later.
func TestSentinelStoppedOneDelaysNobody(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	s.Sentinels[2].Pause()
	from := time.Now()
	e := openSentinel(t, s)
	require.Less(t, time.Since(from), 1500*time.Millisecond)
	held := acquire(t, e.Lock("held"))
	master := failOver(t, s)
	follows(t, e, master)
	release(t, held)
	require.NoError(t, e.Close(limited(t)))
}

// TestSentinelThatNamesAReplicaIsNotFollowedThere: what is no master is not written to.
func TestSentinelThatNamesAReplicaIsNotFollowedThere(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 1)
	moveMonitor(t, s, s.Replicas[0])
	_, err := engine.Open(limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassReadOnly, serverClass(err))
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
	var witnesses [5]witness
	var grants, unseen atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range 20 {
		wg.Go(func() {
			w := &witnesses[i%5]
			l := engines[i/5%2].Lock(numbered("name", i%5), opts...)
			for ctx.Err() == nil {
				ls, err := l.Acquire(ctx)
				switch {
				case errors.Is(err, engine.ErrNotReplicated):
					unseen.Add(1)
				case err == nil:
					w.enter()
					grants.Add(1)
					w.leave()
					_ = ls.Release(ctx)
				}
			}
		})
	}
	granted := func(what string) {
		t.Helper()
		before := grants.Load()
		eventually(t, what, func() bool { return grants.Load() > before+100 })
	}
	granted("locks are granted")
	for range 2 {
		master := failOver(t, s)
		eventually(t, "the old master is a replica in step", func() bool {
			replica, err := master.InfoField("replication", "slave0")
			return err == nil && strings.Contains(replica, "state=online")
		})
		granted("locks are granted again")
	}
	stop()
	wg.Wait()
	for i := range witnesses {
		require.Zero(t, witnesses[i].violations.Load())
	}
	t.Log("grants", grants.Load(), "not replicated", unseen.Load())
	for _, e := range engines {
		require.NoError(t, e.Close(limited(t)))
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
	release(t, acquire(t, e.Lock("name")))
	require.NoError(t, e.Close(limited(t)))
	_, err := engine.Open(limited(t), engine.Config{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	require.Equal(t, engine.ClassNoPerm, serverClass(err))
}

func TestSentinelBorrowedClientFollows(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	cfg := engine.Config{}
	viaSentinels(s)(&cfg)
	client, err := rueidis.NewClient(engine.ClientOption(cfg))
	require.NoError(t, err)
	defer client.Close()
	e, err := engine.Open(limited(t), engine.Config{Client: client, Topology: engine.TopologySentinel})
	require.NoError(t, err)
	// A borrowed client's connections stay where they are until the old master is told to follow the new one, about
	// ten seconds later: until then renewals reach the old one only, and the lease has to outlast that.
	held := acquire(t, e.Lock("held", engine.WatchdogLease(30*time.Second)))
	master := failOver(t, s)
	eventually(t, "locks are granted by the new master", func() bool {
		ls, err := e.Lock("name").Acquire(limited(t))
		if err != nil {
			return false
		}
		defer func() { _ = ls.Release(context.Background()) }()
		return strings.Contains(master.Do(t, "HGETALL", "name"), ls.OwnerID())
	})
	require.False(t, held.Lost())
	release(t, held)
	finish(t, master, e)
}
