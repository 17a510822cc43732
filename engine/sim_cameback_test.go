package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A master that takes over may not have heard of the last releases: what they gave back is there again. Their engine says
// them again.

// simCameBack is within what time what came back is given back, where nothing goes wrong any more: a look at each tick, a
// dial, and a pause after a try that failed.
const simCameBack = 3 * time.Second

// replaysFew reports whether engines keep hardly any release here, so that those who wait have to find what came back.
func (s *sim) replaysFew() bool { return s.seed%8 == 4 }

// cameBack notes the fields that engines had given back and that a failover has brought back.
func (s *sim) cameBack(n *simName) {
	if s.back == nil {
		s.back = make(map[simField]clock.Instant)
	}
	for _, f := range s.server.twin.Hash(n.name) {
		if _, freed := n.freed[f.Name]; freed && s.revived[f.Name] {
			s.back[simField{n, f.Name}] = s.w.Now()
		}
	}
}

// checkCameBack: what came back does not stay until its lease ends, if its engine runs; where hardly any release is sent
// again, if somebody of that engine waits for it.
func (s *sim) checkCameBack() {
	now := s.w.Now()
	for f, since := range s.back {
		if !hasField(s.server.twin.Hash(f.n.name), f.name) {
			delete(s.back, f)
			continue
		}
		since = max(since, s.calmed)
		if s.faults || now.Sub(since) < simCameBack+8*s.line {
			continue
		}
		for _, se := range s.engines {
			if se.running() && strings.HasPrefix(f.name, se.eng.ID()+":") && (!s.replaysFew() || se.waitsFor(f, since)) {
				s.fail("what came back is given back", "%q: engine %d runs, and its field %s, which it had given back, is there again since %v",
					f.n.name, se.n, f.name, time.Duration(since)-time.Hour)
			}
		}
	}
}

// waitsFor reports whether somebody of an engine has waited for long enough for a mutex that came back to it.
func (se *simEngine) waitsFor(f simField, since clock.Instant) bool {
	return resp.MutexFieldOf(se.eng.ID(), f.name) && slices.ContainsFunc(f.n.waiters, func(w *simWait) bool {
		return w.se == se && w.gen == se.gen && !w.settled() && !w.over && !w.try && slices.Contains([]simKind{simLock, simSpin, simFenced}, w.kind) &&
			se.s.w.Now().Sub(max(w.since, since)) > simCameBack+8*se.s.line
	})
}
