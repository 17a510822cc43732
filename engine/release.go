package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"weak"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

func newReleaseOp(h *hold) *releaseOp {
	s := &struct {
		releaseOp
		resp.Op
	}{}
	op := &s.releaseOp
	op.hold, op.ent, op.op, op.Future.op = h, h.ent, &s.Op, op
	return op
}

func (op *releaseOp) runner() *callback.Pool { return op.hold.ent.eng.callbacks }

func (op *releaseOp) awaitEnded(cause error) error {
	return leftBehind(op.hold.ent.eng.nameOf(op.hold.ent.key), cause, leftRelease)
}

// abandon changes nothing: a release is detached from its caller.
func (op *releaseOp) abandon(error) bool { return false }

// giveBack ends a lease. The lock goes to the next waiter here, or back to Redis; then nobody here
// believes the hold any more.
//
// A caller that waits for the result leads a lane that nobody has.
func (op *releaseOp) giveBack(ls *Lease, leads bool) resp.Lead {
	h, e := op.hold, op.hold.ent.eng
	var err error
	var ended *leaseContext
	answered := true
	op.lease = ls
	cause := ErrReleased
	sc := e.enter(h.ent.hash)
	sc.leads = leads
	ended = h.unwatch(ls) // whoever else is to end it may not have come to that yet
	switch h.Status() {
	case lockstate.Released: // Close did
		err = &nameError{e.nameOf(h.ent.key), ErrNotHeld}
	case lockstate.Lost:
		err, cause = sc.spentLost(ls, h), ErrLost
	default:
		shared, now := traits(h.Family).Shared && h.Count() > 1, clock.Instant(0)
		if shared {
			now = e.clock.Now()
		}
		if shared && !now.Before(h.Deadline()) { // nothing is sent that would say so
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
			sc.gaveBack(ls, now)
			break
		}
		if !h.LastHandle() || h.downgradeAsked() {
			sc.leaseLeft(h, ls)
			n := h.ensureReentry()
			n.Want(lockstate.Change{Leave: op, Handle: ls})
			sc.nextChange(n)
			answered = false
			break
		}
		if sc.handOff(h, ls) {
			break
		}
		answered, err = sc.sendRelease(op)
		if answered && errors.Is(err, ErrLost) {
			err, cause = sc.spentLost(ls, h), ErrLost
		}
	}
	sc.owe()
	sc.unlock()
	for c := ended; c != nil; c = c.next {
		e.world.Yield("releaseOp.giveBack: decided | a context ended")
		c.cancel(cause)
	}
	sc.tellLoss()
	e.world.Yield("releaseOp.giveBack: contexts ended | effects")
	sc.publish()
	if answered {
		op.resolve(struct{}{}, err)
	}
	return sc.lead
}

// spentLost marks a handle whose lock was lost before it was given back.
func (sc *section) spentLost(ls *Lease, h *hold) error {
	ls.state.Store(leaseLost)
	ls.owner.forget(sc.eng, h.ent.key)
	return ls.lostError()
}

// sendRelease sends the release of a hold's last lease. It says whether the answer is known
// already: only if nothing was sent.
func (sc *section) sendRelease(op *releaseOp) (answered bool, err error) {
	h := op.hold
	ent := h.ent
	if !h.End(lockstate.Released) {
		return true, ErrLost
	}
	sc.endPiece(h)
	sc.eng.watchdog.Forget(h)
	if root := ent.root(); root.children() != nil && traits(h.Family).Halved() {
		now := sc.eng.clock.Now()
		root.children().lasts = max(root.children().lasts, now.Add(h.maxRemoteLife(now)))
	}
	ent.freed(h)
	if op.op == nil {
		op.op = op.lease.spareOp()
	}
	*op.op = resp.Op{
		Kind: resp.OpRelease, Family: h.Family, Key: h.ent.key, Hash: ent.hash, Slot: h.ent.slot,
		Field: h.Field, Sink: op, Wide: ent.wide,
	}
	if heirs := sc.heirs(h); heirs != nil {
		op.op.Sink = &fairRelease{op, heirs}
	}
	root, now := ent.root(), clock.Instant(0)
	if ent.First() != nil || root.Crowded() { // most releases meet nobody, and need not know the time
		now = sc.eng.clock.Now()
	}
	op.op.Left = traits(h.Family).Mark != lockstate.MarkPlace && root.LeavesToOthers(now)
	if err := sc.submit(op.op); err != nil {
		sc.advanceAll(ent)
		return true, fromServer(sc.eng.nameOf(h.ent.key), resp.AsServerError(err))
	}
	sc.sh.pending++
	ent.ReleaseSent()
	if ent.TenureOpen(now) {
		ent.SendBehindRelease()
		sc.advance(ent)
	}
	return false, nil
}

