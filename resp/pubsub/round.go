package pubsub

import (
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// txState is whether the connection's user may run MULTI and EXEC.
type txState uint8

const (
	txUnknown txState = iota
	txAllowed
	txRefused
)

// roundCommands bounds the commands of each kind in one pipeline.
const roundCommands = 512

// subRound is one pipeline: what was asked, and where its answers are.
type subRound struct {
	cmds  []rueidis.Completed
	asks  int // index of a MULTI, EXEC that learns whether they are allowed; -1: none
	subs  []subStep
	unsub []subStep
}

// subStep is the channels of one command, or of one transaction.
type subStep struct {
	at       int // index of the first answer
	channels []*subChannel
}

// round takes all the work there is, up to a bound, sends it as one pipeline and settles the
// answers. It reports whether there may be more to do at once.
//
// A channel occurs at most once in a pipeline, and the next pipeline is sent when everything
// about this one has been read: it ends with a PING, and the server keeps the order. This
// is what lets a phase stand for the command in flight. Think of an UNSUBSCRIBE in flight
// when a new waiter comes: the phase stays phaseUnsubscribing, the end of the round finds a
// reference, and the next round subscribes again; the waiter is never told of a
// subscription that the UNSUBSCRIBE is about to end.
func (m *Mux) round() bool {
	c, now := m.mgr.conn, time.Now()
	subs := m.takeTodo(c)
	idle := m.takeIdle(c, now)
	if len(idle) > 0 && c.tx == txRefused {
		m.strand(c, idle)
		return m.mgr.conn != nil && len(subs) > 0 && m.send(c, subs, nil)
	}
	ask := c.tx == txUnknown && (len(subs) > 0 || m.count.lingering.Load() > 0 && m.sweepDue(now))
	if len(subs) == 0 && len(idle) == 0 && !ask {
		return false
	}
	return m.send(c, subs, idle)
}

// send builds the pipeline, sends it and settles it.
func (m *Mux) send(c *subConn, subs, idle []*subChannel) bool {
	r := m.build(c, subs, idle)
	m.count.rounds.Add(1)
	res := m.exchange(c, r.cmds)
	// Without all answers nothing is known of the subscriptions: the next connection makes them anew.
	for _, a := range res {
		if err := a.NonRedisError(); err != nil {
			m.giveUp(err)
			return false
		}
	}
	m.mgr.failures = 0
	if r.asks >= 0 {
		m.settleAsk(c, res[r.asks].Error(), res[r.asks+1].Error())
	}
	for _, s := range r.subs {
		m.settleSubscribe(c, s, res[s.at].Error())
	}
	for _, s := range r.unsub {
		if !m.settleUnsubscribe(s, res[s.at:s.at+3]) {
			m.giveUp(res[s.at+2].Error())
			return false
		}
	}
	m.cfg.OnEvent(Event{Kind: Round, Channels: len(subs) + len(idle)})
	return len(subs) > 0 || len(idle) > 0
}

func (m *Mux) build(c *subConn, subs, idle []*subChannel) *subRound {
	r, b := &subRound{}, c.client.B()
	for len(subs) > 0 {
		n := m.batchLen(subs)
		r.subs = append(r.subs, subStep{at: len(r.cmds), channels: subs[:n]})
		names := channelNames(subs[:n])
		if m.cfg.Sharded {
			r.cmds = append(r.cmds, b.Ssubscribe().Channel(names...).Build())
		} else {
			r.cmds = append(r.cmds, b.Subscribe().Channel(names...).Build())
		}
		m.count.subscribes.Add(int64(n))
		subs = subs[n:]
	}
	for len(idle) > 0 {
		n := min(m.cfg.Batch, len(idle))
		r.unsub = append(r.unsub, subStep{at: len(r.cmds), channels: idle[:n]})
		r.cmds = m.unsubscribeCommands(r.cmds, b, channelNames(idle[:n]))
		m.count.unsubscribes.Add(int64(n))
		idle = idle[n:]
	}
	// An empty transaction changes nothing, and tells whether unsubscribeCommands may be used.
	if c.tx == txUnknown {
		r.asks = len(r.cmds)
		r.cmds = append(r.cmds, b.Multi().Build(), b.Exec().Build())
	} else {
		r.asks = -1
	}
	r.cmds = append(r.cmds, b.Ping().Build())
	return r
}

// batchLen is how many of subs the next command takes: one, if a batch with it was refused.
func (m *Mux) batchLen(subs []*subChannel) int {
	n := 0
	for n < min(m.cfg.Batch, len(subs)) && !subs[n].single {
		n++
	}
	return max(n, 1)
}

// unsubscribeCommands appends the three commands that end the subscription of names. The
// last one's answer says whether it worked.
//
// Not the client's own UNSUBSCRIBE, which ends the process when it is refused: rueidis sends
// a PING behind it and counts on one answer for the two. A server inside a long script
// refuses both with BUSY, one that cannot save refuses the PING with MISCONF; the answer too
// many, or the next one, is then a panic ("protocol bug") in the client's reader. In a
// transaction each command has one plain answer whatever happens: QUEUED or an error, then
// an array or EXECABORT. The array stands for the first push, the others come as pushes. At
// least two names, because Redis 6 answers make rueidis read one message past the array.
func (m *Mux) unsubscribeCommands(cmds []rueidis.Completed, b rueidis.Builder, names []string) []rueidis.Completed {
	if len(names) == 1 {
		names = append(names, names[0])
	}
	// Arbitrary will not be given the name, so it is put in afterwards; it is the lack of
	// the client's unsubscribe mark that matters.
	var unsub rueidis.Completed
	if m.cfg.Sharded {
		unsub = b.Arbitrary("S").Keys(names...).Build()
		unsub.Commands()[0] = "SUNSUBSCRIBE"
	} else {
		unsub = b.Arbitrary("U").Args(names...).Build()
		unsub.Commands()[0] = "UNSUBSCRIBE"
	}
	return append(cmds, b.Multi().Build(), unsub, b.Exec().Build())
}

func channelNames(chs []*subChannel) []string {
	names := make([]string, len(chs), len(chs)+1)
	for i, ch := range chs {
		names[i] = ch.name
	}
	return names
}

// takeTodo takes work off the list and marks it as in flight on c.
func (m *Mux) takeTodo(c *subConn) []*subChannel {
	todo := m.popTodo(roundCommands * m.cfg.Batch)
	subs := todo[:0]
	singles := 0
	for _, ch := range todo {
		sh := m.shard(ch.name)
		sh.mu.Lock()
		ch.queued = false
		phase := ch.phase.Load()
		switch {
		case phase != phaseIdle && phase != phaseRefused:
		case ch.refs == 0:
			m.forgetLocked(sh, ch)
		// Each is a command: the channels of refused batches take several rounds.
		case ch.single && singles >= roundCommands:
			m.enqueueLocked(ch)
		default:
			if ch.single {
				singles++
			}
			ch.epoch = c.epoch
			m.setPhaseLocked(ch, phaseSubscribing)
			subs = append(subs, ch)
		}
		sh.mu.Unlock()
	}
	return subs
}

// takeIdle takes the channels whose linger is over and marks them as in flight. None while
// it is not known whether MULTI is allowed.
func (m *Mux) takeIdle(c *subConn, now time.Time) []*subChannel {
	if c.tx == txUnknown || m.count.lingering.Load() == 0 || !m.sweepDue(now) {
		return nil
	}
	deadline := now.Add(-m.cfg.Linger)
	if m.mgr.pressure {
		deadline = now
	}
	var idle []*subChannel
	limit := roundCommands * m.cfg.Batch
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for ch := sh.idle.head; ch != nil && len(idle) < limit; ch = sh.idle.head {
			// The oldest come first: the others of this shard are younger.
			if ch.idleSince.After(deadline) {
				break
			}
			m.unidleLocked(sh, ch)
			m.setPhaseLocked(ch, phaseUnsubscribing)
			// From now on gone is about this command, see movedAway.
			ch.gone = false
			idle = append(idle, ch)
		}
		sh.mu.Unlock()
	}
	// If the round is full, more may be due: then the next one sweeps, too.
	if len(idle) < limit {
		m.mgr.nextSweep = now.Add(m.sweepEvery())
	}
	return idle
}

