package engine

import (
	"errors"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// watching is what an op needs only once it has to wait.
type watching struct {
	item   wheel.Item[timed] // MaxWait
	giveUp clock.Instant     // when MaxWait ends; 0: never
	stop   func() bool       // ends the watch of ctx
	at     *entry            // where the op waits, if its attempt is still on its way elsewhere
	traced *tracing          // mostly nil: nobody wants spans
}

// heldError says that what it wants is not free: at is where somebody keeps it out, as far as known.
func (sc *section) heldError(op *acquireOp, at *entry, now clock.Instant) error {
	switch f := traits(op.set.family); {
	case f.Many, f.Serves == lockstate.ServesSome:
		return &NoPermitsError{Name: op.lock.Name(), Wanted: int(op.set.Units)}
	case f.meets:
		return &nameError{op.lock.Name(), errLeftBarrier}
	case f.Serves == lockstate.ServesAll:
		return &nameError{op.lock.Name(), ErrNotOpen}
	default:
		err := &HeldError{Name: op.lock.Name(), Remaining: sc.remaining(at, now), last: at.lastError()}
		if h := at.inTheWay(op); h != nil {
			err.Holder, err.here, err.last = h.ownerID(), true, nil
		} else {
			err.Holder = at.holderElsewhere()
		}
		return err
	}
}

// inTheWay is a hold of this engine that keeps an op out, if it is known to: of the values of a group it is not.
func (ent *entry) inTheWay(op *acquireOp) *hold {
	switch {
	case ent == nil:
		return nil
	case ent.standing() != nil:
		return ent.hold
	}
	for at := range ent.root().withChildren {
		h := at.standing()
		if h != nil && !together(h.Family, op.set.family) && !traits(h.Family).counted() && !traits(h.Family).parts {
			return h
		}
	}
	return nil
}

// endedError is what an op is told whose ctx has ended. A Try waits for nobody: what is known of a holder is no answer
// to it, but what it was told itself is.
func (op *acquireOp) endedError(cause error) error {
	state := op.waitedError(op.lock.eng.clock.Now())
	if op.Try && !op.AsksAgain() && errors.Is(state, ErrHeld) {
		state = &UnknownError{Name: op.lock.Name(), cause: errNoAnswer}
	}
	return &WaitError{op.lock.Name(), cause, state}
}

func (op *acquireOp) runner() *callback.Pool { return op.lock.eng.callbacks }

func (op *acquireOp) awaitEnded(cause error) error {
	return leftBehind(op.lock.Name(), cause, leftAcquire)
}

// finish publishes the result of a claimed op.
func (op *acquireOp) finish() {
	if w := op.watch; w != nil {
		op.lock.eng.callbacks.Unwatch(op.ctx, w.stop)
		op.lock.eng.timers.Cancel(&w.item)
		op.traceEnd()
	}
	op.publish(op.value, op.err)
}

// abandon gives the op up with err: by Cancel, the end of its ctx, MaxWait or Close. The compare-
// and-swap in claim decides against a grant that arrives at the same moment; the loser does nothing.
func (op *acquireOp) abandon(err error) bool {
	by := endByContext
	if errors.Is(err, ErrCancelled) {
		by = endByCancel
	}
	return op.abandonBy(err, by)
}

func (op *acquireOp) abandonBy(err error, by ending) bool {
	e := op.lock.eng
	sh := e.shard(op.lock.hash)
	// Close may not return before this future is told: its claim comes first, and the section after it.
	sh.telling.Add(1)
	defer e.told(sh)
	if !op.claim() {
		return false
	}
	sc := e.enterShard(sh)
	sc.gaveUp(op, by)
	if op.Try && errors.Is(err, ErrHeld) { // it was to ask again
		sc.refusedTry(op)
	}
	switch ent := sc.entryOf(op); {
	case ent == nil:
	case op.Queued():
		sc.partyLeaves(ent, op, true)
		sc.applyStep(ent, ent.Leave(&op.Waiter))
		sc.closeNote(ent)
		// The acquire on its way asks for what only this op wanted.
		if !ent.AcksSuit() {
			sc.takeBack(&ent.Attempt().op)
		}
	case op.lease.owner != nil:
		sc.leaveReentry(ent, op)
	}
	op.err = err
	sc.unlock()
	e.world.Yield("acquireOp.abandon: unlinked | told")
	op.finish()
	sc.publish()
	return true
}

// Scheduled is its place among the timers.
func (op *acquireOp) Scheduled() *wheel.Item[timed] { return &op.watch.item }

// due is MaxWait's end.
func (op *acquireOp) due(now clock.Instant) {
	err := op.waitedError(now)
	op.lock.eng.world.Yield("acquireOp.due: the error made | abandoned")
	op.abandonBy(err, endByMaxWait)
}

// submit puts an op into its name's queue and sends an acquire if nothing stands against it.
// Blocks: never. Sends at most one command; none behind a trusted local hold. A caller that waits for the result leads
// a lane that nobody has.
func (e *Engine) submit(op *acquireOp, leads bool) resp.Lead {
	l := op.lock
	sc := e.enter(l.hash)
	sc.leads = leads
	switch ent := sc.sh.names.get(l.hash, l.key); {
	case e.closing.Load():
		op.claim()
		sc.fail(op, ErrClosed)
	// Not by the queue of the name, as far as what is held here decides.
	case op.lease.owner != nil && sc.reenterOrRefuse(ent, op):
	case sc.takeLingering(ent, op):
	case ent != nil && ent.isOtherKind(op.set.family, e.clock.Now()):
		sc.refuse(op, ErrWrongKind)
	case traits(op.set.family).Shared && sc.share(ent, op):
	case op.Try && ent != nil && ent.takenHere(op):
		sc.refuseTry(op, ent.busyAt(op))
	default:
		// With it: behind whoever waits here already.
		ent = sc.makeEntry(l)
		sc.queuesBehind(ent, ent.busyAt(op), op)
		if traits(op.set.family).Mark == lockstate.MarkPlace {
			if op.Try {
				ent.restsBehind()
			} else {
				sc.refuseResting(ent)
			}
			ent = ent.newChild()
			op.att.ent = ent
		}
		behind := ent.First() != nil || ent.Attempt() != nil
		ent.Push(&op.Waiter)
		sc.limitWait(op)
		if traits(op.set.family).Serves == lockstate.ServesAll && ent.Parked() {
			sc.wake(ent.wakeups(), func(*counts) {}, lockstate.WakeLook) // what those who wait know is nothing to it
		}
		if behind { // else it is sent now, or rests: applyStep sees to that
			sc.watchWait(op)
		}
		sc.advance(ent)
	}
	// A refusal may have let others go: their results are this call's to tell.
	sc.owe()
	sc.leaveAt("Engine.submit: queued, sent | effects")
	return sc.lead
}

// takenHere reports whether a Try can be answered at once. Behind a hold that its owner is giving back, handle after
// handle, it goes as it does behind a release.
func (ent *entry) takenHere(op *acquireOp) bool {
	switch {
	case ent.busyAt(op) != ent:
		return true
	case ent.leavingHold() != nil:
		return ent.Live() != nil
	default:
		return ent.RefusesTry()
	}
}

// leavingHold is the hold that keeps others out, if its last handle is on its way back, and nothing holds that
// up: a change that failed is sent again for as long as the hold lasts, and an owner that goes on reading waits for
// that answer.
func (ent *entry) leavingHold() *hold {
	h := ent.standing()
	if h == nil || !h.Leaving() || h.downgradeAsked() {
		return nil
	}
	if n := h.reentry(); n.Tries() > 0 || n.LowersUntil() != 0 {
		return nil
	}
	return h
}

// restsBehind has a Try of a fair lock rest until the hold is over whose last handle is on its way back: it stands in
// another child.
func (ent *entry) restsBehind() {
	for child := ent.firstChild(); child != nil; child = child.nextChild() {
		if h := child.leavingHold(); h != nil && !h.reentry().awaited {
			h.reentry().awaited = true
			ent.LeaveBegun()
		}
	}
}

// refuseBehind refuses those who rest behind the last handle of a hold: it is held up.
func (sc *section) refuseBehind(h *hold) {
	if traits(h.Family).Mark != lockstate.MarkPlace {
		sc.refuseTries(h.ent, h.Family, true, sc.eng.clock.Now())
		return
	}
	for child := h.ent.root().firstChild(); child != nil && h.reentry().awaited; {
		next := child.nextChild()
		if op := child.head(); op != nil && op.Try && child.Attempt() == nil {
			child.Unlink(&op.Waiter)
			sc.refuseTry(op, h.ent)
			sc.tidy(child)
		}
		child = next
	}
	sc.hasGone(h)
}

// refuseResting follows that somebody is about to wait for a fair lock, and asks now: who only tries gives way,
// else both would come to the queue on the server when every handle is back.
func (sc *section) refuseResting(root *entry) {
	if !root.Resting() {
		return
	}
	for child := root.firstChild(); child != nil; child = child.nextChild() {
		if h := child.standing(); h != nil && h.reentry() != nil && h.reentry().awaited {
			sc.refuseBehind(h)
			return
		}
	}
}

// hasGone lets those go on who have waited for the end of a hold.
func (sc *section) hasGone(h *hold) {
	if n := h.reentry(); n != nil && n.awaited {
		n.awaited = false
		if root := h.ent.root(); root.LeaveEnded() {
			sc.advanceChildren(root)
		}
	}
}

// busyAt is where it is known how long whoever is in the way of a newcomer stays. To a fair lock that is the
// first child which has it or waits for it: a Try never overtakes. Behind a release it goes as any other.
func (ent *entry) busyAt(op *acquireOp) *entry {
	if traits(op.set.family).Mark != lockstate.MarkPlace {
		return ent
	}
	for child := ent.firstChild(); child != nil; child = child.nextChild() {
		if child.standing() != nil && child.leavingHold() == nil || child.First() != nil {
			return child
		}
	}
	return ent
}

// refuseTry tells one who only tried that what it wants is not free.
func (sc *section) refuseTry(op *acquireOp, at *entry) {
	if op.claim() {
		sc.refusedTry(op)
		sc.fail(op, sc.heldError(op, at, sc.eng.clock.Now()))
	}
}

// makeEntry finds the entry of a name, or makes it.
func (sc *section) makeEntry(l *Lock) *entry {
	ent := sc.sh.names.get(l.hash, l.key)
	if ent == nil {
		if traits(l.set.family).apart() {
			ent = newParent(sc.eng, l.key, l.hash, l.slot)
		} else {
			ent = &entry{eng: sc.eng, key: l.key, hash: l.hash, slot: l.slot}
		}
		ent.class = l.class
		ent.wide = sc.eng.nodes.Wide() && !traits(l.set.family).called()
		sc.sh.names.put(ent)
	}
	return ent
}

// soonOver is how long it may take until the engine's own look finds what is overdue: two ticks, each as late as
// a timer may be.
const soonOver = 2 * (tickEvery + timerWidth)

// limitWait notes when an op's MaxWait ends. Everyone who may have to wait for an answer is limited: who
// queues, and who enters again. A timer is armed when the op is known to wait, for most are answered at once; but
// at once where MaxWait is over before that could be noticed.
func (sc *section) limitWait(op *acquireOp) {
	if op.set.maxWait <= 0 || op.Try || op.watch != nil && op.watch.giveUp != 0 {
		return
	}
	if op.watch == nil {
		op.watch = &watching{}
	}
	op.watch.giveUp = sc.eng.clock.Now().Add(op.set.maxWait)
	if op.set.maxWait <= soonOver {
		sc.armLimit(op)
	}
}

// armLimit has an op's MaxWait end it.
func (sc *section) armLimit(op *acquireOp) {
	if w := op.watch; w != nil && w.giveUp != 0 {
		sc.eng.timers.Schedule(op, w.giveUp)
	}
}

// watchWait makes an op that has to wait see the end of MaxWait, and that of its ctx once the mutex is
// free.
func (sc *section) watchWait(op *acquireOp) {
	if op.Watched {
		return
	}
	op.Watched = true
	sc.armLimit(op)
	if op.Async {
		sc.look(op)
	}
}

// watchContext makes a waiting op see the end of its ctx. That may be code of others, so no mutex is held, and
// callback.Pool.Ask says where it runs. Meanwhile the op may have been claimed, by a grant for instance. Who claims it
// takes the mutex before finish ends the watch: either that was after the note here, or the claim is seen here.
func (op *acquireOp) watchContext() {
	e := op.lock.eng
	defer e.callbacks.Contain()
	if op.ctx.Done() == nil {
		return
	}
	stop := e.world.AfterFunc(op.ctx, func() {
		defer e.callbacks.Contain()
		op.abandon(op.endedError(op.ctx.Err()))
	})
	e.world.Yield("acquireOp.watchContext: watched | noted")
	sc := e.enter(op.lock.hash)
	waits := op.state.Load() == futurePending
	if waits && op.watch == nil {
		op.watch = &watching{}
	}
	if waits {
		op.watch.stop = stop
	}
	sc.leave()
	if !waits {
		stop()
	}
}

// beginAsking is the acquire that is to be sent: the one whose owner id is kept, or the first's own.
func (ent *entry) beginAsking() *attempt {
	if a := ent.Attempt(); a != nil {
		return a
	}
	a := ent.head().attemptFor(ent)
	a.ent, a.retry, a.op.Placed, a.op.Field = ent, nil, false, ""
	ent.Begin(a)
	return a
}

// attemptFor is what an op asks by for an entry: its own attempt, unless that is still on its way for another
// entry, where the op waited before.
func (op *acquireOp) attemptFor(ent *entry) *attempt {
	if at := op.att.ent; at != nil && at != ent && at.Attempt() == &op.att {
		return &attempt{}
	}
	return &op.att
}

// advance does what the queue says is next: it sends an acquire unless something stands against it.
func (sc *section) advance(ent *entry) {
	sc.applyStep(ent, ent.Next())
}

// applyStep takes a step of the queue, and those that follow from it. Unless its acquire is on its way, the first is
// watched: it has to wait, whatever for. Those behind it are since they came.
func (sc *section) applyStep(ent *entry, s lockstate.Step) {
	// Send. Who cannot be sent leaves the queue, and the next one is tried.
	for ; s == lockstate.StepSend; s = ent.Next() {
		if a := ent.Attempt(); a != nil && a.kept() && !a.fits(ent.head()) {
			sc.dropAttempt(ent) // a reader's owner id is no writer's, and so many ids are no more permits
			continue
		}
		err := sc.send(ent.beginAsking(), ent.head())
		if err == nil {
			ent.Sent()
			sc.sh.pending++
			if ent.children() != nil && ent.children().since != 0 && ent.acks() {
				sc.fairListen(ent.root())
			}
			return
		}
		// Too much waits for the server: a waiter polls later, a newcomer is told.
		if ent.Refused() == lockstate.StepPark {
			s = lockstate.StepPark
			break
		}
		sc.dropAttempt(ent)
		op := ent.head()
		ent.Unlink(&op.Waiter)
		sc.partyLeaves(ent, op, false)
		if op.claim() {
			sc.fail(op, fromServer(op.lock.Name(), resp.AsServerError(err)))
		}
	}
	if ent.First() != nil && !ent.InFlight() {
		sc.watchWait(ent.head())
	}
	// Or wait, or leave nothing behind.
	switch s {
	case lockstate.StepPark:
		sc.park(ent, sc.eng.clock.Now())
	case lockstate.StepTidy:
		sc.tidy(ent)
	}
}

// tidy tidies an entry nobody waits in, and takes it out of the table if nothing is left.
func (sc *section) tidy(ent *entry) {
	if !ent.Deserted() {
		return
	}
	sc.unpark(ent)
	sc.closeNote(ent)
	// What nobody waits for is not asked any more.
	switch {
	case !ent.Asked():
	case ent.InFlight():
		a := ent.Attempt()
		if taken := sc.takeBack(&a.op); !taken || a.kept() { // answered in any case
			ent.leaves()
		}
	default:
		sc.dropAttempt(ent)
	}
	if !ent.Empty() || ent.gone || ent.firstChild() != nil && ent.root() == ent {
		return
	}
	// Nothing goes on here: a later caller makes an entry of its own.
	ent.gone = true
	if root := ent.root(); root != ent {
		ent.detach()
		sc.fairListen(root)
		sc.downgradeAnswered(ent)
		sc.tidy(root)
	} else {
		sc.sh.names.remove(ent)
	}
}

// leaves notes that a waiter of a fair lock has left while its acquire is on its way. That may find the lock, or take a
// place in its queue, which is given back only after its answer; a Try of this engine waits for it.
//
// Not where it asks for replicas: it may stand behind those that others of the same connection wait for.
func (ent *entry) leaves() {
	op := &ent.Attempt().op
	if traits(op.Family).Mark == lockstate.MarkPlace && op.Ack == nil && !ent.children().leaves {
		ent.children().leaves = true
		ent.LeaveBegun()
	}
}

// hasLeft lets others go on after that answer.
func (sc *section) hasLeft(ent, root *entry) {
	all := ent.children()
	if all == nil || !all.leaves {
		return
	}
	all.leaves = false
	if ent.LeaveEnded() {
		sc.advanceChildren(root)
	}
}

// takeBack takes a command back that is on its way, and nobody wants any more: if it was not sent, which it reports, or
// if replicas are waited for.
func (sc *section) takeBack(op *resp.Op) (unsent bool) {
	e := sc.eng
	if unsent = op.Cancel(); !unsent && op.Ack != nil {
		sc.more = append(sc.more, func() { e.nodes.Unwait(op) })
	}
	return unsent
}

// dropAttempt forgets an attempt that is not on its way. If a copy of it may still run, what
// it takes is released.
func (sc *section) dropAttempt(ent *entry) {
	a := ent.Attempt()
	ent.Settled()
	if a.retry != nil {
		sc.eng.timers.Cancel(&a.retry.item)
	}
	if a.kept() && traits(a.op.Family).Serves != lockstate.ServesAll { // that takes nothing
		sc.clean(ent, a.lockRef(), a.indeterminate(), a.lease())
	}
}

// unpark ends the waiting for somebody else's release.
func (sc *section) unpark(ent *entry) {
	ent.Unpark()
	sc.endWakeups(ent)
}

// endWakeups gives back what a queue that waits has of the world.
func (sc *section) endWakeups(ent *entry) {
	p := ent.wakeups()
	if p == nil {
		return
	}
	ent.extra.wakeups = nil
	sc.eng.timers.Cancel(&p.item)
	sc.eng.shortTimers.Cancel(&p.pauseItem)
	if p.sub != nil {
		sc.forget(p.sub)
		p.sub = nil
	}
}

// failSome completes the ops for which verdict has an error.
func (sc *section) failSome(ent *entry, verdict func(*acquireOp) error) {
	for op := range ent.ops {
		err := verdict(op)
		if err == nil {
			sc.watchWait(op)
			continue
		}
		ent.Unlink(&op.Waiter)
		sc.partyLeaves(ent, op, errors.Is(err, ErrClosed))
		if op.claim() {
			sc.sh.counts.errors++
			sc.fail(op, err)
		}
	}
	sc.closeNote(ent)
}

// fairListen makes the first waiter here hear of releases.
func (sc *section) fairListen(root *entry) {
	if first := root.firstHere(); first != nil && first.wakeups() != nil && first.Parked() {
		sc.listenFor(first.wakeups())
	}
}
