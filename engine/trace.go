package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Span is one acquire, or one lease from its grant to its end, as Config.Trace is told of it when it is over.
type Span struct {
	Kind SpanKind
	Name string // without the prefix
	// OwnerID is the lease's; of an acquire that failed it is empty, as of what is counted.
	OwnerID      string
	Began, Ended time.Time
	// Busy is when it was known that an acquire had to wait, because somebody else had what it wants; zero: it had not.
	Busy time.Time
	// Holder is the OwnerID of who had it then, if that was a lease of this engine.
	Holder string
	// Err is what the caller of an acquire was told; of a lease it is ErrLost, with the cause, or nil.
	Err error
}

// SpanKind says what a Span is.
type SpanKind uint8

// The kinds of span.
const (
	SpanAcquire SpanKind = iota + 1
	SpanHold
)

// String returns the name of its constant.
func (k SpanKind) String() string {
	switch k {
	case SpanAcquire:
		return "SpanAcquire"
	case SpanHold:
		return "SpanHold"
	default:
		return fmt.Sprintf("SpanKind(%d)", uint8(k))
	}
}

// tracing is what an op notes for its span. Guarded by the shard, but for began.
type tracing struct {
	began, busy clock.Instant
	holder      string
}

// trace begins the span of an op that nobody knows yet, if somebody wants spans.
func (op *acquireOp) trace() {
	if e := op.lock.eng; e.cfg.Trace != nil {
		op.watch = &watching{traced: &tracing{began: e.clock.Now()}}
	}
}

// traceBusy notes that an op has to wait, and for whom if that is a hold of this engine.
func (sc *section) traceBusy(op *acquireOp, h *hold) {
	if op.watch == nil || op.watch.traced == nil || op.watch.traced.busy != 0 {
		return
	}
	op.watch.traced.busy = sc.eng.clock.Now()
	if h != nil {
		op.watch.traced.holder = h.ownerID()
	}
}

// traceEnd tells of an acquire that has its result. Called without the mutex.
func (op *acquireOp) traceEnd() {
	t, e := op.watch.traced, op.lock.eng
	if t == nil {
		return
	}
	s := Span{
		Kind: SpanAcquire, Name: op.lock.Name(), Began: e.clock.Wall(t.began), Ended: e.clock.Wall(e.clock.Now()),
		Busy: e.clock.Wall(t.busy), Holder: t.holder, Err: op.err,
	}
	if op.value != nil {
		s.OwnerID = op.value.hold.ownerID()
	}
	tellSpan(op.ctx, e, s)
}

// traceHold tells of a lease that is over, once the mutex is free. ls may be nil: nobody knows its context any more.
func (sc *section) traceHold(h *hold, ls *Lease, at clock.Instant, err error) {
	e := sc.eng
	if e.cfg.Trace == nil || ls == nil {
		return
	}
	ended := e.clock.Wall(at)
	s := Span{
		Kind: SpanHold, Name: e.nameOf(h.ent.key), OwnerID: h.ownerID(),
		Began: ended.Add(-ls.since.until(at)), Ended: ended, Err: err,
	}
	sc.more = append(sc.more, func() { tellSpan(ls.ctx(), e, s) })
}

// traceEnds tells of a hold that nobody gives back: of the lease that it was granted for, if it is still known.
func (sc *section) traceEnds(h *hold, err error) {
	if sc.eng.cfg.Trace == nil {
		return
	}
	ls := h.lease
	if ls == nil {
		ls = h.weak.Value()
	}
	sc.traceHold(h, ls, sc.eng.clock.Now(), err)
}

// tellSpan has the user's function called on a callback worker.
func tellSpan(ctx context.Context, e *Engine, s Span) {
	e.callbacks.Add(func() { e.cfg.Trace(ctx, s) })
}
