package engine

import (
	"context"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A Lock is a handle on a name with options: cheap, immutable, usable by any number of goroutines.
// On the wire it is Redisson's RLock.
type Lock struct {
	eng  *Engine
	set  *settings
	key  string // prefix and name
	hash uint64
	slot uint16 // of the key; 0 where slots do not matter
}

// Lock returns a handle on a lock. A bad name or option is the error of Err and of every operation;
// nothing is sent for it. Blocks: never.
func (e *Engine) Lock(name string, opts ...Option) *Lock {
	l := e.handle(name, slot.KindLock, resp.FamilyLock, opts)
	return &l
}

// handle makes a handle of any family.
func (e *Engine) handle(name string, kind slot.Kind, family resp.Family, opts []Option) Lock {
	set := defaults[family].with(opts)
	err := slot.Check(e.cfg.Prefix+name, kind, e.nodes.Cluster())
	if name == "" { // a prefix is not a name
		err = slot.Check("", kind, false)
	}
	if err != nil {
		bad := *set
		bad.err = err
		set = &bad
	}
	key := name
	if e.cfg.Prefix != "" {
		key = e.cfg.Prefix + name
	}
	l := Lock{eng: e, set: set, key: key, hash: xxhash.Sum64String(key)}
	if e.nodes.Cluster() {
		l.slot = slot.Of(key)
	}
	return l
}

// With returns a handle on the same name with further options.
func (l *Lock) With(opts ...Option) *Lock {
	changed := *l
	changed.set = l.set.with(opts)
	return &changed
}

// Name returns the name without the engine's prefix.
func (l *Lock) Name() string { return l.key[len(l.eng.cfg.Prefix):] }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (l *Lock) Err() error { return l.set.err }

// Acquire takes the lock, waiting for it as long as ctx and MaxWait allow. A grant that arrives
// together with the end of ctx is returned.
//
// Errors: ctx's own; *HeldError after MaxWait; ErrUnknown, *ServerError, ErrOverloaded, ErrClosed,
// ErrWrongKind, ErrName, ErrLease.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.wait(ctx, l.ownerIn(ctx), false)
}

// TryAcquire takes the lock if it is free: one attempt, *HeldError if somebody has it or others wait
// for it here. Errors: as Acquire.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.wait(ctx, l.ownerIn(ctx), true)
}

// AcquireAsync is Acquire as a future. ctx bounds the operation: when it ends first, the future
// completes at once with ctx's error, and the engine releases what the server may still grant.
// Blocks: never.
func (l *Lock) AcquireAsync(ctx context.Context) *Future[*Lease] {
	return &l.begin(ctx, l.ownerIn(ctx), false, true).Future
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (l *Lock) TryAcquireAsync(ctx context.Context) *Future[*Lease] {
	return &l.begin(ctx, l.ownerIn(ctx), true, true).Future
}

// begin starts an acquire for an owner, if there is one.
func (l *Lock) begin(ctx context.Context, o *Owner, try, async bool) *acquireOp {
	op := &acquireOp{lock: l, owner: o, set: l.set, ctx: ctx, try: try, async: async}
	op.Future.op = op
	if err := l.set.err; err != nil {
		op.resolve(nil, err)
		return op
	}
	if err := ctx.Err(); err != nil {
		op.resolve(nil, err)
		return op
	}
	l.eng.submit(op)
	return op
}

// wait is the blocking form. It watches ctx itself; the one compare-and-swap of abandon decides
// between the end of ctx and a grant at the same moment.
func (l *Lock) wait(ctx context.Context, o *Owner, try bool) (*Lease, error) {
	op := l.begin(ctx, o, try, false)
	if ls, err, ok := op.Result(); ok {
		return ls, err
	}
	if !op.waitIn(ctx) {
		op.abandon(ctx.Err())
		op.waitIn(context.Background())
	}
	return op.value, op.err
}

// Do runs fn while holding the lock. Its ctx ends with the caller's or with the lease, whichever is
// first. Taking this lock again with it enters again instead of waiting for itself, also in a Do of another
// lock inside; taking any other lock with it excludes whoever else takes that, inside fn, too, unless the
// caller's ctx carries an owner. A panic releases the lock and goes on. If the lease is lost, ErrLost is
// joined with fn's error: what fn did then may have overlapped with another holder.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	d, owner := l.newDoing(ctx)
	ls, err := l.wait(ctx, owner, false)
	if err != nil {
		return err
	}
	d.lease = ls
	held, cancel := context.WithCancelCause(context.WithValue(ls.Context(), ownerKey{}, d))
	deadline, limited := ctx.Deadline()
	stop := l.eng.world.AfterFunc(ctx, func() {
		if !limited || !errors.Is(ctx.Err(), context.DeadlineExceeded) { // held has a timer of its own
			cancel(context.Cause(ctx))
		}
	})
	defer func() {
		stop()
		released := ls.Release(context.WithoutCancel(ctx))
		cancel(ErrReleased)
		err = errors.Join(err, released)
	}()
	if limited {
		var end context.CancelFunc
		held, end = context.WithDeadline(held, deadline)
		defer end()
	}
	return fn(held)
}
