package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A wirehold is what is known of the field in Redis under which this engine has a lock: an asking until
// it is granted, then held, and in the end released or lost.
//
// It is a pure state machine, as the queue is: it decides whether the lock may be passed on inside the
// engine, which count is to be on the wire, and what is to be sent when the hold is over. The engine
// sends, and tells it what was answered. Anybody may look at status at any time; only who has the shard's mutex
// moves it.
type wirehold struct {
	status        atomic.Uint32
	handles       int32          // those that are out
	copies        *indeterminate // late copies of the acquire may run: then one more release follows; mostly nil
	tenureUntil   clock.Instant
	set           *settings // of the present lease
	reentry       *reentry  // changes of the count; nil: there never were any
	count         int32     // handles
	onWire        int32     // the count in Redis, as last confirmed: more than the handles if a smaller one was refused
	grants        int16     // of this tenure
	seen          int16     // by how many replicas, as far as was asked
	forceReleased bool      // a ForceRelease is on its way
	leak          bool      // a leak was reported
}

// begin follows the grant.
func (w *wirehold) begin(set *settings, tenureUntil clock.Instant, seen int) {
	w.set, w.tenureUntil, w.grants, w.handles = set, tenureUntil, 1, 1
	w.count, w.onWire, w.seen = 1, 1, int16(min(seen, maxReplicas)) //nolint:gosec // in range
}

// end moves the status. Who gets false came second, and does nothing.
func (w *wirehold) end(as uint32) bool { return w.status.CompareAndSwap(holdHeld, as) }

// An asking is a wire hold before its grant. Its outcome is unknown while its id was sent without an answer: then
// it is asked for again alone, under the same id, until an answer is definite.
type asking struct {
	unknown       bool // the present owner id was sent without an answer
	indeterminate indeterminate
	tries         int           // failures in a row
	since         clock.Instant // of the first of them
}

// A sending is a command that was sent: when, how long one attempt of it may take, and the lease that it asks for.
type sending struct {
	at           clock.Instant
	limit, lease time.Duration
}

// failed follows an error, or (not definite) no answer at all, to what was sent.
func (a *asking) failed(definite bool, s sending, now clock.Instant) {
	if !definite {
		a.unknown = true
		a.indeterminate.unanswered(s.at, s.limit, s.lease)
	}
	if a.since == 0 {
		a.since = now
	}
	a.tries++
}

// answered follows the server's word that somebody else has the lock.
func (a *asking) answered() { a.tries, a.since = 0, 0 }

// A verdict says what becomes of an op after a failure of the acquire.
type verdict uint8

const (
	keepWaiting verdict = iota // waits for the next sending
	failUnknown                // is told that nobody knows
	failServer                 // is told what the server said
)

// verdict judges one op. A waiter outlasts what passes without its help; a newcomer is patient for a
// while; where a slot moves, it waits as it would for the lock, and even a Try is patient; and as long as a copy of the
// acquire may run, the answer to the next is worth waiting for.
func (a *asking) verdict(class resp.Class, parked, try, out bool) verdict {
	switch {
	case parked && (class.Transient() || memoryClass(class)):
		return keepWaiting
	case a.unknown && class != resp.ClassPartly && (class.Transient() || !class.Definite()) && !out:
		return keepWaiting
	case class.Transient() && !out && !try, class == resp.ClassTryAgain && (!try || !out):
		return keepWaiting
	case a.unknown:
		return failUnknown
	default:
		return failServer
	}
}

// memoryClass reports whether a waiter treats the refusal as "busy": it passes without its help.
func memoryClass(c resp.Class) bool {
	return c == resp.ClassOOM || c == resp.ClassMisconf || c == resp.ClassNoReplicas
}

// indeterminate is what is not known of the hold's owner id.
func (w *wirehold) indeterminate() indeterminate {
	if w.copies == nil {
		return indeterminate{}
	}
	return *w.copies
}

// A handOffInput is what a hand-off depends on beside the wire hold.
type handOffInput struct {
	now, deadline clock.Instant
	lease         time.Duration
	family        resp.Family
	off           bool // switched off, or the engine closes
	renewing      bool
	reads         bool // its owner reads beside it, or asks to
	// the key may live for what was asked for by who has left, or an Extend of that one's raises it again
	unlowered bool
}

// A handOff says whether a released lock may go to the next waiter here, or else why not. Each is a row
// of the table in ARCHITECTURE.md.
type handOff uint8

