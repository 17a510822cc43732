package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// An engine that is woken asks within a tenth of a millisecond. A JVM needs a millisecond or two, so where some engines
// and a JVM want one lock, an engine would win every race. So now and then the release at the end of a turn says that
// the lock is left to others, and every engine that hears it waits. That is for nothing where nobody but engines waits,
// so it is seldom, and only where at least two others were heard: one other has the courtesy to itself.
const (
	leaveEvery = 15 * time.Millisecond
	leftFor    = 3 * time.Millisecond
	leaveTo    = 2
)

// leaves reports whether a release that is sent now leaves the lock to others. It does not where who waits here goes on.
func (q *queue) leaves(now clock.Instant) bool {
	if q.others < leaveTo || q.goesOn(now) || now.Sub(q.leftAt) < leaveEvery {
		return false
	}
	q.leftAt = now
	return true
}

// Who spins hears nothing and is not heard: it looks every now and then, Redisson every 128 ms at most. So an engine whose turn
// with such a lock is over leaves it for spinsFor if it found somebody else to have it within rivalsFor.
const (
	spinsFor  = 5 * time.Millisecond
	rivalsFor = 10 * time.Second
)

// rivals reports whether somebody else has had a spin lock lately.
func (q *queue) rivals(now clock.Instant) bool { return q.leftAt != 0 && now.Sub(q.leftAt) < rivalsFor }
