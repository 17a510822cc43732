package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A Semaphore is a number of permits under a name, for as many holders at once as there are permits. On the wire it is
// Redisson's RSemaphore.
//
// Nobody owns a permit: there is no lease, nothing is renewed, and what a process took that has died is missing until
// somebody adds it again (AddPermits). A semaphore has to be given its permits once, by TrySetPermits; one that nobody
// has given any has none.
//
// There is no ForceRelease, and there are no events: nothing is held by anybody. Who has to free permits that are
// missing adds them (AddPermits), and who has to stop others drains it (DrainPermits).
//
// Waiters of one engine are served in the order in which they asked: one that wants many permits waits for its turn
// only, and those behind it wait with it. Between engines, and Redisson, there is no order: who asks first when
// permits are free gets them, and nobody keeps them together for one that wants many. What is released goes to the next
// waiters of this engine without a command, for a tenure of at least 20 ms; then others come first.
//
// Each request counts once, though its answer may be lost and the request sent again: the server notes the number of
// each engine's last request, for an hour after the last request of any. Redisson's own requests have no such number. A
// failover may lose what the replica has not seen: permits that were taken may be free, or given ones missing.
type Semaphore struct{ one Lock }

// Semaphore returns a handle on a semaphore. The only option is MaxWait. Errors: as Lock.
func (e *Engine) Semaphore(name string, opts ...Option) *Semaphore {
	return &Semaphore{one: handleOfCounted(e, name, resp.FamilySemaphore, opts)}
}

// handleOfCounted makes a handle of what has no lease.
func handleOfCounted(e *Engine, name string, f resp.Family, opts []Option) Lock {
	l := e.handle(name, f, opts)
	want := *defaults[f]
	want.maxWait, want.err = l.set.maxWait, l.set.err
	if *l.set != want {
		want.refuse(fmt.Errorf("%w: nobody owns what is counted, and there is no lease: only MaxWait", ErrLease))
		l.set = &want
	}
	return l
}

// With returns a handle on the same name with further options.
func (s *Semaphore) With(opts ...Option) *Semaphore {
	return s.one.eng.Semaphore(s.Name(), s.more(opts)...)
}

// more are the options that it has, and further ones.
func (s *Semaphore) more(opts []Option) []Option {
	return append([]Option{func(set *settings) { set.maxWait = s.one.set.maxWait }}, opts...)
}

// Name returns the name without the engine's prefix.
func (s *Semaphore) Name() string { return s.one.Name() }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (s *Semaphore) Err() error { return s.one.Err() }

// Acquire takes n permits, all or none, waiting for them as long as ctx and MaxWait allow. None are taken at once.
//
// Errors: ctx's own; *NoPermitsError after MaxWait; ErrUnknown, *ServerError, ErrClosed, ErrWrongKind, ErrName;
// ErrLease for an n below 0 or above 2^31-1. What the server grants after an error is given back.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.wait(ctx, n, false)
}

// TryAcquire takes n permits if they are free: one attempt, *NoPermitsError if they are not, or if others wait for
// permits here. Errors: as Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) error {
	return s.wait(ctx, n, true)
}

// AcquireAsync is Acquire as a future. ctx bounds the operation. Blocks: never.
func (s *Semaphore) AcquireAsync(ctx context.Context, n int) *Future[struct{}] {
	return s.begin(ctx, n, false)
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (s *Semaphore) TryAcquireAsync(ctx context.Context, n int) *Future[struct{}] {
	return s.begin(ctx, n, true)
}

// Release gives n permits back; it need not be who took them. It is detached: the end of ctx ends only the wait for the
// answer.
//
// Errors: ErrUnknown if no answer came, or none but that the server cannot do it now, such as READONLY, for some
// seconds, or if some were handed to who waits here and the server refused the others: the engine goes on giving them
// back, for an hour at most, so do not release them again; such an error has the server's last word, a *ServerError,
// beside it. *ServerError alone or ErrWrongKind if the server refused for good: nothing was given back; ErrClosed;
// ErrLease as Acquire.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	_, err := s.ReleaseAsync(n).Await(ctx)
	return err
}

// ReleaseAsync is Release as a future. Cancelling it changes nothing: the release is on its way.
func (s *Semaphore) ReleaseAsync(n int) *Future[struct{}] {
	return s.release(n, s.check("Release", n, 0))
}

