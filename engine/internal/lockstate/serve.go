package lockstate

// What follows is the third part of Queue: grants that are for more than the first who waits, or of which there are
// many at a time.

// Serve follows a grant of so many units, seen by so many replicas, that may be for several, in order: for as many as
// there is enough for, or for everybody. It returns them, and what is left, which is to be given back. Not for a family
// that serves one.
func (q *Queue[A]) Serve(family *Traits, units int32, seen int) (served Chain, left int32) {
	if !q.believed() {
		return served, units
	}
	return q.deal(family, units, seen)
}

// HandOut gives units that are given back here to those who wait here, in order, for as many as there is enough for:
// no command is sent for them. What is left is to be given back.
func (q *Queue[A]) HandOut(family *Traits, units int32) (served Chain, left int32) {
	return q.deal(family, units, 0)
}

func (q *Queue[A]) deal(family *Traits, units int32, seen int) (served Chain, left int32) {
	for left = units; ; {
		w := q.claim(func(t *Terms) bool {
			return t.Family == family && (family.Serves == ServesAll || t.Units <= left) && t.Replicas() <= seen
		})
		if w == nil {
			return served, left
		}
		// A latch has no less for the next.
		if served.Add(w); family.Serves != ServesAll {
			left -= w.Of.Terms().Units
		}
	}
}

// GrantedMany is Granted for a family of which many are granted at a time: asked are the terms that the grant is for.
func (q *Queue[A]) GrantedMany(asked Terms, seen int) *Waiter {
	if !q.believed() {
		return nil
	}
	return q.claim(func(t *Terms) bool {
		return t.Lease == asked.Lease && t.Family == asked.Family && t.Units == asked.Units && t.Replicas() <= seen
	})
}
