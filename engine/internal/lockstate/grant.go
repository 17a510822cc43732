package lockstate

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Grant is what is known of the field in Redis under which this engine has a lock: an asking until
// it is granted, then held, and in the end released or lost.
//
// It is a pure state machine, as the queue is: it decides whether the lock may be passed on inside the
// engine, which count is to be on the wire, and what is to be sent when the hold is over. The engine
// sends, and tells it what was answered. Anybody may look at status at any time; only who has the shard's mutex
// moves it.
type Grant struct {
	status        atomic.Uint32
	handles       int32       // those that are out
	extra         *grantExtra // mostly nil
	tenureUntil   clock.Instant
	terms         *Terms // of the present lease
	count         int32  // handles
	onWire        int32  // the count in Redis, as last confirmed: more than the handles if a smaller one was refused
	grants        int16  // of this tenure
	seen          int16  // by how many replicas, as far as was asked
	forceReleased bool   // a ForceRelease is on its way
	leak          bool   // a leak was reported
	lingers       bool   // it was given back, and stays for the next who asks here
	piece         bool   // its lease is one piece with its acquire
}

// grantExtra is what few grants have.
type grantExtra struct {
	copies  *Indeterminate // late copies of the acquire may run: then one more release follows; nil: there are none
	changes *Changes       // of the count; nil: there never were any
}

// ensureExtra is its extra part, made if it has none.
func (w *Grant) ensureExtra() *grantExtra {
	if w.extra == nil {
		w.extra = &grantExtra{}
	}
	return w.extra
}

// A Status says what became of a grant. Held ends once, in one of the other two.
type Status uint32

const (
	Held Status = iota
	Released
	Lost
)

// Status is the present one. Any goroutine may ask.
func (w *Grant) Status() Status { return Status(w.status.Load() & statusOnly) }

// The status has what a grant was lost by above it: both are decided in one step.
const (
	statusOnly = 0xff
	causeShift = 8
)

// Held reports whether it is that. Any goroutine may ask.
func (w *Grant) Held() bool { return w.Status() == Held }

// End moves the status. Who gets false came second, and does nothing.
func (w *Grant) End(as Status) bool { return w.status.CompareAndSwap(uint32(Held), uint32(as)) }

// Lose is End as Lost, by what the engine will tell with LostBy.
func (w *Grant) Lose(cause uint8) bool {
	return w.status.CompareAndSwap(uint32(Held), uint32(Lost)|uint32(cause)<<causeShift)
}

// LostBy is what Lose was told; 0 before it. Any goroutine may ask.
func (w *Grant) LostBy() uint8 { return uint8(w.status.Load() >> causeShift) } //nolint:gosec // Lose had eight bits

// SetPiece notes whether its lease is one piece with its acquire.
func (w *Grant) SetPiece(is bool) { w.piece = is }

// Piece reports whether it is.
func (w *Grant) Piece() bool { return w.piece }

// Begin follows the grant, seen by so many replicas. copies: those of the acquire that may still run; nil: none was
// sent but the one that was answered. It is kept, and AsksFor writes into it.
func (w *Grant) Begin(terms *Terms, tenureUntil clock.Instant, seen int, copies *Indeterminate) {
	w.terms, w.tenureUntil, w.grants, w.handles = terms, tenureUntil, 1, 1
	if copies != nil {
		w.ensureExtra().copies = copies
	}
	w.count, w.onWire = 1, 1
	w.saw(seen)
}

// mostSeen is where counting replicas ends.
const mostSeen = 1000

// saw notes that so many replicas have what is held.
func (w *Grant) saw(replicas int) { w.seen = max(w.seen, int16(min(replicas, mostSeen))) } //nolint:gosec // in range

// SeenBy is how many have, as far as was asked.
func (w *Grant) SeenBy() int { return int(w.seen) }

// Terms are those of the present lease.
func (w *Grant) Terms() *Terms { return w.terms }

