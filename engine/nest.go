package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A nesting sends what a counting decides. It exists only for holds that were ever entered twice.
type nesting struct {
	counting
	hold      *hold
	op        resp.Op
	item      wheel.Item
	flying    bool // op is on its way
	leaving   bool // the last handle is being given back: nobody enters by the hold any more
	unlowered bool // the last handle that was taken off has left the key's expiry as it was
}

func (h *hold) nest() *nesting {
	if h.nesting == nil {
		h.nesting = &nesting{hold: h}
		h.nesting.item.Owner = h.nesting
	}
	return h.nesting
}

// refuse answers an op that was not queued.
func refuse(op *acquireOp, err error, fx *effects) {
	if op.claim() {
		fx.fail(op, &nameError{op.lock.Name(), err})
	}
}

// sameKind reports whether one family's holder may enter as the other. A spin lock differs from a lock
// in what its release says, not in what it is.
func sameKind(a, b resp.Family) bool {
	plain := func(f resp.Family) bool { return f == resp.FamilyLock || f == resp.FamilySpin }
	return a == b || plain(a) && plain(b)
}

// enterLocked lets the hold's owner in once more.
func (e *Engine) enterLocked(sh *shard, h *hold, op *acquireOp, fx *effects) {
	n := h.nest()
	n.want(change{acquire: op})
	e.limitLocked(op)
	e.watchLocked(op, fx)
	e.nestLocked(sh, n, fx)
}

// leavesLocked takes an op that gave up out of the changes of the hold that it wanted to enter again, if it waits there. If
// replicas are waited for on its behalf, that ends: other changes wait behind it.
func (e *Engine) leavesLocked(ent *entry, op *acquireOp, fx *effects) {
	for at := range ent.root().withSeats {
		if h := at.hold; h != nil && h.nesting != nil && h.owner == op.owner {
			n := h.nesting
			n.leaves()
			if n.flying && n.cur.acquire == op && n.op.Ack != nil {
				e.takeBackLocked(&n.op, fx)
			}
		}
	}
}

// adoptLocked lets in those who wait in the queue for a lock their own owner has just been granted.
func (e *Engine) adoptLocked(sh *shard, h *hold, fx *effects) {
	if h.owner == nil && h.special == nil {
		return
	}
	root := h.ent.root()
	for op := root.head; op != nil; {
		next := op.next
		if op.owner != nil && (op.owner == h.owner || h.readsFor(op.owner) > 0) {
			root.unlink(op)
			e.ownedLocked(sh, root, op, fx)
		}
		op = next
	}
	for seat := root.firstSeat(); h.Family == resp.FamilyFair && seat != nil; {
		next := seat.nextSeat()
		for op := seat.head; op != nil; { // several, if they have come back from a hold that is over
			after := op.next
			if op.owner == h.owner {
				seat.unlink(op)
				e.ownedLocked(sh, root, op, fx)
			}
			op = after
		}
		e.idleLocked(sh, seat, fx)
		seat = next
	}
}

// nestLocked sends the next change, if none is on its way. It waits for what the owner asks to read beside
// the hold: whoever gives the hold back then goes on reading.
func (e *Engine) nestLocked(sh *shard, n *nesting, fx *effects) {
	h := n.hold
	for !h.readAsked() {
		if n.lowers.until != 0 {
			if until := n.heldBack(e.clock.Now()); until != 0 {
				e.timers.Schedule(&n.item, until)
				return
			}
		}
		c, next := h.nextChange()
		switch next {
		case countRest:
			if at := n.settleAt(); at == 0 {
				return
			} else if e.clock.Now().Before(at) {
				e.timers.Schedule(&n.item, at)
				return
			}
			n.want(change{settles: true})
			continue
		case countLeave:
			e.leaveLocked(sh, n, c, fx)
			return
		case countExtend:
			e.sendExtendLocked(c, fx)
			continue
		case countSend:
		}
		n.op = resp.Op{
			Kind: resp.OpCount, Family: h.Family, Key: h.ent.key, Hash: h.ent.hash, Slot: h.ent.slot, Field: h.Field, Sink: n,
			Count: n.target,
		}
		if c.acquire != nil {
			n.op.LeaseMs = c.acquire.set.lease.Milliseconds()
			h.asksLocked(c.acquire.set.lease)
		}
		if c.acquire != nil && c.acquire.set.replicas() > int(h.seen) {
			n.op.Ack = c.acquire.set.ack // they see the field, too: the grant was written before
		}
		sh.pending++
		n.sendLocked(e, sh, fx)
	}
}

