package lockstate

import (
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// Changes change the count of a hold: its owner enters again, or gives one of several handles back.
// Changes are made one after the other, each by the count that is wanted, never by a step, so that sending
// one again counts once.
type Changes struct {
	Of      any      // whose they are
	queue   []Change // bound: the owner's callers
	cur     Change   // on its way, if busy
	busy    bool
	unknown bool // the present change was sent without an answer
	tries   int
	gone    int           // entries that have left, and may still be in the queue
	target  int32         // the count that the present change asks for
	late    Indeterminate // a copy of an unanswered change may have the last word, until a later one is confirmed
	rest    clock.Instant // a change was refused: it is settled, but not before then; 0: none was
	lowers  Indeterminate // the same of those that lower the key's expiry, with the least lease that they leave it
}

// A Change is one step up or down. With no op it only takes back what nobody wants any more. An Extend changes
// no count, but it takes its place among changes, for some of them lower what it raises. One that settles is no step:
// it sets the count and the key's expiry to what the handles are, where something else may have moved them.
type Change struct {
	Enter   Op        // who enters
	Extend  Extension // or raises the key's expiry
	Leave   any       // or who is to be told that a handle was given back; nil: nobody
	Handle  any       // that one
	Settles bool
	Since   clock.Instant // of the first failure since it was asked for: its own, or of a change before it
}

// An Extension raises the key's expiry. Told: its caller has a result.
type Extension interface{ Told() bool }

// givesBack is how many handles a change takes off: 1 or none.
func (c *Change) givesBack() int32 {
	if c.Enter == nil && c.Extend == nil && !c.Settles {
		return 1
	}
	return 0
}

// step is what a change makes of the number of handles.
func (c *Change) step() int32 {
	if c.Enter != nil && c.Enter.Pending() {
		return 1
	}
	return -c.givesBack()
}

// settled reports whether the count on the wire is what was last confirmed, and nothing is to change it.
func (n *Changes) settled() bool {
	return n.Quiet() && n.late.Until == 0 && n.rest == 0
}

// Quiet reports whether no change of the hold's count is on its way or waiting.
func (n *Changes) Quiet() bool { return !n.busy && len(n.queue) == 0 }

// settling reports whether all that is on its way or waiting settles: nobody waits for that, and a release needs not.
func (n *Changes) settling() bool {
	return (!n.busy || n.cur.Settles) && !slices.ContainsFunc(n.queue, func(c Change) bool { return !c.Settles })
}

// SettleAt is when one more change has to settle the hold, if no other comes before; 0: it is settled. A copy
// that was left without an answer may have had the last word; then none can run any more. A change that was refused
// has left the count and the key's expiry higher than the handles are.
func (n *Changes) SettleAt() clock.Instant {
	if !n.Quiet() {
		return 0
	}
	return n.UnsureUntil()
}

// UnsureUntil is until when the count and the key's expiry may be others than were last confirmed; 0: they are not.
func (n *Changes) UnsureUntil() clock.Instant { return max(n.late.Until, n.rest) }

// Quiet reports the same of a hold that may never have changed.
func (w *Grant) Quiet() bool { return w.Changes() == nil || w.Changes().Quiet() }

// Want adds a change.
func (n *Changes) Want(c Change) { n.queue = append(n.queue, c) }

// Undo takes back, before anything else, what nobody wants any more.
func (n *Changes) Undo() { n.queue = slices.Insert(n.queue, 0, Change{}) }

// Left reports whether a change is an entry that nobody wants any more.
func (c *Change) Left() bool { return c.Enter != nil && !c.Enter.Pending() }

// GaveUp follows an entry that gave up: it leaves the queue. Those that left are taken out as soon as they may be half
// of it, so that many that give up at once do not search for each other.
func (n *Changes) GaveUp() {
	n.gone++
	if 2*n.gone >= len(n.queue) {
		n.queue = slices.DeleteFunc(n.queue, func(c Change) bool { return c.Left() })
		n.gone = 0
	}
}

// Overdue returns the changes that have met failures for longer than most, which their callers are to be told. A handle
// that is given back is still taken off, without its caller. An entry or an Extend was never sent, and leaves; so does
// an Extend whose caller has left. The present change goes on.
func (n *Changes) Overdue(now clock.Instant, most time.Duration) (told []Change) {
	if n.busy && now.Sub(n.cur.Since) > most {
		told = append(told, n.cur)
		n.cur.Leave = nil
	}
	// In place: what is told and leaves is overwritten by what stays.
	kept := n.queue[:0]
	for _, c := range n.queue {
		if over := now.Sub(c.Since) > most; over || c.Extend != nil && c.Extend.Told() {
			told = append(told, c)
			if c.Enter != nil || c.Extend != nil {
				continue
			}
			c.Leave = nil
		}
		kept = append(kept, c)
	}
	clear(n.queue[len(kept):])
	n.queue = kept
	return told
}

// Current is the change on its way, if Busy.
func (n *Changes) Current() *Change { return &n.cur }

// Busy reports whether one is on its way, or will be sent again.
func (n *Changes) Busy() bool { return n.busy }

// Waiting is how many wait.
func (n *Changes) Waiting() int { return len(n.queue) }

// Target is the count that it asks for.
func (n *Changes) Target() int32 { return n.target }

// Tries is how often it has failed.
func (n *Changes) Tries() int { return n.tries }

// Over follows the end of the hold, whose changes were drained: the one on its way is not sent again.
func (n *Changes) Over() { n.busy = false }

// Dismiss takes all that wait out, for the last handle is given back: a release follows instead.
func (n *Changes) Dismiss() []Change {
	all := n.queue
	n.queue = nil
	return all
}

// Raised follows commands that may raise the key's expiry until d has passed: what has lowered it is done again then.
func (n *Changes) Raised(d Indeterminate) { n.late.Until = max(n.late.Until, d.Until) }

// LowersUntil is until when a copy of a change may run that lowers the key's expiry; 0: none may.
func (n *Changes) LowersUntil() clock.Instant { return n.lowers.Until }

// A CountStep is what is to be done next about a count.
type CountStep uint8

const (
	CountRest        CountStep = iota // nothing, or an answer is due
	CountSend                         // send the count of Target
	CountReleaseLast                  // the last handle is given back
	CountExtend                       // send the Extend
)

// HeldBack is until when the next change must not be sent; 0: it may be. A copy of a change that lowers the
// key's expiry may still run, and would take from it what the next change is to be trusted for.
func (n *Changes) HeldBack(now clock.Instant) clock.Instant {
	if n.busy || !n.lowers.MayRunAfter(now) {
		return 0
	}
	for len(n.queue) > 0 && n.queue[0].Left() { // it is the first that is still wanted which counts
		n.queue = n.queue[1:]
	}
	if len(n.queue) == 0 {
		return 0
	}
	if c := n.queue[0]; c.Extend != nil || c.Enter != nil && c.Enter.Terms().Lease > n.lowers.Lease {
		return n.lowers.Until
	}
	return 0
}

// Lowering reports whether what raises the key's expiry has to wait for changes that lower it.
func (n *Changes) Lowering(now clock.Instant) bool {
	return !n.Quiet() || n.lowers.MayRunAfter(now)
}

// Lowered records that a change which leaves the key no more than a lease was sent and got no answer.
func (n *Changes) Lowered(sentAt, now clock.Instant, limit, lease time.Duration) {
	// Several may run late: the key has what the least of them leaves it.
	if n.lowers.MayRunAfter(now) {
		lease = min(lease, n.lowers.Lease)
	}
	n.lowers.Unanswered(sentAt, limit, 0)
	n.lowers.Lease = lease
}

// NextChange starts the next change, if none is on its way. Whoever has left by now is passed over.
func (w *Grant) NextChange() (Change, CountStep) {
	n := w.Changes()
	for !n.busy && len(n.queue) > 0 {
		c := n.queue[0]
		n.queue = n.queue[1:]
		target := w.count - 1
		if c.Extend != nil {
			return c, CountExtend
		}
		// Its caller gave up while it waited.
		if c.Left() {
			continue
		}
		switch {
		case c.Settles:
			target = w.count
		case c.Enter != nil:
			target = w.count + 1
		}
		// The last handle: a release, not a count of 0.
		if target == 0 {
			return c, CountReleaseLast
		}
		n.cur, n.busy, n.unknown, n.tries = c, true, false, 0
		n.target = target
		return c, CountSend
	}
	return Change{}, CountRest
}

// Take ends the present change.
func (n *Changes) Take() Change {
	c := n.cur
	n.cur, n.busy = Change{}, false
	return c
}

// Confirmed follows the answer that the count is the target, to what was sent at sentAt, seen by so many replicas.
func (w *Grant) Confirmed(sentAt clock.Instant, seen int) Change {
	n := w.Changes()
	w.saw(seen)
	w.count, w.onWire = n.target, n.target
	n.answered(sentAt)
	if copies := w.Indeterminate(); copies.MayRunAfter(sentAt) { // they raise what a change has lowered
		n.Raised(copies)
	}
	if n.cur.Enter == nil { // an entry raises the key's expiry, and lowers nothing
		n.rest = 0
	}
	return n.Take()
}

// answered forgets the copies that could not run any more when an answered change was sent.
func (n *Changes) answered(sentAt clock.Instant) {
	if !n.late.MayRunAfter(sentAt) {
		n.late = Indeterminate{}
	}
	if !n.lowers.MayRunAfter(sentAt) {
		n.lowers = Indeterminate{}
	}
}

// Refused follows a definite error: the count on the wire is what it was, and the key's expiry that or what an entry
// asked for. Nobody has a handle any more that was to be given back; the last release frees the lock whatever the
// count. Before that the hold is settled, as soon as the server lets it be.
func (w *Grant) Refused(now clock.Instant) Change {
	n := w.Changes()
	c := n.Take()
	w.count -= c.givesBack()
	n.rest = now.Add(SettleAgain)
	return c
}

// Failed follows an error, or (not definite) no answer at all, and says whether the change is sent again:
// until its answer is definite.
func (n *Changes) Failed(definite, transient bool, s Sending, now clock.Instant) (again bool) {
	n.tries++
	n.cur.failed(now)
	n.WaitsBehind(now)
	if !definite {
		n.unknown = true
		n.late.Unanswered(s.At, s.Limit, s.Lease)
	}
	return n.unknown || transient
}

// WaitsBehind follows a failure of what all that waits is behind.
func (n *Changes) WaitsBehind(now clock.Instant) {
	for i := range n.queue {
		n.queue[i].failed(now)
	}
}

// failed notes the first failure that a change meets, or waits behind.
func (c *Change) failed(now clock.Instant) {
	if c.Since == 0 {
		c.Since = now
	}
}

// SettleAgain is how soon a hold is settled after the server has refused a change.
const SettleAgain = time.Second

// Drain forgets every change, for the hold is over, and returns them. The count is then that of the handles
// which nobody has given back: a change that is no acquire was to take one off it, whatever its caller has
// been told.
func (w *Grant) Drain() []Change {
	n := w.Changes()
	if n == nil {
		return nil
	}
	all := n.queue
	// The one on its way was first. Its answer will find nothing to change.
	if n.busy {
		all = append([]Change{n.cur}, all...)
	}
	n.cur, n.queue = Change{}, nil
	for i := range all {
		w.count -= all[i].givesBack()
	}
	return all
}
