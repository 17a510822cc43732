package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// longestAmbush is how long the other client is given to hold something.
const longestAmbush = 2 * time.Second

// How long the others may be without a grant after a client was killed: until its locks have expired, and
// then until the next of their polls has found out, since nobody tells them. Who waited first for a fair lock
// and is dead keeps its place for five seconds.
const (
	deadPlace = 5 * time.Second
	gapSlack  = 2 * time.Second
)

// gapBound is how long a name may go without a grant when a client is killed.
func (c *config) gapBound() time.Duration {
	if c.kind == kindFair {
		return max(c.lease, deadPlace) + gapSlack
	}
	return c.lease + gapSlack
}

// clientReport says what the death of a client did to the others. It is part of the report of --chaos.
type clientReport struct {
	Killed int64   `json:"killed"`
	Held   int64   `json:"held"` // locks that it had when it died
	Gap    float64 `json:"longest_gap_s"`
	Bound  float64 `json:"gap_bound_s"`
	Judged bool    `json:"judged"` // a longer gap is a failure; not so if servers are disturbed as well
}

// killClient starts a client like this one and kills it in the middle.
func (c *chaos) killClient(ctx, early context.Context) error {
	c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return kind == chaosClient })
	v, err := startVictim(c.cfg, c.srv)
	if err != nil {
		return err
	}
	if err := v.await(ctx); err != nil {
		return errors.Join(err, v.kill())
	}
	select {
	case <-early.Done():
	case <-time.After(c.cfg.chaosEvery):
	}
	if err := errors.Join(c.stopHolding(ctx, v), v.kill()); err != nil {
		return err
	}
	c.client.Killed++
	c.client.Held, err = c.heldByOthers(ctx)
	return err
}

// stopHolding stops the other client while it holds something: the death of one that happens to hold
// nothing proves little. After a while it lets it be.
func (c *chaos) stopHolding(ctx context.Context, v *victim) error {
	for began := time.Now(); ; {
		if err := v.stop(); err != nil {
			return err
		}
		n, err := c.heldByOthers(ctx)
		if err != nil || n > 0 || time.Since(began) > longestAmbush {
			return err
		}
		if err := v.resume(); err != nil {
			return err
		}
	}
}

// heldByOthers counts the locks of the load that no engine of this process holds.
func (c *chaos) heldByOthers(ctx context.Context) (n int64, err error) {
	for first := 0; first < c.cfg.keys; first += auditBatch {
		cmds := make([]rueidis.Completed, 0, auditBatch)
		for key := first; key < min(first+auditBatch, c.cfg.keys); key++ {
			cmds = append(cmds, c.srv.client.B().Hkeys().Key(lockName(c.cfg.prefix, 'k', key)).Build())
		}
		for _, reply := range c.srv.client.DoMulti(ctx, cmds...) {
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
func (c *chaos) foreign(field string) bool {
	id, _, isHold := strings.Cut(field, ":")
	return isHold && !slices.ContainsFunc(c.engines, func(e *engine.Engine) bool { return e.ID() == id })
}

// watchGaps begins to look for gaps between grants, of n names or callers; nil where no client is killed.
func (c *chaos) watchGaps(n int) *gaps {
	if c == nil || c.muted || !c.cfg.killsClient() {
		return nil
	}
	c.gaps = newGaps(n)
	return c.gaps
}

// addClient reports what the death of a client did, if one died.
func (c *chaos) addClient(r *report, out *chaosReport) {
	if c.client.Killed == 0 || c.gaps == nil {
		return
	}
	one := c.client
	bound := c.cfg.gapBound()
	one.Gap, one.Bound, one.Judged = c.gaps.longest().Seconds(), bound.Seconds(), c.cfg.onlyKillsClient()
	out.Client = &one
	if one.Judged && one.Gap > one.Bound {
		r.fail("a client was killed, and something was not granted for %.2f s: more than %v", one.Gap, bound)
	}
}

func (c *clientReport) rows() [][2]string {
	if c == nil {
		return nil
	}
	return [][2]string{
		{"client killed", "it had " + plural(int(c.Held), "lock")},
		{"longest gap", fmt.Sprintf("%.2f s without a grant, may be %g s", c.Gap, c.Bound)},
	}
}

// watchVictim gives the other client and this one a witness file where they contend, so that exclusion is
// checked between them. forget removes it, if nobody named it.
func (c *config) watchVictim() (forget func(), err error) {
	if !c.killsClient() || !c.contends() || c.scenario == "rw" || c.witness != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "loadgen-")
	if err != nil {
		return nil, err
	}
	c.witness = filepath.Join(dir, "witness")
	return func() { _ = os.RemoveAll(dir) }, nil // whoever cleans up temporary files finds it
}