// SetTerms makes them others.
func (w *Grant) SetTerms(terms *Terms) { w.terms = terms }

// Count is how many handles there are, those among them that are just given back.
func (w *Grant) Count() int32 { return w.count }

// Handles is how many are out.
func (w *Grant) Handles() int32 { return w.handles }

// HandleJoined counts one more.
func (w *Grant) HandleJoined() { w.handles++ }

// HandleLeft counts one less.
func (w *Grant) HandleLeft() { w.handles-- }

// OnlyHandle follows a grant to the next holder, who has one.
func (w *Grant) OnlyHandle() { w.handles = 1 }

// ShareJoined follows a further handle of a shared grant. No command changes the count. With several handles no one of
// them is missed.
func (w *Grant) ShareJoined() {
	w.count++
	w.leak = true
}

// ShareLeft follows the end of one of several.
func (w *Grant) ShareLeft() { w.count-- }

// ForceBegun notes that a ForceRelease is on its way, which may take it.
func (w *Grant) ForceBegun() { w.forceReleased = true }

// ForceReleased reports whether one was.
func (w *Grant) ForceReleased() bool { return w.forceReleased }

// LeakFound notes that nobody can release it any more, and says whether that is news.
func (w *Grant) LeakFound() (news bool) {
	news, w.leak = !w.leak, true
	return news
}

// TenureOver reports whether this engine has had the lock for long enough. What lingers was given back before: it is
// passed on once more.
func (w *Grant) TenureOver(now clock.Instant) bool { return !w.lingers && !now.Before(w.tenureUntil) }

// AsksFor notes that a command may let the key live for so long, whatever its answer.
func (w *Grant) AsksFor(lease time.Duration) {
	r := w.ensureExtra()
	if r.copies == nil {
		r.copies = new(Indeterminate)
	}
	r.copies.Lease = max(r.copies.Lease, lease)
}

// Changes are those of its count; nil: it never changed.
func (w *Grant) Changes() *Changes {
	if w.extra == nil {
		return nil
	}
	return w.extra.changes
}

// Counting makes its count one that changes.
func (w *Grant) Counting(n *Changes) { w.ensureExtra().changes = n }

// Indeterminate is what is not known of the hold's owner id.
func (w *Grant) Indeterminate() Indeterminate {
	if w.extra == nil || w.extra.copies == nil {
		return Indeterminate{}
	}
	return *w.extra.copies
}

// A HandOffInput is what a hand-off depends on beside the grant.
type HandOffInput struct {
	Now, Deadline clock.Instant
	Lease         time.Duration
	Off           bool // switched off, or the engine closes
	Renewing      bool
	Reads         bool // its owner reads beside it, or asks to
	// the key may live for what was asked for by who has left, or an Extend of that one's raises it again
	Unlowered bool
}

// A HandOff says whether a released lock may go to the next waiter here, or else why not. Each is a row
// of the table in ARCHITECTURE.md.
type HandOff uint8

const (
	HandOffSafe          HandOff = iota
	HandOffOff                   // switched off, or the engine closes
	HandOffFamily                // tokens, sharing and order are the server's
	HandOffNotRenewed            // nobody renews it
	HandOffForceReleased         // a ForceRelease may have taken it already
	HandOffTenureOver            // others wait elsewhere
	HandOffLeaseShort            // less than half of the lease is trusted
	HandOffIndeterminate         // a late copy of its acquire may run
	HandOffCountChanging         // its count is changing, or a change of it was never answered
	HandOffReentered             // the count on the wire is not one
	HandOffNotLowered            // its key may live for longer than the next holder asks for
)