func (m *Mux) sweepDue(now time.Time) bool {
	return m.mgr.pressure || !now.Before(m.mgr.nextSweep)
}

// strand forgets channels that cannot be unsubscribed, and replaces the connection when it
// carries more of them than wanted ones, or nothing else.
func (m *Mux) strand(c *subConn, idle []*subChannel) {
	for _, ch := range idle {
		m.endUnsubscribe(ch)
	}
	c.stale += len(idle)
	channels := int(m.count.channels.Load())
	if channels == 0 || c.stale > max(1024, channels) {
		m.giveUp(errSubStale)
	}
}

// settleAsk notes whether MULTI and EXEC are allowed on a connection that has subscribed. A
// server that is busy just now leaves it open: the next round asks again.
func (m *Mux) settleAsk(c *subConn, multi, exec error) {
	switch {
	case multi == nil && exec == nil:
		c.tx = txAllowed
	case multi != nil && !isBusyOrLoading(multi):
		m.noTransactions(c, multi)
	case isNoPerm(exec):
		m.noTransactions(c, exec)
	default:
		m.mgr.nextSweep = time.Now().Add(m.sweepEvery())
	}
}

func (m *Mux) noTransactions(c *subConn, err error) {
	c.tx = txRefused
	m.cfg.OnEvent(Event{Kind: NoUnsubscribe, Err: err})
}

