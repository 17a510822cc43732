package engine

import (
	"math/rand/v2"
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
	{"a latch lets nobody in early", "one is let in by a latch that is closed", onLatch(func(s *sim, l *simLatch) {
		s.awaited(l, &simAwait{who: "nobody", se: s.engines[0], tally: newTally(), since: s.w.Now()}, 0, nil)
	})},
	{"a latch that is counted down is open", "one is told that it is gone", onLatch(func(s *sim, l *simLatch) {
		s.awaited(l, &simAwait{who: "nobody", se: s.engines[0], tally: newTally(), since: s.w.Now()}, 0, ErrLatchGone)
	})},
	{"a latch lets everybody in", "one waits since before it was opened", onLatch(func(s *sim, l *simLatch) {
		l.opened = s.w.Now().Add(-simSoon - time.Second)
		l.waiters = append(l.waiters, &simAwait{who: "nobody", se: s.engines[0], gen: s.engines[0].gen, since: l.opened.Add(-simSoon)})
		s.counted.checkLatches()
	})},
	{"a request counts once", "one counts twice", onLatch(func(s *sim, l *simLatch) {
		for range 2 {
			s.server.twin.Do([]string{"SET", l.name, "9"})
			s.counted.look(l, "")
			s.server.twin.Do([]string{"SET", l.name, "8"})
			s.counted.look(l, "somebody:1:1")
		}
	})},
	{"who asks as another kind is refused", "a lock is granted", func(s *sim, sem *simSem) bool {
		s.judgeOtherKind(sem.name, "a lock", false, nil)
		return true
	}},
	{"who asks as another kind is refused", "it is told of a holder", func(s *sim, sem *simSem) bool {
		s.judgeOtherKind(sem.name, "a lock", false, ErrHeld)
		return true
	}},
	{"who asks as another kind changes nothing", "the lock is another one's", func(s *sim, _ *simSem) bool {
		s.server.twin.Do([]string{"HSET", "w2", "somebody", "1"})
		s.checkUntouched("w2", "its holder")
		return true
	}},
	{"who asks as another kind changes nothing", "a note is left", func(s *sim, _ *simSem) bool {
		s.server.twin.Do([]string{"HSET", "w2", "its holder", "1"})
		s.server.twin.Do([]string{"HSET", "{w2}:counted_requests", "somebody", "1 1"})
		s.checkUntouched("w2", "its holder")
		return true
	}},
	{"a count is above zero", "it is below", onLatch(func(s *sim, l *simLatch) {
		s.server.twin.Do([]string{"SET", l.name, "-1"})
		s.counted.look(l, "")
	})},
}

// onLatch waits until a latch is closed, and has been for a moment.
func onLatch(do func(*sim, *simLatch)) func(*sim, *simSem) bool {
	return func(s *sim, _ *simSem) bool {
		for _, l := range s.counted.latches {
			if s.counted.look(l, ""); l.count > 0 && l.openAt < s.w.Now() {
				do(s, l)
				return true
			}
		}
		return false
	}
}

func TestSimNoticesWhatIsCounted(t *testing.T) {
	for _, c := range simCountedSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			noticed(t, c.rule, "counted", func(p *simPlan) {
				p.habit.odds[doLatch] = 50
				p.steps = p.drawSteps(rand.New(rand.NewPCG(p.seed, 7)), 300) //nolint:gosec // it must repeat
			}, func(s *sim) bool { return c.now(s, s.counted.sems[1]) })
		})
	}
}

// noticed breaks a rule in a run of a profile in which nothing goes wrong by itself, and wants that to be noticed. now
// does so at its moment, and says whether it was there.
func noticed(t *testing.T, rule, profile string, shape func(*simPlan), now func(*sim) bool) {
	t.Helper()
	for seed := uint64(1); seed < 30; seed++ { // until one has the moment
		p := drawProfile(seed, 300, nil, profile)
		shape(&p)
		p.rate, p.fates, p.crashes, p.blows, p.clocks, p.closes = 0, nil, false, false, false, false
		s := newSim(p, nil)
		done := false
		s.w.In(nil, "sabotage", func() {
			for !done && s.ended < len(p.steps) {
				s.w.Sleep(500 * time.Microsecond)
				done = now(s)
			}
		})
		err := s.run()
		s.w.Close()
		if done {
			require.Equal(t, rule, ruleOf(err), "seed %d: %v", seed, err)
			return
		}
		require.NoError(t, err, "seed %d", seed)
	}
	t.Fatal("no run had the moment")
}
