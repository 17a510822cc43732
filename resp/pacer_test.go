package resp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestPacerLetsABurstGoAtOnceAndTheRestAtItsRate(t *testing.T) {
	var p pacer
	at := clock.Instant(time.Hour)
	for i := range resendBurst + 1 {
		require.Equal(t, at, p.reserve(at), "of the burst, number %d", i)
	}
	for i := range 5000 {
		require.Equal(t, at.Add(time.Duration(i+1)*resendEvery), p.reserve(at))
	}
	later := at.Add(time.Hour)
	require.Equal(t, later, p.reserve(later), "the bucket has filled again")
}

func TestPacerNeverAllowsMoreThanItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pacer
		now := clock.Instant(time.Hour)
		var allowed []clock.Instant
		for range rapid.IntRange(1, 2000).Draw(t, "ops") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Microsecond)
			at := p.reserve(now)
			require.False(t, at.Before(now), "never before it is wanted")
			allowed = append(allowed, at)
		}
		for i, from := range allowed { // in any window: the burst, and the rate
			for j := i; j < len(allowed); j += 1 + len(allowed)/50 {
				span := allowed[j].Sub(from)
				require.LessOrEqual(t, j-i, resendBurst+1+int(span/resendEvery), "between %d and %d", i, j)
			}
		}
	})
}
