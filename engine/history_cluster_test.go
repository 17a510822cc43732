package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/history"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// nodeTimeout is longer than a master stands still, in all blows but those that mean a failover.
const nodeTimeout = 4 * time.Second

// Three masters with a replica each, three engines. Slots move back and forth, masters stand still, fail
// over by plan, and die.
//
// A failover without a plan may lose what the old master granted and the replica did not get: overlaps
// that begin with such a grant are excused, within the same bound. That is, first: a holder of a name
// that the old master served, whose trust deadline counts from an attempt sent before the old master was
// dead (or, when it had only stood still, before it was known to follow); and second: any later one.
// Everything else is as strict as on a single server, moves and planned failovers included.
func clusterUnderFire(t *testing.T) {
	t.Helper()
	c := redistest.RunCluster(t, 3, 1, "--cluster-node-timeout", fmt.Sprint(nodeTimeout.Milliseconds()))
	names, options := fireNames(slices.Concat(testkit.NamesOf(c, 4)...))
	f := newFire(t, names, options)
	for range 3 {
		f.join(16, func() *engine.Engine {
			return testkit.Open(t, "", func(cfg *engine.Config) { cfg.Addrs = c.Addrs() })
		})
	}
	t.Cleanup(func() { f.stop(); f.callers.Wait() })
	cf := &clusterFire{fire: f, cluster: c}
	cf.checked, cf.known = f.clock.Now(), cf.masters()
	f.after = cf.excuseFailovers
	f.burn(slices.Concat(cf.moveBlows(), cf.nodeBlows(), cf.failoverBlows()))
	f.out()
	for _, n := range c.Nodes() {
		testkit.Eventually(t, "what nobody holds expires", func() bool { return len(n.Keys(t)) == 0 })
	}
	testkit.FinishCluster(t, c, f.engines()...)
}

// A clusterFire strikes a cluster.
type clusterFire struct {
	*fire
	cluster *redistest.Cluster
	known   []*redistest.Server // the masters at the last look
	checked clock.Instant       // when that was
	before  clock.Instant       // when the look before that was
}

// masters returns who serves each third of the slots now.
func (f *clusterFire) masters() []*redistest.Server {
	f.tb.Helper()
	masters, err := f.mastersSeenBy(f.cluster.Masters[0])
	require.NoError(f.tb, err)
	return masters
}

// mastersSeenBy asks one node, by slots that never move.
func (f *clusterFire) mastersSeenBy(n *redistest.Server) (masters []*redistest.Server, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.TooLong)
	defer cancel()
	for i := range f.cluster.Masters {
		base := uint16(i * 16384 / len(f.cluster.Masters))
		for slices.ContainsFunc(f.names, func(n history.Name) bool { return slot.Of(n.Text) == base }) {
			base++
		}
		owner, err := f.cluster.OwnerSeenBy(ctx, n, base)
		if err != nil {
			return nil, err
		}
		masters = append(masters, owner)
	}
	return masters, nil
}

func (f *clusterFire) master(random *rand.Rand) *redistest.Server {
	return f.masters()[random.IntN(len(f.cluster.Masters))]
}

// excuseFailovers looks whether a master was replaced since the last look without a blow that meant it: on
// a machine that does not let a server run for as long as nodeTimeout, that happens.
func (f *clusterFire) excuseFailovers() {
	masters := f.masters()
	now := f.clock.Now()
	if !slices.Equal(masters, f.known) {
		f.tb.Log("a failover that nobody meant")
		f.history.Delete(history.Deletion{
			Name: history.Everything, What: "unplanned failover", Sent: f.checked, Answered: now, Maybe: true,
		})
		f.history.Doubt(f.before)
	}
	f.known, f.checked, f.before = masters, now, f.checked
}

func (f *clusterFire) run(s *redistest.Server, args ...string) bool {
	_, err := s.Command(testkit.Limited(f.tb), args...)
	if err != nil {
		f.failed(fmt.Errorf("%q: %w", args, err))
	}
	return err == nil
}

