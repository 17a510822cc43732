package pubsub

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

var (
	errSubStale    = errors.New("holdfast: too many unwanted channels on the subscription connection")
	errSubReplaced = errors.New("holdfast: another server took over")
	errSubProbe    = errors.New("holdfast: the delivery probe did not come back")
)

// subManager is the state of the manager goroutine, touched by nobody else.
type subManager struct {
	conn      *subConn // nil without a connection
	epoch     uint64   // of conn, or of the last one
	failures  int      // attempts in a row without an answered pipeline
	nextDial  time.Time
	nextSweep time.Time
	nextProbe time.Time
	retries   []*subChannel // in phaseRefused, until retryAt
	nextRetry time.Time     // the earliest of them; zero: none
	pressure  bool          // this step lets go of every channel that nobody references
}

// subConn is one connection. The manager's, but for probe.want and epoch, which the reader reads.
type subConn struct {
	client  rueidis.DedicatedClient
	release func()
	lost    <-chan error // gets the error when the connection ends
	epoch   uint64
	tx      txState
	stale   int // channels forgotten here and still subscribed there (txRefused)
	probe   subProbe
}

// manage is the manager goroutine: it owns the connection and sends every command.
//
// May block on: the exchange with the server, each at most Attempt; Dedicate.
func (m *Mux) manage() {
	world.NewPart("mux").Label()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for m.ctx.Err() == nil {
		timer.Reset(m.step())
		var lost <-chan error
		if m.mgr.conn != nil {
			lost = m.mgr.conn.lost
		}
		select {
		case <-m.ctx.Done():
		case <-m.kicked:
		case <-timer.C:
		case err := <-lost:
			m.giveUp(err)
		}
	}
	if m.mgr.conn != nil {
		m.closeConn(m.mgr.conn)
	}
}

// step does all the work there is and returns how long nothing more is due.
func (m *Mux) step() time.Duration {
	m.mgr.pressure = m.pressure.Swap(false)
	// Another server took over: the failures of the old one are no reason to wait.
	if m.replace.Swap(false) {
		if m.mgr.conn != nil {
			m.giveUp(errSubReplaced)
		}
		m.mgr.failures, m.mgr.nextDial = 0, time.Time{}
	}
	// What has become due joins the work list.
	m.takeMoved()
	m.takeRetries(time.Now())
	// A connection is made for work alone, and not before its time. What nobody wants any more is no work.
	if m.mgr.conn == nil {
		wait := time.Until(m.mgr.nextDial)
		if wait <= 0 || m.mgr.pressure {
			m.compactTodo()
		}
		if !m.hasTodo() {
			return time.Hour
		}
		if wait > 0 {
			return wait
		}
		if !m.dial() {
			return time.Until(m.mgr.nextDial)
		}
	}
	// One pipeline after another, until there is nothing to do or the connection is lost.
	for m.mgr.conn != nil && m.ctx.Err() == nil && m.round() {
	}
	if m.mgr.conn != nil {
		m.probe(time.Now())
	}
	if m.mgr.conn == nil {
		return time.Until(m.mgr.nextDial)
	}
	return m.untilDue(time.Now())
}

// untilDue returns the time until the next sweep, retry or probe.
func (m *Mux) untilDue(now time.Time) time.Duration {
	wait := time.Hour
	due := func(at time.Time) { wait = min(wait, max(at.Sub(now), 0)) }
	if m.count.lingering.Load() > 0 {
		if m.mgr.nextSweep.Before(now) {
			m.mgr.nextSweep = now.Add(m.sweepEvery())
		}
		due(m.mgr.nextSweep)
	}
	if !m.mgr.nextRetry.IsZero() {
		due(m.mgr.nextRetry)
	}
	if m.mgr.conn != nil && m.probing() {
		due(m.mgr.nextProbe)
	}
	return wait
}

func (m *Mux) sweepEvery() time.Duration {
	return min(max(m.cfg.Linger/4, time.Millisecond), time.Second)
}

// dial opens a connection. On failure it tells the waiters and sets the time of the next try.
func (m *Mux) dial() bool {
	m.mgr.epoch++
	c := &subConn{epoch: m.mgr.epoch}
	client, release, err := m.cfg.Dedicate(m.ctx)
	if err == nil {
		c.client, c.release = client, release
		// The hooks know their connection: what an old one says late meets another epoch.
		c.lost = client.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(msg rueidis.PubSubMessage) { m.onMessage(c, msg) },
			OnSubscription: func(s rueidis.PubSubSubscription) { m.onSubscription(c, s) },
		})
		select { // rueidis hands out a dead connection where it could not dial
		case err = <-c.lost:
			if err == nil {
				err = rueidis.ErrClosing
			}
			m.closeConn(c)
		default:
		}
	}
	// Waiters are told at each failure, but each of them once: see lostLocked.
	if err != nil {
		m.count.dialFailures.Add(1)
		m.backOff(err)
		m.loseAll()
		m.cfg.OnEvent(Event{Kind: DialFailed, Err: err})
		return false
	}
	m.mgr.conn = c
	m.mgr.nextProbe = time.Now().Add(m.cfg.ProbeEvery)
	m.count.connects.Add(1)
	m.cfg.OnEvent(Event{Kind: Connected})
	return true
}

// giveUp abandons the connection: every waiter is told, and everything that is still wanted
// is on the work list for the next one.
func (m *Mux) giveUp(err error) {
	c := m.mgr.conn
	m.mgr.conn = nil
	if err == nil {
		err = rueidis.ErrClosing
	}
	m.closeConn(c)
	// Close does not tell waiters.
	if m.ctx.Err() != nil {
		return
	}
	m.backOff(err)
	m.loseAll()
	m.cfg.OnEvent(Event{Kind: Lost, Err: err})
}

