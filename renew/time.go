package renew

import (
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// bucket is the width of a cohort: holds due within it are renewed together.
const bucket = 50 * time.Millisecond

// Margin is what a lease is trusted less than it lasts: clock rates may differ by 1 %.
func Margin(lease time.Duration) time.Duration {
	return max(lease/100, 10*time.Millisecond)
}

// TrustUntil returns the deadline that an answer earns: the attempt it answers was sent at sentAt
// and the answer proves the lease.
func TrustUntil(sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(lease - Margin(lease))
}

// early is how long before the deadline a loss is told: the width of a cohort and 25 ms for the
// way to the holder, but never more than a quarter of the lease.
func early(lease time.Duration) time.Duration {
	return min(bucket+25*time.Millisecond, lease/4)
}

// SignalAt is when a hold with this deadline counts as lost.
func SignalAt(deadline clock.Instant, lease time.Duration) clock.Instant {
	return deadline.Add(-early(lease))
}

// nextRenewal spreads renewals: a third of the lease after the last success, minus up to a fifth of
// that. Jitter only shortens.
func nextRenewal(sentAt clock.Instant, lease time.Duration) clock.Instant {
	period := lease / 3
	return sentAt.Add(period - rand.N(period/5+1))
}

// retryAfter is the pause after a failed renewal: about seven more tries fit in the lease.
func retryAfter(lease time.Duration) time.Duration { return max(lease/12, 20*time.Millisecond) }

// attemptLimit bounds one renewal attempt, so that a hung connection leaves time for the next.
func attemptLimit(lease time.Duration) time.Duration {
	return min(lease/6, 2*time.Second)
}

// jeopardyAt is when two periods have passed without a success.
func jeopardyAt(sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(2 * (lease / 3))
}
