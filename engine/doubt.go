package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// clockSlack covers clock rates that differ by 1 % over an attempt, and the server's rounding.
const clockSlack = 50 * time.Millisecond

// A doubt is what is not known of a wire id: copies of its acquires that were sent and never
// answered. Each carries a not-after; until the last of them has passed, one may still run.
//
// It is a pure state machine: sent and unanswered move it, closed asks it. The rules that follow
// from it are the engine's: while it is open every further attempt keeps its wire id, an answer
// "not yours" is not final, and a release is followed by one more when it closes.
type doubt struct {
	until clock.Instant // when the last unanswered copy has become harmless; 0: there is none
	lease time.Duration // the longest any of them asks for
}

// unanswered records that an attempt sent at sentAt got no answer.
func (d *doubt) unanswered(sentAt clock.Instant, limit, lease time.Duration) {
	d.until = max(d.until, sentAt.Add(limit+clockSlack))
	d.lease = max(d.lease, lease)
}

// open reports whether a copy may still run after a command that was sent at this instant: then its
// answer is not the last word. When the answer came does not matter: a copy may have run in between.
func (d doubt) open(sentAt clock.Instant) bool { return d.until != 0 && sentAt.Before(d.until) }
