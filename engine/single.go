package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// A singleOp is a command that stands outside a name's queue: Inspect, ForceRelease, Extend.
type singleOp[T any] struct {
	Future[T]
	eng    *Engine
	name   string
	op     resp.Op
	item   wheel.Item
	repeat bool // sending it again changes nothing
	tries  int
	since  clock.Instant
	read   func(*resp.Result) (T, error)
	stop   func() bool
	done   func() // when no command of it is on its way any more
}

func (op *singleOp[T]) runner() *callbacks { return op.eng.callbacks }

func (op *singleOp[T]) abandon(err error) bool {
	var none T
	return op.resolve(none, err)
}

// start sends the command. The op is pending until it is answered, also when its caller has left.
func (op *singleOp[T]) start(ctx context.Context) *Future[T] {
	op.Future.op = op
	e := op.eng
	if err := ctx.Err(); err != nil {
		op.finished()
		op.abandon(err)
		return &op.Future
	}
	if ctx.Done() != nil {
		op.stop = context.AfterFunc(ctx, func() { op.abandon(ctx.Err()) })
	}
	op.op.Sink = op
	sh := e.shard(op.op.Hash)
	sh.mu.Lock()
	err := error(nil)
	if e.closing.Load() {
		err = ErrClosed
	} else if submitted := e.nodes.Submit(&op.op); submitted != nil {
		err = fromServer(op.name, resp.AsServerError(submitted))
	} else {
		sh.pending++
	}
	sh.mu.Unlock()
	if err != nil {
		op.finished()
		op.abandon(err)
	}
	return &op.Future
}

func (op *singleOp[T]) finished() {
	if op.done != nil {
		op.done()
	}
}

// Answered takes the server's answer. It runs on the lane.
func (op *singleOp[T]) Answered(_ *resp.Op, r *resp.Result) {
	e := op.eng
	if r.Err != nil && op.again(r) {
		return
	}
	var v T
	var err error
	switch {
	case r.Err == nil:
		v, err = op.read(r)
	case r.Definite():
		err = fromServer(op.name, r.Err)
	default:
		err = &UnknownError{Name: op.name, FreeBy: e.clock.Wall(e.clock.Now()), cause: r.Err}
	}
	if op.stop != nil {
		op.stop()
	}
	sh := e.shard(op.op.Hash)
	sh.mu.Lock()
	e.settledLocked(sh)
	sh.mu.Unlock()
	op.finished()
	op.resolve(v, err)
}

func (op *singleOp[T]) again(r *resp.Result) bool {
	e := op.eng
	now := e.clock.Now()
	if op.since == 0 {
		op.since = now
	}
	op.tries++
	late := now.Sub(op.since) > patience*e.nodes.AttemptLimit()
	if late || !r.Err.Class.Transient() || !op.repeat && !r.Definite() || op.state.Load() == futureDone || e.closing.Load() {
		return false
	}
	op.item.Owner = op
	e.timers.Schedule(&op.item, e.resendAt(op.op.Slot, now, op.tries))
	return true
}

