package lockstate

// An Op is one caller's wish. Others may end it at any time, without the mutex that guards the machines: a cancel, the
// end of a context. So a machine takes nobody out for a result without winning the claim.
type Op interface {
	Claim() bool   // wins the right to give it its result; false: somebody else has
	Pending() bool // nobody has yet
	Terms() *Terms // what it wants
}

// A Waiter is an op's place in a queue. It is part of the op.
type Waiter struct {
	next, prev *Waiter // in a queue the last stands before the first, and nobody behind the last
	Of         Op      // whose it is
	Try        bool    // it does not wait
	Async      bool    // nobody waits for it in its own goroutine; the engine's to know
	Watched    bool    // the end of its patience is, or is about to be; the engine's to know
	SawClosed  bool    // what it waits for was seen to be closed for it; the engine's to know
	Asked      bool    // a server has answered while it was first, and not by a definite error; the engine's to know
	told       bool    // it was told "busy"
	again      bool    // a Try that was told so by what its own engine is giving back, it seems: it asks once more
	queued     bool
}

// Queued reports whether it is in a queue.
func (w *Waiter) Queued() bool { return w.queued }

// Told reports whether it was told that somebody else has what it wants.
func (w *Waiter) Told() bool { return w.told }

// TellBusy notes that it was told, and says whether that was news.
func (w *Waiter) TellBusy() (news bool) {
	news = w != nil && !w.told
	if news {
		w.told = true
	}
	return news
}

// Newcomer makes it one that was told nothing: it waits for something else from now on.
func (w *Waiter) Newcomer() { w.told = false }

// Next is who waits behind it; nil: nobody does.
func (w *Waiter) Next() *Waiter { return w.next }

// Push puts one at the end.
func (q *Queue[A]) Push(w *Waiter) {
	w.queued = true
	if q.head == nil {
		q.head, w.prev = w, w
		return
	}
	last := q.head.prev
	last.next, w.prev, q.head.prev = w, last, w
}

// Unlink takes one out of the queue; nothing happens if it is not in it.
func (q *Queue[A]) Unlink(w *Waiter) {
	if !w.queued {
		return
	}
	w.queued = false
	if q.head == w {
		q.head, q.spins = w.next, 0
		q.restsNoMore()
	} else {
		w.prev.next = w.next
	}
	switch {
	case w.next != nil:
		w.next.prev = w.prev
	case q.head != nil: // it was the last
		q.head.prev = w.prev
	}
	w.next, w.prev = nil, nil
}

// AsksAgain reports whether it is a Try that was told of somebody, and does not believe it.
func (w *Waiter) AsksAgain() bool { return w.again }

// A Chain is a list of waiters that have left their queues, in order.
type Chain struct{ first, last *Waiter }

// Add puts one at the end.
func (c *Chain) Add(w *Waiter) {
	if c.last == nil {
		c.first = w
	} else {
		c.last.next = w
	}
	c.last = w
}

// Empty reports whether there is nobody in it.
func (c *Chain) Empty() bool { return c.first == nil }

// Take takes the first out; nil: there is none. It is linked to nobody any more: who keeps it must not keep those
// that were behind it.
func (c *Chain) Take() *Waiter {
	w := c.first
	if w == nil {
		return nil
	}
	if c.first = w.next; c.first == nil {
		c.last = nil
	}
	w.next = nil
	return w
}
