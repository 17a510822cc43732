package engine

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// checkTrust: where no reader of a hold wants renewals any more, it is trusted for no longer than what was left to the last of
// them when it stopped; if nothing was left, for the shortest lease from when the last who had it renewed began to leave, or
// who stopped later. No command lowers such a hold, so nothing has to be waited for.
func (s *sim) checkTrust() {
	if s.crashes { // a process that was suspended is just about to
		return
	}
	now := s.w.Now()
	for _, n := range s.names {
		for _, h := range n.holds {
			if h.kind != simRead || !h.ls.set.Watchdog || !h.believes() {
				continue
			}
			ends := n.endOf(h)
			if ends == 0 {
				continue
			}
			most := max(ends, max(n.stoppedAt, n.leftAt).Add(MinFixedLease)).Add(simTold)
			if until := h.ls.hold.Deadline(); until > most {
				s.fail("who stopped is trusted for its own lease", "%q: hold %d of %s is trusted for %v, that is %v too long", n.name, h.id, h.who,
					until.Sub(now).Round(time.Millisecond), until.Sub(most).Round(time.Millisecond))
			}
		}
	}
}

// endOf is when a caller's hold ends because nobody wants it renewed: with the last of its handles. 0: somebody does, or may.
func (n *simName) endOf(h *simHold) (ends clock.Instant) {
	mine := int32(0)
	for _, o := range n.holds {
		if o.ls.hold != h.ls.hold {
			continue
		}
		if o.endsAt == 0 {
			return 0
		}
		mine++
		ends = max(ends, o.endsAt)
	}
	if mine != h.ls.hold.Count() { // one was just let in and is not told yet, or is just leaving
		return 0
	}
	return ends
}

// watchEnd: where a lease is over by its deadline, its context has ended, however short the lease is.
func (s *sim) watchEnd(h *simHold) {
	if s.yields == 0 && !s.crashes { // else who is to end it may be held up
		ctx := h.ls.Context()
		s.w.Outside(h.ls.hold.Deadline(), func() { s.checkEnd(ctx, h) })
	}
}

func (s *sim) checkEnd(ctx context.Context, h *simHold) {
	if h.se.running() && h.gen == h.se.gen && h.ls.state.Load() == leaseActive && h.ls.Lost() && !ended(ctx) {
		s.fail("a context ends by its deadline", "%q: that of hold %d of %s, whose lease is %v, lives on", h.n.name, h.id, h.who, h.ls.set.Lease)
	}
}

// ended looks whether a context has ended. Err of a lease's would look at the clock.
func ended(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
