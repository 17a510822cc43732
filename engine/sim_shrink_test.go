package engine

import (
	"errors"
	"fmt"
	"strings"
)

// shrink leaves out what a failure does not need: steps of actors, and kinds of trouble. The rest goes on to draw from
// the same seed, so what is left out changes what happens to the rest: a smaller plan counts only if it breaks the
// same rule. Whoever has the patience gets some hundred runs.
func shrink(p simPlan, rule string, runs int) simPlan {
	fails := func(p simPlan) bool {
		if runs <= 0 {
			return false
		}
		runs--
		return ruleOf(runSim(p, nil).err) == rule
	}
	p = p.calmer(fails)
	for size := p.size() / 2; size > 0 && runs > 0; size /= 2 {
		for at := 0; at < p.size() && runs > 0; {
			if smaller := p.without(at, size); fails(smaller) {
				p = smaller
			} else {
				at += size
			}
		}
	}
	return p.calmer(fails)
}

// ruleOf is what a run has broken; "" for nothing.
func ruleOf(err error) string {
	var broken *simError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &broken):
		return broken.rule
	default:
		text, _, _ := strings.Cut(err.Error(), "\n")
		return text
	}
}

// calmer switches off every kind of trouble that the failure does not need.
func (p simPlan) calmer(fails func(simPlan) bool) simPlan {
	for _, off := range []func(*simPlan){
		func(q *simPlan) { q.clocks = false }, func(q *simPlan) { q.crashes = false }, func(q *simPlan) { q.blows = false },
		func(q *simPlan) { q.java = false }, func(q *simPlan) { q.outage = 0 }, func(q *simPlan) { q.line = 0 }, func(q *simPlan) { q.rate, q.fates = 0, nil }, func(q *simPlan) { q.users = false }, func(q *simPlan) { q.yields = 0 },
	} {
		q := p
		off(&q)
		if fails(q) {
			p = q
		}
	}
	for i := 0; i < len(p.fates); {
		q := p
		q.fates = append(append([]simFate(nil), p.fates[:i]...), p.fates[i+1:]...)
		if len(q.fates) > 0 && fails(q) {
			p = q
		} else {
			i++
		}
	}
	return p
}

func (p simPlan) size() int {
	n := 0
	for _, steps := range p.steps {
		n += len(steps)
	}
	return n
}

// without leaves out n steps from the at-th on, counted through all actors.
func (p simPlan) without(at, n int) simPlan {
	steps := make([][]simStep, len(p.steps))
	for i, all := range p.steps {
		for _, st := range all {
			if at > 0 || n <= 0 {
				steps[i] = append(steps[i], st)
			} else {
				n--
			}
			at--
		}
	}
	p.steps = steps
	return p
}

// state is what the engines know of the names that are not at rest, for the eye.
func (s *sim) state() string {
	var text strings.Builder
	for _, se := range s.engines {
		if se.eng == nil || se.dead {
			continue
		}
		fmt.Fprintf(&text, "  engine %d: %s\n", se.n, strings.Join(s.w.Alive(se.proc), ", "))
		for i := range se.eng.shards {
			for ent := range se.eng.shards[i].entries {
				fmt.Fprintf(&text, "  engine %d %q: %v head %v att %v hold %v child %v\n", se.n, ent.key,
					&ent.Queue, ent.First() != nil, ent.Attempt() != nil, ent.hold != nil, ent.root() != ent)
				if a := ent.Attempt(); a != nil {
					fmt.Fprintf(&text, "    attempt kind %d family %d field %q same entry %v ack %v inside %v head's %v\n", a.op.Kind, a.op.Family, a.op.Field, a.ent == ent, a.op.Ack, a.op.Inside, ent.First() != nil && a == &ent.head().att)
				}
			}
		}
	}
	return text.String()
}
