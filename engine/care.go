package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// What a hold's handles want is decided in wish.go; here the watchdog is told. Most holds have one handle, or
// several that want the very same: those have no list of wishes.

// alikeSoFar reports whether all handles of a hold want what its settings say, for ever.
func (h *hold) alikeSoFar() bool { return h.special == nil || h.special.wishes == nil }

// wishes lists what the handles of a hold want.
func (sc *section) wishes(h *hold) *wishes {
	m := h.more()
	if m.wishes != nil {
		return &m.wishes
	}
	m.wishes = make(wishes, 0, 2)
	if h.handles > 0 {
		w := wish{set: h.set, handles: h.handles, until: sc.eng.dog.Until(h)}
		if !h.Renewing() {
			w.until, w.trusted = 0, h.Deadline()
		}
		m.wishes = append(m.wishes, w)
	}
	return &m.wishes
}

// leaseJoined adds what a further handle wants. A fixed lease was granted by what was sent at sentAt.
func (sc *section) leaseJoined(h *hold, ls *Lease, sentAt clock.Instant) {
	set := ls.lock.set
	if h.alikeSoFar() && h.handles > 0 && h.set.plain() && set.plain() && set.lease == h.set.lease && h.Renewing() {
		h.handles++
		return
	}
	ws := sc.wishes(h)
	h.handles++
	ws.add(ls, set, sentAt, sc.eng.clock.Now())
	sc.tellWatchdog(h)
}

// keep is the lease that the hold's key must have now for every handle to be served; 0: it has none.
func (h *hold) keep(now clock.Instant) time.Duration {
	switch {
	case h.alikeSoFar() && h.handles == 0, !h.alikeSoFar() && len(h.special.wishes) == 0:
		return 0
	case !h.alikeSoFar():
		return h.special.wishes.keep(now)
	case h.Renewing():
		return h.Lease()
	default:
		return max(renew.LeaseFor(h.Deadline().Sub(now)), MinFixedLease)
	}
}

// leaseLeft ends what a handle wanted that is given back.
func (sc *section) leaseLeft(h *hold, ls *Lease) {
	h.handles--
	if !h.alikeSoFar() {
		h.special.wishes.leave(ls)
		sc.tellWatchdog(h)
	}
}

// trustLess follows a handle that left a shared hold, whose key no command lowers: if nobody has it renewed any more, it
// is trusted for what is left to those who remain, not for what was proven for others.
func (sc *section) trustLess(h *hold) {
	if h.alikeSoFar() || h.special.wishes.care().renew {
		return
	}
	now := sc.eng.clock.Now()
	if keep := h.keep(now); keep != 0 {
		sc.eng.dog.Lower(h, renew.TrustUntil(now, keep))
	}
}

// passMaxHold notices a MaxHold that has passed, before the key's expiry is set to what the handles ask for: the watchdog
// looks when the next renewal is due.
func (sc *section) passMaxHold(h *hold, now clock.Instant) {
	if until := sc.eng.dog.Until(h); until == 0 || now.Before(until) {
		return
	}
	if sc.wishes(h).pass(now, h.Deadline()) {
		sc.tellWatchdog(h)
	}
}

// only makes a hold its next holder's, who wants what the hold's settings say.
func (sc *section) only(h *hold) {
	h.handles = 1
	if h.special != nil {
		h.special.wishes = nil
	}
}

// tellWatchdog tells the watchdog what follows from the wishes. Where nobody is left, whatever comes next
// decides: a further handle, or the end.
func (sc *section) tellWatchdog(h *hold) {
	ws := h.special.wishes
	if len(ws) == 0 {
		return
	}
	ws.pass(sc.eng.clock.Now(), h.Deadline())
	if len(ws) == 1 && ws[0].set.family == h.Family {
		h.set = ws[0].set
	}
	c := ws.care()
	sc.eng.dog.Change(h, renew.Terms{Lease: c.lease, Renew: c.renew, Until: c.until})
}

// stopRenewing ends the renewals for one handle.
func (sc *section) stopRenewing(h *hold, ls *Lease) {
	if h.alikeSoFar() && h.handles == 1 {
		h.StopRenewing()
		return
	}
	sc.wishes(h).stop(ls, sc.eng.clock.Now(), h.Deadline())
	sc.tellWatchdog(h)
}

// asksFor notes that a command may let the key live for so long, whatever its answer.
func (sc *section) asksFor(h *hold, lease time.Duration) {
	if lease <= h.Lease() {
		return
	}
	if h.doubt == nil {
		h.doubt = new(doubt)
	}
	h.doubt.lease = max(h.doubt.lease, lease)
}

// asked is for how long from now on the hold may have had the key live.
func (h *hold) asked(now clock.Instant) time.Duration {
	asked := max(h.Lease(), h.open().lease)
	if renew.TrustUntil(now, asked).Before(h.Deadline()) {
		asked = renew.LeaseFor(h.Deadline().Sub(now)) // rounded up: for a lease as it is that would be more
	}
	return asked
}
