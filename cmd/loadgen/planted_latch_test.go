package main

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// plantsOfLatches are those of the scenario latch, in which nobody holds anything.
func plantsOfLatches() []*plant {
	absent := only(config.KindLatch, "its locks are not counted down")
	return []*plant{
		{
			name: "LetInEarly", what: "violation", status: report.StatusViolation,
			says: "callers were let in before the last count was begun", beside: "still on the server",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				_, err := p.server(ctx, "EVAL",
					"return tonumber(redis.call('GET', KEYS[1]) or 0) > 1 and redis.call('DECR', KEYS[1]) or 0", "1", "NAME")
				return scenario.LetInEarly(p.Scenario) > 0, err
			},
			absent: absent,
		},
		{
			name: "NeverOpened", what: "loss", status: report.StatusFailed,
			says: "callers still waited 2 s after their latch was opened", beside: "still on the server",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				n, err := p.server(ctx, "EVAL", "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('INCR', KEYS[1]) or 0", "1", "NAME")
				return p.done.Load() || n > 0, err
			},
			absent: absent,
		},
		{
			name: "CountedAlready", what: "mismatch", status: report.StatusFailed,
			says: "a latch had a count that nobody here gave it", beside: "operations failed|not one pair|still on the server",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				_, err := p.server(ctx, "SET", "NAME", "5", "NX")
				if rueidis.IsRedisNil(err) {
					return p.done.Load(), nil
				}
				return true, err
			},
			absent: absent,
		},
	}
}
