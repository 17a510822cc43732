package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A RedLock is one lock on each of several independent servers, which is held while a majority of them has it: the
// algorithm of the page "Distributed Locks with Redis", known as Redlock. It outlives the loss of a minority of the
// servers, with their data or without. On the wire it is its locks; Redisson's RedissonRedLock of the same names
// excludes it.
//
// Do not use it where fewer will do. It costs n commands for each acquire and each release, on n servers that share
// nothing: they are no replicas of each other, and no masters of one cluster. It waits by asking again after pauses,
// not in a queue: beside many who want the same lock it is slow. It is no safer than a Lock against a holder that stops
// between a look at Lost and what it does then: against that only a fencing token helps, and the tokens of n servers
// do not rise together. And a server that comes back without its data before a lease has passed makes a majority
// possible for two. Where a failover may lose a lock, WaitReplicas and a FencedLock are mostly the better answer.
//
// A server's answer is waited for no longer than a twentieth of the lease, from 50 ms to a second. Where a majority has
// answered, and is none because of refusals, others are waited for as well, and keep them from a majority: then
// Acquire waits for 10 ms and begins another round, for which what a slow server has granted by then counts.
// TryAcquire has one round, and waits. One that is silent delays nobody for longer. What it still grants is joined to
// a lease that is held, or given back.
type RedLock struct{ all *MultiLock }

// Red returns a handle on locks of which each is of another engine: at least three. They need not have the same name.
// Errors: as Multi; too few locks, or two of one engine, are ErrName.
func Red(locks ...*Lock) *RedLock {
	m := ordered(locks) // it waits for none of them while it holds others: their order does not matter
	if m.err == nil {
		m.err = checkApart(m.sorted)
	}
	return &RedLock{m}
}

// redLeast is how many servers a majority is worth its cost with.
const redLeast = 3

// checkApart finds what is wrong with the locks of a RedLock.
func checkApart(sorted []*Lock) error {
	if len(sorted) < redLeast {
		return fmt.Errorf("%w: a RedLock of %d locks has no majority that outlives a loss, it needs %d", ErrName, len(sorted),
			redLeast)
	}
	of := make(map[*Engine]*Lock)
	for _, l := range sorted {
		if other := of[l.eng]; other != nil {
			return &nameError{l.Name(), fmt.Errorf("%w: it and %s are locks of one engine", ErrName, quote(other.Name()))}
		}
		of[l.eng] = l
	}
	return nil
}

// With returns a handle on the same locks, each with further options.
func (r *RedLock) With(opts ...Option) *RedLock { return Red(r.all.With(opts...).given...) }

// Names returns the names of the locks, as they were given.
func (r *RedLock) Names() []string { return r.all.Names() }

// Err returns what is wrong with the names or the options: ErrName, ErrLease, or nil.
func (r *RedLock) Err() error { return r.all.err }

// quorum is the least majority.
func (r *RedLock) quorum() int { return len(r.all.sorted)/2 + 1 }

// Acquire takes the lock on a majority of the servers, trying as long as ctx and MaxWait allow.
//
// Errors: ctx's own; *HeldError after MaxWait; ErrUnknown, ErrName, ErrLease; ErrClosed, if one of the engines is
// closed, for that is no server that is away; and what waiting does not mend, ErrWrongKind for instance, if so many
// servers say so that there is no majority without them.
func (r *RedLock) Acquire(ctx context.Context) (*RedLease, error) {
	return r.begin(ctx, asking{}).wait(ctx)
}

// TryAcquire takes the lock if a majority of the servers is free: one attempt, else the error of the first that is
// not. Errors: as Acquire.
func (r *RedLock) TryAcquire(ctx context.Context) (*RedLease, error) {
	return r.begin(ctx, asking{try: true}).wait(ctx)
}