// Answered takes the server's answer. It runs on the lane.
func (op *releaseOp) Answered(_ *resp.Op, r *resp.Result) {
	h, ent := op.hold, op.ent
	e := ent.eng
	var err error // what the caller is told
	var lost bool // and everybody else
	gone := traits(h.Family).goneBy(r)
	switch {
	case r.Code == resp.CodeReleased, r.Code == resp.CodePassed:
	case r.Code == resp.CodeNotOurs, gone:
		err, lost = op.lost(r, gone)
	default:
		if op.again(r) {
			return
		}
		err = op.failed(r)
	}
	e.world.Yield("releaseOp.Answered: judged | carried out")
	sc := e.enter(ent.hash)
	if err == nil {
		if !h.Lingers() { // else its lease was given back before
			sc.sh.counts.releases++
		}
		sc.gaveBack(op.lease, r.SentAt)
		if r.Code == resp.CodeReleased && r.Value > 0 {
			sc.sh.counts.heard++
		}
	} else {
		sc.traceHold(h, op.lease, r.SentAt, err)
	}
	if lost {
		sc.lostUnseen(h, causeOfLoss(gone))
	}
	// A release without an answer goes on without its caller; what a late copy of the acquire may still take is released
	// once more, later.
	answered := ent.ReleaseAnswered
	switch h.AfterRelease(r.Err == nil || gone, r.SentAt) {
	case lockstate.FollowUpRelease:
		if e.draining.Load() {
			e.givenUp.add(e.nameOf(ent.key), r.Err)
		} else {
			sc.clean(ent, h.lockRef(), h.Indeterminate(), h.maxRemoteLife(e.clock.Now()))
			answered = ent.ReleaseFollowed
		}
	case lockstate.FollowUpReleaseLater:
		sc.cleanLater(ent, h.lockRef(), h.Indeterminate(), h.Lease())
	}
	// Who waits here goes on: at once, or after a pause for waiters elsewhere.
	rested := answered()
	if root := ent.root(); r.Err == nil && root.hold == nil && traits(h.Family).Mark != lockstate.MarkPlace {
		least := lockstate.YieldLeast
		if op.op.Left {
			least = lockstate.LeftFor
		}
		sc.yieldName(root, h.Family, r, least)
	}
	if r.Code == resp.CodePassed {
		sc.passedOn(ent.root(), op.op.Sink.(*fairRelease).heirs, r)
	}
	if traits(h.Family).Shared {
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

// lost follows an answer which says that the lock is not there any more. After an unanswered sending it means that one
// gave it back. Otherwise its caller is told of a loss, for nobody can say that there was none; before is whether it
// was lost before it was given back: a lease that ran out on the way, or while the server refused, nobody had any more.
func (op *releaseOp) lost(r *resp.Result, gone bool) (err error, before bool) {
	if op.retry != nil && op.retry.unknown {
		return nil, false
	}
	if op.lease != nil {
		op.lease.state.Store(leaseLost)
	}
	var why error = causeError(causeOfLoss(gone))
	if gone {
		why = &wrongKindError{r.Err}
	}
	return op.hold.lostFor(why), op.retry == nil && r.ReceivedAt.Before(op.hold.Deadline())
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
	again := e.resendAt(op.op.Slot, now, retry.tries)
	sc := e.enter(op.ent.hash)
	if retry.rests = sc.failsLong(retry.since, again, r.Err); retry.rests {
		sc.passBy(op.ent)
	}
	sc.leave()
	e.timers.Schedule(op, again)
	return true
}

// troubledSince notes when the release, or a change of which it is the rest, first met a failure, unless that is noted.
func (op *releaseOp) troubledSince(first clock.Instant) {
	if op.retry == nil {
		op.retry = &releaseRetry{since: first}
	}
}

// Scheduled is its place among the timers.
func (op *releaseOp) Scheduled() *wheel.Item[timed] { return &op.retry.item }

// due sends the release again.
func (op *releaseOp) due(clock.Instant) {
	e := op.hold.ent.eng
	if op.retry.rests {
		op.retry.rests = false
		sc := e.enter(op.ent.hash)
		op.ent.GivenBackAgain()
		sc.leave()
	}
	if err := e.nodes.Submit(op.op); err != nil {
		op.Answered(op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
	}
}

func (op *releaseOp) failed(r *resp.Result) error {
	h := op.hold
	e := h.ent.eng
	if op.retry.unknown || !r.Definite() {
		return &UnknownError{Name: e.nameOf(h.ent.key), FreeBy: e.clock.Wall(h.freeBy()), cause: r.Err}
	}
	err := fromServer(e.nameOf(h.ent.key), r.Err)
	return fmt.Errorf("%w (free by %s)", err, e.clock.Wall(h.freeBy()).Format(timeFormat))
}

// handOff gives a hold that is being released, by one lease, to the next waiter here, if that is as safe as
// a release and a new acquire, and says whether it did. Only the first live waiter is asked, claimed by
// one compare-and-swap against its cancel, its timeout and Close, and only if it wants the very same kind
// of lease.
func (sc *section) handOff(h *hold, given *Lease) bool {
	ent := h.ent
	if traits(h.Family).Many { // who waits waits for any of them, and has its own
		ent = ent.root()
	}
	if ent.First() == nil || h.extra != nil && h.extra.shown { // who was told the ids may use them later
		return sc.linger(h, given)
	}
	with := sc.handOffInput(h)
	if h.MayHandOff(with) != lockstate.HandOffSafe {
		return false
	}
	op := opOf(ent.TakeCompatible(h.Terms(), h.SeenBy()))
	if op == nil {
		return false
	}
	// For everybody who counts it is a release and a grant.
	sc.sh.counts.releases++
	sc.gaveBack(given, with.Now)
	ent.Passed()
	sc.passTo(h, op, with)
	return true
}

// handOffInput is what a hand-off of a hold depends on now.
func (sc *section) handOffInput(h *hold) lockstate.HandOffInput {
	with := lockstate.HandOffInput{
		Deadline: h.Deadline(), Lease: h.Lease(), Off: sc.eng.cfg.NoHandOff || sc.eng.closing.Load(),
		Renewing: h.Renewing() && h.Lease() == h.Terms().Lease, Reads: traits(h.Family).ReadsToo && h.isDowngraded(),
	}
	// The clock is read only where it decides: this is on the path of every release that somebody waits for.
	if !with.Off {
		with.Now = sc.eng.clock.Now()
		with.Unlowered = h.reentry() != nil && h.reentry().unlowered
	}
	return with
}

// passTo makes a hold that nobody has any more the next holder's. Nothing is sent. The field stays; its renewals follow
// what the new holder wants.
func (sc *section) passTo(h *hold, op *acquireOp, with lockstate.HandOffInput) {
	h.Passed(&op.set.Terms)
	h.owner = op.lease.owner
	if limit := op.set.MaxHold; limit > 0 {
		sc.eng.watchdog.Change(h, renew.Terms{Lease: op.set.Lease, Renew: true, Until: with.Now.Add(limit)})
	} else if !h.allCompatible() {
		sc.eng.watchdog.Change(h, renew.Terms{Lease: op.set.Lease, Renew: true})
	}
	sc.only(h)
	sc.endPiece(h)
	ls := sc.newLease(h, op)
	h.lease = ls
	sc.sh.counts.grants++
	sc.sh.counts.handOffs++
	sc.grant(op, ls, with.Now, with.Now)
	sc.admitSameOwner(h)
}

// linger keeps a hold that is being released, by one lease, for whoever asks next here, and says whether it did: if its
// holder has asked for that, nobody is known to want it, here or elsewhere, and it could be handed over as well. Nobody
// waits here as long as it lingers: who asks gets it, or ends that.
func (sc *section) linger(h *hold, given *Lease) bool {
	ent := h.ent
	if h.Terms().Linger == 0 || given == nil || !ent.Unwanted() || ent.firstChild() != nil {
		return false
	}
	with := sc.handOffInput(h)
	if h.MayHandOff(with) != lockstate.HandOffSafe {
		return false
	}
	h.Linger()
	sc.endPiece(h)
	h.owner, h.lease, h.weak = nil, nil, weak.Pointer[Lease]{}
	l := h.ensureExtra().lingers
	if l == nil {
		l = &lingering{hold: h}
		h.extra.lingers = l
	}
	now := with.Now
	l.until = now.Add(h.Terms().Linger)
	if l.at == 0 || l.until.Before(l.at) { // else it is looked at before, and then again
		l.at = l.until
		sc.eng.shortTimers.Schedule(l, l.at)
	}
	sc.sh.counts.releases++
	sc.gaveBack(given, now)
	return true
}

// Scheduled is its place among the timers.
func (l *lingering) Scheduled() *wheel.Item[timed] { return &l.item }

// due ends the lingering, if it is still the one that was meant.
func (l *lingering) due(now clock.Instant) {
	h := l.hold
	sc := h.ent.eng.enter(h.ent.hash)
	l.at = 0
	switch {
	case h.ent.lingering() != h:
	case now.Before(l.until): // it was passed on and given back since
		l.at = l.until
		sc.eng.shortTimers.Schedule(l, l.at)
	default:
		sc.endLinger(h)
	}
	sc.leaveAt("lingering.due: given back | effects")
}

// lingering is the hold that was given back and stays; nil: there is none.
func (ent *entry) lingering() *hold {
	if ent == nil || ent.hold == nil || !ent.hold.Lingers() || !ent.hold.Held() {
		return nil
	}
	return ent.hold
}

// takeLingering gives an op what lingers under its name, if that is as safe as a hand-off and just what it wants. If
// not, it is given back, and the op goes as any other. It says whether the op was served.
func (sc *section) takeLingering(ent *entry, op *acquireOp) bool {
	h := ent.lingering()
	if h == nil {
		return false
	}
	with, t := sc.handOffInput(h), &op.set.Terms
	if h.MayHandOff(with) != lockstate.HandOffSafe || !t.Compatible(h.Terms()) || t.Replicas() > h.SeenBy() {
		sc.endLinger(h)
		return false
	}
	if op.claim() {
		sc.sh.counts.lingered++
		ent.Passed()
		sc.passTo(h, op, with)
	}
	return true
}

// endLinger gives back what lingers. Whoever asks meanwhile waits for the answer: who waits elsewhere is to hear of it
// first.
func (sc *section) endLinger(h *hold) {
	if answered, _ := sc.sendRelease(newReleaseOp(h)); !answered {
		h.ent.HoldBehindRelease()
	}
}

// yieldName keeps this engine from asking for a name for a moment, if somebody else was heard
// to wait for it. Without others nothing changes: one engine alone never waits.
func (sc *section) yieldName(ent *entry, f resp.Family, r *resp.Result, least time.Duration) {
	if sc.eng.closing.Load() {
		return
	}
	us := int64(0)
	if r.Value == 1 && ent.listens(f) && !ent.othersListen(traits(f)) {
		us = 1
	}
	ent.ReleaseHeard(sc.eng.nodes.Counted(), r.Value, us)
	spins := traits(f).unheard && ent.Rivals(r.ReceivedAt)
	switch {
	case !spins && !ent.OthersWait(sc.eng.nodes.Counted(), r.Value, us):
		if ent.EndTenure(us == 1) {
			sc.sh.counts.messages++
			sc.eng.timers.Cancel(&ent.wakeups().item)
			sc.eng.shortTimers.Cancel(&ent.wakeups().pauseItem)
		}
		return
	case ent.InFlight() || ent.TenureOpen(r.ReceivedAt): // the tenure's next grant is on its way, or may be
		return
	}
	if spins {
		least = lockstate.SpinsFor
	}
	ent.Yield()
	sc.pause(ent.ensureWakeups(), yieldEnd(r, least))
}

// yieldEnd is when an engine that gave a lock back may ask for it again: whoever hears of that over as long a way as
// ours has asked before.
func yieldEnd(r *resp.Result, least time.Duration) clock.Instant {
	return r.ReceivedAt.Add(min(max(2*r.ReceivedAt.Sub(r.SentAt), least), lockstate.YieldMost))
}

// passedOn gives the lock to whom the server has given it. If that waiter is just asking, its answer
// says so, or is not believed; if it has left, its cleanup finds the lock.
func (sc *section) passedOn(root *entry, heirs []resp.Heir, r *resp.Result) {
	field := resp.FairField(sc.eng.id, r.Value)
	for child := root.firstChild(); child != nil; child = child.nextChild() {
		a := child.Attempt()
		if a == nil || a.op.Field != field {
			continue
		}
		switch {
		case child.InFlight():
			child.Hinted()
		case a.unknown() || !slices.Contains(heirs, resp.Heir{Field: field, LeaseMs: a.op.LeaseMs}):
			if child.wakeups() != nil {
				sc.wake(child.wakeups(), func(*counts) {}, lockstate.WakeLook) // it asks, and has its own lease
			}
		default:
			if a.retry != nil {
				sc.eng.timers.Cancel(&a.retry.item)
			}
			before := sc.sh.counts.grants
			sc.unpark(child) // if it cannot have this grant, it asks again
			sc.granted(a, &resp.Result{Code: resp.CodeGranted, SentAt: r.SentAt, ReceivedAt: r.ReceivedAt})
			sc.sh.counts.handOffs += sc.sh.counts.grants - before // 0: nobody wants it any more
		}
		return
	}
}

// heirs are the first waiters here of which it is known that they stand in the server's queue, and under
// which field. Who asked for replicas, or may have copies on their way, asks for itself.
func (sc *section) heirs(h *hold) (heirs []resp.Heir) {
	if traits(h.Family).Mark != lockstate.MarkPlace || sc.eng.cfg.NoHandOff || sc.eng.closing.Load() {
		return nil
	}
	all := h.ent.root().children()
	if all == nil {
		return nil
	}
	for child := all.head; child != nil && len(heirs) < heirsMost; child = child.nextChild() {
		if op := child.head(); op != nil && op.set.Ack == nil && child.children().since != 0 && child.Attempt() != nil &&
			child.Attempt().op.Placed && !child.Attempt().unknown() {
			heirs = append(heirs, resp.Heir{Field: child.Attempt().op.Field, LeaseMs: child.Attempt().op.LeaseMs})
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
