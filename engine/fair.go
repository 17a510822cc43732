package engine

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A FairLock is a Lock that is granted in the order in which it was asked for, across all engines and
// Redisson: who waits stands in a queue on the server. On the wire it is Redisson's RFairLock.
//
// Each waiter asks again at least every 1.2 s, which keeps its place however long the holder stays. One
// that stops asking, because its process died, is passed over after 5 s once it is first; a waiter of
// Redisson after as long as Redisson's fairLockWaitTimeout says. Who gives up leaves the queue at once. A
// Try never overtakes. It is slower than a Lock where many wait: each grant is the server's, in the order of
// its queue. Where one waiter of this engine follows another there, the release itself passes the lock on.
type FairLock struct{ *Lock }

// FairLock returns a handle on a fair lock. Errors: as Lock.
func (e *Engine) FairLock(name string, opts ...Option) *FairLock {
	l := e.handle(name, slot.KindFair, resp.FamilyFair, opts)
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
			Mine:    strings.HasPrefix(r.Fields[i], l.eng.id+":"),
			Kept:    fromServerMs(int64(min(max(until-float64(r.Value), 0), 1<<53))),
		})
	}
	return places, nil
}

// A release of a fair lock may give it to the waiter of this engine that is next in the server's queue, in
// the same command: nobody is overtaken, and nobody has to be told. So only where somebody else holds the
// lock does a waiter here need to hear of its release, and only the first of them.

// heirsMost is how many waiters a release names: the next here is mostly the next in the server's queue.
const heirsMost = 3

// A fairRelease is the release of a fair lock that may be passed on: it is answered as any other.
type fairRelease struct {
	*releaseOp
	heirs []resp.Heir
}

// Heirs are the waiters here that may have the lock next, each with the lease it asks for.
func (r *fairRelease) Heirs() []resp.Heir { return r.heirs }

// heirs are the first waiters here of which it is known that they stand in the server's queue, and under
// which field. Who asked for replicas, or may have copies on their way, asks for itself.
func (sc *section) heirs(h *hold) (heirs []resp.Heir) {
	if h.Family != resp.FamilyFair || sc.eng.cfg.NoHandOff || sc.eng.closing.Load() {
		return nil
	}
	for seat := h.ent.root().firstSeat(); seat != nil && len(heirs) < heirsMost; seat = seat.nextSeat() {
		if op := seat.head; op != nil && op.set.ack == nil && seat.att != nil && seat.att.op.Placed && !seat.att.unknown() {
			heirs = append(heirs, resp.Heir{Field: seat.att.op.Field, LeaseMs: seat.att.lease.Milliseconds()})
		}
	}
	return heirs
}

// passedOn gives the lock to whom the server has given it. If that waiter is just asking, its answer
// says so, or is not believed; if it has left, its cleanup finds the lock.
func (sc *section) passedOn(root *entry, heirs []resp.Heir, r *resp.Result) {
	field := resp.FairField(sc.eng.id, r.Value)
	for seat := root.firstSeat(); seat != nil; seat = seat.nextSeat() {
		a := seat.att
		if a == nil || a.op.Field != field {
			continue
		}
		switch {
		case seat.ask == askFlying:
			seat.epoch++
		case a.unknown() || !slices.Contains(heirs, resp.Heir{Field: field, LeaseMs: a.lease.Milliseconds()}):
			if seat.park != nil {
				sc.wake(seat.park, func(*counts) {}, wakeLook) // it asks, and has its own lease
			}
		default:
			if a.trouble != nil {
				sc.eng.timers.Cancel(&a.trouble.item)
			}
			before := sc.sh.counts.grants
			sc.unpark(seat) // if it cannot have this grant, it asks anew, as another waiter
			sc.granted(a, &resp.Result{Code: resp.CodeGranted, SentAt: r.SentAt, ReceivedAt: r.ReceivedAt})
			sc.sh.counts.handOffs += sc.sh.counts.grants - before // 0: nobody wants it any more
		}
		return
	}
}

// firstHere reports whether a seat is the first of this engine's, and waits. Who asks for replicas travels on another
// connection: the first of those and the first of the others may have come to the server in either order, so both are.
func (ent *entry) firstHere() bool {
	root := ent.root()
	for seat := root.firstSeat(); seat != nil; seat = seat.nextSeat() {
		switch {
		case seat.hold != nil:
			return false
		case seat.head != nil && (seat == ent || !root.seats.apart || seat.acks() == ent.acks()):
			return seat == ent
		}
	}
	return false
}

// acks reports whether who waits in a seat asks for replicas.
func (ent *entry) acks() bool { return ent.head.set.ack != nil }

// fairListen makes the first waiter here hear of releases.
func (sc *section) fairListen(root *entry) {
	var first *entry
	for seat := root.firstSeat(); seat != nil && seat.hold == nil; seat = seat.nextSeat() {
		op := seat.head
		if op == nil || first != nil && seat.acks() == first.acks() {
			continue
		}
		if op.set.family == resp.FamilyFair && seat.park != nil && seat.wait == waitParked {
			sc.listenFor(seat.park)
		}
		if first != nil || !root.seats.apart {
			return
		}
		first = seat
	}
}
