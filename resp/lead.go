package resp

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A caller that waits for its op may lead the lane that the op is in, for one round, if nobody else has the lane: it
// sends what is queued, reads the replies and answers everybody, itself included. So one caller's command costs no
// switch to another goroutine and back. A leader never waits long: it does not dial, and leaves a round that is not
// answered within leadMost to the worker. So it need not watch its context, and Close finds the lane soon.

// A Lead is a lane that its holder has to lead, or none. The zero Lead is none.
type Lead struct{ lane *lane }

// Run leads the lane, if there is one. It must be called once, soon: nobody else has the lane meanwhile. Blocks: for
// about a millisecond at the longest.
func (l Lead) Run() {
	if l.lane != nil {
		l.lane.lead()
	}
}

// Is reports whether there is a lane to lead.
func (l Lead) Is() bool { return l.lane != nil }

// leadable reports whether a round can begin over a connection without a dial, and be left.
func (l *lane) leadable(w *wire) bool {
	return w != nil && (w.direct != nil || l.node.world != nil && l.acks == nil)
}

// A simulatedRound is one that its leader may leave: the connection of a simulated world is none of ours, and so
// somebody else waits for it.
type simulatedRound struct {
	replies []rueidis.RedisResult
	there   *world.Latch
}

// converseSimulated is converse of a simulated world.
func (l *lane) converseSimulated(leads bool) (replies []rueidis.RedisResult, complete bool) {
	r, ctx := l.simulated, context.Background()
	if r == nil {
		to, limit, built := l.sent.client, l.limit, l.outbox.built
		r = &simulatedRound{there: l.node.world.NewLatch()}
		l.simulated = r
		l.node.wg.Go("lane.simulated", func() {
			r.replies = to.DoMulti(limit, built...)
			r.there.Open()
		})
	}
	if leads {
		limited, cancel := l.node.world.WithTimeout(ctx, leadMost)
		defer cancel()
		ctx = limited
	}
	if !r.there.WaitIn(ctx) {
		return nil, false
	}
	l.simulated = nil
	return r.replies, true
}

// lead is a leader's round.
func (l *lane) lead() {
	l.gather()
	l.mu.Lock()
	begun := l.begins(l.rested)
	l.rested = l.rested && !begun
	l.mu.Unlock()
	if begun {
		l.tellDropped()
		if l.run(true) {
			l.finishRun()
		}
	}
	l.pass()
}

// pass lets the lane go: to the worker, if there is something to do, else to whoever comes next.
func (l *lane) pass() {
	l.mu.Lock()
	idle := l.stage == stageNone && l.queue.len() == 0 && !l.closed && !l.replays
	if idle {
		l.asleep, l.resting, l.rested = true, false, true
	}
	l.mu.Unlock()
	if !idle {
		l.wake.Ring()
		return
	}
	if l.acks == nil {
		l.node.spread.rests(l.number)
	}
}
