package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// maxLease is the longest that the engine lets anybody ask for.
const maxLease = 10 * 365 * 24 * time.Hour

// LockOptionsTest of Redisson: pauses double up to the most, and are spread.
func TestRedissonLockOptions(t *testing.T) {
	pauses := func(s *Spin, n int) (all []time.Duration) {
		for i := range n {
			least, spread := s.pause(i)
			middle := least + spread/2
			require.InDelta(t, middle, least, float64(middle)/3, "a quarter either way")
			all = append(all, middle.Round(time.Millisecond))
		}
		return all
	}
	ms := func(all ...int) (ds []time.Duration) {
		for _, n := range all {
			ds = append(ds, time.Duration(n)*time.Millisecond)
		}
		return ds
	}
	t.Run("testExponentialBackoff", func(t *testing.T) {
		require.Equal(t, ms(10, 20, 40, 80, 100, 100), pauses(&Spin{10 * time.Millisecond, 100 * time.Millisecond}, 6))
		least, spread := (&Spin{time.Millisecond, maxLease}).pause(1 << 20)
		require.Positive(t, least)
		require.LessOrEqual(t, least+spread, 2*maxLease)
	})
	t.Run("testConstantBackoff", func(t *testing.T) {
		require.Equal(t, ms(30, 30, 30), pauses(&Spin{30 * time.Millisecond, 30 * time.Millisecond}, 3))
	})
}
