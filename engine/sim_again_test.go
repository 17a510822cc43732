package engine

import (
	"slices"
	"time"
)

// What callers do in one go: independent steps hardly ever meet as closely.

// give gives a hold back, and asks at once for what was given back: a Try goes behind the release; an owner that wrote
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
		a.release(h, true)
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
