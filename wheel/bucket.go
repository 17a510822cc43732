package wheel

import (
	"math"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// never is later than any instant.
const never = clock.Instant(math.MaxInt64)

// Scheduled is what a set delivers: mostly a pointer to what has an [Item], which it names.
type Scheduled[T any] interface {
	comparable
	Scheduled() *Item[T]
}

// Item is what a T has to be scheduled: its place in a [Set]. Its zero value is unscheduled and ready
// for use; it must not be copied, and belongs to one set at a time. It is 16 bytes, and the place in the bucket is 8
// more, or 16 where T is an interface.
type Item[T any] struct {
	bucket *bucket[T] // nil: unscheduled; guarded by the set's mutex
	at     int32      // its index there
}

// bucket holds the items of a set that are due within the width, or the precise width,
// before it ends. All of them are due when it does. It is guarded by its set's mutex.
//
// Its items stand in pages and not in a list: those of a million are in no cache, and who follows links waits for
// memory at each, while a page is read ahead. And nothing is moved when there are more.
type bucket[T any] struct {
	pages []page[T]
	size  int   // so many places were given, in the order of scheduling
	taken int   // so many at the front are delivered
	count int   // items that are there
	ends  int64 // a clock.Instant, and its name in the set: no two that are open end at once
	set   any   // the *Set[T]
	open  bool  // in the set's map and heap; false while it is being delivered
}

// page is the places of some items of a bucket.
type page[T any] struct {
	items *[pageSize]T // the zero T: it was taken out; nil: all were
	count int          // items that are there
}

const (
	pageSize = 32

	// compactFrom is how many places a bucket has had before it is compacted, once most of its items have left. Normal
	// traffic brings fewer; a bucket that is never due would grow without end.
	compactFrom = 1 << 16
)

// end is when the bucket is delivered.
func (b *bucket[T]) end() clock.Instant { return clock.Instant(b.ends) }

// pushLocked appends an unscheduled item, whose place that is.
func (s *Set[T]) pushLocked(b *bucket[T], it T, place *Item[T]) {
	if b.size >= compactFrom && b.size > 4*b.count {
		s.compactPagesLocked(b)
	}
	at := b.size / pageSize
	if at == len(b.pages) {
		b.pages = append(b.pages, page[T]{items: s.newPageLocked()})
	}
	p := &b.pages[at]
	p.items[b.size%pageSize] = it
	place.bucket, place.at = b, int32(b.size) //nolint:gosec // memory ends before
	b.size++
	p.count++
	b.count++
}

// compactPagesLocked gives the items that are there places of their own, from the first on.
func (s *Set[T]) compactPagesLocked(b *bucket[T]) {
	all := appendItems(make([]T, 0, b.count), b)
	b.pages, b.size, b.count = nil, 0, 0
	for _, it := range all {
		s.pushLocked(b, it, it.Scheduled())
	}
}

// removeLocked takes one of its items out.
func (s *Set[T]) removeLocked(b *bucket[T], place *Item[T]) {
	var none T
	at := int(place.at)
	p := &b.pages[at/pageSize]
	p.items[at%pageSize] = none
	p.count--
	b.count--
	place.bucket = nil
	switch {
	case b.count == 0:
		s.emptyLocked(b)
	case at == b.size-1: // what comes last is often the first to leave
		b.size = at
		for last := len(b.pages) - 1; last > at/pageSize; last-- { // nothing stands behind the place of the next one
			s.dropPageLocked(&b.pages[last])
			b.pages = b.pages[:last]
		}
	case p.count == 0 && at/pageSize < b.size/pageSize: // not where the next one goes
		s.dropPageLocked(p)
	}
}

// takeLocked unschedules up to n items and appends them to due.
func (s *Set[T]) takeLocked(b *bucket[T], due []T, n int) []T {
	var none T
	for ; n > 0 && b.count > 0; b.taken++ {
		p := &b.pages[b.taken/pageSize]
		if p.count == 0 {
			b.taken += pageSize - 1 - b.taken%pageSize // the rest of it: most may have left
			continue
		}
		it := p.items[b.taken%pageSize]
		if it == none {
			continue
		}
		p.items[b.taken%pageSize] = none
		p.count--
		b.count--
		it.Scheduled().bucket = nil
		due = append(due, it)
		n--
	}
	return due
}

// appendItems appends all that are there.
func appendItems[T comparable](to []T, b *bucket[T]) []T {
	var none T
	for _, p := range b.pages {
		if p.count == 0 {
			continue
		}
		for _, it := range p.items {
			if it != none {
				to = append(to, it)
			}
		}
	}
	return to
}

// clearLocked unschedules all items.
func (s *Set[T]) clearLocked(b *bucket[T]) {
	for _, it := range appendItems(nil, b) {
		it.Scheduled().bucket = nil
	}
	b.pages, b.size, b.taken, b.count = nil, 0, 0, 0
}

// emptyLocked makes a bucket whose items have left ready for others.
func (s *Set[T]) emptyLocked(b *bucket[T]) {
	for i := range b.pages {
		s.dropPageLocked(&b.pages[i])
	}
	b.pages, b.size, b.taken = b.pages[:0], 0, 0
}

func (s *Set[T]) newPageLocked() *[pageSize]T {
	n := len(s.pages)
	if n == 0 {
		return new([pageSize]T)
	}
	p := s.pages[n-1]
	s.pages = s.pages[:n-1]
	return p
}

// dropPageLocked keeps a page for reuse whose items have left.
func (s *Set[T]) dropPageLocked(p *page[T]) {
	if p.items != nil && len(s.pages) < keepPages && !s.closed {
		s.pages = append(s.pages, p.items)
	}
	p.items = nil
}

// bucketHeap orders the open buckets of a set, earliest first, for container/heap.
type bucketHeap[T any] []*bucket[T]

func (h bucketHeap[T]) Len() int           { return len(h) }
func (h bucketHeap[T]) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h bucketHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *bucketHeap[T]) Push(x any) { *h = append(*h, x.(*bucket[T])) } //nolint:forcetypeassert // ours alone

// Pop is for container/heap.
func (h *bucketHeap[T]) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
