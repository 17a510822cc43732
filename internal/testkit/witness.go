package testkit

import (
	"runtime/metrics"
	"sync/atomic"
)

// Memory is what the heap takes, as far as it is in use.
func Memory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// A Witness sees two holders of one name at once. Callers enter after the grant and leave before
// they ask for the release, so two inside are two that both believed to hold.
type Witness struct {
	inside     atomic.Int64
	Violations atomic.Int64 // how often somebody entered beside somebody else
}

// Enter begins a hold.
func (w *Witness) Enter() {
	if w.inside.Add(1) != 1 {
		w.Violations.Add(1)
	}
}

// Leave ends it.
func (w *Witness) Leave() { w.inside.Add(-1) }
