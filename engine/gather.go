package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// How several locks are acquired. All are tried at once, so that they travel in batches. If some are held elsewhere,
// only those before the first of them, in canonical order, are kept; it is waited for in its own queue, and then the
// rest is tried again. The same goes for a lock whose server has trouble that passes. So whoever waits holds nothing
// behind what it waits for: there is no circle, and somebody always goes on.

// A multiOp is one acquire of several locks. What it has is always the first of its parts.
type multiOp struct {
	Future[*MultiLease]
	joint
	asking
	lock *MultiLock
	ctx  context.Context //nolint:containedctx // the caller's, for the values of the leases' contexts

	// Owned by whoever has the joint's turn.
	phase    multiPhase
	parts    []part
	from, to int    // those that are being tried, or waited for
	answered func() // joint.answer
	failure  error  // it is told when what was taken has been given back
	raising  []raising
	// of a Try: the releases of what it has given back to begin again
	returning []*Future[struct{}]
	raises    int // how often
	keeper    keeper
}

// A part is one of several locks.
type part struct {
	lock  *Lock
	owner *Owner
	op    *acquireOp        // that has not been judged yet
	lease *Lease            // what is held
	kept  *Future[struct{}] // the last Extend of that by the keeper; nil: none
}

// A raising is the Extend of one part.
type raising struct {
	at int
	*Future[struct{}]
}

// multiPhase is what a multiOp is at.
type multiPhase uint8

const (
	multiBegins   multiPhase = iota
	multiTries               // from..to were tried
	multiWaits               // for from
	multiRaises              // fixed leases that are older than others are extended
	multiReturns             // it has failed, and gives back
	multiFinished            // it has its result
)

// errMaxWait stands for what a caller is told when its MaxWait is over. It is made when its parts may be looked at.
var errMaxWait = errors.New("holdfast: MaxWait is over")

// withState is what a caller is told that has given up, or was ended: with what is known of its parts, where it waited.
func withState(given error, known func() error) error {
	if given == errMaxWait { //nolint:errorlint // it is that one
		return known()
	}
	if ended, ok := given.(*WaitError); ok && ended.state == nil { //nolint:errorlint // as it was made
		return &WaitError{Name: ended.Name, cause: ended.cause, state: known()}
	}
	return given
}

// prepare makes the parts. It asks the caller's ctx for the last time but for its end.
func (op *multiOp) prepare(ctx context.Context) {
	op.ctx = context.WithoutCancel(ctx)
	op.answered = op.answer
	op.parts = partsOf(ctx, op.lock.sorted, op.by)
	op.keeper.op = op
}

// partsOf makes the parts of locks, with whose each acquire is: by is who has those that are nobody's.
func partsOf(ctx context.Context, locks []*Lock, by *Owner) []part {
	parts := make([]part, len(locks))
	value := ctx.Value(ownerKey{})
	for i, l := range locks {
		owner := l.ownerBy(value)
		if owner == nil {
			owner = by
		}
		parts[i] = part{lock: l, owner: owner}
	}
	return parts
}

func (op *multiOp) awaitEnded(cause error) error {
	return leftBehind(op.lock.sorted[0].Name(), cause, leftAcquire)
}

// abandon gives the operation up: everything that it took is on its way back before its result is published.
func (op *multiOp) abandon(err error) bool {
	if !op.claim() {
		return false
	}
	op.giveUp(err)
	return true
}

// due is MaxWait's end.
func (op *multiOp) due(clock.Instant) {
	if op.claim() {
		op.giveUpLater(errMaxWait)
	}
}

// step goes on with the answers that are there.
func (op *multiOp) step() {
	switch {
	case op.over:
	case op.quit.Load():
		op.quitNow()
	case op.left.Load() > 0:
		op.keeper.look()
	default:
		op.next()
	}
}

func (op *multiOp) next() {
	switch op.phase {
	case multiBegins:
		op.tryFrom(0)
	case multiTries:
		op.judge()
	case multiWaits:
		op.waited()
	case multiRaises:
		op.raised()
	case multiReturns:
		if op.claim() { // else it was given up just now, and that is on its way here
			op.end(nil, op.failure)
		}
	case multiFinished:
	}
}

