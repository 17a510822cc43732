package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// The rules of how long: a lease lasts as long as it was granted for, one that is not renewed any more no longer than that,
// and who is refused hears how long the holder's lasts. They draw nothing, and nothing of theirs lets others go first.

const (
	// simEarly is how much earlier than its deadline a loss is told at most.
	simEarly = 75 * time.Millisecond
	// simStopped is by how much the deadline of what is not renewed may be later than what was trusted when that was
	// said: no key is lowered to less than this.
	simStopped = MinFixedLease
	// simNoteLasts is how long a writer's note lasts.
	simNoteLasts = 2500 * time.Millisecond
	// simHeard is from how long ago at most what the server has said may be told to who is refused: a poll is due
	// after a second, a fair lock's after 1.2 s, and its answer travels.
	simHeard = 1500 * time.Millisecond
)

// travels is how long ago, at most, what is just told may have been sent: the way there and back, with what seldom
// delays them, and the yield points in between.
func (s *sim) travels() time.Duration {
	return 2*(s.line+31*time.Millisecond) + time.Duration(s.yields)*time.Millisecond/3
}

// keptUntil is until when a lease that was just granted is kept at least, where nothing goes wrong: a fixed one until
// it ends, and one with a MaxHold until that, and for what the last renewal before left of the lease. The others are
// renewed, and never lost.
func (s *sim) keptUntil(w *simWait, h *simHold, maxHold bool) clock.Instant {
	asked := max(w.since, s.born[h.field]).Add(-s.travels())
	set := h.ls.set
	switch {
	case !set.Watchdog:
		return renew.TrustUntil(asked, set.Lease).Add(-simEarly)
	case !maxHold:
		return 0
	case s.line > 0: // renewals wait for each other's round trips
		return asked.Add(set.MaxHold)
	default:
		return asked.Add(set.MaxHold + set.Lease*6/10 - 2*simEarly)
	}
}

// checkKept: a lease lasts as long as it was granted for, or extended to, where nothing goes wrong.
func (s *sim) checkKept(h *simHold) {
	if now := s.w.Now(); now < h.keeps && h.ls.Lost() && s.healthy() && !h.excused && h.gen == h.se.gen && !h.n.gone(h.se) {
		s.fail("a lease lasts as long as it was granted for", "hold %d of %s on %q is lost, and was to last for %v more", h.id, h.who, h.n.name, h.keeps.Sub(now))
	}
}

// stops notes until when a handle is trusted whose renewals are about to be stopped: at least, and at most.
func (h *simHold) stops(now clock.Instant) {
	set, deadline := h.ls.set, h.ls.hold.Deadline()
	if h.stopped {
		return
	}
	own := renew.TrustUntil(now, set.Lease)
	h.most = max(deadline, own)
	if least := min(deadline, own).Add(-simEarly); set.Watchdog && (h.keeps == 0 || least < h.keeps) { // a fixed one is as it was
		h.keeps = least
	}
}

// checkRenewing: what its holder wants renewed is renewed, whoever had it before. Where a MaxHold of another handle is just
// over, that is about to be said.
func (s *sim) checkRenewing(h *simHold) {
	if hold := h.ls.hold; h.plain && h.believes() && hold.allCompatible() && !hold.Renewing() && hold.Held() {
		s.fail("who did not stop is renewed", "%q: hold %d of %s is not", h.n.name, h.id, h.who)
	}
}

// checkStopped: what nobody wants to be renewed is trusted for no longer than it was when that was said.
func (s *sim) checkStopped() {
	if !s.healthy() {
		return
	}
	for _, n := range s.names {
		if len(n.holds) == 0 || len(n.waiters) > 0 || n.extends > 0 || n.raised > s.w.Now() || n.inside > 0 || s.givesBack(n) || s.w.Now().Sub(max(n.stoppedAt, n.leftAt)) < simLowered || n.asked() {
			continue
		}
		for _, h := range n.holds {
			if most := n.trustedMost(h.field); most != 0 && h.believes() && h.gen == h.se.gen && h.ls.hold.Deadline().Sub(most) > simStopped {
				s.fail("who stopped trusts no longer", "%q: hold %d of %s is trusted for %v more than when it stopped", n.name, h.id, h.who, h.ls.hold.Deadline().Sub(most))
			}
		}
	}
}

