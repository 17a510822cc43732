package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// An RWLock is a pair of locks on one name: any number of readers, or one writer. On the wire it is
// Redisson's RReadWriteLock.
//
// Both halves are Locks, with everything a Lock has. An owner that writes may read as well, and goes on
// reading when it gives the write lock back: other readers are then let in. The reverse cannot work when
// two try, so an owner that reads and asks to write gets ErrUpgrade at once. Taking either half again
// enters again.
//
// Writers are not starved: once one waits, no further reader of any engine is let in beside those who
// read already, and when they are gone it is its turn; after it come the readers who waited. A note on the
// server, that expires, says so; Redisson's readers do not look at it. A Try leaves none.
//
// Readers of one engine share a hold in Redis where they can, and the server is asked again after a tenure
// of at least 20 ms. Those with fixed leases share none: each has its own end.
type RWLock struct{ read, write Lock }

// RWLock returns a handle on a read-write lock; the options are both halves'. Errors: as Lock.
func (e *Engine) RWLock(name string, opts ...Option) *RWLock {
	return &RWLock{
		read:  e.handle(name, resp.FamilyRead, opts),
		write: e.handle(name, resp.FamilyWrite, opts),
	}
}

// ReadLock returns the shared half.
func (l *RWLock) ReadLock() *Lock { return &l.read }

// WriteLock returns the exclusive half.
func (l *RWLock) WriteLock() *Lock { return &l.write }

// Name returns the name without the engine's prefix.
func (l *RWLock) Name() string { return l.read.Name() }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (l *RWLock) Err() error { return l.read.Err() }

// With returns a handle on the same name with further options.
func (l *RWLock) With(opts ...Option) *RWLock {
	return &RWLock{read: *l.read.With(opts...), write: *l.write.With(opts...)}
}

// Read holds are shared: one field in Redis may serve many readers of this engine. The first asks the
// server; those who wait with it, and for the length of a tenure those who come later, join without a
// command, under the conditions of a hand-off. The field is given back with the last of them.

// share lets a reader in beside those of this engine, and says whether it did. Nobody may be
// waiting before it; and once the tenure is over the server is asked again: a writer elsewhere may wait. What
// an owner reads beside its own write hold is no way in.
func (sc *section) share(ent *entry, op *acquireOp) bool {
	if ent == nil || ent.children() == nil || ent.First() != nil || ent.hold != nil || ent.Forcing() ||
		sc.eng.cfg.NoHandOff || sc.eng.closing.Load() {
		return false
	}
	child := ent.children().last
	if child == nil || child.hold == nil {
		return false
	}
	h, now := child.hold, sc.eng.clock.Now()
	if !op.set.Compatible(h.Terms()) || op.set.Replicas() > h.SeenBy() || !h.shareable(op.set, now) ||
		h.TenureOver(now) {
		return false
	}
	return sc.join(h, op, now)
}

// shareable reports whether a read hold is as good as a new one with these settings. The lease is the same:
// the key of a hold lives as long as its handles ask for, and a share costs no command.
func (h *hold) shareable(set *settings, now clock.Instant) bool {
	return traits(h.Family).Shared && h.Held() && !h.ForceReleased() && set.Watchdog &&
		h.Renewing() && set.Lease == h.Lease() &&
		h.Deadline().Sub(now) >= h.Lease()/2 && !h.Indeterminate().MayRunAfter(now)
}

// join adds a reader to a hold that is renewed, and is to be for the reader, too. Readers with fixed leases have holds
// of their own: each is to keep its own end, and a hold that one of its readers leaves is not lowered on the server.
func (sc *section) join(h *hold, op *acquireOp, at clock.Instant) bool {
	if !op.claim() {
		return true
	}
	sc.sh.counts.grants++
	sc.sh.counts.handOffs++
	ls := &Lease{hold: h, set: op.set, from: op.ctx, owner: op.lease.owner}
	sc.leaseJoined(h, ls, 0) // it is renewed: no answer counts for it
	h.readBy(op.lease.owner)
	h.ShareJoined()
	sc.grant(op, ls, at, at)
	return true
}

