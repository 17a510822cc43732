package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

func newReleaseOp(h *hold) *releaseOp {
	op := &releaseOp{hold: h, ent: h.ent}
	op.Future.op = op
	return op
}

func (op *releaseOp) runner() *callback.Pool { return op.hold.ent.eng.callbacks }

// abandon changes nothing: a release is detached from its caller.
func (op *releaseOp) abandon(error) bool { return false }

// giveBack ends a lease. The lock goes to the next waiter here, or back to Redis; then nobody here
// believes the hold any more.
func (op *releaseOp) giveBack(ls *Lease) {
	h, e := op.hold, op.hold.ent.eng
	var err error
	var ended *leaseContext
	answered := true
	op.lease = ls
	cause := ErrReleased
	sc := e.enter(h.ent.hash)
	ended = h.unwatch(ls) // whoever else is to end it may not have come to that yet
	switch h.status.Load() {
	case holdReleased: // Close did
		err = &nameError{e.nameOf(h.ent.key), ErrNotHeld}
	case holdLost:
		err, cause = sc.spentLost(ls, h), ErrLost
	default:
		shared := traits(h.Family).shared && h.count > 1
		if shared && !e.clock.Now().Before(h.Deadline()) { // nothing is sent that would say so
			sc.lost = sc.lose(h, renew.CauseDeadline)
			err, cause = sc.spentLost(ls, h), ErrLost
			break
		}
		e.tell(EventReleased, h, "")
		if shared {
			sc.leaseLeft(h, ls)
			sc.trustLess(h)
			sc.dropHandle(h, ls)
			sc.sh.counts.releases++
			break
		}
		if !h.lastHandle() || h.downgradeAsked() {
			sc.leaseLeft(h, ls)
			n := h.ensureReentry()
			n.want(change{release: op, lease: ls})
			sc.nextChange(n)
			answered = false
			break
		}
		if sc.handOff(h) {
			break
		}
		answered, err = sc.sendRelease(op)
		if answered && errors.Is(err, ErrLost) {
			err, cause = sc.spentLost(ls, h), ErrLost
		}
	}
	sc.owe()
	sc.unlock()
	if ended != nil {
		e.world.Yield("releaseOp.giveBack: decided | a context ended")
		ended.cancel(cause)
	}
	sc.tellLoss()
	e.world.Yield("releaseOp.giveBack: contexts ended | effects")
	sc.publish()
	if answered {
		op.resolve(struct{}{}, err)
	}
}

// spentLost marks a handle whose lock was lost before it was given back.
func (sc *section) spentLost(ls *Lease, h *hold) error {
	ls.state.Store(leaseLost)
	ls.owner.forget(sc.eng, h.ent.key)
	return &nameError{sc.eng.nameOf(h.ent.key), ErrLost}
}

// sendRelease sends the release of a hold's last lease. It says whether the answer is known
// already: only if nothing was sent.
func (sc *section) sendRelease(op *releaseOp) (answered bool, err error) {
	h := op.hold
	ent := h.ent
	if !h.end(holdReleased) {
		return true, ErrLost
	}
	sc.eng.watchdog.Forget(h)
	if root := ent.root(); root.children != nil && traits(h.Family).halved() {
		now := sc.eng.clock.Now()
		root.children.lasts = max(root.children.lasts, now.Add(h.maxRemoteLife(now)))
	}
	ent.freed(h)
	op.op = resp.Op{
		Kind: resp.OpRelease, Family: h.Family, Key: h.ent.key, Hash: ent.hash, Slot: h.ent.slot,
		Field: h.Field, Sink: op,
	}
	if heirs := sc.heirs(h); heirs != nil {
		op.op.Sink = &fairRelease{op, heirs}
	}
	root, now := ent.root(), clock.Instant(0)
	if ent.head != nil || root.others >= leaveTo { // most releases meet nobody, and need not know the time
		now = sc.eng.clock.Now()
	}
	op.op.Left = traits(h.Family).mark != markPlace && root.leaves(now)
	if err := sc.eng.nodes.Submit(&op.op); err != nil {
		sc.advanceAll(ent)
		return true, fromServer(sc.eng.nameOf(h.ent.key), resp.AsServerError(err))
	}
	sc.sh.pending++
	ent.releaseSent()
	if ent.tenureOpen(now) {
		ent.sendBehindRelease()
		sc.advance(ent)
	}
	return false, nil
}

