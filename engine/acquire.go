package engine

import (
	"context"

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
	watched    bool // it sees the end of MaxWait and of ctx, or is about to
	watch      *watching
	att        attempt // used while the op is first
}

// watching is what an op needs only once it has to wait.
type watching struct {
	item   wheel.Item    // MaxWait
	giveUp clock.Instant // when MaxWait ends; 0: never
	stop   func() bool   // ends the watch of ctx
	at     *entry        // where the op waits, if its attempt is still on its way elsewhere
}

func (op *acquireOp) runner() *callbacks { return op.lock.eng.callbacks }

// finish publishes the result of a claimed op.
func (op *acquireOp) finish() {
	if w := op.watch; w != nil {
		op.lock.eng.callbacks.unwatch(op.ctx, w.stop)
		op.lock.eng.timers.Cancel(&w.item)
	}
	op.publish(op.value, op.err)
}

// abandon gives the op up with err: by Cancel, the end of its ctx, MaxWait or Close. The compare-
// and-swap in claim decides against a grant that arrives at the same moment; the loser does nothing.
func (op *acquireOp) abandon(err error) bool {
	e := op.lock.eng
	sh := e.shard(op.lock.hash)
	sh.telling.Add(1)
	defer e.told(sh)
	if !op.claim() {
		return false
	}
	var fx effects
	sh.mu.Lock()
	switch ent := e.entryOf(sh, op); {
	case ent == nil:
	case op.queued:
		e.doLocked(sh, ent, ent.leave(op), &fx)
		e.closeNoteLocked(sh, ent)
		if !ent.acksSuit() {
			e.takeBackLocked(&ent.att.op, &fx)
		}
	case op.owner != nil:
		e.leavesLocked(ent, op, &fx)
	}
	op.err = err
	sh.mu.Unlock()
	e.world.Yield("acquireOp.abandon: unlinked | told")
	op.finish()
	fx.run()
	return true
}

// due is MaxWait's end.
func (op *acquireOp) due(now clock.Instant) {
	err := op.lock.eng.waitedError(op, now)
	op.lock.eng.world.Yield("acquireOp.due: the error made | abandoned")
	op.abandon(err)
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
	case ent != nil && ent.otherKind(op.set.family, e.clock.Now()):
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
		behind := ent.head != nil || ent.att != nil
		ent.push(op)
		e.limitLocked(op)
		if behind { // else it is sent now, or rests: doLocked sees to that
			e.watchLocked(op, &fx)
		}
		e.kickLocked(sh, ent, &fx)
	}
	fx.owe(e, sh)
	sh.mu.Unlock()
	e.world.Yield("Engine.submit: queued, sent | effects")
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

// soonOver is how long it may take until the engine's own look finds what is overdue: two ticks, each as late as
// a timer may be.
const soonOver = 2 * (tickEvery + timerWidth)

// limitLocked notes when an op's MaxWait ends. Everyone who may have to wait for an answer is limited: who
// queues, and who enters again. A timer is armed when the op is known to wait, for most are answered at once; but
// at once where MaxWait is over before that could be noticed.
func (e *Engine) limitLocked(op *acquireOp) {
	if op.set.maxWait <= 0 || op.try || op.watch != nil && op.watch.giveUp != 0 {
		return
	}
	if op.watch == nil {
		op.watch = &watching{}
	}
	op.watch.giveUp = e.clock.Now().Add(op.set.maxWait)
	if op.set.maxWait <= soonOver {
		e.armLocked(op)
	}
}

// armLocked has an op's MaxWait end it.
func (e *Engine) armLocked(op *acquireOp) {
	if w := op.watch; w != nil && w.giveUp != 0 {
		w.item.Owner = op
		e.timers.Schedule(&w.item, w.giveUp)
	}
}

// watchLocked makes an op that has to wait see the end of MaxWait, and that of its ctx once the mutex is
// free.
func (e *Engine) watchLocked(op *acquireOp, fx *effects) {
	if op.watched {
		return
	}
	op.watched = true
	e.armLocked(op)
	if op.async {
		fx.look(op)
	}
}

// watchContext makes a waiting op see the end of its ctx. That may be code of others, so no mutex is held, and callbacks.ask
// says where it runs. Meanwhile the op may have been claimed, by a grant for instance. Who claims it takes the
// mutex before finish ends the watch: either that was after the note here, or the claim is seen here.
func (op *acquireOp) watchContext() {
	e := op.lock.eng
	defer e.callbacks.contain()
	if op.ctx.Done() == nil {
		return
	}
	stop := e.world.AfterFunc(op.ctx, func() {
		defer e.callbacks.contain()
		op.abandon(op.ctx.Err())
	})
	e.world.Yield("acquireOp.watchContext: watched | noted")
	sh := e.shard(op.lock.hash)
	sh.mu.Lock()
	waits := op.state.Load() == futurePending
	if waits && op.watch == nil {
		op.watch = &watching{}
	}
	if waits {
		op.watch.stop = stop
	}
	sh.mu.Unlock()
	if !waits {
		stop()
	}
}

// kickLocked does what the queue says is next: it sends an acquire unless something stands against it.
func (e *Engine) kickLocked(sh *shard, ent *entry, fx *effects) {
	e.doLocked(sh, ent, ent.next(), fx)
}

// doLocked takes a step of the queue, and those that follow from it. Unless its acquire is on its way, the first is
// watched: it has to wait, whatever for. Those behind it are since they came.
func (e *Engine) doLocked(sh *shard, ent *entry, s step, fx *effects) {
	for ; s == stepSend; s = ent.next() {
		if a := ent.att; a != nil && a.kept() && !sameKind(a.op.Family, ent.head.set.family) {
			e.dropAttemptLocked(sh, ent) // a reader's wire id is no writer's
			continue
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
	if ent.head != nil && ent.ask != askFlying {
		e.watchLocked(ent.head, fx)
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
		e.takeBackLocked(&ent.att.op, fx) // answered in any case
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
		e.readAnsweredLocked(sh, ent, fx)
		e.idleLocked(sh, root, fx)
	} else {
		sh.names.remove(ent)
	}
}

// takeBackLocked takes a command back that is on its way, and nobody wants any more: if it was not sent, or if replicas are
// waited for.
func (e *Engine) takeBackLocked(op *resp.Op, fx *effects) {
	if !op.Cancel() && op.Ack != nil {
		fx.more = append(fx.more, func() { e.nodes.Unwait(op) })
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
	e.endParkingLocked(ent, fx)
}

// endParkingLocked gives back what a queue that waits has of the world.
func (e *Engine) endParkingLocked(ent *entry, fx *effects) {
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
