package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A MultiLease is several held locks. It is lost as a whole: when one of them is, Lost says so, the context ends, and
// Release gives the others back.
//
// All methods may be called by any goroutine.
type MultiLease struct {
	lock   *MultiLock
	ctx    context.Context //nolint:containedctx // the acquire's, for its values
	lead   *Engine
	leases []*Lease // in canonical order
	apart  bool     // they are of several engines
	state  atomic.Uint32

	mu    sync.Mutex
	group *groupContext // made when first asked for
}

// A LeaseView is one lock of several that are held together: it can be looked at, but not be given back alone.
type LeaseView struct{ ls *Lease }

// Name returns the lock's name.
func (v LeaseView) Name() string { return v.ls.Name() }

// OwnerID returns the owner id, the field in Redis.
func (v LeaseView) OwnerID() string { return v.ls.OwnerID() }

// Token returns the fencing token of a FencedLock; 0 for other locks.
func (v LeaseView) Token() int64 { return v.ls.Token() }

// Deadline is Lease.Deadline of this lock.
func (v LeaseView) Deadline() time.Time { return v.ls.Deadline() }

// Lost is Lease.Lost of this lock.
func (v LeaseView) Lost() bool { return v.ls.Lost() }

// Names returns the names of the locks, as they were given.
func (ml *MultiLease) Names() []string { return ml.lock.Names() }

// Leases returns a look at each lock, in the order of Names.
func (ml *MultiLease) Leases() []LeaseView {
	views := make([]LeaseView, len(ml.leases))
	for i, at := range ml.lock.at {
		views[i].ls = ml.leases[at]
	}
	return views
}

// Lost reports whether any of the locks ended without its holder's will. It is as exact as Lease.Lost: it looks at each
// of them, which takes half a millisecond for 10,000. An engine that closes gives its locks back: where those of others
// go on, that is a loss, too. Blocks: never. Allocates: never.
func (ml *MultiLease) Lost() bool {
	switch ml.state.Load() {
	case leaseReleased:
		return false
	case leaseLost:
		return true
	}
	// Nothing is remembered of the deadlines: one moves back where another handle of the same hold is given back.
	return ml.firstLost() >= 0
}

// firstLost finds the first of the leases, in canonical order, that is lost; -1: none is.
func (ml *MultiLease) firstLost() int {
	c := engineClock{apart: ml.apart}
	return slices.IndexFunc(ml.leases, c.lost)
}

// allLost are those of the leases that are lost.
func (ml *MultiLease) allLost() (lost []*Lease) {
	c := engineClock{apart: ml.apart}
	for _, ls := range ml.leases {
		if c.lost(ls) {
			lost = append(lost, ls)
		}
	}
	return lost
}

// An engineClock reads the clock of an engine once, as long as leases of it follow each other.
type engineClock struct {
	eng   *Engine
	now   clock.Instant
	apart bool // a lease that its engine's Close has given back counts as lost
}

func (c *engineClock) at(ls *Lease) clock.Instant {
	if ls.eng() != c.eng {
		c.eng, c.now = ls.eng(), ls.eng().clock.Now()
	}
	return c.now
}

// lost is Lease.Lost at that time.
func (c *engineClock) lost(ls *Lease) bool {
	over, lost := ls.decided()
	return lost || over && c.apart || !over && !c.at(ls).Before(ls.hold.Deadline())
}

// Deadline returns until when all locks are trusted if nothing renews them: the least of their deadlines.
func (ml *MultiLease) Deadline() time.Time {
	least := ml.leases[0].Deadline()
	for _, ls := range ml.leases[1:] {
		if d := ls.Deadline(); d.Before(least) {
			least = d
		}
	}
	return least
}

