package testkit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// DropTokens removes what has no expiry by its nature.
func DropTokens(tb testing.TB, c *redistest.Cluster) {
	tb.Helper()
	for _, m := range c.Masters {
		for _, key := range m.Keys(tb) {
			if len(key) > 19 && key[:19] == "redisson_lock_token" {
				m.Do(tb, "DEL", key)
			}
		}
	}
}

// NamesOf returns n names of each master, in the order of Masters.
func NamesOf(c *redistest.Cluster, n int) [][]string {
	names := make([][]string, len(c.Masters))
	for i, missing := 0, n*len(c.Masters); missing > 0; i++ {
		name := fmt.Sprint("name:", i)
		m := int(slot.Of(name)) * len(c.Masters) / 16384
		if len(names[m]) < n {
			names[m] = append(names[m], name)
			missing--
		}
	}
	return names
}

// AnotherMaster returns a master that does not serve a slot.
func AnotherMaster(tb testing.TB, c *redistest.Cluster, s uint16) *redistest.Server {
	tb.Helper()
	owner, err := c.Owner(Limited(tb), s)
	require.NoError(tb, err)
	for _, m := range c.Masters {
		if m != owner {
			return m
		}
	}
	panic("one master only")
}

// OpenCluster opens an engine on one node of a cluster and closes it at the test's end.
func OpenCluster(tb testing.TB, c *redistest.Cluster, change ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	return Open(tb, c.Masters[0].Addr(), change...)
}

// FinishCluster closes the engines and checks that no master keeps anything.
func FinishCluster(tb testing.TB, c *redistest.Cluster, engines ...*engine.Engine) {
	tb.Helper()
	for _, m := range c.Masters {
		require.Empty(tb, m.ImmortalKeys(tb), "keys without an expiry")
	}
	for _, e := range engines {
		Eventually(tb, "nothing goes on in the engine", func() bool { return e.Stats().Names == 0 })
		require.NoError(tb, e.Close(Limited(tb)))
	}
	for _, m := range c.Masters {
		require.Empty(tb, m.Keys(tb), "keys left on %s", m.Addr())
	}
}

// Follows waits until the engine is where the master is.
func Follows(t testing.TB, e *engine.Engine, master *redistest.Server) {
	t.Helper()
	Eventually(t, "the engine follows", func() bool { return e.Stats().Nodes[0].Addr == master.Addr() })
}
