package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Locks that linger in the simulation. All rules of plain locks hold for them: exclusion, belief, Close. And nobody waits
// beside a lock that lingers, and it does not linger for ever.

// simLingers is how long locks linger, by the pick of a step; 0: they do not.
//
//nolint:gochecknoglobals // a constant
var simLingers = [8]time.Duration{
	0, time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond,
	MaxLinger, MaxLinger,
}

// simLingerProfile is one seed in sixteen: the others keep what they were.
//
//nolint:gochecknoglobals // a constant
var simLingerProfile = simProfile{"linger", [][]simKind{{simLock}, {simLock}, {simLock, simSpin}}, shapeLinger}

// shapeLinger: the same few names are taken and given back again and again, alone and beside others, with whatever can go
// wrong.
func shapeLinger(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.engines, p.actors, p.nested = 1+r.IntN(3), 1+r.IntN(4), r.IntN(2)*(10+r.IntN(60))
	h.odds = simOdds{doAcquire: 50, doRelease: 45, doStop: 1, doContext: 4, doLook: 2, doDo: 6, doMulti: 4, doPause: 4}
	h.spans = simSpans{10 * time.Microsecond, []time.Duration{2, 20, 300}[r.IntN(3)] * time.Millisecond}
	h.leases = [][]int{{0}, {0, 0, 0, 2}, {0, 0, 0, 2, 3, 5}}[r.IntN(3)]
	h.tries, h.acks, h.limits, h.again, h.sole = 25, r.IntN(3)*5, r.IntN(2)*10, 40, r.IntN(3) > 0
	if r.IntN(3) == 0 {
		p.line = time.Duration(1+r.IntN(30)) * time.Millisecond // then a turn is long
	}
	if r.IntN(2) == 0 {
		p.rate = []int{10, 60, 200}[r.IntN(3)]
		for f := fateSlow; f <= fateTwice; f++ {
			if r.IntN(2) == 0 {
				p.fates = append(p.fates, f)
			}
		}
	}
	if p.force = r.IntN(4) == 0; p.force {
		h.odds[doForce] = 5
	}
	if p.closes = r.IntN(3) == 0; p.closes {
		h.odds[doClose] = 2
	}
	p.crashes, p.blows, p.clocks, p.java = r.IntN(8) == 0, r.IntN(4) == 0, r.IntN(10) == 0, r.IntN(4) == 0
}

// lingers returns the option of a step, if it has one.
func (p *simPlan) lingers(st *simStep) []Option {
	d := simLingers[st.pick]
	if p.profile != simLingerProfile.name || st.kind != simLock || d == 0 {
		return nil
	}
	if set := defaults[0].with([]Option{simLeases[st.lease]}); !set.Watchdog {
		return nil
	}
	return []Option{Linger(d)}
}

// simLingered is how much later than asked for what lingers is on its way back: timers, and yield points.
func (s *sim) simLingered() time.Duration {
	return 25*time.Millisecond + time.Duration(s.yields)*time.Millisecond/3
}

// checkLingering: nobody of an engine waits beside a lock that lingers there, and it is given back in time: from then on
// something of that engine is on its way, or the lock is gone.
func (s *sim) checkLingering() {
	if s.profile != simLingerProfile.name {
		return
	}
	for _, n := range s.names {
		for _, se := range s.engines {
			if !se.running() {
				continue
			}
			if ent := se.eng.shard(n.hash()).names.get(n.hash(), n.name); ent.lingering() != nil && ent.First() != nil {
				s.fail("nobody waits beside what lingers", "%q lingers in engine %d, which has waiters", n.name, se.n)
			}
			if !s.crashes && !s.clocks { // a process that is suspended gives nothing back
				s.checkGivenBack(n, se)
			}
		}
	}
}

// checkGivenBack looks for a field of an engine that nobody has any more, and nothing is on its way for.
func (s *sim) checkGivenBack(n *simName, se *simEngine) {
	since := max(n.leftAt, n.stoppedAt, n.known.shownAt, n.known.leftAt[se])
	mine := func(_ simKind, other *simEngine) bool { return other == se }
	if s.w.Now().Sub(since) < MaxLinger+s.simLingered() || s.uses(n, mine) || s.pending(se, n) > 0 || n.inside > 0 ||
		n.forcing > 0 || slices.Contains(n.known.hidden, se) {
		return
	}
	_, expires := s.server.twin.Look(n.name)
	for _, f := range s.server.twin.Hash(n.name) {
		if strings.HasPrefix(f.Name, se.eng.ID()+":") && !s.revived[f.Name] && expires > s.server.twin.Millis()+simGhostsEnd {
			s.fail("what lingers is given back", "%q: nobody of engine %d has wanted %s for %v", n.name, se.n, f.Name, s.w.Now().Sub(since))
		}
	}
}

// Each rule of lingering, broken on purpose: see TestSimNotices.
//
//nolint:gochecknoglobals // a table
var simLingerSabotages = []simSabotage{
	{"what lingers is given back", "but stays", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.profile = simLingerProfile.name
		h.n.holds, h.n.leftAt, h.n.stoppedAt, h.n.known.shownAt, h.n.known.leftAt = nil, 1, 1, 0, nil
		h.se.giving = nil
		s.checkGivenBack(h.n, h.se)
	})},
	{"nobody waits beside what lingers", "but does", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, func(h *simHold) bool { return h.plain && h.se.running() && h.gen == h.se.gen && !s.givesBack(h.n) })
		if h == nil || h.ls.hold.ent.First() != nil {
			return false
		}
		s.profile = simLingerProfile.name
		h.ls.hold.Linger()
		h.ls.hold.ent.Push(&(&acquireOp{lock: h.ls.handle(), set: h.ls.set}).Waiter)
		s.checkLingering()
		return true
	}},
}
