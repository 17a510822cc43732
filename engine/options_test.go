package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADurationIsRoundedUpAndNeverPastItsBounds(t *testing.T) {
	const ms = time.Millisecond
	for d, want := range map[time.Duration]time.Duration{
		ms: ms, ms + 1: 2 * ms, 2*ms - 1: 2 * ms, 1: ms, ms / 2: ms, 10 * time.Second / 3: 3334 * ms,
		MaxLease: MaxLease, MaxLease - 1: MaxLease,
	} {
		got, err := checkDuration("MaxWait", d, ms)
		require.NoError(t, err, d)
		require.Equal(t, want, got, d)
	}
	for _, d := range []time.Duration{0, -1, -ms, -time.Hour, MaxLease + 1, 1<<63 - 1, -1 << 63} {
		_, err := checkDuration("MaxWait", d, ms)
		require.ErrorIs(t, err, ErrLease, d)
		require.ErrorContains(t, err, "MaxWait("+d.String()+")")
	}
	set := defaults[0].with([]Option{
		WatchdogLease(10 * time.Second / 3), MaxHold(10 * time.Second / 3), MaxWait(1),
		WaitReplicas(1, 10*ms/3), Spin(ms/2, 10*ms/3),
	})
	require.NoError(t, set.err)
	require.Equal(t, []time.Duration{3334 * ms, 3334 * ms, ms, 4 * ms, ms, 4 * ms},
		[]time.Duration{set.Lease, set.MaxHold, set.maxWait, set.Ack.Timeout, set.Spin.First, set.Spin.Most})
}
