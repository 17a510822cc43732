package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// simRedSabotages break each rule about RedLocks, on a run in which nothing goes wrong.
//
//nolint:gochecknoglobals // a table
var simRedSabotages = []struct {
	rule, how string
	now       func(s *sim, n *simRedName) bool // false: not yet
}{
	{"one caller has a RedLock", "another one believes, too", onRed(func(s *sim, n *simRedName, h *simRedHold) {
		n.held = append(n.held, &simRedHold{who: "nobody", se: h.se, rl: h.rl})
	})},
	{"who believes in a RedLock has a majority", "a majority has lost it", onRed(func(s *sim, n *simRedName, _ *simRedHold) {
		for _, v := range s.reds.servers[:s.reds.quorum()] {
			v.twin.Delete(n.name)
		}
		s.reds.check()
	})},
	// That is why the nemesis waits for the end of every lease: the servers of a real RedLock have to do so, too.
	{"who believes in a RedLock has a majority", "servers come back empty at once", onRed(func(s *sim, _ *simRedName, _ *simRedHold) {
		for _, v := range s.reds.servers[:s.reds.quorum()] {
			v.adopt(twin.New())
		}
	})},
	{"the loss of a majority is told", "its context goes on", onRed(func(s *sim, n *simRedName, h *simRedHold) {
		h.rl.lost.Store(true)
		h.lostAt = s.w.Now().Add(-time.Second)
		s.reds.check()
	})},
	{"the loss of a majority is told", "a release says that all is well", onRed(func(s *sim, n *simRedName, h *simRedHold) {
		s.reds.gaveBack(n, h, true, nil)
	})},
	{"a release frees a majority", "it is answered before", func(s *sim, n *simRedName) bool {
		return (len(n.held) == 0 || !n.askedIn(n.held[0].se)) && onRed(func(s *sim, n *simRedName, h *simRedHold) {
			s.reds.gaveBack(n, h, false, nil)
		})(s, n)
	}},
	{"a RedLock that is free is granted", "one waits that nobody serves", func(s *sim, n *simRedName) bool {
		if len(n.held) > 0 || s.w.Now().Sub(n.freeAt) < time.Second {
			return false
		}
		n.freeAt = s.w.Now().Add(-time.Minute)
		n.takers = append(n.takers, &simRedTaker{who: "nobody", se: s.engines[0], since: n.freeAt})
		s.reds.checkWaiting()
		return true
	}},
	{"a RedLock that is free is granted", "a Try is refused", func(s *sim, n *simRedName) bool {
		s.reds.took(n, &simRedTaker{who: "nobody", se: s.engines[0], since: s.w.Now(), ask: n.asks, try: true, free: true}, failedRed(ErrHeld), 0)
		return true
	}},
	{"MaxWait ends", "a result comes late", func(s *sim, n *simRedName) bool {
		since := s.w.Now()
		s.w.Sleep(time.Second)
		s.reds.took(n, &simRedTaker{who: "nobody", se: s.engines[0], since: since}, failedRed(ErrHeld), 5*time.Millisecond)
		return true
	}},
	{"nothing is left", "a server has a key", func(s *sim, _ *simRedName) bool {
		if s.stepped < s.size() {
			return false
		}
		s.reds.servers[1].twin.Do([]string{"SET", "x", "1"})
		return true
	}},
}

// onRed waits until somebody has a RedLock.
func onRed(do func(*sim, *simRedName, *simRedHold)) func(*sim, *simRedName) bool {
	return func(s *sim, n *simRedName) bool {
		if len(n.held) == 0 || n.held[0].rl.Lost() || s.reds.servesNow(n, n.held[0], false) < len(s.reds.servers) {
			return false
		}
		do(s, n, n.held[0])
		return true
	}
}

// failedRed is an acquire that failed.
func failedRed(err error) *Future[*RedLease] {
	op := &redOp{}
	op.Future.op = op
	op.resolve(nil, err)
	return &op.Future
}

func TestSimNoticesWhatBecomesOfRedLocks(t *testing.T) {
	for _, c := range simRedSabotages {
		t.Run(strings.ReplaceAll(c.rule+" "+c.how, " ", "_"), func(t *testing.T) {
			t.Parallel()
			noticed(t, c.rule, simRedProfile.name, func(*simPlan) {}, func(s *sim) bool { return c.now(s, s.reds.names[0]) })
		})
	}
}

// TestSimOfRedLocks runs some seeds of that profile, and asks for what every rule about RedLocks rests on: the worlds in
// which servers come and go are there, and so are losses of a majority, of a minority, and parts that join late.
func TestSimOfRedLocks(t *testing.T) {
	met := make(map[string]int)
	for seed := range uint64(40) {
		s := newSim(drawProfile(seed, 200, nil, simRedProfile.name), nil)
		s.w.In(nil, "observer", func() {
			for !s.over {
				s.w.Sleep(5 * time.Millisecond)
				for _, n := range s.reds.names {
					for _, h := range n.held {
						switch held := h.rl.Held(); {
						case h.rl.Lost():
							met["lost"]++
						case held < len(h.rl.granted()):
							met["a part lost"]++
						case held < len(s.reds.servers):
							met["a minority missing"]++
						default:
							met["whole"]++
						}
					}
				}
			}
		})
		require.NoError(t, s.run(), "seed %d", seed)
		s.w.Close()
	}
	t.Log(met)
	for _, what := range []string{"lost", "a part lost", "a minority missing", "whole"} {
		require.Greater(t, met[what], 20, "%s: %v", what, met)
	}
}
