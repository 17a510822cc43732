package engine

import (
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// pollCap bounds how long a waiter relies on messages: pub/sub is a hint.
const pollCap = time.Second

func newParking(ent *entry, epoch uint32) *parking {
	p := &parking{ent: ent, epoch: epoch}
	p.item.Owner = p
	p.prompt.Owner = pausing{p}
	return p
}

// pausing is a parking in its short pause.
type pausing struct{ p *parking }

// due ends the pause.
func (t pausing) due(clock.Instant) { t.p.wake(func(*counts) {}, wakePause) }

// pauseLocked lets the head wait for an instant, whatever it hears meanwhile.
func (e *Engine) pauseLocked(p *parking, until clock.Instant, fx *effects) {
	p.waiting, p.pausing = true, true
	e.prompt.Schedule(&p.prompt, until)
	if p.ent.head != nil {
		p.listen(fx)
	}
}

// listen subscribes to the name's channel, once.
func (p *parking) listen(fx *effects) {
	if !p.asked && !p.ent.eng.cfg.NoSubscribe {
		p.asked = true
		fx.subscribe = p
	}
}

// parkLocked makes the queue wait: for a message, and for the poll in case none comes.
func (e *Engine) parkLocked(ent *entry, now clock.Instant, fx *effects) {
	p := ent.park
	p.waiting = true
	e.timers.Schedule(&p.item, now.Add(pollPause(p, now)))
	p.listen(fx)
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
func (p *parking) due(clock.Instant) { p.wake(func(c *counts) { c.polls++ }, wakePoll) }

// open subscribes to the name's channel. Called without the shard's mutex: the multiplexer has its
// own. If it cannot subscribe, the poll alone wakes the queue.
func (p *parking) open() {
	e := p.ent.eng
	node := e.nodes.Owner(p.ent.slot)
	sub, err := node.Subscriptions().Subscribe(slot.LockChannel(p.ent.key), p)
	sh := e.shard(p.ent.hash)
	var fx effects
	sh.mu.Lock()
	switch {
	case err != nil:
		p.asked = false // with the next poll, perhaps at another node
	case p.ent.park != p || p.sub != nil:
		fx.drop = sub
	default:
		p.sub, p.at = sub, node
		e.followLocked(p, &fx)
	}
	sh.mu.Unlock()
	fx.run()
}

// followLocked subscribes at the node that serves the name now, if that is another one.
func (e *Engine) followLocked(p *parking, fx *effects) {
	if p.sub == nil || p.at == e.nodes.Owner(p.ent.slot) {
		return
	}
	fx.drop, fx.subscribe = p.sub, p
	p.sub, p.at = nil, nil
}

// slotsMoved makes every waiter listen where its name is served now. The new subscription wakes it.
func (e *Engine) slotsMoved() {
	for i := range e.shards {
		sh := &e.shards[i]
		var all []effects
		sh.mu.Lock()
		for ent := range sh.names.all {
			if ent.park != nil {
				var fx effects
				e.followLocked(ent.park, &fx)
				if fx.subscribe != nil {
					all = append(all, fx)
				}
			}
		}
		sh.mu.Unlock()
		for i := range all {
			all[i].run()
		}
	}
}

// Wake is the multiplexer's call: a message came, or it is time to look again. Blocks: never.
func (p *parking) Wake(cause resp.WakeCause, _ string) {
	switch cause {
	case resp.WakeMessage:
		p.wake(func(c *counts) { c.messages++ }, wakeMessage)
	case resp.WakeSubscribed:
		p.wake(func(c *counts) { c.subscribed++ }, wakeLook)
	case resp.WakeReconnect:
		p.wake(func(c *counts) { c.reconnects++ }, wakeLook)
	default: // no messages for now: the poll is there
	}
}

// The kinds of wake-up.
type wakeKind uint8

const (
	wakeNone    wakeKind = iota
	wakeMessage          // a release was published
	wakeLook             // messages may have been missed: look now
	wakePoll
	wakePause // a short pause is over
)

// wake sends the head's next attempt, or, if one is on its way, sees to it that its answer "busy"
// is not believed: answer and message travel on different connections.
//
// A message does not always mean now. An engine that has had its turn lately leaves a moment to those
// who have heard more releases go by than it has. Nothing cuts a pause short.
func (p *parking) wake(count func(*counts), kind wakeKind) {
	e := p.ent.eng
	sh := e.shard(p.ent.hash)
	var fx effects
	sh.mu.Lock()
	if p.ent.park == p {
		e.wakeLocked(sh, p, count, kind, &fx)
	}
	sh.mu.Unlock()
	fx.run()
}

func (e *Engine) wakeLocked(sh *shard, p *parking, count func(*counts), kind wakeKind, fx *effects) {
	if kind == wakeMessage || kind == wakeLook {
		p.epoch++
	}
	if kind == wakeMessage {
		p.heard++
	}
	if !p.waiting || p.pausing && kind != wakePause {
		return
	}
	count(&sh.counts)
	if pause := p.turnPause(); kind == wakeMessage && pause > 0 {
		p.by = kind
		e.timers.Cancel(&p.item)
		e.pauseLocked(p, e.clock.Now().Add(pause), fx)
		return
	}
	p.waiting, p.pausing, p.ent.quiet = false, false, false
	if kind != wakePause { // that is the second half of a wake-up by message
		p.by = kind
	}
	e.timers.Cancel(&p.item)
	e.prompt.Cancel(&p.prompt)
	e.kickLocked(sh, p.ent, fx)
}

// turnPause orders engines that wake by the same message: who has heard fewer releases since its own
// last turn leaves the others a head start. With nobody else about it costs one short pause at most
// a release; whoever has waited for three goes at once.
func (p *parking) turnPause() time.Duration {
	switch p.heard {
	case 1:
		return 600 * time.Microsecond
	case 2:
		return 250 * time.Microsecond
	default:
		return 0
	}
}
