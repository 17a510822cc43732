package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// latencyMax is the longest latency told apart; a longer one counts as this.
const latencyMax = 5 * time.Minute

// Recorder collects what one client saw. An async client has one of its own and never
// waits for mu; blocking callers share a few, because a histogram takes a quarter of a
// megabyte.
type Recorder struct {
	mu       sync.Mutex
	Acquires *hdrhistogram.Histogram // nanoseconds
	Releases *hdrhistogram.Histogram
	Granted  int64
	Released int64
	Lost     int64
	Errors   map[string]int64 // by class

	Live atomic.Int64 // pairs so far, for the progress line
	_    [64]byte     // live is written by one client and must not slow down the next
}

// NewRecorder makes a recorder that has seen nothing.
func NewRecorder() *Recorder {
	return &Recorder{
		Acquires: hdrhistogram.New(1, int64(latencyMax), 3),
		Releases: hdrhistogram.New(1, int64(latencyMax), 3),
		Errors:   make(map[string]int64),
	}
}

// Acquired notes a grant that took d.
func (r *Recorder) Acquired(d time.Duration) {
	r.Granted++
	record(r.Acquires, d)
}

// Freed notes a release that took d, and with it a pair.
func (r *Recorder) Freed(d time.Duration) {
	r.Released++
	record(r.Releases, d)
}

// Pair notes what became of one pair of a caller that shares r with others.
//
// Safe for concurrent use, as nothing else here is.
func (r *Recorder) Pair(granted bool, err error, waited, freeing time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if granted {
		r.Acquired(waited)
	}
	if err != nil {
		r.Failed(err)
		return
	}
	r.Freed(freeing)
	r.Live.Store(r.Released)
}

// Waited notes a grant that nobody gives back. Safe for concurrent use.
func (r *Recorder) Waited(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Acquired(d)
}

// Failed notes an operation that ended in err.
func (r *Recorder) Failed(err error) {
	if errors.Is(err, engine.ErrLost) {
		r.Lost++
	}
	r.Errors[errorClass(err)]++
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), int64(latencyMax))) // in range, so it cannot fail
}

// Merge adds what other saw to r. Neither may be in use.
func (r *Recorder) Merge(other *Recorder) {
	r.Acquires.Merge(other.Acquires)
	r.Releases.Merge(other.Releases)
	r.Granted += other.Granted
	r.Released += other.Released
	r.Lost += other.Lost
	for class, n := range other.Errors {
		r.Errors[class] += n
	}
}

// ErrorCount is how many operations failed.
func (r *Recorder) ErrorCount() (n int64) {
	for _, c := range r.Errors {
		n += c
	}
	return n
}

// ClassLost is the class of the errors that say that a lease is lost.
const ClassLost = "lost"

// errorClasses name the outcomes an operation can have, for the report. The first that
// fits counts.
var errorClasses = []struct {
	is    error
	class string
}{
	{engine.ErrHeld, "held"},
	{engine.ErrLost, ClassLost},
	{engine.ErrUnknown, "unknown"},
	{engine.ErrNotHeld, "not_held"},
	{engine.ErrOverloaded, "overloaded"},
	{engine.ErrClosed, "closed"},
	{engine.ErrName, "name"},
	{engine.ErrLease, "lease"},
	{engine.ErrWrongKind, "wrong_kind"},
	{context.DeadlineExceeded, "unanswered"},
	{context.Canceled, "unanswered"},
}

func errorClass(err error) string {
	var server *engine.ServerError
	if errors.As(err, &server) && !errors.Is(err, engine.ErrLost) { // it may have one beside it
		return "server:" + server.Class.String()
	}
	for _, c := range errorClasses {
		if errors.Is(err, c.is) {
			return c.class
		}
	}
	return "other"
}

// Complaint puts the errors in words; nil if there were none.
func (r *Recorder) Complaint(what string) error {
	if n := r.ErrorCount(); n > 0 {
		return fmt.Errorf("%s: %d failed: %s", what, n, FormatErrors(r.Errors))
	}
	return nil
}

// RecorderShards is how many recorders blocking callers share.
const RecorderShards = 16

// FormatErrors puts counts of errors by class in words.
func FormatErrors(errors map[string]int64) string {
	parts := make([]string, 0, len(errors))
	for _, class := range slices.Sorted(maps.Keys(errors)) {
		parts = append(parts, class+" "+format.Count(errors[class]))
	}
	return strings.Join(parts, ", ")
}
