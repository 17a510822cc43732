package engine

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Histogram counts durations by their length. What is counted has a resolution of a quarter of a millisecond, or of
// 50 ms where many ask at the same time; a single duration of more than twelve days counts for less.
type Histogram struct {
	Count int64
	Sum   time.Duration
	// Buckets counts those that are no longer than the bound of the same index in HistogramBounds, and longer than the
	// bound before. The last counts those that are longer than all bounds.
	Buckets [len(histogramBounds) + 1]int64
}

// shortest is the bound of the first bucket. Each further one is twice as long.
const shortest = 250 * time.Microsecond

// histogramBounds are the bounds of all histograms: up to 262 s.
//
//nolint:gochecknoglobals // a constant in all but name
var histogramBounds = func() (all [21]time.Duration) {
	for i := range all {
		all[i] = shortest << i
	}
	return all
}()

// HistogramBounds returns the upper bounds of the buckets of a Histogram, the shortest first.
func HistogramBounds() []time.Duration { return slices.Clone(histogramBounds[:]) }

// bucketOf is the index of the bucket that a duration is counted in.
func bucketOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(bits.Len64(uint64((d-1)/shortest)), len(histogramBounds)) //nolint:gosec // positive
}

// add counts one. Guarded by whoever has the histogram.
func (h *Histogram) add(d time.Duration) {
	h.Count++
	h.Sum += d
	h.Buckets[bucketOf(d)]++
}

