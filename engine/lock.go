package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/internal/world"
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

	class uint8 // of the name, see classes
}

// Lock returns a handle on a lock. A bad name or option is the error of Err and of every operation;
// nothing is sent for it. Blocks: never.
func (e *Engine) Lock(name string, opts ...Option) *Lock {
	l := e.handle(name, resp.FamilyLock, opts)
	return &l
}

// handle makes a handle of any family.
func (e *Engine) handle(name string, family resp.Family, opts []Option) Lock {
	set, kind := settingsOf(family, opts), traits(family).kind
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
	l := Lock{eng: e, set: set, key: key, hash: xxhash.Sum64String(key), class: e.classes.numberOf(e.cfg.Class, name)}
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
func (l *Lock) Name() string { return l.eng.nameOf(l.key) }

// Err returns what is wrong with the name or the options: ErrName, ErrLease, or nil.
func (l *Lock) Err() error { return l.set.err }

// Acquire takes the lock, waiting for it as long as ctx and MaxWait allow. A grant that arrives
// together with the end of ctx is returned.
//
// Errors: ctx's own, as *WaitError, which tells who was in the way; *HeldError after MaxWait; ErrUnknown, *ServerError,
// ErrOverloaded, ErrClosed, ErrWrongKind, ErrName, ErrLease.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	return l.wait(ctx, l.ownerIn(ctx), false)
}

// TryAcquire takes the lock if it is free: one attempt, *HeldError if somebody has it or others wait
// for it here. What this engine is giving back it lets pass first, unless that goes on failing: for 200 ms, or for as
// long as one attempt may take where a slot moves. Errors: as Acquire.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.wait(ctx, l.ownerIn(ctx), true)
}

// AcquireAsync is Acquire as a future. ctx bounds the operation: when it ends first, the future
// completes at once with ctx's error, and the engine releases what the server may still grant.
// Blocks: never.
func (l *Lock) AcquireAsync(ctx context.Context) *Future[*Lease] {
	return &l.start(ctx, l.ownerIn(ctx), false).Future
}

// TryAcquireAsync is TryAcquire as a future. Blocks: never.
func (l *Lock) TryAcquireAsync(ctx context.Context) *Future[*Lease] {
	return &l.start(ctx, l.ownerIn(ctx), true).Future
}

// start is begin for a caller who holds no mutex.
func (l *Lock) start(ctx context.Context, o *Owner, try bool) *acquireOp {
	op := l.newOp(ctx, o, try, true)
	if op.admitted() {
		l.eng.submit(op, l.eng.cfg.leads).Run()
	}
	return op
}

// begin starts an acquire for an owner, if there is one.
func (l *Lock) begin(ctx context.Context, o *Owner, try, async bool) *acquireOp {
	op := l.newOp(ctx, o, try, async)
	if op.admitted() {
		l.eng.submit(op, false)
	}
	return op
}

func (l *Lock) newOp(ctx context.Context, o *Owner, try, async bool) *acquireOp {
	op := &acquireOp{lock: l, set: l.set, ctx: ctx, lease: Lease{owner: o}}
	op.Future.op, op.Of, op.Try, op.Async = op, op, try, async
	return op
}

// admitted reports whether an op may be submitted. Else it has its result.
func (op *acquireOp) admitted() bool {
	if err := op.set.err; err != nil {
		op.resolve(nil, err)
		return false
	}
	if err := op.ctx.Err(); err != nil {
		op.resolve(nil, &WaitError{Name: op.lock.Name(), cause: err})
		return false
	}
	op.trace()
	return true
}

// wait is the blocking form. It watches ctx itself; the one compare-and-swap of abandon decides
// between the end of ctx and a grant at the same moment.
func (l *Lock) wait(ctx context.Context, o *Owner, try bool) (*Lease, error) {
	op := l.newOp(ctx, o, try, false)
	if op.admitted() {
		l.eng.submit(op, true).Run()
	}
	if ls, err, ok := op.Result(); ok {
		return ls, err
	}
	if !op.waitIn(ctx) {
		op.abandon(op.endedError(ctx.Err()))
		op.waitIn(context.Background())
	}
	return op.value, op.err
}

