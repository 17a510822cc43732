package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// TestSimNotices breaks each rule on purpose: a check that cannot fail would be noticed here. What breaks it waits
// for its moment in a run in which nothing else goes wrong.
func TestSimNotices(t *testing.T) {
	for _, c := range slices.Concat(simSabotages, simRuleSabotages, simUserSabotages, simResultSabotages, simQueueSabotages, simMultiSabotages, simPublishSabotages, simLingerSabotages) {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed < 30; seed++ { // until one has the moment
				p := drawEven(seed, 300, c.kinds)
				p.rate, p.fates, p.crashes, p.blows, p.clocks, p.java, p.force, p.closes, p.mixed = 0, nil, false, false, false, false, false, false, false
				p.steps = p.drawSteps(rand.New(rand.NewPCG(seed, 7)), 300) //nolint:gosec // it must repeat
				p.users = false
				s := newSim(p, nil)
				done := false
				s.w.In(nil, "sabotage", func() {
					for !done && s.ended < len(p.steps) {
						s.w.Sleep(500 * time.Microsecond)
						done = c.now(s)
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

// A simSabotage breaks a rule when its moment has come, and says whether it did.
type simSabotage struct {
	rule, how string
	kinds     []simKind
	now       func(*sim) bool
}

// held finds what a caller believes to hold.
func (s *sim) held(kind simKind, fit func(*simHold) bool) *simHold {
	for _, n := range s.names {
		for _, h := range n.holds {
			if h.kind == kind && h.believes() && len(n.waiters) == 0 && (fit == nil || fit(h)) {
				return h
			}
		}
	}
	return nil
}

// onHeld makes a sabotage of what happens to a held lock.
func onHeld(kind simKind, do func(s *sim, h *simHold)) func(*sim) bool {
	return func(s *sim) bool {
		h := s.held(kind, func(h *simHold) bool { return h.plain })
		if h != nil {
			do(s, h)
		}
		return h != nil
	}
}

//nolint:gochecknoglobals // a table
var simSabotages = []simSabotage{
	{"exclusion", "a second holder", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.granted(&simWait{who: "nobody", kind: simLock, n: h.n, se: h.se, gen: h.gen}, h.ls, false)
	})},
	{"belief is on the wire", "the key is deleted", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.server.twin.Delete(h.n.name)
		s.checkName(h.n)
	})},
	{"trust ends before the lease", "the expiry is lowered", []simKind{simRead, simWrite}, onHeld(simRead, func(s *sim, h *simHold) {
		s.server.twin.Do([]string{"PEXPIRE", h.n.name, "200"})
		s.checkName(h.n)
	})},
	{"no key outlives its longest lease", "the expiry is raised", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.server.twin.Do([]string{"PEXPIRE", h.n.name, "99999999"})
		s.checkName(h.n)
	})},
	{"a read lock lives no longer than its readers ask for", "its mark is gone", []simKind{simRead, simWrite}, func(s *sim) bool {
		h := s.held(simRead, func(h *simHold) bool { return hasField(s.server.twin.Hash(h.n.name), h.field) })
		if h == nil || !readsOnly(s.server.twin.Hash(h.n.name)) {
			return false
		}
		s.server.twin.Delete("{" + h.n.name + "}:" + h.field + ":rwlock_timeout:1")
		s.checkName(h.n)
		return true
	}},
	{"no key without a TTL", "a hash without one", []simKind{simLock}, func(s *sim) bool {
		s.server.twin.Delete("a")
		s.names[0].holds = nil
		s.server.twin.Do([]string{"HSET", "a", "somebody", "1"})
		s.checkName(s.names[0])
		return true
	}},
	{"no key is overwritten", "by a string", []simKind{simLock}, func(s *sim) bool {
		s.server.twin.Delete("a")
		s.server.twin.Do([]string{"SET", "a", "x", "PX", "100"})
		s.checkName(s.names[0])
		return true
	}},
	{"one holder on the wire", "a second field", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.server.twin.Do([]string{"HSET", h.n.name, "somebody", "1"})
		s.checkName(h.n)
	})},
	{"one writer on the wire", "a second writer", []simKind{simRead, simWrite}, onHeld(simWrite, func(s *sim, h *simHold) {
		s.server.twin.Do([]string{"HSET", h.n.name, "somebody:write", "1"})
		s.checkName(h.n)
	})},
	{"counts are handles", "a greater count", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, nil)
		if h == nil || s.unanswered() > 0 || s.givesBack(h.n) {
			return false
		}
		s.server.twin.Do([]string{"HSET", h.n.name, h.field, "7"})
		s.checkCounts()
		return true
	}},
	{"no ghost", "of an engine that runs", []simKind{simLock}, func(s *sim) bool {
		n, se := s.names[0], s.engines[0]
		if n.freeAt == 0 || !se.running() || se.eng.knows(n.name, "") {
			return false
		}
		s.server.twin.Do([]string{"HSET", n.name, se.eng.ID() + ":1", "1"})
		s.checkGhosts()
		return true
	}},
	{"fair order", "the second is served", []simKind{simFair}, func(s *sim) bool {
		n := s.names[0]
		if n.freeAt == 0 || len(s.server.twin.List("redisson_lock_queue:{g}")) > 0 {
			return false
		}
		s.server.twin.Do([]string{"RPUSH", "redisson_lock_queue:{g}", "first"})
		s.server.twin.Do([]string{"HSET", "g", "second", "1"})
		s.checkOrder(n, []string{"x"}, []string{"first", "second"}, "", &simQueueCall{})
		return true
	}},
	{"fair order of asking", "who asked later has it", []simKind{simFair}, func(s *sim) bool {
		se := s.engines[0]
		s.names[0].waiters = append(s.names[0].waiters, &simWait{who: "first", kind: simFair, n: s.names[0], se: se, gen: se.gen, order: 1, returned: 2, asked: true})
		s.checkAsking(&simWait{who: "second", kind: simFair, n: s.names[0], se: se, gen: se.gen, order: 3})
		return true
	}},
	{"a free lock is granted", "somebody waits for ever", []simKind{simLock}, func(s *sim) bool {
		n, se := s.names[0], s.engines[0]
		if n.freeAt == 0 || se.eng == nil {
			return false
		}
		n.waiters = append(n.waiters, &simWait{who: "somebody", n: n, se: se, gen: se.gen, since: 1})
		n.freeAt = 1
		s.checkWaiting()
		return true
	}},
	{"MaxWait ends", "long after it", []simKind{simLock}, func(s *sim) bool {
		s.checkMaxWait(&simWait{who: "somebody", n: s.names[0], since: 1}, time.Second)
		return true
	}},
	{"every future completes", "a release that is never answered", []simKind{simLock}, func(s *sim) bool {
		s.releases = append(s.releases, simRelease{f: &Future[struct{}]{}, se: s.engines[0]})
		return true
	}},
	{"nothing is left", "a key", []simKind{simLock}, func(s *sim) bool {
		s.server.twin.Do([]string{"SET", "left", "x"})
		return true
	}},
	{"nothing is left", "a goroutine", []simKind{simLock}, func(s *sim) bool {
		s.w.In(s.engines[0].proc, "leak", s.w.NewBell().Wait)
		return true
	}},
	{"nothing is left", "a subscription", []simKind{simLock}, func(s *sim) bool {
		s.engines[0].subs.refs++
		return true
	}},
	{"everything is answered", "an answer that never comes", []simKind{simLock}, func(s *sim) bool {
		s.engines[0].eng.shards[0].pending++
		return true
	}},
	{"no panic", "in a callback", []simKind{simLock}, func(s *sim) bool {
		s.engines[0].eng.callbacks.Add(func() { panic("on purpose") })
		return true
	}},
	{"who gave everything back may acquire", "and is told it has lost", []simKind{simLock}, func(s *sim) bool {
		se := s.engines[0]
		s.refused(&simWait{who: "somebody", n: s.names[0], se: se, gen: se.gen, owner: NewOwner(), since: s.w.Now()}, &simStep{}, ErrLost)
		return true
	}},
	{"no entry anew after a loss", "of the same owner", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		lost := *h
		ls := &Lease{hold: &hold{ent: h.ls.hold.ent}, set: h.ls.set}
		ls.hold.End(lockstate.Lost)
		lost.ls, lost.owner, lost.lostAt = ls, NewOwner(), 1
		h.n.holds = []*simHold{&lost}
		s.granted(&simWait{who: "somebody", kind: simLock, n: h.n, se: h.se, gen: h.gen, owner: lost.owner}, h.ls, false)
	})},
	{"a ForceRelease is told at home", "but is not", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.server.twin.Delete(h.n.name)
		s.taken[simField{h.n, h.field}] = true
		s.checkForced(h.se, h.n)
	})},
	{"a watched lock is kept", "and is lost", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) { s.lostOne(h) })},
	{"who stopped is not renewed", "and goes on being renewed", []simKind{simLock}, func(s *sim) bool {
		all := s.held(simLock, func(h *simHold) bool { return h.plain })
		if all == nil || s.w.Now().Sub(all.n.stoppedAt) < simSoon+simAttempt {
			return false
		}
		all.stopped = true
		for _, o := range all.n.holds {
			o.stopped = true
		}
		s.checkRenewed([]string{"EVALSHA", "", "1", all.n.name, "2000", "1", "0", all.field}, s.w.Now())
		return true
	}},
	{"a lease is renewed at its own length", "but a shorter one", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		s.server.twin.Do([]string{"PEXPIRE", h.n.name, "200"})
		s.checkLives()
	})},
	{"a key lives no longer than its handles ask for", "but for a minute", []simKind{simLock}, func(s *sim) bool {
		h := s.held(simLock, func(h *simHold) bool {
			return h.plain && h.n.extends == 0 && s.w.Now().Sub(h.n.stoppedAt) > simSoon && !s.givesBack(h.n) && s.unanswered() == 0
		})
		if h == nil {
			return false
		}
		s.server.twin.Do([]string{"PEXPIRE", h.n.name, "60000"})
		s.checkSpare()
		return true
	}},
	{"the holder is told first", "but is not", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		lost := *h
		ls := &Lease{hold: &hold{ent: h.ls.hold.ent}, set: h.ls.set}
		ls.hold.End(lockstate.Lost)
		lost.ls, lost.owner, lost.ctx, lost.lostAt = ls, nil, anyContext(s), 1
		h.n.holds = []*simHold{&lost}
		s.granted(&simWait{who: "somebody", kind: simLock, n: h.n, se: h.se, gen: h.gen}, h.ls, false)
	})},
	{"no false jeopardy", "on a healthy server", []simKind{simLock}, onHeld(simLock, func(s *sim, h *simHold) {
		h.se.eng.tell(EventJeopardy, h.ls.hold, "")
		s.checkEvents()
	})},
	{"the run ends", "but one never does", []simKind{simLock}, func(s *sim) bool {
		s.ended -= 1000
		return true
	}},
	{"Close returns", "with a callback that does not", []simKind{simLock}, func(s *sim) bool {
		if s.w.Now() < clock.Instant(time.Hour).Add(20*time.Millisecond) {
			return false
		}
		s.engines[0].eng.callbacks.Add(func() { s.w.Sleep(time.Hour) })
		return true
	}},
}

// anyContext is one that has not ended.
func anyContext(s *sim) context.Context {
	ctx, _ := s.w.WithCancel(context.Background())
	return ctx
}