func (n *nesting) sendLocked(e *Engine, sh *shard, fx *effects) {
	if n.cur.acquire == nil {
		n.lowerLocked(e)
	}
	n.flying = true
	if err := e.nodes.Submit(&n.op); err != nil {
		n.flying = false
		e.settledLocked(sh)
		n.failLocked(fromServer(e.nameOf(n.hold.ent.key), resp.AsServerError(err)), fx)
	}
}

// lowerLocked makes a change that takes a handle off lower the key's expiry to what the others ask for: nothing
// but that may lower it below what was trusted. So the hold is not trusted for longer from here on, before
// the command is sent. An Extend that is on its way may raise it again: then that is left until it is answered. Where
// nobody is left who asks for anything, the release follows.
func (n *nesting) lowerLocked(e *Engine) {
	h, now := n.hold, e.clock.Now()
	e.passLocked(h, now)
	keep := h.keep(now)
	if keep == 0 || h.special != nil && h.special.extends > 0 {
		n.op.Kind, n.op.LeaseMs, n.unlowered = resp.OpCount, 1, true
		return
	}
	n.unlowered = false
	if h.special != nil && h.special.extended.open(now) { // a late copy would raise it again: it is settled when none can run any more
		n.late.until = max(n.late.until, h.special.extended.until)
	}
	n.op.Kind, n.op.LeaseMs = resp.OpLeave, keep.Milliseconds()
	e.dog.Lower(h, renew.TrustUntil(now, keep))
}

// lease is the longest that the present change may keep the lock.
func (n *nesting) lease() time.Duration {
	return max(n.hold.Lease(), time.Duration(n.op.LeaseMs)*time.Millisecond)
}

// leaveLocked gives the last handle back. Whoever wanted in behind it waits in the queue again.
func (e *Engine) leaveLocked(sh *shard, n *nesting, c change, fx *effects) {
	var seats []*entry
	n.leaving = true
	for _, later := range n.queue {
		if op := later.acquire; op != nil && op.state.Load() == futurePending {
			if seat := e.goHomeLocked(sh, n.hold, op, fx); seat != nil {
				seats = append(seats, seat)
			}
		}
		if later.extend != nil {
			e.sendExtendLocked(later, fx)
		}
	}
	n.queue, n.leaving = nil, false
	release := c.release
	if release == nil {
		release = newReleaseOp(n.hold)
	}
	if c.since != 0 { // its caller's patience goes on
		release.troubledSince(c.since)
	}
	if c.lease != nil && e.handOverLocked(sh, n.hold, fx) {
		fx.released(release, nil)
	} else if answered, err := e.sendReleaseLocked(sh, release, fx); answered {
		fx.released(release, err)
	}
	for _, seat := range seats {
		e.kickLocked(sh, seat, fx)
	}
}

// goHomeLocked puts an op that wanted to enter again back into its queue: of a fair lock into a seat of its own, which
// it returns, for it is behind everybody who has asked. One whose owner goes on reading there would wait for itself, and
// one whose owner has lost another hold of the name would enter anew.
func (e *Engine) goHomeLocked(sh *shard, h *hold, op *acquireOp, fx *effects) (seat *entry) {
	at := h.ent.root()
	if e.ownedLocked(sh, at, op, fx) {
		return nil
	}
	if h.Family == resp.FamilyFair {
		seat = at.newSeat()
		op.moveTo(seat)
		at = seat
	}
	at.push(op)
	return seat
}

// due sends the change again, or one that was held back.
func (n *nesting) due(clock.Instant) {
	e := n.hold.ent.eng
	sh := e.shard(n.hold.ent.hash)
	var fx effects
	sh.mu.Lock()
	switch held := n.hold.status.Load() == holdHeld; {
	case n.flying:
	case held && n.busy:
		n.sendLocked(e, sh, &fx)
		e.nestLocked(sh, n, &fx) // if that was refused here
	case held:
		e.nestLocked(sh, n, &fx)
	case n.busy: // there is nothing to be changed any more
		n.busy = false
		e.settledLocked(sh)
	}
	sh.mu.Unlock()
	fx.run()
}

