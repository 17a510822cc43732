package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

const (
	// sliceGrants is how long a slice is at least: longer costs more for each grant, shorter sees less.
	sliceGrants = 100
	// sliceLimit bounds one slice. One that is not decided is an error: a check that gives up passes
	// what it has not seen.
	sliceLimit = 20 * time.Second
)

// Linearizable gives each name's grants to porcupine in slices. A slice ends where every hold in it has
// ended, so that no state passes from one to the next. The report says how many slices were checked, and
// how many were left out because a Maybe lies in them: to those, [History.Overlaps] alone applies.
func (h *History) Linearizable() (Report, error) {
	var r Report
	var errs []error
	grants, deletions := h.byName()
	for n := range grants {
		for _, s := range cut(h.names[n], grants[n], deletions[n]) {
			if s.doubtful() {
				r.Skipped++
				continue
			}
			r.Slices++
			if err := s.check(&r, h.limit); err != nil {
				errs = append(errs, err)
			}
			if len(errs) > violationsMax {
				return r, errors.Join(errs...)
			}
		}
	}
	return r, errors.Join(errs...)
}

// check asks porcupine about one slice.
func (s *slice) check(r *Report, limit time.Duration) error {
	begun, ops := time.Now(), s.operations()
	result := porcupine.CheckOperationsTimeout(lockModel(), ops, limit)
	r.SlowestSlice = max(r.SlowestSlice, time.Since(begun))
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return s.failed("no order of these operations is that of a lock", stuck(ops, limit))
	default:
		return s.failed("undecided within "+limit.String(), 0)
	}
}

// stuck is the grant from which on the operations have no order: of those that are missing in the longest order there is,
// the first.
func stuck(ops []porcupine.Operation, limit time.Duration) int {
	_, info := porcupine.CheckOperationsVerbose(lockModel(), ops, limit)
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	for _, i := range sortedByReturn(ops) {
		if st := ops[i].Input.(step); !slices.Contains(longest, i) && st.kind != stepDelete {
			return st.grant
		}
	}
	return 0
}

// sortedByReturn are the numbers of the operations by when each must have had its place: who waits was called long ago.
func sortedByReturn(ops []porcupine.Operation) []int {
	all := make([]int, len(ops))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(ops[a].Return, ops[b].Return) })
	return all
}

// A slice is some grants of one name that begin with a free lock and end with one.
type slice struct {
	name      Name
	grants    []Grant
	deletions []Deletion
}

// cut makes slices of a name's grants.
func cut(name Name, grants []Grant, deletions []Deletion) []slice {
	last := make(map[uint64]int) // of holds: their last grant
	for i, g := range grants {
		last[g.Hold] = i
	}
	var all []slice
	from, open := 0, 0 // open: the last grant of any hold that has begun
	for i, g := range grants {
		open = max(open, last[g.Hold])
		if i < open || i+1-from < sliceGrants && i+1 < len(grants) {
			continue
		}
		s := slice{name: name, grants: grants[from : i+1]}
		begin, end := s.span()
		for _, d := range deletions {
			if d.Answered >= begin && d.Sent <= end {
				s.deletions = append(s.deletions, d)
			}
		}
		all = append(all, s)
		from = i + 1
	}
	return all
}

// taken is when a grant's lock was taken at the earliest. A hold's first grant: when the attempt was sent
// that its deadline counts from, later than the call of one who waited, or earlier than that of one who was
// given what the server had granted to another of its engine who left; only once renewed it says nothing of
// the beginning. What is passed on is passed to one who has asked.
func (s *slice) taken(g *Grant, first bool) clock.Instant {
	if sent := g.Deadline.Add(-s.name.Trust()); first && sent <= g.Begin {
		return sent
	}
	return min(g.Called, g.Begin)
}

// span is from when to when a deletion can matter.
func (s *slice) span() (begin, end clock.Instant) {
	begin, end = s.grants[0].Begin, s.grants[0].End
	for i := range s.grants {
		begin, end = min(begin, s.taken(&s.grants[i], true), s.grants[i].Called), max(end, s.grants[i].End)
	}
	return begin, end
}

// doubtful reports whether a Maybe may have hit a hold of the slice.
func (s *slice) doubtful() bool {
	return slices.ContainsFunc(s.deletions, func(d Deletion) bool { return d.Maybe })
}

// operations writes a slice down for porcupine.
func (s *slice) operations() []porcupine.Operation {
	first, last := make(map[uint64]int), make(map[uint64]int)
	for i, g := range s.grants {
		if _, ok := first[g.Hold]; !ok {
			first[g.Hold] = i
		}
		last[g.Hold] = i
	}
	var ops []porcupine.Operation
	for i := range s.grants {
		g := &s.grants[i]
		who := step{grant: i, hold: g.Hold, last: last[g.Hold] == i}
		who.kind = stepTake
		taken, given := s.taken(g, first[g.Hold] == i), g.givenFrom()
		if g.unseen() {
			given = taken
		}
		ops = append(ops, porcupine.Operation{Input: who, Call: int64(taken), Return: int64(g.Begin)})
		give := porcupine.Operation{Call: int64(given), Return: int64(max(g.Answered, g.End))}
		switch who.kind = stepGive; g.Outcome {
		case Lost:
			who.kind = stepLose
		case Unknown:
			give.Return = math.MaxInt64 // open
		case Released:
		}
		give.Input = who
		ops = append(ops, give)
	}
	for _, d := range s.deletions {
		ops = append(ops, porcupine.Operation{Input: step{kind: stepDelete}, Call: int64(d.Sent), Return: int64(d.Answered)})
	}
	return ops
}

// failed shows the grants around one.
func (s *slice) failed(what string, around int) error {
	zero := s.grants[0].Begin
	text := fmt.Sprintf("history: %q: %s, bound %v, of %d grants:", s.name.Text, what, s.name.Trust(), len(s.grants))
	const before, most = 15, 40
	from := max(0, around-before)
	for i := from; i < min(len(s.grants), from+most); i++ {
		here := ""
		if i == around {
			here = " <- the first that has no place in the longest order"
		}
		text += fmt.Sprintf("\n\t%d: %s%s", i, s.grants[i].describe(zero, zero), here)
	}
	for _, d := range s.deletions {
		text += fmt.Sprintf("\n\t%s, sent %v, answered %v", d.What, since(zero, d.Sent), since(zero, d.Answered))
	}
	return errors.New(text)
}
