package main

import (
	"sync/atomic"
	"time"
)

// gaps are the longest times without a grant: of each of so many names, or callers, that are wanted, or
// want, all the time.
type gaps struct {
	began time.Time
	spans []span
}

type span struct {
	last atomic.Int64 // grant, since began
	most atomic.Int64
	_    [48]byte // a neighbour's grants must not slow these down
}

func newGaps(n int) *gaps { return &gaps{time.Now(), make([]span, n)} }

// granted notes a grant of the i-th; nil notes nothing.
//
// Blocks: never. Allocates: never.
func (g *gaps) granted(i int) {
	if g != nil {
		g.spans[i].granted(int64(time.Since(g.began)))
	}
}

func (s *span) granted(now int64) {
	gap := now - s.last.Swap(now)
	for most := s.most.Load(); gap > most && !s.most.CompareAndSwap(most, gap); most = s.most.Load() {
	}
}

// longest is the longest gap of all.
func (g *gaps) longest() (longest time.Duration) {
	for i := range g.spans {
		longest = max(longest, time.Duration(g.spans[i].most.Load()))
	}
	return longest
}