// Context returns a context as that of a Lease: it ends with cause ErrReleased or, as soon as any of the locks is lost,
// with ErrLost. Err looks at every lock, as Lost does.
func (ml *MultiLease) Context() context.Context {
	ml.mu.Lock()
	made := ml.group == nil
	if made {
		ml.group = newGroupContext(ml.ctx, ml.Lost)
	}
	c := ml.group
	ml.mu.Unlock()
	// Release ends the context before it gives anything back: what is found to be given back was Close's doing.
	if ml.state.Load() == leaseReleased {
		c.end(ErrReleased)
	} else if made {
		c.watch(ml.leases, ml.ended(c))
	}
	_ = c.Err()
	return c
}

// ended ends the context when one of the leases has ended.
func (ml *MultiLease) ended(c *groupContext) func(error) {
	if !ml.apart {
		return c.end
	}
	return func(cause error) {
		if errors.Is(cause, ErrReleased) { // by Close of one engine: the others go on
			cause = &becauseError{ErrLost, ErrClosed}
		}
		c.end(cause)
	}
}

// StopRenewing ends the watchdog's care for all locks, as that of Lease.
func (ml *MultiLease) StopRenewing() {
	if ml.state.Load() != leaseActive {
		return
	}
	for _, ls := range ml.leases {
		ls.StopRenewing()
	}
}

// Extend raises the remaining time of every lock to d, where all have fixed leases; it never shortens one. Blocks: for
// a round trip, or until ctx ends. Where it fails, some may have been extended. Errors: as Lease.Extend.
func (ml *MultiLease) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkDuration("Extend", d, MinFixedLease)
	if err != nil {
		return err
	}
	if ml.state.Load() != leaseActive {
		return newSeveralError(ml.leases, ErrNotHeld)
	}
	for _, ls := range ml.leases {
		if ls.set.Watchdog {
			return &nameError{ls.Name(), fmt.Errorf("%w: Extend on a lease that the watchdog renews", ErrLease)}
		}
	}
	if at := ml.firstLost(); at >= 0 {
		return ml.leases[at].lostError()
	}
	sum := ml.newSummary(nil)
	for _, ls := range slices.Backward(ml.leases) {
		sum.add(ls, extendPart(ls, d))
	}
	_, err = sum.Await(ctx)
	return err
}

// Release gives all locks back. It is detached: the end of ctx ends only the wait for the answers.
//
// Errors: ErrLost if any was lost before, with the first names and how many; ErrNotHeld the second time; those of
// Lease.Release otherwise, of each lock that has one, the first of each kind by name.
func (ml *MultiLease) Release(ctx context.Context) error {
	_, err := ml.ReleaseAsync().Await(ctx)
	return err
}

// ReleaseAsync is Release as a future. Cancelling it changes nothing: the releases are on their way.
func (ml *MultiLease) ReleaseAsync() *Future[struct{}] {
	lost := ml.allLost()
	sum := ml.newSummary(lost)
	end, cause := leaseReleased, ErrReleased
	if len(lost) > 0 {
		end, cause = leaseLost, ErrLost
	}
	if !ml.state.CompareAndSwap(leaseActive, end) {
		sum.resolve(struct{}{}, newSeveralError(ml.leases, ErrNotHeld))
		return &sum.Future
	}
	ml.endContext(cause)
	// The last first: who waits for several locks waits for the first of them, and finds the others free then.
	for i := len(ml.leases) - 1; i >= 0; i-- {
		sum.add(ml.leases[i], givePart(ml.leases[i]))
	}
	return &sum.Future
}

// endContext ends the context, if there is one.
func (ml *MultiLease) endContext(cause error) {
	ml.mu.Lock()
	c := ml.group
	ml.mu.Unlock()
	if c != nil {
		c.end(cause)
	}
}

// A summary is the future of what was asked of several leases.
type summary struct {
	Future[struct{}]
	of     *MultiLease
	left   atomic.Int64
	leases []*Lease
	all    []*Future[struct{}]
	lost   []*Lease // before anything was asked
}

func (ml *MultiLease) newSummary(lost []*Lease) *summary {
	n := len(ml.leases)
	s := &summary{of: ml, lost: lost, leases: make([]*Lease, 0, n), all: make([]*Future[struct{}], 0, n)}
	s.Future.op = s
	s.left.Store(int64(n))
	return s
}

