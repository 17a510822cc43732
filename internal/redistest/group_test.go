package redistest

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartCluster(t *testing.T) {
	c := RunCluster(t, 3, 1)
	require.Len(t, c.Addrs(), 6)
	for i, slot := range []uint16{0, 6000, 16383} {
		owner, err := c.Owner(t.Context(), slot)
		require.NoError(t, err)
		require.Same(t, c.Masters[i], owner)
		require.Equal(t, "1", c.Masters[i].Do(t, "WAIT", "1", "5000"))
	}

	// A node that restarts empty still belongs to the cluster.
	require.NoError(t, c.Replicas[0].Restart(t.Context()))
	require.NoError(t, c.AwaitOK(t.Context()))

	require.NoError(t, poll(t.Context(), func() error {
		_, err := c.Replicas[1].Command(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER")
		return err
	}))
	require.NoError(t, poll(t.Context(), func() error {
		owner, err := c.Owner(t.Context(), 6000)
		if err == nil && owner != c.Replicas[1] {
			err = errors.New("the old master is still the owner")
		}
		return err
	}))
	require.NoError(t, c.AwaitOK(t.Context()))

	c.Stop()
	for _, n := range c.Nodes() {
		require.True(t, gone(n.Pid()))
	}
}

func TestStartClusterWithoutReplicas(t *testing.T) {
	c := RunCluster(t, 2, 0)
	require.Empty(t, c.Replicas)
	require.Equal(t, "OK", c.Masters[1].Do(t, "SET", "foo", "1")) // slot 12182
}

func TestStartSentinel(t *testing.T) {
	s := RunSentinel(t, 2, 3)
	require.Len(t, s.Addrs(), 3)
	current, err := s.Current(t.Context())
	require.NoError(t, err)
	require.Same(t, s.Master, current)
	require.Equal(t, strconv.Itoa(2), s.Master.Do(t, "WAIT", "2", "5000"))

	s.Master.Kill()
	require.NoError(t, poll(t.Context(), func() error {
		current, err := s.Current(t.Context())
		if err == nil && current == s.Master {
			err = errors.New("no failover yet")
		}
		return err
	}))
}
