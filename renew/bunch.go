package renew

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// bunchMost is how many holds are renewed together for ever: so few that those of many bunches still come evenly.
const bunchMost = 32

// A bunch gives holds that one command has granted one time for their next renewal. Here and at the server they stand
// side by side in memory, which would have to be fetched for each of them if each drew a time of its own. And they have
// the same owner id, which then is sent once. They come one behind the other, and were due together before.
type bunch struct {
	field        string
	since        clock.Instant // when they were granted, or due
	lease        time.Duration
	sentAt, next clock.Instant // what is next for all of them
	size         int
}

// joins reports whether a hold is one more of them. Else it is the first of the next bunch, whose time is to be drawn.
func (f *bunch) joins(h *Hold, since clock.Instant, lease time.Duration) bool {
	if f.size == 0 || f.size == bunchMost || f.since != since || f.lease != lease || f.field != h.Field {
		f.field, f.since, f.lease, f.size = h.Field, since, lease, 1
		return false
	}
	f.size++
	return true
}
