package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// Each rule of what is told and of how long, broken on purpose: see TestSimNotices.
//
//nolint:gochecknoglobals // a table
var simResultSabotages = []simSabotage{
	{"a release is told what has become of the lock", "that it is given back, and nothing was sent", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		op := newReleaseOp(h.ls.hold)
		op.op.Sink = op
		op.resolve(struct{}{}, nil)
		s.checkReleased(h, &op.Future)
	})},
	{"a release is told what has become of the lock", "that it is lost, and it is not", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		op := newReleaseOp(h.ls.hold)
		op.resolve(struct{}{}, ErrLost)
		s.checkReleased(h, &op.Future)
	})},
	{"what is lost is over", "but has its time", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) { s.checkLoss(h) })},
	{"an Extend is told what has become of the lease", "but that is as it was", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.checkExtended(h, time.Minute, s.w.Now(), nil)
	})},
	{"a ForceRelease is told what it did", "but was never run", []simKind{simLock}, func(s *sim) bool {
		s.checkTaken(s.names[0], simForcer{s.engines[0], s.engines[0].gen}, simRan{}, false, true, nil)
		return true
	}},
	{"events are told once and in order", "but a loss twice", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		h.se.eng.tell(EventLost, h.ls.hold, "")
		h.se.eng.tell(EventLost, h.ls.hold, "")
		s.checkEvents()
	})},
	{"events are told once and in order", "but a grant never", []simKind{simLock}, onHeld(simLock, func(_ *sim, h *simHold) {
		h.se.tells(&Lease{hold: &hold{ent: h.ls.hold.ent}, set: h.ls.set})
	})},
	{"Stats balance", "but a grant is missing", []simKind{simLock}, func(s *sim) bool {
		s.engines[0].tally.grants++
		return true
	}},
	{"an owner holds its handles", "but another one holds them", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		other := *h
		other.owner = NewOwner()
		h.n.holds = append(h.n.holds, &other)
		s.checkHolds()
	})},
	{"a context that is asked for late has ended", "but has not", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) { s.checkEnded(h, ErrLost) })},
	{"Close frees the server", "but a field is there", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) { s.checkFreed(h.se.eng.ID()) })},
	{"a lease lasts as long as it was granted for", "but is lost", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		lost := *h
		ls := &Lease{hold: &hold{ent: h.ls.hold.ent}, set: h.ls.set}
		ls.hold.End(lockstate.Lost)
		lost.ls, lost.keeps = ls, s.w.Now().Add(time.Second)
		s.checkKept(&lost)
	})},
	{"who did not stop is renewed", "but is not", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		h.ls.hold.StopRenewing()
		h.ls.hold.extra = nil
		s.checkRenewing(h)
	})},
	{"who stopped trusts no longer", "but does", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, func(h *simHold) bool {
			return h.plain && h.n.extends == 0 && s.w.Now().Sub(max(h.n.stoppedAt, h.n.leftAt)) > simLowered && !s.givesBack(h.n) && s.unanswered() == 0
		})
		if h == nil {
			return false
		}
		for _, o := range h.n.holds {
			o.most = renew.TrustUntil(s.w.Now(), 0)
		}
		s.checkStopped()
		return true
	}},
	{"who is refused hears how long the holder's lease lasts", "but something else", []simKind{simLock}, func(s *sim) bool {
		s.checkRemaining(s.somebody(simLock), &HeldError{Remaining: time.Hour})
		return true
	}},
	{"a reader joins others within their turn", "but before a writer", []simKind{simRead, simWrite}, onHeld(simRead, func(s *sim, h *simHold) {
		first := s.somebody(simWrite)
		first.n, first.se, first.gen = h.n, h.se, h.gen
		h.n.waiters = append(h.n.waiters, first)
		s.checkSharing(&simWait{who: "somebody", order: first.returned + 1, since: s.w.Now()}, h)
	})},
	{"a reader joins others within their turn", "but long after it", []simKind{simRead, simWrite}, func(s *sim) bool {
		h := s.held(simRead, func(h *simHold) bool { return s.w.Now().Sub(s.born[h.field]) > lockstate.TenureMost+s.travels() })
		if h != nil {
			s.checkSharing(&simWait{who: "somebody", since: s.w.Now()}, h)
		}
		return h != nil
	}},
}