// release is that, if nothing is wrong with it.
func (s *Semaphore) release(n int, wrong error) *Future[struct{}] {
	l := &s.one
	op := &countedRelease{eng: l.eng, name: l.Name()}
	op.Future.op = op
	if wrong != nil || n == 0 {
		op.resolve(struct{}{}, wrong)
		return &op.Future
	}
	sc := l.eng.enter(l.hash)
	if l.eng.closing.Load() {
		sc.leave()
		op.resolve(struct{}{}, ErrClosed)
		return &op.Future
	}
	ent := sc.makeEntry(l)
	left := sc.handOut(ent, l.set.family, int32(n)) //nolint:gosec // checked
	if left == 0 {
		sc.sh.counts.releases++
	} else {
		if int(left) < n {
			op.part = int64(left)
		}
		sc.releaseUnits(ent, l.set.family, pendingUnits{units: int64(left), ops: []*countedRelease{op}})
	}
	sc.advance(ent)
	sc.owe()
	sc.leaveAt("Semaphore.ReleaseAsync: handed out, sent | effects")
	if left == 0 {
		op.resolve(struct{}{}, nil)
	}
	return &op.Future
}

// check refuses a number of permits that cannot be asked for, and a handle that has a fault.
func (s *Semaphore) check(what string, n, least int) error {
	return s.checkUnits(what, "permits", n, least)
}

// checkUnits is check of what is counted in other units.
func (s *Semaphore) checkUnits(what, units string, n, least int) error {
	switch {
	case s.Err() != nil:
		return s.Err()
	case n < least || n > math.MaxInt32:
		return fmt.Errorf("%w: %s of %d %s is not from %d to %d", ErrLease, what, n, units, least, math.MaxInt32)
	default:
		return nil
	}
}

// wanting is the handle with which n permits are asked for.
func (s *Semaphore) wanting(n int) *Lock {
	if n == int(s.one.set.Units) {
		return &s.one
	}
	l, set := s.one, *s.one.set
	set.Units = int32(n) //nolint:gosec // checked
	l.set = &set
	return &l
}

func (s *Semaphore) wait(ctx context.Context, n int, try bool) error {
	if err := s.check("Acquire", n, 0); err != nil || n == 0 {
		return err
	}
	_, err := s.wanting(n).wait(ctx, nil, try)
	return err
}

// A taking is an acquire of permits as a future: there is no lease.
type taking struct {
	Future[struct{}]
	op *acquireOp
}

func (t *taking) abandon(err error) bool       { return t.op.abandon(err) }
func (t *taking) runner() *callback.Pool       { return t.op.runner() }
func (t *taking) awaitEnded(cause error) error { return t.op.awaitEnded(cause) }

func (s *Semaphore) begin(ctx context.Context, n int, try bool) *Future[struct{}] {
	t := &taking{}
	t.Future.op = t
	err := s.check("Acquire", n, 0)
	t.op = &acquireOp{lock: &s.one}
	if err != nil || n == 0 {
		t.resolve(struct{}{}, err)
		return &t.Future
	}
	t.op = s.wanting(n).begin(ctx, nil, try, true)
	t.op.then(func() { t.resolve(struct{}{}, t.op.err) })
	return &t.Future
}

// TrySetPermits gives the semaphore n permits if it has never had any, and says whether it did: Redisson's
// trySetPermits. Blocks: for one round trip, or until ctx ends.
//
// Errors: ErrUnknown if no answer came: it may have been done, and is not sent again; *ServerError, ErrWrongKind,
// ErrName, ErrClosed; ErrLease for an n below 0 or above 2^31-1.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.TrySetPermitsAsync(ctx, n, 0).Await(ctx)
}

// TrySetPermitsAsync is TrySetPermits as a future. With a lifetime that is not 0 the semaphore is gone after it, with
// all its permits; it is rounded up to a millisecond.
func (s *Semaphore) TrySetPermitsAsync(ctx context.Context, n int, lifetime time.Duration) *Future[bool] {
	err := s.check("TrySetPermits", n, 0)
	if lifetime != 0 && err == nil {
		lifetime, err = checkDuration("TrySetPermits", lifetime, time.Millisecond)
	}
	return askSemaphore(ctx, s, question{"set", n, lifetime, err}, answeredDone)
}