// merge adds what another has counted.
func (h *Histogram) merge(o *Histogram) {
	h.Count += o.Count
	h.Sum += o.Sum
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// A stamp is a time of day on the engine's clock in four bytes, which cost an op and a lease no memory; 0: none.
type stamp uint32

// stampBits is the resolution of a stamp: 2^18 ns, which it can count for 13 days.
const stampBits = 18

func stampOf(at clock.Instant) stamp {
	return stamp(max(uint32(at>>stampBits), 1)) //nolint:gosec // it wraps around
}

// until is how long after the stamp an instant is; 0 if it is before it, as an answer may be that came before its op.
func (s stamp) until(at clock.Instant) time.Duration {
	units := uint32(stampOf(at) - s)
	if units > 1<<32-1<<28 {
		return 0
	}
	return time.Duration(units) << stampBits
}

// exactReads is how often a shard reads the clock for stamps between two ticks. Reading it costs a system call: a busy
// name would pay one for each op that queues behind its holder.
const exactReads = 16

// asks notes when an op was asked for that queues behind others of this engine. One that is sent at once counts from
// when it was sent.
func (sc *section) asks(op *acquireOp) {
	sh, ticked := sc.sh, clock.Instant(sc.eng.ticked.Load())
	if sh.ticked != ticked {
		sh.ticked, sh.reads = ticked, 0
	}
	if sh.reads < exactReads {
		sh.reads++
		sh.recent = sc.eng.clock.Now()
	}
	op.asked = stampOf(sh.recent)
}

// askedBy notes that an op had asked when something was sent, if it is not known that it had before.
func (op *acquireOp) askedBy(sent clock.Instant) {
	if op.asked == 0 {
		op.asked = stampOf(sent)
	}
}

// waited counts an op that is granted: how long it has waited. sent is when what was granted was sent.
func (sc *section) waited(op *acquireOp, sent, at clock.Instant) {
	d := max(at.Sub(sent), 0)
	if op.asked != 0 {
		d = op.asked.until(at)
	}
	sc.sh.recent = max(sc.sh.recent, at)
	sc.sh.counts.wait.add(d)
	if sc.eng.cfg.Class == nil { // the handle may be cold by now
		return
	}
	if c := sc.eng.classes.of(op.lock.class); c != nil {
		c.wait.add(d)
	}
}

// gaveBack counts a lease that is given back: how long it was held.
func (sc *section) gaveBack(ls *Lease, at clock.Instant) {
	if ls == nil { // Close's
		return
	}
	d := ls.since.until(at)
	sc.traceHold(ls.hold, ls, at, nil)
	sc.sh.counts.hold.add(d)
	if c := sc.eng.classes.of(ls.hold.ent.root().class); c != nil {
		c.hold.add(d)
	}
}

// toldBusy counts an op that waits because somebody else has what it wants, as the answer to what was sent then said.
func (sc *section) toldBusy(op *acquireOp, sent clock.Instant) {
	op.askedBy(sent)
	sc.traceBusy(op, nil)
	sc.sh.counts.waits++
	if c := sc.eng.classes.of(op.lock.class); c != nil {
		c.waits.Add(1)
	}
}

// refusedTry counts one that only tried.
func (sc *section) refusedTry(op *acquireOp) {
	sc.sh.counts.busy++
	if c := sc.eng.classes.of(op.lock.class); c != nil {
		c.refused.Add(1)
	}
}

// queuesBehind notes when an op came that is to queue where others of this engine hold the lock, wait or ask, and
// counts those that a holder here keeps out. at is where that is known, of the name's entry or its children.
func (sc *section) queuesBehind(root, at *entry, op *acquireOp) {
	if at == root && root.standing() == nil && root.firstChild() != nil { // readers have holds of their own
		at = root.firstChild()
	}
	h := at.standing()
	held := h != nil && !together(h.Family, op.set.family) && !traits(h.Family).Many
	if held {
		sc.sh.counts.waitsLocal++
		sc.traceBusy(op, h)
	}
	if held || at.First() != nil || at.Attempt() != nil {
		sc.asks(op)
	}
}

// lostOne counts a hold that was lost.
func (sc *section) lostOne(h *hold) {
	sc.sh.counts.lost++
	if c := sc.eng.classes.of(h.ent.root().class); c != nil {
		c.lost.Add(1)
	}
}

// An ending is why a caller has given an acquire up.
type ending uint8

const (
	endByContext ending = iota
	endByMaxWait
	endByCancel
)

// gaveUp counts an op that its caller has given up.
func (sc *section) gaveUp(op *acquireOp, by ending) {
	switch by {
	case endByMaxWait:
		sc.sh.counts.endedByMaxWait++
	case endByCancel:
		sc.sh.counts.endedByCancel++
	default:
		sc.sh.counts.endedByContext++
	}
	if c := sc.eng.classes.of(op.lock.class); c != nil {
		c.gaveUp.Add(1)
	}
}

// MaxClasses is how many classes of names are told apart; names of all further ones count as [OtherClass].
const MaxClasses = 64

// OtherClass is the class of names whose class came when there were MaxClasses already.
const OtherClass = "other"

// ClassStats count what happened to the names of one class; see Config.Class. Counters only grow.
type ClassStats struct {
	Class   string
	Waits   int64     // as Stats.Waits
	Refused int64     // as Stats.Refused
	GaveUp  int64     // acquires that ended by MaxWait, by their ctx, or by Cancel
	Lost    int64     // as Stats.Lost
	Wait    Histogram // as Stats.Wait: its Count is the grants
	Hold    Histogram // as Stats.Hold
}

// classes are the classes of names that an engine has met. A handle carries the number of its class; 0: it has none.
type classes struct {
	mu     sync.Mutex
	number map[string]uint8
	all    [MaxClasses + 2]*class // by number; written once, before the number is known to anybody
}

// A class has the counters of one. Names of several shards share it, so they are atomic.
type class struct {
	name                         string
	waits, refused, gaveUp, lost atomic.Int64
	wait, hold                   sharedHistogram
}

// A sharedHistogram is a Histogram that no mutex guards.
type sharedHistogram struct {
	sum     atomic.Int64
	buckets [len(histogramBounds) + 1]atomic.Int64
}

func (h *sharedHistogram) add(d time.Duration) {
	h.sum.Add(int64(d))
	h.buckets[bucketOf(d)].Add(1)
}

func (h *sharedHistogram) read() (all Histogram) {
	all.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		all.Buckets[i] = h.buckets[i].Load()
		all.Count += all.Buckets[i]
	}
	return all
}

// of returns the counters of a class; nil: nobody counts.
func (all *classes) of(number uint8) *class {
	if number == 0 { // most often: nothing else is read
		return nil
	}
	return all.all[number]
}

// numberOf asks the user's function for the class of a name, without the mutex: it is code of others, and runs in the
// goroutine that makes the handle.
func (all *classes) numberOf(class func(string) string, name string) uint8 {
	if class == nil {
		return 0
	}
	label := class(name)
	if label == "" {
		return 0
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.number) >= MaxClasses && all.number[label] == 0 {
		label = OtherClass
	}
	n := all.number[label]
	if n == 0 {
		if all.number == nil {
			all.number = make(map[string]uint8)
		}
		n = uint8(len(all.number) + 1) //nolint:gosec // MaxClasses, and one more
		all.number[label], all.all[n] = n, newClass(label)
	}
	return n
}

func newClass(name string) *class { return &class{name: name} }

// stats reads the counters of all classes, in the order in which they were met.
func (all *classes) stats() (stats []ClassStats) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range all.all[1 : len(all.number)+1] {
		stats = append(stats, ClassStats{
			Class: c.name, Waits: c.waits.Load(), Refused: c.refused.Load(), GaveUp: c.gaveUp.Load(), Lost: c.lost.Load(),
			Wait: c.wait.read(), Hold: c.hold.read(),
		})
	}
	return stats
}
