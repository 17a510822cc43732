package engine

import (
	"sync"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// shardCount shards the table of names: enough that two busy names seldom share a mutex.
const shardCount = 256

// A shard is one part of the table of names. Its mutex guards its entries and everything that hangs
// on them; under it the lanes' and the wheel's mutexes may be taken, never another shard's, never
// the multiplexer's, and no user code runs.
type shard struct {
	mu      sync.Mutex
	names   table
	pending int // ops on their way whose answer somebody here waits for
	counts  counts

	_ [64]byte // keeps neighbours off this cache line
}

// An entry is what goes on locally with one name: the queue of those who want it, the one unanswered
// acquire, and the hold that closes the queue. It exists only while there is any of these.
type entry struct {
	eng  *Engine
	key  string
	hash uint64
	slot uint16

	head, tail *acquireOp // those who want the lock, in order
	att        *attempt   // the unanswered acquire, or one that may still run
	hold       *hold      // a trusted hold of this engine; closes the queue
	park       *parking   // there while the head waits for somebody else's release

	chain    *entry // the table's
	forces   int32  // force-releases on their way: a grant that is answered meanwhile may be gone
	late     int32  // grants in a row whose answers came too late to be trusted
	releases int32  // releases on their way
	cooling  bool   // a release is on its way while others wait: they go when it is answered
	gone     bool   // no longer in the table
	quiet    bool   // the lock is left to others for a moment
	used     bool   // first is taken
	first    hold   // most entries see one hold
}

// newHold makes the hold of a grant.
func (ent *entry) newHold() *hold {
	h := &ent.first
	if ent.used {
		h = new(hold)
	}
	ent.used = true
	h.ent = ent
	return h
}

// parking is the state of a queue whose head was told "busy".
type parking struct {
	ent       *entry
	item      wheel.Item // the poll
	sub       *resp.Sub
	at        *resp.Node    // where sub is
	prompt    wheel.Item    // a short pause: courtesy, or a turn left to those who wait longer
	asked     bool          // a subscription was asked for
	by        wakeKind      // what sent the attempt that is on its way, or the last
	waiting   bool          // nothing is on its way: a message, the poll or the pause's end sends the next attempt
	pausing   bool          // in a short pause
	heard     uint32        // releases that went by since this engine last had the lock
	epoch     uint32        // grows with every wake-up; an older busy answer tries again at once
	busyUntil clock.Instant // when the holder's lease ends, as last told; 0: it has no expiry
}

func (ent *entry) push(op *acquireOp) {
	op.prev = ent.tail
	if ent.tail == nil {
		ent.head = op
	} else {
		ent.tail.next = op
	}
	ent.tail = op
	op.queued = true
}

// unlink takes an op out of the queue; nothing happens if it is not in it.
func (ent *entry) unlink(op *acquireOp) {
	if !op.queued {
		return
	}
	op.queued = false
	if op.prev == nil {
		ent.head = op.next
	} else {
		op.prev.next = op.next
	}
	if op.next == nil {
		ent.tail = op.prev
	} else {
		op.next.prev = op.prev
	}
	op.next, op.prev = nil, nil
}

// effects collects what must happen after the shard's mutex is released: publishing results (user
// code may be waiting for them) and talking to the multiplexer.
type effects struct {
	first, last *acquireOp // claimed ops with their result set, linked by next
	releases    []answered // of handles that shared a hold
	subscribe   *parking
	drop        *resp.Sub
}

// answered is a release with its result.
type answered struct {
	op  *releaseOp
	err error
}

func (fx *effects) released(op *releaseOp, err error) {
	fx.releases = append(fx.releases, answered{op, err})
}

func (fx *effects) grant(op *acquireOp, ls *Lease) {
	op.value = ls
	fx.add(op)
}

// fail completes a claimed op with an error.
func (fx *effects) fail(op *acquireOp, err error) {
	op.err = err
	fx.add(op)
}

func (fx *effects) add(op *acquireOp) {
	if fx.last == nil {
		fx.first = op
	} else {
		fx.last.next = op
	}
	fx.last = op
}

// run does what was collected. Blocks: never.
func (fx *effects) run() {
	for op := fx.first; op != nil; {
		next := op.next
		op.next = nil
		op.finish()
		op = next
	}
	for _, r := range fx.releases {
		r.op.resolve(struct{}{}, r.err)
	}
	if fx.drop != nil {
		fx.drop.Drop()
	}
	if fx.subscribe != nil {
		fx.subscribe.open()
	}
}
