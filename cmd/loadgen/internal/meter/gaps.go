package meter

import (
	"sync/atomic"
	"time"
)

// Gaps are the longest times without a grant: of each of so many names, or callers, that are wanted, or
// want, all the time.
type Gaps struct {
	began time.Time
	spans []span
}

type span struct {
	last atomic.Int64 // grant, since began
	most atomic.Int64
	_    [48]byte // a neighbour's grants must not slow these down
}

// NewGaps begins now, for n of them.
func NewGaps(n int) *Gaps { return &Gaps{time.Now(), make([]span, n)} }

// Granted notes a grant of the i-th; nil notes nothing.
//
// Blocks: never. Allocates: never.
func (g *Gaps) Granted(i int) {
	if g != nil {
		g.GrantedAt(i, time.Since(g.began))
	}
}

// GrantedAt is granted for a grant so long after the beginning.
func (g *Gaps) GrantedAt(i int, since time.Duration) { g.spans[i].granted(int64(since)) }

func (s *span) granted(now int64) {
	gap := now - s.last.Swap(now)
	for most := s.most.Load(); gap > most && !s.most.CompareAndSwap(most, gap); most = s.most.Load() {
	}
}

// Longest is the longest gap of all.
func (g *Gaps) Longest() (longest time.Duration) {
	for i := range g.spans {
		longest = max(longest, time.Duration(g.spans[i].most.Load()))
	}
	return longest
}
