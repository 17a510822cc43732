package main

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// plantsOfSemaphores are those of the scenario semaphore, which counts permits where the others know holders.
func plantsOfSemaphores(witnessed func() []string) []*plant {
	absent := only(config.KindSemaphore, "its locks have no permits")
	return []*plant{
		{
			name: "TooManyHeld", what: "violation", status: report.StatusViolation,
			says: "more permits were held than there are", beside: "was granted",
			spoil: func(_ context.Context, p *planted) (bool, error) {
				if !p.done.Load() {
					scenario.PermitsOf(p.Scenario).Take(3, 99)
				}
				return scenario.PermitsOf(p.Scenario).Violations.Load() > 0, nil
			},
			absent: absent,
		},
		{
			name: "TooManyHeldElsewhere", what: "violation", status: report.StatusViolation,
			says: "exclusion between processes was violated", beside: "are held",
			spoil: func(_ context.Context, p *planted) (bool, error) {
				if !p.done.Load() {
					p.Witness.File().Enter(3, 3, 99)
				}
				return true, nil
			},
			args: witnessed, absent: absent,
		},
		// The server grants what it does not have.
		{
			name: "PermitsFromNowhere", what: "violation", status: report.StatusViolation,
			says: "more permits were held than there are", beside: "was granted|permits too many|permits were free",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				_, err := p.server(ctx, "INCRBY", "NAME", "3")
				return scenario.PermitsOf(p.Scenario).Violations.Load() > 0, err
			},
			absent: absent,
		},
		{
			name: "PermitsLost", what: "loss", status: report.StatusFailed,
			says: "^1 of 3 permits are missing: 2 are free", spoil: sends("DECRBY", "NAME", "1"), before: "GET", absent: absent,
		},
		{
			name: "SemaphoreLost", what: "loss", status: report.StatusFailed,
			says: "^3 of 3 permits are missing", spoil: sends("DEL", "NAME"), before: "GET", absent: absent,
		},
		{
			name: "PermitsTooMany", what: "mismatch", status: report.StatusFailed,
			says: "^1 permits too many: 4 of 3 are free", spoil: sends("INCRBY", "NAME", "1"), before: "GET", absent: absent,
		},
		{
			name: "NobodyMayCount", what: "mismatch", status: report.StatusFailed,
			says: "ask how many permits are free: NOPERM", beside: "still on the server",
			spoil: sends("ACL", "SETUSER", "default", "-get"), before: "GET", absent: absent,
		},
	}
}
