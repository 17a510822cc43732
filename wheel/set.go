package wheel

import (
	"container/heap"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const (
	// chunk is how many items are detached in one hold of the set's mutex.
	chunk = 512

	// keepFree and keepPages are how many buckets and pages a set keeps for reuse.
	keepFree, keepPages = 256, 256

	// keepBatch is the largest delivery, in items, whose slice is kept for the next.
	keepBatch = 16 << 10

	// keepEmpty is how many open buckets may be empty whatever the number of others.
	// They are kept because schedule and cancel tend to come back to the same buckets: a lease
	// that is released soon would open one and drop it, at twice the cost.
	keepEmpty = 64

	// finer is how much narrower than its set's the bucket of a precise item is.
	finer = 10
)

// Set is a family of items that share a width and a function. It is made by
// [NewSet]; all methods may be called from any goroutine.
type Set[T Scheduled[T]] struct {
	w     *Wheel
	width int64 // nanoseconds
	fire  func(now clock.Instant, due []T)
	work  func() // run, made once: a delivery then costs no closure
	part  world.Part

	next atomic.Int64 // end of the earliest open bucket, or never; written under mu

	mu      sync.Mutex
	buckets map[int64]*bucket[T] // the open ones by their ends
	order   bucketHeap[T]        // the same, earliest first
	last    *bucket[T]           // the open one used last, or nil
	leaving *bucket[T]           // the one being delivered, or nil
	free    []*bucket[T]         // at most keepFree
	pages   []*[pageSize]T       // at most keepPages, all empty
	empty   int                  // open buckets without items
	items   int                  // scheduled items
	running bool                 // a goroutine is in run
	closed  bool
	rest    sync.Cond // running has become false

	batch []T // the slice of the last delivery; belongs to the goroutine in run
}

// NewSet makes a family of items. Items due within one width are delivered together:
// none before it is due, and at most width plus tick late while the process gets to run.
//
// The function gets what is due, in the order of scheduling, in a slice that is its own
// until it returns. It runs in a goroutine of the set, with no lock of the wheel held,
// never twice at once, and may call Schedule and Cancel on any set. The items in the
// slice are unscheduled, unless another goroutine has scheduled one again meanwhile:
// see the package comment on the race.
//
// It panics if width is not positive or fire is nil. Of a stopped wheel it returns a
// closed set.
func NewSet[T Scheduled[T]](w *Wheel, width time.Duration, fire func(now clock.Instant, due []T)) *Set[T] {
	if width <= 0 || fire == nil {
		panic("wheel: a set needs a positive width and a function")
	}
	s := &Set[T]{part: world.NewPart("timers"), w: w, width: int64(width), fire: fire, buckets: make(map[int64]*bucket[T])}
	s.rest.L, s.work = &s.mu, s.run
	s.next.Store(int64(never))
	w.mu.Lock()
	defer w.mu.Unlock()
	s.closed = w.stopped
	if !w.stopped {
		// A new slice each time: sweep walks the old one without mu.
		w.sets = append(slices.Clip(w.sets), family(s))
	}
	return s
}

// SchedulePrecisely is Schedule for what must not be late: at most a tenth of the width
// plus tick. It costs more deliveries, so it is for few items.
func (s *Set[T]) SchedulePrecisely(it T, due clock.Instant) {
	s.scheduleIn(it, due, max(s.width/finer, 1))
}

// Schedule sets the item to be delivered when due has come, in place of an earlier
// schedule. An instant that has passed is delivered as soon as possible, never in the
// caller's goroutine; so is one that is not positive. After Stop it does nothing.
//
// It panics if the item is scheduled in another set.
//
// Blocks: never for long. Allocates: only when it opens a bucket.
func (s *Set[T]) Schedule(it T, due clock.Instant) { s.scheduleIn(it, due, s.width) }

// scheduleIn puts the item into a bucket of that width.
func (s *Set[T]) scheduleIn(it T, due clock.Instant, width int64) {
	s.w.arm(s.schedule(it, s.endFor(due, width)))
}

// endFor is the end of the bucket of that width for what is due then. Rounded up: a bucket ends when all of it is due,
// so nothing comes early.
func (s *Set[T]) endFor(due clock.Instant, width int64) int64 {
	return ((int64(s.clamp(due))-1)/width + 1) * width
}

// clamp keeps instants away from zero, which means unarmed, and from overflow.
func (s *Set[T]) clamp(due clock.Instant) clock.Instant {
	return max(1, min(due, never-clock.Instant(s.width)))
}

// A Plan is an item and when it is due.
type Plan[T any] struct {
	Item T
	Due  clock.Instant
}

// ScheduleAll is Schedule for many at once, which costs half as much.
func (s *Set[T]) ScheduleAll(plans []Plan[T]) {
	alarm := never
	for len(plans) > 0 {
		some := plans[:min(chunk, len(plans))]
		alarm = min(alarm, s.scheduleSome(some))
		plans = plans[len(some):]
	}
	s.w.arm(alarm)
}

func (s *Set[T]) scheduleSome(plans []Plan[T]) clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	alarm := never
	for i := range plans {
		alarm = min(alarm, s.scheduleLocked(plans[i].Item, s.endFor(plans[i].Due, s.width)))
	}
	return alarm
}

