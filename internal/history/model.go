package history

import (
	"slices"

	"github.com/anishathalye/porcupine"
)

// A stepKind is what a step does to a lock.
type stepKind uint8

const (
	stepTake   stepKind = iota // a holder begins to believe
	stepGive                   // it gives the lock back, or on
	stepLose                   // it is told that it has lost it
	stepDelete                 // somebody else takes the lock away
)

// A step is one operation on a lock.
type step struct {
	kind  stepKind
	grant int
	hold  uint64
	last  bool // of its hold: what it gives goes back, not on
}

// A hand is a hold and the grant that has it now.
type hand struct {
	hold  uint64
	grant int // noGrant: on its way to the next
}

const noGrant = -1

// lockState is who has a lock: one on the server, nobody if there is none, and those it was taken
// from who have not heard of that yet. Values are never changed.
type lockState struct {
	server  *hand
	orphans []hand
}

// lockModel is a lock as it is promised to be: one hold at a time, passed from grant to grant, and taken
// away only by its end or by somebody else, after which its grants go on without it.
func lockModel() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return lockState{} },
		Step:  func(state, input, _ any) (bool, any) { return state.(lockState).after(input.(step)) },
		Equal: func(a, b any) bool { return a.(lockState).equal(b.(lockState)) },
	}
}

func (s lockState) equal(o lockState) bool {
	if (s.server == nil) != (o.server == nil) || s.server != nil && *s.server != *o.server {
		return false
	}
	return slices.Equal(s.orphans, o.orphans)
}

// after is the state after a step, and whether the step is possible.
func (s lockState) after(st step) (bool, lockState) {
	if st.kind == stepDelete {
		if s.server == nil {
			return true, s
		}
		return true, lockState{orphans: append(slices.Clone(s.orphans), *s.server)}
	}
	if i := slices.IndexFunc(s.orphans, func(h hand) bool { return h.hold == st.hold }); i >= 0 {
		h, ok := s.orphans[i].after(st)
		next := lockState{server: s.server, orphans: slices.Clone(s.orphans)}
		if h == nil {
			next.orphans = slices.Delete(next.orphans, i, i+1)
		} else {
			next.orphans[i] = *h
		}
		return ok, next
	}
	h := s.server
	switch {
	case h == nil && st.kind == stepTake:
		h = &hand{st.hold, noGrant}
	case h == nil || h.hold != st.hold:
		return false, s
	}
	next, ok := h.after(st)
	return ok, lockState{server: next, orphans: s.orphans}
}

// after is the hand after one of its own steps; nil: the hold is over.
func (h *hand) after(st step) (*hand, bool) {
	switch {
	case st.kind == stepTake:
		return &hand{h.hold, st.grant}, h.grant == noGrant
	case st.last:
		return nil, h.grant == st.grant
	default: // what is lost is lost for all that would come
		return &hand{h.hold, noGrant}, h.grant == st.grant && st.kind == stepGive
	}
}
