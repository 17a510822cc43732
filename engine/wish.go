package engine

import (
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// A wish is what a handle of a hold asks for: a key that lives for its lease, renewed or not. Handles that
// want the very same share one.
//
// A key lives as long as the handles that remain ask for, no less, no longer. What follows from that for a
// hold is decided here, purely, from all its wishes.
type wish struct {
	who     *Lease           // whose it is; nil: of all handles that have none of their own
	set     *lockstate.Terms // the lease, and whether the watchdog renews it
	handles int32
	until   clock.Instant // the end of MaxHold: no renewals from then on; 0: none
	trusted clock.Instant // if it is not renewed: until when it may be trusted; 0: it is renewed
}

// wishes are those of one hold.
type wishes []wish

// A care is what is done for a hold because of its wishes.
type care struct {
	renew bool
	lease time.Duration // with which it is renewed, or the longest that is not
	until clock.Instant // when that is to be decided anew; 0: when a wish changes
}

// care is the longest lease of those that are to be renewed.
func (ws wishes) care() care {
	var c care
	for _, w := range ws {
		renewed := w.trusted == 0
		switch {
		case renewed && !c.renew:
			c = care{renew: true, lease: w.set.Lease, until: w.until}
		case renewed == c.renew:
			c.lease = max(c.lease, w.set.Lease)
			if w.until != 0 && (c.until == 0 || w.until < c.until) {
				c.until = w.until
			}
		}
	}
	return c
}

// keeps is what a key must be kept for so that every handle is served: the zero value says that there is none.
type keeps struct {
	lease time.Duration // of those that are renewed, at least MinFixedLease
	until clock.Instant // until when the others are trusted; 0: there are none
}

// at is the lease that the key must have at now; 0: there is no handle.
func (k keeps) at(now clock.Instant) time.Duration {
	if k.until == 0 {
		return k.lease
	}
	return max(k.lease, renew.LeaseFor(k.until.Sub(now)))
}

// trusted is until when the hold may be trusted whose key is lowered at now to what it must have: no handle was granted
// more.
func (k keeps) trusted(now clock.Instant) clock.Instant {
	return max(renew.TrustUntil(now, k.lease), k.until)
}

// keeps is what these ask for.
func (ws wishes) keeps() keeps {
	k := keeps{lease: MinFixedLease}
	for _, w := range ws {
		if w.trusted == 0 {
			k.lease = max(k.lease, w.set.Lease)
		} else {
			k.until = max(k.until, w.trusted)
		}
	}
	return k
}

// add is a further handle's wish, that was granted by what was sent at sentAt and answered at now.
func (ws *wishes) add(ls *Lease, set *lockstate.Terms, sentAt, now clock.Instant) {
	w := wish{who: ls, set: set, handles: 1}
	switch {
	case !set.Watchdog:
		w.trusted = renew.TrustUntil(sentAt, set.Lease)
	case set.MaxHold > 0:
		w.until = now.Add(set.MaxHold)
	default:
		if all := ws.common(); all >= 0 && (*ws)[all].same(set) {
			(*ws)[all].handles++
			return
		}
	}
	*ws = append(*ws, w)
}

// same reports whether a handle with these settings wants what this common wish asks for.
func (w *wish) same(set *lockstate.Terms) bool {
	return w.trusted == 0 && w.until == 0 && set.Plain() && set.Lease == w.set.Lease
}

// common is the wish of those that have none of their own; -1: there is none.
func (ws wishes) common() int { return slices.IndexFunc(ws, func(w wish) bool { return w.who == nil }) }

// of finds a handle's wish; -1: it has none.
func (ws wishes) of(ls *Lease) int {
	if own := slices.IndexFunc(ws, func(w wish) bool { return w.who == ls }); own >= 0 {
		return own
	}
	return ws.common()
}

// leave ends a handle's wish.
func (ws *wishes) leave(ls *Lease) {
	i := ws.of(ls)
	if i < 0 {
		return
	}
	if w := &(*ws)[i]; w.handles > 1 {
		w.handles--
		return
	}
	*ws = slices.Delete(*ws, i, i+1)
}

// stop ends the renewals for one handle, unless its MaxHold has. deadline is the hold's.
func (ws *wishes) stop(ls *Lease, now, deadline clock.Instant) {
	ws.pass(now, deadline)
	i := ws.of(ls)
	if i < 0 || (*ws)[i].trusted != 0 {
		return
	}
	w := (*ws)[i]
	ws.leave(ls)
	w.who, w.handles = ls, 1
	w.end(now, deadline)
	*ws = append(*ws, w)
}

// pass ends the renewals for those whose MaxHold has passed, from then on, however late that is noticed. It says
// whether there were any.
func (ws wishes) pass(now, deadline clock.Instant) (passed bool) {
	for i := range ws {
		if w := &ws[i]; w.until != 0 && !now.Before(w.until) {
			w.end(w.until, deadline)
			passed = true
		}
	}
	return passed
}

// end makes a wish one that is not renewed any more: it is trusted for what is left of its own lease, if
// the hold is.
func (w *wish) end(now, deadline clock.Instant) {
	w.until, w.trusted = 0, min(deadline, renew.TrustUntil(now, w.set.Lease))
}

// extend raises a fixed wish.
func (ws wishes) extend(ls *Lease, to clock.Instant) {
	if i := ws.of(ls); i >= 0 && ws[i].trusted != 0 {
		ws[i].trusted = max(ws[i].trusted, to)
	}
}