func (op *singleOp[T]) due(clock.Instant) {
	if err := op.eng.nodes.Submit(&op.op); err != nil {
		op.Answered(&op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
	}
}

// Info is what the server knows of a lock.
type Info struct {
	Locked bool
	// Mine: this engine holds it. OwnerID is then Lease.OwnerID of the holder.
	Mine bool
	// OwnerID is the field: "<uuid of the client>:<id of the hold or thread>".
	OwnerID string
	// Holds is how often the owner has taken it.
	Holds int
	// Remaining is the time until it expires by itself; negative: it never does.
	Remaining time.Duration
	// Mode is "read" or "write" where a read-write lock is held. Seen through ReadLock, Locked says that
	// somebody reads, Holds how many read holds there are, and OwnerID is one of them, this engine's if it
	// has one; through WriteLock they are the writer's.
	Mode string
	// Waiters is how many acquires of this engine are waiting or on their way.
	Waiters int
}

// Inspect asks the server who holds the lock. Blocks: for one round trip, or until ctx ends.
// Errors: ErrWrongKind, ErrName, ErrClosed, *ServerError, ctx's own.
func (l *Lock) Inspect(ctx context.Context) (Info, error) { return l.InspectAsync(ctx).Await(ctx) }

// InspectAsync is Inspect as a future.
func (l *Lock) InspectAsync(ctx context.Context) *Future[Info] {
	op := &singleOp[Info]{eng: l.eng, name: l.Name(), repeat: true, read: l.readInfo}
	op.op = resp.Op{Kind: resp.OpInspect, Key: l.key, Hash: l.hash, Slot: l.slot}
	return single(ctx, l, op)
}

// single starts an op about a lock, if its name can be asked for.
func single[T any](ctx context.Context, l *Lock, op *singleOp[T]) *Future[T] {
	if err := l.nameErr(); err != nil {
		op.Future.op = op
		op.abandon(err)
		return &op.Future
	}
	return op.start(ctx)
}

// nameErr is Err for operations that need no lease: a bad option does not stop them.
func (l *Lock) nameErr() error {
	if errors.Is(l.set.err, ErrName) {
		return l.set.err
	}
	return nil
}

func (l *Lock) readInfo(r *resp.Result) (Info, error) {
	info := Info{Waiters: l.waiters()}
	if len(r.Fields) == 0 {
		return info, nil
	}
	for i := 0; i+1 < len(r.Fields); i += 2 {
		if r.Fields[i] == "mode" {
			info.Mode = r.Fields[i+1]
		}
	}
	if shares(l.set.family) != (info.Mode != "") {
		info.Mode = ""
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	if info.Mode != "" {
		return l.readShared(info, r)
	}
	holds, err := strconv.Atoi(r.Fields[1])
	if err != nil {
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	info.Locked, info.OwnerID, info.Holds = true, r.Fields[0], holds
	info.Mine = strings.HasPrefix(info.OwnerID, l.eng.id+":")
	info.Remaining = time.Duration(r.Value) * time.Millisecond
	if r.Value < 0 {
		info.Remaining = -1
	}
	return info, nil
}

// readShared reads what stands under the name of a read-write lock.
func (l *Lock) readShared(info Info, r *resp.Result) (Info, error) {
	for i := 0; i+1 < len(r.Fields); i += 2 {
		field := r.Fields[i]
		writes := strings.HasSuffix(field, ":write")
		if field == "mode" || writes != (l.set.family == resp.FamilyWrite) {
			continue
		}
		holds, err := strconv.Atoi(r.Fields[i+1])
		if err != nil {
			return info, &nameError{l.Name(), ErrWrongKind}
		}
		mine := strings.HasPrefix(field, l.eng.id+":")
		if mine || !info.Locked {
			info.OwnerID = field
		}
		info.Locked, info.Mine, info.Holds = true, info.Mine || mine, info.Holds+holds
	}
	if !info.Locked {
		return info, nil
	}
	info.Remaining = max(time.Duration(r.Value)*time.Millisecond, -1)
	return info, nil
}

func (l *Lock) waiters() int {
	sh := l.eng.shard(l.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := 0
	for ent := range sh.names.get(l.hash, l.key).withSeats {
		for op := ent.head; op != nil; op = op.next {
			n++
		}
	}
	return n
}

// ForceRelease takes the lock away from whoever holds it and wakes the waiters; it says whether
// there was a lock. A holder in this engine is told that it lost the lock before the command is
// sent; one elsewhere learns it by its next renewal.
// Blocks: for one round trip, or until ctx ends. Errors: as Inspect, and ErrUnknown.
func (l *Lock) ForceRelease(ctx context.Context) (bool, error) {
	return l.ForceReleaseAsync(ctx).Await(ctx)
}

// ForceReleaseAsync is ForceRelease as a future.
func (l *Lock) ForceReleaseAsync(ctx context.Context) *Future[bool] {
	op := &singleOp[bool]{eng: l.eng, name: l.Name()}
	op.read = func(r *resp.Result) (bool, error) {
		switch r.Code {
		case resp.CodeReleased:
			return true, nil
		case resp.CodeNone:
			return false, nil
		default:
			return false, &nameError{l.Name(), ErrWrongKind}
		}
	}
	if ctx.Err() == nil && l.nameErr() == nil {
		l.eng.forcing(l)
		op.done = func() { l.eng.forced(l) }
	}
	op.op = resp.Op{Kind: resp.OpForce, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot, Field: channelOf(l.set.family, l.key)}
	return single(ctx, l, op)
}

// forcing makes the local hold of a name lost, if there is one, and keeps grants that are answered
// until forced from being believed.
func (e *Engine) forcing(l *Lock) {
	sh := e.shard(l.hash)
	sh.mu.Lock()
	ent := e.entryLocked(sh, l)
	ent.forces++
	var holds []*hold
	for at := range ent.withSeats {
		if h := at.hold; h != nil && ent.takenBy(l.set.family, h) {
			h.forced = true
			holds = append(holds, h)
		}
	}
	sh.mu.Unlock()
	for _, h := range holds {
		e.dog.Lose(h, renew.CauseForced)
	}
}

// takenBy reports whether a ForceRelease of a family takes a hold of this name away: any kind that one
// holds is taken by any of them; of a read-write lock what is there is taken only in its own mode, and with
// the write lock all that its owner reads beside it.
func (ent *entry) takenBy(f resp.Family, h *hold) bool {
	writes := ent.hold != nil && ent.hold.Family == resp.FamilyWrite
	switch {
	case !shares(f):
		return !shares(h.Family)
	case !shares(h.Family):
		return false
	default:
		return writes == (f == resp.FamilyWrite)
	}
}

// forced ends that.
func (e *Engine) forced(l *Lock) {
	sh := e.shard(l.hash)
	var fx effects
	sh.mu.Lock()
	if ent := sh.names.get(l.hash, l.key); ent != nil {
		ent.forces--
		for at := range ent.withSeats {
			e.kickLocked(sh, at, &fx)
		}
	}
	sh.mu.Unlock()
	fx.run()
}

// extend raises a fixed lease.
func (e *Engine) extend(ctx context.Context, ls *Lease, d time.Duration) *Future[struct{}] {
	h := ls.hold
	sh := e.shard(ls.lock.hash)
	sh.mu.Lock()
	if h.doubt == nil {
		h.doubt = new(doubt)
	}
	h.doubt.lease = max(h.doubt.lease, d) // whatever the answer, the key may live that long
	sh.mu.Unlock()
	op := &singleOp[struct{}]{eng: e, name: ls.lock.Name(), repeat: true}
	op.op = resp.Op{Kind: resp.OpExtend, Family: h.Family, Key: h.ent.key, Hash: ls.lock.hash, Slot: h.ent.slot, Field: h.Field, LeaseMs: d.Milliseconds()}
	op.read = func(r *resp.Result) (struct{}, error) {
		if r.Code != resp.CodeRenewed {
			e.dog.Lose(h, renew.CauseNotOurs)
			return struct{}{}, &nameError{ls.lock.Name(), ErrLost}
		}
		h.Extended(r.SentAt, d)
		if ls.Lost() {
			return struct{}{}, &nameError{ls.lock.Name(), ErrLost}
		}
		return struct{}{}, nil
	}
	return op.start(ctx)
}
