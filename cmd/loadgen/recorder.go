package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// latencyMax is the longest latency told apart; a longer one counts as this.
const latencyMax = 5 * time.Minute

// recorder collects what one client saw. An async client has one of its own and never
// waits for mu; blocking callers share a few, because a histogram takes a quarter of a
// megabyte.
type recorder struct {
	mu       sync.Mutex
	acquires *hdrhistogram.Histogram // nanoseconds
	releases *hdrhistogram.Histogram
	granted  int64
	released int64
	lost     int64
	errors   map[string]int64 // by class

	live atomic.Int64 // pairs so far, for the progress line
	_    [64]byte     // live is written by one client and must not slow down the next
}

func newRecorder() *recorder {
	return &recorder{
		acquires: hdrhistogram.New(1, int64(latencyMax), 3),
		releases: hdrhistogram.New(1, int64(latencyMax), 3),
		errors:   make(map[string]int64),
	}
}

func (r *recorder) acquired(d time.Duration) {
	r.granted++
	record(r.acquires, d)
}

func (r *recorder) freed(d time.Duration) {
	r.released++
	record(r.releases, d)
}

func (r *recorder) failed(err error) {
	if errors.Is(err, engine.ErrLost) {
		r.lost++
	}
	r.errors[errorClass(err)]++
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), int64(latencyMax))) // in range, so it cannot fail
}

// merge adds what other saw to r. Neither may be in use.
func (r *recorder) merge(other *recorder) {
	r.acquires.Merge(other.acquires)
	r.releases.Merge(other.releases)
	r.granted += other.granted
	r.released += other.released
	r.lost += other.lost
	for class, n := range other.errors {
		r.errors[class] += n
	}
}

func (r *recorder) errorCount() (n int64) {
	for _, c := range r.errors {
		n += c
	}
	return n
}

// errorClasses name the outcomes an operation can have, for the report. The first that
// fits counts.
var errorClasses = []struct {
	is    error
	class string
}{
	{engine.ErrHeld, "held"},
	{engine.ErrLost, "lost"},
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
	if errors.As(err, &server) {
		return "server:" + server.Class.String()
	}
	for _, c := range errorClasses {
		if errors.Is(err, c.is) {
			return c.class
		}
	}
	return "other"
}
