package resp

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// maxReloads and maxTooLate bound how often one run repairs the same command.
const (
	maxReloads = 8
	maxTooLate = 3
)

// A stage is how far a run has come that its leader has left.
type stage uint8

const (
	stageNone  stage = iota // no run is left
	stageRound              // its next round is to begin
	stageReply              // its round waits for replies
)

// run sends what was loaded, in rounds: the first carries everything, later ones only what has to
// be sent again for a reason that is known to have kept it from running. A leader does one round, and not where that
// takes long: run says false, and the worker calls it again.
func (l *lane) run(leads bool) (complete bool) {
	if l.stage == stageNone {
		// Results are used again by the next run: a sink may read one during its call only.
		if cap(l.results) < len(l.ops) {
			l.results = make([]Result, len(l.ops)*2)
		}
		l.results = l.results[:len(l.ops)]
		l.commands = appendCommands(l.commands[:0], l.ops, l.results, l.node)
		l.rounds = 0
	}
	for len(l.commands) > 0 {
		if l.stage != stageReply {
			l.leaveStale()
		}
		w := l.link.cur.Load()
		if leads && (l.rounds > 0 || !l.leadable(w)) {
			l.stage = stageRound
			return false
		}
		if !l.round(w, leads) {
			l.stage = stageReply
			return false
		}
		l.stage = stageNone
		if len(l.again) > 0 {
			l.publish()
		}
		l.done = l.done[:0]
		// The two slices change places, so that no round allocates.
		l.commands, l.again = l.again, l.commands[:0]
	}
	l.stage = stageNone
	return true
}

// round sends l.commands in one write and reads their replies; what has to go again is in
// l.again afterwards. It says false if its leader has left it before the replies were there.
func (l *lane) round(w *wire, leads bool) (complete bool) {
	if l.stage != stageReply && !l.open(w) {
		return true
	}
	replies, complete := l.exchange(leads)
	if complete {
		l.settle(replies)
	}
	return complete
}

// open makes the pipeline of a round over a connection; nil: there is none yet. Where there can be none it answers all
// of the round's commands, and says false.
func (l *lane) open(w *wire) bool {
	l.again = l.again[:0]
	// The connection. A dial takes time, and so do earlier rounds: the limit of this one counts from now then.
	before, failed := w, (*ServerError)(nil)
	if w == nil {
		w, failed = l.link.get()
	}
	l.sent = w
	// GiveUp may have come during the dial.
	if l.cut.Load() {
		failed = errClosed
	}
	if failed != nil {
		for i := range l.commands {
			l.failAll(&l.commands[i], failed)
		}
		return false
	}
	if w.stock != l.recent.run {
		l.noteRun(w.stock)
	}
	l.scripts = l.node.reloaded.Load()
	if l.rounds++; l.rounds > 1 || w != before {
		l.restart()
	}
	// The pipeline. Leases are trusted from since on, so that is from before the write. The not-after keeps
	// a copy that is late from running when the attempt is long over.
	l.loaded = l.build(w, w.est.notAfter(l.since, l.node.opts.AttemptLimit))
	if w.direct != nil {
		w.direct.open(len(l.ops), !l.node.spread.wide.Load())
	}
	return true
}

// settle reads the replies, one for each command.
func (l *lane) settle(replies []rueidis.RedisResult) {
	w, sentAt := l.sent, l.since
	l.received = l.node.opts.Clock.Now()
	l.node.stats.batches.Add(1)
	l.learn(replies, l.received.Sub(sentAt))
	refused := w.stock.note(l.loaded, replies)
	lost, missing := false, false
	for i := range l.commands {
		c := &l.commands[i]
		reply := replies[c.at]
		if reply.NonRedisError() != nil {
			lost = true
		}
		outcome := c.readReply(w, reply, sentAt, l.received)
		c.probed(replies[c.at-c.probes : c.at])
		if w.caps.Cluster {
			c.noteUndeclared()
		}
		if l.sort(c, outcome, refused.of(c.script)) {
			missing = true
		}
	}
	// Scripts that are missing. One of the lanes that meet NOSCRIPT at the same time loads; one that has just
	// loaded, and misses them still, loads again.
	l.loads = missing && (l.loads || l.node.claimReload(l.scripts))
	// A connection that owes an answer is never used again: what still comes on it would be taken for another reply.
	if lost || w.malformed.Load() {
		l.link.giveUp(w)
		l.outbox.built = nil // the connection may still read it
	}
	// Replicas are asked when everything else is done: WAIT blocks the connection.
	if l.acks != nil {
		l.confirm(w)
	}
}

// exchange sends what is built and waits for the replies. A lone command goes alone: the client makes no list for it.
func (l *lane) exchange(leads bool) (replies []rueidis.RedisResult, complete bool) {
	built, w := l.outbox.built, l.sent
	switch {
	case w.direct != nil:
		return l.converse(w.direct, leads)
	case leads || l.simulated != nil:
		return l.converseSimulated(leads)
	case len(built) != 1:
		return w.client.DoMulti(l.limit, built...), true
	}
	l.reply[0] = w.client.Do(l.limit, built[0])
	return l.reply[:], true
}