const (
	handOffSafe          handOff = iota
	handOffOff                   // switched off, or the engine closes
	handOffFamily                // tokens, sharing and order are the server's
	handOffNotRenewed            // nobody renews it
	handOffForceReleased         // a ForceRelease may have taken it already
	handOffTenureOver            // others wait elsewhere
	handOffLeaseShort            // less than half of the lease is trusted
	handOffIndeterminate         // a late copy of its acquire may run
	handOffCountChanging         // its count is changing, or a change of it was never answered
	handOffReentered             // the count on the wire is not one
	handOffNotLowered            // its key may live for longer than the next holder asks for
)

// mayHandOff decides whether the hold may be passed on: only if that is as safe as a release and a new
// acquire.
func (w *wirehold) mayHandOff(h handOffInput) handOff {
	// Cheap questions first: this is asked at every release that somebody waits for.
	switch {
	case h.off:
		return handOffOff
	case w.count != 1 || w.onWire != 1:
		return handOffReentered
	case w.reentry != nil && !w.reentry.settled():
		return handOffCountChanging
	case !traits(h.family).handsOff, h.reads:
		return handOffFamily
	case w.forceReleased:
		return handOffForceReleased
	case !w.set.watchdog || !h.renewing:
		return handOffNotRenewed
	case w.grants >= tenureGrants || !h.now.Before(w.tenureUntil):
		return handOffTenureOver
	case h.deadline.Sub(h.now) < h.lease/2:
		return handOffLeaseShort
	case w.indeterminate().mayRunAfter(h.now):
		return handOffIndeterminate
	case h.unlowered:
		return handOffNotLowered
	default:
		return handOffSafe
	}
}

// passed follows a hand-off.
func (w *wirehold) passed(set *settings) {
	w.grants++
	w.set = set
}

// lastHandle reports whether giving one handle back frees the lock.
func (w *wirehold) lastHandle() bool {
	return w.count == 1 && (w.reentry == nil || w.reentry.settling())
}

// out is how many handles nobody has begun to give back.
func (w *wirehold) out() int32 {
	out := w.count
	if n := w.reentry; n != nil {
		for i := range n.queue {
			out -= n.queue[i].givesBack()
		}
		if n.busy {
			out -= n.cur.givesBack()
		}
	}
	return out
}

// A followUp says what is still to be sent for a hold that is over.
type followUp uint8

const (
	followUpNone         followUp = iota // nothing
	followUpRelease                      // a release
	followUpReleaseLater                 // a release when no copy of the acquire can run any more
)

// afterRelease: an answer to a release that was sent while a copy could run is not the last word; and one
// that was never answered goes on without its caller.
func (w *wirehold) afterRelease(answered bool, sentAt clock.Instant) followUp {
	switch {
	case !answered:
		return followUpRelease
	case w.indeterminate().mayRunAfter(sentAt):
		return followUpReleaseLater
	default:
		return followUpNone
	}
}

// afterLoss: past its deadline the server may still have it, and what nobody believes here is given back,
// never renewed. Otherwise it is gone, but a late copy could bring it back. A hold that is kept to expire
// is left alone.
func (w *wirehold) afterLoss(cause renew.Cause) followUp {
	switch {
	case cause == renew.CauseDeadline:
		return followUpRelease
	case w.indeterminate().until != 0 && cause != renew.CauseClosed:
		return followUpReleaseLater
	default:
		return followUpNone
	}
}

// A reentryCount changes the count of a hold: its owner enters again, or gives one of several handles back.
// Changes are made one after the other, each by the count that is wanted, never by a step, so that sending
// one again counts once.
type reentryCount struct {
	queue   []change // bound: the owner's callers
	cur     change   // on its way, if busy
	busy    bool
	unknown bool // the present change was sent without an answer
	tries   int
	gone    int           // entries that have left, and may still be in the queue
	target  int32         // the count that the present change asks for
	late    indeterminate // a copy of an unanswered change may have the last word, until a later one is confirmed
	rest    clock.Instant // a change was refused: it is settled, but not before then; 0: none was
	lowers  indeterminate // the same of those that lower the key's expiry, with the least lease that they leave it
}

// A change is one step up or down. With no op it only takes back what nobody wants any more. An Extend changes
// no count, but it takes its place among changes, for some of them lower what it raises. One that settles is no step:
// it sets the count and the key's expiry to what the handles are, where something else may have moved them.
type change struct {
	acquire *acquireOp
	extend  *singleOp[struct{}]
	release *releaseOp
	lease   *Lease // release's handle
	settles bool
	since   clock.Instant // of the first failure since it was asked for: its own, or of a change before it
}

// givesBack is how many handles a change takes off: 1 or none.
func (c *change) givesBack() int32 {
	if c.acquire == nil && c.extend == nil && !c.settles {
		return 1
	}
	return 0
}

