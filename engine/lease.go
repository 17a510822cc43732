package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A Lease is a held lock. It is yours from the grant until Release, or until it is lost; keep it,
// for a lease that is dropped unreleased is renewed until MaxHold or Close.
//
// All methods may be called by any goroutine.
type Lease struct {
	hold  *hold
	set   *settings // its lock handle's
	from  any       // the *acquireOp that it is one piece with, else the acquire's context.Context
	owner *Owner    // nil: nobody
	state atomic.Uint32
	since stamp // of the grant
}

// The states of a lease handle. A hold may outlive it: passed on to the next waiter of this engine.
const (
	leaseActive   uint32 = iota
	leaseReleased        // given back through this handle, or by Close
	leaseLost            // it was lost when its holder tried to give it back
)

// mostPieces is how many holds of a shard may have their lease in one piece with its acquire and its release: it serves
// those that are given back soon. A lease that is kept among many others is alone, and small.
const mostPieces = 16

// newLease makes the lease of an op that is granted a hold.
func (sc *section) newLease(h *hold, op *acquireOp) *Lease {
	ls := &op.lease
	if sc.sh.pieces < mostPieces {
		sc.sh.pieces++
		h.SetPiece(true)
		ls.from = op
	} else {
		ls = &Lease{from: op.ctx, owner: op.lease.owner}
	}
	ls.hold, ls.set = h, op.set
	return ls
}

// endPiece follows the end of a hold, or of its lease.
func (sc *section) endPiece(h *hold) {
	if h.Piece() {
		h.SetPiece(false)
		sc.sh.pieces--
	}
}

// ctx is the acquire's, for its values.
func (ls *Lease) ctx() context.Context {
	if op, is := ls.from.(*acquireOp); is {
		return op.ctx
	}
	return ls.from.(context.Context)
}

// newRelease makes what gives the lease back. It is called once.
func (ls *Lease) newRelease() *releaseOp {
	piece, is := ls.from.(*acquireOp)
	if !is {
		return newReleaseOp(ls.hold)
	}
	op := &piece.release
	op.hold, op.ent, op.Future.op = ls.hold, ls.hold.ent, op
	return op
}

// spareOp is what the release is sent by: mostly what the acquire was sent by. Called with the shard's mutex held.
func (ls *Lease) spareOp() *resp.Op {
	piece, is := ls.from.(*acquireOp)
	if !is {
		return &resp.Op{}
	}
	// It may be on its way for somebody else, or a late copy of it is still looked after.
	a := &piece.att
	if a.retry != nil || a.op.Ack != nil || a.ent != nil && a.ent.Attempt() == a {
		return &resp.Op{}
	}
	return &a.op
}

// Context returns a context that carries the values of the acquire's ctx, not its end: it ends when
// the lease does, with cause ErrReleased or ErrLost. A loss ends it before the server would let
// anybody else in: early by up to 75 ms or a quarter of the lease, by 15 ms at least while the process gets to run, and
// at once when the server says so. What runs between a look at it and its effect is protected by fencing alone.
//
// It is made when first asked for. One that is asked for when the lease is over has ended.
func (ls *Lease) Context() context.Context {
	c := ls.context()
	// the watchdog may not have come to it yet; no mutex is held, for the children of a context are user code
	if ls.Lost() {
		c.cancel(ErrLost)
	}
	return c
}

// context finds the lease's context, or makes it.
func (ls *Lease) context() *leaseContext {
	e, h := ls.eng(), ls.hold
	sc := e.enter(ls.hold.ent.hash)
	defer sc.leave()
	if c := h.watchOf(ls); c != nil {
		return c
	}
	c := newLeaseContext(ls)
	switch state, status := ls.state.Load(), h.Status(); {
	case state == leaseReleased, state == leaseActive && status == lockstate.Released:
		c.cancel(ErrReleased)
	case ls.Lost(): // Context ends it
	default: // an ended one hangs on nothing: the hold may be somebody else's by now
		m := h.ensureExtra()
		c.next, m.watch = m.watch, c
	}
	return c
}

// Deadline returns until when the lease can be trusted if nothing renews it: informative, since renewals
// move it and wall clocks jump. It is lost before that, by as much as Context ends early. Lost is the exact question.
func (ls *Lease) Deadline() time.Time { return ls.eng().clock.Wall(ls.hold.Deadline()) }

