package engine

import (
	"errors"
	"fmt"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A releaseOp gives one wire hold back. It is repeated until a definite answer; callers that wait
// for it are told earlier that the outcome is unknown.
type releaseOp struct {
	Future[struct{}]
	hold  *hold
	ent   *entry // the hold's, so that the answer reads both at once from cold memory
	lease *Lease // the handle that is given back; nil: Close's
	op    resp.Op
	retry *releaseRetry // there once a sending has failed
}

// releaseRetry is what a releaseOp needs only in trouble.
type releaseRetry struct {
	item    wheel.Item
	unknown bool // an earlier sending got no answer
	tries   int
	since   clock.Instant // of the first failure
}

func newReleaseOp(h *hold) *releaseOp {
	op := &releaseOp{hold: h, ent: h.ent}
	op.Future.op = op
	return op
}

func (op *releaseOp) runner() *callback.Pool { return op.hold.ent.eng.callbacks }

// abandon changes nothing: a release is detached from its caller.
func (op *releaseOp) abandon(error) bool { return false }

// release ends a lease. The lock goes to the next waiter here, or back to Redis; then nobody here
// believes the hold any more.
func (e *Engine) release(op *releaseOp, ls *Lease) {
	h := op.hold
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
		shared := h.Family == resp.FamilyRead && h.count > 1
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
		if !h.lastHandle() || h.readAsked() {
			sc.leaseLeft(h, ls)
			n := h.nest()
			n.want(change{release: op, lease: ls})
			sc.nextChange(n)
			answered = false
			break
		}
		if sc.handOver(h) {
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
		e.world.Yield("Engine.release: decided | a context ended")
		ended.cancel(cause)
	}
	sc.tellLoss()
	e.world.Yield("Engine.release: contexts ended | effects")
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
	sc.eng.dog.Forget(h)
	if root := ent.root(); root.seats != nil && shares(h.Family) {
		now := sc.eng.clock.Now()
		root.seats.lasts = max(root.seats.lasts, now.Add(h.tail(now)))
	}
	ent.freed(h)
	op.op = resp.Op{Kind: resp.OpRelease, Family: h.Family, Key: h.ent.key, Hash: ent.hash, Slot: h.ent.slot, Field: h.Field, Sink: op}
	if heirs := sc.heirs(h); heirs != nil {
		op.op.Sink = &fairRelease{op, heirs}
	}
	root, now := ent.root(), clock.Instant(0)
	if ent.head != nil || root.others >= leaveTo { // most releases meet nobody, and need not know the time
		now = sc.eng.clock.Now()
	}
	op.op.Left = h.Family != resp.FamilyFair && root.leaves(now)
	if err := sc.eng.nodes.Submit(&op.op); err != nil {
		sc.advanceAll(ent)
		return true, fromServer(sc.eng.nameOf(h.ent.key), resp.AsServerError(err))
	}
	sc.sh.pending++
	ent.releaseSent()
	if ent.goesOn(now) {
		ent.follow()
		sc.advance(ent)
	}
	return false, nil
}

// Answered takes the server's answer. It runs on the lane.
func (op *releaseOp) Answered(_ *resp.Op, r *resp.Result) {
	h, ent := op.hold, op.ent
	e := ent.eng
	var err error
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
	switch h.afterRelease(r.Err == nil, r.SentAt) {
	case endsNow:
		if e.draining.Load() {
			e.givenUp.Add(1)
		} else {
			sc.clean(ent, h.wire(), h.open(), h.tail(e.clock.Now()))
		}
	case endsLater:
		sc.cleanLater(ent, h.wire(), h.open(), h.Lease())
	}
	rested := ent.releaseAnswered()
	if root := ent.root(); r.Err == nil && root.hold == nil && h.Family != resp.FamilyFair {
		sc.yieldName(op, r)
	}
	if r.Code == resp.CodePassed {
		sc.passedOn(ent.root(), op.op.Sink.(*fairRelease).heirs, r)
	}
	if h.Family == resp.FamilyRead {
		sc.readEnded(ent.root(), h.asked(e.clock.Now()))
	}
	sc.advanceAll(ent)
	if rested {
		sc.advanceSeats(ent.root())
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
	if e.draining.Load() || !r.Err.Class.Transient() && r.Definite() || now.Sub(retry.since) > patience*e.nodes.AttemptLimit() {
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
