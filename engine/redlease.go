package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A RedLease is a RedLock that is held: on a majority of its servers. Each server's part is renewed by its own engine.
// A minority that is lost changes nothing but Held; the lease is lost when fewer than a majority are left, for good.
//
// All methods may be called by any goroutine.
type RedLease struct {
	lock  *RedLock
	lead  *Engine
	group *groupContext
	state atomic.Uint32
	lost  atomic.Bool
	item  wheel.Item[timed] // when the majority may end
	parts []redPart         // in canonical order

	// Against a part that is joined while all are given back, or asked for something. Guards what says until when a part
	// counts, too.
	mu    sync.Mutex
	asked redAsked // guarded by mu
}

// redAsked is what a RedLease was asked for: it holds for who joins later, too.
type redAsked struct {
	stop  bool          // by StopRenewing
	until clock.Instant // by Extend
}

// A redPart is what one server has granted.
type redPart struct {
	lease   atomic.Pointer[Lease] // nil: nothing yet
	watch   leaseContext
	watched bool // the watch has its place in a list, where it can stand once; guarded by the lease's mu
	extends extends
}

// An extends says what Extend has done to a part. A deadline does not say how long the command asked for that it comes
// from, and so much the clocks may drift. Guarded by the lease's mu.
type extends struct {
	asked  int           // Extends on their way
	length time.Duration // the longest that the deadline may come from; 0: the lock's own lease
	proven clock.Instant // until then it counts, whatever comes of those on their way
}

// drift is what a majority on several servers is trusted less than each of them: the page on Redlock takes off a
// hundredth of the lease, for clocks that run apart, and two milliseconds, for expiries that are rounded. That is on
// top of what an engine takes off any lease, for the same reasons: a hundredth, at least 10 ms, from the sending of the
// answered command on.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// begin has the lease watched.
func (rl *RedLease) begin() {
	for i := range rl.parts {
		if ls := rl.parts[i].lease.Load(); ls != nil {
			rl.watch(i, ls)
		}
	}
	rl.schedule()
}

// watch has the loss of one part looked at. Only the first call for a part does so: one that joins while the lease
// begins has two.
func (rl *RedLease) watch(i int, ls *Lease) {
	p := &rl.parts[i]
	rl.mu.Lock()
	watched := p.watched
	p.watched = true
	rl.mu.Unlock()
	if watched {
		return
	}
	p.watch.tell = func(error) { rl.look() }
	_ = ls.watchFor(&p.watch) // one that has ended is counted by the next look
}

// join adds what a server has granted late.
func (rl *RedLease) join(i int, ls *Lease) {
	if ls == nil {
		return
	}
	rl.mu.Lock()
	over := rl.state.Load() != leaseActive
	if !over {
		rl.parts[i].lease.Store(ls)
	}
	asked := rl.asked
	rl.mu.Unlock()
	if over {
		givePart(ls)
		return
	}
	rl.watch(i, ls)
	if asked.stop {
		ls.StopRenewing()
	}
	d := asked.until.Sub(rl.lead.clock.Now())
	if !ls.set.Watchdog && d >= MinFixedLease && ls.hold.Deadline().Before(asked.until) {
		rl.extend(i, ls, d)
	}
}

// extend extends one part.
func (rl *RedLease) extend(i int, ls *Lease, d time.Duration) *Future[struct{}] {
	p := &rl.parts[i]
	rl.mu.Lock()
	before := ls.hold.Deadline()
	p.extends.proven = p.trusted(ls)
	p.extends.length = max(p.extends.length, d)
	p.extends.asked++
	rl.mu.Unlock()
	f := extendPart(ls, d)
	f.then(func() {
		rl.mu.Lock()
		p.extends.asked--
		// Where several were on their way nobody knows whose it is: then the longest stands.
		if p.extends.asked == 0 && f.err == nil && before.Before(ls.hold.Deadline()) {
			p.extends.length = d
		}
		rl.mu.Unlock()
	})
	return f
}

