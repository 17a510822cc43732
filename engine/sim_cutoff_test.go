package engine

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// One engine that is cut off in the simulation (a network partition), while the others and the server go on: what it sends is lost, or runs and
// its answers are lost. It goes on by itself, until its leases are over; others take what it had, and at a barrier they
// are told that one is missing.

// A simCut is until when an engine is cut off, and how.
type simCut struct {
	until  clock.Instant
	oneWay bool // what it sends arrives
}

// simMostCut is for how long an engine is cut off at most: longer than the leases that most ask for, and than a party at a
// barrier is waited for.
const simMostCut = 15 * time.Second

// simCutOffProfile is one seed in sixteen: the others keep what they were.
//
//nolint:gochecknoglobals // a constant
var simCutOffProfile = simProfile{"cutoff", simEveryKind, shapeCutOff}

// shapeCutOff: one engine at a time is cut off, and nothing else goes wrong. Half of the seeds have barriers, latches and
// semaphores.
func shapeCutOff(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.cutsOff, p.engines, p.actors, p.calm = true, 2+r.IntN(2), 1+r.IntN(3), 60+r.IntN(40)
	p.nested = r.IntN(2) * (20 + r.IntN(60))
	h.spans = simSpans{time.Millisecond, []time.Duration{50, 1000, 4000}[r.IntN(3)] * time.Millisecond}
	h.leases, h.steps = []int{2, 3, 5, 6}, 50
	if p.counts = r.IntN(2) == 0; p.counts {
		h.odds = simOdds{doPermits: r.IntN(30), doLatch: r.IntN(30), doBarrier: 60, doPause: 10}
	}
}

// isCutOff reports whether nothing comes back to an engine.
func (se *simEngine) isCutOff() bool { return se != nil && se.cut.until > se.s.w.Now() }

// cutOff cuts engines off, each for a while, also two at once.
func (s *sim) cutOff() {
	for began := s.w.Now(); ; {
		s.w.Sleep(s.span(20*time.Millisecond, 8*time.Second))
		if s.over || !s.faults || s.w.Now().Sub(began) > simMostFaults {
			return
		}
		se, d, oneWay := s.engines[s.w.Int64N(int64(len(s.engines)))], s.span(50*time.Millisecond, simMostCut), s.w.Int64N(3) == 0
		if one := s.oneWhoWaits(); one != nil { // so that the others miss it
			se, d, oneWay = one, s.span(MinPartyLease, simMostCut), false
		}
		if se.isCutOff() || s.over || !s.faults {
			continue
		}
		s.faultCount++
		se.cut = simCut{until: s.w.Now().Add(d), oneWay: oneWay}
		s.story("engine %d is cut off for %v (one way: %v)", se.n, d, oneWay)
		for _, m := range s.server.subs {
			if m.proc == se.proc {
				m.cut(d)
			}
		}
	}
}

// simMissed is how long after its time at most an engine is missed at a barrier: the others look every second, and what
// they sent when they were cut off themselves is sent again after 2.5 s.
const simMissed = 2500 * time.Millisecond

// heardOf notes which engines the server has just heard of at a barrier: until when each is waited for has changed.
func (b *simBarrier) heardOf(text string, now clock.Instant) {
	for engine, til := range twin.BarrierEngines(text) {
		if b.heard[engine].til != til {
			b.heard[engine] = simWord{til, now}
		}
	}
}

// A simWord is when an engine was last heard of at a barrier, and until when it is waited for there.
type simWord struct {
	til int64
	at  clock.Instant
}

// checkMissed: where somebody waits who gets through, an engine that is not heard of any more has left.
func (c *simCounted) checkMissed(b *simBarrier, w *simParty) {
	now := c.s.w.Now()
	soon := simMissed + 8*c.s.line
	late := MinPartyLease + soon
	if b.broken || c.excused || !c.s.onlyCutOff() || w.over || w.se.closing || now.Sub(w.since) < soon ||
		now.Sub(w.se.cut.until) < late || b.of[b.ids[w.op]] != b.generation {
		return
	}
	for party, of := range b.of {
		engine, _, _ := strings.Cut(party, ":")
		if of == b.generation && engine != w.se.eng.id && now.Sub(b.heard[engine].at) > late {
			c.s.fail("who is not heard of is missed", "%s waits at %q for %v; %s was last heard of %v ago", w.who, b.name, now.Sub(w.since), party,
				now.Sub(b.heard[engine].at))
		}
	}
}

// onlyCutOff reports whether engines are cut off in this run, and nothing else goes wrong.
func (s *sim) onlyCutOff() bool {
	return s.cutsOff && s.rate == 0 && s.refusals == 0 && s.outage == 0 && !s.crashes && !s.blows && !s.clocks && !s.closes
}

// oneWhoWaits waits for a while, every other time, until engines wait for each other at a barrier, and returns one of
// them.
func (s *sim) oneWhoWaits() *simEngine {
	if s.counted == nil || s.w.Int64N(2) == 0 {
		return nil
	}
	for range 200 {
		for _, b := range s.counted.barriers {
			for _, w := range b.waiters {
				if w.se != b.waiters[0].se && b.of[b.ids[w.op]] == b.generation {
					return w.se
				}
			}
		}
		s.w.Sleep(20 * time.Millisecond)
	}
	return nil
}

// endCuts has everything get through again.
func (s *sim) endCuts() {
	if !s.cutsOff {
		return
	}
	for _, se := range s.engines {
		se.cut.until = min(se.cut.until, s.w.Now())
	}
	for _, m := range s.server.subs {
		m.back()
	}
}
