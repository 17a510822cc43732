package engine

import (
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Read holds are shared: one field in Redis may serve many readers of this engine. The first asks the
// server; those who wait with it, and for the length of a turn those who come later, join without a
// command, under the conditions of a hand-off. The field is given back with the last of them.

// shareLocked lets a reader in beside those of this engine, and says whether it did. Nobody may be
// waiting before it; and once the turn is over the server is asked again: a writer elsewhere may wait. What
// an owner reads beside its own write hold is no way in.
func (e *Engine) shareLocked(sh *shard, ent *entry, op *acquireOp, fx *effects) bool {
	if ent == nil || ent.seats == nil || ent.head != nil || ent.hold != nil || ent.forces > 0 || e.cfg.NoHandOff || e.closing.Load() {
		return false
	}
	seat := ent.seats.last
	if seat == nil || seat.hold == nil {
		return false
	}
	h, now := seat.hold, e.clock.Now()
	if !op.set.alike(h.set) || op.set.replicas() > int(h.seen) || !h.shareable(now) || !now.Before(h.turnUntil) {
		return false
	}
	return e.joinLocked(sh, h, op, fx)
}

// shareable reports whether a read hold is as good as a new one.
func (h *hold) shareable(now clock.Instant) bool {
	return h.Family == resp.FamilyRead && h.status.Load() == holdHeld && !h.forced && h.set.watchdog && h.Renewing() &&
		h.Deadline().Sub(now) >= h.Lease/2 && !h.open().open(now)
}

// joinLocked adds a reader to a hold.
func (e *Engine) joinLocked(sh *shard, h *hold, op *acquireOp, fx *effects) bool {
	if !op.claim() {
		return true
	}
	sh.counts.grants++
	sh.counts.handOffs++
	h.count++
	e.enteredLocked(h, op, fx)
	return true
}

// enteredLocked makes a further reader's handle.
func (e *Engine) enteredLocked(h *hold, op *acquireOp, fx *effects) {
	if op.set.watchdog {
		h.watchers++
		e.dog.Resume(h)
	}
	h.readBy(op.owner)
	h.leak = true // with several handles no one of them is missed
	fx.grant(op, &Lease{hold: h, lock: op.lock, ctx: op.ctx, owner: op.owner})
}

// joinAllLocked lets in those readers who waited for the grant, up to the first who is none.
func (e *Engine) joinAllLocked(sh *shard, ent *entry, h *hold, fx *effects) {
	for op := ent.head; op != nil && op.set.alike(h.set) && op.set.replicas() <= int(h.seen); op = ent.head {
		ent.unlink(op)
		e.joinLocked(sh, h, op, fx)
	}
}

// readBy counts the handles of owners.
func (h *hold) readBy(o *Owner) {
	if o == nil {
		return
	}
	m := h.more()
	if m.readers == nil {
		m.readers = make(map[*Owner]int32)
	}
	m.readers[o]++
}

// leaveLocked takes one of several readers out.
func (h *hold) leaveLocked(ls *Lease) {
	h.count--
	if ls == nil {
		return
	}
	if ls.owner != nil {
		h.special.readers[ls.owner]--
	}
	h.lessLocked(ls)
}

// ownedLocked answers an owner who holds the name here already, or has lost it. It says whether it did.
func (e *Engine) ownedLocked(sh *shard, ent *entry, op *acquireOp, fx *effects) bool {
	read, other := ent.heldBy(op.owner)
	want := op.set.family
	switch {
	case read == nil && other == nil:
		if !op.owner.hasLost(e, op.lock.key) {
			return false
		}
		refuse(op, ErrLost, fx)
	case op.set.once:
		refuse(op, ErrReentry, fx)
	case want == resp.FamilyRead && read != nil:
		if now := e.clock.Now(); op.set.lease <= read.Lease && op.set.watchdog && op.set.replicas() <= int(read.seen) && read.shareable(now) {
			e.joinLocked(sh, read, op, fx)
		} else {
			e.enterLocked(sh, read, op, fx)
		}
	case want == resp.FamilyRead && other != nil && other.Family == resp.FamilyWrite:
		e.enterLocked(sh, other, op, fx)
	case other != nil && sameKind(other.Family, want):
		e.enterLocked(sh, other, op, fx)
	case want == resp.FamilyWrite && read != nil:
		refuse(op, ErrUpgrade, fx)
	default:
		refuse(op, ErrWrongKind, fx)
	}
	return true
}

// heldBy returns what an owner holds under a name: to read, and otherwise.
func (ent *entry) heldBy(o *Owner) (read, other *hold) {
	if ent == nil || o == nil {
		return nil, nil
	}
	if h := ent.hold; h != nil && h.owner == o && h.status.Load() == holdHeld {
		other = h
	}
	for seat := ent.firstSeat(); seat != nil; seat = seat.nextSeat() {
		switch h := seat.hold; {
		case h == nil || h.status.Load() != holdHeld:
		case h.Family != resp.FamilyRead:
			if h.owner == o {
				other = h
			}
		case h.readsFor(o) > 0:
			read = h
		}
	}
	return read, other
}

// readUnder is the field of the read hold that belongs to a write hold.
func (h *hold) readUnder() string { return strings.TrimSuffix(h.Field, ":write") }

// readsToo reports whether the owner of a write hold reads under the same wire id.
func (h *hold) readsToo() bool {
	for seat := h.ent.firstSeat(); seat != nil; seat = seat.nextSeat() {
		if r := seat.hold; r != nil && r.Field == h.readUnder() {
			return true
		}
	}
	return false
}

// closeNoteLocked takes back the note that a writer of this engine waits: nobody does any more.
func (e *Engine) closeNoteLocked(sh *shard, ent *entry) {
	if ent.seats != nil && ent.seats.noted {
		ent.seats.noted = false
		e.cleanLocked(sh, ent, wireID{e.id + ":0:write", resp.FamilyWrite}, doubt{}, 0)
	}
}

// readLocked makes a confirmed read hold visible: a further share in one, or one beside its owner's write
// hold, under the same wire id.
func (n *nesting) readLocked(e *Engine, sh *shard, r *resp.Result, fx *effects) {
	h, op := n.hold, n.take().acquire
	open := n.reading
	n.answered(r.SentAt)
	wanted := !n.unseenLocked(sh, op, r, fx) && op.claim()
	switch {
	case h.Family == resp.FamilyRead:
		h.Extended(r.SentAt, time.Duration(n.op.LeaseMs)*time.Millisecond)
		h.seen = max(h.seen, int16(min(r.Seen, maxReplicas))) //nolint:gosec // in range
		if wanted {
			sh.counts.grants++
			h.count++
			e.enteredLocked(h, op, fx)
		}
	case wanted:
		e.readBesideLocked(sh, h, op, r, fx).unsure(open)
	default:
		e.cleanLocked(sh, h.ent, wireID{n.op.Field, resp.FamilyRead}, open, op.set.lease)
	}
}

// unreadLocked gives back the read hold that nobody will have, if the change that ends without one asked
// for it: an unanswered sending may have made it, and a late copy may make it yet.
func (n *nesting) unreadLocked(e *Engine, sh *shard, r *resp.Result) {
	h := n.hold
	switch {
	case n.op.Kind != resp.OpReacquire, h.Family == resp.FamilyRead && h.status.Load() == holdHeld:
	case r.Code == resp.CodeGranted, n.reading.until != 0:
		e.cleanLocked(sh, h.ent, wireID{n.op.Field, resp.FamilyRead}, n.reading, n.lease())
	}
}

// readingWaits reports whether the next change must not be sent yet. All that an owner reads beside one
// write hold is read under one wire id: a release of it that is sent again would take the next one, too.
func (n *nesting) readingWaits() bool {
	if n.busy || len(n.queue) == 0 || n.hold.Family != resp.FamilyWrite || !n.queue[0].reads() {
		return false
	}
	for seat := n.hold.ent.firstSeat(); seat != nil; seat = seat.nextSeat() {
		if seat.releases > 0 && seat.first.Field == n.hold.readUnder() {
			return true
		}
	}
	return false
}

// readOnLocked lets the owner of a write hold read again after the release of what it read.
func (e *Engine) readOnLocked(sh *shard, root *entry, fx *effects) {
	if w := root.hold; w != nil && w.nesting != nil {
		e.nestLocked(sh, w.nesting, fx)
	}
}

// reader is who has a wire id to read under, or asks for it: the owner of a write hold may read anew under
// the wire id that it read under before. What is not known of that is then its business.
func (ent *entry) reader(field string) (takesOver func(doubt)) {
	if ent == nil {
		return nil
	}
	for seat := ent.firstSeat(); seat != nil; seat = seat.nextSeat() {
		if h := seat.hold; h != nil && h.Family == resp.FamilyRead && h.Field == field && h.status.Load() == holdHeld {
			return h.unsure
		}
	}
	w := ent.hold
	if w == nil || w.Family != resp.FamilyWrite || w.nesting == nil || w.readUnder() != field || w.status.Load() != holdHeld {
		return nil
	}
	if n := w.nesting; n.busy && n.cur.reads() {
		return n.reading.add
	}
	return nil
}

// readBesideLocked makes the read hold of an owner that writes.
func (e *Engine) readBesideLocked(sh *shard, w *hold, op *acquireOp, r *resp.Result, fx *effects) *hold {
	seat := w.ent.root().newSeat()
	h := seat.newHold()
	h.Field, h.Lease, h.Family = w.readUnder(), op.set.lease, resp.FamilyRead
	seat.held(h)
	e.startLocked(h, op, r, fx)
	h.owner = nil
	h.readBy(op.owner)
	sh.counts.grants++
	return h
}
