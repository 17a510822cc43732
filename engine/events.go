package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// EventKind says what happened to a lock of this engine.
type EventKind uint8

// The kinds of event.
const (
	EventHeld     EventKind = iota + 1 // a lease was given to a caller
	EventJeopardy                      // no renewal of it was answered for two periods; it is still held
	EventLost                          // it ended without its holder's will
	EventReleased                      // it was given back, or Close did
)

// String returns the kind as a log line would print it.
func (k EventKind) String() string {
	switch k {
	case EventHeld:
		return "held"
	case EventJeopardy:
		return "jeopardy"
	case EventLost:
		return "lost"
	case EventReleased:
		return "released"
	default:
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
}

// An Event is one thing that happened to a lock that this engine holds or held.
type Event struct {
	Kind EventKind
	// Name and OwnerID are the lease's. Leases that share a hold, because an owner entered again or several
	// read, share the OwnerID: each is held and released, but the hold is lost once.
	Name    string
	OwnerID string
	At      time.Time
	// Cause says why a lock was lost; empty for other kinds.
	Cause string
	// Missed is how many events were dropped before this one because nobody had read.
	Missed int64
}

// Events is a stream of what happens to the locks of an engine, in order for each lock. Reading is up to
// you: the engine never waits, and what the buffer cannot take is dropped and counted.
type Events struct {
	eng    *Engine
	c      chan Event
	mu     sync.Mutex // one sender at a time, and none after the end
	ended  bool
	missed int64 // since the last event that was taken
	total  atomic.Int64
}

// MaxEvents is the largest buffer of a stream.
const MaxEvents = 1 << 20

// Events opens a stream with room for so many events, from 1 to MaxEvents; more or less is brought into
// that range. Any number of streams may be open; each sees everything from now on. Every stream costs a
// little on every grant and release: Stop it when it is not read any more. The engine's Close ends it.
// Blocks: never.
func (e *Engine) Events(buffer int) *Events {
	s := &Events{eng: e, c: make(chan Event, min(max(buffer, 1), MaxEvents))}
	e.streamsMu.Lock()
	defer e.streamsMu.Unlock()
	if e.streamsEnded {
		s.end()
		return s
	}
	all := []*Events{s}
	if old := e.streams.Load(); old != nil {
		all = append(slices.Clone(*old), s)
	}
	e.streams.Store(&all)
	return s
}

// C is the stream. It is closed after Stop and when the engine is closed.
func (s *Events) C() <-chan Event { return s.c }

// Dropped returns how many events found the buffer full, since the stream was opened.
func (s *Events) Dropped() int64 { return s.total.Load() }

// Stop ends the stream. Idempotent. Blocks: never.
func (s *Events) Stop() {
	e := s.eng
	e.streamsMu.Lock()
	defer e.streamsMu.Unlock()
	if old := e.streams.Load(); old != nil {
		rest := slices.DeleteFunc(slices.Clone(*old), func(o *Events) bool { return o == s })
		if len(rest) == 0 {
			e.streams.Store(nil)
		} else {
			e.streams.Store(&rest)
		}
	}
	s.end()
}

func (s *Events) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.c)
	}
}

// endStreams ends all of them, and those that are opened later.
func (e *Engine) endStreams() {
	e.streamsMu.Lock()
	defer e.streamsMu.Unlock()
	e.streamsEnded = true
	if all := e.streams.Swap(nil); all != nil {
		for _, s := range *all {
			s.end()
		}
	}
}

// tell puts an event into every stream. It may be called under a shard's mutex: it sends without waiting,
// and runs no user code.
func (e *Engine) tell(kind EventKind, h *hold, cause string) {
	all := e.streams.Load()
	if all == nil {
		return
	}
	ev := Event{Kind: kind, Name: e.nameOf(h.ent.key), OwnerID: h.Field, At: e.clock.Wall(e.clock.Now()), Cause: cause}
	for _, s := range *all {
		s.put(ev)
	}
}

func (s *Events) put(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	ev.Missed = s.missed
	select {
	case s.c <- ev:
		s.missed = 0
	default:
		s.missed++
		s.total.Add(1)
	}
}
