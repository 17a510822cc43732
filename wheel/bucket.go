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
// Its items stand in a slice and not in a list: those of a million are in no cache, and who follows links waits for
// memory at each, while a slice is read ahead.
type bucket[T any] struct {
	items []T   // in the order of scheduling; the zero T: it was taken out
	taken int   // so many at the front are delivered
	count int   // items that are there
	ends  int64 // a clock.Instant, and its name in the set: no two that are open end at once
	set   any   // the *Set[T]
	open  bool  // in the set's map and heap; false while it is being delivered
}

const (
	// fewHoles is how many places may be empty whatever the number of items: else a busy bucket of few would be packed
	// again and again.
	fewHoles = 64

	// keepItems is the largest slice that a bucket keeps for its next life.
	keepItems = 1 << 10
)

// end is when the bucket is delivered.
func (b *bucket[T]) end() clock.Instant { return clock.Instant(b.ends) }

// push appends an unscheduled item, whose place that is.
func (b *bucket[T]) push(it T, place *Item[T]) {
	place.bucket, place.at = b, int32(len(b.items)) //nolint:gosec // memory ends before
	b.items = append(b.items, it)
	b.count++
}

// remove takes one of its items out.
func remove[T Scheduled[T]](b *bucket[T], place *Item[T]) {
	var none T
	b.items[place.at] = none
	place.bucket = nil
	b.count--
	if int(place.at) == len(b.items)-1 { // what comes last is often the first to leave
		b.items = b.items[:place.at]
	}
	if b.count == 0 {
		b.items, b.taken = b.items[:0], 0
	} else if len(b.items)-b.taken > 2*b.count+fewHoles {
		pack(b)
	}
}

// pack closes the holes. At least half of the places are holes, so each pays for it once.
func pack[T Scheduled[T]](b *bucket[T]) {
	var none T
	kept := b.items[:0]
	for _, it := range b.items[b.taken:] {
		if it != none {
			it.Scheduled().at = int32(len(kept)) //nolint:gosec // memory ends before
			kept = append(kept, it)
		}
	}
	clear(b.items[len(kept):])
	b.items, b.taken = kept, 0
}

// take unschedules up to n items and appends them to due.
func take[T Scheduled[T]](b *bucket[T], due []T, n int) []T {
	var none T
	for ; n > 0 && b.count > 0; b.taken++ {
		it := b.items[b.taken]
		if it == none {
			continue
		}
		b.items[b.taken] = none
		it.Scheduled().bucket = nil
		due = append(due, it)
		b.count--
		n--
	}
	return due
}

// appendItems appends all that are there.
func appendItems[T Scheduled[T]](to []T, b *bucket[T]) []T {
	var none T
	for _, it := range b.items {
		if it != none {
			to = append(to, it)
		}
	}
	return to
}

// clearBucket unschedules all items.
func clearBucket[T Scheduled[T]](b *bucket[T]) {
	for _, it := range appendItems(nil, b) {
		it.Scheduled().bucket = nil
	}
	clear(b.items)
	b.items, b.taken, b.count = b.items[:0], 0, 0
}

// rest makes an empty bucket ready for its next life.
func (b *bucket[T]) rest() {
	clear(b.items)
	b.items, b.taken = b.items[:0], 0
	if cap(b.items) > keepItems {
		b.items = nil
	}
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
