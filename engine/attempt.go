package engine

import (
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// An attempt is the one acquire of a name that has no final answer. Its wire id changes with every
// sending, except while an earlier copy may still run. It is part of the op that was first when it
// was sent, but outlives its interest: who is first when the answer comes gets it.
type attempt struct {
	op      resp.Op
	ent     *entry
	lease   time.Duration
	trouble *trouble
}

// trouble is what an attempt needs only once a sending has failed.
type trouble struct {
	asking
	a    *attempt
	item wheel.Item        // the next sending
	last *resp.ServerError // since the last answer
}

// unknown reports whether the present wire id was sent without an answer.
func (a *attempt) unknown() bool { return a.trouble != nil && a.trouble.unknown }

// kept reports whether the next sending is under the same wire id: it may have the key, or stands in the
// queue of a fair lock.
func (a *attempt) kept() bool { return a.unknown() || a.op.Placed }

// wire is under what the attempt has the key, if it has.
func (a *attempt) wire() wireID { return wireID{a.op.Field, a.op.Family} }

// open is what is not known of the attempt's wire id.
func (a *attempt) open() doubt {
	if a.trouble == nil {
		return doubt{}
	}
	return a.trouble.doubt
}

// send submits the attempt for the head's lock. While a copy under the present wire id may still
// run, that id is kept and the key is asked for alone; otherwise the lane makes a new one.
func (a *attempt) send(op *acquireOp) error {
	l := op.lock
	e := l.eng
	a.lease = l.set.lease
	a.op.Key, a.op.Hash, a.op.Slot = l.key, l.hash, l.slot
	a.op.LeaseMs = a.lease.Milliseconds()
	a.op.Sink, a.op.Ack, a.op.Family, a.op.Inside = a, l.set.ack, l.set.family, a.ent.beside() != nil
	switch a.op.Family {
	case resp.FamilyWrite, resp.FamilyFair:
		a.op.Waits = !op.try
		if a.op.Family == resp.FamilyFair && a.op.Ack != nil {
			a.ent.root().ofRoot().apart = true
		}
	}
	if a.kept() {
		a.op.Kind, a.op.Count = resp.OpReacquire, 1
	} else {
		a.op.Kind, a.op.Field = resp.OpAcquire, ""
	}
	return e.nodes.Submit(&a.op)
}

// due sends the attempt again, unless it was settled meanwhile.
func (t *trouble) due(clock.Instant) {
	ent := t.a.ent
	e := ent.eng
	sh := e.shard(ent.hash)
	var fx effects
	sh.mu.Lock()
	if t.a.trouble == t && ent.resendDue(t.a) {
		e.kickLocked(sh, ent, &fx)
	}
	sh.mu.Unlock()
	fx.run()
}

// Answered takes the server's answer. It runs on the lane.
func (a *attempt) Answered(_ *resp.Op, r *resp.Result) {
	ent := a.ent
	e := ent.eng
	sh := e.shard(ent.hash)
	var fx effects
	var l *loss
	sh.mu.Lock()
	ent.landed()
	switch r.Code {
	case resp.CodeGranted, resp.CodeOurs:
		e.grantedLocked(sh, a, r, &fx)
	case resp.CodeBusy:
		if a.op.Inside {
			l = e.besideBusyLocked(sh, ent, &fx)
		} else {
			e.busyLocked(sh, a, r, &fx)
		}
	case resp.CodeCancelled:
		if !a.kept() {
			ent.settled()
		}
		e.kickLocked(sh, ent, &fx)
	case resp.CodeWrongKind:
		if a.op.Inside {
			l = e.besideBusyLocked(sh, ent, &fx)
			break
		}
		e.dropAttemptLocked(sh, ent)
		e.wrongKindLocked(sh, a, &fx)
	default:
		e.failedLocked(sh, a, r, &fx)
	}
	e.settledLocked(sh)
	sh.mu.Unlock()
	e.world.Yield("attempt.Answered: decided | effects")
	e.tellLoss(sh, l, &fx)
	fx.run()
}

// grantedLocked gives the lock to the first who still wants it; a grant nobody can use is released.
func (e *Engine) grantedLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	deadline := renew.TrustUntil(r.SentAt, a.lease)
	if !r.ReceivedAt.Before(renew.SignalAt(deadline, a.lease)) {
		// The answer took so long that the lease cannot be trusted any more: give it back, ask again.
		sh.counts.tooLate++
		e.cleanLocked(sh, ent, a.wire(), a.open(), a.lease)
		if op := ent.grantedLate(); op != nil {
			fx.fail(op, &nameError{op.lock.Name(), fmt.Errorf("%w: granted, but the answer took as long as the lease of %v", ErrLost, a.lease)})
		}
		e.kickLocked(sh, ent, fx)
		return
	}
	root := ent.root()
	for op := ent.live(); op != nil && root.lostTo(op.owner); op = ent.live() {
		ent.unlink(op)
		refuse(op, ErrLost, fx)
	}
	op := ent.granted(a.lease, a.op.Family, int(r.Seen))
	if op == nil {
		e.unusedLocked(sh, a, r, fx)
		return
	}
	sh.counts.grants++
	sh.counts.origin(ent.by)
	if a.op.Family == resp.FamilyRead && ent == root {
		ent = ent.newSeat()
	}
	h := ent.newHold()
	if a.trouble != nil {
		h.doubt = &a.trouble.doubt
	}
	h.Field, h.Family = a.op.Field, a.op.Family
	if h.Family == resp.FamilyFenced {
		h.more().token = r.Value
	}
	ent.held(h)
	e.startLocked(h, op, r, fx)
	if h.Family == resp.FamilyRead {
		h.owner = nil
		h.readBy(op.owner)
		if !a.op.Inside {
			e.joinAllLocked(sh, root, h, fx)
			ent = root
		}
	}
	e.adoptLocked(sh, h, fx)
	e.answerTriesLocked(sh, a, r, fx)
	if h.Family == resp.FamilyWrite && root.seats != nil {
		root.seats.notedHold, root.seats.noted = root.seats.noted, false
	}
	e.unparkLocked(ent, fx)
	if h.Family == resp.FamilyRead { // a writer that is next asks, and is told
		e.kickLocked(sh, root, fx)
	}
	e.readAnsweredLocked(sh, ent, fx)
}

