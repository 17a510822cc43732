package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
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
	repeat bool // it may be sent again without an answer
	tries  int
	since  clock.Instant
	read   func(*resp.Result) (T, error)
	ctx    context.Context //nolint:containedctx // whose end is watched
	stop   func() bool     // ends that
	begin  func()          // before it is sent, and when its ctx was asked: that may take long, or panic
	done   func()          // when no command of it is on its way any more
	raises *extension      // an Extend's

	bounded       bool          // its copies change something, but none runs after its not-after: it ends when none can
	indeterminate indeterminate // of those without an answer, if that is asked for
	copies        bool          // it is
	end           func()        // its end, when that is waited for
}

func (op *singleOp[T]) runner() *callback.Pool { return op.eng.callbacks }

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
		op.ctx = ctx
		op.stop = e.world.AfterFunc(ctx, func() {
			defer e.callbacks.Contain()
			op.abandon(ctx.Err())
		})
	}
	sh := e.shard(op.op.Hash)
	if op.begin != nil {
		sh.telling.Add(1) // Close waits until what begins here is sent, or ended
		op.begin()
	}
	op.op.Sink = op
	sc := e.enterShard(sh)
	err := op.submit(&sc)
	if err == nil {
		sh.pending++
	}
	sc.leave()
	if err != nil {
		op.finished()
		op.abandon(err)
	}
	if op.begin != nil {
		e.told(sh)
	}
	if err != nil {
		e.callbacks.UnwatchHere(op.stop)
	}
	return &op.Future
}

// submit sends the command, or leaves that to who has it then.
func (op *singleOp[T]) submit(sc *section) error {
	if op.eng.closing.Load() {
		return ErrClosed
	}
	if op.raises != nil {
		if waits, err := op.raises.waits(sc); waits || err != nil {
			return err
		}
	}
	if err := op.eng.nodes.Submit(&op.op); err != nil {
		return fromServer(op.name, resp.AsServerError(err))
	}
	return nil
}

func (op *singleOp[T]) finished() {
	if op.done != nil {
		op.done()
	}
}

// Answered takes the server's answer. It runs on the lane.
func (op *singleOp[T]) Answered(_ *resp.Op, r *resp.Result) {
	e := op.eng
	if (op.bounded || op.copies) && !r.Definite() {
		op.indeterminate.unanswered(r.SentAt, e.nodes.AttemptLimit(), 0)
	}
	if r.Err != nil && op.again(r) {
		return
	}
	// What is told, if anything is known.
	var v T
	var err error
	switch {
	case r.Err == nil:
		v, err = op.read(r)
	case r.Definite():
		err = fromServer(op.name, r.Err)
	default:
		err = &UnknownError{Name: op.name, FreeBy: e.clock.Wall(max(e.clock.Now(), op.indeterminate.until)), cause: r.Err}
	}
	// A copy may still run and undo what the caller does next: nobody is told before that is over.
	if op.bounded && op.indeterminate.mayRunAfter(e.clock.Now()) && !e.draining.Load() {
		op.end = func() { op.ends(v, err) }
		op.item.Owner = op
		e.timers.Schedule(&op.item, op.indeterminate.until.Add(clockSlack))
		return
	}
	op.ends(v, err)
}

// ends gives the op its result.
func (op *singleOp[T]) ends(v T, err error) {
	e := op.eng
	e.callbacks.Unwatch(op.ctx, op.stop)
	sc := e.enter(op.op.Hash)
	sc.answered()
	sc.leave()
	e.world.Yield("singleOp.ends: settled | finished")
	op.finished()
	e.world.Yield("singleOp.ends: finished | told")
	op.resolve(v, err)
}

func (op *singleOp[T]) again(r *resp.Result) bool {
	e := op.eng
	now := e.clock.Now()
	if op.since == 0 {
		op.since = now
	}
	op.tries++
	late := now.Sub(op.since) > retryBudget*e.nodes.AttemptLimit()
	if late || !r.Err.Class.Transient() || !op.repeat && !r.Definite() || op.state.Load() == futureDone ||
		e.closing.Load() {
		return false
	}
	op.item.Owner = op
	e.timers.Schedule(&op.item, e.resendAt(op.op.Slot, now, op.tries))
	return true
}

