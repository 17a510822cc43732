package scenario

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/chaos"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Scenario is one way of using locks. A run calls prepare once, warm once, measure once a
// round, and finish once, also after an early end. Each scenario is a file of its own and
// an entry in scenarios.
//
// The end of ctx ends prepare, warm and measure early; what they have begun they bring to
// its end all the same.
type Scenario interface {
	// Prepare takes what is to be there before anything is measured.
	Prepare(ctx context.Context) error
	// Warm runs the load unmeasured.
	Warm(ctx context.Context)
	// Measure runs the load once and returns what was seen.
	Measure(ctx context.Context) (report.Round, error)
	// Finish gives back what prepare took and adds to r what only this scenario knows.
	Finish(ctx context.Context, r *report.Report) error
	// Pairs counts what the running phase has done so far, for the progress line.
	Pairs() int64
}

// Stage is what a scenario works with.
type Stage struct {
	Cfg     *config.Config
	Srv     *topology.Server
	Engines []*engine.Engine
	Meter   *meter.CostMeter
	Chaos   *chaos.Chaos      // nil: nothing is disturbed
	Witness *witness.Observer // nil: this process runs alone
}

// All are those there are, by name.
func All() map[string]func(Stage) Scenario {
	return map[string]func(Stage) Scenario{
		"lock":               newLockScenario,
		"hold":               newHoldScenario,
		"contend":            newContendScenario,
		"fenced":             newFencedScenario,
		"fair":               newFairScenario,
		"rw":                 newRWScenario,
		config.KindSemaphore: newSemaphoreScenario,
		config.KindPermits:   newSemaphoreScenario,
		config.KindLatch:     newLatchScenario,
		"multi":              newMultiScenario,
	}
}

// Names are those of All, sorted.
func Names() []string { return slices.Sorted(maps.Keys(All())) }