// startLocked makes a hold its first holder's, and the watchdog's.
func (e *Engine) startLocked(h *hold, op *acquireOp, r *resp.Result, fx *effects) {
	ls := &Lease{hold: h, lock: op.lock, ctx: op.ctx, owner: op.owner}
	h.begin(op.set, h.ent.root().turn(turnEnd(r)), int(r.Seen))
	h.lease, h.owner = ls, op.owner
	terms := renew.Terms{SentAt: r.SentAt, Lease: op.set.lease, Renew: op.set.watchdog}
	if limit := op.set.maxHold; limit > 0 {
		terms.Until = r.ReceivedAt.Add(limit)
	}
	e.dog.Watch(h, terms)
	if root := h.ent.root(); root.telling > 0 {
		fx.before = root.tellFirst()
	}
	fx.grant(op, ls)
}

// tellFirst returns what tells the holders of a name who have lost it, and are not told yet, before somebody else is
// granted it. A lost hold keeps only its own queue closed: where there are seats the next acquire may be on its way.
func (ent *entry) tellFirst() func() {
	var all []*leaseContext
	for at := range ent.withSeats {
		if h := at.hold; h != nil && h.status.Load() == holdLost {
			all = append(all, h.contexts()...)
		}
	}
	return func() {
		for _, c := range all {
			c.cancel(ErrLost)
		}
	}
}

// unusedLocked gives back a grant nobody can use. If too few replicas have seen it, who asked for more
// is told.
func (e *Engine) unusedLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	if a.tooFew(r) && !r.Unwanted() {
		sh.counts.unseen++
		if op := ent.grantedUnseen(a.op.Ack, a.op.Family); op != nil {
			sh.counts.errors++
			fx.fail(op, notReplicated(op.lock.Name(), a.op.Ack, r))
		}
	} else {
		sh.counts.unclaimed++
	}
	switch d := a.open(); {
	case ent.whole().forces > 0: // after the force-release, which is to find it
		d.until = max(d.until, r.ReceivedAt)
		all := ent.root().ofRoot()
		all.unbelieved = append(all.unbelieved, e.cleanLaterLocked(sh, ent, a.wire(), d, a.lease))
	case a.op.Ack != nil:
		e.cleanFirstLocked(sh, ent, a.wire(), d, a.lease)
	default:
		e.cleanLocked(sh, ent, a.wire(), d, a.lease)
	}
	e.kickLocked(sh, ent, fx)
}

// tooFew reports whether fewer replicas have seen the grant than the attempt asked for.
func (a *attempt) tooFew(r *resp.Result) bool {
	return a.op.Ack != nil && int(r.Seen) < a.op.Ack.Replicas
}

func notReplicated(name string, ack *resp.Ack, r *resp.Result) error {
	err := &NotReplicatedError{Name: name, Wanted: ack.Replicas, Seen: int(r.Seen)}
	if r.Unseen != nil {
		err.cause = r.Unseen
	}
	return err
}

// answerTriesLocked tells every Try in the queue that the lock is held: they take the answer to an attempt.
func (e *Engine) answerTriesLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent, now := a.ent, r.ReceivedAt
	for op := ent.takeTries(a.op.Family, r.Code != resp.CodeBusy); op != nil; {
		next := op.next
		op.next = nil
		sh.counts.busy++
		fx.fail(op, &HeldError{Name: op.lock.Name(), Remaining: remainingLocked(ent, now)})
		op = next
	}
}

