package engine

import "github.com/seed-786ebc8c/holdfast/internal/clock"

// DeadlineOf is the exact trust deadline, which Lease.Deadline translates to wall time: histories are
// checked against it without slack.
func DeadlineOf(ls *Lease) clock.Instant { return ls.hold.Deadline() }
