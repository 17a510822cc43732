package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// RenewalStats count what the watchdog did: holds under watch (Watched), renewals of a key (Sent), those answered with
// an error or not at all (Failed), and how often two periods passed without a success (Jeopardies).
type RenewalStats = renew.Stats

// SlotStats count what happened to the table of a cluster's slots, and how often sentinels named another master.
type SlotStats = resp.NodesStats

// NodeStats count what went on with one server: its address and version, batches of commands, what waits to be sent,
// connections made anew, and its subscriptions. Its fields, as those of the other counters, are in the docs of
// package resp.
type NodeStats = resp.NodeStats

// SubscriptionStats count the channels and messages of one server's subscription connection; see [NodeStats].
type SubscriptionStats = pubsub.Stats

// Stats count what an engine did since Open. Counters only grow; the gauges say so.
type Stats struct {
	// Grants are acquires that were granted: leases, permits, parties that a Barrier let go on, latches that were waited
	// for. Releases are leases and permits given back, and CountDowns.
	Grants, Releases int64

	Heard   int64 // of those, releases that somebody was subscribed to
	Refused int64 // tries that were answered with ErrHeld
	Waits   int64 // acquires that were told "busy" and waited
	Errors  int64 // acquires ended by an error of the server or of the network

	// WaitsLocal counts acquires that queued because this engine held the lock: none of them asked the server first.
	WaitsLocal int64
	// Acquires that their callers gave up: because MaxWait was over, because their ctx ended, by Cancel. An acquire of
	// several locks that is given up counts its parts as cancelled.
	EndedByMaxWait, EndedByContext, EndedByCancel int64
	// Wait is how long acquires that were granted had waited: from the call, where others of this engine were in front,
	// else from when the first command was sent. Hold is how long leases were held that were given back by Release.
	Wait, Hold Histogram
	// Classes is what happened to the names of each class, if Config.Class tells classes apart.
	Classes []ClassStats

	// Lost are holds that were lost, those that a release found to be lost among them. Leases that share a hold, because
	// an owner entered again or several read, are lost as one. So Held is not Grants less Releases less Lost.
	Lost int64

	Leaked    int64 // leases dropped without Release, found by the watchdog
	Ghosts    int64 // grants that nobody could use, given back
	Abandoned int64 // of those, left to expire because the server did not answer; and permits refused for an hour
	Unseen    int64 // grants that too few replicas have seen, given back
	TooLate   int64 // grants whose answer took so long that the lease could not be trusted

	// GrantsByHandOff is, of the grants, those passed on inside this engine without a command of their own:
	// handed over, shared with a reader, or passed on by the release of a fair lock.
	GrantsByHandOff int64
	// GrantsByLinger is, of those, the ones that lingered (see Linger); LingersLost counts lingering locks that were lost,
	// which nobody had.
	GrantsByLinger, LingersLost int64
	GrantsByMessage             int64 // of the others, those that a release message sent for
	GrantsByPoll                int64 // of the others, those that the poll found

	// PassedOver is how often a waiter was passed over: it was woken by a release that freed enough for it, asked, and
	// others, in other engines or Redisson, had taken that. Who of them had asked first nobody knows: where all take turns
	// it rises with GrantsByMessage, and a waiter that starves has many times as many. What an engine does not hear of
	// it does not count. Within one engine nobody is passed over: its waiters are served in order.
	PassedOver int64

	WokenByMessage, WokenBySubscribe, WokenByReconnect, WokenByPoll int64

	Held, Waiting, Names int64 // gauges: holds (those that linger, too), acquires in queues, names with anything going on
	Renewals             RenewalStats
	// RenewalLag is how long after it was due each renewal was answered that succeeded, however many attempts that took. A
	// renewal is due a third of the lease after the last, or up to a fifth of that sooner.
	RenewalLag         Histogram
	Slots              SlotStats // of a cluster
	ConnectionsRefused int64     // connections closed because the server sent what no server sends, or far too much
	Nodes              []NodeStats

	// Callbacks counts OnComplete callbacks and lines for the logger; CallbackPanics counts those that panicked,
	// and contexts that did.
	Callbacks, CallbackPanics, CallbackOverflows int64
	LogsDropped                                  int64 // lines that the logger was too slow for
	// times the timing wheel was found stuck; what waits for time then comes a little late
	TimingWheelStuck int64
}

