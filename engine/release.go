package engine

import (
	"errors"
	"fmt"

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

func (op *releaseOp) runner() *callbacks { return op.hold.ent.eng.callbacks }

// abandon changes nothing: a release is detached from its caller.
func (op *releaseOp) abandon(error) bool { return false }

// release ends a lease. The lock goes to the next waiter here, or back to Redis; then nobody here
// believes the hold any more.
func (e *Engine) release(op *releaseOp, ls *Lease) {
	h := op.hold
	sh := e.shard(h.ent.hash)
	var fx effects
	var err error
	var ended *leaseContext
	var l *loss
	answered := true
	op.lease = ls
	cause := ErrReleased
	sh.mu.Lock()
	ended = h.unwatch(ls) // whoever else is to end it may not have come to that yet
	switch h.status.Load() {
	case holdReleased: // Close did
		err = &nameError{e.nameOf(h.ent.key), ErrNotHeld}
	case holdLost:
		err, cause = e.spentLostLocked(ls, h), ErrLost
	default:
		shared := h.Family == resp.FamilyRead && h.count > 1
		if shared && !e.clock.Now().Before(h.Deadline()) { // nothing is sent that would say so
			l = e.loseLocked(sh, h, renew.CauseDeadline, &fx)
			err, cause = e.spentLostLocked(ls, h), ErrLost
			break
		}
		e.tell(EventReleased, h, "")
		if shared {
			e.leftLocked(h, ls)
			e.trustLessLocked(h)
			h.leaveLocked(ls)
			sh.counts.releases++
			break
		}
		if !h.lastHandle() || h.readAsked() {
			e.leftLocked(h, ls)
			n := h.nest()
			n.want(change{release: op, lease: ls})
			e.nestLocked(sh, n, &fx)
			answered = false
			break
		}
		if e.handOverLocked(sh, h, &fx) {
			break
		}
		answered, err = e.sendReleaseLocked(sh, op, &fx)
		if answered && errors.Is(err, ErrLost) {
			err, cause = e.spentLostLocked(ls, h), ErrLost
		}
	}
	fx.owe(e, sh)
	sh.mu.Unlock()
	if ended != nil {
		e.world.Yield("Engine.release: decided | a context ended")
		ended.cancel(cause)
	}
	e.tellLoss(sh, l, &fx)
	e.world.Yield("Engine.release: contexts ended | effects")
	fx.run()
	if answered {
		op.resolve(struct{}{}, err)
	}
}

// spentLostLocked marks a handle whose lock was lost before it was given back.
func (e *Engine) spentLostLocked(ls *Lease, h *hold) error {
	ls.state.Store(leaseLost)
	ls.owner.forget(e, h.ent.key)
	return &nameError{e.nameOf(h.ent.key), ErrLost}
}

// sendReleaseLocked sends the release of a hold's last lease. It says whether the answer is known
// already: only if nothing was sent.
func (e *Engine) sendReleaseLocked(sh *shard, op *releaseOp, fx *effects) (answered bool, err error) {
	h := op.hold
	ent := h.ent
	if !h.end(holdReleased) {
		return true, ErrLost
	}
	e.dog.Forget(h)
	if root := ent.root(); root.seats != nil && shares(h.Family) {
		now := e.clock.Now()
		root.seats.lasts = max(root.seats.lasts, now.Add(h.tail(now)))
	}
	ent.freed(h)
	op.op = resp.Op{Kind: resp.OpRelease, Family: h.Family, Key: h.ent.key, Hash: ent.hash, Slot: h.ent.slot, Field: h.Field, Sink: op}
	if heirs := e.heirsLocked(h); heirs != nil {
		op.op.Sink = &fairRelease{op, heirs}
	}
	root, now := ent.root(), clock.Instant(0)
	if ent.head != nil || root.others >= leaveTo { // most releases meet nobody, and need not know the time
		now = e.clock.Now()
	}
	op.op.Left = h.Family != resp.FamilyFair && root.leaves(now)
	if err := e.nodes.Submit(&op.op); err != nil {
		e.kickAllLocked(sh, ent, fx)
		return true, fromServer(e.nameOf(h.ent.key), resp.AsServerError(err))
	}
	sh.pending++
	ent.releaseSent()
	if ent.goesOn(now) {
		ent.follow()
		e.kickLocked(sh, ent, fx)
	}
	return false, nil
}

// Answered takes the server's answer. It runs on the lane.
func (op *releaseOp) Answered(_ *resp.Op, r *resp.Result) {
	h, ent := op.hold, op.ent
	e := ent.eng
	sh := e.shard(ent.hash)
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
	var fx effects
	sh.mu.Lock()
	if err == nil {
		sh.counts.releases++
		if r.Code == resp.CodeReleased && r.Value > 0 {
			sh.counts.heard++
		}
	}
	switch h.afterRelease(r.Err == nil, r.SentAt) {
	case endsNow:
		if e.draining.Load() {
			e.givenUp.Add(1)
		} else {
			e.cleanLocked(sh, ent, h.wire(), h.open(), h.tail(e.clock.Now()))
		}
	case endsLater:
		e.cleanLaterLocked(sh, ent, h.wire(), h.open(), h.Lease())
	}
	rested := ent.releaseAnswered()
	if root := ent.root(); r.Err == nil && root.hold == nil && h.Family != resp.FamilyFair {
		e.courtesyLocked(sh, op, r, &fx)
	}
	if r.Code == resp.CodePassed {
		e.passedLocked(sh, ent.root(), op.op.Sink.(*fairRelease).heirs, r, &fx)
	}
	if h.Family == resp.FamilyRead {
		e.lessReadLocked(sh, ent.root(), h.asked(e.clock.Now()), &fx)
	}
	e.kickAllLocked(sh, ent, &fx)
	if rested {
		e.kickSeatsLocked(sh, ent.root(), &fx)
	}
	e.settledLocked(sh)
	sh.mu.Unlock()
	e.world.Yield("releaseOp.Answered: carried out | told")
	fx.run()
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
