package lockstate

import "time"

// Traits are what the machines have to know of a family of locks.
type Traits struct {
	Mode   string // which half of a pair it is; "": none
	Object Object // what stands under the name
	Enters uint8  // whoever holds one family may enter again as every other with the same number
	Mark   Mark   // what a waiter leaves on the server

	Shared   bool   // one grant may serve many handles
	ReadsToo bool   // its owner may have a shared grant beside it, and keep that one
	HandsOff bool   // a release may give it to the next waiter here without a command
	Serves   Serves // whom one grant is for
	Many     bool   // a grant keeps nobody out of the queue: each has an id of its own, and nobody enters by it
	AskOnce  bool   // an acquire that was sent twice may count twice: without an answer it is not sent again
}

// An Object says what stands under the name of a family: one excludes the others.
type Object uint8

const (
	ObjectLock Object = iota
	ObjectPair        // a read-write lock
	ObjectSemaphore
	ObjectLatch
	ObjectPermits // a semaphore whose permits are leased
	ObjectBarrier
)

// A Mark says what a waiter leaves on the server.
type Mark uint8

const (
	MarkNone  Mark = iota
	MarkNote       // that somebody waits; the engine takes it back when nobody does
	MarkPlace      // its place in a queue, under an owner id of its own: a release may pass the lock on to it
)

// Serves says whom one grant is for.
type Serves uint8

const (
	ServesOne  Serves = iota // a lock: the first
	ServesSome               // permits: as many as there is enough for, in order
	ServesAll                // a latch, a barrier: everybody who waits
)

// What two families are to each other.

// EntersAs reports whether the holder of one may enter as the other.
func (t *Traits) EntersAs(wanted *Traits) bool { return t.Enters == wanted.Enters }

// Halved reports whether it is half of a pair.
func (t *Traits) Halved() bool { return t.Mode != "" }

// OtherKind reports whether two exclude each other's values: where one stands, the other is refused.
func (t *Traits) OtherKind(other *Traits) bool { return t.Object != other.Object }

// Terms are what somebody wants who waits. They do not change.
type Terms struct {
	Family   *Traits
	Lease    time.Duration
	MaxHold  time.Duration // 0: no limit
	Linger   time.Duration // for how long it may stay when it was given back, see Grant.Linger; 0: it does not
	Ack      *Ack          // nil: a grant need not be replicated
	Spin     *Spin         // how a spin lock waits; nil: it is none
	Units    int32         // of what can be counted
	Watchdog bool          // the lease is renewed
}

// An Ack says how many replicas are to see a grant, and how long is waited for them.
type Ack struct {
	Replicas int
	Timeout  time.Duration // whole milliseconds, not 0
}

// Replicas is how many must have seen a grant.
func (t *Terms) Replicas() int {
	if t.Ack == nil {
		return 0
	}
	return t.Ack.Replicas
}

// Compatible reports whether leases of both may follow each other under one hold.
func (t *Terms) Compatible(o *Terms) bool {
	return t == o ||
		t.Family == o.Family && t.Lease == o.Lease && t.Watchdog == o.Watchdog && t.MaxHold == o.MaxHold && t.Units == o.Units
}

// Plain reports whether they ask for nothing but renewals without end.
func (t *Terms) Plain() bool { return t.Watchdog && t.MaxHold == 0 }

// waitsAs reports whether a parked waiter that comes after another may take over how that waits: what it
// listens to, and its polls. Each spin lock begins with its own first pause.
func (t *Terms) waitsAs(before *Terms) bool {
	return t.Spin == nil && before.Spin == nil && !t.Family.OtherKind(before.Family)
}

// A Spin is how a spin lock waits: it asks again and again, after ever longer pauses.
type Spin struct{ First, Most time.Duration }

// spinsMost is where counting a spin lock's pauses ends: the longest is reached long before.
const spinsMost = 64

// pause is the time before the n-th further try, and how far it is spread.
func (s *Spin) pause(n int) (least, spread time.Duration) {
	d := s.First
	for range n {
		if d >= s.Most {
			break
		}
		d = min(2*d, s.Most)
	}
	return d - d/4, d/2 + 1
}
