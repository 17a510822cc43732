package redisproc

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartCluster(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	c := RunCluster(t, 2, 0)
	require.Empty(t, c.Replicas)
	require.Equal(t, "OK", c.Masters[1].Do(t, "SET", "foo", "1")) // slot 12182
}

func TestStartSentinel(t *testing.T) {
	t.Parallel()
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

func TestMovedSlotIsSeenByAllNodesInTheEnd(t *testing.T) {
	t.Parallel()
	c := RunCluster(t, 3, 1)
	const slot = 6000
	from, to := c.Masters[1], c.Masters[2]
	require.NoError(t, c.MoveSlot(t.Context(), slot, to))
	claimant, err := c.Claimant(t.Context(), slot)
	require.NoError(t, err)
	require.Same(t, to, claimant)
	require.NoError(t, c.AwaitAgreement(t.Context()))
	for _, n := range c.Nodes() {
		owner, err := c.OwnerSeenBy(t.Context(), n, slot)
		require.NoError(t, err)
		require.Same(t, to, owner, n.Addr())
	}
	require.NoError(t, c.MoveSlot(t.Context(), slot, from))
	require.NoError(t, c.AwaitAgreement(t.Context()))
}

func TestSlotOwnersIgnoreOrderRolesAndSlotsOnTheirWay(t *testing.T) {
	const seen = "bb 127.0.0.1:2@12 master - 0 1 2 connected 100-200 300\n" +
		"aa 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-99 [50->-bb]\n" +
		"cc 127.0.0.1:3@13 slave aa 0 1 1 connected\n"
	require.Equal(t, "aa 0-99\nbb 100-200 300", slotOwners(seen))
}
