package engine

import (
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// firstSeat and nextSeat go through the seats of a root.
func (ent *entry) firstSeat() *entry {
	if ent == nil || ent.seats == nil {
		return nil
	}
	return ent.seats.first
}

func (ent *entry) nextSeat() *entry { return ent.seats.next }

// ofRoot makes what a root needs to have seats.
func (ent *entry) ofRoot() *seating {
	if ent.seats == nil {
		ent.seats = &seating{}
	}
	return ent.seats
}

// newSeated makes an entry that is a seat, or is known to get some: in one piece.
func newSeated(e *Engine, key string, hash uint64, slot uint16) *entry {
	s := &struct {
		entry
		seating
	}{}
	s.entry = entry{eng: e, key: key, hash: hash, slot: slot, seats: &s.seating}
	return &s.entry
}

// newSeat hangs a seat on a root.
func (ent *entry) newSeat() *entry {
	all := ent.ofRoot()
	seat := newSeated(ent.eng, ent.key, ent.hash, ent.slot)
	seat.seats.root, seat.seats.prev = ent, all.last
	seat.heard = heardMost // what it hears is meant for it
	seat.name = &ent.queue
	if all.last == nil {
		all.first = seat
	} else {
		all.last.seats.next = seat
	}
	all.last = seat
	return seat
}

// leaveRoot takes a seat off its root.
func (ent *entry) leaveRoot() {
	s, all := ent.seats, ent.seats.root.seats
	if s.prev == nil {
		all.first = s.next
	} else {
		s.prev.seats.next = s.next
	}
	if s.next == nil {
		all.last = s.prev
	} else {
		s.next.seats.prev = s.prev
	}
}

// withSeats goes through a root and its seats; nil has none. A seat may leave while it is yielded.
func (ent *entry) withSeats(yield func(*entry) bool) {
	if ent == nil || !yield(ent) {
		return
	}
	for seat := ent.firstSeat(); seat != nil; {
		next := seat.nextSeat()
		if !yield(seat) {
			return
		}
		seat = next
	}
}

// entries goes through everything that hangs on the shard, seats included.
func (sh *shard) entries(yield func(*entry) bool) {
	for root := range sh.names.all {
		for ent := range root.withSeats {
			if !yield(ent) {
				return
			}
		}
	}
}

// entryOf is where an op waits.
func (sc *section) entryOf(op *acquireOp) *entry {
	if w := op.watch; w != nil && w.at != nil {
		return w.at
	}
	if at := op.att.ent; at != nil && at.root() != at {
		return at
	}
	return sc.sh.names.get(op.lock.hash, op.lock.key)
}

// moveTo makes an op wait in a seat from now on, or (nil) at the root of its name. Its attempt stays where
// it is on its way.
func (op *acquireOp) moveTo(seat *entry) {
	switch at := op.att.ent; {
	case at == nil || at.att != &op.att:
		op.att.ent = seat
		if op.watch != nil {
			op.watch.at = nil
		}
	case at == seat:
	default:
		if op.watch == nil {
			op.watch = &watching{}
		}
		op.watch.at = seat
	}
}

// advanceAll goes on with an entry, and with the name it hangs on.
func (sc *section) advanceAll(ent *entry) {
	sc.advance(ent)
	if root := ent.root(); root != ent {
		sc.advance(root)
		sc.fairListen(root)
	}
}

// advanceSeats goes on with all seats of a name.
func (sc *section) advanceSeats(root *entry) {
	for at := range root.withSeats {
		sc.advance(at)
	}
}

// takenHere reports whether a Try can be answered at once.
func (ent *entry) takenHere(op *acquireOp) bool {
	return ent.busyAt(op) != ent || ent.refusesTry()
}

// busyAt is where it is known how long whoever is in the way of a newcomer stays. To a fair lock that is the
// first seat which has it or waits for it: a Try never overtakes. Behind a release it goes as any other.
func (ent *entry) busyAt(op *acquireOp) *entry {
	if traits(op.set.family).mark != markPlace {
		return ent
	}
	for seat := ent.firstSeat(); seat != nil; seat = seat.nextSeat() {
		if seat.standing() != nil || seat.head != nil {
			return seat
		}
	}
	return ent
}

// otherKind reports whether what this engine holds under the name is another kind of lock than is wanted,
// so that asking would only be refused. What is over by now stands in nobody's way, though the watchdog has not said so, or
// the holder is not told yet.
func (ent *entry) otherKind(want resp.Family, now clock.Instant) bool {
	stands := func(at *entry) bool {
		h := at.standing()
		return h != nil && otherKind(h.Family, want) && now.Before(h.Deadline())
	}
	seat := ent.firstSeat()
	return stands(ent) || seat != nil && stands(seat)
}

// fairListen makes the first waiter here hear of releases.
func (sc *section) fairListen(root *entry) {
	var first *entry
	for seat := root.firstSeat(); seat != nil && seat.hold == nil; seat = seat.nextSeat() {
		op := seat.head
		if op == nil || first != nil && seat.acks() == first.acks() {
			continue
		}
		if traits(op.set.family).mark == markPlace && seat.park != nil && seat.wait == waitParked {
			sc.listenFor(seat.park)
		}
		if first != nil || !root.seats.apart {
			return
		}
		first = seat
	}
}

// acks reports whether who waits in a seat asks for replicas.
func (ent *entry) acks() bool { return ent.head.set.ack != nil }
