package load

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// caller is one blocking caller: it acquires, releases, and goes on to its next key.
type caller struct {
	load   *Load
	slot   int
	rec    *meter.Recorder // shared with other callers, under its mutex
	phase  *pace.Phase
	starts <-chan time.Duration // open loop: the intended starts; nil: closed loop
}

// run makes pairs until the phase is over.
func (c *caller) run(ctx context.Context) {
	world.NewPart("caller").Label()
	key := c.load.firstKey(c.slot)
	for {
		since, ok := c.begin()
		if !ok {
			return
		}
		key = c.load.slots[c.slot].next(key)
		if err := c.pair(ctx, key, since); err != nil && ctx.Err() == nil {
			time.Sleep(pace.ErrorPause)
		}
	}
}

// begin returns when the next pair begins, or was to; false: none does.
func (c *caller) begin() (since time.Duration, ok bool) {
	if c.starts != nil {
		since, ok = <-c.starts
		return since, ok
	}
	now := c.phase.Elapsed()
	return now, !c.phase.Over(now)
}

func (c *caller) pair(ctx context.Context, key int, since time.Duration) error {
	holder := uint64(c.slot) + 1
	lease, err := c.load.locks[key].Acquire(ctx)
	granted := c.phase.Elapsed()
	if err == nil {
		c.load.Gaps.Granted(c.slot)
		c.load.Ledger.Take(key, holder)
		c.load.Ledger.Give(key, holder)
		err = lease.Release(ctx)
	}
	freed := c.phase.Elapsed()
	c.rec.Pair(lease != nil, err, granted-since, freed-granted)
	return err
}