// Answered takes the server's answer. It runs on the lane.
func (op *releaseOp) Answered(_ *resp.Op, r *resp.Result) {
	h, ent := op.hold, op.ent
	e := ent.eng
	var err error
	// What the caller is told.
	switch r.Code {
	case resp.CodeReleased, resp.CodePassed:
	case resp.CodeNotOurs:
		if op.retry == nil || !op.retry.unknown { // after an unanswered sending it means that one did it
			err = &nameError{e.nameOf(ent.key), ErrLost}
			if op.lease != nil {
				op.lease.state.Store(leaseLost)
			}
		}
	default:
		if op.again(r) {
			return
		}
		err = op.failed(r)
	}
	e.world.Yield("releaseOp.Answered: judged | carried out")
	sc := e.enter(ent.hash)
	if err == nil {
		sc.sh.counts.releases++
		if r.Code == resp.CodeReleased && r.Value > 0 {
			sc.sh.counts.heard++
		}
	}
	// A release without an answer goes on without its caller; what a late copy of the acquire may still take is released
	// once more, later.
	switch h.afterRelease(r.Err == nil, r.SentAt) {
	case followUpRelease:
		if e.draining.Load() {
			e.givenUp.Add(1)
		} else {
			sc.clean(ent, h.lockRef(), h.indeterminate(), h.maxRemoteLife(e.clock.Now()))
		}
	case followUpReleaseLater:
		sc.cleanLater(ent, h.lockRef(), h.indeterminate(), h.Lease())
	}
	// Who waits here goes on: at once, or after a pause for waiters elsewhere.
	rested := ent.releaseAnswered()
	if root := ent.root(); r.Err == nil && root.hold == nil && traits(h.Family).mark != markPlace {
		sc.yieldName(op, r)
	}
	if r.Code == resp.CodePassed {
		sc.passedOn(ent.root(), op.op.Sink.(*fairRelease).heirs, r)
	}
	if traits(h.Family).shared {
		sc.readEnded(ent.root(), h.asked(e.clock.Now()))
	}
	sc.advanceAll(ent)
	if rested {
		sc.advanceChildren(ent.root())
	}
	sc.answered()
	sc.leaveAt("releaseOp.Answered: carried out | told")
	op.resolve(struct{}{}, err)
}

// again schedules another sending if that may help. The op stays pending.
func (op *releaseOp) again(r *resp.Result) bool {
	e := op.hold.ent.eng
	now := e.clock.Now()
	op.troubledSince(now)
	retry := op.retry
	retry.tries++
	if !r.Definite() {
		retry.unknown = true
	}
	if e.draining.Load() || !r.Err.Class.Transient() && r.Definite() ||
		now.Sub(retry.since) > retryBudget*e.nodes.AttemptLimit() {
		return false
	}
	e.timers.Schedule(&retry.item, e.resendAt(op.op.Slot, now, retry.tries))
	return true
}

// troubledSince notes when the release, or a change of which it is the rest, first met a failure, unless that is noted.
func (op *releaseOp) troubledSince(first clock.Instant) {
	if op.retry == nil {
		op.retry = &releaseRetry{since: first}
		op.retry.item.Owner = op
	}
}

