package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// reentry is what changes the hold's count; nil: nothing ever did.
func (h *hold) reentry() *reentry {
	if n := h.Changes(); n != nil {
		return n.Of.(*reentry)
	}
	return nil
}

// ensureReentry makes that, if there is none.
func (h *hold) ensureReentry() *reentry {
	n := h.reentry()
	if n == nil {
		n = &reentry{hold: h}
		n.Of = n
		h.Counting(&n.Changes)
	}
	return n
}

// Whose change of a count it is; nil: nobody's.
func entering(c *lockstate.Change) *acquireOp {
	op, _ := c.Enter.(*acquireOp)
	return op
}

func leaving(c *lockstate.Change) *releaseOp {
	op, _ := c.Leave.(*releaseOp)
	return op
}

// reenter lets the hold's owner in once more.
func (sc *section) reenter(h *hold, op *acquireOp) {
	n := h.ensureReentry()
	n.Want(lockstate.Change{Enter: op})
	sc.limitWait(op)
	sc.watchWait(op)
	sc.nextChange(n)
}

// leaveReentry takes an op that gave up out of the changes of the hold that it wanted to enter again, if it waits
// there. If replicas are waited for on its behalf, that ends: other changes wait behind it.
func (sc *section) leaveReentry(ent *entry, op *acquireOp) {
	for at := range ent.root().withChildren {
		if h := at.hold; h != nil && h.reentry() != nil && h.owner == op.lease.owner {
			n := h.reentry()
			n.GaveUp()
			if n.inFlight && entering(n.Current()) == op && n.op.Ack != nil {
				sc.takeBack(&n.op)
			}
		}
	}
}

// admitSameOwner lets in those who wait in the queue for a lock their own owner has just been granted.
func (sc *section) admitSameOwner(h *hold) {
	if h.owner == nil && h.extra == nil {
		return
	}
	root := h.ent.root()
	for op := range root.ops {
		if op.lease.owner != nil && (op.lease.owner == h.owner || h.readsFor(op.lease.owner) > 0) {
			root.Unlink(&op.Waiter)
			sc.reenterOrRefuse(root, op)
		}
	}
	for child := root.firstChild(); traits(h.Family).Mark == lockstate.MarkPlace && child != nil; {
		next := child.nextChild()
		for op := range child.ops { // several, if they have come back from a hold that is over
			if op.lease.owner == h.owner {
				child.Unlink(&op.Waiter)
				sc.reenterOrRefuse(root, op)
			}
		}
		sc.tidy(child)
		child = next
	}
}

// nextChange sends the next change, if none is on its way. It waits for what the owner asks to read beside
// the hold: whoever gives the hold back then goes on reading.
func (sc *section) nextChange(n *reentry) {
	h := n.hold
	for !h.downgradeAsked() {
		if n.LowersUntil() != 0 {
			if until := n.HeldBack(sc.eng.clock.Now()); until != 0 {
				sc.eng.timers.Schedule(n, until)
				return
			}
		}
		c, next := h.NextChange()
		switch next {
		case lockstate.CountRest:
			if at := n.SettleAt(); at == 0 {
				return
			} else if sc.eng.clock.Now().Before(at) {
				sc.eng.timers.Schedule(n, at)
				return
			}
			n.Want(lockstate.Change{Settles: true})
			continue
		case lockstate.CountReleaseLast:
			sc.releaseLast(n, c)
			return
		case lockstate.CountExtend:
			sc.sendExtend(c)
			continue
		case lockstate.CountSend:
		}
		n.op = resp.Op{
			Kind: resp.OpCount, Family: h.Family, Key: h.ent.key, Hash: h.ent.hash, Slot: h.ent.slot, Field: h.Field, Sink: n,
			Count: n.Target(), Wide: h.ent.wide,
		}
		if op := entering(&c); op != nil {
			n.op.LeaseMs = op.set.Lease.Milliseconds()
			sc.asksFor(h, op.set.Lease)
		}
		if op := entering(&c); op != nil && op.set.Replicas() > h.SeenBy() {
			n.op.Ack = (*resp.Ack)(op.set.Ack) // they see the field, too: the grant was written before
		}
		sc.sh.pending++
		sc.sendChange(n)
	}
}

