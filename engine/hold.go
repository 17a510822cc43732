package engine

import (
	"context"
	"log/slog"
	"time"
	"weak"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
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
	return max(h.Lease, h.Deadline().Sub(now)+h.Lease, h.open().lease)
}

// freeBy is when the server has let go at the latest.
func (h *hold) freeBy() clock.Instant { return h.Deadline().Add(max(h.Lease, h.open().lease)) }

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

// Lost is the watchdog's word that a hold is over: final. The holder is told before anybody here can
// be granted the lock again.
func (e *Engine) Lost(s renew.Subject, cause renew.Cause) {
	h := s.(*hold)
	if !h.end(holdLost) {
		return
	}
	sh := e.shard(h.ent.hash)
	sh.mu.Lock()
	contexts := h.contexts()
	sh.mu.Unlock()
	for _, c := range contexts {
		c.cancel(ErrLost)
	}
	if cause != renew.CauseClosed {
		e.log(slog.LevelWarn, "holdfast: lock lost", "name", e.nameOf(h.ent.key), "cause", causeText(cause))
	}

	var fx effects
	sh.mu.Lock()
	sh.counts.lost++
	e.tell(EventLost, h, causeText(cause))
	lost := &nameError{e.nameOf(h.ent.key), ErrLost}
	left := h.count - h.nesting.endLocked(lost, lost, &fx)
	h.owner.remember(e, h.ent.key, left)
	if h.special != nil {
		for o, n := range h.special.readers {
			o.remember(e, h.ent.key, n)
		}
	}
	switch h.afterLoss(cause) {
	case endsNow:
		e.cleanLocked(sh, h.ent, h.wire(), h.open(), h.tail(e.clock.Now()))
	case endsLater:
		e.cleanLaterLocked(sh, h.ent, h.wire(), h.open(), h.Lease)
	}
	if h.ent.freed(h) {
		e.kickAllLocked(sh, h.ent, &fx)
	}
	sh.mu.Unlock()
	fx.run()
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

// Jeopardy is the watchdog's word that two periods have passed without a success.
func (e *Engine) Jeopardy(s renew.Subject) {
	h := s.(*hold)
	e.tell(EventJeopardy, h, "")
	e.log(slog.LevelWarn, "holdfast: lock in jeopardy, no renewal was answered for two periods", "name", e.nameOf(h.ent.key))
}

// Renewed follows each renewal. From the first on, only the user keeps the lease alive; when a later
// one finds it gone, nobody can release it any more.
func (e *Engine) Renewed(s renew.Subject) {
	h := s.(*hold)
	sh := e.shard(h.ent.hash)
	leaked := false
	sh.mu.Lock()
	switch {
	case h.status.Load() != holdHeld: // released or lost meanwhile
	case h.lease != nil:
		h.weak, h.lease = weak.Make(h.lease), nil
	case !h.leak && h.watch == nil && h.nesting == nil && h.weak.Value() == nil:
		h.leak, leaked = true, true
		sh.counts.leaks++
	}
	sh.mu.Unlock()
	if leaked {
		e.log(slog.LevelError, "holdfast: a lease was dropped without Release; it is renewed until MaxHold or Close", "name", e.nameOf(h.ent.key))
	}
}

// log speaks to the user's logger from a callback worker: a handler may block, the watchdog may not.
func (e *Engine) log(level slog.Level, text string, args ...any) {
	if e.logger.Enabled(context.Background(), level) {
		e.callbacks.add(func() { e.logger.Log(context.Background(), level, text, args...) })
	}
}
