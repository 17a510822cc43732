package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A FairLock is a Lock that is granted in the order in which it was asked for, across all engines and
// Redisson: who waits stands in a queue on the server. On the wire it is Redisson's RFairLock.
//
// Each waiter asks again at least every 1.2 s, which keeps its place however long the holder stays. One
// that stops asking, because its process died, is passed over after 5 s once it is first; a waiter of
// Redisson after as long as Redisson's fairLockWaitTimeout says. Who gives up leaves the queue at once:
// on the server with the command that follows. A Try of the same engine waits for that, unless who left had
// asked for replicas; others may be told [ErrHeld] until then. A Try never overtakes. But who asks for
// replicas ([WaitReplicas]) and who does not travel on different connections: between those two of one
// engine, who asks later may stand before. It is slower than a Lock where many wait: each grant is the
// server's, in the order of its queue. Where one waiter of this engine follows another there, the release
// itself passes the lock on.
type FairLock struct{ *Lock }

// FairLock returns a handle on a fair lock. Errors: as Lock.
func (e *Engine) FairLock(name string, opts ...Option) *FairLock {
	l := e.handle(name, resp.FamilyFair, opts)
	return &FairLock{&l}
}

// With returns a handle on the same name with further options.
func (l *FairLock) With(opts ...Option) *FairLock { return &FairLock{l.Lock.With(opts...)} }

// A Place is one waiter in the queue of a fair lock.
type Place struct {
	// OwnerID is the field it would hold the lock under: "<uuid of the client>:<id of the waiter>".
	OwnerID string
	// Mine: it is a waiter of this engine.
	Mine bool
	// Kept is how long it keeps its place if it is not heard of again. For each waiter of Redisson before it, it has that
	// one's wait more, which is taken off when that one has left.
	Kept time.Duration
}

// Queue asks the server who waits for the lock, in the order in which they will have it: the first 10,000,
// and no more than a megabyte. Blocks: for one round trip, or until ctx ends. Errors: as Inspect.
func (l *FairLock) Queue(ctx context.Context) ([]Place, error) { return l.QueueAsync(ctx).Await(ctx) }

// QueueAsync is Queue as a future.
func (l *FairLock) QueueAsync(ctx context.Context) *Future[[]Place] {
	op := &singleOp[[]Place]{eng: l.eng, name: l.Name(), repeat: true, read: l.readQueue}
	op.op = resp.Op{Kind: resp.OpQueue, Family: resp.FamilyFair, Key: slot.FairQueue(l.key), Hash: l.hash, Slot: l.slot}
	return single(ctx, l.Lock, op)
}

func (l *FairLock) readQueue(r *resp.Result) ([]Place, error) {
	places := make([]Place, 0, len(r.Fields)/2)
	for i := 0; i+1 < len(r.Fields); i += 2 {
		until, err := strconv.ParseFloat(r.Fields[i+1], 64)
		if err != nil {
			return nil, &nameError{l.Name(), ErrWrongKind}
		}
		places = append(places, Place{
			OwnerID: r.Fields[i],
			Mine:    resp.FieldOf(l.eng.id, r.Fields[i]),
			Kept:    fromServerMs(int64(min(max(until-float64(r.Value), 0), 1<<53))),
		})
	}
	return places, nil
}
