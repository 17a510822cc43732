package resp

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// confirming is what the lane of a node needs whose grants are answered only when enough replicas have
// seen them.
//
// WAIT answers for what came before the last command of its own connection: over one that has sent none
// it says at once that all is well. It also blocks its connection. So these acquires have a lane and a connection of
// their own, and everybody else's goes on. And so that one of them that waits for replicas does not keep the others
// from asking (a fair lock's place is gone after five seconds), its WAIT is cut into slices: what has collected
// meanwhile is sent between two of them, and the next WAIT is for all.
type confirming struct {
	waiting []confirmation     // guarded by the lane's mutex: who is cancelled leaves
	cut     context.CancelFunc // ends the WAIT on its way; the same
	ctx     context.Context    //nolint:containedctx // ends with Hurry
	stop    context.CancelFunc
	slice   time.Duration // how long the next WAIT takes at most; owned by whoever has the lane
}

// A slice that ends without an answer, and behind which something was sent, is followed by a longer one: each WAIT is
// for what was sent last, and replicas may be further behind than one slice.
const (
	leastSlice = 100 * time.Millisecond
	mostSlice  = time.Second
)

// A confirmation is a grant that replicas are to see.
type confirmation struct {
	op    *Op
	r     *Result
	wire  *wire         // that it came over
	asked clock.Instant // when its run was queued
	since clock.Instant // when its wait for replicas began
}

func newConfirming(w *world.World) *confirming {
	c := &confirming{slice: leastSlice}
	c.ctx, c.stop = w.WithCancel(context.Background())
	return c
}

// ops appends those whose grants are waited for. Called with the lane's mutex held.
func (c *confirming) ops(ops []*Op) []*Op {
	for _, w := range c.waiting {
		ops = append(ops, w.op)
	}
	return ops
}

// unconfirmed reports whether an answer has to wait for replicas.
func unconfirmed(op *Op, r *Result) bool {
	return op.Ack != nil && (r.Code == CodeGranted || r.Code == CodeOurs) && !r.Unwanted()
}

// oldest is when the first of those was queued who wait, or then. Called with the lane's mutex held.
func (c *confirming) oldest(then clock.Instant) clock.Instant {
	for _, w := range c.waiting {
		if w.asked.Before(then) {
			then = w.asked
		}
	}
	return then
}

// confirm answers what a round has settled. Everything but a grant is answered at once. A grant is answered when as
// many replicas have seen it as its op asks for, or when the time of its op is over. Each op gets its own number and
// its own time, whatever the others ask for: each WAIT is for the smallest number, and for the shortest time, that are
// left.
func (l *lane) confirm(w *wire) {
	// Who waits. A caller may cancel at any time: it has marked the op by now, or Unwait finds it in waiting.
	now := l.node.opts.Clock.Now()
	l.mu.Lock()
	for i := range l.done {
		d := &l.done[i]
		for k, op := range d.ops {
			switch {
			case op == nil || !unconfirmed(op, &d.results[k]):
			case op.state.Load() == opUnwanted:
				d.results[k].unwanted(d.results[k].ReceivedAt)
			default:
				r := d.results[k] // the run's may be used again before it is answered
				l.acks.waiting = append(l.acks.waiting, confirmation{op, &r, w, l.oldest, now})
				d.ops[k] = nil
			}
		}
	}
	l.mu.Unlock()
	// Whatever needs no replicas is answered before the first WAIT.
	l.publish()
	l.awaitReplicas()
}

// awaitReplicas asks for replicas, one WAIT after another, until nobody waits or there is something else to send. Who
// has the lane calls it.
func (l *lane) awaitReplicas() {
	for {
		w, number, left := l.wanted(l.node.opts.Clock.Now())
		if w == nil {
			return
		}
		seen, err := 0, errCut
		if l.link.cur.Load() == w { // over another connection WAIT would answer for what that one has sent
			seen, err = l.waitReplicas(w, number, min(left, l.acks.slice))
		}
		answered := l.confirmed(w, seen, err)
		if answered {
			l.acks.slice = leastSlice
		}
		l.mu.Lock()
		others := l.queue.len() > 0 || len(l.again) > 0
		l.mu.Unlock()
		if others {
			if !answered {
				l.acks.slice = min(2*l.acks.slice, mostSlice)
			}
			return
		}
	}
}

// wanted returns the smallest number of replicas that an op still waits for whose grant came over the same connection
// as the first one's, and the shortest time that is left. No connection: no op waits.
func (l *lane) wanted(now clock.Instant) (over *wire, number int, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.acks.waiting {
		rest := w.op.Ack.Timeout - now.Sub(w.since)
		switch over {
		case nil:
			over, number, left = w.wire, w.op.Ack.Replicas, rest
		case w.wire:
			number, left = min(number, w.op.Ack.Replicas), min(left, rest)
		}
	}
	return over, number, left
}

