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
				time.Sleep(time.Millisecond)
			}
		}
		require.InDelta(t, float64(n)*1e6, float64(at), 1e3)
		last, n = at, n+1
	}
	require.Equal(t, 100, n)
	require.Zero(t, clock.Skipped)
	require.Less(t, last, 100*time.Millisecond)
}

// What is due before the end is made a little after it, if it has to be.
func TestAStallAtTheEndSkipsNoStart(t *testing.T) {
	p := NewPhase(50 * time.Millisecond)
	clock := StartPacer(p, 20_000)
	for p.Elapsed() < 100*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	n := 0
	for range clock.Starts {
		n++
	}
	require.Equal(t, 1000, n)
	require.Zero(t, clock.Skipped)
}

func TestARateThatNobodyCanReachSkipsStarts(t *testing.T) {
	p := NewPhase(50 * time.Millisecond)
	clock := StartPacer(p, 20_000)
	for p.Elapsed() < 2*lateStarts { // nobody takes a start until it is too late
		time.Sleep(time.Millisecond)
	}
	n := 0
	for range clock.Starts {
		n++
	}
	require.Equal(t, pacerQueue, n)
	require.EqualValues(t, 1000-pacerQueue, clock.Skipped)
}
