package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"weak"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A listener is who the watchdog tells. It is no part of the engine's API.
type listener struct{ eng *Engine }

// Lost is the watchdog's word that a hold is over: final. The holder is told before anybody here can
// be granted the lock again.
func (l listener) Lost(s renew.Subject, cause renew.Cause) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	sc.lost = sc.lose(h, cause)
	sc.unlock()
	sc.tellLoss()
	l.eng.world.Yield("listener.Lost: freed | told")
	sc.publish()
}

// Jeopardy is the watchdog's word that two periods have passed without a success.
func (l listener) Jeopardy(s renew.Subject) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	held := h.Held() && h.Handles() > 0 // else it was given back or lost since the watchdog looked
	if held {
		l.eng.tell(EventJeopardy, h, "")
	}
	sc.leave()
	if !held {
		return
	}
	l.eng.log(slog.LevelWarn, "holdfast: lock in jeopardy, no renewal was answered for two periods",
		h.ent.unrenewed()...)
}

// renewals is what is counted of renewals. A shard's mutex for each of a million would cost more than all else that the
// engine does with them.
type renewals struct {
	mu  sync.Mutex // taken inside no other
	lag Histogram
}

// Renewed follows renewals: some look whether anybody can release the lease yet.
func (l listener) Renewed(all []renew.Success) {
	r := &l.eng.renewals
	var due []*hold
	r.mu.Lock()
	for i := range all {
		r.lag.add(all[i].Lag)
		h := all[i].Subject.(*hold)
		if h.ent.renewals++; looksAt(h.ent.renewals) {
			due = append(due, h)
		}
	}
	r.mu.Unlock()
	for _, h := range due {
		l.look(h)
	}
}

// look looks whether anybody can release the lease of a hold yet.
func (l listener) look(h *hold) {
	r := &l.eng.renewals
	r.mu.Lock()
	count := h.ent.renewals
	r.mu.Unlock()
	leaked := false
	sc := l.eng.enter(h.ent.hash)
	if h.Held() && !h.Lingers() { // else released or lost meanwhile
		if leaked, count = h.checkLeak(sc.sh, count); leaked {
			sc.sh.counts.leaks++
		}
	} else {
		count = 0
	}
	sc.leave()
	r.mu.Lock()
	h.ent.renewals = count
	r.mu.Unlock()
	if leaked {
		l.eng.log(slog.LevelError, "holdfast: a lease was dropped without Release; it is renewed until MaxHold or Close",
			h.ent.named()...)
	}
}

const (
	// leakAfter is after how many renewals only the user keeps the lease alive: about two leases. A weak pointer
	// takes 40 bytes and more time than a renewal: what is released sooner never has one.
	leakAfter = 6
	// leakEvery is how many renewals then come to one look: to ask the collector costs half a renewal.
	leakEvery = 4
	// leakShare is how many renewals of a shard come to one weak pointer, once leakFree are made: among many the
	// collector needs microseconds to find its place.
	leakShare, leakFree = 32, 16
	// leakWeak is set in entry.renewals once the pointer is weak.
	leakWeak = 0x80
)

// looksAt reports whether so many renewals are enough for a look.
func looksAt(count uint8) bool {
	return count >= leakWeak+leakEvery || count >= leakAfter && count < leakWeak
}

// affordsWeak says whether one of the shard's holds may have its weak pointer now.
func (sh *shard) affordsWeak() bool {
	if sh.weakDebt > (leakFree-1)*leakShare {
		return false
	}
	sh.weakDebt += leakShare
	return true
}

// checkLeak reports whether it finds, for the first time, that nobody can release the lease any more; and from where
// renewals are counted to the next look.
func (h *hold) checkLeak(sh *shard, count uint8) (found bool, next uint8) {
	sh.weakDebt = max(sh.weakDebt-leakEvery, 0) // a look stands for so many renewals
	switch {
	case h.lease != nil && count&^leakWeak < leakAfter: // another hold of the name had the weak one
		return false, count &^ leakWeak
	case h.lease != nil && !sh.affordsWeak():
		return false, leakAfter - leakEvery
	case h.lease != nil:
		h.weak, h.lease = weak.Make(h.lease), nil
		return false, leakWeak
	}
	return h.watches() == nil && h.reentry() == nil && h.weak.Value() == nil && h.LeakFound(), leakWeak
}

// Outlasted is the watchdog's word that a renewal may have come behind the command that lowered the key's expiry. A
// read hold is never lowered, nor is one that never changed.
func (l listener) Outlasted(s renew.Subject) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	if h.Held() && !traits(h.Family).Shared && h.reentry() != nil {
		sc.settleCount(h)
	}
	sc.leave()
}

// Ended is the watchdog's word that a MaxHold has passed. The other handles of the hold go on.
func (l listener) Ended(s renew.Subject) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	defer sc.leave()
	if h.Held() && !h.allCompatible() {
		sc.tellWatchdog(h)
	}
}