// ask notes what is asked of the parts, and returns those that are there: who joins later sees the note.
func (rl *RedLease) ask(note func(*redAsked)) []*Lease {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	note(&rl.asked)
	return rl.granted()
}

// granted are the parts that were granted, in canonical order.
func (rl *RedLease) granted() []*Lease {
	all := make([]*Lease, 0, len(rl.parts))
	for i := range rl.parts {
		if ls := rl.parts[i].lease.Load(); ls != nil {
			all = append(all, ls)
		}
	}
	return all
}

// heldAt counts the parts that can be trusted at an instant.
func (rl *RedLease) heldAt(at clock.Instant) (n int) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for i := range rl.parts {
		if until := rl.parts[i].counts(); at.Before(until) {
			n++
		}
	}
	return n
}

// counts is until when a part counts; 0: it does not, or there is none.
func (p *redPart) counts() clock.Instant {
	ls := p.lease.Load()
	if ls == nil {
		return 0
	}
	if over, _ := ls.decided(); over {
		return 0
	}
	return p.trusted(ls)
}

// trusted is until when the deadline of a part counts. An Extend takes nothing from what was trusted before, for its
// answer may be no, or never come.
func (p *redPart) trusted(ls *Lease) clock.Instant {
	deadline, own := ls.hold.Deadline(), ls.set.Lease
	until := deadline.Add(-drift(max(p.extends.length, own)))
	return max(until, min(p.extends.proven, deadline.Add(-drift(own))))
}

// validity is until when a majority counts, if nothing is renewed and nothing lost; 0: there is none.
func (rl *RedLease) validity() clock.Instant {
	var until []clock.Instant
	rl.mu.Lock()
	for i := range rl.parts {
		if at := rl.parts[i].counts(); at != 0 {
			until = append(until, at)
		}
	}
	rl.mu.Unlock()
	quorum := rl.lock.quorum()
	if len(until) < quorum {
		return 0
	}
	slices.Sort(until)
	return until[len(until)-quorum]
}

// schedule waits for the end of the majority. As that of a Lease it is told early.
func (rl *RedLease) schedule() {
	rl.lead.timers.Schedule(redLeaseTimer{rl}, rl.signal())
}

func (rl *RedLease) signal() clock.Instant {
	return renew.SignalAt(rl.validity(), rl.parts[rl.first()].lease.Load().set.Lease)
}

// first is one of the parts that were granted.
func (rl *RedLease) first() int {
	for i := range rl.parts {
		if rl.parts[i].lease.Load() != nil {
			return i
		}
	}
	return 0 // a majority was granted
}

// redLeaseTimer has a RedLease look whether renewals have come.
type redLeaseTimer struct{ rl *RedLease }

// Scheduled is its place among the timers.
func (t redLeaseTimer) Scheduled() *wheel.Item[timed] { return &t.rl.item }

func (t redLeaseTimer) due(now clock.Instant) { t.rl.due(now) }

// due looks whether renewals have come.
func (rl *RedLease) due(now clock.Instant) {
	switch {
	case rl.state.Load() != leaseActive:
	case now.Before(rl.signal()):
		rl.schedule()
	default:
		rl.lose()
	}
}

// look follows the end of one part.
func (rl *RedLease) look() {
	if rl.state.Load() == leaseActive && rl.heldAt(rl.lead.clock.Now()) < rl.lock.quorum() {
		rl.lose()
	}
}

// lose makes the lease lost, for good.
func (rl *RedLease) lose() {
	rl.lost.Store(true)
	rl.group.end(ErrLost)
}

// Names returns the names of the locks, as they were given.
func (rl *RedLease) Names() []string { return rl.lock.Names() }

// Held returns on how many of the servers the lock is held and trusted now. Blocks: never.
func (rl *RedLease) Held() int {
	if rl.state.Load() != leaseActive {
		return 0
	}
	return rl.heldAt(rl.lead.clock.Now())
}

// Leases returns a look at each part that was granted, in the order of Names.
func (rl *RedLease) Leases() []LeaseView {
	var views []LeaseView
	for _, at := range rl.lock.all.at {
		if ls := rl.parts[at].lease.Load(); ls != nil {
			views = append(views, LeaseView{ls})
		}
	}
	return views
}

