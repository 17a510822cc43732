package rival

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// Rival is what a scenario is measured beside, in turns.
type Rival interface {
	// Name is for the progress line.
	Name() string
	// Warm runs it once, unmeasured.
	Warm(ctx context.Context) error
	// Turn runs it once.
	Turn(ctx context.Context) error
	// AddTo sets the medians side by side, when the scenario has finished its report.
	AddTo(r *report.Report, rounds []report.Round)
	Close()
}
