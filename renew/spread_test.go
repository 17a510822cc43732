package renew

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// What loads the server is the fullest bucket: all that is due within 50 ms is sent together.
func TestRenewalsOfManyHoldsTakenAtOnceComeEvenlyFromTheFirstPeriodOn(t *testing.T) {
	const n = 100_000
	for _, lease := range []time.Duration{time.Second, 6 * time.Second, 30 * time.Second} {
		const periods = 12
		period := lease / 3
		random := world.New(7, 0)
		renewals := make([]int, (periods+2)*period/bucket+2) // in each bucket
		end := start.Add(periods * period)
		for range n {
			due := cohortEnd(spreadAt(start, lease))
			for at := cohortEnd(firstRenewal(random, due, start, lease)); at.Before(end); {
				renewals[at.Sub(start)/bucket]++
				at = cohortEnd(nextRenewal(random, at, lease))
			}
		}
		renewals = renewals[1 : periods*period/bucket] // those that time has passed over
		total, most := 0, 0
		for _, n := range renewals {
			total += n
			most = max(most, n)
		}
		mean := float64(total) / float64(len(renewals))
		first := float64(n) / float64(period) * float64(bucket)
		t.Logf("lease %v: mean %.0f a bucket, at most %d", lease, mean, most)
		require.LessOrEqual(t, float64(most), 1.5*mean, "lease %v", lease)
		require.LessOrEqual(t, float64(most), 1.5*first, "lease %v: of the first period alone", lease)
	}
}

// cohortEnd is when the wheel delivers what is due at at.
func cohortEnd(at clock.Instant) clock.Instant {
	return (at + clock.Instant(bucket) - 1) / clock.Instant(bucket) * clock.Instant(bucket)
}

func TestJitterOnlyShortens(t *testing.T) {
	const lease = 30 * time.Second
	random := world.New(3, 0)
	for range 10_000 {
		next := nextRenewal(random, start, lease)
		require.LessOrEqual(t, next, start.Add(lease/3))
		require.GreaterOrEqual(t, next, start.Add(lease/3-lease/15))
		at := spreadAt(start, lease)
		first := firstRenewal(random, at, start, lease)
		require.LessOrEqual(t, first, start.Add(lease/3))
		require.GreaterOrEqual(t, first, at)
	}
	late := start.Add(lease / 2)
	require.Equal(t, late, firstRenewal(random, late, start, lease), "a look that comes late is no reason to wait longer")
}
