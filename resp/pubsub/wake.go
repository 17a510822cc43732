package pubsub

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// pendingWake is a Wake decided on under a shard's mutex, to be called without it.
type pendingWake struct {
	waker Waker
	cause WakeCause
}

// wakeAll calls the wakes, unless the multiplexer is closed.
func (m *Mux) wakeAll(wakes []pendingWake, payload string) {
	if len(wakes) == 0 {
		return
	}
	// Held during Wake, for Close waits for the last one. Who comes later sees closed.
	m.gate.RLock()
	defer m.gate.RUnlock()
	if m.closed.Load() {
		return
	}
	for _, w := range wakes {
		w.waker.Wake(w.cause, payload)
	}
}

// onMessage wakes everybody who references the message's channel. It runs in the reader.
//
// Allocates: only for a channel with more than 16 references.
func (m *Mux) onMessage(c *subConn, msg rueidis.PubSubMessage) {
	if want := c.probe.want.Load(); want != nil && msg.Channel == m.cfg.ProbeChannel {
		// An old one may come late: it proves nothing of the path as it is now.
		if msg.Message == *want {
			c.probe.want.CompareAndSwap(want, nil)
		}
		return
	}
	m.count.messages.Add(1)
	var buf [16]pendingWake
	wakes := buf[:0]
	sh := m.shard(msg.Channel)
	sh.mu.Lock()
	if ch := sh.channels[msg.Channel]; ch != nil {
		for s := ch.head; s != nil; s = s.next {
			wakes = append(wakes, pendingWake{s.waker, WakeMessage})
		}
	}
	sh.mu.Unlock()
	if len(wakes) == 0 {
		m.count.unheard.Add(1)
		return
	}
	m.wakeAll(wakes, msg.Message)
}

// onSubscription takes the server's word on a channel, as it arrives. It runs in the reader.
func (m *Mux) onSubscription(c *subConn, s rueidis.PubSubSubscription) {
	switch s.Kind {
	case "subscribe", "ssubscribe":
		m.confirm(s.Channel, c.epoch)
	case "sunsubscribe":
		m.movedAway(s.Channel, c.epoch)
	}
}

// confirm marks a channel as subscribed and wakes its waiters.
//
// Only the manager sends commands, it has one pipeline in flight and a channel occurs in it
// once. So a confirmation that meets phaseSubscribing of the same connection answers just
// that command; one from a connection that was given up meets another epoch.
func (m *Mux) confirm(channel string, epoch uint64) {
	var buf [16]pendingWake
	wakes := buf[:0]
	idle := false
	sh := m.shard(channel)
	sh.mu.Lock()
	ch := sh.channels[channel]
	if ch == nil || ch.phase.Load() != phaseSubscribing || ch.epoch != epoch {
		sh.mu.Unlock()
		return
	}
	m.setPhaseLocked(ch, phaseConfirmed)
	wakes = ch.confirmedLocked(wakes)
	// Everybody left while the command was in flight.
	if ch.refs == 0 {
		idle = m.idleLocked(sh, ch, time.Now())
	}
	sh.mu.Unlock()
	if idle {
		m.kick()
	}
	m.wakeAll(wakes, "")
}

// movedAway handles an unsubscription that the server decided on: the slot has moved. One
// that we asked for is told from it by the phase, because the manager does not go on before
// everything the server had to say about its pipeline was read.
func (m *Mux) movedAway(channel string, epoch uint64) {
	sh := m.shard(channel)
	sh.mu.Lock()
	ch := sh.channels[channel]
	if ch == nil || ch.epoch != epoch {
		sh.mu.Unlock()
		return
	}
	// Our own command may still be refused. But the subscription is gone already: see undoUnsubscribe.
	if ch.phase.Load() == phaseUnsubscribing {
		ch.gone = true
	}
	if ch.phase.Load() != phaseConfirmed {
		sh.mu.Unlock()
		return
	}
	m.unidleLocked(sh, ch)
	m.setPhaseLocked(ch, phaseRefused)
	wakes := ch.lostLocked(nil)
	m.work.Lock()
	m.work.moved = append(m.work.moved, ch)
	m.work.Unlock()
	sh.mu.Unlock()
	m.count.moved.Add(1)
	m.kick()
	m.wakeAll(wakes, "")
}

// confirmedLocked adds the wakes that a confirmation owes the channel's waiters.
func (ch *subChannel) confirmedLocked(wakes []pendingWake) []pendingWake {
	for s := ch.head; s != nil; s = s.next {
		if cause := s.confirmedLocked(); cause != 0 {
			wakes = append(wakes, pendingWake{s.waker, cause})
		}
	}
	return wakes
}

// confirmedLocked returns what a confirmation means to s, zero if s knows already.
func (s *Sub) confirmedLocked() WakeCause {
	switch {
	case s.lost:
		s.lost, s.told = false, true
		return WakeReconnect
	case !s.told:
		s.told = true
		return WakeSubscribed
	default:
		return 0
	}
}

// lostLocked adds a WakeLost for every waiter that has not been told.
func (ch *subChannel) lostLocked(wakes []pendingWake) []pendingWake {
	for s := ch.head; s != nil; s = s.next {
		if !s.lost {
			s.lost = true
			wakes = append(wakes, pendingWake{s.waker, WakeLost})
		}
	}
	return wakes
}

// greetLoop tells waiters that joined a channel whose state was known already. If the state
// has changed since, whoever changed it has told them, or will.
func (m *Mux) greetLoop() {
	world.NewPart("mux").Label()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.greeted:
		}
		m.work.Lock()
		chs := m.work.greet
		m.work.greet = nil
		m.work.Unlock()
		for _, ch := range chs {
			m.greet(ch)
		}
	}
}

func (m *Mux) greet(ch *subChannel) {
	var buf [16]pendingWake
	wakes := buf[:0]
	sh := m.shard(ch.name)
	sh.mu.Lock()
	// Under one mutex with the look: who joins after it puts the channel on the list again.
	ch.greet = false
	switch ch.phase.Load() {
	case phaseConfirmed:
		wakes = ch.confirmedLocked(wakes)
	case phaseRefused:
		wakes = ch.lostLocked(wakes)
	}
	sh.mu.Unlock()
	m.wakeAll(wakes, "")
}
