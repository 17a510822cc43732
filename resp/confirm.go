package resp

import (
	"context"
	"math"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// confirming is what the lane of a node needs whose grants are answered only when enough replicas have
// seen them.
//
// WAIT answers for what came before the last command of its own connection: over one that has sent none
// it says at once that all is well. It also blocks its connection. So these acquires have a lane and a connection of their own,
// and everybody else's goes on. The next batch collects while replicas are waited for.
type confirming struct {
	waiting []confirmation  // the lane's worker's
	ctx     context.Context //nolint:containedctx // ends with Hurry
	stop    context.CancelFunc
}

// A confirmation is a grant that replicas are to see.
type confirmation struct {
	op *Op
	r  *Result
}

func newConfirming(w *world.World) *confirming {
	c := &confirming{}
	c.ctx, c.stop = w.WithCancel(context.Background())
	return c
}

// ops appends those whose grants are waited for.
func (c *confirming) ops(ops []*Op) []*Op {
	for _, w := range c.waiting {
		ops = append(ops, w.op)
	}
	return ops
}

// unconfirmed reports whether an answer has to wait for replicas.
func unconfirmed(op *Op, r *Result) bool {
	return op.Ack != nil && (r.Code == CodeGranted || r.Code == CodeOurs)
}

// confirm answers what a round has settled: what is no grant at once, a grant when as many replicas as
// its op asks for have seen it, or its time is over. Each op gets its own number and its own time,
// whatever the others of the round ask for: the smallest number that is still wanted is waited for
// until the first is out of time.
func (l *lane) confirm(w *wire, lost bool) {
	c := l.acks
	for i := range l.done {
		d := &l.done[i]
		for k, op := range d.ops {
			if op != nil && unconfirmed(op, &d.results[k]) {
				c.waiting = append(c.waiting, confirmation{op, &d.results[k]})
			}
		}
	}
	l.publish()
	began := l.node.opts.Clock.Now()
	for now := began; len(c.waiting) > 0; {
		seen, err := 0, errCut
		if !lost {
			seen, err = l.waitReplicas(w, now.Sub(began))
		}
		now = l.node.opts.Clock.Now()
		l.confirmed(seen, err, now, now.Sub(began))
	}
	c.waiting = nil
}

var errHurried = &ServerError{Class: ClassClosed, Text: "the wait for replicas was given up: this node's connections are being closed"}

var errCut = &ServerError{Class: ClassUnknown, Text: "no answer: the connection broke before replicas were asked"}

// waitReplicas sends one WAIT. Blocks: as long as the most urgent op allows.
func (l *lane) waitReplicas(w *wire, passed time.Duration) (seen int, failed *ServerError) {
	c := l.acks
	if c.ctx.Err() != nil {
		return 0, errHurried
	}
	number, left := c.waiting[0].op.Ack.Replicas, c.waiting[0].op.Ack.Timeout
	for _, other := range c.waiting {
		number, left = min(number, other.op.Ack.Replicas), min(left, other.op.Ack.Timeout)
	}
	left = max(left-passed, time.Millisecond) // 0 would be for ever
	ctx, cancel := l.node.world.WithTimeout(c.ctx, left+l.node.opts.AttemptLimit)
	defer cancel()
	ms := (left + time.Millisecond - 1).Milliseconds()
	reply := w.client.Do(ctx, w.client.B().Wait().Numreplicas(int64(number)).Timeout(ms).Build())
	if reply.NonRedisError() != nil {
		l.link.giveUp(w)
		if c.ctx.Err() != nil {
			return 0, errHurried
		}
	}
	n, err := reply.AsInt64()
	return int(n), demoted(classify(err))
}

// demoted makes a refusal for not being master any more an unknown outcome: the new master may have
// seen the grant, or not.
func demoted(err *ServerError) *ServerError {
	if err != nil && err.Class == ClassReadOnly {
		return &ServerError{Class: ClassUnknown, Text: err.Text, cause: err}
	}
	return err
}

// confirmed answers those that need not wait any longer.
func (l *lane) confirmed(seen int, err *ServerError, now clock.Instant, passed time.Duration) {
	var still, over []confirmation
	for _, w := range l.acks.waiting {
		if err == nil && seen < w.op.Ack.Replicas && passed < w.op.Ack.Timeout {
			still = append(still, w)
		} else {
			over = append(over, w)
		}
	}
	l.acks.waiting = still
	l.fly()
	for _, w := range over {
		switch {
		case err == nil:
			w.r.Seen = int32(min(seen, math.MaxInt32)) //nolint:gosec // in range
		case err.Class.Definite():
			w.r.Unseen = err
		default:
			*w.r = Result{Code: CodeError, Err: err, SentAt: w.r.SentAt}
		}
		w.r.ReceivedAt = now
		l.answer(w.op, w.r)
	}
}