// tryFrom asks for the parts from one on, for as many at once as the lanes take without refusing others. A Try asks for
// the first alone: of those who try the same locks at once it lets one go on, where they would divide all of them among
// each other.
func (op *multiOp) tryFrom(from int) {
	op.phase, op.from = multiTries, from
	op.to = min(len(op.parts), from+piece(op.lead.cfg.QueueMax))
	if op.try && from == 0 {
		op.to = 1
	}
	op.expect(op.to - from)
	// Any of them may be answered before the next is asked for: the last answer is the one below.
	for i := from; i < op.to; i++ {
		p := &op.parts[i]
		p.op = askPart(op.ctx, p.lock, p.owner, true)
		p.op.then(op.answered)
	}
	op.answer()
}

// piece is how many acquires of one operation may be on their way at a time.
func piece(queueMax int) int {
	const share, most = 8, 32768
	if queueMax == 0 {
		return most
	}
	return min(max(queueMax/share, 1), most)
}

// judge looks at what became of those that were tried.
func (op *multiOp) judge() {
	busy, broken := -1, -1
	var held, failure error
	for i := op.from; i < op.to; i++ {
		p := &op.parts[i]
		ls, err := p.op.value, p.op.err
		p.op = nil
		switch {
		case err == nil:
			p.lease = ls
		case errors.Is(err, ErrHeld), !op.try && passes(err):
			if busy < 0 {
				busy, held = i, err
			}
		case broken < 0:
			broken, failure = i, err
		}
	}
	// An error that waiting does not mend ends the whole, whoever else is in the way.
	switch {
	case broken >= 0:
		op.fail(named(op.parts[broken].lock, failure))
	case busy >= 0 && op.try:
		op.fail(held)
	case busy >= 0:
		op.giveBack(busy)
		op.waitFor(busy)
	default:
		op.onward(op.to)
	}
}

// passes reports whether an acquire that waits outlasts an error of a Try, without anybody's help: a failover, for
// instance. If that takes too long, it says so itself.
func passes(err error) bool {
	var server *ServerError
	switch {
	case errors.Is(err, ErrNotReplicated):
		return false
	case errors.Is(err, ErrUnknown):
		return true
	default:
		return errors.As(err, &server) && server.Class.Transient()
	}
}

// onward goes on when the parts before one are held.
func (op *multiOp) onward(to int) {
	if to < len(op.parts) {
		op.tryFrom(to)
		return
	}
	op.raise()
}

// waitFor waits for one part, holding those before it.
func (op *multiOp) waitFor(i int) {
	op.phase, op.from, op.to = multiWaits, i, i+1
	p := &op.parts[i]
	op.expect(1)
	p.op = askPart(op.ctx, p.lock, p.owner, false)
	p.op.then(op.answered)
	op.keeper.keep(i)
	op.answer()
}

// waited takes the lock that was waited for.
func (op *multiOp) waited() {
	op.keeper.rest()
	p := &op.parts[op.from]
	ls, err := p.op.value, p.op.err
	p.op = nil
	if err != nil {
		op.fail(named(p.lock, err))
		return
	}
	p.lease = ls
	// What was kept may have been lost in the time that this took.
	if !op.startOver(op.from + 1) {
		op.onward(op.from + 1)
	}
}

// startOver goes back to the first part that was lost meanwhile, if there is one, of those before an index: it keeps
// nothing behind it.
func (op *multiOp) startOver(before int) bool {
	lost := firstLost(op.parts[:before])
	if lost < 0 {
		return false
	}
	op.giveBack(lost)
	op.tryFrom(lost)
	return true
}

// firstLost finds the first part whose lease was lost; -1: none was.
func firstLost(parts []part) int {
	c := engineClock{}
	return slices.IndexFunc(parts, func(p part) bool { return c.lost(p.lease) })
}