// Lost reports whether the majority was lost. Once it is, it stays so. It is exact: false means that a majority of the
// servers has the lock for this holder, under the assumptions of the package page. Blocks: never.
func (rl *RedLease) Lost() bool {
	switch rl.state.Load() {
	case leaseReleased:
		return false
	case leaseLost:
		return true
	}
	if rl.lost.Load() {
		return true
	}
	if rl.heldAt(rl.lead.clock.Now()) < rl.lock.quorum() {
		rl.lost.Store(true) // a renewal that comes now is too late
		return true
	}
	return false
}

// Deadline returns until when the lock is trusted if nothing renews it: the least deadline of the majority that lasts
// longest, less what clocks may drift. Informative, as Lease.Deadline.
func (rl *RedLease) Deadline() time.Time { return rl.lead.clock.Wall(rl.validity()) }

// Context returns a context as that of a Lease: it ends with cause ErrReleased, or with ErrLost when the majority is
// lost.
func (rl *RedLease) Context() context.Context {
	_ = rl.group.Err()
	return rl.group
}

// StopRenewing ends the watchdog's care for all parts, as that of Lease: also for those that join later.
func (rl *RedLease) StopRenewing() {
	if rl.state.Load() != leaseActive {
		return
	}
	for _, ls := range rl.ask(func(a *redAsked) { a.stop = true }) {
		ls.StopRenewing()
	}
}

// Extend raises the remaining time of every part to d, where all have fixed leases, also of those that join later. It
// succeeds if a majority has done so.
//
// Errors: as Lease.Extend; ErrLost only if the majority is lost, else what the other servers said.
func (rl *RedLease) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkDuration("Extend", d, MinFixedLease)
	if err != nil {
		return err
	}
	all := rl.granted()
	if rl.state.Load() != leaseActive {
		return newSeveralError(all, ErrNotHeld)
	}
	for _, ls := range all {
		if ls.set.Watchdog {
			return &nameError{ls.Name(), fmt.Errorf("%w: Extend on a lease that the watchdog renews", ErrLease)}
		}
	}
	if rl.Lost() {
		return rl.lostError(all)
	}
	until := rl.lead.clock.Now().Add(d)
	all = rl.ask(func(a *redAsked) { a.until = max(a.until, until) })
	v := rl.newVote(len(all))
	for i := range rl.parts {
		// One that joins from here on sees the note.
		if ls := rl.parts[i].lease.Load(); ls != nil && slices.Contains(all, ls) {
			v.add(rl.extend(i, ls, d))
		}
	}
	_, err = v.Await(ctx)
	if rl.Lost() { // that says more than what came of each part
		return rl.lostError(all)
	}
	return err
}

// lostError is ErrLost of all parts, with the reason if those that were lost were lost for the same.
func (rl *RedLease) lostError(all []*Lease) error {
	var reasons []error
	for _, ls := range all {
		if ls.Lost() {
			reasons = append(reasons, ls.lostWhy())
		}
	}
	return newLostError(all, reasons)
}

// Release gives all parts back. It is detached, and answered when a majority is free, by this or because it was lost
// before: a server that is silent is asked again by its engine. Where a part was lost the others are waited for up to
// 100 ms longer: they say whether a majority was left.
//
// Errors: ErrLost if the majority was lost before; ErrNotHeld the second time; those of Lease.Release where so many
// failed that no majority is known to be free.
func (rl *RedLease) Release(ctx context.Context) error {
	_, err := rl.ReleaseAsync().Await(ctx)
	return err
}

