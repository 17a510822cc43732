package engine

import (
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// counts are a shard's counters, guarded by its mutex.
type counts struct {
	grants, releases, heard, busy, busyReplies, waits, errors, lost, leaks,
	ghosts, abandoned, unclaimed, unseen, tooLate, handOffs, byMessage, byPoll, messages, subscribed, reconnects, polls int64
}

// origin counts what sent the attempt that was granted.
func (c *counts) origin(by wakeKind) {
	switch by {
	case wakeMessage:
		c.byMessage++
	case wakePoll:
		c.byPoll++
	}
}

func (c *counts) add(o *counts) {
	c.grants += o.grants
	c.releases += o.releases
	c.heard += o.heard
	c.busy += o.busy
	c.busyReplies += o.busyReplies
	c.waits += o.waits
	c.errors += o.errors
	c.lost += o.lost
	c.leaks += o.leaks
	c.ghosts += o.ghosts
	c.abandoned += o.abandoned
	c.unclaimed += o.unclaimed
	c.unseen += o.unseen
	c.tooLate += o.tooLate
	c.handOffs += o.handOffs
	c.byMessage += o.byMessage
	c.byPoll += o.byPoll
	c.messages += o.messages
	c.subscribed += o.subscribed
	c.reconnects += o.reconnects
	c.polls += o.polls
}

// RenewalStats count what the watchdog did: holds under watch (Watched), renewals of a key (Sent), those answered with an error
// or not at all (Failed), and how often two periods passed without a success (Jeopardies).
type RenewalStats = renew.Stats

// SlotStats count what happened to the table of a cluster's slots, and how often sentinels named another master.
type SlotStats = resp.NodesStats

// NodeStats count what went on with one server: its address and version, batches of commands, what waits to be sent,
// connections made anew, and its subscriptions.
type NodeStats = resp.NodeStats

// SubscriptionStats count the channels and messages of one server's subscription connection; see [NodeStats].
type SubscriptionStats = pubsub.Stats

// Stats count what an engine did since Open. Counters only grow; the gauges say so.
type Stats struct {
	Grants   int64 // leases given to callers
	Releases int64 // leases given back
	Heard    int64 // of those, releases that somebody was subscribed to
	Refused  int64 // Trys answered ErrHeld
	Waits    int64 // acquires that were told "busy" and waited
	Errors   int64 // acquires ended by an error of the server or of the network

	Lost      int64 // leases lost
	Leaked    int64 // leases dropped without Release, found by the watchdog
	Ghosts    int64 // grants that nobody could use, given back
	Abandoned int64 // of those, left to expire because the server did not answer
	Unseen    int64 // grants that too few replicas have seen, given back
	TooLate   int64 // grants whose answer took so long that the lease could not be trusted

	// GrantsByHandOff is, of the grants, those passed on inside this engine without a command of their own:
	// handed over, shared with a reader, or passed on by the release of a fair lock.
	GrantsByHandOff int64
	GrantsByMessage int64 // of the others, those that a release message sent for
	GrantsByPoll    int64 // of the others, those that the poll found

	WokenByMessage, WokenBySubscribe, WokenByReconnect, WokenByPoll int64

	Held, Waiting, Names int64 // gauges: holds, acquires in queues, names with anything going on
	Renewals             RenewalStats
	Slots                SlotStats // of a cluster
	ConnectionsRefused   int64     // connections closed because the server sent what no server sends, or far too much
	Nodes                []NodeStats

	// Callbacks counts OnComplete callbacks and lines for the logger; CallbackPanics counts those that panicked,
	// and contexts that did.
	Callbacks, CallbackPanics, CallbackOverflows int64
	LogsDropped                                  int64 // lines that the logger was too slow for
	TimingWheelStuck                             int64 // times the timing wheel was found stuck; what waits for time then comes a little late
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
			for op := ent.head; op != nil; op = op.next {
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
	s.WokenByReconnect, s.WokenByPoll = c.reconnects, c.polls
	s.Renewals, s.Slots, s.ConnectionsRefused = e.dog.Stats(), e.nodes.Stats(), e.cfg.guard.Refused()
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
			info := HeldInfo{Name: e.nameOf(h.ent.key), OwnerID: h.Field, Lease: h.Lease(), Deadline: e.clock.Wall(h.Deadline())}
			for op := ent.head; op != nil; op = op.next {
				info.Waiters++
			}
			held = append(held, info)
		}
		sc.leave()
	}
	return held
}

// nameOf is a key without the engine's prefix.
func (e *Engine) nameOf(key string) string { return strings.TrimPrefix(key, e.cfg.Prefix) }