func (op *singleOp[T]) due(clock.Instant) {
	if op.end != nil {
		op.end()
		return
	}
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
	// Remaining is the time until it expires by itself, a century at most; negative: it never does.
	Remaining time.Duration
	// Mode is "read" or "write" where a read-write lock is held. Seen through ReadLock, Locked says that
	// somebody reads, Holds how many read holds there are, and OwnerID is one of them, this engine's if it
	// has one; through WriteLock they are the writer's.
	Mode string
	// Fields is how many fields the hash has where those are more than an Inspect reads, 10,000 or a megabyte: then Mine
	// is false and OwnerID and Holds are not known. Else it is 0.
	Fields int
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
	if r.More > 0 {
		return l.readMany(info, r)
	}
	if len(r.Fields) == 0 {
		return info, nil
	}
	// The fields come in any order; "mode" is there only if the lock is a read-write lock.
	for i := 0; i+1 < len(r.Fields); i += 2 {
		if r.Fields[i] == "mode" {
			info.Mode = r.Fields[i+1]
		}
	}
	if traits(l.set.family).halved() != (info.Mode != "") {
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
	info.Mine = resp.FieldOf(l.eng.id, info.OwnerID)
	info.Remaining = fromServerMs(r.Value)
	return info, nil
}

// readMany reads what is known of a hash that was not read. Only many readers have such a lock.
func (l *Lock) readMany(info Info, r *resp.Result) (Info, error) {
	if len(r.Fields) > 0 {
		info.Mode = r.Fields[0]
	}
	if !traits(l.set.family).halved() || info.Mode == "" {
		info.Mode = ""
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	info.Fields = int(r.More)
	if (info.Mode == resp.ModeWrite) == (traits(l.set.family).mode == resp.ModeWrite) {
		info.Locked, info.Remaining = true, fromServerMs(r.Value)
	}
	return info, nil
}

// readShared reads what stands under the name of a read-write lock.
func (l *Lock) readShared(info Info, r *resp.Result) (Info, error) {
	for i := 0; i+1 < len(r.Fields); i += 2 {
		field := r.Fields[i]
		if field == "mode" || resp.ModeOf(field) != traits(l.set.family).mode {
			continue
		}
		holds, err := strconv.Atoi(r.Fields[i+1])
		if err != nil {
			return info, &nameError{l.Name(), ErrWrongKind}
		}
		mine := resp.FieldOf(l.eng.id, field)
		if mine || !info.Locked {
			info.OwnerID = field
		}
		info.Locked, info.Mine, info.Holds = true, info.Mine || mine, info.Holds+holds
	}
	if !info.Locked {
		return info, nil
	}
	info.Remaining = fromServerMs(r.Value)
	return info, nil
}

func (l *Lock) waiters() int {
	sc := l.eng.enter(l.hash)
	defer sc.leave()
	n := 0
	for ent := range sc.sh.names.get(l.hash, l.key).withChildren {
		for op := ent.head; op != nil; op = op.next {
			n++
		}
	}
	return n
}

// sendExtend sends an Extend that took its place among the changes of a hold.
func (sc *section) sendExtend(c change) {
	op := c.extend
	op.since = c.since // its caller's patience goes on
	if err := sc.eng.nodes.Submit(&op.op); err != nil {
		sc.more = append(sc.more, func() {
			op.Answered(&op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
		})
	}
}

// extend raises a fixed lease. It is no change of the hold's count, but waits for those that lower what it
// raises.
func (ls *Lease) extend(ctx context.Context, d time.Duration) *Future[struct{}] {
	h := ls.hold
	op := &singleOp[struct{}]{eng: ls.lock.eng, name: ls.lock.Name(), repeat: true, copies: true}
	op.op = resp.Op{
		Kind: resp.OpExtend, Family: h.Family, Key: h.ent.key, Hash: ls.lock.hash, Slot: h.ent.slot,
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
		return false, &nameError{x.ls.lock.Name(), ErrNotHeld}
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
		h.extra.extended.until = max(h.extra.extended.until, x.op.indeterminate.until)
		if h.extra.extends == 0 && h.reentry != nil && h.reentry.unlowered && h.status.Load() == holdHeld {
			sc.settleCount(h)
		}
	}
	sc.leave()
}

// read takes the server's answer.
func (x *extension) read(r *resp.Result) (struct{}, error) {
	e, h, ls := x.op.eng, x.ls.hold, x.ls
	if r.Code != resp.CodeRenewed {
		e.watchdog.Lose(h, renew.CauseNotOurs)
		return struct{}{}, &nameError{ls.lock.Name(), ErrLost}
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
		return struct{}{}, &nameError{ls.lock.Name(), ErrLost}
	}
	return struct{}{}, nil
}

// extends counts an Extend of a hold, and says whether it waits for changes that lower what it raises.
func (sc *section) extends(h *hold, op *singleOp[struct{}], d time.Duration) (waits bool) {
	if h.copies == nil {
		h.copies = new(indeterminate)
	}
	h.copies.lease = max(h.copies.lease, d) // whatever the answer, the key may live that long
	sc.besideLasts(h, d)
	h.ensureExtra().extends++
	n := h.reentry
	if n == nil || h.status.Load() != holdHeld || !n.lowering(sc.eng.clock.Now()) {
		return false
	}
	if n.quiet() {
		sc.eng.timers.Schedule(&n.item, n.lowers.until)
	}
	n.want(change{extend: op})
	return true
}

// ForceRelease takes the lock away from whoever holds it and wakes the waiters; it says whether
// there was a lock. A holder in this engine is told that it lost the lock before the command is
// sent; one elsewhere learns it by its next renewal, or, if it is not renewed, at its deadline. Of a read-write lock
// each half is released by itself, and takes nothing where the other half is held.
//
// Where an answer is lost the command is sent again, and it has an end all the same: when ForceRelease has
// returned anything but ctx's error, no copy of the command can take a lock away any more. Then it says
// whether there may have been a lock. What a holder in this engine was told to have lost is given back,
// whatever the server answers.
//
// Blocks: for one round trip, or until ctx ends; longer in trouble. Errors: as Inspect, and ErrUnknown.
func (l *Lock) ForceRelease(ctx context.Context) (bool, error) {
	return l.ForceReleaseAsync(ctx).Await(ctx)
}

// ForceReleaseAsync is ForceRelease as a future.
func (l *Lock) ForceReleaseAsync(ctx context.Context) *Future[bool] {
	op := &singleOp[bool]{eng: l.eng, name: l.Name(), repeat: true, bounded: true}
	freed := false
	op.read = func(r *resp.Result) (bool, error) {
		switch r.Code {
		case resp.CodeReleased:
			freed = true
			l.alsoTaken(false)
			return true, nil
		case resp.CodeNone:
			return op.indeterminate.until != 0, nil // or an earlier sending has released it
		default:
			return false, &nameError{l.Name(), ErrWrongKind}
		}
	}
	op.begin = func() {
		holds := l.beginForceRelease()
		op.done = func() {
			switch {
			case freed:
				holds = nil
			case op.indeterminate.until != 0:
				holds = append(holds, l.alsoTaken(true)...)
			}
			l.endForceRelease(holds)
		}
	}
	op.op = resp.Op{
		Kind: resp.OpForce, Family: l.set.family, Key: l.key, Hash: l.hash, Slot: l.slot,
		Field: traits(l.set.family).channel(l.key),
	}
	return single(ctx, l, op)
}

// beginForceRelease makes the local holds of a name lost, which it returns, and keeps grants that are answered until
// forced from being believed.
func (l *Lock) beginForceRelease() []*hold {
	sc := l.eng.enter(l.hash)
	ent := sc.makeEntry(l)
	ent.forceReleases++
	var holds []*hold
	for at := range ent.withChildren {
		at.overtake()
		if h := at.hold; h != nil && ent.takenBy(l.set.family, h) {
			h.forceReleased = true
			holds = append(holds, h)
		}
	}
	sc.leave()
	l.loseForced(holds)
	return holds
}

// loseForced makes holds lost, and returns when they are: what comes next may take them off the server. Another
// ForceRelease may have ended the watch of one already and be about to say so; then whoever is first does it.
func (l *Lock) loseForced(holds []*hold) {
	e := l.eng
	for _, h := range holds {
		e.world.Yield("Lock.loseForced: marked | a loss told")
		e.watchdog.Lose(h, renew.CauseForced)
		listener{e}.Lost(h, renew.CauseForced)
	}
}

// alsoTaken makes those lost, and returns them, whom the command took besides: a read-write lock's mode when it runs is
// not always what it was here when it was sent, for its writer's release may run in between. What was released was
// everything there was. Where nobody knows (doubt), a copy may have run at any time: but in no other mode than
// that of a write hold which is still believed. Nothing was granted since the command was sent.
func (l *Lock) alsoTaken(doubt bool) (holds []*hold) {
	f := l.set.family
	if !traits(f).halved() {
		return nil
	}
	sc := l.eng.enter(l.hash)
	ent := sc.sh.names.get(l.hash, l.key)
	spared := doubt && ent != nil && ent.hold != nil && traits(ent.hold.Family).readsToo && !forces(f, ent.hold.Family)
	for at := range ent.withChildren {
		h := at.hold
		if h == nil || spared || !traits(h.Family).halved() || h.status.Load() != holdHeld {
			continue
		}
		h.forceReleased = true
		holds = append(holds, h)
	}
	sc.leave()
	l.loseForced(holds)
	return holds
}

// takenBy reports whether a ForceRelease of a family takes a hold of this name away: any kind that one
// holds is taken by any of them; of a read-write lock what is there is taken only in its own mode, and with
// the write lock all that its owner reads beside it.
func (ent *entry) takenBy(f resp.Family, h *hold) bool {
	there := h.Family
	if w := ent.hold; w != nil && traits(w.Family).readsToo && !otherKind(w.Family, there) {
		there = w.Family
	}
	return forces(f, there)
}

// endForceRelease ends that, when no copy of the command can run any more. What holds have lost to it, and the
// server was not seen to release, is given back.
func (l *Lock) endForceRelease(holds []*hold) {
	sc := l.eng.enter(l.hash)
	for _, h := range holds {
		sc.clean(h.ent, h.lockRef(), h.indeterminate(), h.maxRemoteLife(l.eng.clock.Now()))
	}
	if ent := sc.sh.names.get(l.hash, l.key); ent != nil {
		ent.forceReleases--
		sc.cleanUnbelieved(ent)
		for at := range ent.withChildren {
			sc.advance(at)
		}
	}
	sc.owe()
	sc.leave()
}