// converse is exchange over a connection of the lane's own.
func (l *lane) converse(d *direct, leads bool) (replies []rueidis.RedisResult, complete bool) {
	// Noted before the limit is looked at: who ends that looks here afterwards.
	l.waitsOn.Store(d)
	err := d.talk(l.overdue, leads)
	if errors.Is(err, errLeft) {
		return nil, false
	}
	return d.finish(err), true
}

// overdue reports whether the round on its way has had its time. Who has the lane asks.
func (l *lane) overdue() bool { return l.limit.Err() != nil }

// learn fits the bound to how long the first round of a run has taken. One that got no answer because its connection
// broke says nothing.
func (l *lane) learn(replies []rueidis.RedisResult, took time.Duration) {
	limit := l.node.opts.AttemptLimit
	if l.rounds == 1 && (took >= limit || replies[len(replies)-1].NonRedisError() == nil) {
		l.bound.ran(len(l.ops), took, limit)
	}
}

// sort says what becomes of a command that has its reply: it is done, or goes into the next round. refused is why its
// script could not be loaded. It reports whether the command's script is missing.
func (l *lane) sort(c *command, o outcome, refused *ServerError) (missing bool) {
	switch o {
	case settled:
		l.done = append(l.done, *c)
	case tooLate:
		l.sendAgain(c)
	case noScript:
		// Loading again would be refused again. The reason says more than NOSCRIPT.
		if refused != nil {
			l.failAll(c, refused)
			return false
		}
		c.reloads++
		l.again = append(l.again, *c)
		return true
	case split:
		l.bisect(c)
	}
	return false
}

// build makes the pipeline of l.commands. In front stands what loads the scripts that the server was not given yet, and
// those that it has lost.
func (l *lane) build(w *wire, notAfter int64) (loads scriptSet) {
	// All scripts are noted before any is loaded: a load in this write is for each of them.
	for i := range l.commands {
		s := l.commands[i].script
		l.node.use(s)
		loads |= s.set()
	}
	loads = w.stock.lacks(loads)
	if l.loads {
		loads |= l.node.used()
	}
	l.outbox.begin(w)
	if loads != 0 {
		l.outbox.addAll(w.appendLoads(nil, loads))
	}
	l.envelope = envelope{
		wire: w, cluster: l.node.nodes != nil, publish: l.node.mode.publish,
		asks: l.node.mode.asks(l.node.opts.Publish, l.node.nodes != nil), askFrom: l.node.opts.AskFrom, now: l.since,
		notAfter: notAfter, keys: l.envelope.keys, args: l.envelope.args, lease: l.envelope.lease, limit: l.envelope.limit,
	}
	for i := range l.commands {
		c := &l.commands[i]
		// ASKING holds for one command. Nothing comes between: an op that asks has no probes.
		if c.ops[0].asking {
			l.outbox.add(w.client.B().Asking().Build())
		}
		c.addProbes(&l.outbox)
		c.at = l.outbox.len()
		c.build(&l.envelope, &l.outbox)
	}
	return loads
}

// lookAfter sees to it that a connection of the lane's own stays alive while nothing is on its way: the client does so
// for the others. Called with mu held, and nobody has the lane.
func (l *lane) lookAfter(now clock.Instant) {
	l.leaveStale()
	if w := l.link.cur.Load(); w != nil && w.direct != nil && now.Sub(l.received) >= idlePing {
		l.asleep, l.pings = false, true
		l.wake.Ring()
	}
}

// ping asks for a sign of life, and gives the connection up if there is none.
func (l *lane) ping() {
	if w := l.link.cur.Load(); w != nil && w.direct != nil {
		d := w.direct
		d.begin()
		d.add([]string{"PING"})
		d.open(1, false)
		l.sent = w
		replies, _ := l.converse(d, false)
		if replies[0].NonRedisError() != nil {
			l.link.giveUp(w)
		}
	}
	l.received = l.node.opts.Clock.Now()
	l.mu.Lock()
	l.since, l.reported = 0, false
	l.renewLimit()
	l.mu.Unlock()
}

// leaveStale gives up a connection that has ended while nothing was on its way, for what is sent on it has no answer,
// or on which there is an answer already, which would be taken for that of the next command. Who has the lane calls it,
// or with mu held whoever finds that nobody has.
func (l *lane) leaveStale() {
	if w := l.link.cur.Load(); w != nil && w.direct != nil && w.direct.stale() {
		l.link.giveUp(w)
	}
}

// sendAgain repeats a command the server refused because its not-after had passed. Its reply has
// just told us the server's time.
func (l *lane) sendAgain(c *command) {
	if c.refusals++; c.refusals >= maxTooLate {
		l.failAll(c, errTooLate)
		return
	}
	l.again = append(l.again, *c)
}

func (l *lane) failAll(c *command, err *ServerError) {
	for i := range c.results {
		c.results[i] = Result{Code: CodeError, Err: err}
	}
	l.done = append(l.done, *c)
}

// bisect splits a command that was refused as a whole, until the guilty key stands alone.
func (l *lane) bisect(c *command) {
	middle := len(c.ops) / 2
	for _, part := range [...][2]int{{0, middle}, {middle, len(c.ops)}} {
		half := *c
		half.ops, half.results = c.ops[part[0]:part[1]], c.results[part[0]:part[1]]
		l.again = append(l.again, half)
	}
}
