package engine

import (
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// How long a key lives: no less than those ask for who have it, and no longer.

// asksFor is for how long from now on a key may live for a handle's sake.
func (h *simHold) asksFor(now clock.Instant) time.Duration {
	lease := h.ls.set.Lease
	switch {
	case !h.ls.set.Watchdog:
		return max(h.until.Sub(now), h.extended)
	case h.kind == simRead: // readers share a hold, and the server does not hear of one that leaves it
		return lease
	case h.stopped && h.maxHold:
		return min(h.endsAt, h.since.Add(simMaxHold+lease)).Sub(now)
	case h.stopped:
		return h.endsAt.Sub(now)
	case h.maxHold:
		return min(lease, h.since.Add(simMaxHold+lease).Sub(now))
	default:
		return lease
	}
}

// simMaxHold is every MaxHold.
const simMaxHold = time.Second

// checkLives: what is renewed never has less left than the watchdog leaves it, where nothing goes wrong but that locks are
// taken away. On a slow line a renewal is on its way for longer, and may wait for another's round trip.
func (s *sim) checkLives() {
	if !s.unharmed() {
		return
	}
	now := s.w.Now()
	for _, n := range s.names {
		for _, h := range n.holds {
			if !h.isRenewed(now) || h.excused || !h.believes() || h.se.closing || h.gen != h.se.gen {
				continue
			}
			lease := h.ls.set.Lease
			_, expires := s.server.twin.Look(n.name)
			left := time.Duration(expires-s.server.twin.Millis()) * time.Millisecond
			if left < lease*6/10-100*time.Millisecond-4*s.line {
				s.fail("a lease is renewed at its own length", "%q: hold %d of %s asks for %v, and the key lives %v", n.name, h.id, h.who, lease, left)
			}
		}
	}
}

// isRenewed reports whether a handle is one that the watchdog renews.
func (h *simHold) isRenewed(now clock.Instant) bool {
	return h.ls.set.Watchdog && !h.stopped && (!h.maxHold || now.Sub(h.since) < simMaxHold-simLate)
}

// unharmed reports whether nothing goes wrong in this run but that locks are taken away.
func (s *sim) unharmed() bool {
	return (s.rate == 0 || len(s.fates) == 0) && s.refusals == 0 && !s.cutsOff && s.outage == 0 && !s.crashes && !s.blows && !s.clocks
}

// checkSpare: a key lives no longer than those ask for who still have it, or are giving it back, or may just be granted it,
// where nothing goes wrong but that locks are taken away. What an engine still has to send about a name may lower its key.
func (s *sim) checkSpare() {
	if !s.unharmed() || s.java {
		return
	}
	now := s.w.Now()
	for _, n := range s.names {
		known := append(slices.Clone(n.holds), s.givenBack(n)...)
		if len(n.holds) == 0 || n.raised > now || now.Sub(n.stoppedAt) < simLowered || s.strange(n, known) {
			continue
		}
		most, busy := time.Duration(0), false
		for _, h := range known {
			most = max(most, h.asksFor(now))
			if n.inside > 0 { // who enters again inside of a Do asks for the lease of the one around it, from then on
				most = max(most, h.ls.set.Lease)
			}
			busy = busy || h.se.closing || h.gen != h.se.gen || s.pending(h.se, n) > 0
		}
		for _, w := range n.waiters {
			if w.kind == simRead || w.owner != nil && slices.ContainsFunc(known, func(h *simHold) bool { return h.owner == w.owner }) {
				most = max(most, w.lease)
			}
		}
		_, expires := s.server.twin.Look(n.name)
		if left := time.Duration(expires-s.server.twin.Millis()) * time.Millisecond; !busy && left > most+simLate+4*s.line {
			s.fail("a key lives no longer than its handles ask for", "%q lives %v, and the longest that its %d handles ask for is %v", n.name, left, len(known), most)
		}
	}
}

// strange reports whether the server has a field of a name that is none of these.
func (s *sim) strange(n *simName, known []*simHold) bool {
	for _, f := range s.server.twin.Hash(n.name) {
		if f.Name != "mode" && !slices.ContainsFunc(known, func(h *simHold) bool { return h.field == f.Name }) {
			return true
		}
	}
	return false
}

// givenBack lists the handles of a name whose release has no answer.
func (s *sim) givenBack(n *simName) (all []*simHold) {
	for _, se := range s.engines {
		for g, holds := range se.giving {
			if g.n == n {
				all = append(all, holds...)
			}
		}
	}
	return all
}

// simLowered is within what time a key lives no longer than those ask for who remain: a way there and back, and the
// yield points in between.
const simLowered = 100 * time.Millisecond