func (sc *section) sendChange(n *reentry) {
	if n.Current().Enter == nil {
		sc.lowerLease(n)
	}
	n.inFlight = true
	if err := sc.eng.nodes.Submit(&n.op); err != nil {
		n.inFlight = false
		sc.answered()
		sc.changeFailed(n, fromServer(sc.eng.nameOf(n.hold.ent.key), resp.AsServerError(err)))
	}
}

// lowerLease makes a change that takes a handle off lower the key's expiry to what the others ask for: nothing
// but that may lower it below what was trusted. So the hold is not trusted for longer from here on, before
// the command is sent. An Extend that is on its way may raise it again: then that is left until it is answered. Where
// nobody is left who asks for anything, the release follows.
func (sc *section) lowerLease(n *reentry) {
	h, now := n.hold, sc.eng.clock.Now()
	sc.passMaxHold(h, now)
	n.keeps = h.keeps()
	keep := n.keeps.at(now)
	if keep == 0 || h.extra != nil && h.extra.extends > 0 {
		n.op.Kind, n.op.LeaseMs, n.unlowered = resp.OpCount, 1, true
		return
	}
	n.unlowered = false
	// a late copy would raise it again: it is settled when none can run any more
	if h.extra != nil && h.extra.extended.MayRunAfter(now) {
		n.Raised(h.extra.extended)
	}
	n.op.Kind, n.op.LeaseMs = resp.OpLeave, keep.Milliseconds()
	sc.eng.watchdog.Lower(h, n.keeps.trusted(now))
}

// Keep implements [resp.Lowering].
func (n *reentry) Keep(now clock.Instant) time.Duration { return n.keeps.at(now) }

// lease is the longest that the present change may keep the lock.
func (n *reentry) lease() time.Duration {
	return max(n.hold.Lease(), time.Duration(n.op.LeaseMs)*time.Millisecond)
}

// releaseLast gives the last handle back. Whoever wanted in behind it waits in the queue again.
func (sc *section) releaseLast(n *reentry, c lockstate.Change) {
	var children []*entry
	n.leaving = true
	for _, later := range n.Dismiss() {
		if op := entering(&later); op != nil && op.Pending() {
			if child := sc.requeue(n.hold, op); child != nil {
				children = append(children, child)
			}
		}
		if later.Extend != nil {
			sc.sendExtend(later)
		}
	}
	n.leaving = false
	release := leaving(&c)
	if release == nil {
		release = newReleaseOp(n.hold)
	}
	if c.Since != 0 { // its caller's patience goes on
		release.troubledSince(c.Since)
	}
	if c.Handle != nil && sc.handOff(n.hold, release.lease) {
		sc.released(release, nil)
	} else if answered, err := sc.sendRelease(release); answered {
		sc.released(release, err)
	}
	for _, child := range children {
		sc.advance(child)
	}
	sc.hasGone(n.hold)
}

// requeue puts an op that wanted to enter again back into its queue: of a fair lock into a child of its own, which
// it returns, for it is behind everybody who has asked. One whose owner goes on reading there would wait for itself,
// and one whose owner has lost another hold of the name would enter anew.
func (sc *section) requeue(h *hold, op *acquireOp) (child *entry) {
	at := h.ent.root()
	if sc.reenterOrRefuse(at, op) {
		return nil
	}
	if op.Try && at.Live() != nil { // who waits there is next, and may have it for as long as it likes
		sc.refuseTry(op, at)
		return nil
	}
	if traits(h.Family).Mark == lockstate.MarkPlace {
		child = at.newChild()
		op.moveTo(child)
		at = child
	}
	at.Push(&op.Waiter)
	return child
}

// Scheduled is its place among the timers.
func (n *reentry) Scheduled() *wheel.Item[timed] { return &n.item }

// due sends the change again, or one that was held back.
func (n *reentry) due(clock.Instant) {
	e := n.hold.ent.eng
	sc := e.enter(n.hold.ent.hash)
	switch held := n.hold.Held(); {
	case n.inFlight:
	case held && n.Busy():
		sc.sendChange(n)
		sc.nextChange(n) // if that was refused here
	case held:
		sc.nextChange(n)
	case n.Busy(): // there is nothing to be changed any more
		n.Over()
		sc.answered()
	}
	sc.leave()
}