// AcquireAsync is Acquire as a future. Blocks: never.
func (r *RedLock) AcquireAsync(ctx context.Context) *Future[*RedLease] {
	return &r.begin(ctx, asking{async: true}).Future
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (r *RedLock) TryAcquireAsync(ctx context.Context) *Future[*RedLease] {
	return &r.begin(ctx, asking{async: true, try: true}).Future
}

// Do runs fn while holding the lock, as Lock.Do.
func (r *RedLock) Do(ctx context.Context, fn func(context.Context) error) error {
	d := newDoing(ctx)
	ls, err := r.begin(ctx, asking{by: &d.made}).wait(ctx)
	if err != nil {
		return err
	}
	d.several = ls.granted
	return d.run(ctx, ls, ls.lead.world, fn)
}

// wait is the blocking form.
func (op *redOp) wait(ctx context.Context) (*RedLease, error) {
	if ls, err, ok := op.Result(); ok {
		return ls, err
	}
	if !op.waitIn(ctx) {
		op.abandon(&WaitError{Name: op.lock.all.sorted[0].Name(), cause: ctx.Err()})
		op.waitIn(context.Background())
	}
	return op.value, op.err
}

func (r *RedLock) begin(ctx context.Context, how asking) *redOp {
	op := &redOp{lock: r, asking: how}
	op.Future.op = op
	if r.all.err != nil {
		op.resolve(nil, r.all.err)
		return op
	}
	op.lead = r.all.sorted[0].eng
	if err := ctx.Err(); err != nil {
		op.resolve(nil, &WaitError{Name: r.all.sorted[0].Name(), cause: err})
		return op
	}
	op.prepare(ctx)
	if err := op.joint.begin(op, r.all.sorted); err != nil {
		op.resolve(nil, err)
		return op
	}
	if most := r.all.most; most > 0 && !how.try {
		op.lead.timers.Schedule(op, op.lead.clock.Now().Add(most))
	}
	if how.async {
		op.watchContext(ctx, r.all.sorted[0].Name(), func() bool { return op.state.Load() == futurePending })
	}
	op.run()
	return op
}

// A redOp is one acquire of a RedLock. It goes in rounds: all are tried at once; without a majority everything is given
// back, and a pause of random length comes before the next.
type redOp struct {
	Future[*RedLease]
	joint
	asking
	lock *RedLock
	ctx  context.Context //nolint:containedctx // the caller's, for the values of the lease's context

	// Owned by whoever has the joint's turn.
	phase   redPhase
	parts   []part
	timer   wheel.Item[timed] // ends until
	until   clock.Instant     // the end of a round, of the wait for the rest of it, or of a pause
	tries   int
	graced  bool  // there is a majority, and the others are waited for
	hurried bool  // somebody else has a part, and a majority has answered
	last    error // of the last round
	failure error // it is told when what was taken has been given back
}

// redPhase is what a redOp is at.
type redPhase uint8

const (
	redBegins redPhase = iota
	redAsks
	redPauses
	redReturns
)

// redTimer makes a redOp due.
type redTimer struct{ op *redOp }

// Scheduled is its place among the timers.
func (t redTimer) Scheduled() *wheel.Item[timed] { return &t.op.timer }

func (t redTimer) due(clock.Instant) { t.op.wake() }

func (op *redOp) prepare(ctx context.Context) {
	op.ctx = context.WithoutCancel(ctx)
	op.parts = partsOf(ctx, op.lock.all.sorted, op.by)
}

func (op *redOp) awaitEnded(cause error) error {
	return leftBehind(op.lock.all.sorted[0].Name(), cause, leftAcquire)
}

func (op *redOp) abandon(err error) bool {
	if !op.claim() {
		return false
	}
	op.giveUp(err)
	return true
}

// due is MaxWait's end.
func (op *redOp) due(clock.Instant) {
	if op.claim() {
		op.giveUpLater(errMaxWait)
	}
}

// step goes on with what is there.
func (op *redOp) step() {
	switch {
	case op.over:
	case op.quit.Load():
		op.given = withState(op.given, op.waitedError)
		op.giveBack()
		op.end(nil, op.given)
	case op.phase == redBegins, op.phase == redPauses && op.passed():
		op.ask()
	case op.phase == redAsks:
		op.judge()
	case op.phase == redReturns && op.left.Load() == 0 && op.claim():
		op.end(nil, op.failure)
	}
}

// passed reports whether the time is over that the operation waits for.
func (op *redOp) passed() bool { return !op.lead.clock.Now().Before(op.until) }

func (op *redOp) waitUntil(at clock.Instant) {
	op.until = at
	op.lead.timers.Schedule(redTimer{op}, at)
}

// ask begins a round.
func (op *redOp) ask() {
	op.phase, op.graced, op.hurried = redAsks, false, false
	op.tries++
	patience := min(max(op.parts[0].lock.set.Lease/20, 50*time.Millisecond), time.Second)
	op.waitUntil(op.lead.clock.Now().Add(patience))
	for i := range op.parts {
		p := &op.parts[i]
		p.op = askPart(op.ctx, p.lock, p.owner, true)
		p.op.then(op.wake)
	}
}

// redGrace is how long a majority of answers waits for the others.
const redGrace = 10 * time.Millisecond

// redPatient is of how many rounds one waits for the slow in any case.
const redPatient = 4

// judge looks at a round: a majority is enough, and where there can be none nobody is waited for.
func (op *redOp) judge() {
	quorum := op.lock.quorum()
	granted, failed, final := 0, 0, 0
	var broken error
	op.last = nil
	for i := range op.parts {
		p := &op.parts[i]
		switch _, err, told := p.op.Result(); {
		case !told:
		case err == nil:
			granted++
		default:
			failed++
			op.note(p, err)
			if !mayPass(err) {
				final++
				broken = named(p.lock, err)
			}
		}
	}
	most := len(op.parts) - quorum // so many may fail
	// What one server says for good is no reason to give up, as long as the others can make a majority.
	switch {
	case granted+failed == len(op.parts) && granted >= quorum, op.graced && op.passed():
		op.take()
	case granted >= quorum && !op.graced:
		op.graced = true
		op.waitUntil(op.lead.clock.Now().Add(redGrace))
	case granted >= quorum:
	case final > most:
		op.fail(broken)
	case failed > most, op.passed():
		op.again()
	// Somebody else wants it: what is kept meanwhile keeps that one from a majority, too, and the silent help neither.
	// A try has this round alone. And the silent may only be far away: now and then all the time there is is theirs.
	case granted+failed >= quorum && !op.hurried && !op.try && op.tries%redPatient != 0:
		op.hurried = true
		op.waitUntil(min(op.until, op.lead.clock.Now().Add(redGrace)))
	}
}

// note remembers why a round fails: that somebody has the lock says more than anything else.
func (op *redOp) note(p *part, err error) {
	if op.last == nil || errors.Is(err, ErrHeld) && !errors.Is(op.last, ErrHeld) {
		op.last = named(p.lock, err)
	}
}

// again gives everything back, and has the next round follow after a pause: of random length, so that of those who
// have split the servers between them one is alone, and the longer, the more rounds there were.
func (op *redOp) again() {
	const first, most = 4 * time.Millisecond, 256 * time.Millisecond
	op.last = op.why()
	if op.try {
		op.fail(op.last)
		return
	}
	op.giveBack()
	op.phase = redPauses
	pause := min(first<<min(op.tries, 10), most)
	op.waitUntil(op.lead.clock.Now().Add(pause/2 + op.lead.world.N(pause)))
}

// giveBack cancels what has no answer, and releases what was granted: also late.
func (op *redOp) giveBack() {
	for i := range op.parts {
		if p := &op.parts[i]; p.op != nil {
			if !p.op.Cancel() {
				giveBackLater(&p.op.Future)
			}
			p.op = nil
		}
	}
}

// giveBackLater releases what an acquire was granted that cannot be cancelled any more.
func giveBackLater(f *Future[*Lease]) {
	f.then(func() {
		if f.err == nil {
			givePart(f.value)
		}
	})
}

// fail gives everything back, and has the result follow the answers to that.
func (op *redOp) fail(err error) {
	op.phase, op.failure = redReturns, err
	op.expect(0)
	for i := range op.parts {
		p := &op.parts[i]
		if ls, err, told := p.op.Result(); told && err == nil {
			op.left.Add(1)
			givePart(ls).then(op.answer)
			p.op = nil
		}
	}
	op.giveBack()
	op.answer()
}

// waitedError is what a caller is told when MaxWait is over.
func (op *redOp) waitedError() error {
	switch {
	case op.failure != nil:
		return op.failure
	default:
		return op.why()
	}
}

// why says why there is no majority: somebody has the lock; or else nobody knows, because servers that have not
// answered may have granted it; or else what a server says.
func (op *redOp) why() error {
	open := slices.ContainsFunc(op.parts, func(p part) bool {
		if p.op == nil {
			return false
		}
		_, err, told := p.op.Result()
		return !told || errors.Is(err, ErrUnknown)
	})
	if op.last != nil && (!open || errors.Is(op.last, ErrHeld)) {
		return op.last
	}
	l := op.parts[0].lock
	return &UnknownError{
		Name: l.Name(), FreeBy: l.eng.clock.Wall(l.eng.clock.Now().Add(l.eng.nodes.AttemptLimit() + l.set.Lease)),
		cause: cmp.Or(op.last, errNoAnswer),
	}
}

// take makes the lease of a majority, unless too much time has passed since it was asked for.
func (op *redOp) take() {
	ls := &RedLease{lock: op.lock, lead: op.lead, parts: make([]redPart, len(op.parts))}
	ls.group = newGroupContext(op.ctx, ls.Lost)
	// None of what was granted need be there any more: the round may have taken longer than the lease.
	late := make([]*acquireOp, len(op.parts))
	for i := range op.parts {
		p := &op.parts[i]
		switch got, err, told := p.op.Result(); {
		case !told:
			late[i] = p.op
		case err == nil:
			ls.parts[i].lease.Store(got)
		}
	}
	if ls.heldAt(op.lead.clock.Now()) < op.lock.quorum() {
		op.last = &nameError{op.parts[0].lock.Name(), notTaken{ErrLost}}
		op.again()
		return
	}
	if !op.claim() {
		return
	}
	ls.begin()
	// Who has no answer yet joins it, or is given back when it is over.
	for i, f := range late {
		if f != nil {
			f.then(func() { ls.join(i, f.value) })
		}
	}
	op.end(ls, nil)
}

// end publishes the result. Close may return now.
func (op *redOp) end(ls *RedLease, err error) {
	op.parts = nil
	op.lead.timers.Cancel(&op.timer)
	op.finish(op.ctx)
	op.lead.world.Yield("redOp.end: ended | told")
	op.publish(ls, err)
	op.leave(op.engines)
}
