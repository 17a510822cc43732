package engine

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// patience is how long an operation that has never had an answer goes on trying through transient
// trouble, in attempt limits. One that was told "busy" before waits as long as it may.
const patience = 3

// An acquireOp is one caller's wish for a lock: a future, and its place in the name's queue.
type acquireOp struct {
	Future[*Lease]
	lock  *Lock
	owner *Owner          // nil: nobody
	set   *settings       // lock's: thousands of handles share one, so it is in cache where the handle is not
	ctx   context.Context //nolint:containedctx // the caller's, for the values of the lease's context
	try   bool
	async bool // nobody selects on ctx: the engine watches it when the op has to wait

	// Guarded by the shard.
	next, prev *acquireOp
	queued     bool
	parked     bool // was told "busy"
	watch      *watching
	att        attempt // used while the op is first
}

// watching is what an op needs only once it has to wait.
type watching struct {
	item   wheel.Item    // MaxWait
	giveUp clock.Instant // when MaxWait ends; 0: never
	on     bool
	stop   func() bool // ends the watch of ctx
}

func (op *acquireOp) runner() *callbacks { return op.lock.eng.callbacks }

// finish publishes the result of a claimed op.
func (op *acquireOp) finish() {
	if w := op.watch; w != nil {
		if w.stop != nil {
			w.stop()
		}
		op.lock.eng.timers.Cancel(&w.item)
	}
	op.publish(op.value, op.err)
}

// abandon gives the op up with err: by Cancel, the end of its ctx, MaxWait or Close. The compare-
// and-swap in claim decides against a grant that arrives at the same moment; the loser does nothing.
func (op *acquireOp) abandon(err error) bool {
	if !op.claim() {
		return false
	}
	e := op.lock.eng
	sh := e.shard(op.lock.hash)
	var fx effects
	sh.mu.Lock()
	if ent := e.entryOf(sh, op); ent != nil && op.queued {
		ent.unlink(op)
		e.idleLocked(sh, ent, &fx)
	}
	op.err = err
	sh.mu.Unlock()
	op.finish()
	fx.run()
	return true
}

// due is MaxWait's end.
func (op *acquireOp) due(now clock.Instant) {
	op.abandon(op.lock.eng.heldError(op, now))
}

