package redistest

import (
	"context"
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