// Answered takes the server's answer. It runs on the lane.
func (n *nesting) Answered(_ *resp.Op, r *resp.Result) {
	h := n.hold
	e := h.ent.eng
	sh := e.shard(h.ent.hash)
	var fx effects
	var l *loss
	sh.mu.Lock()
	n.flying = false
	switch {
	case h.status.Load() != holdHeld: // Lost has answered everybody, or Close has
		n.busy = false
		e.settledLocked(sh)
	case r.Err != nil && n.againLocked(e, r, &fx):
	default:
		e.settledLocked(sh)
		switch {
		case r.Code == resp.CodeOurs:
			n.doneLocked(e, sh, r, &fx)
		case r.Code == resp.CodeCancelled: // who wanted in has left before it was sent
			n.take()
		case r.Err == nil:
			l = e.loseLocked(sh, h, renew.CauseNotOurs, &fx) // answers everybody
			n.busy = false
		default:
			n.failLocked(fromServer(e.nameOf(h.ent.key), r.Err), &fx)
		}
		if l == nil {
			e.nestLocked(sh, n, &fx)
		}
	}
	sh.mu.Unlock()
	e.world.Yield("nesting.Answered: decided | the loss and effects")
	e.tellLoss(sh, l, &fx)
	fx.run()
}

// doneLocked makes a confirmed change visible.
func (n *nesting) doneLocked(e *Engine, sh *shard, r *resp.Result, fx *effects) {
	h := n.hold
	in := n.cur.acquire
	lost := in != nil && h.ent.root().lostTo(in.owner) // while it asked, its owner began to give back what it has
	c, over := h.confirmed(r.SentAt), false
	if c.acquire != nil {
		if !h.Renewing() {
			e.wishesLocked(h) // with the end that is theirs, before it is raised for another
		}
		over = !e.dog.Extended(h, r.SentAt, c.acquire.set.lease)
	}
	h.seen = max(h.seen, int16(min(r.Seen, maxReplicas))) //nolint:gosec // in range
	switch {
	case n.unseenLocked(sh, c.acquire, r, fx):
		n.undo()
	case lost, over: // the watchdog is about to say so
		refuse(c.acquire, ErrLost, fx)
		n.undo()
	case c.acquire != nil && c.acquire.claim():
		op := c.acquire
		sh.counts.grants++
		ls := &Lease{hold: h, lock: op.lock, ctx: op.ctx, owner: op.owner}
		e.joinedLocked(h, ls, r.SentAt)
		fx.grant(op, ls)
	case c.acquire != nil: // it left while the answer was on its way: take the hold back
		n.undo()
	case c.release != nil:
		sh.counts.releases++
		fx.released(c.release, nil)
	}
}

// unseenLocked tells who wants in that too few replicas have seen it, if so.
func (n *nesting) unseenLocked(sh *shard, op *acquireOp, r *resp.Result, fx *effects) bool {
	if n.op.Ack == nil || int(r.Seen) >= n.op.Ack.Replicas || !op.claim() {
		return false
	}
	sh.counts.unseen++
	sh.counts.errors++
	fx.fail(op, notReplicated(op.lock.Name(), n.op.Ack, r))
	return true
}

// failLocked answers the present change with an error. The count on the wire is what it was: the
// error is definite. The hold is settled later.
func (n *nesting) failLocked(err error, fx *effects) {
	c := n.hold.refused(n.hold.ent.eng.clock.Now())
	switch {
	case c.acquire != nil && c.acquire.claim():
		fx.fail(c.acquire, err)
	case c.release != nil:
		fx.released(c.release, err)
	}
}

// settleLocked sets the count and the expiry of a hold's key to what its handles are.
func (e *Engine) settleLocked(sh *shard, h *hold, fx *effects) {
	n := h.nest()
	n.want(change{settles: true})
	e.nestLocked(sh, n, fx)
}

