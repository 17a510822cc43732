package resp

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// nodesOpen connects to a cluster. The table is not kept: what it knows after Open it learns from MOVED.
func nodesOpen(t testing.TB, c *redistest.Cluster, through ...map[string]*faultproxy.Proxy) *Nodes {
	t.Helper()
	dial := func(addr string) (rueidis.Client, error) {
		for _, proxies := range through {
			addr = proxies[addr].Addr()
		}
		return rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
			DisableCache: true, DisableRetry: true, ConnWriteTimeout: 2 * time.Second, DialCtxFn: new(Guard).Dialer(Dial),
		})
	}
	ns, err := Open(c.Addrs()[:1], dial, false, Options{ID: nodeID})
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	return ns
}

func TestClusterMovedIsFollowedAndLearnt(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	ns := nodesOpen(t, c)
	const key = "moving"
	s := slot.Of(key)
	ask := func() Result {
		t.Helper()
		answers := newNodeAnswers()
		op := nodeOp(OpInspect, key, answers)
		op.Slot = s
		require.NoError(t, ns.Submit(op))
		return answers.await(t, op)
	}
	require.Equal(t, CodeInspected, ask().Code)
	require.Zero(t, ns.Stats().Redirects)
	from := ns.Owner(s)
	var to *redistest.Server
	for _, m := range c.Masters {
		if m.Addr() != from.Addr() {
			to = m
		}
	}
	require.NoError(t, c.MoveSlot(t.Context(), s, to))
	r := ask()
	require.Nil(t, r.Err)
	require.Equal(t, CodeInspected, r.Code, "followed")
	require.EqualValues(t, 1, ns.Stats().Redirects)
	require.Equal(t, to.Addr(), ns.Owner(s).Addr(), "learnt")
	require.Equal(t, CodeInspected, ask().Code)
	require.EqualValues(t, 1, ns.Stats().Redirects, "asked there at once")
}

// A server that wants every key declared, and says so in its own words, is asked one key at a time; and from then on it gets
// no batch any more.
func TestClusterThatWantsEveryKeyDeclaredIsAskedOneAtATime(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 1, 0)
	front := faultproxy.Run(t, c.Masters[0].Addr())
	undeclared := func(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") && cmd[2] == "0" }
	refused := front.Refuse(undeclared, -1, "ERR this server likes its keys declared")
	ns := nodesOpen(t, c, map[string]*faultproxy.Proxy{c.Masters[0].Addr(): front})
	answers := newNodeAnswers()
	all := func(kind OpKind, keys ...string) (ops []*Op) {
		t.Helper()
		hold := front.Hold(faultproxy.Command("EVALSHA"), 1) // what comes behind it collects, and travels together
		first := nodeOp(OpInspect, "first", answers)
		require.NoError(t, ns.Submit(first))
		<-hold.C()
		for _, key := range keys {
			op := nodeOp(kind, key, answers)
			op.Slot, op.Hash = slot.Of(key), first.Hash
			require.NoError(t, ns.Submit(op))
			ops = append(ops, op)
		}
		front.ReleaseCommands()
		require.Nil(t, answers.await(t, first).Err)
		for _, op := range ops {
			r := answers.await(t, op)
			require.Nil(t, r.Err, op.Key)
			require.Equal(t, CodeGranted, r.Code, op.Key)
		}
		return ops
	}
	held := all(OpAcquire, "a", "b", "c")
	require.Equal(t, 1, refused.Hits(), "the batch, once")
	all(OpAcquire, "d", "e", "f")
	require.Equal(t, 1, refused.Hits(), "there is no batch any more")

	n := ns.All()[0]
	n.declares.Store(false)
	batch := make([]Renewal, len(held))
	for i, op := range held {
		batch[i] = Renewal{Key: op.Key, Field: op.Field, LeaseMs: 30_000}
	}
	for range 2 {
		n.Renew(false, 2*time.Second, batch)
		for _, r := range batch {
			require.Nil(t, r.Err, r.Key)
			require.Equal(t, CodeRenewed, r.Code, r.Key)
		}
		require.Equal(t, 2, refused.Hits(), "the batch of renewals, once")
	}
}

// A node that the others have left behind names the owners of long ago. It is believed only when most nodes say so.
func TestClusterNodeWithAnOlderConfigurationIsNotBelieved(t *testing.T) {
	t.Parallel()
	c, left := redistest.RunCluster(t, 3, 0), redistest.RunCluster(t, 1, 0)
	for range 20 {
		c.Masters[0].Do(t, "CLUSTER", "BUMPEPOCH")
	}
	ns := nodesOpen(t, c)
	const key = "name"
	s := slot.Of(key)
	owner := ns.Owner(s).Addr()
	require.NoError(t, ns.readTable())
	epoch := ns.epoch.Load()
	require.Positive(t, epoch)
	for range 40 {
		ns.mu.Lock()
		ns.endpointLocked(left.Masters[0].Addr()) // each table that is taken over forgets it
		ns.mu.Unlock()
		require.NoError(t, ns.readTable())
		require.Equal(t, owner, ns.Owner(s).Addr())
	}
	// Most of the nodes are behind what was known: they were set up anew.
	ns.epoch.Store(epoch + 1000)
	require.NoError(t, ns.readTable())
	require.Equal(t, epoch, ns.epoch.Load())
	// Most of them say nothing, and the one that answers is behind.
	ns.epoch.Store(epoch + 1000)
	c.Masters[1].Stop()
	c.Masters[2].Stop()
	require.ErrorContains(t, ns.readTable(), "older configuration")
	require.Equal(t, owner, ns.Owner(s).Addr())
}

func TestParseEpoch(t *testing.T) {
	require.EqualValues(t, 7, parseEpoch("cluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_my_epoch:3\r\n"))
	for _, info := range []string{"", "cluster_current_epoch:\r\n", "cluster_current_epoch:x", "cluster_current_epoch:-5", "cluster_current_epoch:99999999999999999999"} {
		require.EqualValues(t, unknownEpoch, parseEpoch(info), info)
	}
}
