package engine

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// An attempt is the one acquire of a name that has no final answer. Its wire id changes with every
// sending, except while an earlier copy may still run.
type attempt struct {
	op    resp.Op
	ent   *entry
	lease time.Duration

	epoch       uint32 // of the parking when it was sent
	flying      bool   // in a lane
	scheduled   bool   // waits to be sent again
	everUnknown bool   // its present wire id was sent without an answer
	doubt       doubt
	tries       int           // failures in a row
	failedSince clock.Instant // of the first of them
	item        wheel.Item    // the next sending
}

//nolint:gochecknoglobals // pools have no state anybody can see
var attempts = sync.Pool{New: func() any { return new(attempt) }}

func newAttempt(ent *entry) *attempt {
	a := attempts.Get().(*attempt)
	a.ent = ent
	return a
}

// free gives the attempt back. Only one that was never scheduled is used again: the wheel may still
// be about to deliver the others.
func (a *attempt) free() {
	if a.item.Owner == nil {
		*a = attempt{}
		attempts.Put(a)
	}
}

// onItsWay reports whether another sending would be one too many.
func (a *attempt) onItsWay() bool { return a.flying || a.scheduled }

// send submits the attempt for the head's lock. While a copy under the present wire id may still
// run, that id is kept and the key is asked for alone; otherwise the lane makes a new one.
func (a *attempt) send(l *Lock) error {
	e := l.eng
	a.lease = l.set.lease
	a.op.Key, a.op.Hash = l.key, l.hash
	a.op.LeaseMs = a.lease.Milliseconds()
	a.op.Sink = a
	if a.everUnknown {
		a.op.Kind, a.op.Count = resp.OpReacquire, 1
	} else {
		a.op.Kind, a.op.Field = resp.OpAcquire, ""
	}
	a.epoch = 0
	if p := a.ent.park; p != nil {
		a.epoch = p.epoch
	}
	if err := e.node(l.hash).node.Submit(&a.op); err != nil {
		return err
	}
	a.flying = true
	return nil
}

// due sends the attempt again.
func (a *attempt) due(clock.Instant) {
	e := a.ent.eng
	sh := e.shard(a.ent.hash)
	var fx effects
	sh.mu.Lock()
	if a.scheduled && a.ent.att == a {
		a.scheduled = false
		e.kickLocked(sh, a.ent, &fx)
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
	sh.mu.Lock()
	a.flying = false
	switch r.Code {
	case resp.CodeGranted, resp.CodeOurs:
		e.grantedLocked(sh, a, r, &fx)
	case resp.CodeBusy:
		e.busyLocked(sh, a, r, &fx)
	case resp.CodeCancelled:
		if !a.everUnknown {
			ent.att = nil
			a.free()
		}
		e.kickLocked(sh, ent, &fx)
	case resp.CodeWrongKind:
		e.dropAttemptLocked(sh, ent)
		e.failAllLocked(sh, ent, ErrWrongKind, &fx)
	default:
		e.failedLocked(sh, a, r, &fx)
	}
	e.settledLocked(sh)
	sh.mu.Unlock()
	fx.run()
}

// grantedLocked gives the lock to the first who still wants it; a grant nobody can use is released.
func (e *Engine) grantedLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	ent.att = nil
	deadline := renew.TrustUntil(r.SentAt, a.lease)
	if !r.ReceivedAt.Before(renew.SignalAt(deadline, a.lease)) {
		// The answer took so long that the lease cannot be trusted any more: give it back, ask again.
		sh.counts.tooLate++
		e.cleanLocked(sh, ent.key, ent.hash, a.op.Field, a.doubt.until, a.lease)
		a.free()
		e.kickLocked(sh, ent, fx)
		return
	}
	op := ent.claimFirst(a.lease)
	if op == nil {
		sh.counts.unclaimed++
		e.cleanLocked(sh, ent.key, ent.hash, a.op.Field, a.doubt.until, a.lease)
		a.free()
		e.kickLocked(sh, ent, fx)
		return
	}
	sh.counts.grants++
	h := &hold{ent: ent, openUntil: a.doubt.until}
	h.Key, h.Field, h.Lease = ent.key, a.op.Field, a.lease
	ent.hold = h
	ls := &Lease{hold: h, lock: op.lock, ctx: op.ctx}
	h.lease = ls
	terms := renew.Terms{SentAt: r.SentAt, Renew: op.lock.set.watchdog}
	if limit := op.lock.set.maxHold; limit > 0 {
		terms.Until = r.ReceivedAt.Add(limit)
	}
	e.node(ent.hash).dog.Watch(h, terms)
	fx.grant(op, ls)
	e.answerTriesLocked(sh, ent, r.ReceivedAt, fx)
	e.unparkLocked(ent, fx)
	a.free()
}