// busyLocked parks the queue until a message, the poll or a reconnect says to try again.
func (e *Engine) busyLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	sh.counts.busyReplies++
	if t := a.trouble; t != nil {
		t.answered()
		t.last = nil
	}
	if ent.park == nil {
		ent.park = newParking(ent)
	}
	until := forever
	if r.Value >= 0 {
		until = r.ReceivedAt.Add(fromServerMs(r.Value))
	}
	switch {
	case !a.op.Waits:
	case a.op.Family == resp.FamilyFair:
		a.op.Placed = true
	default:
		ent.ofRoot().noted = true
		e.closeNoteLocked(sh, ent) // at once, if its writer has left meanwhile
	}
	if a.op.Family == resp.FamilySpin {
		ent.root().leftAt = r.ReceivedAt
	}
	ent.busy(until, a.op.Placed || a.open().open(r.SentAt))
	e.answerTriesLocked(sh, a, r, fx)
	for op := ent.head; ent.meant(a.op.Family) && op.tellBusy(); op = op.next {
		sh.counts.waits++
		e.watchLocked(op, fx)
	}
	e.doLocked(sh, ent, ent.afterBusy(a.op.Family), fx)
}

// failedLocked deals with an attempt that got an error, or no answer at all.
func (e *Engine) failedLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	now := e.clock.Now()
	if a.trouble == nil {
		a.trouble = &trouble{a: a}
		a.trouble.item.Owner = a.trouble
	}
	t := a.trouble
	t.last = r.Err
	t.failed(r.Definite(), r.SentAt, now, e.nodes.AttemptLimit(), a.lease)
	if ent.head == nil {
		e.idleLocked(sh, ent, fx)
		return
	}
	class := r.Err.Class
	out := now.Sub(t.since) > patience*e.nodes.AttemptLimit()
	if h := ent.beside(); h != nil && h.nesting != nil {
		h.nesting.behindLocked(e, now, r.Err, fx)
	}
	ends := out && ent.beside() != nil // the release of the hold that it is to read beside waits for it
	e.failSomeLocked(sh, ent, fx, func(op *acquireOp) error {
		switch v := t.verdict(class, op.parked, op.try || ends, out); {
		case v == goesOn, v == endsRefused && !sameKind(op.set.family, a.op.Family): // its script uses other keys
			return nil
		case v == endsUnknown:
			return &UnknownError{
				Name: op.lock.Name(), cause: r.Err,
				FreeBy: e.clock.Wall(max(t.doubt.until, now).Add(max(a.lease, t.doubt.lease))),
			}
		default:
			return fromServer(op.lock.Name(), r.Err)
		}
	})
	if ent.head == nil {
		e.idleLocked(sh, ent, fx)
		return
	}
	if !ent.meant(a.op.Family) {
		e.dropAttemptLocked(sh, ent)
		e.kickLocked(sh, ent, fx)
		return
	}
	ent.resend()
	e.timers.Schedule(&t.item, e.resendAt(ent.slot, now, t.tries))
}

// failSomeLocked completes the ops for which verdict has an error.
func (e *Engine) failSomeLocked(sh *shard, ent *entry, fx *effects, verdict func(*acquireOp) error) {
	for op := ent.head; op != nil; {
		next := op.next
		if err := verdict(op); err != nil {
			ent.unlink(op)
			if op.claim() {
				sh.counts.errors++
				fx.fail(op, err)
			}
		} else {
			e.watchLocked(op, fx)
		}
		op = next
	}
	e.closeNoteLocked(sh, ent)
}

// wrongKindLocked tells those who want what was asked for that something else stands under the name. The
// others are asked for: it may be theirs.
func (e *Engine) wrongKindLocked(sh *shard, a *attempt, fx *effects) {
	e.failSomeLocked(sh, a.ent, fx, func(op *acquireOp) error {
		if shares(op.set.family) != shares(a.op.Family) {
			return nil
		}
		return &nameError{op.lock.Name(), ErrWrongKind}
	})
	e.kickLocked(sh, a.ent, fx)
}

// resendAt says when a command that failed is sent again: after a pause of its own, and when the node
// may be asked to repeat anything.
func (e *Engine) resendAt(slot uint16, now clock.Instant, tries int) clock.Instant {
	return e.nodes.Owner(slot).Resend(now.Add(e.backoff(tries)))
}

// backoff spreads re-sends: the first comes almost at once, later ones up to a second apart.
func (e *Engine) backoff(tries int) time.Duration {
	most := min(10*time.Millisecond<<min(2*(tries-1), 16), time.Second)
	return time.Millisecond + e.world.N(most)
}
