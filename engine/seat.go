package engine

import "github.com/seed-786ebc8c/holdfast/resp"

// Some locks have more than one wire id of this engine under one name: each fair waiter its own place in
// the queue, each read hold its own field. Each is a seat: an entry of its own, with its own queue of
// mostly one and its own hold, that hangs on the name's entry instead of standing in the table.
type seating struct {
	root       *entry // of a seat; nil: this is the root's
	prev, next *entry // seats of one root
	first      *entry // of a root
	last       *entry
	noted      bool // of a root: the server has a note that a writer of this engine waits
}

// root is the entry that stands in the table.
func (ent *entry) root() *entry {
	if ent.seats == nil || ent.seats.root == nil {
		return ent
	}
	return ent.seats.root
}

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
func (e *Engine) entryOf(sh *shard, op *acquireOp) *entry {
	if op.set.family == resp.FamilyFair {
		return op.att.ent
	}
	return sh.names.get(op.lock.hash, op.lock.key)
}

// kickAllLocked goes on with an entry, and with the name it hangs on.
func (e *Engine) kickAllLocked(sh *shard, ent *entry, fx *effects) {
	e.kickLocked(sh, ent, fx)
	if root := ent.root(); root != ent {
		e.kickLocked(sh, root, fx)
		e.fairListenLocked(root, fx)
	}
}

// takenHere reports whether a Try of a fair lock can be answered at once: it never overtakes.
func (ent *entry) takenHere(op *acquireOp) bool {
	if op.set.family == resp.FamilyFair && ent.firstSeat() != nil {
		return true
	}
	return ent.refusesTry()
}

// busyAt is where it is known how long whoever is in the way of a newcomer stays.
func (ent *entry) busyAt(op *acquireOp) *entry {
	if seat := ent.firstSeat(); seat != nil && op.set.family == resp.FamilyFair {
		return seat
	}
	return ent
}

// shares reports whether locks of the family are read-write locks.
func shares(f resp.Family) bool { return f == resp.FamilyRead || f == resp.FamilyWrite }

// otherKind reports whether what this engine holds under the name is another kind of lock than is wanted,
// so that asking would only be refused.
func (ent *entry) otherKind(want resp.Family) bool {
	if ent.hold != nil && shares(ent.hold.Family) != shares(want) {
		return true
	}
	seat := ent.firstSeat()
	return seat != nil && seat.hold != nil && shares(seat.hold.Family) != shares(want)
}
