package renew

import (
	"container/heap"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// urgency is what waits to be renewed, as a heap: whose deadline is next comes first. Where a server is slow, many long
// leases wait; a short one among them has no time for that.
type urgency []waiting

// waiting is a subject that is due.
type waiting struct {
	subject  Subject
	deadline clock.Instant // when it came
	since    clock.Instant
}

// Len is part of heap.Interface.
func (u *urgency) Len() int { return len(*u) }

// Less is part of heap.Interface.
func (u *urgency) Less(i, j int) bool { return (*u)[i].deadline.Before((*u)[j].deadline) }

// Swap is part of heap.Interface.
func (u *urgency) Swap(i, j int) { (*u)[i], (*u)[j] = (*u)[j], (*u)[i] }

// Push is part of heap.Interface, and unused: it would allocate for each.
func (u *urgency) Push(any) { panic("renew: use push") }

// Pop is part of heap.Interface, and unused.
func (u *urgency) Pop() any { panic("renew: use pop") }

func (u *urgency) push(w waiting) {
	*u = append(*u, w)
	heap.Fix(u, len(*u)-1)
}

// pop takes the most urgent. There must be one.
func (u *urgency) pop() waiting {
	first, last := (*u)[0], len(*u)-1
	(*u)[0] = (*u)[last]
	(*u)[last] = waiting{}
	*u = (*u)[:last]
	if last > 0 {
		heap.Fix(u, 0)
	}
	return first
}
