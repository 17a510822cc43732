package world

import "iter"

// A Crew is coroutines that have nothing to do, for one world after the other: their stacks have grown already. Nothing
// else goes from one world to the next. The zero value is empty; a crew serves one goroutine.
type Crew struct{ resting []*routine }

// New is [New] with coroutines of the crew, which get back those that have nothing to do when the world is closed.
func (c *Crew) New(seed uint64, yields int) *World {
	w := New(seed, yields)
	w.crew = c
	return w
}

// Close ends the coroutines of the crew.
func (c *Crew) Close() {
	for _, r := range c.resting {
		r.stop()
	}
	c.resting = nil
}

// rest takes a coroutine whose world is closed.
func (c *Crew) rest(r *routine) {
	*r = routine{next: r.next, stop: r.stop, yield: r.yield}
	c.resting = append(c.resting, r)
}

// newRoutine makes a coroutine that runs one function after the other, or takes one of the crew.
func (w *World) newRoutine() *routine {
	var r *routine
	if c := w.crew; c != nil && len(c.resting) > 0 {
		last := len(c.resting) - 1
		r, c.resting = c.resting[last], c.resting[:last]
	} else {
		r = new(routine)
		r.next, r.stop = iter.Pull(r.work)
	}
	r.w, r.id = w, len(w.all)
	r.timer = Timer{w: w, r: r}
	w.all = append(w.all, r)
	return r
}

// work is what a coroutine does: a function, and then to wait for another, perhaps in another world.
func (r *routine) work(yield func(struct{}) bool) {
	r.yield = yield
	for {
		r.call()
		r.fn = nil
		if r.w.closed {
			return
		}
		r.w.idle = append(r.w.idle, r)
		if !yield(struct{}{}) {
			return
		}
	}
}
