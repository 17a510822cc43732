package resp

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// OpKind says which script an op needs.
type OpKind uint8

// The kinds of op.
const (
	OpAcquire   OpKind = iota // a free key under an owner id made for the batch; batched
	OpReacquire               // under a given owner id that may hold the key already; alone
	OpCount                   // set the hold count of what the field holds, and raise its TTL; alone
	OpLeave                   // the same, and lower its TTL; alone
	OpRelease                 // give back what the field holds, and publish; batched
	OpExtend                  // raise the TTL of what the field holds; alone
	OpInspect                 // read; alone
	OpForce                   // take the lock away from anybody; alone
	OpQueue                   // read who waits for a fair lock, or which permits are leased; alone
	OpCall                    // what only this family can be asked: Field says what; alone
)

// An Op is one key's command on its way through a lane. Its owner fills it, submits it, and must
// not touch it again until its sink was answered.
type Op struct {
	Sink    Sink
	Key     string
	Hash    uint64 // xxhash of Key: picks the lane, so that a key's commands stay in order
	Field   string // the owner id; OpAcquire: the lane makes it, read it once answered; OpForce: channel; OpCall: what
	LeaseMs int64  // OpLeave: a Sink that is a Lowering says it when the command is made
	Ack     *Ack   // OpAcquire, OpReacquire, OpCount: who must have seen a grant before it is answered; nil: nobody
	Count   int32  // OpReacquire, OpCount, OpLeave: the wanted hold count; OpCall: a number
	state   atomic.Uint32
	Kind    OpKind
	Slot    uint16 // of Key, where slots matter
	Family  Family
	Waits   bool // acquiring: its caller goes on waiting if the lock is busy; some families take a note of that
	Left    bool // OpRelease: the message says that the lock is left to others for a moment
	Placed  bool // the owner's: the owner id stands in the queue of a fair lock; here because there is room
	Wide    bool // Hash picks one of all lanes, not the first: the same for all ops of a key that are outstanding together
	Inside  bool // acquiring FamilyRead: Sink is an Insider, whose field stands in the hash already; alone
	// In a cluster, how it travels after a node has refused it; Nodes.redirect's.
	alone  bool  // with its key declared, so that the refusal names the node to ask
	asking bool  // to the node a slot is moving to
	hops   uint8 // refusals so far
	among  bool  // refused in words that nobody knows, beside others whose keys were not declared either
}

// An Ack says how many replicas must have seen what an op wrote, and how long to wait for them.
type Ack struct {
	Replicas int
	Timeout  time.Duration // whole milliseconds, not 0
}

const (
	opIdle uint32 = iota
	opQueued
	opSent
	opCancelled
	opUnwanted // sent, and its grant is to wait for no replicas
)

// Cancel takes an op back that was not sent yet. On true nothing was sent nor will be; the sink is
// still answered, with CodeCancelled.
//
// A grant that was sent for, and would wait for replicas, is not waited for any more: it is answered with AckErr, as
// seen by none. If that has begun already, Nodes.Unwait ends it.
func (op *Op) Cancel() bool {
	if op.state.CompareAndSwap(opQueued, opCancelled) {
		return true
	}
	if op.Ack != nil {
		op.state.CompareAndSwap(opSent, opUnwanted)
	}
	return false
}

// Unwanted reports whether a grant was not waited for because its op was cancelled.
func (r *Result) Unwanted() bool { return r.AckErr == errUnwanted }

// resetRoute forgets how the op travelled: it has its answer.
func (op *Op) resetRoute() { op.alone, op.asking, op.among, op.hops = false, false, false, 0 }

// A Sink receives the answer of an op. Answered runs on the lane's goroutine: it must not block.
// The result is the lane's and is only valid during the call.
type Sink interface {
	Answered(op *Op, r *Result)
}

// A Lowering is a sink of an OpLeave: what the handles that remain ask for runs out while the op waits in its lane.
type Lowering interface {
	Sink
	// Keep returns what they ask for at now. It runs on the lane's goroutine.
	Keep(now clock.Instant) time.Duration
}

