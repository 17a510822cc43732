package lockstate

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// What the tests of the machines share: families, ops and attempts like the engine's, as far as a machine sees them.

// machineNow is when a test of a machine begins.
const machineNow = clock.Instant(time.Hour)

// The engine's rows: a spin lock is of a lock's kind. The last two are of families that several are served of at once.
//
//nolint:gochecknoglobals // constants in all but name
var (
	lockTraits   = &Traits{Enters: 0, HandsOff: true}
	spinTraits   = &Traits{Enters: 0, HandsOff: true}
	fencedTraits = &Traits{Enters: 2}
	readTraits   = &Traits{Enters: 3, Object: ObjectPair, Mode: "read", Shared: true}
	writeTraits  = &Traits{Enters: 4, Object: ObjectPair, Mode: "write", Mark: MarkNote, HandsOff: true, ReadsToo: true}
	fairTraits   = &Traits{Enters: 5, Mark: MarkPlace}
	permitTraits = &Traits{Enters: 6, Serves: ServesSome, AskOnce: true}
	latchTraits  = &Traits{Enters: 7, Serves: ServesAll}
)

// termsOf are those of a family without options.
func termsOf(f *Traits) *Terms { return &Terms{Family: f, Lease: 30 * time.Second, Watchdog: true} }

// The states of an op.
const (
	opPending uint32 = iota
	opClaimed
	opDone
)

// A testOp is one caller's wish.
type testOp struct {
	Waiter
	terms   *Terms
	state   atomic.Uint32
	attempt testAttempt
	beaten  bool // whoever claims it comes a moment too late: it was wanted just before
}

func (op *testOp) Claim() bool   { return op.state.CompareAndSwap(opPending, opClaimed) && !op.beaten }
func (op *testOp) Pending() bool { return op.state.Load() == opPending }
func (op *testOp) Terms() *Terms { return op.terms }

// newOp makes one of these terms. Who names no family wants a lock.
func newOp(t *Terms) *testOp {
	if t.Family == nil {
		named := *t
		named.Family = lockTraits
		t = &named
	}
	op := &testOp{terms: t}
	op.Of = op
	return op
}

func opFor(f *Traits) *testOp { return newOp(termsOf(f)) }

func tryFor(f *Traits) *testOp {
	op := opFor(f)
	op.Try = true
	return op
}

func acked(n int) *testOp {
	return newOp(&Terms{Lease: time.Second, Watchdog: true, Ack: &Ack{Replicas: n, Timeout: time.Second}})
}

func gone(op *testOp) *testOp {
	op.Claim()
	return op
}

// whose is the op of a waiter; nil: of nobody.
func whose(w *Waiter) *testOp {
	if w == nil {
		return nil
	}
	return w.Of.(*testOp)
}

// taken lists who is in a chain, and empties it.
func taken(c Chain) (ops []*testOp) {
	for w := c.Take(); w != nil; w = c.Take() {
		ops = append(ops, whose(w))
	}
	return ops
}

// A testAttempt is an acquire as the engine's: what was sent of it, and what is kept between two sendings.
type testAttempt struct {
	ack    *Ack
	lease  time.Duration
	family *Traits
	field  string // the owner id
	placed bool   // it has a place in a queue of the server's
	retry  *Asking
}

// testQueue is a queue of such attempts.
type testQueue = Queue[*testAttempt]

// Suits is the engine's own rule.
func (a *testAttempt) Suits(t *Terms) bool {
	return a.ack == nil || t.Ack != nil && *t.Ack == *a.ack && t.Lease == a.lease && t.Family == a.family
}

// beginAsking is the acquire that is to be sent, as the engine finds it: the one whose owner id is kept, or the first's
// own, of whose earlier use nothing is left.
func beginAsking(q *testQueue) *testAttempt {
	if a := q.Attempt(); a != nil {
		return a
	}
	a := &whose(q.First()).attempt
	a.retry, a.placed, a.field = nil, false, ""
	q.Begin(a)
	return a
}

// queueOf is a queue of some ops, in order.
func queueOf(ops ...*testOp) *testQueue {
	q := &testQueue{}
	for _, op := range ops {
		q.Push(&op.Waiter)
	}
	return q
}

// inLine lists who is in the queue, and sees to it that its links lead back.
func inLine(t *testing.T, q *testQueue) (ops []*testOp) {
	t.Helper()
	var before *Waiter
	for w := q.head; w != nil; before, w = w, w.next {
		if before != nil {
			require.Same(t, before, w.prev)
		}
		require.True(t, w.queued)
		ops = append(ops, whose(w))
	}
	if q.head != nil {
		require.Same(t, before, q.head.prev, "the last")
	}
	return ops
}

// asked is a queue whose acquire is on its way.
func asked(ops ...*testOp) *testQueue {
	q := queueOf(ops...)
	beginAsking(q)
	q.Sent()
	return q
}