// Answered takes the server's answer. It runs on the lane.
func (n *reentry) Answered(_ *resp.Op, r *resp.Result) {
	h := n.hold
	e := h.ent.eng
	var l *loss
	gone := traits(h.Family).goneBy(r)
	sc := e.enter(h.ent.hash)
	n.inFlight = false
	switch {
	case !h.Held(): // Lost has answered everybody, or Close has
		n.Over()
		sc.answered()
	case r.Err != nil && !gone && sc.changeAgain(n, r):
	default:
		sc.answered()
		switch {
		case r.Code == resp.CodeOurs:
			sc.changeDone(n, r)
		case r.Code == resp.CodeCancelled: // who wanted in has left before it was sent
			n.Take()
		case r.Err == nil, gone:
			l = sc.lose(h, causeOfLoss(gone)) // answers everybody
			n.Over()
		default:
			sc.changeFailed(n, fromServer(e.nameOf(h.ent.key), r.Err))
		}
		if l == nil {
			sc.nextChange(n)
		}
	}
	sc.lost = l
	sc.leaveAt("reentry.Answered: decided | the loss and effects")
}

// changeDone makes a confirmed change visible.
func (sc *section) changeDone(n *reentry, r *resp.Result) {
	h := n.hold
	in := entering(n.Current())
	lost := in != nil && h.ent.root().lostTo(in.lease.owner) // while it asked, its owner began to give back what it has
	c, over := h.Confirmed(r.SentAt, int(r.ReplicaAcks)), false
	if in != nil {
		if !h.Renewing() {
			sc.wishes(h) // with the end that is theirs, before it is raised for another
		}
		over = !sc.eng.watchdog.Extended(h, r.SentAt, in.set.Lease)
	}
	switch {
	case sc.changeUnseen(n, in, r):
		n.Undo()
	case lost, over: // the watchdog is about to say so
		sc.refuse(in, ErrLost)
		n.Undo()
	case in != nil && in.claim():
		sc.sh.counts.grants++
		ls := &Lease{hold: h, set: in.set, from: in.ctx, owner: in.lease.owner}
		sc.leaseJoined(h, ls, r.SentAt)
		sc.grant(in, ls, r.SentAt, r.ReceivedAt)
	case in != nil: // it left while the answer was on its way: take the hold back
		n.Undo()
	case c.Leave != nil:
		sc.sh.counts.releases++
		sc.gaveBack(leaving(&c).lease, r.SentAt)
		sc.released(leaving(&c), nil)
	}
}

// changeUnseen tells who wants in that too few replicas have seen it, if so.
func (sc *section) changeUnseen(n *reentry, op *acquireOp, r *resp.Result) bool {
	if n.op.Ack == nil || int(r.ReplicaAcks) >= n.op.Ack.Replicas || !op.claim() {
		return false
	}
	sc.sh.counts.unseen++
	sc.sh.counts.errors++
	sc.fail(op, notReplicated(op.lock.Name(), n.op.Ack, r))
	return true
}

// changeFailed answers the present change with an error. The count on the wire is what it was: the
// error is definite. The hold is settled later.
func (sc *section) changeFailed(n *reentry, err error) {
	c := n.hold.Refused(n.hold.ent.eng.clock.Now())
	switch {
	case c.Enter != nil && c.Enter.Claim():
		sc.fail(entering(&c), err)
	case c.Leave != nil:
		sc.released(leaving(&c), err)
	}
}

// settleCount sets the count and the expiry of a hold's key to what its handles are.
func (sc *section) settleCount(h *hold) {
	n := h.ensureReentry()
	n.Want(lockstate.Change{Settles: true})
	sc.nextChange(n)
}

// readEnded follows the end of what somebody may have read under a key: if a writer of this engine has the lock, its
// key lives for as long as that one asks for from now on. asked is for how long the reader did.
func (sc *section) readEnded(ent *entry, asked time.Duration) {
	w := ent.hold
	if w == nil || !traits(w.Family).ReadsToo || !w.Held() {
		return
	}
	now := sc.eng.clock.Now()
	sc.passMaxHold(w, now)
	if keep := w.keeps().at(now); keep != 0 && keep < asked {
		sc.settleCount(w)
	}
}

