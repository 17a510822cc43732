package engine

import (
	"log/slog"
	"time"
	"weak"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A hold is one wire hold: the field in Redis under which this engine has a lock, from the grant to
// its release or loss. Its renewals are the watchdog's; lease handles attach to it.
type hold struct {
	renew.Hold
	ent *entry

	// Guarded by the shard.
	wirehold
	watch   *leaseContext       // the contexts that were asked for, linked
	lease   *Lease              // until the first renewal; afterwards only weak
	weak    weak.Pointer[Lease] // finds out that nobody can release the lease any more
	owner   *Owner              // nil: nobody can enter again
	special *special            // mostly nil
}

// special is what few holds have.
type special struct {
	token   int64            // of a fenced lock; set before anybody has a lease
	readers map[*Owner]int32 // of a read hold, instead of its owner: handles of each
	wishes  wishes           // what its handles want; nil: all the same, see alikeSoFar
	extends int32            // Extends on their way

	extended doubt // copies of those that are answered may still run until then
}

// more is a hold's special part, made if it has none.
func (h *hold) more() *special {
	if h.special == nil {
		h.special = &special{}
	}
	return h.special
}

// readsFor is how many handles of a read hold are an owner's.
func (h *hold) readsFor(o *Owner) int32 {
	if h.special == nil {
		return 0
	}
	return h.special.readers[o]
}

// Key is what the watchdog renews.
func (h *hold) Key() string { return h.ent.key }

// wire is under what the hold has its key.
func (h *hold) wire() wireID { return wireID{h.Field, h.Family} }

// tail is how long the key can outlive now at most: what an Extend asked for counts.
func (h *hold) tail(now clock.Instant) time.Duration {
	return max(h.Lease(), h.Deadline().Sub(now)+h.Lease(), h.open().lease)
}

// freeBy is when the server has let go at the latest.
func (h *hold) freeBy() clock.Instant { return h.Deadline().Add(max(h.Lease(), h.open().lease)) }

// contexts lists the contexts of the hold's leases. They are cancelled without the shard's mutex:
// their children are user code.
func (h *hold) contexts() []*leaseContext {
	var all []*leaseContext
	for c := h.watch; c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}

// watchOf finds the context of one lease.
func (h *hold) watchOf(ls *Lease) *leaseContext {
	for c := h.watch; c != nil; c = c.next {
		if c.lease == ls {
			return c
		}
	}
	return nil
}

// unwatch takes the context of one lease out.
func (h *hold) unwatch(ls *Lease) *leaseContext {
	for at := &h.watch; *at != nil; at = &(*at).next {
		if c := *at; c.lease == ls {
			*at = c.next
			return c
		}
	}
	return nil
}

// Watched makes a hold the watchdog's subject.
func (h *hold) Watched() *renew.Hold { return &h.Hold }

// A loss is a hold that was lost just now, and whose holder is still to be told.
type loss struct {
	hold     *hold
	cause    renew.Cause
	contexts []*leaseContext // what the holder is told by
}

// lose makes a hold lost; nil if it is over already. All that anybody can ask about is decided here in
// one step: the status, which handles are out, and that their owners must give them back before they get
// the lock anew. The hold keeps the queue closed until tellLoss.
func (sc *section) lose(h *hold, cause renew.Cause) *loss {
	if !h.end(holdLost) {
		return nil
	}
	sc.eng.dog.Forget(h)
	h.ent.whole().telling++
	sc.sh.counts.lost++
	sc.sh.pending++ // Close waits until the holder is told
	var in, back error = ErrClosed, nil
	if cause != renew.CauseClosed {
		in = &nameError{sc.eng.nameOf(h.ent.key), ErrLost}
		back = in
	}
	sc.endChanges(h, in, back)
	sc.endReadings(h, in)
	h.owner.remember(sc.eng, h.ent.key, h.count)
	if h.special != nil {
		for o, n := range h.special.readers {
			o.remember(sc.eng, h.ent.key, n)
		}
	}
	if cause != renew.CauseClosed {
		sc.refuseOwners(h)
	}
	return &loss{h, cause, h.contexts()}
}

// refuseOwners ends what owners of a lost hold still ask for under its name, as if they asked now: unless they
// have a handle of another hold, they have to give back first.
func (sc *section) refuseOwners(h *hold) {
	root := h.ent.root()
	for ent := range root.withSeats {
		for op := ent.head; op != nil; {
			next := op.next
			if op.owner != nil && (op.owner == h.owner || h.readsFor(op.owner) > 0) && root.lostTo(op.owner) {
				ent.unlink(op)
				sc.refuse(op, ErrLost)
			}
			op = next
		}
		sc.tidy(ent)
	}
}

// tellLoss is the second half of a loss: the holder is told, and then the lock may be granted here again. Called without the
// mutex.
func (sc *section) tellLoss() {
	e, l := sc.eng, sc.lost
	if l == nil {
		return
	}
	for _, c := range l.contexts {
		e.world.Yield("section.tellLoss: lost | a context cancelled")
		c.cancel(ErrLost)
	}
	if l.cause != renew.CauseClosed {
		e.log(slog.LevelWarn, "holdfast: lock lost", "name", resp.Printable(e.nameOf(l.hold.ent.key)), "cause", causeText(l.cause))
	}
	e.world.Yield("section.tellLoss: contexts cancelled | freed")
	sc.lock()
	sc.afterLoss(l)
	sc.owe()
	sc.unlock()
}

// afterLoss sends what is still to be sent for a lost hold, and opens the queue that it closed.
func (sc *section) afterLoss(l *loss) {
	h := l.hold
	h.ent.whole().telling--
	sc.eng.tell(EventLost, h, causeText(l.cause))
	ends := h.afterLoss(l.cause)
	switch ends {
	case endsNow:
		sc.clean(h.ent, h.wire(), h.open(), h.tail(sc.eng.clock.Now()))
	case endsLater:
		sc.cleanLater(h.ent, h.wire(), h.open(), h.Lease())
	}
	if h.Family == resp.FamilyWrite && ends != endsNow && l.cause != renew.CauseClosed {
		sc.lostNote(h.ent)
	}
	if h.ent.freed(h) {
		sc.advanceAll(h.ent)
	}
	sc.answered()
}

func causeText(c renew.Cause) string {
	switch c {
	case renew.CauseNotOurs:
		return "the server says it is not ours"
	case renew.CauseWrongType:
		return "another value stands in its place"
	case renew.CauseForced:
		return "it was force-released"
	case renew.CauseClosed:
		return "the engine closes and lets it expire"
	default:
		return "its lease ran out unrenewed"
	}
}