// joinAll lets in those readers who waited for the grant, up to the first who is none or cannot join. Whose owner
// reads by now and must not enter again is refused.
func (sc *section) joinAll(ent *entry, h *hold, at clock.Instant) {
	for op := ent.head(); op != nil && op.set.Watchdog && op.set.Compatible(h.Terms()) &&
		op.set.Replicas() <= h.SeenBy(); op = ent.head() {
		ent.Unlink(&op.Waiter)
		if op.set.once && h.readsFor(op.lease.owner) > 0 {
			sc.refuse(op, ErrReentry)
			continue
		}
		sc.join(h, op, at)
	}
}

// readBy counts the handles of owners.
func (h *hold) readBy(o *Owner) {
	if o == nil {
		return
	}
	m := h.ensureExtra()
	if m.readers == nil {
		m.readers = make(map[*Owner]int32)
	}
	m.readers[o]++
}

// dropHandle takes one of several readers out.
func (sc *section) dropHandle(h *hold, ls *Lease) {
	h.ShareLeft()
	if ls == nil {
		return
	}
	if ls.owner != nil {
		h.extra.readers[ls.owner]--
	}
}

// reenterOrRefuse answers an owner who holds the name here already, or has lost it. It says whether it did. It decides
// for every op of an owner that comes to a queue, for the first time or again: what the owner holds now counts, not
// what it held when it asked. Whom the server grants what was asked for before has its way in: of that one only lostTo
// is asked.
func (sc *section) reenterOrRefuse(ent *entry, op *acquireOp) bool {
	read, other, over := ent.holdsOf(op.lease.owner)
	want, now := op.set.family, clock.Instant(0)
	if read != nil {
		now = sc.eng.clock.Now()
	}
	// A loss first: its handles are to be given back before anybody enters. Then the ways in: to share costs no command.
	switch {
	case lostBy(read, other) && (over || op.lease.owner.hasLost(sc.eng, op.lock.key)):
		sc.refuse(op, ErrLost)
	case read == nil && other == nil:
		return false
	case op.set.once:
		sc.refuse(op, ErrReentry)
	case read != nil && together(read.Family, want) && op.set.Replicas() <= read.SeenBy() &&
		read.shareable(op.set, now):
		sc.join(read, op, now)
	case other != nil && beside(other.Family, want):
		sc.downgrade(other, op)
	case read != nil && beside(read.Family, want):
		sc.downgrade(read, op)
	case other != nil && entersAs(other.Family, want):
		sc.reenter(other, op)
	case read != nil && upgrades(read.Family, want):
		sc.refuse(op, ErrUpgrade)
	default:
		sc.refuse(op, ErrWrongKind)
	}
	return true
}

// lostTo reports whether an owner has lost a name: it still has a handle of a lost hold there, and none of another.
func (ent *entry) lostTo(o *Owner) bool {
	if o == nil {
		return false
	}
	read, other, over := ent.holdsOf(o)
	return lostBy(read, other) && (over || o.hasLost(ent.eng, ent.key))
}

// lostBy reports whether an owner that holds these has a handle of none.
func lostBy(read, other *hold) bool { return read == nil && (other == nil || other.Out() == 0) }

// holdsOf returns what an owner holds under a name, to read and otherwise, and whether a hold of the owner's is over
// that the watchdog did not come to yet. It is lost to whoever asks, so nothing is entered by it. One whose last handle
// is just given back is none.
func (ent *entry) holdsOf(o *Owner) (read, other *hold, over bool) {
	if ent == nil || o == nil {
		return nil, nil, false
	}
	for at := range ent.withChildren {
		h := at.hold
		switch {
		case h == nil || !h.Held() || h.owner != o && h.readsFor(o) == 0 ||
			h.reentry() != nil && h.reentry().leaving:
		case !ent.eng.clock.Now().Before(h.Deadline()):
			over = true
		case traits(h.Family).Shared:
			read = h
		default:
			other = h
		}
	}
	return read, other, over
}

// readsFor counts the handles with which an owner reads under a name.
func (ent *entry) readsFor(o *Owner) (handles int32) {
	for child := ent.firstChild(); child != nil; child = child.nextChild() {
		if h := child.hold; h != nil && h.Held() && ent.eng.clock.Now().Before(h.Deadline()) {
			handles += h.readsFor(o)
		}
	}
	return handles
}

// isDowngraded reports whether somebody reads beside a write hold, or asks to: its owner.
func (h *hold) isDowngraded() bool {
	for child := h.ent.firstChild(); child != nil; child = child.nextChild() {
		if child.hold != nil || child.First() != nil || child.Attempt() != nil {
			return true
		}
	}
	return false
}

