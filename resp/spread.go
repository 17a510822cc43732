package resp

import "sync/atomic"

// A spread says whether a node's ops are to take one lane or all. While few are on their way one lane carries them in
// fewer writes, which costs client and server less, and nobody waits for another's turn. Many are built and read by
// several lanes beside each other.
type spread struct {
	many  int32         // from so many ops on all lanes are worth it, below half of it one is enough
	wide  atomic.Bool   // ops are to take all lanes
	nodes *atomic.Int32 // how many nodes want that
	loads []atomic.Int32
	ready int // so many runs in a row wanted it the other way; the first lane's
	calm  int // so many ticks in a row saw few; tick's
}

const (
	// Measured with one lane and with two, on two processors. Ops from a few goroutines: with 32 in flight one carries a
	// fifth more, with 128 both carry the same, with 256 two carry a fifth more. Of callers that wait, each for its op:
	// with 8 one carries half as much again, with 16 both the same, with 32 two a tenth more, with 64 and more a third.
	manyOps = 128
	// wakeCost is as how many ops more an op counts whose caller waits: a lane that wakes callers sends nothing meanwhile.
	wakeCost = 4
	// patientRuns is how long a load must last before that changes: a burst of a moment is over before it is served.
	patientRuns = 8
	// patientTicks is for how many ticks few must use all lanes until they take one.
	patientTicks = 8
)

func newSpread(o *Options) *spread {
	return &spread{many: int32(o.ManyOps), nodes: o.Wide, loads: make([]atomic.Int32, o.Lanes)}
}

// begins notes how much a lane takes in a run: ops, and for how many of them a caller waits. The first lane judges.
func (s *spread) begins(lane, ops, awaited int) {
	s.loads[lane].Store(int32(ops + wakeCost*awaited)) //nolint:gosec // a queue is far shorter
	if lane != 0 || len(s.loads) == 1 {
		return
	}
	all, wide := s.all(), s.wide.Load()
	// Between the two nothing changes, so that a load in between does not go to and fro.
	if !wide && all < s.many || wide && all >= s.many/2 {
		s.ready = 0
		return
	}
	if s.ready++; s.ready >= patientRuns {
		s.ready = 0
		s.turn(!wide)
	}
}

// tick makes it one lane for few also where the first lane, which judges, has hardly a run: the names in use take
// others, or nothing goes on.
func (s *spread) tick() {
	if !s.wide.Load() || s.all() >= s.many/2 {
		s.calm = 0
		return
	}
	if s.calm++; s.calm >= patientTicks {
		s.calm = 0
		s.turn(false)
	}
}

// all is how much the lanes take together.
func (s *spread) all() (all int32) {
	for i := range s.loads {
		all += s.loads[i].Load()
	}
	return all
}

// rests notes that a lane has nothing to do.
func (s *spread) rests(lane int) { s.loads[lane].Store(0) }

// turn makes it one lane or all.
func (s *spread) turn(wide bool) {
	switch {
	case s.wide.Swap(wide) == wide:
	case wide:
		s.nodes.Add(1)
	default:
		s.nodes.Add(-1)
	}
}
