package main

import (
	"context"
	"time"
)

// caller is one blocking caller: it acquires, releases, and goes on to its next key.
type caller struct {
	load   *load
	slot   int
	rec    *recorder // shared with other callers, under its mutex
	phase  *phase
	starts <-chan time.Duration // open loop: the intended starts; nil: closed loop
}

// run makes pairs until the phase is over.
func (c *caller) run(ctx context.Context) {
	key := c.load.firstKey(c.slot)
	for {
		since, ok := c.begin()
		if !ok {
			return
		}
		key = c.load.slots[c.slot].next(key)
		if err := c.pair(ctx, key, since); err != nil && ctx.Err() == nil {
			time.Sleep(errorPause)
		}
	}
}

// begin returns when the next pair begins, or was to; false: none does.
func (c *caller) begin() (since time.Duration, ok bool) {
	if c.starts != nil {
		since, ok = <-c.starts
		return since, ok
	}
	now := c.phase.elapsed()
	return now, !c.phase.over(now)
}

func (c *caller) pair(ctx context.Context, key int, since time.Duration) error {
	holder := uint64(c.slot) + 1
	lease, err := c.load.locks[key].Acquire(ctx)
	granted := c.phase.elapsed()
	if err == nil {
		c.load.gaps.granted(c.slot)
		c.load.ledger.take(key, holder)
		c.load.ledger.give(key, holder)
		err = lease.Release(ctx)
	}
	freed := c.phase.elapsed()

	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if lease != nil {
		c.rec.acquired(granted - since)
	}
	if err != nil {
		c.rec.failed(err)
		return err
	}
	c.rec.freed(freed - granted)
	c.rec.live.Store(c.rec.released)
	return nil
}
