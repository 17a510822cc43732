package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// simGroupSabotages break each rule about values of a group, on a run in which nothing goes wrong.
//
//nolint:gochecknoglobals // a table
var simGroupSabotages = []struct {
	rule, how string
	now       func(s *sim, c *simGroup) bool // false: not yet
}{
	{"values are taken and given back all or none", "one of two is given back", func(s *sim, c *simGroup) bool {
		h, values := c.believer()
		if h == nil || len(values) < 2 {
			return false
		}
		s.server.twin.Do([]string{"HDEL", c.name, values[0]})
		c.check()
		return true
	}},
	{"who believes in a value has it", "others take all of them away", func(s *sim, c *simGroup) bool {
		h, values := c.believer()
		if h == nil {
			return false
		}
		s.server.twin.Do(append([]string{"HDEL", c.name}, values...))
		c.check()
		return true
	}},
	{"a value is one caller's", "another one has it", func(_ *sim, c *simGroup) bool {
		h, values := c.believer()
		if h == nil {
			return false
		}
		other := &simValues{who: "nobody", ls: &Lease{hold: new(hold)}, se: h.se, gen: h.gen}
		c.hasAlone(h, map[string]*simValues{values[0]: other})
		return true
	}},
	{"values that are free are granted", "one waits that nobody asks for", func(s *sim, c *simGroup) bool {
		if len(c.taken()) > 0 {
			return false
		}
		since := s.w.Now().Add(-simSoon - time.Second)
		c.takers = append([]*simTaker{{who: "nobody", se: s.engines[0], gen: s.engines[0].gen, n: 4, could: since}}, c.takers...)
		c.checkWaiting()
		return true
	}},
	{"what was taken is free in the end", "somebody else has one", func(s *sim, c *simGroup) bool {
		if s.stepped < s.size() || len(c.held)+len(c.takers) > 0 {
			return false
		}
		v := KryoStrings("f").names[0]
		s.server.twin.Do([]string{"HSET", c.name, v, "x:9", v + ":x:9:expire_time", "9999999999999"})
		c.checkEnd()
		return true
	}},
	{"MaxWait ends", "a result comes late", func(s *sim, _ *simGroup) bool {
		s.w.Sleep(100 * time.Millisecond)
		s.tookValues(&simTaker{who: "nobody", se: s.engines[0], tally: newTally()}, &simStep{wait: 2}, nil, ErrHeld)
		return true
	}},
}

// believer is somebody who has values, and which.
func (c *simGroup) believer() (h *simValues, values []string) {
	for _, h := range c.held {
		if h.believes() {
			_, all := slot.CutGroup(h.ls.hold.Field)
			for ; all != ""; all = all[slot.GroupValue:] {
				values = append(values, all[:slot.GroupValue])
			}
			return h, values
		}
	}
	return nil, nil
}

func TestSimNoticesWhatIsWrongWithValues(t *testing.T) {
	for _, c := range simGroupSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed < 30; seed++ { // until one has the moment
				p := drawProfile(seed, 300, nil, "group")
				p.rate, p.fates, p.crashes, p.blows, p.clocks, p.closes = 0, nil, false, false, false, false
				s := newSim(p, nil)
				done := false
				s.w.In(nil, "sabotage", func() {
					for !done && s.ended < len(p.steps) {
						s.w.Sleep(500 * time.Microsecond)
						done = c.now(s, s.group)
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