// schedule returns what the sources must be armed to, or never. That is left to the
// caller because it needs another mutex.
func (s *Set[T]) schedule(it T, ends int64) clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scheduleLocked(it, ends)
}

func (s *Set[T]) scheduleLocked(it T, ends int64) clock.Instant {
	if s.closed {
		return never
	}
	place := it.Scheduled()
	s.checkLocked(place)
	if b := place.bucket; b != nil {
		// It is there already: a deadline that moves within one width costs nothing.
		if b.ends == ends {
			return never
		}
		s.detachLocked(place)
	}
	b, alarm := s.bucketLocked(ends)
	if b.count == 0 {
		s.empty--
	}
	s.pushLocked(b, it, place)
	s.items++
	return alarm
}

// checkLocked stops a mistake that would corrupt the lists of two sets.
func (s *Set[T]) checkLocked(place *Item[T]) {
	if place.bucket != nil && place.bucket.set != any(s) {
		panic("wheel: the item is scheduled in another set")
	}
}

// detachLocked takes a scheduled item out of its bucket.
func (s *Set[T]) detachLocked(place *Item[T]) {
	b := place.bucket
	s.removeLocked(b, place)
	s.items--
	if b.count > 0 || !b.open {
		return
	}
	s.empty++
	if s.empty > keepEmpty && s.empty > len(s.order)/2 {
		s.compactLocked()
	}
}

// Cancel unschedules the item and reports whether it was scheduled: if so, it will not
// be delivered for that schedule. False also means that a delivery is on its way.
//
// It panics if the item is scheduled in another set.
func (s *Set[T]) Cancel(place *Item[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place.bucket == nil {
		return false
	}
	s.checkLocked(place)
	s.detachLocked(place)
	return true
}

// Len returns the number of scheduled items.
func (s *Set[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items
}

// Drain cancels everything that is scheduled and returns it, for an owner that is about to stop and
// must settle what still waits. What a running delivery has taken already is delivered by it.
func (s *Set[T]) Drain() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]T, 0, s.items)
	buckets := slices.Clone(s.order)
	// What the delivery has not taken out yet is still scheduled.
	if s.leaving != nil {
		buckets = append(buckets, s.leaving)
	}
	for _, b := range buckets {
		items = appendItems(items, b)
	}
	for _, it := range items {
		s.detachLocked(it.Scheduled())
	}
	return items
}

// close empties the set; no delivery begins after it.
func (s *Set[T]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, b := range s.order {
		s.clearLocked(b)
	}
	if s.leaving != nil {
		s.clearLocked(s.leaving)
	}
	clear(s.buckets)
	s.order, s.last, s.free, s.pages = nil, nil, nil, nil
	s.items, s.empty = 0, 0
	s.next.Store(int64(never))
}

// bucketLocked returns the open bucket that ends then, opening it if need be, and what
// the sources must then be armed to.
func (s *Set[T]) bucketLocked(ends int64) (*bucket[T], clock.Instant) {
	if s.last != nil && s.last.ends == ends {
		return s.last, never
	}
	b, alarm := s.buckets[ends], never
	if b == nil {
		b, alarm = s.openLocked(ends)
	}
	s.last = b
	return b, alarm
}

// openLocked makes an empty bucket, and returns what the sources must be armed to if it is now
// the earliest. The ticker looks anyway.
func (s *Set[T]) openLocked(ends int64) (*bucket[T], clock.Instant) {
	b := s.newBucketLocked()
	b.ends, b.open = ends, true
	s.buckets[ends] = b
	heap.Push(&s.order, b)
	s.empty++
	s.publishLocked()
	// It is due already: no source has to go off for that.
	if !b.end().After(s.w.clock.Now()) {
		s.kickLocked()
		return b, never
	}
	if s.order[0] != b || s.running { // a running set arms the sources when it rests
		return b, never
	}
	return b, b.end()
}

func (s *Set[T]) newBucketLocked() *bucket[T] {
	n := len(s.free)
	if n == 0 {
		return &bucket[T]{set: s}
	}
	b := s.free[n-1]
	s.free = s.free[:n-1]
	return b
}

// retireLocked makes a bucket that has left the heap unknown to Schedule.
func (s *Set[T]) retireLocked(b *bucket[T]) {
	delete(s.buckets, b.ends)
	b.open = false
	if s.last == b {
		s.last = nil
	}
	if b.count == 0 {
		s.empty--
	}
}