// trustedMost is until when a field may be trusted at most if all its handles have stopped; 0: they have not.
func (n *simName) trustedMost(field string) (most clock.Instant) {
	for _, h := range n.holds {
		if h.field == field {
			if h.most == 0 {
				return 0
			}
			most = max(most, h.most)
		}
	}
	return most
}

// A simLife is what a key's expiry was from some moment on; 0: there was no key.
type simLife struct{ at, ends clock.Instant }

// lives notes a key's expiry.
func (s *sim) lives(n *simName, expires int64) {
	if !s.smooth() {
		return
	}
	now, ends := s.w.Now(), clock.Instant(0)
	if expires != 0 {
		ends = now.Add(time.Duration(expires-s.server.twin.Millis()) * time.Millisecond)
	}
	last := len(n.lives) - 1
	if last >= 0 && (n.lives[last].ends == ends || n.lives[last].ends-ends < clock.Instant(2*time.Millisecond) && ends-n.lives[last].ends < clock.Instant(2*time.Millisecond)) {
		return
	}
	n.lives = append(n.lives, simLife{now, ends})
}

// checkRemaining: who is refused is told how long the holder's lease lasts, as the server said it lately, or as the holder here
// trusts it.
func (s *sim) checkRemaining(w *simWait, err error) {
	held := (*HeldError)(nil)
	if !errors.As(err, &held) || !s.smooth() || held.Remaining <= 0 || s.mixed {
		return
	}
	if slices.ContainsFunc(w.n.holds, func(h *simHold) bool { return h.excused && h.se == w.se }) { // its engine has not heard yet that it was taken
		return
	}
	now := s.w.Now()
	told, slack := now.Add(held.Remaining), s.travels()
	least, most := clock.Instant(1<<62), clock.Instant(0)
	switch { // who waits may be in the way, too
	case w.kind == simFair:
		least, most = 0, now.Add(simPlace+slack)
	case w.kind.class() == 1:
		least, most = 0, now.Add(simNoteLasts+slack)
	case s.pending(w.se, w.n) > 0: // its own engine may be lowering it, and trusts no longer than that already
		least = 0
	}
	for i := len(w.n.lives) - 1; i >= 0; i-- {
		l := w.n.lives[i]
		least, most = min(least, l.ends.Add(-renew.Margin(max(l.ends.Sub(l.at), 0))-slack)), max(most, l.ends.Add(slack))
		if least <= told && told <= most {
			return
		}
		if now.Sub(l.at) > simHeard+slack+4*s.line {
			break
		}
	}
	s.fail("who is refused hears how long the holder's lease lasts", "%s asked for %q as %s, and was told %v; it lives between %v and %v", w.who, w.n.name, w.kind, held.Remaining, least.Sub(now), most.Sub(now))
}

// checkSharing: a reader that joins others here without asking the server does so within their turn, and never before a
// writer here that has asked before.
func (s *sim) checkSharing(w *simWait, h *simHold) {
	of := simField{h.n, h.field}
	shared := s.told[of]
	s.told[of] = true
	if h.kind != simRead || !shared || w.live || w.had || w.crowded || h.n.gone(h.se) || h.gen != h.se.gen {
		return
	}
	for _, other := range h.n.waiters {
		if other.kind == simWrite && other.se == h.se && other.gen == h.gen && other.waits() && other.returned < w.order && other.owner == nil && !other.try {
			s.fail("a reader joins others within their turn", "%q: %s reads as %s, and %s has waited to write since before it asked", h.n.name, w.who, h.field, other.who)
		}
	}
	if born := s.born[h.field]; s.smooth() && w.since.Sub(born) > lockstate.TenureMost+s.travels() {
		s.fail("a reader joins others within their turn", "%q: %s reads as %s without having asked the server, which has that for %v", h.n.name, w.who, h.field, w.since.Sub(born))
	}
}