// Outlasted is the watchdog's word that a renewal may have come behind the command that lowered the key's expiry. A read hold
// is never lowered, nor is one that never changed.
func (e *Engine) Outlasted(s renew.Subject) {
	h := s.(*hold)
	sh := e.shard(h.ent.hash)
	var fx effects
	sh.mu.Lock()
	if h.status.Load() == holdHeld && h.Family != resp.FamilyRead && h.nesting != nil {
		e.settleLocked(sh, h, &fx)
	}
	sh.mu.Unlock()
	fx.run()
}

// lessReadLocked follows the end of what somebody may have read under a key: if a writer of this engine has the lock, its
// key lives for as long as that one asks for from now on. asked is for how long the reader did.
func (e *Engine) lessReadLocked(sh *shard, ent *entry, asked time.Duration, fx *effects) {
	w := ent.hold
	if w == nil || w.Family != resp.FamilyWrite || w.status.Load() != holdHeld {
		return
	}
	now := e.clock.Now()
	e.passLocked(w, now)
	if keep := w.keep(now); keep != 0 && keep < asked {
		e.settleLocked(sh, w, fx)
	}
}

// againLocked schedules another sending, and tells callers who have waited long enough that the outcome is unknown: of
// this change, and of those that wait behind it. The change itself goes on until its answer is definite or the hold is
// over.
func (n *nesting) againLocked(e *Engine, r *resp.Result, fx *effects) bool {
	now := e.clock.Now()
	limit := e.nodes.AttemptLimit()
	again := n.failed(r.Definite(), r.Err.Class.Transient(), r.SentAt, now, limit, n.lease())
	if !r.Definite() && n.op.Kind == resp.OpLeave {
		n.lowered(r.SentAt, now, limit, time.Duration(n.op.LeaseMs)*time.Millisecond)
	}
	if !again || e.draining.Load() {
		return false
	}
	n.tellOverdueLocked(e, now, r.Err, fx)
	e.timers.Schedule(&n.item, e.resendAt(n.op.Slot, now, n.tries))
	return true
}

// behindLocked follows a failure of what the owner asks to read beside the hold: changes of the hold wait for its answer.
func (n *nesting) behindLocked(e *Engine, now clock.Instant, cause *resp.ServerError, fx *effects) {
	if n.busy {
		return
	}
	n.waitsBehind(now)
	n.tellOverdueLocked(e, now, cause, fx)
}

// tellOverdueLocked tells callers who have waited long enough that the outcome is unknown.
func (n *nesting) tellOverdueLocked(e *Engine, now clock.Instant, cause *resp.ServerError, fx *effects) {
	err := &UnknownError{Name: e.nameOf(n.hold.ent.key), FreeBy: e.clock.Wall(n.hold.freeBy()), cause: cause}
	for _, c := range n.overdue(now, patience*e.nodes.AttemptLimit()) {
		switch {
		case c.acquire != nil && c.acquire.claim():
			fx.fail(c.acquire, err)
		case c.release != nil:
			fx.released(c.release, err)
		case c.extend != nil:
			fx.more = append(fx.more, func() { c.extend.ends(struct{}{}, err) })
		}
	}
}

// endChangesLocked answers everybody who waits for a change of the hold, for it is over: those who want in
// with one error, those who give back with another. But if it was lost when its owner had given every handle back,
// there is nothing to be given back first, and who wants in waits in the queue again.
func (h *hold) endChangesLocked(in, back error, fx *effects) {
	e := h.ent.eng
	for _, c := range h.drain() {
		if c.extend != nil {
			e.sendExtendLocked(c, fx) // the server says what became of it
		}
		if c.acquire != nil && !c.left() && back != nil && h.count == 0 {
			sh := e.shard(h.ent.hash)
			if seat := e.goHomeLocked(sh, h, c.acquire, fx); seat != nil {
				e.kickLocked(sh, seat, fx)
			}
			continue
		}
		if c.acquire != nil && c.acquire.claim() {
			fx.fail(c.acquire, in)
		}
		if c.release == nil {
			continue
		}
		if back != nil {
			c.lease.state.Store(leaseLost)
		}
		fx.released(c.release, back)
	}
}
