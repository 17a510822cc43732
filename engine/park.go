package engine

import (
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// pollCap bounds how long a waiter relies on messages: pub/sub is a hint.
const pollCap = time.Second

// parkLocked makes the queue wait: for a message, and for the poll in case none comes.
func (e *Engine) parkLocked(ent *entry, now clock.Instant, fx *effects) {
	p := ent.park
	p.waiting = true
	e.timers.Schedule(&p.item, now.Add(pollPause(p, now)))
	if !p.asked && !e.cfg.NoSubscribe {
		p.asked = true
		fx.subscribe = p
	}
}

// pollPause is min(remaining TTL, 1 s), spread by a fifth. Where the holder's lease ends first the
// poll comes just after it, never before.
func pollPause(p *parking, now clock.Instant) time.Duration {
	if left := p.busyUntil.Sub(now); p.busyUntil != 0 && left < pollCap {
		left = max(left, 0)
		return left + time.Millisecond + rand.N(max(left, 20*time.Millisecond)/5)
	}
	return pollCap*4/5 + rand.N(pollCap*2/5)
}

// due is the poll.
func (p *parking) due(clock.Instant) { p.wake(func(c *counts) { c.polls++ }, false) }

// open subscribes to the name's channel. Called without the shard's mutex: the multiplexer has its
// own. If it cannot subscribe, the poll alone wakes the queue.
func (p *parking) open() {
	e := p.ent.eng
	sub, err := e.node(p.ent.hash).node.Subscriptions().Subscribe(e.lockChannel(p.ent.key), p)
	if err != nil {
		return
	}
	sh := e.shard(p.ent.hash)
	sh.mu.Lock()
	stale := p.ent.park != p
	if !stale {
		p.sub = sub
	}
	sh.mu.Unlock()
	if stale {
		sub.Drop()
	}
}

// Wake is the multiplexer's call: a message came, or it is time to look again. Blocks: never.
func (p *parking) Wake(cause resp.WakeCause, _ string) {
	switch cause {
	case resp.WakeMessage:
		p.wake(func(c *counts) { c.messages++ }, true)
	case resp.WakeSubscribed:
		p.wake(func(c *counts) { c.subscribed++ }, true)
	case resp.WakeReconnect:
		p.wake(func(c *counts) { c.reconnects++ }, true)
	default: // no messages for now: the poll is there
	}
}

// wake sends the head's next attempt, or, if one is on its way, sees to it that its answer "busy"
// is not believed: answer and message travel on different connections.
func (p *parking) wake(count func(*counts), news bool) {
	e := p.ent.eng
	sh := e.shard(p.ent.hash)
	var fx effects
	sh.mu.Lock()
	if p.ent.park == p {
		if news {
			p.epoch++
		}
		if p.waiting {
			count(&sh.counts)
			p.waiting = false
			e.timers.Cancel(&p.item)
			e.kickLocked(sh, p.ent, &fx)
		}
	}
	sh.mu.Unlock()
	fx.run()
}