// Lost reports whether the lease ended without its holder's will. Leases of one owner on one lock are kept
// together: none of them is lost as long as one keeps the lock. It reads a clock that counts
// suspend on every call and is exact: false means that no other holder can see the lock as held,
// under the assumptions of the package page. Blocks: never. Allocates: never.
func (ls *Lease) Lost() bool {
	over, lost := ls.decided()
	return lost || !over && !ls.eng().clock.Now().Before(ls.hold.Deadline())
}

// decided reports whether the lease is over, and whether it was lost then. Else its deadline decides.
func (ls *Lease) decided() (over, lost bool) {
	switch ls.state.Load() {
	case leaseReleased:
		return true, false
	case leaseLost:
		return true, true
	}
	switch ls.hold.Status() {
	case lockstate.Lost:
		return true, true
	case lockstate.Released: // by Close
		return true, false
	default:
		return false, false
	}
}

// lostWhy is why a lease was lost; nil: it was not, or that was not noted.
func (ls *Lease) lostWhy() error {
	switch status := ls.hold.Status(); {
	case status == lockstate.Released && ls.state.Load() == leaseLost: // its release was told
		return causeError(renew.CauseNotOurs)
	case status == lockstate.Released, status == lockstate.Held && !ls.Lost():
		return nil
	default:
		return causeError(ls.hold.LostBy())
	}
}

// lostError is ErrLost of a lease that was lost, with the reason.
func (ls *Lease) lostError() error { return ls.hold.lostFor(ls.lostWhy()) }

// lostFor is ErrLost of a hold, for a reason.
func (h *hold) lostFor(why error) error {
	return &nameError{h.ent.eng.nameOf(h.ent.key), because(ErrLost, why)}
}

// OwnerID returns the owner id, the field in Redis: it names the engine and this hold, not the caller. Holds of other
// names may have the same: it says who has it together with the name only.
func (ls *Lease) OwnerID() string { return ls.hold.ownerID() }

// Name returns the lock's name.
func (ls *Lease) Name() string { return ls.eng().nameOf(ls.hold.ent.key) }

func (ls *Lease) eng() *Engine { return ls.hold.ent.eng }

// StopRenewing ends the watchdog's care: the lease runs out at its present deadline unless it is
// released before. Other leases of the same hold, its owner's or other readers' of this engine, keep it
// renewed for as long as they are held.
func (ls *Lease) StopRenewing() {
	sc := ls.eng().enter(ls.hold.ent.hash)
	defer sc.leave()
	// else its release may have passed the hold on
	if ls.state.Load() == leaseActive && ls.hold.Held() {
		sc.stopRenewing(ls.hold, ls)
	}
}

// Extend raises the remaining time of a fixed lease to d, rounded up to a millisecond; it never shortens it. Blocks:
// for one round trip, or until ctx ends.
//
// Errors: ErrLost, ErrNotHeld after Release, ErrLease for a bad d or a lease the watchdog renews,
// ErrUnknown, *ServerError.
func (ls *Lease) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkDuration("Extend", d, MinFixedLease)
	if err != nil {
		return err
	}
	if ls.state.Load() != leaseActive {
		return &nameError{ls.Name(), ErrNotHeld}
	}
	if ls.set.Watchdog {
		return fmt.Errorf("%w: Extend on a lease that the watchdog renews", ErrLease)
	}
	if ls.Lost() {
		return ls.lostError()
	}
	_, err = ls.extend(ctx, d).Await(ctx)
	return err
}

// Release gives the lock back. It is detached: the end of ctx ends only the wait for the answer.
//
// Errors: ErrLost if the lease was lost before, with the reason, and ErrWrongKind beside it where another kind of value
// has replaced it; ErrNotHeld the second time; ErrUnknown if it was sent and no answer came; *ServerError if the server
// refused, or could not be reached, so that nothing was sent. The last two say by when the lock is free. If ctx ends
// first, ctx's error; the release goes on.
//
// Blocks: until the answer, or ctx ends; some 14 s if the server does not answer. Give it a ctx with a limit where a
// shutdown must not take that long.
func (ls *Lease) Release(ctx context.Context) error {
	_, err := ls.release(true).Await(ctx)
	return err
}

// ReleaseAsync is Release as a future. Cancelling it changes nothing: the release is on its way.
func (ls *Lease) ReleaseAsync() *Future[struct{}] {
	return ls.release(ls.eng().cfg.leads)
}

