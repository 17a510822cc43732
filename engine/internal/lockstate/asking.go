package lockstate

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// An Asking is what becomes a grant. Its outcome is unknown while its id was sent without an answer: then
// it is asked for again alone, under the same id, until an answer is definite.
type Asking struct {
	unknown bool          // the present owner id was sent without an answer
	Open    Indeterminate // copies that may still run
	tries   int           // failures in a row
	since   clock.Instant // of the first of them
}

// A Sending is a command that was sent: when, how long one attempt of it may take, and the lease that it asks for.
type Sending struct {
	At           clock.Instant
	Limit, Lease time.Duration
}

// Failed follows an error, or (not definite) no answer at all, to what was sent.
func (a *Asking) Failed(definite bool, s Sending, now clock.Instant) {
	if !definite {
		a.unknown = true
		a.Open.Unanswered(s.At, s.Limit, s.Lease)
	}
	if a.since == 0 {
		a.since = now
	}
	a.tries++
}

// Answered follows the server's word that somebody else has the lock.
func (a *Asking) Answered() { a.tries, a.since = 0, 0 }

// A Verdict says what becomes of an op after a failure of the acquire.
type Verdict uint8

const (
	KeepWaiting Verdict = iota // waits for the next sending
	FailUnknown                // is told that nobody knows
	FailServer                 // is told what the server said
)

// A Fault is what went wrong with a sending.
type Fault struct {
	Definite  bool // the server says that nothing was done
	Transient bool // it passes
	Passes    bool // a waiter may wait for its end, as it does for the lock: it is no refusal of what was asked
	Partly    bool // something was done
	Moving    bool // where the key is served is about to change
	Once      bool // what was sent without an answer might count twice if it were sent again
}

// Judge says what one op is told of a fault. A waiter outlasts what passes without its help; a newcomer is patient for
// a while; where a slot moves, it waits as it would for the lock, and even a Try is patient; and as long as a copy of
// the acquire may run, the answer to the next is worth waiting for: unless that would count twice. out: the time for
// waiting is over.
func (a *Asking) Judge(f Fault, parked, try, out bool) Verdict {
	switch {
	case a.unknown && f.Once:
		return FailUnknown
	case parked && (f.Transient || f.Passes):
		return KeepWaiting
	case a.unknown && !f.Partly && (f.Transient || !f.Definite) && !out:
		return KeepWaiting
	case f.Transient && !out && !try, f.Moving && (!try || !out):
		return KeepWaiting
	case a.unknown:
		return FailUnknown
	default:
		return FailServer
	}
}

// Unknown reports whether the present owner id was sent without an answer.
func (a *Asking) Unknown() bool { return a.unknown }

// Tries is how many failures there were in a row.
func (a *Asking) Tries() int { return a.tries }

// Since is when the first of them was.
func (a *Asking) Since() clock.Instant { return a.since }
