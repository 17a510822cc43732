package lockstate

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// What follows is the other half of Queue: for how long an engine goes on with a lock that others want, too, and what
// it leaves to them.

// Yield leaves the name to others for a moment, whatever is heard meanwhile.
func (q *Queue[A]) Yield() {
	q.wait, q.tenureUntil = waitYield, 0
	q.tookUntil(0)
}

// Tenure counts a grant of the server's, and says until when this engine's tenure with the lock lasts. It
// begins with the first grant after somebody else had the lock, or could have had it, or was not heard to
// wait.
func (q *Queue[A]) Tenure(until clock.Instant) clock.Instant {
	if q.tenureUntil == 0 {
		q.tenureUntil, q.tenureSize, q.contended = until, 0, false
	}
	q.contended = q.contended || q.wanted || q.wait != waitNot // that one may want it again
	q.tenureSize++
	return q.tenureUntil
}

// Passed counts a grant that was handed over.
func (q *Queue[A]) Passed() { q.tenureSize++ }

// EndTenure ends a tenure that nobody else waits for the end of. If the release was published, and heard by this
// engine alone (told), it also wakes those who were waiting beside the hold: nobody is there whom they could
// leave a head start. It says whether it did.
func (q *Queue[A]) EndTenure(told bool) (woken bool) {
	q.tenureUntil = 0
	// Who waits to yield goes on doing so: that is for those who were heard before.
	if !told || q.wait != waitParked && q.wait != waitTenure {
		return false
	}
	q.wait, q.by = waitWoken, WakeMessage
	return true
}

// TenureOpen reports whether the tenure is not over: who waits here may ask again at once, whoever else waits.
// Where a lock is not handed over, that is how a tenure is more than one grant.
func (q *Queue[A]) TenureOpen(now clock.Instant) bool {
	return q.head != nil && now.Before(q.tenureUntil) && q.tenureSize < tenureGrants
}

// OthersWait reports whether somebody elsewhere is known to wait for a lock that was just released.
// heard: who got the message, if the server could count them; us: how many of those are this engine.
// Where nobody counts, somebody waiting here after a tenure stands for somebody waiting elsewhere.
func (q *Queue[A]) OthersWait(counted bool, heard, us int64) bool {
	if !counted {
		return q.head != nil
	}
	return heard > us
}

// Unwanted reports whether nobody is known to want the lock: nobody waits here, and in this tenure nobody elsewhere was
// heard to wait, or found to have it.
func (q *Queue[A]) Unwanted() bool { return q.head == nil && !q.contended && !q.wanted }

// ReleaseHeard notes who else heard a release of this engine: as OthersWait.
func (q *Queue[A]) ReleaseHeard(counted bool, heard, us int64) {
	q.wanted = counted && heard > us
	q.others = leaveTo
	if counted {
		q.others = uint8(min(max(heard-us, 0), leaveTo)) //nolint:gosec // in range
	}
}

// Crowded reports whether they were so many that a release may leave the lock to them.
func (q *Queue[A]) Crowded() bool { return q.others >= leaveTo }

// SawOthers notes when the lock was last left to others; of a spin lock: when somebody else was last found to have it.
func (q *Queue[A]) SawOthers(at clock.Instant) { q.ensureExtra().leftAt = at }

// tenurePause orders engines that wake by the same message: who has heard fewer releases since its own
// last tenure leaves the others a head start. With nobody else about it costs one short pause at most
// a release; whoever has waited for three goes at once.
func (q *Queue[A]) tenurePause() time.Duration {
	switch q.missedReleases {
	case 1:
		return 600 * time.Microsecond
	case 2:
		return 250 * time.Microsecond
	default:
		return 0
	}
}

// An engine that is woken asks within a tenth of a millisecond. A JVM needs a millisecond or two, so where some engines
// and a JVM want one lock, an engine would win every race. So now and then the release at the end of a tenure says that
// the lock is left to others, and every engine that hears it waits. That is for nothing where nobody but engines waits,
// so it is seldom, and only where at least two others were heard: one other has the yield pause to itself.
const (
	leaveEvery = 15 * time.Millisecond
	LeftFor    = 3 * time.Millisecond
	leaveTo    = 2
)

// LeavesToOthers reports whether a release that is sent now leaves the lock to others. It does not where who waits here
// goes on.
func (q *Queue[A]) LeavesToOthers(now clock.Instant) bool {
	if !q.Crowded() || q.TenureOpen(now) || now.Sub(q.seldom().leftAt) < leaveEvery {
		return false
	}
	q.ensureExtra().leftAt = now
	return true
}

// Who spins hears nothing and is not heard: it looks every now and then, Redisson every 128 ms at most. So an engine
// whose tenure with such a lock is over leaves it for SpinsFor if it found somebody else to have it within rivalsFor.
const (
	SpinsFor  = 5 * time.Millisecond
	rivalsFor = 10 * time.Second
)

// Rivals reports whether somebody else has had a spin lock lately.
func (q *Queue[A]) Rivals(now clock.Instant) bool {
	leftAt := q.seldom().leftAt
	return leftAt != 0 && now.Sub(leftAt) < rivalsFor
}

// Hand-off: a released lock may go straight to the next waiter of this engine. The field in Redis
// stays, the lease goes on, no command is sent; the new handle takes the hold's present deadline, so
// belief ends when it would have ended anyway. A tenure bounds how long one engine may go on so.
const (
	TenureLeast  = 20 * time.Millisecond
	TenureMost   = 200 * time.Millisecond
	tenureGrants = 256
	// YieldLeast is how long an engine that gave a wanted lock back leaves it to the others: its
	// own next acquire would win every race against one that first has to hear the message.
	YieldLeast = 2 * time.Millisecond
	YieldMost  = 20 * time.Millisecond
)