// Do runs fn while holding the lock. Its ctx ends with the caller's or with the lease, whichever is
// first. Taking this lock again with it enters again instead of waiting for itself, also in a Do of another
// lock inside; taking any other lock with it excludes whoever else takes that, inside fn, too, unless the
// caller's ctx carries an owner. A panic releases the lock and goes on. If the lease is lost, ErrLost is
// joined with fn's error: what fn did then may have overlapped with another holder. SafeToRetry is false for all
// errors of a Do that has run fn.
//
// If fn returns nil, Do may return an error all the same: that of Release. fn's work is done then. Note that in fn, if
// you would do it again otherwise.
//
// Blocks: until the lock is granted or ctx ends, then for fn, then until the release is answered, which the end of ctx
// does not shorten: some 14 s if the server does not answer.
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error) error {
	d, owner := l.newDoing(ctx)
	ls, err := l.wait(ctx, owner, false)
	if err != nil {
		return err
	}
	d.lease = ls
	return d.run(ctx, ls, l.eng.world, fn)
}

// A held is what a Do holds while it runs.
type held interface {
	Context() context.Context
	Release(ctx context.Context) error
}

// run runs fn while what the Do has acquired is held, and gives it back.
func (d *doing) run(ctx context.Context, ls held, w *world.World, fn func(context.Context) error) (err error) {
	held, cancel := context.WithCancelCause(context.WithValue(ls.Context(), ownerKey{}, d))
	deadline, limited := ctx.Deadline()
	stop := w.AfterFunc(ctx, func() {
		if !limited || !errors.Is(ctx.Err(), context.DeadlineExceeded) { // held has a timer of its own
			cancel(context.Cause(ctx))
		}
	})
	defer func() {
		stop()
		released := ls.Release(context.WithoutCancel(ctx))
		cancel(ErrReleased)
		if err == ErrLost && errors.Is(released, ErrLost) { //nolint:errorlint // released says it by name
			err = nil
		}
		if err = errors.Join(err, released); err != nil {
			err = &ranError{err}
		}
	}()
	if limited {
		var end context.CancelFunc
		held, end = context.WithDeadline(held, deadline)
		defer end()
	}
	return fn(held)
}

// A FencedLock is a Lock whose grants carry a fencing token, Lease.Token: a number greater than that of
// every grant of the name before. A store that remembers the greatest token it has seen and refuses
// smaller ones is safe from a holder that goes on after it lost the lock, which no lease can promise;
// package fence has the few lines that takes.
//
// On the wire it is Redisson's RFencedLock, and tokens rise across both. They are the server's time in
// microseconds, or one more than the last: they rise even when the server loses its data. One token
// belongs to one hold: an owner that enters again has the same. A fenced lock is never handed over inside
// the process; each grant is the server's. The last token stays on the server after the release, in a key without an
// expiry, as with Redisson.
type FencedLock struct{ *Lock }

// FencedLock returns a handle on a fenced lock. Errors: as Lock.
func (e *Engine) FencedLock(name string, opts ...Option) *FencedLock {
	l := e.handle(name, resp.FamilyFenced, opts)
	return &FencedLock{&l}
}

// With returns a handle on the same name with further options.
func (l *FencedLock) With(opts ...Option) *FencedLock { return &FencedLock{l.Lock.With(opts...)} }

// Token returns the fencing token of a lease of a FencedLock; 0 for other locks. Blocks: never.
func (ls *Lease) Token() int64 {
	if !traits(ls.hold.Family).fenced { // what is special of other holds changes
		return 0
	}
	return ls.hold.extra.token
}

// An Owner is who holds a lock, where goroutines cannot say: Go has no thread identity. An acquire of
// a lock that its owner holds already enters again at once, instead of waiting for itself; each
// acquire has its own Lease, and the lock is free when all are released.
//
// Carry one in a context (WithOwner), or name it on the handle (As). What runs inside Do is an owner of
// the lock that Do holds. Goroutines that share an owner do not exclude each other: that is what sharing it
// means.
type Owner struct {
	mu   sync.Mutex
	lost map[ownedName]int32 // handles not given back of holds that were lost
}

type ownedName struct {
	eng *Engine
	key string
}

// NewOwner makes an owner that holds nothing.
func NewOwner() *Owner { return &Owner{} }

// ownerKey is the key under which a context has an *Owner, by WithOwner, or a *doing, by Do.
type ownerKey struct{}

// A doing is a Do that runs. It is an owner of its own locks only: who takes another one inside must exclude
// whoever else does so inside.
type doing struct {
	lease   *Lease
	several func() []*Lease // of a Do of several locks, instead: in canonical order; a part of a RedLock may join later
	outer   *doing          // the Do around it
	general *Owner          // of every other lock: WithOwner's; nil: none
	made    Owner           // of the lock, if nobody had named one
}

