package world

import "iter"

// newRoutine makes a coroutine that runs one function after the other.
func (w *World) newRoutine() *routine {
	r := &routine{w: w, id: len(w.all)}
	r.timer = Timer{w: w, r: r}
	r.next, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		r.yield = yield
		for {
			r.call()
			r.fn = nil
			if w.closed {
				return
			}
			w.idle = append(w.idle, r)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	w.all = append(w.all, r)
	return r
}
