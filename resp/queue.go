package resp

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// laneQueue holds what waits for a lane, by urgency. Releases are never refused: holds bound them.
type laneQueue struct {
	releases, singles, looks, acquires fifo
}

// of is where an op of a kind waits.
func (q *laneQueue) of(k OpKind) *fifo {
	switch k {
	case OpRelease:
		return &q.releases
	case OpAcquire:
		return &q.acquires
	case OpInspect, OpQueue:
		return &q.looks
	default:
		return &q.singles
	}
}

// all lists them, the most urgent first.
func (q *laneQueue) all() [4]*fifo { return [...]*fifo{&q.releases, &q.singles, &q.looks, &q.acquires} }

func (q *laneQueue) len() (n int) {
	for _, f := range q.all() {
		n += f.len()
	}
	return n
}

// oldest returns an instant before which nothing that waits was queued. There must be something.
func (q *laneQueue) oldest() (at clock.Instant) {
	for _, f := range q.all() {
		if f.len() > 0 && (at == 0 || f.oldest().Before(at)) {
			at = f.oldest()
		}
	}
	return at
}

// note notes the time: what is queued from now on was not queued before.
func (q *laneQueue) note(now clock.Instant) {
	for _, f := range q.all() {
		f.note(now)
	}
}

// begin notes the time where nothing waited before: what waits has just come.
func (q *laneQueue) begin(now clock.Instant) {
	for _, f := range q.all() {
		f.notes = append(f.notes[:0], queuedFrom{f.taken, now})
	}
}

// A fifo holds ops in the order in which they came, and knows roughly when.
type fifo struct {
	ops    []*Op // from head on; nil: swept away
	head   int
	swept  int          // of them
	taken  uint64       // since ever
	listed uint64       // the first so many that ever came have been listed
	notes  []queuedFrom // the latest last; few: one for each run that an op waits for
}

// queuedFrom says that the ops from this number on were queued at this time or later.
type queuedFrom struct {
	number uint64
	at     clock.Instant
}

func (f *fifo) len() int { return len(f.ops) - f.head }

// live is how many of them somebody still waits for, as far as sweep has looked.
func (f *fifo) live() int { return f.len() - f.swept }

func (f *fifo) push(op *Op) { f.ops = append(f.ops, op) }

// pop takes the first op; nil if that was swept away. There must be one.
func (f *fifo) pop() *Op {
	op := f.ops[f.head]
	f.ops[f.head] = nil
	f.head++
	f.taken++
	if op == nil {
		f.swept--
	}
	switch {
	case f.head == len(f.ops):
		f.ops, f.head = f.ops[:0], 0
	// Half of it is free: what waits moves to the front. So each op is moved once, on average.
	case f.head > len(f.ops)/2 && f.head >= boundMost:
		n := copy(f.ops, f.ops[f.head:])
		clear(f.ops[n:])
		f.ops, f.head = f.ops[:n], 0
	}
	return op
}

func (f *fifo) note(now clock.Instant) {
	next := f.taken + uint64(f.len())
	if n := len(f.notes); n > 0 && f.notes[n-1].number == next {
		f.notes[n-1].at = now
		return
	}
	f.notes = append(f.notes, queuedFrom{next, now})
}

// oldest returns an instant before which the first op was not queued.
func (f *fifo) oldest() clock.Instant {
	done := 0
	for done+1 < len(f.notes) && f.notes[done+1].number <= f.taken {
		done++
	}
	f.notes = append(f.notes[:0], f.notes[done:]...)
	if len(f.notes) == 0 {
		return 0
	}
	return f.notes[0].at
}

// overdue appends the keys of the ops that may have been queued at this time or before, each once.
func (f *fifo) overdue(before clock.Instant, keys []string) []string {
	end := f.taken + uint64(f.len())
	for _, n := range f.notes {
		if n.at.After(before) {
			end = min(end, n.number)
			break
		}
	}
	for at := max(f.listed, f.taken); at < end; at++ {
		if op := f.ops[f.head+int(at-f.taken)]; op != nil { //nolint:gosec // what waits is in memory
			keys = append(keys, op.Key)
		}
		f.listed = at + 1
	}
	return keys
}

// sweep takes out who was cancelled.
func (f *fifo) sweep(into []*Op) []*Op {
	for i, op := range f.ops[f.head:] {
		if op != nil && op.state.Load() == opCancelled {
			into = append(into, op)
			f.ops[f.head+i] = nil
			f.swept++
		}
	}
	return into
}

// A bound is how much a lane sends in one write. A server that is slow finishes that much within the limit of an
// attempt many times over. What does not fit stays in the queue: nothing of it was sent, and it can be taken back.
type bound struct{ ops, most int }

const (
	boundFirst = 2048
	boundLeast = maxKeys
	// boundMost is what a server can finish within the limit of an attempt, for two lanes, that has just become sixty
	// times slower.
	boundMost = 8192
)

func newBound(most int) bound { return bound{min(boundFirst, most), most} }

// ran learns from a write of so many ops that took so long, of the time that it may take. Between two changes lies a
// factor of two, so that a load in between does not go to and fro. A server that stood still for a moment says little
// about its speed, so no run makes the bound less than a quarter.
func (b *bound) ran(ops int, took, limit time.Duration) {
	switch {
	case took >= limit/4:
		fits := int64(ops) * int64(limit/8) / int64(took)
		b.ops = max(min(int(fits), b.ops), b.ops/4, min(boundLeast, b.most))
	case ops >= b.ops && took < limit/8:
		b.ops = min(2*b.ops, b.most)
	}
}

// share says how much of each kind goes into a run. Releases come first: they free something, and nothing that was
// asked after one of the same name may overtake it. Of the rest single ops come first, but a quarter is for acquires,
// to the nearest whole one: a run of two has room for one.
func (b *bound) share(releases, singles, acquires int) (r, s, a int) {
	if releases > b.ops {
		return b.ops, 0, 0
	}
	rest := b.ops - releases
	s = min(singles, rest-min(acquires, (rest+2)/4))
	return releases, s, min(acquires, rest-s)
}
