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
	Scheduled() *wheel.Item[Subject] // the Hold's
}

// A Hold is the registry's entry of one wire hold. Embed it, fill in Field and Family, and give it to
// Cohorts.Watch.
type Hold struct {
	Field string

	lease    atomic.Int64 // with which it is renewed, or the longest that is not; changes with its handles
	item     wheel.Item[Subject]
	deadline atomic.Int64  // trust deadline, a clock.Instant; written under Cohorts.mu; moves back in Lower alone
	state    atomic.Uint32 // goneBit, stoppedBit, secondBit
	Family   resp.Family

	// Guarded by Cohorts.mu, except before Watch.
	attempt  attemptState
	failing  bool // the last attempt failed
	jeopardy bool
	sentAt   clock.Instant // of the last success, or when renewing was resumed: jeopardy counts from it
	next     clock.Instant // when to renew; 0: not drawn yet, see spreadAt
	until    clock.Instant // MaxHold: no renewals from then on; 0 none
}

// A hold is born to be watched, and renewed.
const (
	goneBit    uint32 = 1 << iota // no longer under watch
	stoppedBit                    // no further renewals; the deadline stands
	secondBit                     // the present attempt, or the next, begins with the second connection
)

// An attemptState says where the present renewal of a hold is.
type attemptState uint8

const (
	noAttempt attemptState = iota // none is on its way
	attemptSent
	attemptHedged // sent over the other connection, too
)

// Scheduled is its place among those that the wheel wakes.
func (h *Hold) Scheduled() *wheel.Item[Subject] { return &h.item }

// Deadline is the instant until which the hold is trusted.
func (h *Hold) Deadline() clock.Instant { return clock.Instant(h.deadline.Load()) }

// Lease is what the hold is renewed with, or, where nothing is renewed, the longest of its leases.
func (h *Hold) Lease() time.Duration { return time.Duration(h.lease.Load()) }

// hedge is when the attempt on its way is sent over the other connection, too, if it has no answer by then: a later one
// than the first when it has waited for as long as the first does.
func (h *Hold) hedge() clock.Instant {
	first := hedgeAt(h.sentAt, h.Lease())
	if !h.failing {
		return first
	}
	return max(first, h.next.Add(h.Lease()/6))
}

// lag is how long ago the renewal was due that is answered now: the first attempt, if there were several. It is
// negative if no renewal is due: an answer over the other connection has renewed the hold already.
func (h *Hold) lag(now clock.Instant) time.Duration {
	return now.Sub(min(h.next, h.sentAt.Add(h.Lease()/3)))
}

// answeredBefore reports whether a success is that of a renewal which was sent before the present attempt was due:
// the hold was renewed over the other connection meanwhile, or it waited for longer than a period. Called with
// Cohorts.mu held.
func (h *Hold) answeredBefore(a *resp.Renewal) bool {
	return a.Code == resp.CodeRenewed && h.attempt != noAttempt && a.SentAt.Before(h.next)
}

// raise moves the deadline forward, never back. One that is over stays over, whatever is answered then: whoever looked
// has seen that the hold is lost. Called with Cohorts.mu held, or before Watch.
func (h *Hold) raise(to, now clock.Instant) {
	old := h.deadline.Load()
	if int64(to) <= old || int64(now) >= old {
		return
	}
	h.deadline.Store(int64(to))
}

// Extended records that the server has proven a lease for an attempt sent at sentAt. It changes nothing for a hold
// whose deadline is over now. Of a hold under watch [Cohorts.Extended] does.
func (h *Hold) Extended(sentAt clock.Instant, lease time.Duration, now clock.Instant) {
	h.raise(TrustUntil(sentAt, lease), now)
}

// StopRenewing lets the hold run out at its present deadline.
func (h *Hold) StopRenewing() { h.state.Or(stoppedBit) }

// renew says whether it is renewed from now on.
func (h *Hold) renew(on bool) { h.set(stoppedBit, !on) }

// second reports whether the present attempt, or the next, begins with the second connection.
func (h *Hold) second() bool { return h.state.Load()&secondBit != 0 }

// set sets a bit of the state, or clears it.
func (h *Hold) set(bit uint32, on bool) {
	if on {
		h.state.Or(bit)
	} else {
		h.state.And(^bit)
	}
}

// Renewing reports whether the watchdog still renews the hold.
func (h *Hold) Renewing() bool { return h.state.Load()&stoppedBit == 0 }

// gone reports whether the watch has ended.
func (h *Hold) gone() bool { return h.state.Load()&goneBit != 0 }

// leave claims the end of the watch; only one caller wins.
func (h *Hold) leave() bool { return h.state.Or(goneBit)&goneBit == 0 }
