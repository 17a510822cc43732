package world

import (
	"context"
	"runtime/pprof"
)

// PartKey is the profiler's label of every goroutine of an engine: go tool pprof -tags lists its values.
const PartKey = "holdfast"

// A Part is what a goroutine works at, for the profiler: the label goes on to the goroutines that this one starts.
type Part struct{ labels context.Context } //nolint:containedctx // that is where labels are kept

// NewPart makes the label. Keep it where goroutines come and go often.
func NewPart(name string) Part {
	return Part{pprof.WithLabels(context.Background(), pprof.Labels(PartKey, name))}
}

// Label gives the label to the goroutine that calls it, for good. The zero Part leaves the label as it is. Allocates:
// never.
func (p Part) Label() {
	if p.labels != nil {
		pprof.SetGoroutineLabels(p.labels)
	}
}

// Apart calls fn, and returns when it has returned. In the real world fn runs on a goroutine of its own, so that what it
// starts has the label and the caller keeps its own.
func (p Part) Apart(w *World, fn func()) {
	if w != nil {
		fn()
		return
	}
	done := make(chan struct{})
	go func() { // ends with fn
		defer close(done)
		p.Label()
		fn()
	}()
	<-done
}
