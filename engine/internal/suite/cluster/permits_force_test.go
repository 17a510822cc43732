package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A permit that was granted on the server, and waits for replicas, is taken by force: its caller does not come to have it
// beside who takes it next.
func TestAPermitThatWaitsForReplicasAndIsTakenByForceIsNobodys(t *testing.T) {
	t.Parallel()
	s, e := replicated(t, 1)
	p := e.PermitSemaphore("p")
	_, err := p.TrySetPermits(testkit.Limited(t), 1)
	require.NoError(t, err)
	testkit.Eventually(t, "the replica has it", func() bool { return testkit.Exists(t, s.Replicas[0], "p") })
	s.Replicas[0].Pause()
	waits := p.With(engine.WaitReplicas(1, 10*time.Second)).AcquireAsync(testkit.Limited(t), 1)
	waitsForReplicas(t, s.Master)
	n, err := p.ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	other, err := testkit.Open(t, s.Master.Addr()).PermitSemaphore("p").TryAcquire(testkit.Limited(t), 1)
	require.NoError(t, err)
	s.Replicas[0].Resume()
	testkit.Eventually(t, "the first has asked again, and was told that none is free", func() bool { return e.Stats().Waiting == 1 && e.Stats().Waits == 1 })
	testkit.Pending(t, waits)
	require.False(t, other.Lost())
	require.NoError(t, other.Release(testkit.Limited(t)))
	mine := testkit.Get(t, waits)
	require.NoError(t, mine.Release(testkit.Limited(t)))
}