// recycleLocked keeps an empty retired bucket for reuse.
func (s *Set[T]) recycleLocked(b *bucket[T]) {
	if len(s.free) < keepFree && !s.closed {
		s.emptyLocked(b)
		s.free = append(s.free, b)
	}
}

// publishLocked makes the earliest end known to sweep.
func (s *Set[T]) publishLocked() {
	if len(s.order) == 0 {
		s.next.Store(int64(never))
		return
	}
	s.next.Store(int64(s.order[0].end()))
}

// compactLocked drops the empty buckets. At least half are empty, so each bucket pays
// for it once.
func (s *Set[T]) compactLocked() {
	kept := s.order[:0]
	for _, b := range s.order {
		if b.count > 0 {
			kept = append(kept, b)
			continue
		}
		s.retireLocked(b)
		s.recycleLocked(b)
	}
	clear(s.order[len(kept):])
	s.order = kept
	heap.Init(&s.order)
	s.publishLocked()
}

// earliest is when the set next has something to deliver, or never.
func (s *Set[T]) earliest() clock.Instant { return clock.Instant(s.next.Load()) }

// kick starts deliveries unless they are going on.
func (s *Set[T]) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kickLocked()
}

// kickLocked: a goroutine in run cannot miss what is due now, because it comes to rest
// only under mu, after a look at the clock.
func (s *Set[T]) kickLocked() {
	if s.running || s.closed {
		return
	}
	s.running = true
	s.w.running.Add(1)
	s.w.world.Go("set", s.work)
}

// run delivers what is overdue, bucket by bucket, then ends.
func (s *Set[T]) run() {
	s.part.Label()
	defer s.w.running.Done()
	for {
		now, due, more := s.collect()
		if !more {
			return
		}
		s.w.world.Yield("Set.run: items taken out | fired")
		if len(due) > 0 { // all may have been cancelled meanwhile
			s.fire(now, due)
		}
		s.keep(due)
	}
}

// keep reuses the slice of a delivery, without holding on to its items.
func (s *Set[T]) keep(due []T) {
	s.batch = nil
	if cap(due) <= keepBatch {
		clear(due)
		s.batch = due[:0]
	}
}

// collect detaches the earliest bucket that has ended and unschedules its items. It
// reports false when there is none: the set is then at rest.
func (s *Set[T]) collect() (clock.Instant, []T, bool) {
	s.mu.Lock()
	b, now := s.overdueLocked()
	if b == nil {
		// At rest. The sources have mutexes of their own, so they are armed without ours.
		next := s.restLocked()
		s.mu.Unlock()
		s.w.arm(next)
		return 0, nil, false
	}
	count := b.count
	s.mu.Unlock()
	// The slice grows without mu: a large one takes its time.
	due := slices.Grow(s.batch[:0], count)
	due, more := s.drain(b, due)
	for more {
		s.w.world.Yield("Set.collect: a chunk taken | the next")
		runtime.Gosched() // whoever waits for the mutex goes first, not after a fair fight
		due, more = s.drain(b, due)
	}
	return now, due, true
}

// drain unschedules the next chunk of the bucket that is being delivered and reports
// whether there is more.
//
// The mutex is let go between chunks, so that a bucket of any size holds nobody up.
// What is left in the bucket is still scheduled: it can be cancelled or moved away.
// Nothing is added, since Schedule no longer finds the bucket. If the set is closed
// meanwhile, nothing is delivered.
func (s *Set[T]) drain(b *bucket[T], due []T) (_ []T, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		clear(due)
		return due[:0], false
	}
	before := len(due)
	due = s.takeLocked(b, due, chunk)
	s.items -= len(due) - before
	if b.count > 0 {
		return due, true
	}
	s.leaving = nil
	s.recycleLocked(b)
	return due, false
}

// overdueLocked detaches the earliest bucket that has ended and has items.
func (s *Set[T]) overdueLocked() (*bucket[T], clock.Instant) {
	now := s.w.clock.Now()
	defer s.publishLocked()
	for len(s.order) > 0 && !s.order[0].end().After(now) {
		b := heap.Pop(&s.order).(*bucket[T]) //nolint:forcetypeassert // ours alone
		s.retireLocked(b)
		if b.count > 0 {
			s.leaving = b
			return b, now
		}
		s.recycleLocked(b)
	}
	return nil, now
}

// restLocked ends the running and returns what the sources must be armed to.
func (s *Set[T]) restLocked() clock.Instant {
	s.running = false
	s.rest.Broadcast()
	return s.earliest()
}

// settle delivers what is due, waits until the set rests with nothing overdue, and
// reports whether there was anything to do.
func (s *Set[T]) settle() (worked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running || !s.earliest().After(s.w.clock.Now()) {
		worked = true
		s.kickLocked()
		s.rest.Wait()
	}
	return worked
}
