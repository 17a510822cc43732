package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// longestTold is the longest time that is told apart: a server counts up to 292 million years, a
// time.Duration up to 292 years, and an instant on top of one less than that.
const longestTold = 100 * 365 * 24 * time.Hour

// forever is until when a lock without an expiry is held.
const forever = clock.Instant(1 << 62)

// fromServerMs turns a server's milliseconds into a duration. What is longer than a century is a century.
// Negative: there is no end.
func fromServerMs(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(min(ms, longestTold.Milliseconds())) * time.Millisecond
}

// errNoAnswer is why an outcome is unknown where MaxWait ended before the server had said anything.
var errNoAnswer = fmt.Errorf("no answer before MaxWait was over: %w", context.DeadlineExceeded)

// waitedError is what an op is told when its MaxWait is over: that somebody else has the lock, and for how long
// as far as this engine knows; or that nobody knows, because the server has not answered.
func (e *Engine) waitedError(op *acquireOp, now clock.Instant) error {
	sc := e.enter(op.lock.hash)
	defer sc.leave()
	ent := sc.entryOf(op)
	if op.queued && ent.beside() == nil { // or it enters again, or reads beside: who has the lock is its own owner
		for at := range ent.root().withSeats {
			if at.keepsOut(op, now) {
				return &HeldError{Name: op.lock.Name(), Remaining: sc.remaining(at, now)}
			}
		}
	}
	return sc.unanswered(ent, op, now)
}

// keepsOut reports whether somebody else is known to have the lock that an op waits for: this engine, or who
// was said to have it in the last answer.
func (ent *entry) keepsOut(op *acquireOp, now clock.Instant) bool {
	if h := ent.standing(); h != nil {
		return h.Family != resp.FamilyRead || op.set.family != resp.FamilyRead
	}
	return ent.toldBusy(now)
}

// unanswered says by when what was sent for an op is over, with the last error if there was one.
func (sc *section) unanswered(ent *entry, op *acquireOp, now clock.Instant) error {
	err := &UnknownError{Name: op.lock.Name(), cause: errNoAnswer}
	until, lease := now.Add(sc.eng.nodes.AttemptLimit()), op.set.lease
	if ent != nil && ent.att != nil {
		lease = max(lease, ent.att.lease)
		if t := ent.att.trouble; t != nil {
			until, lease = max(until, t.doubt.until), max(lease, t.doubt.lease)
			if t.last != nil {
				err.cause = t.last
			}
		}
	}
	err.FreeBy = sc.eng.clock.Wall(until.Add(lease))
	return err
}

// remaining is how long who is in the way stays, as far as this engine knows.
func (sc *section) remaining(ent *entry, now clock.Instant) time.Duration {
	switch {
	case ent == nil:
		return 0
	case ent.standing() != nil:
		return max(ent.hold.Deadline().Sub(now), 0)
	case ent.wait == waitNot:
		return 0
	case ent.busyUntil == forever:
		return -1
	default:
		return max(ent.busyUntil.Sub(now), 0)
	}
}