// AddPermits adds n permits, or takes away as many as -n, which may leave fewer than none: then as many have to
// be released before one is free. It returns how many are free then. A semaphore that has never had any has them
// from then on. Blocks and errors: as TrySetPermits.
func (s *Semaphore) AddPermits(ctx context.Context, n int) (int, error) {
	return s.AddPermitsAsync(ctx, n).Await(ctx)
}

// AddPermitsAsync is AddPermits as a future.
func (s *Semaphore) AddPermitsAsync(ctx context.Context, n int) *Future[int] {
	return askSemaphore(ctx, s, question{"add", n, 0, s.check("AddPermits", n, math.MinInt32)}, answeredMany)
}

// ReleaseIfExists is Release of n permits where the semaphore has ever had any, and says whether it has.
// Blocks and errors: as TrySetPermits.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (bool, error) {
	return s.ReleaseIfExistsAsync(ctx, n).Await(ctx)
}

// ReleaseIfExistsAsync is ReleaseIfExists as a future.
func (s *Semaphore) ReleaseIfExistsAsync(ctx context.Context, n int) *Future[bool] {
	return askSemaphore(ctx, s, question{"some", n, 0, s.check("ReleaseIfExists", n, 1)}, answeredDone)
}

// DrainPermits takes all permits that are free, and returns how many those were. Blocks and errors: as TrySetPermits.
func (s *Semaphore) DrainPermits(ctx context.Context) (int, error) {
	return s.DrainPermitsAsync(ctx).Await(ctx)
}

// DrainPermitsAsync is DrainPermits as a future.
func (s *Semaphore) DrainPermitsAsync(ctx context.Context) *Future[int] {
	return askSemaphore(ctx, s, question{"drain", 0, 0, s.Err()}, answeredMany)
}

// AvailablePermits returns how many permits are free; 0 where there is no semaphore. Blocks: for one round trip, or
// until ctx ends. Errors: as TrySetPermits, and never ErrUnknown before it was asked again.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	return s.AvailablePermitsAsync(ctx).Await(ctx)
}

// AvailablePermitsAsync is AvailablePermits as a future.
func (s *Semaphore) AvailablePermitsAsync(ctx context.Context) *Future[int] {
	return askSemaphore(ctx, s, question{"get", 0, 0, s.Err()}, answeredMany)
}

// Waiters returns how many callers of this engine wait for permits. Blocks: never.
func (s *Semaphore) Waiters() int { return s.one.waiters() }

// Delete takes the semaphore away, whoever has permits of it, and says whether there was one. Who waits goes on
// waiting, for another TrySetPermits. Permits are a bare number: what was taken before and is given back later, by a
// caller or by the engine for one who has left, is added to whatever stands there then, as Redisson's release does. So
// delete a semaphore when nobody asks for it. Blocks and errors: as TrySetPermits.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) { return s.DeleteAsync(ctx).Await(ctx) }

// DeleteAsync is Delete as a future.
func (s *Semaphore) DeleteAsync(ctx context.Context) *Future[bool] {
	return askSemaphore(ctx, s, question{"delete", 0, 0, s.Err()}, answeredDone)
}

// A question is what a semaphore is asked beside its permits, see resp/scripts/semaphoreset.lua.
type question struct {
	verb     string
	n        int
	lifetime time.Duration
	bad      error // why it is not asked
}

// reads reports whether it changes nothing, so that it may be asked again.
func (q question) reads() bool { return q.verb == "get" || q.verb == "waiting" || q.verb == "broken" }

func answeredDone(r *resp.Result) bool { return r.Code == resp.CodeDone }

func answeredMany(r *resp.Result) int { return int(r.Value) }

// askSemaphore asks it. What changes something is not sent again without an answer: it might count twice.
func askSemaphore[T any](ctx context.Context, s *Semaphore, q question, read func(*resp.Result) T) *Future[T] {
	l := &s.one
	op := &singleOp[T]{eng: l.eng, name: l.Name(), repeat: q.reads()}
	op.read = func(r *resp.Result) (v T, err error) {
		if r.Code == resp.CodeWrongKind {
			return v, &nameError{l.Name(), ErrWrongKind}
		}
		return read(r), nil
	}
	op.op = resp.Op{
		Kind: resp.OpCall, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot, Field: q.verb,
		Count: int32(q.n), LeaseMs: q.lifetime.Milliseconds(), //nolint:gosec // checked
	}
	if q.bad != nil {
		op.Future.op = op
		op.abandon(q.bad)
		return &op.Future
	}
	return single(ctx, l, op)
}
