package history

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Name is one lock of a history. Every grant of it has the same lease.
type Name struct {
	Text  string
	Lease time.Duration
}

// Trust is how long after its sending an answered attempt is believed at most. It is stated here a
// second time on purpose: the code under test is not asked what it promises.
func (n Name) Trust() time.Duration {
	return n.Lease - max(n.Lease/100, 10*time.Millisecond)
}

// An Outcome is how a grant ended.
type Outcome uint8

// The outcomes.
const (
	Released Outcome = iota // given back: by its holder, to the next one, or by Close
	Lost                    // its holder was told that it is over
	Unknown                 // given back, and no answer came
)

func (o Outcome) String() string {
	return [...]string{"released", "lost", "unknown"}[o]
}

// A Grant is one holder's time with a lock.
type Grant struct {
	Name    uint32 // index of the name
	Caller  uint32 // who asked, for the failure text
	Outcome Outcome
	Hold    uint64 // see ID; leases that are passed on inside an engine share it

	Called     clock.Instant // the acquire was called
	Begin, End clock.Instant // of belief; no later Begin than End
	Deadline   clock.Instant // the trust deadline, read after End and before the release
	Sent       clock.Instant // the release was called
	Answered   clock.Instant // it was answered

	// Closed is when Close of its engine was called, 0 if that was not before Sent: Close gives back what its
	// engine has granted, also where the caller has not read yet that it was.
	Closed clock.Instant
}

// givenFrom is when the grant can have been given back, or its loss told, at the earliest.
func (g *Grant) givenFrom() clock.Instant {
	if g.Closed == 0 {
		return g.End
	}
	return min(g.End, max(g.Called, g.Closed))
}

// unseen reports whether it was lost when its holder first saw it, for the whole process had stood still: nobody knows
// since when.
func (g *Grant) unseen() bool { return g.Outcome == Lost && g.End <= g.Begin }

// ID makes the identity of a hold of the field that names it in Redis.
func ID(field string) uint64 { return maphash.String(seed, field) }

//nolint:gochecknoglobals // a constant in all but name: IDs of one process must compare
var seed = maphash.MakeSeed()

// Everything is the name of a deletion that hits all names.
const Everything = ^uint32(0)

// A Deletion is a lock taken away by somebody who is not its holder.
type Deletion struct {
	Name           uint32
	What           string        // for the failure text
	Sent, Answered clock.Instant // it happened in between
	// Maybe is set where it is not known whether the lock was taken away, nor which holds that hit: a
	// failover, an answer that never came.
	Maybe bool
}

func (d *Deletion) hits(name uint32) bool { return d.Name == Everything || d.Name == name }

// A History is what was done to some locks.
type History struct {
	names []Name
	limit time.Duration // of one slice; see sliceLimit

	mu        sync.Mutex
	logs      []*Log
	deletions []Deletion
}

// A Log is one goroutine's part of a history.
type Log struct{ grants []Grant }

// New makes an empty history of some names.
func New(names ...Name) *History { return &History{names: names, limit: sliceLimit} }

// Log makes a part for one goroutine. Nothing may be added any more once the history is checked.
func (h *History) Log() *Log {
	l := &Log{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, l)
	return l
}

// Add records a grant that is over.
func (l *Log) Add(g Grant) { l.grants = append(l.grants, g) }

// Delete records a deletion.
func (h *History) Delete(d Deletion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deletions = append(h.deletions, d)
}

// Doubt makes every deletion sent since then a Maybe: what was taken away may have come back, with a
// failover to a replica that had not heard of it.
func (h *History) Doubt(since clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.deletions {
		if d := &h.deletions[i]; d.Sent >= since {
			d.Maybe = true
		}
	}
}

// A Report counts what the checks have looked at.
type Report struct {
	Grants, Holds   int
	Lost, Unknown   int // of the grants
	Deletions       int
	Overlaps        int           // pairs of grants, each explained by a deletion
	LongestOverlap  time.Duration // of those
	Slices, Skipped int           // given to porcupine, and left out because of a Maybe
	SlowestSlice    time.Duration // of those given
}

func (r Report) String() string {
	return fmt.Sprintf("%d grants of %d holds (%d lost, %d unknown), %d deletions, %d overlaps within the bound (longest %v), %d slices linearizable (slowest %v, %d skipped)",
		r.Grants, r.Holds, r.Lost, r.Unknown, r.Deletions, r.Overlaps, r.LongestOverlap.Round(time.Microsecond), r.Slices, r.SlowestSlice.Round(time.Millisecond), r.Skipped)
}

// Check runs both checks.
func (h *History) Check() (Report, error) {
	report, overlaps := h.Overlaps()
	sliced, linear := h.Linearizable()
	report.Slices, report.Skipped, report.SlowestSlice = sliced.Slices, sliced.Skipped, sliced.SlowestSlice
	return report, errors.Join(overlaps, linear)
}

// byName returns the grants of each name by the begin of belief, with the deletions that may have hit it.
func (h *History) byName() (grants [][]Grant, deletions [][]Deletion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	grants, deletions = make([][]Grant, len(h.names)), make([][]Deletion, len(h.names))
	for _, l := range h.logs {
		for _, g := range l.grants {
			grants[g.Name] = append(grants[g.Name], g)
		}
	}
	for n := range grants {
		slices.SortStableFunc(grants[n], func(a, b Grant) int {
			return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
		})
		for _, d := range h.deletions {
			if d.hits(uint32(n)) {
				deletions[n] = append(deletions[n], d)
			}
		}
		slices.SortStableFunc(deletions[n], func(a, b Deletion) int { return cmp.Compare(a.Answered, b.Answered) })
	}
	return grants, deletions
}
