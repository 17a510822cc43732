package engine

import (
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
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
const simMostCut = 9 * time.Second

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
		se, d := s.engines[s.w.Int64N(int64(len(s.engines)))], s.span(50*time.Millisecond, simMostCut)
		if se.isCutOff() {
			continue
		}
		s.faultCount++
		se.cut = simCut{until: s.w.Now().Add(d), oneWay: s.w.Int64N(3) == 0}
		s.story("engine %d is cut off for %v (one way: %v)", se.n, d, se.cut.oneWay)
		for _, m := range s.server.subs {
			if m.proc == se.proc {
				m.cut(d)
			}
		}
	}
}

// endCuts has everything get through again.
func (s *sim) endCuts() {
	if !s.cutsOff {
		return
	}
	for _, se := range s.engines {
		se.cut = simCut{}
	}
	for _, m := range s.server.subs {
		m.back()
	}
}
