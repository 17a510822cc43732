package wheel

import (
	"math"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// never is later than any instant.
const never = clock.Instant(math.MaxInt64)

// Item is what an owner embeds to be scheduled. Its zero value is unscheduled and ready
// for use; it must not be copied, and belongs to one [Set] at a time. It is 40 bytes.
type Item struct {
	next, prev *Item   // neighbours in the bucket's ring; guarded by the set's mutex
	bucket     *bucket // nil: unscheduled; guarded by the set's mutex

	// Owner leads back from a delivered item to what it stands for. It is set once,
	// before the first Schedule; the wheel never reads it.
	Owner any
}

// bucket holds the items of a set that are due within the width, or the precise width,
// before it ends. All of them are due when it does. It is guarded by its set's mutex.
type bucket struct {
	root  Item  // of the ring: next is the first item, prev the last
	count int   // items in the ring
	ends  int64 // a clock.Instant, and its name in the set: no two that are open end at once
	set   *Set
	open  bool // in the set's map and heap; false while it is being delivered
}

func newBucket(s *Set) *bucket {
	b := &bucket{set: s}
	b.root.next, b.root.prev = &b.root, &b.root
	return b
}

// end is when the bucket is delivered.
func (b *bucket) end() clock.Instant { return clock.Instant(b.ends) }

// push appends an unscheduled item.
func (b *bucket) push(it *Item) {
	last := b.root.prev
	it.prev, it.next, it.bucket = last, &b.root, b
	last.next, b.root.prev = it, it
	b.count++
}

// remove takes one of its items out.
func (b *bucket) remove(it *Item) {
	it.prev.next, it.next.prev = it.next, it.prev
	it.next, it.prev, it.bucket = nil, nil, nil
	b.count--
}

// take unschedules up to n items and appends them to due.
func (b *bucket) take(due []*Item, n int) []*Item {
	it := b.root.next
	for ; n > 0 && it != &b.root; n-- {
		next := it.next
		it.next, it.prev, it.bucket = nil, nil, nil
		due = append(due, it)
		b.count--
		it = next
	}
	// What follows is the first that stays, or the root itself: both close the ring.
	b.root.next, it.prev = it, &b.root
	return due
}

// clear unschedules all items.
func (b *bucket) clear() {
	for it := b.root.next; it != &b.root; {
		next := it.next
		it.next, it.prev, it.bucket = nil, nil, nil
		it = next
	}
	b.root.next, b.root.prev, b.count = &b.root, &b.root, 0
}

// bucketHeap orders the open buckets of a set, earliest first, for container/heap.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h bucketHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *bucketHeap) Push(x any) { *h = append(*h, x.(*bucket)) } //nolint:forcetypeassert // ours alone

// Pop is for container/heap.
func (h *bucketHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