// backOff sets the time of the next attempt to connect. Without RESP3 there is no point in
// hurrying: the client was made for RESP2, or the server knows no better.
func (m *Mux) backOff(err error) {
	delay := m.backoff(m.mgr.failures)
	if errors.Is(err, rueidis.ErrRESP2PubSubMixed) {
		delay = jitter(m.cfg.RefusedRetry)
	}
	m.mgr.failures++
	m.mgr.nextDial = time.Now().Add(delay)
}

// backoff draws a delay with full jitter below a bound that doubles with each try.
func (m *Mux) backoff(tries int) time.Duration {
	bound := m.cfg.BackoffMax
	if tries < 20 {
		bound = min(bound, m.cfg.BackoffMin<<tries)
	}
	return rand.N(bound + 1)
}

// jitter returns d give or take a fifth.
func jitter(d time.Duration) time.Duration { return d - d/5 + rand.N(2*d/5+1) }

// closeConn closes c on a goroutine of its own, because rueidis waits up to a second for a
// silent server. Only closing is safe: releasing a connection that works sends UNSUBSCRIBE
// (see unsubscribeCommands).
func (m *Mux) closeConn(c *subConn) {
	// It waits for a slot: that bounds the goroutines when servers are silent.
	m.closers <- struct{}{}
	m.wg.Go(func() {
		c.client.Close()
		if c.release != nil {
			c.release()
		}
		<-m.closers
	})
}

// loseAll makes every channel unsubscribed, puts it on the work list (which forgets it before
// the next connection if nobody references it) and tells its waiters.
func (m *Mux) loseAll() {
	m.mgr.retries, m.mgr.nextRetry = nil, time.Time{}
	var wakes []pendingWake
	for i := range m.shards {
		sh := &m.shards[i]
		wakes = wakes[:0]
		sh.mu.Lock()
		for _, ch := range sh.channels {
			ch.gone = false
			m.unidleLocked(sh, ch)
			m.setPhaseLocked(ch, phaseIdle)
			m.enqueueLocked(ch)
			wakes = ch.lostLocked(wakes)
		}
		sh.mu.Unlock()
		m.wakeAll(wakes, "")
	}
	m.work.Lock() // after the loop: from now on the old reader finds nothing to call moved
	m.work.moved = nil
	m.work.Unlock()
}

// takeMoved gives channels that the server dropped a time to be tried again.
func (m *Mux) takeMoved() {
	m.work.Lock()
	moved := m.work.moved
	m.work.moved = nil
	m.work.Unlock()
	for _, ch := range moved {
		m.retryLater(ch, m.backoff(ch.tries))
		ch.tries++
	}
}

// retryLater notes that ch, in phaseRefused, is to be tried again.
func (m *Mux) retryLater(ch *subChannel, delay time.Duration) {
	ch.retryAt = time.Now().Add(delay)
	m.mgr.retries = append(m.mgr.retries, ch)
	if m.mgr.nextRetry.IsZero() || ch.retryAt.Before(m.mgr.nextRetry) {
		m.mgr.nextRetry = ch.retryAt
	}
}

// takeRetries puts the channels that are due on the work list.
func (m *Mux) takeRetries(now time.Time) {
	if m.mgr.nextRetry.IsZero() || now.Before(m.mgr.nextRetry) && !m.mgr.pressure {
		return
	}
	var next time.Time
	keep := m.mgr.retries[:0]
	for _, ch := range m.mgr.retries {
		sh := m.shard(ch.name)
		sh.mu.Lock()
		switch {
		case ch.phase.Load() != phaseRefused:
		case ch.refs == 0:
			m.forgetLocked(sh, ch)
		case ch.retryAt.After(now):
			keep = append(keep, ch)
			if next.IsZero() || ch.retryAt.Before(next) {
				next = ch.retryAt
			}
		default:
			m.enqueueLocked(ch)
		}
		sh.mu.Unlock()
	}
	clear(m.mgr.retries[len(keep):])
	m.mgr.retries, m.mgr.nextRetry = keep, next
}

func (m *Mux) hasTodo() bool {
	m.work.Lock()
	defer m.work.Unlock()
	return len(m.work.todo) > 0
}

// compactTodo forgets the channels on the work list that nobody references any more. It
// keeps the table bounded by what is wanted while there is no connection.
func (m *Mux) compactTodo() {
	for _, ch := range m.popTodo(-1) {
		sh := m.shard(ch.name)
		sh.mu.Lock()
		ch.queued = false
		if ch.refs == 0 {
			m.forgetLocked(sh, ch)
		} else {
			m.enqueueLocked(ch)
		}
		sh.mu.Unlock()
	}
}

// popTodo takes the oldest limit channels off the work list, all of them if limit is negative.
func (m *Mux) popTodo(limit int) []*subChannel {
	m.work.Lock()
	defer m.work.Unlock()
	todo := m.work.todo
	if limit < 0 || limit >= len(todo) {
		m.work.todo = nil
		return todo
	}
	m.work.todo = todo[limit:]
	// The capacity is cut: whoever appends to what was taken must not write into the rest.
	return todo[:limit:limit]
}

// exchange sends one pipeline and waits for all of it, at most Attempt.
func (m *Mux) exchange(c *subConn, cmds []rueidis.Completed) []rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Attempt)
	defer cancel()
	return c.client.DoMulti(ctx, cmds...)
}
