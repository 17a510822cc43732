package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// simLeasedSabotages break each rule about leased permits, on a run in which nothing goes wrong.
//
//nolint:gochecknoglobals // a table
var simLeasedSabotages = []struct {
	rule, how string
	now       func(s *sim, sem *simLeasedSem) bool // false: not yet
}{
	{"leased permits are neither made nor lost", "one is added", func(s *sim, sem *simLeasedSem) bool {
		s.server.twin.Do([]string{"INCRBY", sem.name, "1"})
		s.leased.check(sem)
		return true
	}},
	{"leased permits are neither made nor lost", "one is taken away", func(s *sim, sem *simLeasedSem) bool {
		p := sem.believer()
		if p == nil {
			return false
		}
		s.server.twin.Do([]string{"ZREM", slot.PermitTimeouts(sem.name), p.ids()[0]})
		s.leased.check(sem)
		return true
	}},
	{"who believes in a permit has it", "it is given back by others", func(s *sim, sem *simLeasedSem) bool {
		p := sem.believer()
		if p == nil {
			return false
		}
		s.server.twin.Do([]string{"ZREM", slot.PermitTimeouts(sem.name), p.ids()[0]})
		s.server.twin.Do([]string{"INCRBY", sem.name, "1"})
		s.leased.check(sem)
		return true
	}},
	{"a permit is one caller's", "another one has it", func(s *sim, sem *simLeasedSem) bool {
		p := sem.believer()
		if p == nil {
			return false
		}
		sem.held = append(sem.held, &simPermit{who: "nobody", p: p.p, se: p.se, gen: p.gen})
		s.leased.checkBelief(sem)
		return true
	}},
	{"who wants permits gets as many", "there is one too few", func(s *sim, sem *simLeasedSem) bool {
		p := sem.believer()
		if p == nil {
			return false
		}
		s.tookLeased(sem, &simTaker{who: "nobody", se: p.se, gen: p.gen, tally: newTally(), n: len(p.ids()) + 1}, &simStep{}, p.p, nil)
		return true
	}},
	{"permits are a number", "they are a text", func(s *sim, sem *simLeasedSem) bool {
		s.server.twin.Do([]string{"SET", sem.name, "x"})
		s.leased.check(sem)
		return true
	}},
	{"permits that are free are granted", "one waits that nobody asks for", func(s *sim, sem *simLeasedSem) bool {
		if free, _, _ := s.leased.free(sem); free == 0 {
			return false
		}
		since := s.w.Now().Add(-simSoon - time.Second)
		sem.takers = append([]*simTaker{{who: "nobody", se: s.engines[0], gen: s.engines[0].gen, n: 1, could: since}}, sem.takers...)
		s.leased.checkWaiting()
		return true
	}},
	{"what was leased is free in the end", "somebody else leases one", func(s *sim, sem *simLeasedSem) bool {
		if s.stepped < s.size() || len(sem.held)+len(sem.takers) > 0 { // whoever wants all of them would wait for ever
			return false
		}
		s.server.twin.Do([]string{"DECRBY", sem.name, "1"})
		s.server.twin.Do([]string{"ZADD", slot.PermitTimeouts(sem.name), "922337203685477", "somebody else's "})
		return true
	}},
	{"MaxWait ends", "a result comes late", func(s *sim, sem *simLeasedSem) bool {
		s.w.Sleep(100 * time.Millisecond)
		s.tookLeased(sem, &simTaker{who: "nobody", se: s.engines[0], tally: newTally(), n: 1}, &simStep{wait: 2}, nil, ErrNoPermits)
		return true
	}},
}

// believer is somebody who has permits.
func (sem *simLeasedSem) believer() *simPermit {
	for _, p := range sem.held {
		if p.believes() {
			return p
		}
	}
	return nil
}

func TestSimNoticesWhatIsLeased(t *testing.T) {
	for _, c := range simLeasedSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			noticed(t, c.rule, "leased", func(*simPlan) {}, func(s *sim) bool { return c.now(s, s.leased.sems[1]) })
		})
	}
}
