package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Hand-off: a released lock may go straight to the next waiter of this engine. The field in Redis
// stays, the lease goes on, no command is sent; the new handle takes the hold's present deadline, so
// belief ends when it would have ended anyway. A turn bounds how long one engine may go on so.
const (
	turnLeast  = 20 * time.Millisecond
	turnMost   = 200 * time.Millisecond
	turnGrants = 256
	// courtesyLeast is how long an engine that gave a wanted lock back leaves it to the others: its
	// own next acquire would win every race against one that first has to hear the message.
	courtesyLeast = 2 * time.Millisecond
	courtesyMost  = 20 * time.Millisecond
)

// turnEnd is when an engine's turn with a lock is over: it begins with the server's answer to the
// acquire, and renewals do not prolong it.
func turnEnd(r *resp.Result) clock.Instant {
	return r.ReceivedAt.Add(min(max(10*r.ReceivedAt.Sub(r.SentAt), turnLeast), turnMost))
}

// handOver gives a hold that is being released to the next waiter here, if that is as safe as
// a release and a new acquire, and says whether it did. Only the first live waiter is asked, claimed by
// one compare-and-swap against its cancel, its timeout and Close, and only if it wants the very same kind
// of lease.
func (sc *section) handOver(h *hold) bool {
	ent := h.ent
	if ent.head == nil {
		return false
	}
	with := handing{
		deadline: h.Deadline(), lease: h.Lease(), family: h.Family, off: sc.eng.cfg.NoHandOff || sc.eng.closing.Load(),
		renewing: h.Renewing() && h.Lease() == h.set.lease, reads: h.Family == resp.FamilyWrite && h.readsToo(),
	}
	if !with.off {
		with.now = sc.eng.clock.Now()
		with.unlowered = h.nesting != nil && h.nesting.unlowered
	}
	if h.mayHandOver(with) != handOverSafe {
		return false
	}
	op := ent.claimAlike(h)
	if op == nil {
		return false
	}
	h.passed(op.set)
	ent.passed()
	h.owner = op.owner
	if limit := op.set.maxHold; limit > 0 {
		sc.eng.dog.Change(h, renew.Terms{Lease: op.set.lease, Renew: true, Until: with.now.Add(limit)})
	} else if !h.alikeSoFar() {
		sc.eng.dog.Change(h, renew.Terms{Lease: op.set.lease, Renew: true})
	}
	sc.only(h)
	ls := &Lease{hold: h, lock: op.lock, ctx: op.ctx, owner: op.owner}
	h.lease, h.leak = ls, false
	sc.sh.counts.grants++
	sc.sh.counts.handOffs++
	sc.sh.counts.releases++
	sc.grant(op, ls)
	sc.admitSameOwner(h)
	return true
}

// alike reports whether leases of both settings may follow each other under one hold.
func (s *settings) alike(o *settings) bool {
	return s.family == o.family && s.lease == o.lease && s.watchdog == o.watchdog && s.maxHold == o.maxHold
}

// yieldName keeps this engine from asking for a name for a moment, if somebody else was heard
// to wait for it. Without others nothing changes: one engine alone never waits.
func (sc *section) yieldName(op *releaseOp, r *resp.Result) {
	h := op.hold
	ent := h.ent.root()
	if sc.eng.closing.Load() {
		return
	}
	us := int64(0)
	if r.Value == 1 && sc.eng.listens(ent, h.Family) {
		us = 1
	}
	ent.others = leaveTo
	if sc.eng.nodes.Counted() {
		ent.others = uint8(min(max(r.Value-us, 0), leaveTo))
	}
	spins := h.Family == resp.FamilySpin && ent.rivals(r.ReceivedAt)
	switch {
	case !spins && !ent.othersWait(sc.eng.nodes.Counted(), r.Value, us):
		if ent.alone(us == 1) {
			sc.sh.counts.messages++
			sc.eng.timers.Cancel(&ent.park.item)
			sc.eng.prompt.Cancel(&ent.park.prompt)
		}
		return
	case ent.ask == askFlying || ent.goesOn(r.ReceivedAt): // the turn's next grant is on its way, or may be
		return
	}
	if ent.park == nil {
		ent.park = newParking(ent)
	}
	least := courtesyLeast
	switch {
	case spins:
		least = spinsFor
	case op.op.Left:
		least = leftFor
	}
	ent.courtesy()
	sc.pause(ent.park, courtesyEnd(r, least))
}

// courtesyEnd is when an engine that gave a lock back may ask for it again: whoever hears of that over as long a way as ours
// has asked before.
func courtesyEnd(r *resp.Result, least time.Duration) clock.Instant {
	return r.ReceivedAt.Add(min(max(2*r.ReceivedAt.Sub(r.SentAt), least), courtesyMost))
}
