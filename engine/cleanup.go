package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A cleanup releases what nobody here believes to hold: a grant that came too late or that nobody
// wanted, a lost hold, a wire id whose acquire was never answered. It is repeated until the answer is
// definite and no copy of the acquire can run any more, or until one lease has passed: then the
// server has let go by itself.
type cleanup struct {
	eng    *Engine
	op     resp.Op
	item   wheel.Item
	doubt  doubt // copies that may still run: an answer to what was sent before that is not the last
	giveUp clock.Instant
	tries  int
	lease  time.Duration
	first  *entry // its waiters go on when this has had an answer; nil: they need not wait
}

// A wireID is under what a key is held, or waited for: a field, and what kind of lock it is the field of.
type wireID struct {
	field  string
	family resp.Family
}

// cleanLocked starts a cleanup now. Whoever is first and travels on another connection waits for it.
func (e *Engine) cleanLocked(sh *shard, ent *entry, w wireID, d doubt, lease time.Duration) {
	for _, at := range [...]*entry{ent, ent.root()} {
		if at.head != nil && at.head.set.ack != nil {
			e.cleanFirstLocked(sh, at, w, d, lease)
			return
		}
	}
	c := e.newCleanup(ent, w, d, lease)
	sh.pending++
	c.send(sh)
}

// cleanFirstLocked starts one whose first answer the name's waiters wait for: their next acquire may use
// another connection, and would find the lock still taken.
func (e *Engine) cleanFirstLocked(sh *shard, ent *entry, w wireID, d doubt, lease time.Duration) {
	c := e.newCleanup(ent, w, d, lease)
	c.first = ent
	ent.releaseSent()
	sh.pending++
	c.send(sh)
}

// goOnLocked lets those who waited for the first answer go on.
func (c *cleanup) goOnLocked(sh *shard, fx *effects) {
	ent := c.first
	if c.first = nil; ent == nil {
		return
	}
	rested := ent.releaseAnswered()
	c.eng.kickAllLocked(sh, ent, fx) // the name's own queue may have waited for the last of its seats' answers
	if rested {
		c.eng.kickSeatsLocked(sh, ent.root(), fx)
	}
}

// cleanLaterLocked starts one when no copy can run any more: what could be released was.
func (e *Engine) cleanLaterLocked(sh *shard, ent *entry, w wireID, d doubt, lease time.Duration) *cleanup {
	c := e.newCleanup(ent, w, d, lease)
	sh.pending++
	e.timers.Schedule(&c.item, d.until.Add(clockSlack))
	return c
}

// cleanUnbelievedLocked gives back what was granted during force-releases, for they are over: before anything is asked for,
// which would be told of a grant of its own engine. What travels on another connection waits for the answer.
func (e *Engine) cleanUnbelievedLocked(sh *shard, root *entry) {
	if root.seats == nil || root.forces > 0 {
		return
	}
	all := root.seats.unbelieved
	root.seats.unbelieved = nil
	for _, c := range all {
		if !e.timers.Cancel(&c.item) {
			continue
		}
		if root.head != nil && root.head.set.ack != nil {
			c.first = root
			root.releaseSent()
		}
		c.send(sh)
	}
}

func (e *Engine) newCleanup(ent *entry, w wireID, d doubt, lease time.Duration) *cleanup {
	c := &cleanup{eng: e, doubt: d, lease: max(lease, d.lease)}
	c.giveUp = max(e.clock.Now(), d.until).Add(max(lease, d.lease) + e.nodes.AttemptLimit())
	c.op = resp.Op{
		Kind: resp.OpRelease, Family: w.family, Key: ent.key, Hash: ent.hash, Slot: ent.slot, Field: w.field, Sink: c,
	}
	c.item.Owner = c
	return c
}

func (c *cleanup) send(sh *shard) {
	if c.eng.nodes.Submit(&c.op) != nil { // closed: it expires by itself
		if c.first != nil {
			c.first.releaseAnswered()
			c.first = nil
		}
		c.eng.settledLocked(sh)
	}
}

// due sends it again.
func (c *cleanup) due(clock.Instant) {
	sh := c.eng.shard(c.op.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c.send(sh)
}

// Answered takes the server's answer. It runs on the lane.
func (c *cleanup) Answered(_ *resp.Op, r *resp.Result) {
	e := c.eng
	sh := e.shard(c.op.Hash)
	now := e.clock.Now()
	var fx effects
	sh.mu.Lock()
	if r.Code == resp.CodeReleased {
		sh.counts.ghosts++
	}
	c.goOnLocked(sh, &fx)
	if root := sh.names.get(c.op.Hash, c.op.Key); root != nil && c.op.Family == resp.FamilyRead {
		e.lessReadLocked(sh, root, c.lease, &fx)
	}
	c.settleLocked(sh, r, now)
	sh.mu.Unlock()
	fx.run()
}

// placeLasts is how long it is tried to take a place out of a fair lock's queue. No lease ends a place; others pass it
// over after 5 s, but only once it is the first.
const placeLasts = 5 * time.Minute

// keptLocked reports whether the key may outlive what is to be released, and for how long it has to be gone on
// with: who reads here renews a read-write lock's key, and a write hold in it would stay as long. The wire id of a fair
// lock may have a place in its queue.
func (c *cleanup) keptLocked(sh *shard, now clock.Instant) bool {
	if c.op.Family == resp.FamilyFair {
		return now.Before(c.giveUp.Add(placeLasts))
	}
	if !shares(c.op.Family) {
		return false
	}
	root := sh.names.get(c.op.Hash, c.op.Key)
	for ent := range root.withSeats {
		if h := ent.hold; h != nil && shares(h.Family) {
			c.giveUp = max(c.giveUp, now.Add(h.tail(now)))
		}
	}
	if root != nil && root.seats != nil { // the server need not have heard yet that those were given back
		c.giveUp = max(c.giveUp, root.seats.lasts)
	}
	return now.Before(c.giveUp)
}

// settleLocked decides whether the answer is the last.
func (c *cleanup) settleLocked(sh *shard, r *resp.Result, now clock.Instant) {
	e := c.eng
	switch {
	case e.draining.Load():
		if r.Err != nil {
			sh.counts.abandoned++
			e.givenUp.Add(1)
		}
		e.settledLocked(sh)
	case r.Err != nil && (now.Before(c.giveUp) || c.keptLocked(sh, now)):
		c.tries++
		e.timers.Schedule(&c.item, e.resendAt(c.op.Slot, now, c.tries))
	case r.Err == nil && c.doubt.open(r.SentAt):
		e.timers.Schedule(&c.item, c.doubt.until.Add(clockSlack))
	default:
		if r.Err != nil {
			sh.counts.abandoned++
		}
		e.settledLocked(sh)
	}
}