// claimFirst takes the first live op out of the queue, if it asks for the lease that was granted.
func (ent *entry) claimFirst(lease time.Duration) *acquireOp {
	for op := ent.head; op != nil; op = ent.head {
		if op.lock.set.lease != lease {
			return nil
		}
		ent.unlink(op)
		if op.claim() {
			return op
		}
	}
	return nil
}

// answerTriesLocked tells every Try in the queue that the lock is held: they take this answer.
func (e *Engine) answerTriesLocked(sh *shard, ent *entry, now clock.Instant, fx *effects) {
	for op := ent.head; op != nil; {
		next := op.next
		if op.try {
			ent.unlink(op)
			if op.claim() {
				sh.counts.busy++
				fx.fail(op, &HeldError{Name: op.lock.Name(), Remaining: remainingLocked(ent, now)})
			}
		}
		op = next
	}
}

// busyLocked parks the queue until a message, the poll or a reconnect says to try again.
func (e *Engine) busyLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	sh.counts.busyReplies++
	a.tries, a.failedSince = 0, 0
	epoch := a.epoch
	if ent.park == nil {
		ent.park = &parking{ent: ent, epoch: epoch}
		ent.park.item.Owner = ent.park
	}
	p := ent.park
	p.busyUntil = 0
	if r.Value >= 0 {
		p.busyUntil = r.ReceivedAt.Add(time.Duration(r.Value) * time.Millisecond)
	}
	if !a.doubt.open(r.ReceivedAt) {
		ent.att = nil
		a.free()
	}
	e.answerTriesLocked(sh, ent, r.ReceivedAt, fx)
	if ent.head == nil {
		e.idleLocked(sh, ent, fx)
		return
	}
	for op := ent.head; op != nil && !op.parked; op = op.next {
		op.parked = true
		sh.counts.waits++
		e.watchLocked(op)
	}
	if p.epoch != epoch {
		e.kickLocked(sh, ent, fx)
		return
	}
	e.parkLocked(ent, r.ReceivedAt, fx)
}

// failedLocked deals with an attempt that got an error, or no answer at all.
func (e *Engine) failedLocked(sh *shard, a *attempt, r *resp.Result, fx *effects) {
	ent := a.ent
	now := e.clock.Now()
	if !r.Definite() {
		a.everUnknown = true
		a.doubt.unanswered(r.SentAt, e.node(ent.hash).node.AttemptLimit())
	}
	if a.failedSince == 0 {
		a.failedSince = now
	}
	a.tries++
	if ent.head == nil {
		e.idleLocked(sh, ent, fx)
		return
	}
	class := r.Err.Class
	out := now.Sub(a.failedSince) > patience*e.node(ent.hash).node.AttemptLimit()
	e.failSomeLocked(sh, ent, fx, func(op *acquireOp) error {
		switch {
		case op.parked && (class.Transient() || memoryClass(class)):
			return nil
		case class == resp.ClassUnknown && !out:
			return nil // sent again under the same wire id: that answer is definite
		case class.Transient() && !out && !op.try:
			return nil
		case !class.Definite():
			return &UnknownError{
				Name: op.lock.Name(), cause: r.Err,
				FreeBy: e.clock.Wall(max(a.doubt.until, now).Add(a.lease)),
			}
		default:
			return fromServer(op.lock.Name(), r.Err)
		}
	})
	if ent.head == nil {
		e.idleLocked(sh, ent, fx)
		return
	}
	a.scheduled = true
	a.item.Owner = a
	e.timers.Schedule(&a.item, now.Add(backoff(a.tries)))
}

// memoryClass reports whether a waiter treats the refusal as "busy": it passes without its help.
func memoryClass(c resp.Class) bool {
	return c == resp.ClassOOM || c == resp.ClassMisconf || c == resp.ClassNoReplicas
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
			e.watchLocked(op)
		}
		op = next
	}
}

func (e *Engine) failAllLocked(sh *shard, ent *entry, err error, fx *effects) {
	e.failSomeLocked(sh, ent, fx, func(op *acquireOp) error { return &nameError{op.lock.Name(), err} })
	e.idleLocked(sh, ent, fx)
}

// backoff spreads re-sends: the first comes almost at once, later ones up to a second apart.
func backoff(tries int) time.Duration {
	most := min(10*time.Millisecond<<min(2*(tries-1), 16), time.Second)
	return time.Millisecond + rand.N(most)
}
