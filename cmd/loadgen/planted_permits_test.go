package main

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// plantsOfSemaphores are those of the scenarios that count permits where the others know holders.
func plantsOfSemaphores(witnessed func() []string) []*plant {
	absent := only(config.KindSemaphore, "its locks have no permits")
	delete(absent, config.KindPermits)
	leased := only(config.KindPermits, "its permits, if it has any, have no lease")
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
			says: "^3 of 3 permits are missing: the server knows of no semaphore", spoil: sends("DEL", "NAME"), before: "GET", absent: absent,
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
		{
			name: "LeaseThatNobodyHas", what: "loss", status: report.StatusFailed,
			says: "^1 of 3 permits are missing: 2 are free", spoil: leases("99999999999999"), before: "GET", absent: leased,
		},
		{
			name: "LeaseThatIsOver", what: "mismatch", status: report.StatusFailed,
			says: "^1 permits too many: 4 of 3 are free", spoil: sends("ZADD", "{NAME}:timeout", "1", "0123456789abcdef"), before: "GET",
			absent: leased,
		},
		{
			name: "LostWhileHeld", what: "loss", status: report.StatusFailed,
			says: "leases of permits were over while they were held", beside: "lost|missing|not one pair|more permits were held|was granted",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				_, err := p.server(ctx, "DEL", "{NAME}:timeout")
				return true, err
			},
			args: func() []string { return []string{"--lease", "1s", "--hold", "700ms", "--duration", "300ms"} }, absent: leased,
		},
	}
}

// leases is a plant of a permit that is leased until then, and that nobody has.
func leases(until string) func(context.Context, *planted) (bool, error) {
	return func(ctx context.Context, p *planted) (bool, error) {
		_, err := p.server(ctx, "DECRBY", "NAME", "1")
		if err == nil {
			_, err = p.server(ctx, "ZADD", "{NAME}:timeout", until, "0123456789abcdef")
		}
		return true, err
	}
}