// Stats adds up the engine's counters. Blocks: for each shard's mutex in turn.
func (e *Engine) Stats() Stats {
	var c counts
	var s Stats
	for i := range e.shards {
		sc := e.enterShard(&e.shards[i])
		c.add(&sc.sh.counts)
		s.Names += int64(sc.sh.names.n)
		for ent := range sc.sh.entries {
			if ent.hold != nil {
				s.Held++
			}
			for range ent.ops {
				s.Waiting++
			}
		}
		sc.leave()
	}
	s.Grants, s.Releases, s.Heard, s.Refused = c.grants, c.releases, c.heard, c.busy
	s.Waits, s.Errors, s.Lost, s.Leaked = c.waits, c.errors, c.lost, c.leaks
	s.Ghosts, s.Abandoned, s.Unseen, s.TooLate = c.ghosts, c.abandoned, c.unseen, c.tooLate
	s.GrantsByHandOff, s.GrantsByMessage, s.GrantsByPoll = c.handOffs, c.byMessage, c.byPoll
	s.WokenByMessage, s.WokenBySubscribe = c.messages, c.subscribed
	s.WokenByReconnect, s.WokenByPoll, s.PassedOver = c.reconnects, c.polls, c.passedOver
	s.WaitsLocal, s.EndedByMaxWait = c.waitsLocal, c.endedByMaxWait
	s.EndedByContext, s.EndedByCancel = c.endedByContext, c.endedByCancel
	s.GrantsByLinger, s.LingersLost = c.lingered, c.lingersLost
	s.Wait, s.Hold, s.Classes = c.wait, c.hold, e.classes.stats()
	e.renewals.mu.Lock()
	s.RenewalLag = e.renewals.lag
	e.renewals.mu.Unlock()
	s.Renewals, s.Slots, s.ConnectionsRefused = e.watchdog.Stats(), e.nodes.Stats(), e.cfg.guard.Refused()
	for _, n := range e.nodes.All() {
		s.Nodes = append(s.Nodes, n.Stats())
	}
	ran := e.callbacks.Stats()
	s.Callbacks, s.CallbackPanics, s.CallbackOverflows = ran.Ran, ran.Panics, ran.Overflow
	s.LogsDropped, s.TimingWheelStuck = ran.Dropped, e.wheel.Stuck()
	return s
}

// HeldInfo is one hold of this engine.
type HeldInfo struct {
	Name     string
	OwnerID  string
	Lease    time.Duration
	Deadline time.Time // until when it is trusted if nothing renews it
	Waiters  int       // acquires of this engine queued behind it
}

// Held lists what this engine holds, for shutdown and debugging. Blocks: for each shard's mutex in
// turn.
func (e *Engine) Held() []HeldInfo {
	var held []HeldInfo
	for i := range e.shards {
		sc := e.enterShard(&e.shards[i])
		for ent := range sc.sh.entries {
			if ent.hold == nil {
				continue
			}
			h := ent.hold
			info := HeldInfo{Name: e.nameOf(h.ent.key), OwnerID: h.ownerID(), Lease: h.Lease()}
			info.Deadline = e.clock.Wall(h.Deadline())
			for range ent.ops {
				info.Waiters++
			}
			held = append(held, info)
		}
		sc.leave()
	}
	return held
}

// EventKind says what happened to a lock of this engine.
type EventKind uint8

// The kinds of event.
const (
	EventHeld     EventKind = iota + 1 // a lease was given to a caller
	EventJeopardy                      // no renewal of it was answered for two periods; it is still held
	EventLost                          // it ended without its holder's will; after EventReleased: its release found that
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
	// Name and OwnerID are the lease's; a Permit's OwnerID is the id of its first permit. Leases that share a hold,
	// because an owner entered again or several read, share the OwnerID: each is held and released, but the hold is
	// lost once.
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
	ev := Event{Kind: kind, Name: e.nameOf(h.ent.key), OwnerID: h.ownerID(), At: e.clock.Wall(e.clock.Now()), Cause: cause}
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