// closeNote takes back the note that a writer of this engine waits, if none does any more: readers who
// wait here or elsewhere are told.
func (sc *section) closeNote(ent *entry) {
	if ent.children() != nil && ent.children().noted && !ent.WriterNext() {
		ent.children().noted = false
		note := lockRef{resp.NoteField(sc.eng.id), resp.FamilyWrite}
		sc.clean(ent, note, lockstate.Indeterminate{}, 0)
	}
}

// lostNote takes back the note of a writer that had to wait and has lost the lock by now: no release comes that would.
func (sc *section) lostNote(ent *entry) {
	if s := ent.children(); s != nil && s.notedHold {
		s.noted, s.notedHold = true, false
		sc.closeNote(ent)
	}
}

// downgrade asks for a read hold of an owner's own beside a hold that it has: an acquire like any other,
// under an owner id that was never used before, but let in whoever waits. It has a child, for the queue of the
// name is closed, or is not its own.
func (sc *section) downgrade(h *hold, op *acquireOp) {
	child := h.ent.root().newChild()
	child.children().beside = h
	sc.besideLasts(h, op.set.Lease)
	sc.limitWait(op)
	op.moveTo(child)
	op.Newcomer() // nobody is in its way any more: it waits for an answer, as a newcomer does
	child.Push(&op.Waiter)
	sc.watchWait(op)
	if h.reentry() != nil && traits(h.Family).ReadsToo {
		sc.refuseBehind(h)
	}
	sc.advance(child)
}

// besideLasts notes on a write hold that the key lives for a lease, because something beside it asks for that. It need
// not be there any more when the write hold is lost: no release but the write hold's ends the key then.
func (sc *section) besideLasts(h *hold, lease time.Duration) {
	if w := h.ent.root().hold; w != nil {
		sc.asksFor(w, lease)
	}
}

// besideHold is the hold that a child asks to read beside.
func (ent *entry) besideHold() *hold {
	if ent.children() == nil {
		return nil
	}
	return ent.children().beside
}

// Inside is the field of that hold. It runs on the lane: neither changes while the attempt is on its way.
func (a *attempt) Inside() string { return a.ent.children().beside.Field }

// downgradeAsked reports whether the owner of a write hold has asked to read beside it, and has no answer.
func (h *hold) downgradeAsked() bool {
	if !traits(h.Family).ReadsToo {
		return false
	}
	for child := h.ent.root().firstChild(); child != nil; child = child.nextChild() {
		if child.children().beside == h && (child.First() != nil || child.Attempt() != nil) {
			return true
		}
	}
	return false
}

// besideBusy follows the answer that the hold a reading was to stand beside is not on the server. If
// it is believed here, it is lost; else its owner has given it back meanwhile. What the owner has by now decides: it
// may write, and the reader would wait for its own owner. If it has nothing, the reader waits like others.
func (sc *section) besideBusy(child *entry) *loss {
	if h := child.children().beside; h.Held() {
		return sc.lose(h, renew.CauseNotOurs) // answers who asked to read beside it
	}
	root, op := child.root(), child.live()
	sc.dropAttempt(child)
	if op != nil {
		child.Unlink(&op.Waiter)
		op.moveTo(nil)
	}
	switch {
	case op == nil || op.lease.owner != nil && sc.reenterOrRefuse(root, op):
	case !op.Try:
		root.Push(&op.Waiter)
	default:
		sc.refuseTry(op, root)
	}
	sc.tidy(child)
	sc.advance(root)
	return nil
}

// downgradeAnswered lets a hold go on when what its owner asked to read beside it has its answer.
func (sc *section) downgradeAnswered(child *entry) {
	h := child.besideHold()
	if h == nil {
		return
	}
	child.children().beside = nil
	if h.reentry() != nil && h.Held() {
		sc.nextChange(h.reentry())
	}
}

// failDowngrades tells those who asked to read beside a hold that it is lost.
func (sc *section) failDowngrades(h *hold, err error) {
	if !traits(h.Family).Halved() {
		return
	}
	for child := h.ent.root().firstChild(); child != nil; {
		next := child.nextChild()
		if child.children().beside == h {
			sc.failSome(child, func(*acquireOp) error { return err })
			sc.tidy(child)
		}
		child = next
	}
}
