package engine

import (
	"log/slog"
	"weak"

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
	held := h.status.Load() == holdHeld && h.handles > 0 // else it was given back or lost since the watchdog looked
	if held {
		l.eng.tell(EventJeopardy, h, "")
	}
	sc.leave()
	if !held {
		return
	}
	l.eng.log(slog.LevelWarn, "holdfast: lock in jeopardy, no renewal was answered for two periods", "name", resp.Printable(l.eng.nameOf(h.ent.key)))
}

// Renewed follows each renewal. From the first on, only the user keeps the lease alive; when a later
// one finds it gone, nobody can release it any more.
func (l listener) Renewed(s renew.Subject) {
	h := s.(*hold)
	leaked := false
	sc := l.eng.enter(h.ent.hash)
	switch {
	case h.status.Load() != holdHeld: // released or lost meanwhile
	case h.lease != nil:
		h.weak, h.lease = weak.Make(h.lease), nil
	case !h.leak && h.watch == nil && h.nesting == nil && h.weak.Value() == nil:
		h.leak, leaked = true, true
		sc.sh.counts.leaks++
	}
	sc.leave()
	if leaked {
		l.eng.log(slog.LevelError, "holdfast: a lease was dropped without Release; it is renewed until MaxHold or Close", "name", resp.Printable(l.eng.nameOf(h.ent.key)))
	}
}

// Outlasted is the watchdog's word that a renewal may have come behind the command that lowered the key's expiry. A read hold
// is never lowered, nor is one that never changed.
func (l listener) Outlasted(s renew.Subject) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	if h.status.Load() == holdHeld && h.Family != resp.FamilyRead && h.nesting != nil {
		sc.settleCount(h)
	}
	sc.leave()
}

// Ended is the watchdog's word that a MaxHold has passed. The other handles of the hold go on.
func (l listener) Ended(s renew.Subject) {
	h := s.(*hold)
	sc := l.eng.enter(h.ent.hash)
	defer sc.leave()
	if h.status.Load() == holdHeld && !h.alikeSoFar() {
		sc.tellWatchdog(h)
	}
}
