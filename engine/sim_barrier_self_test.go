package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simBarrierSabotages break each rule about barriers, on a run in which nothing goes wrong.
//
//nolint:gochecknoglobals // a table
var simBarrierSabotages = []struct {
	rule, how string
	now       func(s *sim, b *simBarrier)
}{
	{"an arrival counts once", "one is of two generations", func(s *sim, b *simBarrier) {
		stands(s, b, "barrier 5 3 1 0 0 \ne 1 9 7=5")
		stands(s, b, "barrier 6 3 1 0 0 \ne 2 9 7=6")
	}},
	{"a generation has so many parties", "there are more", func(s *sim, b *simBarrier) {
		stands(s, b, "barrier 6 3 0 0 0 \ne 1 9 1=5 2=5 3=5 4=5")
	}},
	{"a generation ends when all have come", "it ends before", func(s *sim, b *simBarrier) {
		stands(s, b, "barrier 5 3 1 0 0 \ne 1 9 7=5")
		stands(s, b, "barrier 6 3 0 0 0 \ne 1 9 7=5")
	}},
	{"a barrier is broken by who leaves", "nobody leaves", func(s *sim, b *simBarrier) {
		b.leaves = 0
		stands(s, b, "barrier 5 3 0 1 0 \n")
	}},
	{"who has come is counted", "one is not", func(s *sim, b *simBarrier) {
		stands(s, b, "barrier 5 3 0 0 0 \ne 1 9 7=5")
	}},
	{"nobody passes a barrier early", "one passes that has not come", func(s *sim, b *simBarrier) {
		s.met(b, nobodyAt(s), 0, nil)
	}},
	{"nobody passes a barrier early", "one passes before the others have come", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		b.ids[w.op] = "e:7"
		stands(s, b, "barrier 5 3 1 0 0 \ne 1 9 7=5")
		s.met(b, w, 0, nil)
	}},
	{"all pass, or all are told", "one is told that a complete generation is broken", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		b.ids[w.op] = "e:7"
		stands(s, b, "barrier 6 3 0 0 0 \ne 1 9 7=5 8=5 9=5")
		s.met(b, w, 0, ErrBarrierBroken)
	}},
	{"all pass, or all are told", "one is told of a barrier that is whole", func(s *sim, b *simBarrier) {
		b.broken = false
		s.met(b, nobodyAt(s), 0, ErrBarrierBroken)
	}},
	{"who waits at a barrier is told", "one is not", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		b.ids[w.op] = "e:7"
		stands(s, b, "barrier 6 3 0 0 0 \ne 1 9 7=5 8=5 9=5")
		b.ended[5] = s.w.Now().Add(-simSoon - time.Second)
		b.waiters = append(b.waiters, w)
		s.counted.checkBarriers()
	}},
	{"who leaves breaks it", "one goes on waiting", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		w.since = s.w.Now().Add(-time.Minute)
		b.waiters = append(b.waiters, w)
		b.leftAt = s.w.Now().Add(-simSoon - time.Second)
		s.counted.checkBarriers()
	}},
	{"who is not heard of is missed", "one goes on waiting for an engine that is silent", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		b.ids[w.op] = w.se.eng.id + ":7"
		s.cutsOff = true
		stands(s, b, "barrier 5 3 2 0 0 \ne 1 9 8=5\n"+w.se.eng.id+" 1 9 7=5")
		w.since = s.w.Now().Add(-time.Minute)
		b.heard["e"] = simWord{9, w.since}
		b.waiters = append(b.waiters, w)
		s.counted.checkBarriers()
	}},
	{"MaxWait ends", "a result comes late", func(s *sim, b *simBarrier) {
		w := nobodyAt(s)
		s.w.Sleep(100 * time.Millisecond)
		s.met(b, w, 5*time.Millisecond, ErrNotOpen)
	}},
	{"where nothing goes wrong there are no errors", "there is one", func(s *sim, b *simBarrier) {
		s.met(b, nobodyAt(s), 0, ErrOverloaded)
	}},
}

// stands is what somebody has made of a barrier that nobody has used.
func stands(s *sim, b *simBarrier, text string) {
	s.server.twin.Do([]string{"SET", b.name, text})
	s.counted.gather(b, "barrier")
}

func nobodyAt(s *sim) *simParty {
	return &simParty{
		who: "nobody", se: s.engines[0], gen: s.engines[0].gen, tally: newTally(), op: &acquireOp{}, since: s.w.Now(),
	}
}

func TestSimNoticesWhatGoesWrongAtBarriers(t *testing.T) {
	for _, c := range simBarrierSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := drawProfile(3, 200, nil, "counted")
			p.habit.odds[doBarrier] = 0                             // nobody else uses it
			p.steps = p.drawSteps(rand.New(rand.NewPCG(3, 7)), 200) //nolint:gosec // it must repeat
			p.rate, p.fates, p.crashes, p.blows, p.clocks, p.closes = 0, nil, false, false, false, false
			s := newSim(p, nil)
			s.w.In(nil, "sabotage", func() {
				for s.quietAt == 0 || s.w.Now().Sub(s.quietAt) < simCalm {
					s.w.Sleep(500 * time.Microsecond)
				}
				c.now(s, s.counted.barriers[1])
			})
			err := s.run()
			s.w.Close()
			require.Equal(t, c.rule, ruleOf(err), "%v", err)
		})
	}
}