// settled reports whether the count on the wire is what was last confirmed, and nothing is to change it.
func (n *reentryCount) settled() bool {
	return n.quiet() && n.late.until == 0 && n.rest == 0
}

// quiet reports whether no change of the hold's count is on its way or waiting.
func (n *reentryCount) quiet() bool { return !n.busy && len(n.queue) == 0 }

// settling reports whether all that is on its way or waiting settles: nobody waits for that, and a release needs not.
func (n *reentryCount) settling() bool {
	return (!n.busy || n.cur.settles) && !slices.ContainsFunc(n.queue, func(c change) bool { return !c.settles })
}

// settleAt is when one more change has to settle the hold, if no other comes before; 0: it is settled. A copy
// that was left without an answer may have had the last word; then none can run any more. A change that was refused
// has left the count and the key's expiry higher than the handles are.
func (n *reentryCount) settleAt() clock.Instant {
	if !n.quiet() {
		return 0
	}
	return max(n.late.until, n.rest)
}

// quiet reports the same of a hold that may never have changed.
func (w *wirehold) quiet() bool { return w.reentry == nil || w.reentry.quiet() }

// want adds a change.
func (n *reentryCount) want(c change) { n.queue = append(n.queue, c) }

// undo takes back, before anything else, what nobody wants any more.
func (n *reentryCount) undo() { n.queue = slices.Insert(n.queue, 0, change{}) }

// left reports whether a change is an entry that nobody wants any more.
func (c *change) left() bool { return c.acquire != nil && c.acquire.state.Load() != futurePending }

// leaves follows an entry that gave up: it leaves the queue. Those that left are taken out as soon as they may be half
// of it, so that many that give up at once do not search for each other.
func (n *reentryCount) leaves() {
	n.gone++
	if 2*n.gone >= len(n.queue) {
		n.queue = slices.DeleteFunc(n.queue, func(c change) bool { return c.left() })
		n.gone = 0
	}
}

// overdue returns the changes that have met failures for longer than most, which their callers are to be told. A handle
// that is given back is still taken off, without its caller. An entry or an Extend was never sent, and leaves; so does
// an Extend whose caller has left. The present change goes on.
func (n *reentryCount) overdue(now clock.Instant, most time.Duration) (told []change) {
	if n.busy && now.Sub(n.cur.since) > most {
		told = append(told, n.cur)
		n.cur.release = nil
	}
	kept := n.queue[:0]
	for _, c := range n.queue {
		if over := now.Sub(c.since) > most; over || c.extend != nil && c.extend.state.Load() == futureDone {
			told = append(told, c)
			if c.acquire != nil || c.extend != nil {
				continue
			}
			c.release = nil
		}
		kept = append(kept, c)
	}
	clear(n.queue[len(kept):])
	n.queue = kept
	return told
}

// A countStep is what is to be done next about a count.
type countStep uint8

const (
	countRest        countStep = iota // nothing, or an answer is due
	countSend                         // send the count in target
	countReleaseLast                  // the last handle is given back
	countExtend                       // send the Extend
)

// heldBack is until when the next change must not be sent; 0: it may be. A copy of a change that lowers the
// key's expiry may still run, and would take from it what the next change is to be trusted for.
func (n *reentryCount) heldBack(now clock.Instant) clock.Instant {
	if n.busy || !n.lowers.mayRunAfter(now) {
		return 0
	}
	for len(n.queue) > 0 && n.queue[0].left() { // it is the first that is still wanted which counts
		n.queue = n.queue[1:]
	}
	if len(n.queue) == 0 {
		return 0
	}
	if c := n.queue[0]; c.extend != nil || c.acquire != nil && c.acquire.set.lease > n.lowers.lease {
		return n.lowers.until
	}
	return 0
}

// lowering reports whether what raises the key's expiry has to wait for changes that lower it.
func (n *reentryCount) lowering(now clock.Instant) bool {
	return !n.quiet() || n.lowers.mayRunAfter(now)
}

// lowered records that a change which leaves the key no more than a lease was sent and got no answer.
func (n *reentryCount) lowered(sentAt, now clock.Instant, limit, lease time.Duration) {
	if n.lowers.mayRunAfter(now) {
		lease = min(lease, n.lowers.lease)
	}
	n.lowers.unanswered(sentAt, limit, 0)
	n.lowers.lease = lease
}

