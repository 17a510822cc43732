package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// unheard has a release done of which the master's replica, which is to take over, never hears. Then the master dies.
func unheard(t *testing.T, master, replica *redistest.Server, name string, release func()) {
	t.Helper()
	testkit.Eventually(t, "the replica has it", func() bool { return hasKey(t, replica, name) })
	replica.Pause()
	master.Do(t, "CLIENT", "KILL", "TYPE", "replica")
	release()
	require.False(t, testkit.Exists(t, master, name))
	master.Kill()
	replica.Resume()
}

// hasKey reports whether a server has a key, also one of a cluster that would send the question on.
func hasKey(t *testing.T, s *redistest.Server, name string) bool {
	t.Helper()
	keys, err := s.KeyNames(testkit.Limited(t))
	require.NoError(t, err)
	return slices.Contains(keys, name)
}

// freed waits for the lock in another engine: it has it long before the lease that came back, of a minute, ends.
func freed(t *testing.T, of, waits *engine.Engine, name string) {
	t.Helper()
	began := time.Now()
	ls, err := waits.Lock(name).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(began), 20*time.Second)
	testkit.Release(t, ls)
	revived := int64(0)
	for _, n := range of.Stats().Nodes {
		revived += n.Revived
	}
	require.Positive(t, revived, "it was told again")
}

func TestSentinelMasterThatDidNotHearOfAReleaseIsToldAgain(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 3)
	a, b := openSentinel(t, s), openSentinel(t, s)
	ls := testkit.Acquire(t, a.Lock("a", engine.WatchdogLease(time.Minute)))
	unheard(t, s.Master, s.Replicas[0], "a", func() { testkit.Release(t, ls) })
	master := promoted(t, s, s.Master)
	testkit.Follows(t, b, master)
	freed(t, a, b, "a")
}

func TestClusterMasterThatDidNotHearOfAReleaseIsToldAgain(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 1)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	ls := testkit.Acquire(t, a.Lock("a", engine.WatchdogLease(time.Minute)))
	of := slot.Of("a")
	master, err := c.Owner(testkit.Limited(t), of)
	require.NoError(t, err)
	var replica *redistest.Server
	for i := range c.Masters {
		if c.Masters[i] == master {
			replica = c.Replicas[i]
		}
	}
	unheard(t, master, replica, "a", func() { testkit.Release(t, ls) })
	freed(t, a, b, "a")
}