// WithOwner returns a context whose acquires are the owner's, whatever the lock. A nil owner takes it away
// again, and with it what a Do had given.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerFrom returns the owner that WithOwner gave to ctx, or to one it was made from. That of a Do is not
// told: it counts for that Do's lock alone.
func OwnerFrom(ctx context.Context) (*Owner, bool) {
	switch v := ctx.Value(ownerKey{}).(type) {
	case *Owner:
		return v, v != nil
	case *doing:
		return v.general, v.general != nil
	default:
		return nil, false
	}
}

// ownerIn returns whose an acquire of the lock with ctx is; nil: nobody's.
func (l *Lock) ownerIn(ctx context.Context) *Owner { return l.ownerBy(ctx.Value(ownerKey{})) }

// ownerBy is ownerIn with what the context has for ownerKey.
func (l *Lock) ownerBy(value any) *Owner {
	if l.set.owner != nil {
		return l.set.owner
	}
	switch v := value.(type) {
	case *Owner:
		return v
	case *doing:
		return v.ownerOf(l)
	default:
		return nil
	}
}

// ownerOf looks for the Do that holds a lock: the innermost. One that has given its lock back holds nothing,
// though a context of it may live on.
func (d *doing) ownerOf(l *Lock) *Owner {
	for at := d; at != nil; at = at.outer {
		if ls := at.leaseOf(l); ls != nil && ls.state.Load() == leaseActive {
			return ls.owner
		}
	}
	return d.general
}

// leaseOf returns the lease that a Do has of a lock; nil: it has none.
func (d *doing) leaseOf(l *Lock) *Lease {
	if ls := d.lease; ls != nil && ls.isOf(l) {
		return ls
	}
	if d.several == nil {
		return nil
	}
	several := d.several()
	at, found := slices.BinarySearchFunc(several, l, func(ls *Lease, l *Lock) int {
		return -l.compareKey(ls.eng(), ls.hold.ent.key)
	})
	if !found {
		return nil
	}
	return several[at]
}

// isOf reports whether it is a lease of that lock.
func (ls *Lease) isOf(l *Lock) bool { return l.compareKey(ls.eng(), ls.hold.ent.key) == 0 }

// compare puts locks in canonical order: all callers take several locks in the same one, also those in other processes,
// whose engines have ids of their own. So it goes by the keys first; where several servers have the same, by what
// the engines were told of their servers. It is 0 for handles on the same name of one engine. What is left to the ids,
// checkPlaces refuses where the order matters.
func (l *Lock) compare(other *Lock) int { return l.compareKey(other.eng, other.key) }

func (l *Lock) compareKey(eng *Engine, key string) int {
	if byKey := cmp.Compare(l.key, key); byKey != 0 || l.eng == eng {
		return byKey
	}
	return cmp.Or(cmp.Compare(l.eng.place, eng.place), cmp.Compare(l.eng.id, eng.id))
}

// newDoing prepares a Do of the lock with ctx, and says whose its acquire is.
func (l *Lock) newDoing(ctx context.Context) (*doing, *Owner) {
	d := newDoing(ctx)
	if o := l.ownerIn(ctx); o != nil {
		return d, o
	}
	return d, &d.made
}

// newDoing prepares a Do of any locks with ctx.
func newDoing(ctx context.Context) *doing {
	d := &doing{}
	switch v := ctx.Value(ownerKey{}).(type) {
	case *Owner:
		d.general = v
	case *doing:
		d.general, d.outer = v.general, v
	}
	return d
}

// remember notes that handles of a lost hold are still out: entering again would quietly start anew.
func (o *Owner) remember(e *Engine, key string, handles int32) {
	if o == nil || handles == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = make(map[ownedName]int32)
	}
	o.lost[ownedName{e, key}] += handles
}

// forget notes that one of them was given back.
func (o *Owner) forget(e *Engine, key string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := ownedName{e, key}
	if o.lost[n] > 1 {
		o.lost[n]--
	} else {
		delete(o.lost, n)
	}
}

// hasLost reports whether the owner still has a handle of a lost hold of this name.
func (o *Owner) hasLost(e *Engine, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[ownedName{e, key}] > 0
}

// nameErr is Err for operations that need no lease: a bad option does not stop them.
func (l *Lock) nameErr() error {
	if errors.Is(l.set.err, ErrName) {
		return l.set.err
	}
	return nil
}
