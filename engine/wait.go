package engine

import (
	"math"
	"strconv"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// ensureWakeups makes what a queue needs to wait.
func (ent *entry) ensureWakeups() *wakeups {
	x := ent.ensureExtra()
	if x.wakeups == nil {
		x.wakeups = &wakeups{ent: ent}
	}
	return x.wakeups
}

// pauseTimer is what wakes a queue, in its short pause.
type pauseTimer struct{ p *wakeups }

// Scheduled is its place among the timers.
func (t pauseTimer) Scheduled() *wheel.Item[timed] { return &t.p.pauseItem }

// due ends the pause.
func (t pauseTimer) due(clock.Instant) { t.p.wake(func(*counts) {}, lockstate.WakePause) }

// pause lets the head wait for an instant, whatever it hears meanwhile.
func (sc *section) pause(p *wakeups, until clock.Instant) {
	sc.eng.shortTimers.Schedule(pauseTimer{p}, until)
	if p.ent.First() != nil {
		sc.listenFor(p)
	}
}

// listenFor subscribes to the name's channel, once.
func (sc *section) listenFor(p *wakeups) {
	if p.asked || p.ent.eng.cfg.NoSubscribe || p.ent.head().set.Spin != nil {
		return
	}
	f := traits(p.ent.head().set.family)
	switch {
	case f.ownChannel == nil:
		p.channel = p.ent.channelOf(f)
	case p.ent.firstHere() == p.ent:
		p.channel = f.ownChannel(p.ent.key, p.ent.Attempt().op.Field)
	default:
		return
	}
	p.asked, p.family = true, p.ent.head().set.family
	sc.listen(p)
}

// park makes the queue wait: for a message, and for the poll in case none comes.
func (sc *section) park(ent *entry, now clock.Instant) {
	if p := ent.wakeups(); p != nil && p.asked && otherKind(p.family, ent.head().set.family) && !ent.Paused() {
		sc.endWakeups(ent) // it listens where nobody will tell the first
	}
	p := ent.ensureWakeups() // its last waiting may have ended with a grant here
	least, spread := ent.PollSpan(now)
	sc.eng.timers.Schedule(p, now.Add(least+sc.eng.world.N(spread)))
	sc.listenFor(p)
}

// Scheduled is its place among the timers.
func (p *wakeups) Scheduled() *wheel.Item[timed] { return &p.item }

// due is the poll.
func (p *wakeups) due(clock.Instant) { p.wake(func(c *counts) { c.polls++ }, lockstate.WakePoll) }

// open subscribes to the name's channel. Called without the shard's mutex: the multiplexer has its
// own. If it cannot subscribe, the poll alone wakes the queue.
func (p *wakeups) open() {
	e := p.ent.eng
	node := e.nodes.Owner(p.ent.slot)
	sub, err := node.Subscriptions().Subscribe(p.channel, p)
	e.world.Yield("wakeups.open: subscribed | noted")
	sc := e.enter(p.ent.hash)
	switch {
	case err != nil:
		p.asked = false // with the next poll, perhaps at another node
	case p.ent.wakeups() != p || p.sub != nil:
		sc.forget(sub)
	default:
		p.sub, p.at = sub, node
		sc.follow(p)
	}
	sc.leave()
}

// follow subscribes at the node that serves the name now, if that is another one.
func (sc *section) follow(p *wakeups) {
	if p.sub == nil || p.at == sc.eng.nodes.Owner(p.ent.slot) {
		return
	}
	sc.forget(p.sub)
	sc.listen(p)
	p.sub, p.at = nil, nil
}

// slotsMoved makes every waiter listen where its name is served now. The new subscription wakes it.
func (e *Engine) slotsMoved() {
	for i := range e.shards {
		sc := e.enterShard(&e.shards[i])
		for ent := range sc.sh.entries {
			if ent.wakeups() != nil {
				sc.follow(ent.wakeups())
			}
		}
		sc.leave()
	}
}

// Wake is the multiplexer's call: a message came, or it is time to look again. Blocks: never.
func (p *wakeups) Wake(cause pubsub.WakeCause, message string) {
	if traits(p.family).Serves == lockstate.ServesAll {
		p.hearsOfLatch(cause, message)
	}
	switch cause {
	case pubsub.WakeMessage:
		if resp.Left(message) {
			p.wake(func(c *counts) { c.messages++ }, lockstate.WakeLeft)
			return
		}
		freed := traits(p.family).freedBy(message)
		p.wake(func(c *counts) { c.messages++; p.freed = freed }, lockstate.WakeMessage)
	case pubsub.WakeSubscribed:
		p.wake(func(c *counts) { c.subscribed++ }, lockstate.WakeLook)
	case pubsub.WakeReconnect:
		p.wake(func(c *counts) { c.reconnects++ }, lockstate.WakeLook)
	default: // no messages for now: the poll is there
	}
}

// freedBy is how much a message of a release says is free: of a semaphore, how many permits; of a lock, all of it.
func (f *family) freedBy(message string) int {
	if f.Serves != lockstate.ServesSome && !f.Many {
		return math.MaxInt32
	}
	n, _ := strconv.Atoi(message) // what is no number frees nothing
	return n
}

// passedOver counts a waiter that was passed over: a message said that there is enough for it, and when it asked,
// others had taken that.
func (sc *section) passedOver(ent *entry) {
	op := ent.head()
	if op != nil && op.Told() && ent.WokenBy() == lockstate.WakeMessage && ent.wakeups().freed >= int(op.set.Units) {
		sc.sh.counts.passedOver++
	}
}

// hearsOfLatch notes whether messages are heard, and that somebody has said that a latch is open. That message alone
// lets nobody in: it may have been on its way for long.
func (p *wakeups) hearsOfLatch(cause pubsub.WakeCause, message string) {
	sc := p.ent.eng.enter(p.ent.hash)
	switch {
	case p.ent.wakeups() != p: // it was for those who waited before
	case cause == pubsub.WakeSubscribed, cause == pubsub.WakeReconnect:
		p.hears = true
	case cause == pubsub.WakeLost:
		p.lost = true
	case message == openMessage && p.ent.children() != nil: // or nobody has looked yet
		p.ent.children().latch.heard++
	}
	sc.leave()
}

// openMessage is what is published when a latch opens.
const openMessage = "0"

// wake tells the queue, and does what it says.
func (p *wakeups) wake(count func(*counts), kind lockstate.WakeKind) {
	e := p.ent.eng
	sc := e.enter(p.ent.hash)
	if p.ent.wakeups() == p {
		sc.wake(p, count, kind)
	}
	sc.leave()
}

func (sc *section) wake(p *wakeups, count func(*counts), kind lockstate.WakeKind) {
	ent := p.ent
	if kind == lockstate.WakeLeft {
		ent.root().SawOthers(sc.eng.clock.Now())
	}
	s, pause, moved := ent.Wake(kind)
	if !moved { // the queue goes on waiting, or was not
		return
	}
	count(&sc.sh.counts)
	if p.holder != nil && kind != lockstate.WakePoll { // it may have given the lock back
		p.holder.owner = ""
	}
	sc.eng.timers.Cancel(&p.item)
	if s == lockstate.StepPause {
		sc.pause(p, sc.eng.clock.Now().Add(pause))
		return
	}
	sc.eng.shortTimers.Cancel(&p.pauseItem)
	sc.applyStep(ent, s)
}

// waitedError is what an op is told when its MaxWait is over: that somebody else has the lock, and for how long
// as far as this engine knows; or that nobody knows, because the server has not answered.
func (op *acquireOp) waitedError(now clock.Instant) error {
	sc := op.lock.eng.enter(op.lock.hash)
	defer sc.leave()
	ent := sc.entryOf(op)
	if op.Queued() && ent.besideHold() == nil { // or it enters again, or reads beside: who has the lock is its own owner
		for at := range ent.root().withChildren {
			if at.keepsOut(op, now) {
				return sc.heldError(op, at, now)
			}
		}
		// Nothing was sent: it was left to those who were heard to wait for it, or is still to be given back here.
		gives := traits(op.set.family).Serves == lockstate.ServesOne && ent.GivesBack()
		if ent.Yields() || !ent.Asked() && gives {
			return sc.heldError(op, ent, now)
		}
	}
	return sc.unanswered(ent, op, now)
}

// keepsOut reports whether somebody else is known to have the lock that an op waits for: this engine, or who
// was said to have it in the last answer.
func (ent *entry) keepsOut(op *acquireOp, now clock.Instant) bool {
	if h := ent.standing(); h != nil {
		return !together(h.Family, op.set.family)
	}
	return ent.ToldBusy(now) && !ent.doubted(now)
}

// doubted reports whether nothing is known any more of who was said to have the lock: that time is over, and the server
// has answered errors since.
func (ent *entry) doubted(now clock.Instant) bool {
	return ent.lastError() != nil && ent.BusyUntil() <= now
}

// lastError is what the server has answered since it last told of a holder; nil: no error.
func (ent *entry) lastError() *resp.ServerError {
	if ent == nil || ent.Attempt() == nil || ent.Attempt().retry == nil {
		return nil
	}
	return ent.Attempt().retry.last
}

// unsent reports whether nothing was ever sent for an op, nor for who was first before it and may have left it a grant.
// What serves many at once asks for all of them, and is not told apart.
func (ent *entry) unsent(op *acquireOp) bool {
	return ent.Resends() && !ent.Attempt().retry.Unknown() && !op.Asked && !op.Told() &&
		traits(op.set.family).Serves == lockstate.ServesOne
}

// unanswered says by when what was sent for an op is over, with the last error if there was one. Where nothing was
// sent, as to a server that refuses connections, that error is all there is to say.
func (sc *section) unanswered(ent *entry, op *acquireOp, now clock.Instant) error {
	if failed := ent.lastError(); failed != nil && ent.unsent(op) {
		return fromServer(op.lock.Name(), failed)
	}
	err := &UnknownError{Name: op.lock.Name(), cause: errNoAnswer}
	until, lease := now.Add(sc.eng.nodes.AttemptLimit()), op.set.Lease
	if ent != nil && ent.Attempt() != nil {
		lease = max(lease, ent.Attempt().lease())
		if t := ent.Attempt().retry; t != nil {
			until, lease = max(until, t.Open.Until), max(lease, t.Open.Lease)
			if t.last != nil {
				err.cause = t.last
			}
		}
	}
	if !traits(op.set.family).counted() { // no time ends that
		err.FreeBy = sc.eng.clock.Wall(until.Add(lease))
	}
	return err
}

// remaining is how long who is in the way stays, as far as this engine knows.
func (sc *section) remaining(ent *entry, now clock.Instant) time.Duration {
	switch {
	case ent == nil:
		return 0
	case ent.standing() != nil:
		return max(ent.hold.Deadline().Sub(now), 0)
	case !ent.Waited():
		return 0
	case ent.BusyUntil() == forever:
		return -1
	default:
		return max(ent.BusyUntil().Sub(now), 0)
	}
}

// listens reports whether a release of a family's lock of the name is heard by this engine.
func (ent *entry) listens(f resp.Family) bool {
	return ent.eng.nodes.Owner(ent.slot).Subscriptions().Listens(ent.channelOf(traits(f)))
}

// othersListen reports whether somebody of this engine waits for other values of the group: it hears the same message
// over the same connection.
func (ent *entry) othersListen(f *family) bool {
	if !f.parts {
		return false
	}
	mine := 0
	if ent.wakeups() != nil && ent.wakeups().sub != nil {
		mine = 1
	}
	return ent.eng.nodes.Owner(ent.slot).Subscriptions().Listeners(ent.channelOf(f)) > mine
}

// channelOf is where releases of a family's lock of the name are published.
func (ent *entry) channelOf(f *family) string {
	if f.channelInCluster != nil && ent.eng.nodes.Cluster() {
		return f.channelInCluster(ent.key)
	}
	return f.channel(ent.key)
}

// firstHere is the first of this engine's waiters in a fair lock's queue, unless the engine has the lock. One that asks
// for replicas, and has just asked again, may have been granted it: it is told when they have seen that, or have not
// in a while, and somebody may take the lock away before.
func (ent *entry) firstHere() *entry {
	all := ent.root().children()
	if all == nil || all.first == nil || all.first.hold != nil {
		return nil
	}
	for child := all.head; child != nil && child.hold == nil; child = child.nextChild() {
		if child.children().since == 0 || child.First() == nil {
			continue
		}
		if mayHaveIt := child.acks() && child.InFlight(); !mayHaveIt {
			return child
		}
	}
	return nil
}

// Who has waited for a lock for a while asks the server who holds it. So an error can say that. And the holder may be
// one of this engine that was given back long ago: a server that took over never had that release, and it was too old
// to be replayed. No other engine can tell; this one gives it back once more.

const (
	// askHolderFirst is how long one has to wait, and then to poll in vain, before it is asked who holds the lock.
	askHolderFirst = 500 * time.Millisecond
	// askHolderEvery is how long it is not asked again, while the lock seems to be the same holder's.
	askHolderEvery = 5 * time.Second
	// sameExpiry is by how much two answers may differ in when a lock ends, though nobody renewed or took it in between.
	sameExpiry = 100 * time.Millisecond
	// askForbidden is how long nobody asks, once that was refused for lack of a right.
	askForbidden = time.Minute
)

// askHolder asks who holds the lock that a queue waits for, if it has polled in vain and did not ask a moment ago.
func (sc *section) askHolder(ent *entry, now clock.Instant) {
	p, e, until := ent.wakeups(), sc.eng, ent.BusyUntil()
	if p.holder == nil {
		p.holder = &holderQuery{wakeups: p, next: now.Add(askHolderFirst), until: until}
		return
	}
	q := p.holder
	if d := until.Sub(q.until); q.owner != "" && (d > sameExpiry || d < -sameExpiry) { // it was renewed, or is another's
		q.owner, q.next = "", now
	}
	q.until = until
	switch {
	case q.asked, ent.WokenBy() != lockstate.WakePoll, e.closing.Load():
		return
	case now.Before(max(q.next, clock.Instant(e.askHoldersFrom.Load()))):
		return
	}
	q.next = now.Add(askHolderEvery)
	q.op = resp.Op{Kind: resp.OpInspect, Key: ent.key, Hash: ent.hash, Slot: ent.slot, Sink: q, Wide: ent.wide}
	q.asked = e.nodes.Submit(&q.op) == nil
}

// Answered takes the server's answer. It runs on the lane.
func (q *holderQuery) Answered(_ *resp.Op, r *resp.Result) {
	ent := q.wakeups.ent
	sc := ent.eng.enter(ent.hash)
	q.asked = false
	if r.Err != nil && r.Err.Class == resp.ClassNoPerm { // whoever watches refused commands is not to hear of each
		ent.eng.askHoldersFrom.Store(int64(r.ReceivedAt.Add(askForbidden)))
	}
	// One field, and its count: a mutex. Else, or where the queue waits no more, the answer says nothing.
	if ent.wakeups() == q.wakeups && r.Code == resp.CodeInspected && len(r.Fields) == 2 && r.More == 0 {
		sc.sawHolder(ent, r.Fields[0], fromServerMs(r.Value))
	}
	sc.leaveAt("holderQuery.Answered: decided | effects")
}

// sawHolder notes who holds the lock that a queue waits for. A hold of this engine of which nothing is known here any
// more is given back: nothing is on its way that might have made it, or gives it back already.
func (sc *section) sawHolder(ent *entry, field string, left time.Duration) {
	switch {
	case !ent.Parked():
	case !resp.MutexFieldOf(sc.eng.id, field):
		ent.wakeups().holder.owner = resp.Printable(field)
	case ent.hold != nil, ent.firstChild() != nil, ent.GivesBack(), ent.Forcing(), sc.eng.closing.Load(),
		ent.Attempt() != nil && ent.Attempt().op.Field == field:
	default:
		sc.clean(ent, lockRef{field, ent.head().set.family}, lockstate.Indeterminate{}, left)
	}
}

// holderElsewhere is the owner id of the holder of the lock that a queue waits for, if it has asked; else "".
func (ent *entry) holderElsewhere() string {
	if ent == nil || ent.wakeups() == nil || ent.wakeups().holder == nil || !ent.Waited() {
		return ""
	}
	return ent.wakeups().holder.owner
}
