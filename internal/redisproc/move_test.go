package redisproc

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The owner of a slot is who claims it with the greatest epoch, and a move makes an epoch that is greater
// than those its target has heard of. A target that is behind would lose the slot again, to the first node
// that knows more.
func TestMoveIsNotUndoneByWhatItsTargetHadNotHeardYet(t *testing.T) {
	t.Parallel()
	c := RunCluster(t, 3, 1, "--enable-debug-command", "local", "--cluster-node-timeout", "20000")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const slot = 6000
	from, to := c.Masters[1], c.Masters[0]
	deaf(t, to, true)
	for range 2 {
		require.NoError(t, c.MoveSlot(ctx, slot, from))
		require.NoError(t, c.MoveSlot(ctx, slot, to))
		require.Greater(t, ownEpoch(t, to), ownEpoch(t, from))
	}
	deaf(t, to, false)
	require.NoError(t, c.AwaitAgreement(ctx))
	owner, err := c.Owner(ctx, slot)
	require.NoError(t, err)
	require.Same(t, to, owner)
}

// A master that was told who serves a slot now, and not by which epoch, may still believe an older claim.
func TestAMoveIsOverWhenEveryMasterKnowsTheEpochOfItsClaim(t *testing.T) {
	t.Parallel()
	c := RunCluster(t, 3, 0, "--enable-debug-command", "local")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const slot = 6000
	witness := c.Masters[2]
	deaf(t, witness, true)
	for _, to := range []*Server{c.Masters[0], c.Masters[1]} {
		require.NoError(t, c.MoveSlot(ctx, slot, to))
		known, err := witness.epochOf(ctx, to.Do(t, "CLUSTER", "MYID"))
		require.NoError(t, err)
		require.Equal(t, ownEpoch(t, to), known)
	}
}

// Away and back as fast as that goes, while the same masters get other slots, and with them newer epochs.
func TestASlotThatMovesAwayAndBackKeepsItsKeys(t *testing.T) {
	t.Parallel()
	c := RunCluster(t, 3, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const tag, keys, rounds = "{kept}", 5, 30
	v, err := c.Masters[0].Command(ctx, "CLUSTER", "KEYSLOT", tag)
	require.NoError(t, err)
	at, _ := v.(int64)
	slot := uint16(at) //nolint:gosec // it is one
	home, err := c.Owner(ctx, slot)
	require.NoError(t, err)
	for i := range keys {
		home.Do(t, "SET", tag+strconv.Itoa(i), "x")
	}
	others := slices.DeleteFunc(slices.Clone(c.Masters), func(m *Server) bool { return m == home })
	for round := range rounds {
		away := others[round%len(others)]
		require.NoError(t, c.MoveSlot(ctx, slot, away))
		require.Len(t, away.Keys(t), keys)
		require.NoError(t, c.MoveSlot(ctx, slot, home))
		require.NoError(t, c.MoveSlot(ctx, slot+1, away))
		require.Len(t, home.Keys(t), keys)
	}
}

func ownEpoch(t *testing.T, s *Server) int {
	t.Helper()
	epoch, err := s.epochOf(t.Context(), s.Do(t, "CLUSTER", "MYID"))
	require.NoError(t, err)
	return epoch
}

// deaf makes a node drop the messages by which others tell of a change at once; the pings of the next
// seconds tell of it as well.
func deaf(t *testing.T, s *Server, yes bool) {
	t.Helper()
	const pong, none = "1", "-1"
	kind := none
	if yes {
		kind = pong
	}
	s.Do(t, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", kind)
}
