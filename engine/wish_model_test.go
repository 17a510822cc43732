package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// A wishWorld is the wishes of one hold, its key's expiry, and a twin: one handle after the other.
type wishWorld struct {
	t        *rapid.T
	now      clock.Instant
	ws       wishes
	deadline clock.Instant // what the hold is trusted until
	expiry   clock.Instant // of the key
	handles  []*wishing
}

// wishing is one handle as its caller knows it.
type wishing struct {
	ls      *Lease
	set     *lockstate.Terms
	until   clock.Instant // MaxHold
	stopped bool
	trusted clock.Instant // of one that is not renewed
}

func (h *wishing) renewed(now clock.Instant) bool {
	return h.set.Watchdog && !h.stopped && (h.until == 0 || now.Before(h.until))
}

func (w *wishWorld) enter() {
	set := &lockstate.Terms{
		Lease:    rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, 30 * time.Second, time.Hour}).Draw(w.t, "lease"),
		Watchdog: rapid.Bool().Draw(w.t, "watchdog"),
	}
	if rapid.Bool().Draw(w.t, "limited") {
		set.MaxHold = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(w.t, "max hold")
	}
	h := &wishing{ls: &Lease{}, set: set}
	if set.Watchdog && set.MaxHold > 0 {
		h.until = w.now.Add(set.MaxHold)
	}
	if !set.Watchdog {
		h.trusted = renew.TrustUntil(w.now, set.Lease)
	}
	w.handles = append(w.handles, h)
	w.ws.add(h.ls, set, w.now, w.now)
	w.prove(set.Lease)
}

// begin makes handles that want the very same: of a hold that had no list of wishes so far.
func (w *wishWorld) begin() {
	set := &lockstate.Terms{Lease: 3 * time.Second, Watchdog: true}
	n := rapid.IntRange(1, 3).Draw(w.t, "alike")
	for range n {
		w.handles = append(w.handles, &wishing{ls: &Lease{}, set: set})
	}
	w.ws = wishes{{set: set, handles: int32(n)}}
	w.prove(set.Lease)
}

// prove is an answered command that raises the key's expiry to a lease.
func (w *wishWorld) prove(lease time.Duration) {
	w.expiry = max(w.expiry, w.now.Add(lease))
	w.deadline = max(w.deadline, renew.TrustUntil(w.now, lease))
}

func (w *wishWorld) some() *wishing {
	return w.handles[rapid.IntRange(0, len(w.handles)-1).Draw(w.t, "whose")]
}

// leave gives a handle back: the key is to live for as long as the others ask for.
func (w *wishWorld) leave() {
	h := w.some()
	w.handles = slices.DeleteFunc(w.handles, func(o *wishing) bool { return o == h })
	w.ws.leave(h.ls)
	if len(w.handles) == 0 {
		return
	}
	keep := w.ws.keeps().at(w.now)
	w.deadline = min(w.deadline, w.ws.keeps().trusted(w.now))
	w.expiry = min(w.expiry, w.now.Add(keep))
	longest := MinFixedLease
	for _, o := range w.handles {
		if o.renewed(w.now) {
			longest = max(longest, o.set.Lease)
		} else {
			longest = max(longest, renew.LeaseFor(o.trusted.Sub(w.now)))
		}
	}
	if w.expiry > w.now.Add(longest) {
		w.t.Fatalf("the key lives for %v, and nobody asks for more than %v", w.expiry.Sub(w.now), longest)
	}
}

func (w *wishWorld) stop() {
	h := w.some()
	w.ws.stop(h.ls, w.now, w.deadline)
	if h.renewed(w.now) {
		h.trusted = min(w.deadline, renew.TrustUntil(w.now, h.set.Lease))
	}
	h.stopped = true
}

func (w *wishWorld) extend() {
	h := w.some()
	if h.set.Watchdog {
		return
	}
	d := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(w.t, "extend")
	h.trusted = max(h.trusted, renew.TrustUntil(w.now, d))
	w.prove(d)
	w.ws.extend(h.ls, renew.TrustUntil(w.now, d))
}

// pass lets time go by, with the renewals that are due, and what ends.
func (w *wishWorld) pass() {
	steps := rapid.IntRange(1, 40).Draw(w.t, "steps")
	for range steps {
		w.now = w.now.Add(250 * time.Millisecond)
		for _, h := range w.handles {
			if h.until != 0 && !w.now.Before(h.until) && !h.stopped {
				h.trusted, h.stopped = min(w.deadline, renew.TrustUntil(h.until, h.set.Lease)), true
			}
		}
		w.ws.pass(w.now, w.deadline)
		if c := w.ws.care(); c.renew {
			w.prove(c.lease)
		}
	}
}

func (w *wishWorld) check() {
	var want care
	for _, h := range w.handles {
		if h.renewed(w.now) {
			want.renew = true
			want.lease = max(want.lease, h.set.Lease)
		}
	}
	got := w.ws.care()
	if got.renew != want.renew || want.renew && got.lease != want.lease {
		w.t.Fatalf("renewed %v with %v, wanted %v with %v", got.renew, got.lease, want.renew, want.lease)
	}
	if w.expiry < w.deadline {
		w.t.Fatalf("trusted for %v longer than the key lives", w.deadline.Sub(w.expiry))
	}
	for _, h := range w.handles {
		switch {
		case h.renewed(w.now) && w.deadline < renew.TrustUntil(w.now.Add(-250*time.Millisecond), h.set.Lease):
			w.t.Fatalf("a watchdog lease of %v is trusted for %v", h.set.Lease, w.deadline.Sub(w.now))
		case !h.renewed(w.now) && w.deadline < h.trusted:
			w.t.Fatalf("a lease is trusted for %v less than it was promised", h.trusted.Sub(w.deadline))
		}
	}
}

// Random handles come, go, are extended and stopped: the hold is renewed with the longest of their wishes, and
// its key lives as long as those that remain ask for, no less, no longer.
func TestModelWishes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &wishWorld{t: t, now: clock.Instant(time.Hour)}
		w.begin()
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			if len(w.handles) == 0 {
				return
			}
			rapid.SampledFrom([]func(){w.enter, w.leave, w.stop, w.extend, w.pass}).Draw(t, "event")()
			w.check()
		}
	})
}
