package engine

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A server that refuses single commands in the simulation, and does nothing else wrong: what passes, so that the engine sends
// it again. What is refused has not run, so everybody can know where he stands, and soon: a Try waits for nobody, and not
// for what its engine sends again and again either.

const (
	// simTriedAgain is within what time a Try is told where nothing goes wrong but refusals. It rests behind what gives
	// the name back for up to 200 ms, asks, and may ask again behind another. Each time it is refused itself it is sent
	// again, after a pause.
	simTriedAgain = time.Second
	// simAsksRefused is how many of 1000 commands are refused that do not give back.
	simAsksRefused = 20
)

// simRefusedProfile is one seed in sixteen: the others keep what they were.
//
//nolint:gochecknoglobals // a constant
var simRefusedProfile = simProfile{"refused", simEveryKind, shapeRefused}

// shapeRefused: who tries, gives back and asks again, beside give-backs that are refused.
func shapeRefused(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.refusals = []int{30, 150, 400}[r.IntN(3)]
	p.actors, p.nested, p.calm = 1+r.IntN(5), r.IntN(2)*(20+r.IntN(60)), 80
	h.odds = simOdds{doAcquire: 50, doRelease: 40, doExtend: 2, doStop: 1, doDo: 2, doMulti: 2, doPause: 8}
	h.spans = simSpans{10 * time.Microsecond, []time.Duration{1, 20, 300}[r.IntN(3)] * time.Millisecond}
	h.tries, h.acks, h.again, h.sole = 40, r.IntN(2)*10, 40, r.IntN(2) == 0
	if p.force = r.IntN(4) == 0; p.force {
		h.odds[doForce] = 5
	}
}

// refuses says with which error a command is refused, if it is.
func (s *sim) refuses(args []string) string {
	script := simScriptNames[scriptArg(args)]
	most := int64(simAsksRefused)
	if strings.HasSuffix(script, "release") || script == "reacquire" {
		most = int64(s.refusals)
	}
	if script == "" || !s.faults || s.w.Int64N(1000) >= most {
		return ""
	}
	s.faultCount++
	text := []string{
		"LOADING Redis is loading the dataset in memory", "CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to no.",
	}[s.w.Int64N(3)]
	for _, key := range simKeysOf(args) {
		if n := s.byKey[key]; n != nil {
			n.known.refusedAt = append(n.known.refusedAt, s.w.Now())
			if script == "reacquire" { // a change of the count that fails goes on for as long as the hold lasts
				n.known.refusedAt = append(n.known.refusedAt, s.w.Now())
			}
		}
	}
	s.story("%s is refused: %q", simArgs(args), text)
	return text
}

// seldomRefused reports whether at most one command of a name was refused lately: what gives it back is then sent again at
// once, and a Try goes behind it, or asks again behind it; not that of a read-write lock.
func (n *simName) seldomRefused(now clock.Instant) bool {
	lately := 0
	for _, at := range n.known.refusedAt {
		if now.Sub(at) < time.Minute {
			lately++
		}
	}
	return lately == 0 || lately == 1 && n.kinds[0].class() == 0
}

// checkTriedBesideRefusals looks at when one who only tried has its result.
func (s *sim) checkTriedBesideRefusals(w *simWait) {
	if took := s.w.Now().Sub(w.since); s.refusals > 0 && w.try && w.owner == nil && !w.acks && took > simTriedAgain {
		s.fail("a Try waits for nobody", "%s tried %q as %s, and was told after %v", w.who, w.n.name, w.kind, took)
	}
}