// release is ReleaseAsync for a caller who holds no mutex, if leads is set.
func (ls *Lease) release(leads bool) *Future[struct{}] {
	if !ls.state.CompareAndSwap(leaseActive, leaseReleased) {
		op := newReleaseOp(ls.hold)
		op.resolve(struct{}{}, &nameError{ls.Name(), ErrNotHeld})
		return &op.Future
	}
	op := ls.newRelease()
	ls.eng().world.Yield("Lease.ReleaseAsync: the handle is spent | released")
	op.giveBack(ls, leads).Run()
	return &op.Future
}

// leaseContext is a lease's context. Done, cause and children are those of a real cancelled context;
// only two answers differ, see Err and Deadline.
type leaseContext struct {
	callback.Own
	context.Context //nolint:containedctx // it is one
	end             context.CancelCauseFunc
	lease           *Lease        // keeps the lease alive: whoever watches its context still holds it
	next            *leaseContext // of the same hold; guarded by the shard
	tell            func(error)   // of one of several leases: it is no context of its own, and calls this at its end
}

func newLeaseContext(ls *Lease) *leaseContext {
	inner, end := context.WithCancelCause(context.WithoutCancel(ls.ctx()))
	return &leaseContext{Context: inner, end: end, lease: ls}
}

func (c *leaseContext) cancel(cause error) {
	if c.tell != nil {
		c.tell(cause)
		return
	}
	c.end(cause)
}

// watchFor has the end of the lease told to who has it among others. It returns the cause if the lease has ended.
func (ls *Lease) watchFor(c *leaseContext) error {
	sc := ls.eng().enter(ls.hold.ent.hash)
	defer sc.leave()
	switch over, lost := ls.decided(); {
	case lost:
		return ErrLost
	case over:
		return ErrReleased
	}
	// A loss that is decided from here on finds it among the hold's contexts.
	m := ls.hold.ensureExtra()
	c.lease, c.next, m.watch = ls, m.watch, c
	return nil
}

// Err looks at the clock first: past the deadline the lease is lost, whether or not the cohort has
// noticed. The inner context ends before the answer, so that Err is never ahead of Done.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.lease.Lost() {
		c.end(ErrLost)
	}
	return c.Context.Err()
}

