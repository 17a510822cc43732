package engine

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// Each rule of waiting, broken on purpose: see TestSimNotices.
//
//nolint:gochecknoglobals // a table
var simRuleSabotages = []simSabotage{
	{"a Try of a free lock is granted", "but is refused", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		w.try, w.free, w.ask = true, true, w.n.known.asks
		s.checkRefusal(w, &simStep{}, &HeldError{})
		return true
	}},
	{"a Try waits for nobody", "but is told late", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		w.try, w.since = true, s.w.Now().Add(-simTried-1)
		s.checkRefusal(w, &simStep{}, &HeldError{})
		return true
	}},
	{"a Try waits for nobody", "but is told late beside refusals", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		w.try, w.since, s.refusals = true, s.w.Now().Add(-simTriedAgain-1), 1
		s.checkRefusal(w, &simStep{}, &HeldError{})
		return true
	}},
	{"a Try of a free lock is granted", "but is refused beside one refusal", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		w.try, w.free, w.ask, s.refusals, w.n.known.refusedAt = true, true, w.n.known.asks, 1, []clock.Instant{s.w.Now()}
		s.checkRefusal(w, &simStep{}, &HeldError{})
		return true
	}},
	{"a Try does not barge", "but overtakes", []simKind{simLock}, func(s *sim) bool {
		w, first := s.somebody(simLock), s.somebody(simLock)
		w.n.waiters = append(w.n.waiters, first)
		w.try, w.order = true, first.returned+1
		s.checkBarging(w)
		return true
	}},
	{"a context ends by its deadline", "but lives on", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, nil)
		if h == nil || !h.se.running() || h.gen != h.se.gen {
			return false
		}
		lost := *h
		lost.ls = &Lease{hold: &hold{ent: h.ls.hold.ent}, set: h.ls.set}
		s.checkEnd(context.Background(), &lost)
		return true
	}},
	{"who stopped is trusted for its own lease", "but for another's", []simKind{simRead}, func(s *sim) bool {
		h := s.held(simRead, func(h *simHold) bool { return h.plain && h.ls.hold.Count() == 1 })
		if h == nil {
			return false
		}
		h.endsAt = s.w.Now()
		s.checkTrust()
		return true
	}},
	{"ErrWrongKind is for who asked as the wrong kind", "but goes to another", []simKind{simLock}, func(s *sim) bool {
		s.checkRefusal(s.somebody(simLock), &simStep{}, ErrWrongKind)
		return true
	}},
	{"a holder is told to have what was asked for", "but to have it for ever", []simKind{simLock}, func(s *sim) bool {
		s.checkRefusal(s.somebody(simLock), &simStep{}, &HeldError{Remaining: -1})
		return true
	}},
	{"MaxWait claims no holder that is not there", "but does", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		w.alone, w.since = true, s.w.Now()
		if w.n.freeAt == 0 {
			return false
		}
		s.checkRefusal(w, &simStep{wait: 3}, &HeldError{Remaining: time.Second})
		return true
	}},
	{"MaxWait tells of the holder", "but says that nobody knows", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, func(h *simHold) bool { return s.w.Now().Sub(h.since) > simAnswered })
		if h == nil {
			return false
		}
		w, elsewhere := s.somebody(simLock), *h.se
		w.n, w.se, w.gen = h.n, &elsewhere, h.gen
		s.checkRefusal(w, &simStep{wait: 3}, &UnknownError{cause: errNoAnswer})
		return true
	}},
	{"a writer that asked to read goes on reading", "but waits for the next writer", []simKind{simRead, simWrite}, func(s *sim) bool {
		r := s.somebody(simRead)
		r.goesOn, r.owner = true, NewOwner()
		r.n.waiters = append(r.n.waiters, r)
		s.checkGoingOn(s.somebody(simWrite))
		return true
	}},
	{"readers wait behind a writer that waits", "but overtake it", []simKind{simRead, simWrite}, func(s *sim) bool {
		w := s.somebody(simWrite)
		if w.n.freeAt == 0 || len(w.n.waiters) > 0 {
			return false
		}
		s.server.twin.Do([]string{"HSET", w.n.name, "mode", "read", "x:1", "1"})
		w.n.waiters = append(w.n.waiters, w)
		w.n.known.noted = map[*simEngine]clock.Instant{w.se: s.w.Now()}
		args := []string{"EVALSHA", "", "1", w.n.name, "2000", "x:1", "0", "0", ""}
		s.afterReading(w.n, 0, args, simBefore{script: "read", fieldsOf: make([][]twin.Field, 1)})
		return true
	}},
	{"who waits hears of a release", "but has to poll", []simKind{simLock}, func(s *sim) bool {
		w := s.somebody(simLock)
		if w.n.freeAt == 0 {
			return false
		}
		w.n.waiters, w.n.freeAt, w.n.known.releasedAt = append(w.n.waiters, w), 1, 1
		s.checkWoken()
		return true
	}},
	{"readers wait for a writer only", "but for nobody", []simKind{simRead, simWrite}, func(s *sim) bool {
		r := s.somebody(simRead)
		if s.uses(r.n, func(k simKind, _ *simEngine) bool { return k != simRead }) || mode(s.server.twin.Hash(r.n.name)) == "write" {
			return false
		}
		r.n.waiters, r.n.known.writerAt = append(r.n.waiters, r), 1
		s.checkWoken()
		return true
	}},
	{"no note stays behind its writer", "but does", []simKind{simRead, simWrite}, func(s *sim) bool {
		n, se := s.names[0], s.engines[0]
		if s.pending(se, n) > 0 || s.uses(n, func(k simKind, _ *simEngine) bool { return k == simWrite }) || len(n.known.hidden) > 0 {
			return false
		}
		n.known.crowd, n.known.wroteAt = nil, 0
		s.server.twin.Do([]string{"SET", "{" + n.name + "}:rwlock_writer", se.eng.ID(), "PX", "2500"})
		s.checkNote(n)
		return true
	}},
	{"a ForceRelease without an answer is sent again", "but is not", []simKind{simLock}, func(s *sim) bool {
		se := s.engines[0]
		s.checkForceError(se, se.gen, s.w.Now(), &UnknownError{})
		return true
	}},
	{"what a ForceRelease took is given back", "but stays", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.faults = false
		s.forced = append(s.forced, &simForced{n: h.n, se: h.se, gen: h.gen, field: h.field, doneAt: s.w.Now().Add(-simRegained)})
		s.quietAt = 1
		s.checkRegained()
	})},
}

// somebody is a caller of the first engine that waits for the first name of a kind.
func (s *sim) somebody(kind simKind) *simWait {
	se := s.engines[0]
	return &simWait{
		who: "somebody", kind: kind, n: s.names[0], se: se, gen: se.gen, since: clock.Instant(time.Hour), order: 1, returned: 2, f: &Future[*Lease]{},
	}
}
