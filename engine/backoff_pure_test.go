package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What failed for many at one moment is not sent again by all of them at another: the pauses are spread from a millisecond up,
// the first over ten, each next one over four times as many, and no longer than over a second.
func TestPausesBeforeResendingAreSpread(t *testing.T) {
	var e Engine
	for tries, spread := range map[int]time.Duration{
		1: 10 * time.Millisecond, 2: 40 * time.Millisecond, 4: 640 * time.Millisecond, 5: time.Second, 100: time.Second,
	} {
		var pauses []time.Duration
		for range 200 {
			pauses = append(pauses, backoff(e.world, tries)-time.Millisecond)
		}
		require.GreaterOrEqual(t, slices.Min(pauses), time.Duration(0), tries)
		require.Less(t, slices.Max(pauses), spread, tries)
		require.Less(t, slices.Min(pauses), spread/8, tries)
		require.Greater(t, slices.Max(pauses), spread*7/8, tries)
	}
}
