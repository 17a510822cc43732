package renew

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// urgency is what waits to be renewed: whose deadline is next comes first. Where a server is slow, many long leases
// wait; a short one among them has no time for that. What comes is sorted when something is taken, all at once: a
// heap of a few thousand takes twice as long.
type urgency struct {
	sorted []waiting // the most urgent last
	fresh  []waiting // what came since
	spare  []waiting // empty, for the next merge
	spans  []span    // empty, for the next sort
}

// A span is of those that came one behind the other with the same deadline.
type span struct {
	deadline clock.Instant
	from, to int
}

// waiting is a subject that is due, and what it was when it came: of a million holds none is in a cache, and each look
// at one costs as much as all else that is done with it here.
type waiting struct {
	subject  Subject
	deadline clock.Instant
	due      clock.Instant // when its renewal was due: the same for those of a bunch
	since    clock.Instant
	patience time.Duration
	work     int
}

func (u *urgency) len() int { return len(u.sorted) + len(u.fresh) }

func (u *urgency) push(w waiting) { u.fresh = append(u.fresh, w) }

// peek is the most urgent. There must be one.
func (u *urgency) peek() *waiting {
	if len(u.fresh) > 0 {
		u.sort()
	}
	return &u.sorted[len(u.sorted)-1]
}

// pop takes it.
func (u *urgency) pop() waiting {
	u.peek()
	last := len(u.sorted) - 1
	next := u.sorted[last]
	u.sorted[last] = waiting{}
	u.sorted = u.sorted[:last]
	if last == 0 {
		u.sorted = kept(u.sorted)
	}
	return next
}

// order sorts what came since. Most come in spans, so that is what is sorted; and who came first is taken first, for a
// bunch stays together.
func (u *urgency) order() {
	spans := u.spans
	for from := 0; from < len(u.fresh); {
		to := from + 1
		for to < len(u.fresh) && u.fresh[to].deadline == u.fresh[from].deadline {
			to++
		}
		spans = append(spans, span{u.fresh[from].deadline, from, to})
		from = to
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(b.deadline, a.deadline), cmp.Compare(b.from, a.from))
	})
	into := slices.Grow(u.spare, len(u.fresh))
	for _, s := range spans {
		for i := s.to - 1; i >= s.from; i-- {
			into = append(into, u.fresh[i])
		}
	}
	clear(u.fresh)
	u.fresh, u.spare, u.spans = into, kept(u.fresh), kept(spans)
}

// sort brings what came since into the order of the others.
func (u *urgency) sort() {
	u.order()
	if len(u.sorted) == 0 {
		u.sorted, u.fresh = u.fresh, u.sorted
		return
	}
	into, a, b := u.spare, u.sorted, u.fresh
	for len(a) > 0 && len(b) > 0 {
		if !a[0].deadline.After(b[0].deadline) {
			into, b = append(into, b[0]), b[1:]
		} else {
			into, a = append(into, a[0]), a[1:]
		}
	}
	into = append(append(into, a...), b...)
	clear(u.sorted)
	clear(u.fresh)
	u.sorted, u.fresh, u.spare = into, kept(u.fresh), kept(u.sorted)
}

// keepRoom is for how many holds there is room kept from one time to the next: what a rush has needed is given back.
const keepRoom = 8 << 10

// kept returns a slice without what is in it, for the next time; nil if it is too large for that.
func kept[T any](s []T) []T {
	if cap(s) > keepRoom {
		return nil
	}
	return s[:0]
}
