package renew

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A Subject is what the engine puts under watch; it embeds a Hold, and knows its key.
type Subject interface {
	Watched() *Hold
	Key() string
}

// A Hold is the registry's entry of one wire hold. Embed it, fill in Field, Lease and Family, and give
// it to Cohorts.Watch.
type Hold struct {
	Field string
	Lease time.Duration

	item     wheel.Item
	deadline atomic.Int64  // trust deadline, a clock.Instant; only moves forward
	state    atomic.Uint32 // watched or gone
	Family   resp.Family
	stopped  atomic.Bool // no further renewals; the deadline stands

	// Guarded by Cohorts.mu, except before Watch.
	inFlight bool
	failing  bool // the last attempt failed: the next one uses the second connection
	jeopardy bool
	sentAt   clock.Instant // of the last success
	next     clock.Instant // when to renew
	until    clock.Instant // MaxHold: no renewals from then on; 0 none
}

const (
	stateWatched uint32 = iota // the zero value: a hold is born to be watched
	stateGone
)

// Deadline is the instant until which the hold is trusted.
func (h *Hold) Deadline() clock.Instant { return clock.Instant(h.deadline.Load()) }

// raise moves the deadline forward, never back.
func (h *Hold) raise(to clock.Instant) {
	for {
		old := h.deadline.Load()
		if int64(to) <= old || h.deadline.CompareAndSwap(old, int64(to)) {
			return
		}
	}
}

// Extended records that the server has proven a lease for an attempt sent at sentAt.
func (h *Hold) Extended(sentAt clock.Instant, lease time.Duration) {
	h.raise(TrustUntil(sentAt, lease))
}

// StopRenewing lets the hold run out at its present deadline.
func (h *Hold) StopRenewing() { h.stopped.Store(true) }

// Renewing reports whether the watchdog still renews the hold.
func (h *Hold) Renewing() bool { return !h.stopped.Load() }

// leave claims the end of the watch; only one caller wins.
func (h *Hold) leave() bool { return h.state.CompareAndSwap(stateWatched, stateGone) }