// giveBack releases what is held from one part on, the last first: who waits for several locks waits for the first
// that is held, and finds the others free when it has that. Nobody waits for the answers: what is asked for again
// travels behind them. But a Try that fails later has left nothing: its result follows them.
func (op *multiOp) giveBack(from int) {
	for i := len(op.parts) - 1; i >= from; i-- {
		if p := &op.parts[i]; p.lease != nil {
			f := givePart(p.lease)
			p.lease, p.kept = nil, nil
			if op.try {
				op.returning = append(op.returning, f)
			}
		}
	}
}

// fail gives everything back, and has the result follow the answers to that.
func (op *multiOp) fail(err error) {
	op.phase, op.failure = multiReturns, err
	op.expect(len(op.parts) + len(op.returning))
	for _, f := range op.returning {
		f.then(op.answered)
	}
	for i := len(op.parts) - 1; i >= 0; i-- {
		p := &op.parts[i]
		if p.lease == nil {
			op.answer()
			continue
		}
		givePart(p.lease).then(op.answered)
		p.lease = nil
	}
	op.answer()
}

// quitNow gives everything back because the caller, its ctx, MaxWait or Close has ended the operation.
func (op *multiOp) quitNow() {
	op.given = withState(op.given, op.waitedError)
	for i := len(op.parts) - 1; i >= 0; i-- {
		if p := &op.parts[i]; p.op != nil {
			p.op.Cancel()
		}
	}
	// Who was claimed by a grant before is told of it in a moment: until then its lock cannot be given back.
	if op.left.Load() > 0 && (op.phase == multiTries || op.phase == multiWaits) {
		return
	}
	for i := range op.parts {
		if p := &op.parts[i]; p.op != nil && p.op.err == nil {
			p.lease = p.op.value
		}
	}
	op.giveBack(0)
	op.end(nil, op.given)
}

// waitedError is what a caller is told when MaxWait is over: of the first lock that somebody has, else of the first
// that nobody knows anything of, else of the first that was refused.
func (op *multiOp) waitedError() error {
	if op.failure != nil {
		return op.failure
	}
	var unknown, refused error
	for i := range op.parts {
		p := &op.parts[i]
		if p.op == nil {
			continue
		}
		_, err, told := p.op.Result()
		if !told {
			err = p.op.waitedError(p.lock.eng.clock.Now())
		}
		if errors.Is(err, ErrHeld) {
			return err
		}
		switch {
		case err == nil: // granted
		case errors.Is(err, ErrUnknown):
			unknown = cmp.Or(unknown, err)
		case !told: // it is not taken back yet, and may be sent until then
			if isServers(err) {
				err = errors.Unwrap(err)
			}
			unknown = cmp.Or[error](unknown, &UnknownError{Name: p.lock.Name(), FreeBy: op.freeBy(p.lock), cause: err})
		default:
			refused = cmp.Or(refused, err)
		}
	}
	if err := cmp.Or(unknown, refused); err != nil {
		return err
	}
	first := op.parts[0].lock // all were granted, and it is not known yet whether those that are old were extended
	return &UnknownError{Name: first.Name(), FreeBy: op.freeBy(first), cause: errNoAnswer}
}

// freeBy is when a lock is free of an operation that ends now.
func (op *multiOp) freeBy(l *Lock) time.Time {
	return l.eng.clock.Wall(l.eng.clock.Now().Add(l.eng.nodes.AttemptLimit() + l.set.Lease))
}

// raise extends fixed leases that have run for longer than the others, so that each has nearly all of itself left. The
// last time it extends all: what is not worn yet would be older then than the answers are late.
func (op *multiOp) raise() {
	op.phase, op.raising = multiRaises, op.raising[:0]
	worn := op.worn(len(op.parts))
	if len(worn) > 0 && op.raises+1 >= mostRaises {
		worn = op.fixed()
	}
	op.expect(len(worn))
	for _, at := range worn {
		f := extendPart(op.parts[at].lease, op.parts[at].lock.set.Lease)
		op.raising = append(op.raising, raising{at, f})
		f.then(op.answered)
	}
	op.answer()
}

