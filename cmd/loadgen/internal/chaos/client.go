package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// victimSettles is after how long the server has carried out what the other client sent before it was stopped.
const victimSettles = 50 * time.Millisecond

// victimWait is how long the other client is given to hold something.
const victimWait = 2 * time.Second

// How long it runs between two looks at what it holds: longer each time, for on a busy machine it gets little of that.
const (
	victimRuns     = 5 * time.Millisecond
	victimRunsMost = 50 * time.Millisecond
)

// killClient starts a client like this one and kills it in the middle.
func (c *Chaos) killClient(ctx, early context.Context) error {
	c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return kind == config.ChaosClient })
	v, err := startVictim(c.cfg, c.srv)
	if err != nil {
		return err
	}
	if err := v.await(ctx); err != nil {
		return errors.Join(err, v.kill())
	}
	select {
	case <-early.Done():
	case <-time.After(c.cfg.ChaosEvery):
	}
	if err := errors.Join(c.stopHolding(ctx, v), v.kill()); err != nil {
		return err
	}
	c.client.Killed++
	if c.cfg.NotesWhatItHas() {
		c.client.Held, _ = c.witness.File().Permits(true)
		return nil
	}
	c.client.Held, err = c.heldByOthers(ctx)
	return err
}

// stopHolding stops the other client while it holds something: the death of one that happens to hold
// nothing proves little. After a while it lets it be.
func (c *Chaos) stopHolding(ctx context.Context, v *victim) error {
	began := time.Now()
	for runs := victimRuns; ; runs = min(2*runs, victimRunsMost) {
		if err := v.stop(); err != nil {
			return err
		}
		n, err := c.heldByOthers(ctx)
		if err == nil && n > 0 { // or is its release on its way to the server?
			time.Sleep(victimSettles)
			n, err = c.heldByOthers(ctx)
		}
		if err != nil || n > 0 || time.Since(began) > victimWait {
			return err
		}
		if err := v.resume(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(runs):
		}
	}
}

// heldByOthers counts the locks of the load that no engine of this process holds. Of a semaphore it counts the permits
// that the other client says it has, once it is sure of them: what it has just asked for, or is giving back, may be
// anybody's. So it is with its counts of a latch.
func (c *Chaos) heldByOthers(ctx context.Context) (n int64, err error) {
	if c.cfg.NotesWhatItHas() {
		if held, unsettled := c.witness.File().Permits(false); unsettled == 0 {
			return held, nil
		}
		return 0, nil
	}
	for first := 0; first < c.cfg.Keys; first += topology.Batch {
		cmds := make([]rueidis.Completed, 0, topology.Batch)
		for key := first; key < min(first+topology.Batch, c.cfg.Keys); key++ {
			cmds = append(cmds, c.srv.Client.B().Hkeys().Key(c.cfg.LockName('k', key)).Build())
		}
		for _, reply := range c.srv.Client.DoMulti(ctx, cmds...) {
			fields, err := reply.AsStrSlice()
			if err != nil {
				return n, err
			}
			if slices.ContainsFunc(fields, c.foreign) {
				n++
			}
		}
	}
	return n, nil
}

// foreign reports whether a field of a lock is the hold of somebody else.
func (c *Chaos) foreign(field string) bool {
	id, _, isHold := strings.Cut(field, ":")
	return isHold && !slices.ContainsFunc(c.engines, func(e *engine.Engine) bool { return e.ID() == id })
}

// WatchGaps begins to look for gaps between grants, of n names or callers; nil where no client is killed.
func (c *Chaos) WatchGaps(n int) *meter.Gaps {
	if c == nil || c.Muted || !c.cfg.KillsClient() {
		return nil
	}
	c.gaps = meter.NewGaps(n)
	return c.gaps
}

// addClient reports what the death of a client did, if one died.
func (c *Chaos) addClient(r *report.Report, out *report.Chaos) {
	if c.client.Killed == 0 || c.gaps == nil {
		return
	}
	one := c.client
	switch one.What = "lock"; {
	case c.cfg.CountsPermits():
		one.What = "permit"
	case c.cfg.Scenario == config.KindLatch:
		one.What = "count"
	}
	bound := c.cfg.GapBound()
	one.Gap, one.Bound, one.Judged = c.gaps.Longest().Seconds(), bound.Seconds(), c.cfg.OnlyKillsClient()
	out.Client = &one
	if one.Judged && one.Gap > one.Bound {
		r.Fail("a client was killed, and something was not granted for %.2f s: more than %v", one.Gap, bound)
	}
}

// ShareWitness gives the other client and this one a witness file where they contend, so that exclusion is
// checked between them. forget removes it, if nobody named it.
func ShareWitness(c *config.Config) (forget func(), err error) {
	if !c.KillsClient() || !c.Contends() || c.Scenario == "rw" || c.Witness != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "loadgen-")
	if err != nil {
		return nil, err
	}
	c.Witness = filepath.Join(dir, "witness")
	return func() { _ = os.RemoveAll(dir) }, nil // whoever cleans up temporary files finds it
}
