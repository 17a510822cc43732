package engine

import (
	"context"
	"strconv"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

func (op *singleOp[T]) runner() *callback.Pool { return op.eng.callbacks }

func (op *singleOp[T]) awaitEnded(cause error) error {
	left := &leftError{leftQuestion, op.last.Load()}
	if op.raises != nil || op.bounded || op.copies || !op.repeat {
		left.becomes = leftChange
	}
	return &WaitError{op.name, cause, left}
}

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
		op.abandon(&WaitError{Name: op.name, cause: err})
		return &op.Future
	}
	if ctx.Done() != nil {
		op.ctx = ctx
		op.stop = e.world.AfterFunc(ctx, func() {
			defer e.callbacks.Contain()
			op.abandon(op.awaitEnded(ctx.Err()))
		})
	}
	sh := e.shard(op.op.Hash)
	if op.begin != nil {
		sh.telling.Add(1) // Close waits until what begins here is sent, or ended
		op.begin()
	}
	op.op.Sink = op
	sc := e.enterShard(sh)
	op.op.Wide = sc.wide(op.op.Hash, op.name)
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

// Told reports whether its caller has a result.
func (op *singleOp[T]) Told() bool { return op.state.Load() == futureDone }

func (op *singleOp[T]) finished() {
	if op.done != nil {
		op.done()
	}
}

// Answered takes the server's answer. It runs on the lane.
func (op *singleOp[T]) Answered(_ *resp.Op, r *resp.Result) {
	e := op.eng
	if (op.bounded || op.copies) && !r.Definite() {
		op.indeterminate.Unanswered(r.SentAt, e.nodes.AttemptLimit(), 0)
	}
	if r.Err != nil {
		op.last.Store(r.Err)
	}
	if r.Err != nil && op.again(r) {
		return
	}
	// What is told, if anything is known.
	var v T
	var err error
	switch {
	case r.Err == nil, op.raises != nil && r.Err.Class == resp.ClassWrongType:
		v, err = op.read(r)
	case r.Definite():
		err = fromServer(op.name, r.Err)
	default:
		err = op.unknownError(r)
	}
	// A copy may still run and undo what the caller does next: nobody is told before that is over.
	if op.bounded && op.indeterminate.MayRunAfter(e.clock.Now()) && !e.draining.Load() {
		op.end = func() { op.ends(v, err) }
		e.timers.Schedule(op, op.indeterminate.Until.Add(lockstate.ClockSlack))
		return
	}
	op.ends(v, err)
}

// unknownError says by when it is over. What is not sent again may have been done.
func (op *singleOp[T]) unknownError(r *resp.Result) error {
	if op.op.Kind == resp.OpCall {
		return &UnknownError{Name: op.name, cause: r.Err, applies: !op.repeat}
	}
	now := op.eng.clock.Now()
	return &UnknownError{Name: op.name, FreeBy: op.eng.clock.Wall(max(now, op.indeterminate.Until)), cause: r.Err}
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
	e.timers.Schedule(op, e.resendAt(op.op.Slot, now, op.tries))
	return true
}

// Scheduled is its place among the timers.
func (op *singleOp[T]) Scheduled() *wheel.Item[timed] { return &op.item }

func (op *singleOp[T]) due(clock.Instant) {
	if op.end != nil {
		op.end()
		return
	}
	if err := op.eng.nodes.Submit(&op.op); err != nil {
		op.Answered(&op.op, &resp.Result{Code: resp.CodeError, Err: resp.AsServerError(err)})
	}
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

// newRequest names a request about what is counted: its number rises.
func newRequest(e *Engine) string {
	return e.id + ":" + strconv.FormatInt(e.requests.Add(1), 10)
}