// served returns the names that a server serves.
func (f *clusterFire) served(s *redistest.Server) (served []uint32) {
	f.tb.Helper()
	for i, n := range f.names {
		owner, err := f.cluster.Claimant(testkit.Limited(f.tb), slot.Of(n.Text))
		require.NoError(f.tb, err)
		if owner == s {
			served = append(served, uint32(i))
		}
	}
	return served
}

// takeAwayAll records a deletion of all names of a server.
func (f *clusterFire) takeAwayAll(s *redistest.Server, what string, do func() bool) {
	names := f.served(s)
	d := history.Deletion{What: what, Sent: f.clock.Now()}
	d.Maybe = !do()
	d.Answered = f.clock.Now()
	for _, d.Name = range names {
		f.history.Delete(d)
	}
}

// moveBlows move slots. All masters are there, so nothing is lost.
func (f *clusterFire) moveBlows() []blow {
	target := func(random *rand.Rand) (uint16, *redistest.Server) {
		s := slot.Of(f.names[random.IntN(len(f.names))].Text)
		owner, err := f.cluster.Claimant(testkit.Limited(f.tb), s)
		require.NoError(f.tb, err)
		others := slices.DeleteFunc(f.masters(), func(m *redistest.Server) bool { return m == owner })
		return s, others[random.IntN(len(others))]
	}
	do := func(err error) {
		f.tb.Helper()
		require.NoError(f.tb, err)
	}
	move := func(random *rand.Rand) {
		s, to := target(random)
		do(f.cluster.MoveSlot(testkit.Limited(f.tb), s, to))
	}
	slowly := func(random *rand.Rand) {
		const most = 700 * time.Millisecond
		s, to := target(random)
		m, err := f.cluster.BeginMove(testkit.Limited(f.tb), s, to)
		do(err)
		letLast(random, time.Millisecond, most)
		do(m.Keys(testkit.Limited(f.tb)))
		letLast(random, time.Millisecond, most)
		do(m.Finish(testkit.Limited(f.tb)))
	}
	return []blow{
		{what: "slots move", strike: func(random *rand.Rand) {
			for range 8 {
				move(random)
			}
		}},
		{what: "a slot moves slowly", strike: slowly},
		{what: "a slot moves under holders", strike: func(random *rand.Rand) { f.underHolders(func() { slowly(random) }) }},
		{what: "a slot there and back", strike: func(random *rand.Rand) {
			s, to := target(random)
			for range 3 {
				back, err := f.cluster.Claimant(testkit.Limited(f.tb), s)
				do(err)
				do(f.cluster.MoveSlot(testkit.Limited(f.tb), s, to))
				do(f.cluster.MoveSlot(testkit.Limited(f.tb), s, back))
			}
		}},
	}
}

