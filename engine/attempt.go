package engine

import (
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// unknown reports whether the present owner id was sent without an answer.
func (a *attempt) unknown() bool { return a.retry != nil && a.retry.Unknown() }

// kept reports whether the next sending is under the same owner id: it may have the key, or stands in the
// queue of a fair lock.
func (a *attempt) kept() bool { return a.unknown() || a.op.Placed }

// lockRef returns the owner id, and its family, under which the attempt may hold the key.
func (a *attempt) lockRef() lockRef { return lockRef{a.op.Field, a.op.Family} }

// indeterminate is what is not known of the attempt's owner id.
func (a *attempt) indeterminate() lockstate.Indeterminate {
	if a.retry == nil {
		return lockstate.Indeterminate{}
	}
	return a.retry.Open
}

// lease is what it asks for.
func (a *attempt) lease() time.Duration { return time.Duration(a.op.LeaseMs) * time.Millisecond }

// Suits reports whether a grant of it would be what these terms ask for, seen by as many replicas, for which it waits
// as long. Where it waits for none it suits everybody: nobody has to wait longer for its answer than for another.
func (a *attempt) Suits(t *lockstate.Terms) bool {
	ack := (*lockstate.Ack)(a.op.Ack)
	return ack == nil || t.Ack != nil && *t.Ack == *ack && t.Lease == a.lease() &&
		t.Family == &traits(a.op.Family).Traits && (!t.Family.Many || t.Units == a.permits())
}

// permits is how many an attempt asks for, if it asks for any.
func (a *attempt) permits() int32 { return int32(len(a.op.Field) / resp.PermitID) } //nolint:gosec // a few

// fits reports whether what may be held under the attempt's owner id is what an op wants.
func (a *attempt) fits(op *acquireOp) bool {
	return entersAs(a.op.Family, op.set.family) && (!op.set.Family.Many || a.permits() == op.set.Units)
}

// send submits the attempt for the head's lock. While a copy under the present owner id may still
// run, that id is kept and the key is asked for alone; otherwise the lane makes a new one.
func (sc *section) send(a *attempt, op *acquireOp) error {
	l := op.lock
	a.op.Key, a.op.Hash, a.op.Slot, a.op.Wide = l.key, l.hash, l.slot, a.ent.wide
	a.op.LeaseMs = l.set.Lease.Milliseconds()
	a.op.Sink, a.op.Ack, a.op.Family, a.op.Inside = a, (*resp.Ack)(l.set.Ack), l.set.family, a.ent.besideHold() != nil
	if traits(a.op.Family).Mark != lockstate.MarkNone {
		a.op.Waits = !op.Try
	}
	switch {
	case traits(a.op.Family).counted():
		a.ask()
	case traits(a.op.Family).Many:
		a.name(l.set.Units)
	case a.kept():
		a.op.Kind, a.op.Count = resp.OpReacquire, 1
	default:
		a.op.Kind, a.op.Field = resp.OpAcquire, ""
	}
	err := sc.submit(&a.op)
	if err != nil {
		a.namedNobody()
	}
	return err
}

// Scheduled is its place among the timers.
func (t *retryState) Scheduled() *wheel.Item[timed] { return &t.item }

// due sends the attempt again, unless it was settled meanwhile.
func (t *retryState) due(clock.Instant) {
	ent := t.a.ent
	e := ent.eng
	sc := e.enter(ent.hash)
	if t.a.retry == t && ent.ResendDue(t.a) {
		sc.advance(ent)
	}
	sc.leave()
}

// Answered takes the server's answer. It runs on the lane.
func (a *attempt) Answered(_ *resp.Op, r *resp.Result) {
	ent := a.ent
	e := ent.eng
	sc := e.enter(ent.hash)
	root := ent.root() // it may hang on it no more afterwards
	// The queue may send again from here on: whoever decides below decides what.
	ent.Landed()
	if first := ent.First(); first != nil && r.SentAt != 0 && (r.Err == nil || !r.Definite()) {
		first.Asked = true
	}
	switch r.Code {
	case resp.CodeOpened, resp.CodeGone, resp.CodeDeleted:
		sc.looked(a, r)
	case resp.CodeMet:
		sc.met(a, r)
	case resp.CodeGranted, resp.CodeOurs:
		sc.granted(a, r)
	case resp.CodeBusy:
		switch {
		case a.op.Inside:
			sc.lost = sc.besideBusy(ent)
		case traits(a.op.Family).Serves == lockstate.ServesAll:
			sc.looked(a, r)
		default:
			sc.busy(a, r)
		}
	case resp.CodeCancelled:
		// It never reached the server, unless an earlier copy did: then its owner id stays.
		a.namedNobody()
		if !a.kept() {
			ent.Settled()
		}
		sc.advance(ent)
	case resp.CodeWrongKind:
		if a.op.Inside {
			sc.lost = sc.besideBusy(ent)
			break
		}
		sc.dropAttempt(ent)
		sc.wrongKind(a)
	default:
		sc.failed(a, r)
	}
	sc.hasLeft(ent, root)
	sc.answered()
	sc.leaveAt("attempt.Answered: decided | effects")
}

// granted gives the lock to the first who still wants it; a grant nobody can use is released.
func (sc *section) granted(a *attempt, r *resp.Result) {
	ent := a.ent
	if traits(a.op.Family).counted() {
		sc.serve(a, r)
		return
	}
	deadline := renew.TrustUntil(r.SentAt, a.lease())
	if !r.ReceivedAt.Before(renew.SignalAt(deadline, a.lease())) {
		// The answer took so long that the lease cannot be trusted any more: give it back, ask again.
		sc.sh.counts.tooLate++
		op := opOf(ent.GrantedLate())
		if op != nil || !sc.keepPlace(a) {
			sc.clean(ent, a.lockRef(), a.indeterminate(), a.lease())
		}
		if op != nil {
			sc.fail(op, &nameError{op.lock.Name(), fmt.Errorf("%w: granted, but the answer took as long as the lease of %v",
				notTaken{ErrLost}, a.lease())})
		}
		sc.advance(ent)
		return
	}
	// Who has lost the lock since is not to be given it: the server only knows that the field is there.
	root := ent.root()
	for op := ent.live(); op != nil && root.lostTo(op.lease.owner); op = ent.live() {
		ent.Unlink(&op.Waiter)
		sc.refuse(op, ErrLost)
	}
	op := a.claim(int(r.ReplicaAcks))
	if op == nil {
		sc.unused(a, r)
		return
	}
	// From here on the lock is held.
	sc.sh.counts.grants++
	sc.sh.counts.origin(ent.WokenBy())
	f := traits(a.op.Family)
	if f.Many || f.Shared && ent == root {
		ent = ent.newChild()
	}
	h := ent.newHold()
	h.Field, h.Family = a.op.Field, a.op.Family
	if f.fenced {
		h.ensureExtra().token = r.Value
	}
	ent.held(h)
	sc.startHold(h, op, a, r)
	if f.Shared {
		h.owner = nil
		h.readBy(op.lease.owner)
		if !a.op.Inside {
			sc.joinAll(root, h, r.ReceivedAt)
			ent = root
		}
	}
	// Others go on: the owner's other callers enter, who only tried is told, a writer that is next asks.
	if f.Many { // there may be more: it is no answer to tries
		sc.advance(root)
		return
	}
	sc.admitSameOwner(h)
	sc.answerTries(a, r)
	if f.Mark == lockstate.MarkNote && root.children() != nil {
		root.children().notedHold, root.children().noted = root.children().noted, false
	}
	sc.unpark(ent)
	if f.Shared { // a writer that is next asks, and is told
		sc.advance(root)
	}
	sc.downgradeAnswered(ent)
}

// claim takes the first who still wants what was granted, seen by so many replicas; nil: nobody does.
func (a *attempt) claim(seen int) *acquireOp {
	f := &traits(a.op.Family).Traits
	if f.Many {
		return opOf(a.ent.GrantedMany(lockstate.Terms{Family: f, Lease: a.lease(), Units: a.permits()}, seen))
	}
	return opOf(a.ent.Granted(f, a.lease(), seen))
}

// startHold makes a hold its first holder's, and the watchdog's.
func (sc *section) startHold(h *hold, op *acquireOp, a *attempt, r *resp.Result) {
	ls := sc.newLease(h, op)
	var copies *lockstate.Indeterminate
	if a.retry != nil {
		copies = &a.retry.Open
	}
	h.Begin(&op.set.Terms, h.ent.root().Tenure(tenureEnd(r)), int(r.ReplicaAcks), copies)
	h.lease, h.owner = ls, op.lease.owner
	terms := renew.Terms{SentAt: r.SentAt, Lease: op.set.Lease, Renew: op.set.Watchdog}
	if limit := op.set.MaxHold; limit > 0 {
		terms.Until = r.ReceivedAt.Add(limit)
	}
	sc.eng.watchdog.Watch(h, terms)
	if root := h.ent.root(); root.LossUntold() {
		sc.before = root.tellFirst()
	}
	sc.grant(op, ls, r.SentAt, r.ReceivedAt)
}

// tenureEnd is when an engine's tenure with a lock is over: it begins with the server's answer to the
// acquire, and renewals do not prolong it.
func tenureEnd(r *resp.Result) clock.Instant {
	return r.ReceivedAt.Add(min(max(10*r.ReceivedAt.Sub(r.SentAt), lockstate.TenureLeast), lockstate.TenureMost))
}

// tellFirst returns what tells the holders of a name who have lost it, and are not told yet, before somebody else is
// granted it. A lost hold keeps only its own queue closed: where there are children the next acquire may be on its way.
func (ent *entry) tellFirst() func() {
	var all []*leaseContext
	for at := range ent.withChildren {
		if h := at.hold; h != nil && h.Status() == lockstate.Lost {
			all = append(all, h.contexts()...)
		}
	}
	return func() {
		for _, c := range all {
			c.cancel(ErrLost)
		}
	}
}

// unused gives back a grant nobody can use. If too few replicas have seen it, who asked for more
// is told.
func (sc *section) unused(a *attempt, r *resp.Result) {
	ent := a.ent
	if a.tooFew(r) && !r.Unwanted() {
		sc.sh.counts.unseen++
		if op := opOf(ent.GrantedUnseen(lockstate.Ack(*a.op.Ack), &traits(a.op.Family).Traits)); op != nil {
			sc.sh.counts.errors++
			sc.fail(op, notReplicated(op.lock.Name(), a.op.Ack, r))
		}
	}
	if sc.keepPlace(a) {
		sc.advance(ent)
		return
	}
	d := a.indeterminate()
	if ent.Forcing() { // after the force-release, which is to find it
		d.Until = max(d.Until, r.ReceivedAt)
		all := ent.root().ensureChildren()
		all.unbelieved = append(all.unbelieved, sc.cleanLater(ent, a.lockRef(), d, a.lease()))
	} else {
		sc.clean(ent, a.lockRef(), d, a.lease())
	}
	sc.advance(ent)
}

// keepPlace has who waits for a fair lock ask again under the owner id of a grant that it cannot have, and
// reports whether it will. That ends in a grant that it can have, unless the lock was lost meanwhile. Who gave it
// back and asked as another waiter would stand behind all who came later.
func (sc *section) keepPlace(a *attempt) bool {
	op := opOf(a.ent.Live())
	if traits(a.op.Family).Mark != lockstate.MarkPlace || op == nil || op.Try || !a.fits(op) ||
		op.set.Lease != a.lease() || !a.Suits(&op.set.Terms) {
		return false
	}
	a.ent.Begin(a)
	a.op.Placed = true
	if a.retry != nil {
		a.retry.Answered()
		a.retry.last = nil
	}
	return true
}

// tooFew reports whether fewer replicas have seen the grant than the attempt asked for.
func (a *attempt) tooFew(r *resp.Result) bool {
	return a.op.Ack != nil && int(r.ReplicaAcks) < a.op.Ack.Replicas
}

// answerTries tells every Try in the queue that the lock is held: they take the answer to an attempt.
func (sc *section) answerTries(a *attempt, r *resp.Result) {
	sc.refuseTries(a.ent, a.op.Family, r.Code != resp.CodeBusy, r.ReceivedAt)
}

// refuseTries tells those in a queue whom a grant, or a "busy" to what was asked for, keeps out.
func (sc *section) refuseTries(ent *entry, asked resp.Family, granted bool, now clock.Instant) {
	tries := ent.TakeTries(&traits(asked).Traits, granted)
	for w := tries.Take(); w != nil; w = tries.Take() {
		op := opOf(w)
		sc.refusedTry(op)
		sc.fail(op, sc.heldError(op, ent, now))
	}
}

// busy parks the queue until a message, the poll or a reconnect says to try again.
func (sc *section) busy(a *attempt, r *resp.Result) {
	ent := a.ent
	if t := a.retry; t != nil {
		t.Answered()
		t.last = nil
	}
	// Until when it is held: a key without an expiry is held for ever, as far as anybody knows.
	until := forever
	if r.Value >= 0 {
		until = r.ReceivedAt.Add(fromServerMs(r.Value))
	}
	asked, keep := &traits(a.op.Family).Traits, a.indeterminate().MayRunAfter(r.SentAt)
	if ent.BusyBehind(asked, until, keep) {
		sc.advance(ent)
		return
	}
	ent.ensureWakeups()
	sc.passedOver(ent)
	switch {
	case !a.op.Waits:
	case traits(a.op.Family).Mark == lockstate.MarkPlace:
		a.op.Placed = true
		if ent.standsInLine(r.Since) {
			defer sc.fairListen(ent.root())
		}
	default:
		ent.ensureChildren().noted = true
		sc.closeNote(ent) // at once, if its writer has left meanwhile
	}
	if traits(a.op.Family).unheard {
		ent.root().SawOthers(r.ReceivedAt)
	}
	ent.Busy(until, a.op.Placed || keep)
	// Who only tries is told now; the others wait, and see the end of their ctx from now on.
	sc.answerTries(a, r)
	for w := ent.First(); ent.Meant(asked) && w.TellBusy(); w = w.Next() {
		sc.toldBusy(opOf(w), r.SentAt)
		sc.watchWait(opOf(w))
	}
	sc.applyStep(ent, ent.AfterBusy(asked))
	if traits(a.op.Family).alone && ent.Parked() {
		sc.askHolder(ent, r.ReceivedAt)
	}
}

// failed deals with an attempt that got an error, or no answer at all.
func (sc *section) failed(a *attempt, r *resp.Result) {
	e := sc.eng
	ent := a.ent
	now := e.clock.Now()
	if a.retry == nil {
		a.retry = &retryState{a: a}
	}
	t := a.retry
	t.last = r.Err
	if r.Definite() {
		a.namedNobody()
	}
	t.Failed(r.Definite(), lockstate.Sending{At: r.SentAt, Limit: e.nodes.AttemptLimit(), Lease: a.lease()}, now)
	if ent.First() == nil {
		sc.tidy(ent)
		return
	}
	// The budget of retries is the attempt's; what each waiter is told depends on what it has heard before.
	fault := faultOf(r, a.op.Family)
	out := now.Sub(t.Since()) > retryBudget*e.nodes.AttemptLimit()
	if h := ent.besideHold(); h != nil && h.reentry() != nil {
		sc.changesWait(h.reentry(), now, r.Err)
	}
	ends := out && ent.besideHold() != nil // the release of the hold that it is to read beside waits for it
	sc.failSome(ent, func(op *acquireOp) error {
		op.askedBy(r.SentAt)
		switch v := t.Judge(fault, op.Told(), op.Try || ends, out); {
		case v == lockstate.KeepWaiting:
			return nil
		case v == lockstate.FailServer && !entersAs(a.op.Family, op.set.family): // its script uses other keys
			return nil
		case v == lockstate.FailUnknown:
			return a.unknownError(op, r.Err, now)
		default:
			return fromServer(op.lock.Name(), r.Err)
		}
	})
	if ent.First() == nil {
		sc.tidy(ent)
		return
	}
	// Who is first now wants another kind: that is another command, with other keys.
	if !ent.Meant(&traits(a.op.Family).Traits) {
		sc.dropAttempt(ent)
		sc.advance(ent)
		return
	}
	ent.Resend()
	e.timers.Schedule(t, e.resendAt(ent.slot, now, t.Tries()))
}

// unknownError says that nobody knows what has become of the attempt, and by when it is over.
func (a *attempt) unknownError(op *acquireOp, cause error, now clock.Instant) error {
	err, t := &UnknownError{Name: op.lock.Name(), cause: cause}, a.retry
	if !traits(a.op.Family).counted() { // no time ends that
		err.FreeBy = a.ent.eng.clock.Wall(max(t.Open.Until, now).Add(max(a.lease(), t.Open.Lease)))
	}
	return err
}

// faultOf says what the machines have to know of an error.
func faultOf(r *resp.Result, f resp.Family) lockstate.Fault {
	c := r.Err.Class
	return lockstate.Fault{
		Definite:  c.Definite(),
		Transient: c.Transient(),
		Passes:    c == resp.ClassOOM || c == resp.ClassMisconf || c == resp.ClassNoReplicas,
		Partly:    c == resp.ClassPartly,
		Moving:    c == resp.ClassTryAgain,
		Once:      traits(f).AskOnce,
	}
}

// wrongKind tells those who want what was asked for that something else stands under the name. The
// others are asked for: it may be theirs.
func (sc *section) wrongKind(a *attempt) {
	sc.failSome(a.ent, func(op *acquireOp) error {
		if otherKind(op.set.family, a.op.Family) {
			return nil
		}
		return &nameError{op.lock.Name(), ErrWrongKind}
	})
	sc.advance(a.ent)
}
