package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// channelOf is where releases of a lock are published.
func channelOf(f resp.Family, key string) string {
	if f == resp.FamilyRead || f == resp.FamilyWrite {
		return slot.RWChannel(key)
	}
	return slot.LockChannel(key)
}

// pollCap bounds how long a waiter relies on messages: pub/sub is a hint.
const pollCap = time.Second

func newParking(ent *entry) *parking {
	p := &parking{ent: ent}
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
	e.prompt.Schedule(&p.prompt, until)
	if p.ent.head != nil {
		p.listen(fx)
	}
}

// listen subscribes to the name's channel, once.
func (p *parking) listen(fx *effects) {
	if p.asked || p.ent.eng.cfg.NoSubscribe || p.ent.head.set.spin != nil {
		return
	}
	if p.ent.head.set.family != resp.FamilyFair || p.ent.firstHere() {
		p.asked, p.shares = true, shares(p.ent.head.set.family)
		p.channel = channelOf(p.ent.head.set.family, p.ent.key)
		if p.ent.head.set.family == resp.FamilyFair {
			p.channel = slot.FairWaiterChannel(p.ent.key, p.ent.att.op.Field)
		}
		fx.listen(p)
	}
}

// parkLocked makes the queue wait: for a message, and for the poll in case none comes.
func (e *Engine) parkLocked(ent *entry, now clock.Instant, fx *effects) {
	if p := ent.park; p != nil && p.asked && p.shares != shares(ent.head.set.family) && !ent.wait.paused() {
		e.endParkingLocked(ent, fx) // it listens where nobody will tell the first
	}
	if ent.park == nil { // its last waiting ended with a grant here
		ent.park = newParking(ent)
	}
	p := ent.park
	least, spread := ent.pollSpan(now)
	e.timers.Schedule(&p.item, now.Add(least+e.world.N(spread)))
	p.listen(fx)
}

// due is the poll.
func (p *parking) due(clock.Instant) { p.wake(func(c *counts) { c.polls++ }, wakePoll) }

// open subscribes to the name's channel. Called without the shard's mutex: the multiplexer has its
// own. If it cannot subscribe, the poll alone wakes the queue.
func (p *parking) open() {
	e := p.ent.eng
	node := e.nodes.Owner(p.ent.slot)
	sub, err := node.Subscriptions().Subscribe(p.channel, p)
	e.world.Yield("parking.open: subscribed | noted")
	sh := e.shard(p.ent.hash)
	var fx effects
	sh.mu.Lock()
	switch {
	case err != nil:
		p.asked = false // with the next poll, perhaps at another node
	case p.ent.park != p || p.sub != nil:
		fx.forget(sub)
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
	fx.forget(p.sub)
	fx.listen(p)
	p.sub, p.at = nil, nil
}

// slotsMoved makes every waiter listen where its name is served now. The new subscription wakes it.
func (e *Engine) slotsMoved() {
	for i := range e.shards {
		sh := &e.shards[i]
		var all []effects
		sh.mu.Lock()
		for ent := range sh.entries {
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
func (p *parking) Wake(cause pubsub.WakeCause, message string) {
	switch cause {
	case pubsub.WakeMessage:
		if resp.Left(message) {
			p.wake(func(c *counts) { c.messages++ }, wakeLeft)
			return
		}
		p.wake(func(c *counts) { c.messages++ }, wakeMessage)
	case pubsub.WakeSubscribed:
		p.wake(func(c *counts) { c.subscribed++ }, wakeLook)
	case pubsub.WakeReconnect:
		p.wake(func(c *counts) { c.reconnects++ }, wakeLook)
	default: // no messages for now: the poll is there
	}
}

// wake tells the queue, and does what it says.
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
	ent := p.ent
	before := ent.wait
	if kind == wakeLeft {
		ent.root().leftAt = e.clock.Now()
	}
	s, pause := ent.wake(kind)
	if ent.wait == before { // the queue goes on waiting, or was not
		return
	}
	count(&sh.counts)
	e.timers.Cancel(&p.item)
	if s == stepPause {
		e.pauseLocked(p, e.clock.Now().Add(pause), fx)
		return
	}
	e.prompt.Cancel(&p.prompt)
	e.doLocked(sh, ent, s, fx)
}
