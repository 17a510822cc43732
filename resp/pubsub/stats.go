package pubsub

import (
	"crypto/rand"
	"sync/atomic"
)

// Stats is a snapshot of a Mux. The first four are levels, the others only grow.
type Stats struct {
	Channels  int64 // in the table, lingering and refused ones included
	Confirmed int64 // subscribed on the current connection
	Lingering int64 // subscribed and referenced by nobody
	Refs      int64 // Subscribe without Drop

	Messages     int64 // received on any channel
	Unheard      int64 // of these, on channels that nobody references
	Connects     int64 // connections opened
	Reconnects   int64 // of these, all but the first
	DialFailures int64 // attempts to open one that failed
	Subscribes   int64 // channels asked for, in how few commands whatsoever
	Unsubscribes int64 // channels given back to the server
	Rounds       int64 // pipelines sent to do both
	Refused      int64 // refusals of a channel by the server
	Moved        int64 // sharded channels that the server dropped of itself
	Probes       int64 // delivery probes sent
	ProbesLost   int64 // of these, not come back: the connection was replaced
}

type subCounters struct {
	channels, confirmed, lingering, refs      atomic.Int64
	messages, unheard, connects, dialFailures atomic.Int64
	subscribes, unsubscribes, rounds, refused atomic.Int64
	moved, probes, probesLost                 atomic.Int64
}

// Stats returns the counters. They are read one by one, so they need not fit together
// while work is going on.
func (m *Mux) Stats() Stats {
	c := &m.count
	connects := c.connects.Load()
	return Stats{
		Channels:     c.channels.Load(),
		Confirmed:    c.confirmed.Load(),
		Lingering:    c.lingering.Load(),
		Refs:         c.refs.Load(),
		Messages:     c.messages.Load(),
		Unheard:      c.unheard.Load(),
		Connects:     connects,
		Reconnects:   max(connects-1, 0),
		DialFailures: c.dialFailures.Load(),
		Subscribes:   c.subscribes.Load(),
		Unsubscribes: c.unsubscribes.Load(),
		Rounds:       c.rounds.Load(),
		Refused:      c.refused.Load(),
		Moved:        c.moved.Load(),
		Probes:       c.probes.Load(),
		ProbesLost:   c.probesLost.Load(),
	}
}

// EventKind says what a Event reports.
type EventKind uint8

const (
	// Connected: a connection was opened.
	Connected EventKind = iota + 1
	// DialFailed: it could not be opened. Err says why.
	DialFailed
	// Lost: the connection ended or was given up. Err says why.
	Lost
	// Refused: the server refused Channel. Err says why.
	Refused
	// Round: one pipeline was answered; Channels is how many channels it was about.
	Round
	// ProbeOff: the probe's channel was refused, this connection is not probed.
	ProbeOff
	// NoUnsubscribe: the user may not run MULTI and EXEC, which unsubscribing needs
	// (see unsubscribeCommands). Err says why. Channels that nobody wants are then left to
	// pile up on the connection, which is replaced when there are too many.
	NoUnsubscribe
)

// Event is one event of a Mux's connection.
type Event struct {
	Kind     EventKind
	Channel  string
	Channels int
	Err      error
}

func randomProbeChannel() string { return "holdfast:probe:" + rand.Text() }