// settleSubscribe ends a subscription in flight. Redis takes all channels of a command or
// none; of a refused batch each is asked for alone in the next round, so that one that the
// ACL forbids does no harm to the others.
func (m *Mux) settleSubscribe(c *subConn, s subStep, err error) {
	if err == nil {
		for _, ch := range s.channels {
			m.confirm(ch.name, c.epoch) // the reader has done it already, as the pushes came
			ch.single, ch.tries = false, 0
		}
		return
	}
	if len(s.channels) > 1 && !isBusyOrLoading(err) {
		for _, ch := range s.channels {
			ch.single = true
			sh := m.shard(ch.name)
			sh.mu.Lock()
			m.setPhaseLocked(ch, phaseIdle)
			m.enqueueLocked(ch)
			sh.mu.Unlock()
		}
		return
	}
	for _, ch := range s.channels {
		m.refuse(ch, err)
	}
}

// refuse tells the waiters of a channel that they have to poll, and notes when to ask again.
func (m *Mux) refuse(ch *subChannel, err error) {
	sh := m.shard(ch.name)
	sh.mu.Lock()
	m.setPhaseLocked(ch, phaseRefused)
	wakes := ch.lostLocked(nil)
	sh.mu.Unlock()
	m.count.refused.Add(1)
	delay := jitter(m.cfg.RefusedRetry)
	if !isNoPerm(err) {
		delay = m.backoff(ch.tries)
		ch.tries++
	}
	m.retryLater(ch, delay)
	m.wakeAll(wakes, "")
	m.cfg.OnEvent(Event{Kind: Refused, Channel: ch.name, Err: err})
}

// settleUnsubscribe ends an unsubscription in flight; res are the three answers. False: the
// connection is in a state that nothing is known about.
func (m *Mux) settleUnsubscribe(s subStep, res []rueidis.RedisResult) bool {
	err := res[2].Error()
	// EXECABORT means that nothing ran. Another refusal of EXEC leaves it open what MULTI has queued.
	if err == nil {
		if parts, _ := res[2].ToArray(); len(parts) > 0 {
			err = parts[0].Error()
		}
	} else if !strings.HasPrefix(err.Error(), "EXECABORT") {
		return false
	}
	moved := isMoved(res[1].Error())
	for _, ch := range s.channels {
		if err == nil || moved {
			m.endUnsubscribe(ch)
		} else {
			m.undoUnsubscribe(ch)
		}
	}
	return true
}

// endUnsubscribe forgets the channel, or subscribes it again for who came meanwhile.
func (m *Mux) endUnsubscribe(ch *subChannel) {
	sh := m.shard(ch.name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if ch.refs == 0 {
		m.forgetLocked(sh, ch)
		return
	}
	m.setPhaseLocked(ch, phaseIdle)
	m.enqueueLocked(ch)
}

// undoUnsubscribe handles a refused unsubscription: the channel is as subscribed as before
// and lingers once more, unless the server dropped it of itself in between.
func (m *Mux) undoUnsubscribe(ch *subChannel) {
	sh := m.shard(ch.name)
	sh.mu.Lock()
	if ch.gone {
		sh.mu.Unlock()
		m.endUnsubscribe(ch)
		return
	}
	m.setPhaseLocked(ch, phaseConfirmed)
	wakes := ch.confirmedLocked(nil)
	if ch.refs == 0 {
		m.idleLocked(sh, ch, time.Now())
	}
	sh.mu.Unlock()
	m.wakeAll(wakes, "")
}

func isNoPerm(err error) bool { return errorBegins(err, "NOPERM") }

func isMoved(err error) bool { return errorBegins(err, "MOVED") }

func isBusyOrLoading(err error) bool {
	return errorBegins(err, "BUSY") || errorBegins(err, "LOADING")
}

func errorBegins(err error, prefix string) bool {
	return err != nil && strings.HasPrefix(err.Error(), prefix)
}
