package resp

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// nodesOpen connects to a cluster. The table is not kept: what it knows after Open it learns from MOVED.
func nodesOpen(t testing.TB, c *redistest.Cluster) *Nodes {
	t.Helper()
	dial := func(addr string) (rueidis.Client, error) {
		return rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
			DisableCache: true, DisableRetry: true, ConnWriteTimeout: 2 * time.Second, DialCtxFn: Dial,
		})
	}
	ns, err := Open(c.Addrs()[:1], dial, false, Options{ID: nodeID})
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	return ns
}

func TestClusterMovedIsFollowedAndLearnt(t *testing.T) {
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
