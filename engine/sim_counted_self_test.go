package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simCountedSabotages break each rule about what is counted, on a run in which nothing goes wrong.
//
//nolint:gochecknoglobals // a table
var simCountedSabotages = []struct {
	rule, how string
	now       func(s *sim, sem *simSem) bool // false: not yet
}{
	{"permits are never above the limit", "one is added", func(s *sim, sem *simSem) bool {
		s.server.twin.Do([]string{"INCRBY", sem.name, "1"})
		s.counted.check(sem)
		return true
	}},
	{"permits are never above the limit", "one is granted that nobody has taken", func(s *sim, sem *simSem) bool {
		if s.counted.free(sem)+sem.held < sem.limit {
			return false
		}
		s.took(sem, &simTaker{who: "nobody", se: s.engines[0], tally: newTally(), n: 1}, 0, nil)
		return true
	}},
	{"permits are a number", "they are a text", func(s *sim, sem *simSem) bool {
		s.server.twin.Do([]string{"SET", sem.name, "x"})
		s.counted.check(sem)
		return true
	}},
	{"no permit is lost", "one is taken away", func(s *sim, sem *simSem) bool {
		if s.counted.free(sem) == 0 {
			return false
		}
		s.server.twin.Do([]string{"DECRBY", sem.name, "1"})
		return true
	}},
	{"permits that are free are granted", "one waits that nobody asks for", func(s *sim, sem *simSem) bool {
		if s.counted.free(sem) == 0 {
			return false
		}
		since := s.w.Now().Add(-simSoon - time.Second)
		sem.takers = append([]*simTaker{{who: "nobody", se: s.engines[0], gen: s.engines[0].gen, n: 1, could: since}}, sem.takers...)
		s.counted.checkWaiting()
		return true
	}},
	{"MaxWait ends", "a result comes late", func(s *sim, sem *simSem) bool {
		s.w.Sleep(100 * time.Millisecond)
		s.took(sem, &simTaker{who: "nobody", se: s.engines[0], tally: newTally(), n: 1}, 5*time.Millisecond, ErrNoPermits)
		return true
	}},
}

func TestSimNoticesWhatIsCounted(t *testing.T) {
	for _, c := range simCountedSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed < 30; seed++ { // until one has the moment
				p := drawProfile(seed, 300, nil, "counted")
				p.rate, p.fates, p.crashes, p.blows, p.clocks, p.closes = 0, nil, false, false, false, false
				s := newSim(p, nil)
				done := false
				s.w.In(nil, "sabotage", func() {
					for !done && s.ended < len(p.steps) {
						s.w.Sleep(500 * time.Microsecond)
						done = c.now(s, s.counted.sems[1])
					}
				})
				err := s.run()
				s.w.Close()
				if done {
					require.Equal(t, c.rule, ruleOf(err), "seed %d: %v", seed, err)
					return
				}
				require.NoError(t, err, "seed %d", seed)
			}
			t.Fatal("no run had the moment")
		})
	}
}