// Deadline says there is none: a deadline that renewals move must not be frozen into children.
func (c *leaseContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// A groupContext is the context of several leases. As that of one it tells the truth about their end, and has no
// deadline.
type groupContext struct {
	callback.Own
	context.Context //nolint:containedctx // it is one
	end             context.CancelCauseFunc
	lost            func() bool
}

func newGroupContext(ctx context.Context, lost func() bool) *groupContext {
	inner, end := context.WithCancelCause(ctx)
	return &groupContext{Context: inner, end: end, lost: lost}
}

// watch has the end of each lease end it, by a function that is told the cause.
func (c *groupContext) watch(leases []*Lease, ended func(cause error)) {
	watches := make([]leaseContext, len(leases))
	for i, ls := range leases {
		watches[i].tell = ended
		if cause := ls.watchFor(&watches[i]); cause != nil {
			ended(cause)
			return
		}
	}
}

// Err looks at the clock first, as leaseContext.Err does.
func (c *groupContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.lost() {
		c.end(ErrLost)
	}
	return c.Context.Err()
}

// Deadline says there is none.
func (c *groupContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// What a hold's handles want is decided in wish.go; here the watchdog is told. Most holds have one handle, or
// several that want the very same: those have no list of wishes.

// allCompatible reports whether all handles of a hold want what its settings say, for ever.
func (h *hold) allCompatible() bool { return h.extra == nil || h.extra.wishes == nil }

// wishes lists what the handles of a hold want.
func (sc *section) wishes(h *hold) *wishes {
	m := h.ensureExtra()
	if m.wishes != nil {
		return &m.wishes
	}
	m.wishes = make(wishes, 0, 2)
	if h.Handles() > 0 {
		w := wish{set: h.Terms(), handles: h.Handles(), until: sc.eng.watchdog.Until(h)}
		if !h.Renewing() {
			w.until, w.trusted = 0, h.Deadline()
		}
		m.wishes = append(m.wishes, w)
	}
	return &m.wishes
}

// leaseJoined adds what a further handle wants. A fixed lease was granted by what was sent at sentAt.
func (sc *section) leaseJoined(h *hold, ls *Lease, sentAt clock.Instant) {
	set := ls.set
	same := h.Terms().Plain() && set.Plain() && set.Lease == h.Terms().Lease
	if h.allCompatible() && h.Handles() > 0 && same && h.Renewing() {
		h.HandleJoined()
		return
	}
	ws := sc.wishes(h)
	h.HandleJoined()
	ws.add(ls, &set.Terms, sentAt, sc.eng.clock.Now())
	sc.tellWatchdog(h)
}

// keeps is what the handles of a hold ask for.
func (h *hold) keeps() keeps {
	switch {
	case h.allCompatible() && h.Handles() == 0, !h.allCompatible() && len(h.extra.wishes) == 0:
		return keeps{}
	case !h.allCompatible():
		return h.extra.wishes.keeps()
	case h.Renewing():
		return keeps{lease: h.Lease()}
	default:
		return keeps{lease: MinFixedLease, until: h.Deadline()}
	}
}

// leaseLeft ends what a handle wanted that is given back.
func (sc *section) leaseLeft(h *hold, ls *Lease) {
	h.HandleLeft()
	if !h.allCompatible() {
		h.extra.wishes.leave(ls)
		sc.tellWatchdog(h)
	}
}

// trustLess follows a handle that left a shared hold, whose key no command lowers: if nobody has it renewed any more,
// it is trusted for what is left to those who remain, not for what was proven for others.
func (sc *section) trustLess(h *hold) {
	if h.allCompatible() || h.extra.wishes.care().renew {
		return
	}
	now := sc.eng.clock.Now()
	if keeps := h.keeps(); keeps.at(now) != 0 {
		sc.eng.watchdog.Lower(h, keeps.trusted(now))
	}
}

// passMaxHold notices a MaxHold that has passed, before the key's expiry is set to what the handles ask for: the
// watchdog looks when the next renewal is due.
func (sc *section) passMaxHold(h *hold, now clock.Instant) {
	if until := sc.eng.watchdog.Until(h); until == 0 || now.Before(until) {
		return
	}
	if sc.wishes(h).pass(now, h.Deadline()) {
		sc.tellWatchdog(h)
	}
}

// only makes a hold its next holder's, who wants what the hold's settings say.
func (sc *section) only(h *hold) {
	h.OnlyHandle()
	if h.extra != nil {
		h.extra.wishes = nil
	}
}

// tellWatchdog tells the watchdog what follows from the wishes. Where nobody is left, whatever comes next
// decides: a further handle, or the end.
func (sc *section) tellWatchdog(h *hold) {
	ws := h.extra.wishes
	if len(ws) == 0 {
		return
	}
	ws.pass(sc.eng.clock.Now(), h.Deadline())
	if len(ws) == 1 && ws[0].set.Family == &traits(h.Family).Traits {
		h.SetTerms(ws[0].set)
	}
	c := ws.care()
	if c.lease < h.Lease() {
		h.AsksFor(h.Lease()) // the key lives that long, until it is lowered
	}
	sc.eng.watchdog.Change(h, renew.Terms{Lease: c.lease, Renew: c.renew, Until: c.until})
}

// stopRenewing ends the renewals for one handle.
func (sc *section) stopRenewing(h *hold, ls *Lease) {
	if h.allCompatible() && h.Handles() == 1 {
		h.StopRenewing()
		return
	}
	sc.wishes(h).stop(ls, sc.eng.clock.Now(), h.Deadline())
	sc.tellWatchdog(h)
}

// lasts is until when the key lives because of this handle alone, as long as its hold is trusted: another handle of it
// may ask for more, and be given back before.
func (ls *Lease) lasts() clock.Instant {
	h := ls.hold
	sc := ls.eng().enter(ls.hold.ent.hash)
	defer sc.leave()
	until := h.Deadline()
	if h.allCompatible() {
		return until
	}
	if i := h.extra.wishes.of(ls); i >= 0 && h.extra.wishes[i].trusted != 0 {
		return min(until, h.extra.wishes[i].trusted)
	}
	return until
}

// asksFor notes that a command may let the key live for so long, whatever its answer.
func (sc *section) asksFor(h *hold, lease time.Duration) {
	if lease <= h.Lease() {
		return
	}
	h.AsksFor(lease)
}

// asked is for how long from now on the hold may have had the key live.
func (h *hold) asked(now clock.Instant) time.Duration {
	asked := max(h.Lease(), h.Indeterminate().Lease)
	if renew.TrustUntil(now, asked).Before(h.Deadline()) {
		asked = renew.LeaseFor(h.Deadline().Sub(now)) // rounded up: for a lease as it is that would be more
	}
	return asked
}

// extend raises a fixed lease. It is no change of the hold's count, but waits for those that lower what it
// raises.
func (ls *Lease) extend(ctx context.Context, d time.Duration) *Future[struct{}] {
	h := ls.hold
	op := &singleOp[struct{}]{eng: ls.eng(), name: ls.Name(), repeat: true, copies: true}
	op.op = resp.Op{
		Kind: resp.OpExtend, Family: h.Family, Key: h.ent.key, Hash: ls.hold.ent.hash, Slot: h.ent.slot,
		Field: h.Field, LeaseMs: d.Milliseconds(),
	}
	x := &extension{op: op, ls: ls, lease: d}
	op.raises, op.done, op.read = x, x.done, x.read
	return op.start(ctx)
}

// An extension is what an Extend does to the hold of its lease.
type extension struct {
	op      *singleOp[struct{}]
	ls      *Lease
	lease   time.Duration
	counted bool // among the hold's
}

// waits counts it, and says whether the hold's changes send it in its turn.
func (x *extension) waits(sc *section) (bool, error) {
	if x.ls.state.Load() != leaseActive { // its release may have passed the hold on
		return false, &nameError{x.ls.Name(), ErrNotHeld}
	}
	x.counted = true
	return sc.extends(x.ls.hold, x.op, x.lease), nil
}

// done follows the end of its last copy.
func (x *extension) done() {
	h := x.ls.hold
	sc := x.op.eng.enter(x.op.op.Hash)
	if x.counted {
		h.extra.extends--
		h.extra.extended.Until = max(h.extra.extended.Until, x.op.indeterminate.Until)
		if h.extra.extends == 0 && h.reentry() != nil && h.reentry().unlowered && h.Held() {
			sc.settleCount(h)
		}
	}
	sc.leave()
}

// read takes the server's answer.
func (x *extension) read(r *resp.Result) (struct{}, error) {
	e, h, ls := x.op.eng, x.ls.hold, x.ls
	if r.Code != resp.CodeRenewed {
		cause := causeOfLoss(r.Err != nil)
		e.watchdog.Lose(h, cause)
		if ls.state.Load() == leaseReleased { // its release came before the last copy
			return struct{}{}, &nameError{ls.Name(), ErrNotHeld}
		}
		return struct{}{}, h.lostFor(causeError(cause))
	}
	over := false
	sc := e.enter(x.op.op.Hash)
	if ls.state.Load() == leaseActive { // else the others ask for no more than they did
		over = !e.watchdog.Extended(h, r.SentAt, x.lease)
		if !h.allCompatible() {
			h.extra.wishes.extend(ls, renew.TrustUntil(r.SentAt, x.lease))
		}
	}
	sc.leave()
	if over || ls.Lost() {
		return struct{}{}, ls.lostError()
	}
	return struct{}{}, nil
}

// extends counts an Extend of a hold, and says whether it waits for changes that lower what it raises.
func (sc *section) extends(h *hold, op *singleOp[struct{}], d time.Duration) (waits bool) {
	h.AsksFor(d) // whatever the answer, the key may live that long
	sc.besideLasts(h, d)
	h.ensureExtra().extends++
	n := h.reentry()
	if n == nil || !h.Held() || !n.Lowering(sc.eng.clock.Now()) {
		return false
	}
	if n.Quiet() {
		sc.eng.timers.Schedule(n, n.LowersUntil())
	}
	n.Want(lockstate.Change{Extend: op})
	return true
}

// sendExtend sends an Extend that took its place among the changes of a hold.
func (sc *section) sendExtend(c lockstate.Change) {
	op := c.Extend.(*singleOp[struct{}])
	op.since = c.Since // its caller's patience goes on
	if err := sc.eng.nodes.Submit(&op.op); err != nil {
		sc.more = append(sc.more, func() {
			op.Answered(&op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
		})
	}
}