// nodeBlows strike one master, which stays one.
func (f *clusterFire) nodeBlows() []blow {
	const lease = engine.MinWatchdogLease
	stop := func(random *rand.Rand, least, most time.Duration) {
		m := f.master(random)
		m.Pause()
		letLast(random, least, most)
		m.Resume()
	}
	flush := func(random *rand.Rand) {
		m := f.master(random)
		f.takeAwayAll(m, "FLUSHALL", func() bool { return f.run(m, "FLUSHALL") })
	}
	return []blow{
		{what: "ForceRelease", strike: func(random *rand.Rand) {
			for range 20 {
				f.forceRelease(random)
			}
		}},
		{what: "FLUSHALL of a master", strike: flush},
		{what: "FLUSHALL under holders", strike: func(random *rand.Rand) {
			f.underHolders(func() {
				flush(random)
				letLast(random, lease/20, lease/2)
			})
		}},
		{what: "SIGSTOP within the lease", strike: func(random *rand.Rand) { stop(random, lease/20, lease/2) }},
		{what: "SIGSTOP past the lease", strike: func(random *rand.Rand) {
			f.underHolders(func() { stop(random, lease, lease*3/2) })
		}},
		{what: "CLIENT KILL", strike: func(random *rand.Rand) {
			for range 3 {
				f.run(f.master(random), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				f.run(f.master(random), "CLIENT", "KILL", "TYPE", "pubsub")
				letLast(random, time.Millisecond, 100*time.Millisecond)
			}
		}},
		{what: "SCRIPT FLUSH", strike: func(random *rand.Rand) { f.run(f.master(random), "SCRIPT", "FLUSH") }},
		{what: "Close", strike: func(random *rand.Rand) { f.reopen(f.members[random.IntN(len(f.members))]) }},
	}
}

// failoverBlows replace a master.
func (f *clusterFire) failoverBlows() []blow {
	// replaced waits until another node serves what old served, and all of them are in step again.
	replaced := func(old *redistest.Server) {
		f.tb.Helper()
		witness := f.cluster.Masters[0]
		if witness == old {
			witness = f.cluster.Masters[1]
		}
		require.Eventually(f.tb, func() bool {
			masters, err := f.mastersSeenBy(witness)
			return err == nil && !slices.Contains(masters, old)
		}, time.Minute, 20*time.Millisecond, "a replica is promoted") // an election that failed is held again
	}
	healed := func(old *redistest.Server) {
		f.tb.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(f.tb, f.cluster.AwaitOK(ctx))
		if i := slices.Index(f.known, old); i >= 0 {
			f.known[i] = f.masters()[i] // it was meant
		}
	}
	return []blow{
		{what: "planned failover", rare: true, strike: func(random *rand.Rand) {
			require.NoError(f.tb, f.cluster.AwaitAgreement(testkit.Limited(f.tb)))
			old := f.master(random)
			replica := f.replicaOf(old)
			testkit.Eventually(f.tb, "the failover is accepted", func() bool {
				_, err := replica.Command(testkit.Limited(f.tb), "CLUSTER", "FAILOVER")
				return err == nil
			})
			replaced(old)
			healed(old)
		}},
		{what: "a master is killed", rare: true, strike: func(random *rand.Rand) {
			require.NoError(f.tb, f.cluster.AwaitAgreement(testkit.Limited(f.tb)))
			old := f.master(random)
			f.awaitReplica(old)
			f.underHolders(func() {
				f.takeAwayAll(old, "killed master", func() bool { old.Kill(); return false })
				replaced(old)
				require.NoError(f.tb, old.Restart(testkit.Limited(f.tb)))
			})
			healed(old)
		}},
		{what: "a master stands still until it is replaced", rare: true, strike: func(random *rand.Rand) {
			require.NoError(f.tb, f.cluster.AwaitAgreement(testkit.Limited(f.tb)))
			old := f.master(random)
			f.awaitReplica(old)
			f.takeAwayAll(old, "replaced master", func() bool {
				old.Pause()
				replaced(old)
				old.Resume()
				healed(old)
				return false
			})
		}},
	}
}

// awaitReplica returns when the replica of a master has all that was done up to now. A failover may bring
// back a lock that was taken away, as it may lose one; the deletions recorded as certain are to stay so.
func (f *clusterFire) awaitReplica(m *redistest.Server) {
	f.tb.Helper()
	offset := func(s *redistest.Server, field string) int {
		text, err := s.InfoField("replication", field)
		if err != nil {
			return -1
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	replica, done := f.replicaOf(m), offset(m, "master_repl_offset")
	require.Positive(f.tb, done)
	testkit.Eventually(f.tb, "the replica is in step", func() bool { return offset(replica, "slave_repl_offset") >= done })
}

// replicaOf returns the node that follows a master.
func (f *clusterFire) replicaOf(m *redistest.Server) *redistest.Server {
	f.tb.Helper()
	for _, n := range f.cluster.Nodes() {
		if port, err := n.InfoField("replication", "master_port"); err == nil && port == fmt.Sprint(m.Port()) {
			return n
		}
	}
	require.FailNow(f.tb, "no replica", m.Addr())
	panic("unreachable")
}