// unwait answers a grant at once whose op was cancelled while replicas are waited for, and reports whether it did. If
// no other op waits, it ends the WAIT as well, which would hold up the next batch.
func (l *lane) unwait(op *Op) bool {
	l.mu.Lock()
	at := slices.IndexFunc(l.acks.waiting, func(w confirmation) bool { return w.op == op })
	if at < 0 || op.state.Load() != opUnwanted {
		l.mu.Unlock()
		return false
	}
	// Both are copies. The worker reads ops, and uses results again, as soon as mu is free.
	r := *l.acks.waiting[at].r
	l.acks.waiting = slices.Delete(l.acks.waiting, at, at+1)
	l.inFlight = slices.DeleteFunc(slices.Clone(l.inFlight), func(other *Op) bool { return other == op })
	if len(l.acks.waiting) == 0 && l.acks.cut != nil {
		l.acks.cut()
	}
	l.mu.Unlock()
	r.unwanted(l.node.opts.Clock.Now())
	l.answer(op, &r)
	return true
}

// unwanted marks the answer of a grant for which no replicas were waited for.
func (r *Result) unwanted(now clock.Instant) {
	r.ReplicaAcks, r.AckErr, r.ReceivedAt = 0, errUnwanted, now
}

var errUnwanted = &ServerError{Class: ClassRefused, Text: "nobody wants it any more: no replicas were waited for"}

var errHurried = &ServerError{
	Class: ClassClosed,
	Text:  "the wait for replicas was given up: this node's connections are being closed",
}

var errCut = &ServerError{Class: ClassUnknown, Text: "no answer: the connection broke before replicas were asked"}

// waitReplicas sends one WAIT. Blocks: as long as the most urgent op allows.
func (l *lane) waitReplicas(w *wire, number int, left time.Duration) (seen int, failed *ServerError) {
	c := l.acks
	if c.ctx.Err() != nil {
		return 0, errHurried
	}
	// The context allows more than WAIT's own timeout: a count that is too small is an answer, too.
	left = max(left, time.Millisecond) // 0 would be for ever
	ctx, cancel := l.node.world.WithTimeout(c.ctx, left+l.node.opts.AttemptLimit)
	defer cancel()
	// From here on unwait can end it.
	l.mu.Lock()
	c.cut = cancel
	if len(c.waiting) == 0 { // they have left meanwhile
		cancel()
	}
	l.mu.Unlock()
	// The timeout is rounded up: an op gets all of its time.
	ms := (left + time.Millisecond - 1).Milliseconds()
	reply := w.client.Do(ctx, w.client.B().Wait().Numreplicas(int64(number)).Timeout(ms).Build())
	// A WAIT without its answer still blocks the connection on the server, so another one is needed.
	if reply.NonRedisError() != nil {
		l.link.giveUp(w)
		if c.ctx.Err() != nil {
			return 0, errHurried
		}
	}
	if err := reply.Error(); err != nil {
		return 0, demoted(classify(err))
	}
	n, err := reply.AsInt64()
	if err != nil || n < 0 {
		l.link.giveUp(w)
		return 0, unexpected("WAIT", reply)
	}
	return int(min(n, math.MaxInt32)), nil
}

// demoted makes a refusal for not being master any more an unknown outcome: the new master may have
// seen the grant, or not.
func demoted(err *ServerError) *ServerError {
	if err != nil && err.Class == ClassReadOnly {
		return &ServerError{Class: ClassUnknown, Text: err.Text, cause: err}
	}
	return err
}

// confirmed answers those that need not wait any longer, of those whose grants came over a connection, and says
// whether there were any.
func (l *lane) confirmed(over *wire, seen int, err *ServerError) (answered bool) {
	now := l.node.opts.Clock.Now()
	var still, done []confirmation
	l.mu.Lock()
	l.acks.cut = nil
	for _, w := range l.acks.waiting {
		if w.wire != over || err == nil && seen < w.op.Ack.Replicas && now.Sub(w.since) < w.op.Ack.Timeout {
			still = append(still, w)
		} else {
			done = append(done, w)
		}
	}
	l.acks.waiting = still
	l.mu.Unlock()
	l.listInFlight()
	for _, w := range done {
		switch {
		case err == nil:
			w.r.ReplicaAcks = int32(seen) //nolint:gosec // in range
		// Only WAIT was refused, or given up. The grant stands, and nobody knows how many have seen it.
		case err.Class.Definite():
			w.r.AckErr = err
		// No answer: the grant may be lost with its master.
		default:
			*w.r = Result{Code: CodeError, Err: err, SentAt: w.r.SentAt}
		}
		w.r.ReceivedAt = now
		l.answer(w.op, w.r)
	}
	return len(done) > 0
}
