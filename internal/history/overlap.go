package history

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// violationsMax is how many violations an error tells: the first ones say what is wrong.
const violationsMax = 10

// Overlaps checks belief against the bound of the package comment. The error names every grant that
// breaks it, ten at most.
func (h *History) Overlaps() (Report, error) {
	var r Report
	var errs []error
	grants, deletions := h.byName()
	for n := range grants {
		c := nameCheck{name: h.names[n], grants: grants[n], deletions: deletions[n], report: &r}
		c.run()
		errs = append(errs, c.errs...)
	}
	h.mu.Lock()
	r.Deletions = len(h.deletions)
	h.mu.Unlock()
	if more := len(errs) - violationsMax; more > 0 {
		errs = append(errs[:violationsMax], fmt.Errorf("… and %d more", more))
	}
	return r, errors.Join(errs...)
}

// A nameCheck checks one name.
type nameCheck struct {
	name      Name
	grants    []Grant // by Begin
	deletions []Deletion
	begins    map[uint64]clock.Instant // of holds: the first belief in each
	report    *Report
	errs      []error
}

func (c *nameCheck) run() {
	c.begins = make(map[uint64]clock.Instant)
	for _, g := range c.grants {
		if _, ok := c.begins[g.Hold]; !ok {
			c.begins[g.Hold] = g.Begin
		}
	}
	c.report.Holds += len(c.begins)
	var live []*Grant // those that end after the present one's begin
	for i := range c.grants {
		g := &c.grants[i]
		c.count(g)
		c.alone(g)
		live = slices.DeleteFunc(live, func(o *Grant) bool { return o.End <= g.Begin })
		if g.End <= g.Begin {
			continue // never seen to believe
		}
		for _, o := range live {
			c.pair(o, g)
		}
		live = append(live, g)
	}
}

func (c *nameCheck) count(g *Grant) {
	c.report.Grants++
	switch g.Outcome {
	case Lost:
		c.report.Lost++
	case Unknown:
		c.report.Unknown++
	case Released:
	}
}

// alone checks what a grant must keep whatever others do.
func (c *nameCheck) alone(g *Grant) {
	if g.End > g.Begin && g.End >= g.Deadline {
		c.failed("believed at or past its trust deadline", nil, g)
	}
	for i := range c.deletions {
		d := &c.deletions[i]
		if !d.Maybe && c.begins[g.Hold] < d.Sent && g.Deadline > d.Answered.Add(c.name.Trust()) {
			c.failed("trusts an attempt sent after its lock had been taken away", d, g)
			return
		}
	}
}

// pair checks two grants that believed at once.
func (c *nameCheck) pair(a, b *Grant) {
	if a.Hold == b.Hold {
		c.failed("two leases of one hold believed at once", nil, a, b)
		return
	}
	if !c.explained(a, b) && !c.explained(b, a) {
		c.failed("two holders believed at once, and no deletion within the bound explains it", c.nearest(b.Begin), a, b)
		return
	}
	c.report.Overlaps++
	c.report.LongestOverlap = max(c.report.LongestOverlap, min(a.End, b.End).Sub(b.Begin))
}

// explained reports whether a deletion hit first's hold before second's was granted, and first believes
// no longer than that allows. The deadline says enough: belief ends before it, and the attempt that it
// counts from found the lock in place.
func (c *nameCheck) explained(first, second *Grant) bool {
	return slices.ContainsFunc(c.deletions, func(d Deletion) bool {
		return d.Sent < c.begins[second.Hold] && first.Deadline <= d.Answered.Add(c.name.Trust())
	})
}

// nearest is the last deletion that began before at: the one to look at first.
func (c *nameCheck) nearest(at clock.Instant) *Deletion {
	var last *Deletion
	for i := range c.deletions {
		if d := &c.deletions[i]; d.Sent < at && (last == nil || d.Sent > last.Sent) {
			last = d
		}
	}
	return last
}

// failed notes a violation. Its instants are relative to the first grant's begin.
func (c *nameCheck) failed(what string, d *Deletion, grants ...*Grant) {
	if len(c.errs) > violationsMax {
		c.errs = append(c.errs, errors.New(what)) // counted, not told
		return
	}
	zero := grants[0].Begin
	text := fmt.Sprintf("history: %q: %s (bound: end of belief < trust deadline ≤ deletion answered + %v, being the lease of %v less max(1 %%, 10 ms))",
		c.name.Text, what, c.name.Trust(), c.name.Lease)
	for _, g := range grants {
		text += "\n\t" + g.describe(zero, c.begins[g.Hold])
	}
	if d == nil {
		text += "\n\tno deletion before"
	} else {
		text += fmt.Sprintf("\n\tlast deletion before: %s, sent %v, answered %v, bound %v", d.What,
			since(zero, d.Sent), since(zero, d.Answered), since(zero, d.Answered.Add(c.name.Trust())))
	}
	c.errs = append(c.errs, errors.New(text))
}

func (g *Grant) describe(zero, hold clock.Instant) string {
	return fmt.Sprintf("caller %d, hold %016x (since %v): called %v, believed %v to %v, deadline %v, release sent %v, answered %v: %v",
		g.Caller, g.Hold, since(zero, hold), since(zero, g.Called), since(zero, g.Begin), since(zero, g.End),
		since(zero, g.Deadline), since(zero, g.Sent), since(zero, g.Answered), g.Outcome)
}

func since(zero, t clock.Instant) time.Duration { return t.Sub(zero).Round(time.Microsecond) }