// ReleaseAsync is Release as a future. Cancelling it changes nothing.
func (rl *RedLease) ReleaseAsync() *Future[struct{}] {
	end, cause := leaseReleased, ErrReleased
	if rl.Lost() {
		end, cause = leaseLost, ErrLost
	}
	rl.mu.Lock()
	mine := rl.state.CompareAndSwap(leaseActive, end)
	rl.mu.Unlock()
	all := rl.granted() // nothing is joined any more
	v := rl.newVote(len(all))
	v.all, v.lost = all, end == leaseLost
	if !mine {
		v.resolve(struct{}{}, newSeveralError(all, ErrNotHeld))
		return &v.Future
	}
	rl.lead.timers.Cancel(&rl.item)
	rl.group.end(cause)
	for _, ls := range all {
		v.add(givePart(ls))
	}
	return &v.Future
}

// A vote is the future of what was asked of several servers: it is there as soon as a majority agrees.
type vote struct {
	Future[struct{}]
	eng  *Engine
	name string // of one of the locks
	of   int    // how many parts
	// Of what is given back: a part that was lost, or that Close has given back, agrees: that server is free. If so many
	// were that no majority was left, others may have had one, and that is told.
	all  []*Lease
	lost bool              // before; that is told in any case
	item wheel.Item[timed] // when it is not waited any longer for who says which

	mu     sync.Mutex
	quorum int
	left   int
	needed int
	did    int  // have done it
	had    int  // parts that were there when they were given back, or may have been
	waits  bool // for those who have not answered
	errs   []error
	why    []error // parts were lost
}

// lateVotes is how long those are waited for who have not answered when a majority is free of which a part was lost:
// they say whether a majority was left.
const lateVotes = 100 * time.Millisecond

func (rl *RedLease) newVote(n int) *vote {
	v := &vote{eng: rl.lead, name: rl.lock.all.sorted[0].Name(), of: n, left: n, had: n}
	v.needed, v.quorum = rl.lock.quorum(), rl.lock.quorum()
	v.Future.op = v
	return v
}

func (v *vote) runner() *callback.Pool { return v.eng.callbacks }

func (v *vote) awaitEnded(cause error) error { return leftBehind(v.name, cause, leftSeveral(v.of)) }

// abandon changes nothing: what was asked is on its way.
func (v *vote) abandon(error) bool { return false }

// add takes one of them.
func (v *vote) add(f *Future[struct{}]) {
	f.then(func() {
		// The result is told without the mutex: whoever waits for it may be called by that.
		v.mu.Lock()
		v.left--
		switch lost := errors.Is(f.err, ErrLost); {
		case v.all != nil && (lost || errors.Is(f.err, ErrNotHeld)): // or Close has given it back
			v.needed--
			v.had--
			if lost {
				v.why = append(v.why, reasonOf(f.err))
			}
		case f.err == nil:
			v.needed--
			v.did++
		case !lost: // of one server that says nothing about the whole
			v.errs = append(v.errs, f.err)
		}
		agreed, over := v.needed <= 0, v.left == 0
		gone, open := v.all != nil && v.had < v.quorum, v.all != nil && v.did < v.quorum
		waits := agreed && open && !over && !gone && !v.eng.closing.Load() // a closed engine has no timers
		first := waits && !v.waits
		v.waits = v.waits || waits
		err := v.refusal()
		if gone = gone || v.lost; gone {
			err = newLostError(v.all, v.why)
		}
		v.mu.Unlock()
		switch {
		case gone && (over || agreed):
			v.resolve(struct{}{}, err)
		case first:
			v.eng.timers.Schedule(v, v.eng.clock.Now().Add(lateVotes))
		case waits:
		case agreed:
			v.resolve(struct{}{}, nil)
		case over:
			v.resolve(struct{}{}, err)
		}
	})
}

// Scheduled is its place among the timers.
func (v *vote) Scheduled() *wheel.Item[timed] { return &v.item }

// due waits for nobody any longer.
func (v *vote) due(clock.Instant) { v.resolve(struct{}{}, nil) }

// refusal is why there is no majority. Where all others have lost their part, those that have joined since may be one,
// and nobody knows yet what came of them.
func (v *vote) refusal() error {
	if len(v.errs) == 0 {
		return fmt.Errorf("%w: too few servers have done it", ErrUnknown)
	}
	return errors.Join(v.errs...)
}