func (s *summary) runner() *callback.Pool { return s.of.lead.callbacks }

func (s *summary) awaitEnded(cause error) error {
	return leftBehind(s.leases[len(s.leases)-1].Name(), cause, leftSeveral(len(s.leases)))
}

// abandon changes nothing: what was asked is on its way.
func (s *summary) abandon(error) bool { return false }

// add takes one of them.
func (s *summary) add(ls *Lease, f *Future[struct{}]) {
	s.leases, s.all = append(s.leases, ls), append(s.all, f)
	f.then(s.answered)
}

// answered counts an answer. The last makes the result.
func (s *summary) answered() {
	if s.left.Add(-1) > 0 {
		return
	}
	err := s.result()
	if errors.Is(err, ErrLost) { // what is found to be lost by giving it back was lost before
		s.of.state.CompareAndSwap(leaseReleased, leaseLost)
	}
	s.resolve(struct{}{}, err)
}

// result joins what is to be told: the lost ones in one error, and those that Close has given back; of the others the
// first.
func (s *summary) result() error {
	lost, reasons, gone := s.lost, []error(nil), []*Lease(nil)
	for _, ls := range s.lost {
		reasons = append(reasons, ls.lostWhy())
	}
	var others []error
	failed := 0
	for i, f := range slices.Backward(s.all) { // the last was asked first
		switch err := f.err; {
		case err == nil:
		case errors.Is(err, ErrLost):
			if len(s.lost) == 0 {
				lost, reasons = append(lost, s.leases[i]), append(reasons, reasonOf(err))
			}
		case errors.Is(err, ErrNotHeld):
			if len(s.lost) == 0 { // else it was told to be lost
				gone = append(gone, s.leases[i])
			}
		default:
			if failed++; failed <= namesTold {
				others = append(others, named(s.leases[i], err))
			}
		}
	}
	if failed > namesTold {
		others = append(others, fmt.Errorf("holdfast: and %d more", failed-namesTold))
	}
	if len(gone) > 0 {
		others = append([]error{newSeveralError(gone, ErrNotHeld)}, others...)
	}
	if len(lost) > 0 {
		others = append([]error{newLostError(lost, reasons)}, others...)
	}
	return errors.Join(others...)
}

// namesTold is how many names an error about many locks has.
const namesTold = 3

// A severalError ties an error to the locks it is about.
type severalError struct {
	names []string // the first
	more  int
	err   error
}

func newSeveralError(leases []*Lease, err error) error {
	if len(leases) == 1 {
		return &nameError{leases[0].Name(), err}
	}
	e := &severalError{err: err, more: max(len(leases)-namesTold, 0)}
	for _, ls := range leases[:len(leases)-e.more] {
		e.names = append(e.names, quote(ls.Name()))
	}
	return e
}

// newLostError is ErrLost of leases, with the reason if all were lost for the same.
func newLostError(leases []*Lease, reasons []error) error {
	if len(reasons) == 0 || reasons[0] == nil {
		return newSeveralError(leases, ErrLost)
	}
	for _, why := range reasons[1:] {
		if why == nil || why.Error() != reasons[0].Error() {
			return newSeveralError(leases, ErrLost)
		}
	}
	return newSeveralError(leases, &becauseError{ErrLost, reasons[0]})
}

// reasonOf is the reason of an error that is ErrLost; nil: it has none.
func reasonOf(err error) error {
	var lost *becauseError
	if errors.As(err, &lost) {
		return lost.cause
	}
	return nil
}

func (e *severalError) Error() string {
	text := "holdfast: locks " + strings.Join(e.names, ", ")
	if e.more > 0 {
		text += fmt.Sprintf(" and %d more", e.more)
	}
	return text + ": " + strings.TrimPrefix(e.err.Error(), "holdfast: ")
}

func (e *severalError) Unwrap() error { return e.err }
