package main

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// scenario is one way of using locks. A run calls prepare once, warm once, measure once a
// round, and finish once, also after an early end. Each scenario is a file of its own and
// an entry in scenarios.
//
// The end of ctx ends prepare, warm and measure early; what they have begun they bring to
// its end all the same.
type scenario interface {
	// prepare takes what is to be there before anything is measured.
	prepare(ctx context.Context) error
	// warm runs the load unmeasured.
	warm(ctx context.Context)
	// measure runs the load once and returns what was seen.
	measure(ctx context.Context) (round, error)
	// finish gives back what prepare took and adds to r what only this scenario knows.
	finish(ctx context.Context, r *report) error
	// pairs counts what the running phase has done so far, for the progress line.
	pairs() int64
}

// round is what one measured phase showed.
type round struct {
	rec     *recorder
	cost    cost
	skipped int64 // open loop: starts that were due and never made
	before  snapshot
	after   snapshot

	disturbed []string // kinds of chaos meanwhile

	handedOver int64 // grants that the server did not see
	contended  bool
	kind       string // of the locks
}

// stage is what a scenario works with.
type stage struct {
	cfg     *config
	srv     *server
	engines []*engine.Engine
	meter   *costMeter
	chaos   *chaos     // nil: nothing is disturbed
	witness *bystander // nil: this process runs alone
}

// scenarios are those there are, by name.
func scenarios() map[string]func(stage) scenario {
	return map[string]func(stage) scenario{
		"lock":    newLockScenario,
		"hold":    newHoldScenario,
		"contend": newContendScenario,
		"fenced":  newFencedScenario,
		"fair":    newFairScenario,
		"rw":      newRWScenario,
	}
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(scenarios())) }