// due sends the release again.
func (op *releaseOp) due(clock.Instant) {
	e := op.hold.ent.eng
	if err := e.nodes.Submit(&op.op); err != nil {
		op.Answered(&op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
	}
}

func (op *releaseOp) failed(r *resp.Result) error {
	h := op.hold
	e := h.ent.eng
	if op.retry.unknown || !r.Definite() {
		return &UnknownError{Name: e.nameOf(h.ent.key), FreeBy: e.clock.Wall(h.freeBy()), cause: r.Err}
	}
	err := fromServer(e.nameOf(h.ent.key), r.Err)
	return fmt.Errorf("%w (free by %s)", err, e.clock.Wall(h.freeBy()).Format("15:04:05.000"))
}

// tenureEnd is when an engine's tenure with a lock is over: it begins with the server's answer to the
// acquire, and renewals do not prolong it.
func tenureEnd(r *resp.Result) clock.Instant {
	return r.ReceivedAt.Add(min(max(10*r.ReceivedAt.Sub(r.SentAt), tenureLeast), tenureMost))
}

// handOff gives a hold that is being released to the next waiter here, if that is as safe as
// a release and a new acquire, and says whether it did. Only the first live waiter is asked, claimed by
// one compare-and-swap against its cancel, its timeout and Close, and only if it wants the very same kind
// of lease.
func (sc *section) handOff(h *hold) bool {
	ent := h.ent
	if ent.head == nil {
		return false
	}
	with := handOffInput{
		deadline: h.Deadline(), lease: h.Lease(), family: h.Family, off: sc.eng.cfg.NoHandOff || sc.eng.closing.Load(),
		renewing: h.Renewing() && h.Lease() == h.set.lease, reads: traits(h.Family).readsToo && h.isDowngraded(),
	}
	// The clock is read only where it decides: this is on the path of every release that somebody waits for.
	if !with.off {
		with.now = sc.eng.clock.Now()
		with.unlowered = h.reentry != nil && h.reentry.unlowered
	}
	if h.mayHandOff(with) != handOffSafe {
		return false
	}
	op := ent.takeCompatible(h)
	if op == nil {
		return false
	}
	// Nothing is sent. The field stays; its renewals follow what the new holder wants.
	h.passed(op.set)
	ent.passed()
	h.owner = op.owner
	if limit := op.set.maxHold; limit > 0 {
		sc.eng.watchdog.Change(h, renew.Terms{Lease: op.set.lease, Renew: true, Until: with.now.Add(limit)})
	} else if !h.allCompatible() {
		sc.eng.watchdog.Change(h, renew.Terms{Lease: op.set.lease, Renew: true})
	}
	sc.only(h)
	ls := &Lease{hold: h, lock: op.lock, ctx: op.ctx, owner: op.owner}
	h.lease, h.leak = ls, false
	// For everybody who counts it is a release and a grant.
	sc.sh.counts.grants++
	sc.sh.counts.handOffs++
	sc.sh.counts.releases++
	sc.grant(op, ls)
	sc.admitSameOwner(h)
	return true
}

// yieldName keeps this engine from asking for a name for a moment, if somebody else was heard
// to wait for it. Without others nothing changes: one engine alone never waits.
func (sc *section) yieldName(op *releaseOp, r *resp.Result) {
	h := op.hold
	ent := h.ent.root()
	if sc.eng.closing.Load() {
		return
	}
	us := int64(0)
	if r.Value == 1 && ent.listens(h.Family) {
		us = 1
	}
	ent.others = leaveTo
	if sc.eng.nodes.Counted() {
		ent.others = uint8(min(max(r.Value-us, 0), leaveTo))
	}
	spins := traits(h.Family).unheard && ent.rivals(r.ReceivedAt)
	switch {
	case !spins && !ent.othersWait(sc.eng.nodes.Counted(), r.Value, us):
		if ent.endTenure(us == 1) {
			sc.sh.counts.messages++
			sc.eng.timers.Cancel(&ent.wakeups.item)
			sc.eng.shortTimers.Cancel(&ent.wakeups.pauseItem)
		}
		return
	case ent.ask == askInFlight || ent.tenureOpen(r.ReceivedAt): // the tenure's next grant is on its way, or may be
		return
	}
	if ent.wakeups == nil {
		ent.wakeups = newWakeups(ent)
	}
	least := yieldLeast
	switch {
	case spins:
		least = spinsFor
	case op.op.Left:
		least = leftFor
	}
	ent.yield()
	sc.pause(ent.wakeups, yieldEnd(r, least))
}

// yieldEnd is when an engine that gave a lock back may ask for it again: whoever hears of that over as long a way as
// ours has asked before.
func yieldEnd(r *resp.Result, least time.Duration) clock.Instant {
	return r.ReceivedAt.Add(min(max(2*r.ReceivedAt.Sub(r.SentAt), least), yieldMost))
}

// passedOn gives the lock to whom the server has given it. If that waiter is just asking, its answer
// says so, or is not believed; if it has left, its cleanup finds the lock.
func (sc *section) passedOn(root *entry, heirs []resp.Heir, r *resp.Result) {
	field := resp.FairField(sc.eng.id, r.Value)
	for child := root.firstChild(); child != nil; child = child.nextChild() {
		a := child.att
		if a == nil || a.op.Field != field {
			continue
		}
		switch {
		case child.ask == askInFlight:
			child.epoch++
		case a.unknown() || !slices.Contains(heirs, resp.Heir{Field: field, LeaseMs: a.lease.Milliseconds()}):
			if child.wakeups != nil {
				sc.wake(child.wakeups, func(*counts) {}, wakeLook) // it asks, and has its own lease
			}
		default:
			if a.retry != nil {
				sc.eng.timers.Cancel(&a.retry.item)
			}
			before := sc.sh.counts.grants
			sc.unpark(child) // if it cannot have this grant, it asks anew, as another waiter
			sc.granted(a, &resp.Result{Code: resp.CodeGranted, SentAt: r.SentAt, ReceivedAt: r.ReceivedAt})
			sc.sh.counts.handOffs += sc.sh.counts.grants - before // 0: nobody wants it any more
		}
		return
	}
}

// heirs are the first waiters here of which it is known that they stand in the server's queue, and under
// which field. Who asked for replicas, or may have copies on their way, asks for itself.
func (sc *section) heirs(h *hold) (heirs []resp.Heir) {
	if traits(h.Family).mark != markPlace || sc.eng.cfg.NoHandOff || sc.eng.closing.Load() {
		return nil
	}
	for child := h.ent.root().firstChild(); child != nil && len(heirs) < heirsMost; child = child.nextChild() {
		if op := child.head; op != nil && op.set.ack == nil && child.att != nil && child.att.op.Placed &&
			!child.att.unknown() {
			heirs = append(heirs, resp.Heir{Field: child.att.op.Field, LeaseMs: child.att.lease.Milliseconds()})
		}
	}
	return heirs
}

// Heirs are the waiters here that may have the lock next, each with the lease it asks for.
func (r *fairRelease) Heirs() []resp.Heir { return r.heirs }

// A release of a fair lock may give it to the waiter of this engine that is next in the server's queue, in
// the same command: nobody is overtaken, and nobody has to be told. So only where somebody else holds the
// lock does a waiter here need to hear of its release, and only the first of them.

// heirsMost is how many waiters a release names: the next here is mostly the next in the server's queue.
const heirsMost = 3