// nextChange starts the next change, if none is on its way. Whoever has left by now is passed over.
func (w *wirehold) nextChange() (change, countStep) {
	n := w.reentry
	for !n.busy && len(n.queue) > 0 {
		c := n.queue[0]
		n.queue = n.queue[1:]
		target := w.count - 1
		if c.extend != nil {
			return c, countExtend
		}
		// Its caller gave up while it waited.
		if c.left() {
			continue
		}
		switch {
		case c.settles:
			target = w.count
		case c.acquire != nil:
			target = w.count + 1
		}
		// The last handle: a release, not a count of 0.
		if target == 0 {
			return c, countReleaseLast
		}
		n.cur, n.busy, n.unknown, n.tries = c, true, false, 0
		n.target = target
		return c, countSend
	}
	return change{}, countRest
}

// take ends the present change.
func (n *reentryCount) take() change {
	c := n.cur
	n.cur, n.busy = change{}, false
	return c
}

// confirmed follows the answer that the count is the target, to what was sent at sentAt.
func (w *wirehold) confirmed(sentAt clock.Instant) change {
	n := w.reentry
	w.count, w.onWire = n.target, n.target
	n.answered(sentAt)
	if copies := w.indeterminate(); copies.mayRunAfter(sentAt) { // they raise what a change has lowered
		n.late.until = max(n.late.until, copies.until)
	}
	if n.cur.acquire == nil { // an entry raises the key's expiry, and lowers nothing
		n.rest = 0
	}
	return n.take()
}

// answered forgets the copies that could not run any more when an answered change was sent.
func (n *reentryCount) answered(sentAt clock.Instant) {
	if !n.late.mayRunAfter(sentAt) {
		n.late = indeterminate{}
	}
	if !n.lowers.mayRunAfter(sentAt) {
		n.lowers = indeterminate{}
	}
}

// refused follows a definite error: the count on the wire is what it was, and the key's expiry that or what an entry
// asked for. Nobody has a handle any more that was to be given back; the last release frees the lock whatever the
// count. Before that the hold is settled, as soon as the server lets it be.
func (w *wirehold) refused(now clock.Instant) change {
	n := w.reentry
	c := n.take()
	w.count -= c.givesBack()
	n.rest = now.Add(settleAgain)
	return c
}

// failed follows an error, or (not definite) no answer at all, and says whether the change is sent again:
// until its answer is definite.
func (n *reentryCount) failed(definite, transient bool, s sending, now clock.Instant) (again bool) {
	n.tries++
	n.cur.failed(now)
	n.waitsBehind(now)
	if !definite {
		n.unknown = true
		n.late.unanswered(s.at, s.limit, s.lease)
	}
	return n.unknown || transient
}

// waitsBehind follows a failure of what all that waits is behind.
func (n *reentryCount) waitsBehind(now clock.Instant) {
	for i := range n.queue {
		n.queue[i].failed(now)
	}
}

// failed notes the first failure that a change meets, or waits behind.
func (c *change) failed(now clock.Instant) {
	if c.since == 0 {
		c.since = now
	}
}

// settleAgain is how soon a hold is settled after the server has refused a change.
const settleAgain = time.Second

// drain forgets every change, for the hold is over, and returns them. The count is then that of the handles
// which nobody has given back: a change that is no acquire was to take one off it, whatever its caller has
// been told.
func (w *wirehold) drain() []change {
	n := w.reentry
	if n == nil {
		return nil
	}
	all := n.queue
	if n.busy {
		all = append([]change{n.cur}, all...)
	}
	n.cur, n.queue = change{}, nil
	for i := range all {
		w.count -= all[i].givesBack()
	}
	return all
}

// clockSlack covers clock rates that differ by 1 % over an attempt, and the server's rounding.
const clockSlack = 50 * time.Millisecond

// An indeterminate is what is not known of an owner id: copies of its acquires that were sent and never
// answered. Each carries a not-after; until the last of them has passed, one may still run.
//
// It is a pure state machine: unanswered moves it, mayRunAfter asks it. The rules that follow from it are the
// engine's: while a copy may run every further attempt keeps its owner id, an answer "not yours" is not final,
// and a release is followed by one more when none can.
type indeterminate struct {
	until clock.Instant // when the last unanswered copy has become harmless; 0: there is none
	lease time.Duration // the longest any of them asks for
}

// unanswered records that an attempt sent at sentAt got no answer.
func (d *indeterminate) unanswered(sentAt clock.Instant, limit, lease time.Duration) {
	d.until = max(d.until, sentAt.Add(limit+clockSlack))
	d.lease = max(d.lease, lease)
}

// mayRunAfter reports whether a copy may still run after a command that was sent at this instant: then its
// answer is not the last word. When the answer came does not matter: a copy may have run in between.
func (d indeterminate) mayRunAfter(sentAt clock.Instant) bool {
	return d.until != 0 && sentAt.Before(d.until)
}
