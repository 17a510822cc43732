package renew

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// flockMost is how many holds are renewed together for ever: so few that those of many flocks still come evenly.
const flockMost = 32

// A flock gives holds that come one behind the other, and came so the last time, one time for the next. They were
// granted one behind the other: here and at the server they stand side by side in memory, which would have to be
// fetched for each of them if each drew a time of its own. And those of one command have the same owner id, which then
// is sent once.
type flock struct {
	since        clock.Instant // what they have in common: when they were granted, or due
	lease        time.Duration
	sentAt, next clock.Instant // what is next for all of them
	size         int
}

// joins reports whether a hold is one more of them. Else it is the first of the next flock, whose time is to be drawn.
func (f *flock) joins(since clock.Instant, lease time.Duration) bool {
	if f.size == 0 || f.size == flockMost || f.since != since || f.lease != lease {
		f.since, f.lease, f.size = since, lease, 1
		return false
	}
	f.size++
	return true
}
