package report

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// Round is what one measured phase showed.
type Round struct {
	Rec     *meter.Recorder
	Cost    meter.Cost
	Skipped int64 // open loop: starts that were due and never made
	Before  topology.Snapshot
	After   topology.Snapshot

	Disturbed   []string // kinds of chaos meanwhile
	Reconnected bool     // an engine has made connections anew: what had no answer is sent again

	HandedOver int64 // grants that the server did not see
	Several    bool  // each pair is of several locks
	Contended  bool
	Kind       string // of the locks
}

// CPUPerPair is what the servers spent between two readings, in microseconds a pair; false where one
// of them would not say, or was not the same process.
func CPUPerPair(before, after time.Duration, pairs int64) (us float64, ok bool) {
	if before <= 0 || after < before || pairs <= 0 {
		return 0, false
	}
	return float64((after - before).Nanoseconds()) / 1e3 / float64(pairs), true
}