// lose makes a hold lost; nil if it is over already. All that anybody can ask about is decided here in
// one step: the status, which handles are out, and that their owners must give them back before they get
// the lock anew. The hold keeps the queue closed until tellLoss.
func (sc *section) lose(h *hold, cause renew.Cause) *loss {
	if !h.Lose(uint8(cause)) {
		return nil
	}
	sc.endPiece(h)
	sc.eng.watchdog.Forget(h)
	h.ent.LossBegun()
	h.ent.Lost()
	if h.Lingers() {
		sc.sh.counts.lingersLost++
	} else {
		sc.lostOne(h)
	}
	sc.traceEnds(h, fmt.Errorf("%w: %s", ErrLost, causeText(cause)))
	sc.sh.pending++ // Close waits until the holder is told
	var in, back error = ErrClosed, nil
	if cause != renew.CauseClosed {
		back = h.lostFor(causeError(cause))
		in = back
	}
	sc.endChanges(h, in, back)
	sc.failDowngrades(h, in)
	h.owner.remember(sc.eng, h.ent.key, h.Count())
	if h.extra != nil {
		for o, n := range h.extra.readers {
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
	for ent := range root.withChildren {
		for op := range ent.ops {
			o := op.lease.owner
			if o != nil && (o == h.owner || h.readsFor(o) > 0) && root.lostTo(o) {
				ent.Unlink(&op.Waiter)
				sc.refuse(op, ErrLost)
			}
		}
		sc.tidy(ent)
	}
}

// tellLoss is the second half of a loss: the holder is told, and then the lock may be granted here again. Called
// without the mutex.
func (sc *section) tellLoss() {
	e, l := sc.eng, sc.lost
	if l == nil {
		return
	}
	for _, c := range l.contexts {
		e.world.Yield("section.tellLoss: lost | a context cancelled")
		c.cancel(ErrLost)
	}
	if l.cause != renew.CauseClosed && !l.hold.Lingers() { // nobody had that
		about := l.hold.ent.named()
		if l.cause == renew.CauseDeadline && l.hold.Renewing() {
			about = l.hold.ent.unrenewed()
		}
		e.log(slog.LevelWarn, "holdfast: lock lost", append(about, "cause", causeText(l.cause))...)
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
	h.ent.LossTold()
	if !h.Lingers() {
		sc.eng.tell(EventLost, h, causeText(l.cause))
	}
	ends := h.AfterLoss(lossOf(l.cause, traits(h.Family)))
	switch ends {
	case lockstate.FollowUpRelease:
		sc.clean(h.ent, h.lockRef(), h.Indeterminate(), h.maxRemoteLife(sc.eng.clock.Now()))
	case lockstate.FollowUpReleaseLater:
		sc.cleanLater(h.ent, h.lockRef(), h.Indeterminate(), h.Lease())
	}
	if traits(h.Family).Mark == lockstate.MarkNote && ends != lockstate.FollowUpRelease && l.cause != renew.CauseClosed {
		sc.lostNote(h.ent)
	}
	if h.ent.freed(h) {
		sc.advanceAll(h.ent)
	}
	sc.answered()
}

// lostUnseen follows the answer to a release which says that the lock was lost before: until then nobody has told of
// that.
func (sc *section) lostUnseen(h *hold, cause renew.Cause) {
	if h.Lingers() { // nobody had it
		sc.sh.counts.lingersLost++
		return
	}
	sc.lostOne(h)
	sc.eng.tell(EventLost, h, causeText(cause))
	about := append(h.ent.named(), "cause", causeText(cause))
	eng := sc.eng // sc stays on the stack
	sc.more = append(sc.more, func() { eng.log(slog.LevelWarn, "holdfast: lock lost, as its release found", about...) })
}

// lossOf says what the machines have to know of a cause. Of what has parts the server may still have some.
func lossOf(c renew.Cause, f *family) lockstate.Loss {
	switch {
	case c == renew.CauseDeadline, c == renew.CauseNotOurs && f.parts:
		return lockstate.LossDeadline
	case c == renew.CauseClosed, c == renew.CauseForced && f.Many: // who takes permits away gives back what is left
		return lockstate.LossKept
	default:
		return lockstate.LossTaken
	}
}

// named is what the log says of any lock: its name.
func (ent *entry) named() []any { return []any{"name", resp.Printable(ent.eng.nameOf(ent.key))} }

// unrenewed is what the log says of a lock whose renewals fail: its name, the server, and what that said last.
func (ent *entry) unrenewed() []any {
	node := ent.eng.nodes.Owner(ent.slot)
	about := append(ent.named(), "server", node.Addr())
	if failed := node.RenewalError(); failed != nil {
		about = append(about, "error", unprefixed(failed))
	}
	return about
}

// closeHold ends a hold because the engine closes, and returns the contexts to be cancelled. All of it
// is one step: whatever comes afterwards (a handle's release, the answer to a change, a loss) finds a hold
// that is over.
func (sc *section) closeHold(h *hold) []*leaseContext {
	if h.ent.lingering() == h { // nobody has it any more who could keep it
		sc.endLinger(h)
		return nil
	}
	if sc.eng.cfg.KeepOnClose {
		l := sc.lose(h, renew.CauseClosed)
		if l == nil {
			return nil
		}
		sc.afterLoss(l)
		return l.contexts
	}
	if !h.Held() { // its holder is just being told of the loss
		return nil
	}
	for range h.Handles() { // those whose release is only on its way were told of
		sc.eng.tell(EventReleased, h, "")
	}
	sc.endChanges(h, ErrClosed, nil)
	sc.traceEnds(h, nil)
	_, _ = sc.sendRelease(newReleaseOp(h)) // nobody waits for its answer but shutDown
	return h.contexts()
}