// An Insider is the sink of a reader who is let in beside a hold of its own, whoever waits.
type Insider interface {
	Sink
	// Inside returns the field of that hold. It runs on the lane's goroutine.
	Inside() string
}

// A Demand is the sink of an acquire of what is counted: one for several waiters.
type Demand interface {
	Sink
	// Wanted returns how much each wants, in their order. It runs on the lane's goroutine.
	Wanted() []int32
}

// A Looker is the sink of an acquire that takes nothing: it looks whether something is open.
type Looker interface {
	Sink
	// Known returns the mark at which who asks saw it closed: Result.Value of that answer; -1: they have not seen it. It
	// runs on the lane's goroutine.
	Known() int64
}

// A Bequest is the Sink of a release of FamilyFair that may give the lock to a waiter of this engine, if one
// of those it names is next in the queue.
type Bequest interface{ Heirs() []Heir }

// An Heir is such a waiter.
type Heir struct {
	Field   string // under which it stands in the queue
	LeaseMs int64  // it asks for
}

// Code is what one key answered.
type Code uint8

// The codes.
const (
	CodeError     Code = iota // see Result.Err
	CodeGranted               // the key is ours; Value: the token of a fenced lock, or how many permits were taken
	CodeOurs                  // it was ours already, with its full lease again
	CodeOpened                // a Looker's: it was open since then, and is closed again; Value: its mark
	CodeDeleted               // a Looker's: it was deleted since then
	CodeBusy                  // somebody else's; Value: remaining ms, -1 no expiry; a Looker's: its mark
	CodeGone                  // a re-entry found no lock of ours; a Looker: what was closed
	CodeWrongKind             // a read-write hash in a mutex's place, or the reverse
	CodeReleased              // given back; Value: how many heard the message, -1 publish refused
	CodePassed                // given back, and given to the waiter of this engine with the number Value
	CodeNotOurs               // our field is not there; nothing changed
	CodeRenewed               // the TTL is at least the lease
	CodeInspected             // Value: remaining ms, -1 none, -2 no key; Fields: field, count, ...; OpQueue: see Result
	CodeMet                   // a party's; Value: ms until an engine is overdue, -1: none; Verdicts
	CodeNone                  // there was no lock; OpCall: nothing was done
	CodeDone                  // OpCall: it was done; Value: what came of it
	CodeCancelled             // taken back before it was sent
)

// A Result is the answer of one op.
type Result struct {
	Code Code
	// ReplicaAcks is how many replicas have seen a grant that was to be acknowledged. Fewer than asked for: the
	// key is ours all the same, and AckErr may say why.
	ReplicaAcks int32
	Value       int64
	Fields      []string // OpQueue: field, score, ...; Value is then the server's time in ms
	// Since is when who is told CodeBusy came to where it stands in the queue of a fair lock: in µs of the server's clock,
	// in the order of the queue. 0: it does not stand there, or nobody knows.
	Since  int64
	More   int64 // CodeInspected: the hash has so many fields, more than are read; Fields is then its mode
	Err    *ServerError
	AckErr *ServerError
	// SentAt and ReceivedAt are when the attempt that was answered was sent and its answer read. SentAt 0:
	// nothing was sent.
	SentAt, ReceivedAt clock.Instant
	Verdicts           string // CodeMet: one for each party, in the order of the request; "": a later one was there first
}

// What becomes of a party of a barrier: Result.Verdicts.
const (
	PartyWaits   = 'w'
	PartyPasses  = 'p' // all have arrived
	PartyBroken  = 'b' // its generation is broken
	PartyDiffers = 'n' // those who wait do so for another number of parties
	PartyUnknown = 'u' // its generation was over so long ago that nobody knows how it ended
)

// Definite reports whether the server's state is known from this answer. If not, the command may
// have run, or may still run until its not-after.
func (r *Result) Definite() bool { return r.Err == nil || r.Err.Class.Definite() }