// heldError says how long the present holder's lease lasts, as far as this engine knows.
func (e *Engine) heldError(op *acquireOp, now clock.Instant) error {
	sh := e.shard(op.lock.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ent := e.entryOf(sh, op)
	return &HeldError{Name: op.lock.Name(), Remaining: remainingLocked(ent, now)}
}

func remainingLocked(ent *entry, now clock.Instant) time.Duration {
	switch {
	case ent == nil:
		return 0
	case ent.hold != nil:
		return max(ent.hold.Deadline().Sub(now), 0)
	case ent.wait == waitNot:
		return 0
	case ent.busyUntil == 0:
		return -1
	default:
		return max(ent.busyUntil.Sub(now), 0)
	}
}

// submit puts an op into its name's queue and sends an acquire if nothing stands against it.
// Blocks: never. Sends at most one command; none behind a trusted local hold.
func (e *Engine) submit(op *acquireOp) {
	l := op.lock
	sh := e.shard(l.hash)
	var fx effects
	sh.mu.Lock()
	switch ent := sh.names.get(l.hash, l.key); {
	case e.closing.Load():
		op.claim()
		fx.fail(op, ErrClosed)
	case op.owner != nil && e.ownedLocked(sh, ent, op, &fx):
	case ent != nil && ent.otherKind(op.set.family):
		refuse(op, ErrWrongKind, &fx)
	case op.set.family == resp.FamilyRead && e.shareLocked(sh, ent, op, &fx):
	case op.try && ent != nil && ent.takenHere(op):
		op.claim()
		fx.fail(op, &HeldError{Name: l.Name(), Remaining: remainingLocked(ent.busyAt(op), e.clock.Now())})
		sh.counts.busy++
	default:
		ent = e.entryLocked(sh, l)
		if op.set.family == resp.FamilyFair {
			ent = ent.newSeat()
			op.att.ent = ent
		}
		behind := ent.closed()
		ent.push(op)
		if op.set.maxWait > 0 && !op.try {
			op.watch = &watching{giveUp: e.clock.Now().Add(op.set.maxWait)}
		}
		if behind {
			e.watchLocked(op)
		}
		e.kickLocked(sh, ent, &fx)
	}
	sh.mu.Unlock()
	fx.run()
}

// entryLocked finds the entry of a name, or makes it.
func (e *Engine) entryLocked(sh *shard, l *Lock) *entry {
	ent := sh.names.get(l.hash, l.key)
	if ent == nil {
		if f := l.set.family; f == resp.FamilyRead || f == resp.FamilyFair {
			ent = newSeated(e, l.key, l.hash, l.slot)
		} else {
			ent = &entry{eng: e, key: l.key, hash: l.hash, slot: l.slot}
		}
		sh.names.put(ent)
	}
	return ent
}

// watchLocked makes an op that has to wait see the end of its ctx and of MaxWait.
func (e *Engine) watchLocked(op *acquireOp) {
	w := op.watch
	if w == nil {
		if !op.async || op.ctx.Done() == nil {
			return
		}
		w = &watching{}
		op.watch = w
	}
	if w.on {
		return
	}
	w.on = true
	if w.giveUp != 0 {
		w.item.Owner = op
		e.timers.Schedule(&w.item, w.giveUp)
	}
	if op.async && op.ctx.Done() != nil {
		w.stop = context.AfterFunc(op.ctx, func() { op.abandon(op.ctx.Err()) })
	}
}

// kickLocked does what the queue says is next: it sends an acquire unless something stands against it.
func (e *Engine) kickLocked(sh *shard, ent *entry, fx *effects) {
	e.doLocked(sh, ent, ent.next(), fx)
}

// doLocked takes a step of the queue, and those that follow from it.
func (e *Engine) doLocked(sh *shard, ent *entry, s step, fx *effects) {
	for ; s == stepSend; s = ent.next() {
		if a := ent.att; a != nil && a.kept() && !sameKind(a.op.Family, ent.head.set.family) {
			e.dropAttemptLocked(sh, ent) // a reader's wire id is no writer's
		}
		err := ent.asking(ent).send(ent.head)
		if err == nil {
			ent.sent()
			sh.pending++
			return
		}
		if ent.refused() == stepPark {
			s = stepPark
			break
		}
		e.dropAttemptLocked(sh, ent)
		op := ent.head
		ent.unlink(op)
		if op.claim() {
			fx.fail(op, fromServer(op.lock.Name(), resp.AsServerError(err)))
		}
	}
	switch s {
	case stepPark:
		e.parkLocked(ent, e.clock.Now(), fx)
	case stepTidy:
		e.idleLocked(sh, ent, fx)
	}
}

// idleLocked tidies an entry nobody waits in, and takes it out of the table if nothing is left.
func (e *Engine) idleLocked(sh *shard, ent *entry, fx *effects) {
	if !ent.deserted() {
		return
	}
	e.unparkLocked(ent, fx)
	e.closeNoteLocked(sh, ent)
	switch ent.ask {
	case askNot:
	case askFlying:
		ent.att.op.Cancel() // answered in any case
	default:
		e.dropAttemptLocked(sh, ent)
	}
	if !ent.empty() || ent.gone || ent.firstSeat() != nil && ent.root() == ent {
		return
	}
	ent.gone = true
	if root := ent.root(); root != ent {
		ent.leaveRoot()
		e.fairListenLocked(root, fx)
		e.idleLocked(sh, root, fx)
	} else {
		sh.names.remove(ent)
	}
}

// dropAttemptLocked forgets an attempt that is not on its way. If a copy of it may still run, what
// it takes is released.
func (e *Engine) dropAttemptLocked(sh *shard, ent *entry) {
	a := ent.att
	ent.settled()
	if a.trouble != nil {
		e.timers.Cancel(&a.trouble.item)
	}
	if a.kept() {
		e.cleanLocked(sh, ent, a.wire(), a.open(), a.lease)
	}
}

// unparkLocked ends the waiting for somebody else's release.
func (e *Engine) unparkLocked(ent *entry, fx *effects) {
	ent.unpark()
	p := ent.park
	if p == nil {
		return
	}
	ent.park = nil
	e.timers.Cancel(&p.item)
	e.prompt.Cancel(&p.prompt)
	if p.sub != nil {
		fx.forget(p.sub)
		p.sub = nil
	}
}