// MayHandOff decides whether the hold may be passed on: only if that is as safe as a release and a new
// acquire.
func (w *Grant) MayHandOff(h HandOffInput) HandOff {
	// Cheap questions first: this is asked at every release that somebody waits for.
	switch {
	case h.Off:
		return HandOffOff
	case w.count != 1 || w.onWire != 1:
		return HandOffReentered
	case w.Changes() != nil && !w.Changes().settled():
		return HandOffCountChanging
	case !w.terms.Family.HandsOff, h.Reads:
		return HandOffFamily
	case w.forceReleased:
		return HandOffForceReleased
	case !w.terms.Watchdog || !h.Renewing:
		return HandOffNotRenewed
	case w.grants >= tenureGrants || w.TenureOver(h.Now):
		return HandOffTenureOver
	case h.Deadline.Sub(h.Now) < h.Lease/2:
		return HandOffLeaseShort
	case w.Indeterminate().MayRunAfter(h.Now):
		return HandOffIndeterminate
	case h.Unlowered:
		return HandOffNotLowered
	default:
		return HandOffSafe
	}
}

// Passed follows a hand-off.
func (w *Grant) Passed(terms *Terms) {
	w.grants++
	w.terms, w.leak, w.lingers = terms, false, false
}

// Linger follows the release of the last handle where nobody is known to want the lock: the grant stays, and nobody
// has it, until somebody asks here. It ends as any other: passed, released or lost.
func (w *Grant) Linger() { w.handles, w.lingers = 0, true }

// Lingers reports whether nobody has what is granted, or had it when it ended.
func (w *Grant) Lingers() bool { return w.lingers }

// LastHandle reports whether giving one handle back frees the lock.
func (w *Grant) LastHandle() bool {
	return w.count == 1 && (w.Changes() == nil || w.Changes().settling())
}

// Out is how many handles nobody has begun to give back.
func (w *Grant) Out() int32 {
	out := w.count
	// Whoever asked to give one back has it no more, though the count has not changed yet.
	if n := w.Changes(); n != nil {
		for i := range n.queue {
			out -= n.queue[i].givesBack()
		}
		if n.busy {
			out -= n.cur.givesBack()
		}
	}
	return out
}

// Leaving reports whether a release follows the changes on their way and waiting, whatever else is wanted: they
// take the last handle off. Who enters behind them enters anew.
func (w *Grant) Leaving() bool {
	n := w.Changes()
	if n == nil || n.Quiet() {
		return false
	}
	handles := w.count
	if n.busy {
		handles += n.cur.step()
	}
	for i := 0; i < len(n.queue) && handles > 0; i++ {
		handles += n.queue[i].step()
	}
	return handles <= 0
}

// A FollowUp says what is still to be sent for a hold that is over.
type FollowUp uint8

const (
	FollowUpNone         FollowUp = iota // nothing
	FollowUpRelease                      // a release
	FollowUpReleaseLater                 // a release when no copy of the acquire can run any more
)

// AfterRelease says what is still to be sent after a release: an answer to one that was sent while a copy could run is
// not the last word; and one that was never answered goes on without its caller.
func (w *Grant) AfterRelease(answered bool, sentAt clock.Instant) FollowUp {
	switch {
	case !answered:
		return FollowUpRelease
	case w.Indeterminate().MayRunAfter(sentAt):
		return FollowUpReleaseLater
	default:
		return FollowUpNone
	}
}

// A Loss says why a grant is over.
type Loss uint8

const (
	LossTaken    Loss = iota // the server does not have it any more
	LossDeadline             // its lease ran out unrenewed
	LossKept                 // it is kept to expire, or given back by who has made it lost
)

// AfterLoss says the same of a loss: past its deadline the server may still have it, and what nobody believes here is
// given back, never renewed; so is what is left of several permits when one was taken. Otherwise it is gone, but a late
// copy could bring it back. A hold that is kept to expire is left alone.
func (w *Grant) AfterLoss(why Loss) FollowUp {
	switch {
	case why == LossDeadline, why == LossTaken && w.terms.Units > 1:
		return FollowUpRelease
	case w.Indeterminate().Until != 0 && why != LossKept:
		return FollowUpReleaseLater
	default:
		return FollowUpNone
	}
}