// changeAgain schedules another sending, and tells callers who have waited long enough that the outcome is unknown: of
// this change, and of those that wait behind it. The change itself goes on until its answer is definite or the hold is
// over.
func (sc *section) changeAgain(n *reentry, r *resp.Result) bool {
	now := sc.eng.clock.Now()
	limit := sc.eng.nodes.AttemptLimit()
	s := lockstate.Sending{At: r.SentAt, Limit: limit, Lease: n.lease()}
	again := n.Failed(r.Definite(), r.Err.Class.Transient(), s, now)
	if !r.Definite() && n.op.Kind == resp.OpLeave {
		n.Lowered(r.SentAt, now, limit, time.Duration(n.op.LeaseMs)*time.Millisecond)
	}
	if !again || sc.eng.draining.Load() {
		return false
	}
	sc.tellOverdue(n, now, r.Err)
	sc.refuseBehind(n.hold)
	sc.eng.timers.Schedule(n, sc.eng.resendAt(n.op.Slot, now, n.Tries()))
	return true
}

// changesWait follows a failure of what the owner asks to read beside the hold: changes of the hold wait for its
// answer.
func (sc *section) changesWait(n *reentry, now clock.Instant, cause *resp.ServerError) {
	if n.Busy() {
		return
	}
	n.WaitsBehind(now)
	sc.tellOverdue(n, now, cause)
}

// tellOverdue tells callers who have waited long enough that the outcome is unknown.
func (sc *section) tellOverdue(n *reentry, now clock.Instant, cause *resp.ServerError) {
	err := &UnknownError{Name: sc.eng.nameOf(n.hold.ent.key), FreeBy: sc.eng.clock.Wall(n.hold.freeBy()), cause: cause}
	for _, c := range n.Overdue(now, retryBudget*sc.eng.nodes.AttemptLimit()) {
		switch {
		case c.Enter != nil && c.Enter.Claim():
			sc.fail(entering(&c), err)
		case c.Leave != nil:
			sc.released(leaving(&c), err)
		case c.Extend != nil:
			x := c.Extend.(*singleOp[struct{}])
			sc.more = append(sc.more, func() { x.ends(struct{}{}, err) })
		}
	}
}

// endChanges answers everybody who waits for a change of the hold, for it is over: those who want in
// with one error, those who give back with another. But if it was lost when its owner had given every handle back,
// there is nothing to be given back first, and who wants in waits in the queue again.
func (sc *section) endChanges(h *hold, in, back error) {
	for _, c := range h.Drain() {
		if c.Extend != nil {
			sc.sendExtend(c) // the server says what became of it
		}
		if c.Enter != nil && !c.Left() && back != nil && h.Count() == 0 {
			if child := sc.requeue(h, entering(&c)); child != nil {
				sc.advance(child)
			}
			continue
		}
		if c.Enter != nil && c.Enter.Claim() {
			sc.fail(entering(&c), in)
		}
		if c.Leave == nil {
			continue
		}
		if back != nil {
			c.Handle.(*Lease).state.Store(leaseLost)
		}
		sc.released(leaving(&c), back)
	}
	sc.hasGone(h)
}

// Holds returns how often the owner holds a lock through this engine: a local question, no command.
// 0 after the lock was lost.
func (o *Owner) Holds(l *Lock) int {
	sc := l.eng.enter(l.hash)
	defer sc.leave()
	ent := sc.sh.names.get(l.hash, l.key)
	if traits(l.set.family).Shared {
		return int(ent.readsFor(o))
	}
	handles, now := int32(0), l.eng.clock.Now()
	for at := range ent.withChildren { // of several kinds, if one was taken away elsewhere and that is not known here yet
		h := at.hold
		if h != nil && h.owner == o && entersAs(h.Family, l.set.family) && h.Held() &&
			now.Before(h.Deadline()) {
			handles += h.Count()
		}
	}
	return int(handles)
}
