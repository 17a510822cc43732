package renew

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
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

// brief reports whether a loss is told so shortly before the deadline that it must not be a cohort's width late.
func brief(lease time.Duration) bool { return lease/4 < bucket+25*time.Millisecond }

// SignalAt is when a hold with this deadline counts as lost.
func SignalAt(deadline clock.Instant, lease time.Duration) clock.Instant {
	return deadline.Add(-early(lease))
}

// jitter is how much of a period renewals are spread over.
func jitter(lease time.Duration) time.Duration { return lease / 15 }

// nextRenewal spreads renewals: a third of the lease after the last success, minus up to a fifth of
// that. Jitter only shortens.
func nextRenewal(w *world.World, sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(lease/3 - w.N(jitter(lease)+1))
}

// spreadAt is when a new hold gets the time of its first renewal, a fifth of a period after the grant.
// A hold that ends before needs none. And no hold comes to its second renewal before the last one of
// those that were taken with it has come to its first: the two never add up to a peak.
func spreadAt(sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(jitter(lease))
}

// firstRenewal spreads holds that were taken at once over what is left of their first period: jitter of a
// fifth alone would bring them back in a peak of five times the mean.
func firstRenewal(w *world.World, now, sentAt clock.Instant, lease time.Duration) clock.Instant {
	left := sentAt.Add(lease / 3).Sub(now)
	if left <= 0 {
		return now
	}
	return now.Add(w.N(left))
}

// retryAfter is the pause after a failed renewal: about seven more tries fit in the lease.
func retryAfter(lease time.Duration) time.Duration { return max(lease/12, 20*time.Millisecond) }

// attemptLimit bounds one renewal attempt. It is the promise of how slow a line may be: while a round trip
// takes less than a third of the lease, and less than two seconds, no watched hold is lost. (Making a new
// connection takes two or three round trips more.) The first
// attempt leaves a third of the lease after the last success. One that has no answer at the half is sent
// over the second connection, too: a hung connection leaves that one all of its limit before the loss is
// told.
func attemptLimit(lease time.Duration) time.Duration {
	return min(lease/3, 2*time.Second)
}

// hedgeAt is when a first attempt that has no answer is sent over the other connection, too.
func hedgeAt(sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(lease / 2)
}

// LeaseFor is the least lease, in whole milliseconds, that is trusted for d: what TrustUntil takes off is on
// top.
func LeaseFor(d time.Duration) time.Duration {
	const ms = time.Millisecond
	d = max(d, 0)
	return max(d+10*ms, d+d/99+ms).Truncate(ms) + ms
}

// jeopardyAt is when two periods have passed without a success.
func jeopardyAt(sentAt clock.Instant, lease time.Duration) clock.Instant {
	return sentAt.Add(2 * (lease / 3))
}

// patience is how long a renewal that is due may wait to be sent. One that waits longer shows that there are more than
// the server can do. A line that is as slow as attemptLimit allows does not make it wait so long.
func patience(lease time.Duration) time.Duration { return min(lease/4, time.Second) }

// holdBack is for how long acquires give way to renewals that are late: until the next of them have their answers, if
// that takes as long as it took the last.
func holdBack(took time.Duration) time.Duration {
	return min(max(2*took, 100*time.Millisecond), 2*time.Second)
}
