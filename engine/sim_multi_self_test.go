package engine

import "context"

// simMultiSabotages break the rules of several locks at once.
//
//nolint:gochecknoglobals // a table
var simMultiSabotages = []simSabotage{
	{"all or none", "one of several is missing", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		delete(m.live, h.ls)
		s.judgeMulti(m, f)
	})},
	{"all or none", "an acquire goes on", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		m.asked = 1
		s.judgeMulti(m, f)
	})},
	{"a multi that failed leaves nothing", "but has a lock", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		f.err = context.Canceled
		s.judgeMulti(m, f)
	})},
	{"a multi that failed leaves nothing", "a Try whose release has no answer", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		f.op.(*multiOp).try = true
		delete(m.live, h.ls)
		m.giving[h.ls], f.err = true, ErrHeld
		s.judgeMulti(m, f)
	})},
	{"a fixed lease of several is nearly all there", "but is not", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, func(h *simHold) bool {
			set := h.ls.set
			return !set.Watchdog && h.ls.hold.Deadline().Sub(s.w.Now()) < set.Lease/2-simEarly-s.travels() && s.healthy()
		})
		if h != nil {
			s.judgeMulti(s.multiOf(h))
		}
		return h != nil
	}},
	{"what is kept is extended one at a time", "but one has no answer", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, _ := s.multiOf(h)
		m.asked = 1
		h.extends++
		s.checkKeeping(m, h)
	})},
	{"what is kept is extended one at a time", "but is lost", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, _ := s.multiOf(h)
		m.asked = 1
		h.ls.state.Store(leaseLost)
		s.checkKeeping(m, h)
	})},
	{"several locks are lost as a whole", "one is lost", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		h.ls.state.Store(leaseLost)
		f.value.state.Store(leaseReleased)
		s.checkWhole(m, f.value, nil)
	})},
	{"several locks are lost as a whole", "their context goes on", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		m, f := s.multiOf(h)
		h.ls.state.Store(leaseLost)
		s.checkWhole(m, f.value, func() error { return nil })
	})},
}

// multiOf makes a multi of one lock that was granted.
func (s *sim) multiOf(h *simHold) (*simMulti, *Future[*MultiLease]) {
	m := &simMulti{who: h.who, live: map[*Lease]*simHold{h.ls: h}, giving: make(map[*Lease]bool)}
	op := &multiOp{joint: joint{lead: h.se.eng}}
	op.Future.op = op
	op.resolve(&MultiLease{lead: h.se.eng, leases: []*Lease{h.ls}}, nil)
	return m, &op.Future
}
