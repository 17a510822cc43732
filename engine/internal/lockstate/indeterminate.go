package lockstate

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// ClockSlack covers clock rates that differ by 1 % over an attempt, and the server's rounding.
const ClockSlack = 50 * time.Millisecond

// An Indeterminate is what is not known of an owner id: copies of its acquires that were sent and never
// answered. Each carries a not-after; until the last of them has passed, one may still run.
//
// It is a pure state machine: Unanswered moves it, MayRunAfter asks it. The rules that follow from it are the
// engine's: while a copy may run every further attempt keeps its owner id, an answer "not yours" is not final,
// and a release is followed by one more when none can.
type Indeterminate struct {
	Until clock.Instant // when the last unanswered copy has become harmless; 0: there is none
	Lease time.Duration // the longest any of them asks for
}

// Unanswered records that an attempt sent at sentAt got no answer.
func (d *Indeterminate) Unanswered(sentAt clock.Instant, limit, lease time.Duration) {
	d.Until = max(d.Until, sentAt.Add(limit+ClockSlack))
	d.Lease = max(d.Lease, lease)
}

// MayRunAfter reports whether a copy may still run after a command that was sent at this instant: then its
// answer is not the last word. When the answer came does not matter: a copy may have run in between.
func (d Indeterminate) MayRunAfter(sentAt clock.Instant) bool {
	return d.Until != 0 && sentAt.Before(d.Until)
}