// worn are the parts before an index with fixed leases that have less than three quarters of themselves left.
func (op *multiOp) worn(before int) (worn []int) {
	c := engineClock{}
	for i := range before {
		ls := op.parts[i].lease
		if ls == nil || ls.set.Watchdog {
			continue
		}
		if whole := ls.set.Lease; ls.lasts().Sub(c.at(ls)) < whole-whole/4 {
			worn = append(worn, i)
		}
	}
	return worn
}

// fixed are all parts with fixed leases.
func (op *multiOp) fixed() (fixed []int) {
	for i := range op.parts {
		if ls := op.parts[i].lease; ls != nil && !ls.set.Watchdog {
			fixed = append(fixed, i)
		}
	}
	return fixed
}

// mostRaises is how often fixed leases are extended at the end: on a line that is slower than they are long each would
// wear out the others.
const mostRaises = 3

// raised ends the operation, unless something was lost meanwhile.
func (op *multiOp) raised() {
	trouble := -1
	for _, r := range op.raising {
		switch err := r.err; {
		case err == nil, errors.Is(err, ErrLost):
		case op.try || !passes(err):
			op.fail(named(op.parts[r.at].lock, err))
			return
		case trouble < 0:
			trouble = r.at
		}
	}
	switch {
	case op.startOver(len(op.parts)):
		return
	case trouble >= 0: // as where an acquire is refused so: it is waited for in its queue, and nothing behind it is kept
		op.giveBack(trouble)
		op.waitFor(trouble)
		return
	}
	// What was not worn may be by now: an Extend that waits behind other changes takes its time.
	if op.raises++; op.raises < mostRaises && len(op.worn(len(op.parts))) > 0 {
		op.raise()
		return
	}
	if !op.claim() {
		return
	}
	leases := make([]*Lease, len(op.parts))
	for i := range op.parts {
		leases[i] = op.parts[i].lease
	}
	op.end(&MultiLease{lock: op.lock, ctx: op.ctx, lead: op.lead, leases: leases, apart: len(op.engines) > 1}, nil)
}

// end publishes the result. Close may return now.
func (op *multiOp) end(ls *MultiLease, err error) {
	op.phase, op.parts, op.raising, op.returning = multiFinished, nil, nil, nil
	op.keeper.rest()
	op.finish(op.ctx)
	op.lead.world.Yield("multiOp.end: ended | told")
	op.publish(ls, err)
	op.leave(op.engines)
}

// A keeper extends fixed leases while their operation waits for another lock: they would run out.
type keeper struct {
	op    *multiOp
	item  wheel.Item[timed]
	every time.Duration
	tired atomic.Bool
}

// keep begins with the parts before an index, which are held.
func (k *keeper) keep(before int) {
	k.every = 0
	for i := range before {
		if set := k.op.parts[i].lock.set; !set.Watchdog && (k.every == 0 || set.Lease/4 < k.every) {
			k.every = set.Lease / 4
		}
	}
	k.again()
}

func (k *keeper) again() {
	if k.every > 0 {
		k.op.lead.timers.Schedule(k, k.op.lead.clock.Now().Add(k.every))
	}
}

// Scheduled is its place among the timers.
func (k *keeper) Scheduled() *wheel.Item[timed] { return &k.item }

// due has the joint look.
func (k *keeper) due(clock.Instant) {
	k.tired.Store(true)
	k.op.wake()
}

// look extends what has run for a while. Nobody waits for the answers: what was not extended runs out, and then the
// operation starts over. What it gives back then is not extended any more. Each part has one Extend on its way at most:
// where answers take long, a queue of them would keep the lane busy for longer than the trouble lasts.
func (k *keeper) look() {
	op := k.op
	if op.phase != multiWaits || !k.tired.Swap(false) {
		return
	}
	before := op.from
	if lost := firstLost(op.parts[:before]); lost >= 0 {
		before = lost
	}
	for _, at := range op.worn(before) {
		if p := &op.parts[at]; p.kept == nil || p.kept.state.Load() == futureDone {
			p.kept = extendPart(p.lease, p.lock.set.Lease)
		}
	}
	if before > 0 {
		k.again()
	}
}

// rest ends that.
func (k *keeper) rest() {
	if k.every > 0 {
		k.op.lead.timers.Cancel(&k.item)
		k.every = 0
	}
}
