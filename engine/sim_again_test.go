package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// What callers do in one go: independent steps hardly ever meet as closely.

// give gives a hold back, with all handles that its owner has of it, and asks at once for what was given back: a Try goes behind the release; an owner that wrote
// goes on reading.
func (a *simActor) give(st *simStep, h *simHold) {
	next := simStep{kind: h.kind, owner: -1, lease: st.lease, after: st.after, acks: st.pick % 2}
	switch {
	case !st.again:
		a.release(h, st.loose)
	case h.kind == simWrite && h.owner != nil && slices.Contains(a.se.owners, h.owner):
		next.kind, next.owner = simRead, slices.Index(a.se.owners, h.owner)
		next.name = a.nameAs(h.n, simRead)
		a.downgrade(&next, h)
	default:
		next.try, next.name = true, a.nameAs(h.n, h.kind)
		all := slices.DeleteFunc(slices.Clone(a.held), func(o *simHold) bool {
			return o != h && (h.owner == nil || o.owner != h.owner || o.n != h.n || o.kind != h.kind)
		})
		for _, one := range all { // a hold that was entered again goes as a whole
			a.release(one, true)
		}
		a.turn()
		a.step(&next)
	}
}

// nameAs is the number by which a step of a kind finds a name.
func (a *simActor) nameAs(n *simName, kind simKind) int {
	for i := range a.s.names {
		if a.name(&simStep{kind: kind, name: i}) == n {
			return i
		}
	}
	return 0
}

// drawStops says whether renewals are stopped while their handle is given back. It has a draw of its own, and so has each
// such stop: seeds without them run as they would if nothing of this were here.
func drawStops(seed uint64) bool {
	return rand.New(rand.NewPCG(seed, 17)).IntN(8) == 0 //nolint:gosec // it must repeat
}

// stopBeside stops, now and then, the renewals of what is given back at the same time: that may be somebody else's by then.
func (s *sim) stopBeside(h *simHold) {
	if s.stopping == nil || !h.ls.set.Watchdog || s.stopping.IntN(2) > 0 {
		return
	}
	s.ops++
	began := s.w.NewLatch()
	s.w.Go("stops", func() {
		s.story("%s stops the renewals of hold %d while it gives that back", h.who, h.id)
		began.Open()
		h.ls.StopRenewing()
	})
	began.WaitIn(context.Background())
}

// downgrade asks to read, and gives back to write before the answer is there.
func (a *simActor) downgrade(read *simStep, h *simHold) {
	s, reads := a.s, a.s.w.NewLatch()
	s.w.Go("reads", func() {
		if a.gen == a.se.gen && !a.se.closing {
			a.step(read)
		}
		reads.Open()
	})
	s.w.Sleep(time.Microsecond)
	if a.gen == a.se.gen && !a.se.closing && slices.Contains(a.held, h) {
		a.release(h, false)
	}
	reads.WaitUntil(s.w.Now().Add(simLongest))
}
