package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that stands still must show in the latency of everyone who was due meanwhile,
// not only of the one who was being served.
func TestPacerCountsFromTheIntendedStart(t *testing.T) {
	p := NewPhase(100 * time.Millisecond)
	clock := StartPacer(p, 1000)
	var last time.Duration
	n := 0
	for at := range clock.Starts {
		if n == 0 {
			for p.Elapsed() < 50*time.Millisecond { // the first takes half the time
				nap(time.Millisecond)
			}
		}
		require.InDelta(t, float64(n)*1e6, float64(at), 1e3)
		last, n = at, n+1
	}
	require.Equal(t, 100, n+int(clock.Skipped))
	require.Less(t, last, 100*time.Millisecond)
}
