package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// A RunOption changes how Run goes on between two terms.
type RunOption func(*runner)

// Pause says how long Run waits before it campaigns again, after a term of its own and after a failure: a second
// unless it is said, up to a quarter more at random. It is the time in which another process may be elected.
func Pause(d time.Duration) RunOption { return func(r *runner) { r.pause = d } }

// OnError is called with every error that does not end Run: a campaign that failed, what lead returned, a term that
// was lost (engine.ErrLost), a resignation that failed. Without it they are logged by slog.Default at Warn.
// It is called by Run's goroutine, and Run waits for it.
func OnError(report func(error)) RunOption { return func(r *runner) { r.report = report } }

type runner struct {
	pause  time.Duration
	report func(error)
}

// Stop makes Run end: returned by lead, wrapped or not, it makes Run resign and return err, which may be nil.
func Stop(err error) error { return stopError{err} }

type stopError struct{ err error }

func (s stopError) Error() string {
	if s.err == nil {
		return "holdfast: the leader stops"
	}
	return fmt.Sprintf("holdfast: the leader stops: %v", s.err)
}

func (s stopError) Unwrap() error { return s.err }

// Run calls lead whenever this process is elected. The ctx of lead ends with the term (cause engine.ErrLost) and with
// ctx; lead should return soon then, since Run waits for it. When lead returns, Run resigns, waits a Pause, and
// campaigns again. A panic of lead resigns and goes on.
//
// It returns ctx's error when ctx has ended, what lead gave to Stop, joined with what its resignation returned, and an
// error of a campaign that would come again: those for which engine.SafeToRetry is false. Everything else goes to
// OnError.
// Blocks: until then. Once ctx has ended it waits for lead, and a second at most for a server that does not answer the
// resignation; the engine goes on with that, and Close waits for it.
func (el *Election) Run(ctx context.Context, lead func(context.Context, *Term) error, opts ...RunOption) error {
	r := runner{pause: time.Second, report: func(err error) {
		slog.Default().WarnContext(ctx, "holdfast: election", "name", el.lock.Name(), "error", err)
	}}
	for _, o := range opts {
		o(&r)
	}
	for ctx.Err() == nil {
		term, err := el.Campaign(ctx)
		var resigned error
		if err == nil {
			if err, resigned = term.serve(ctx, lead); isStop(&err) {
				return errors.Join(err, resigned)
			}
		} else if ctx.Err() == nil && !errors.Is(err, engine.ErrHeld) && !engine.SafeToRetry(err) {
			return err
		}
		// That lead was stopped by the loss of its term is told with that.
		if !errors.Is(resigned, engine.ErrLost) || !errors.Is(err, engine.ErrLost) && !errors.Is(err, context.Canceled) {
			r.tell(ctx, err)
		}
		r.tell(ctx, resigned)
		r.rest(ctx)
	}
	return ctx.Err()
}

// isStop puts what lead gave to Stop in the place of its error.
func isStop(err *error) bool {
	var s stopError
	if !errors.As(*err, &s) {
		return false
	}
	*err = s.err
	return true
}

// serve leads for one term, and resigns.
func (t *Term) serve(ctx context.Context, lead func(context.Context, *Term) error) (err, resigned error) {
	leading, cancel := context.WithCancelCause(t.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		resigned = t.lastWord(ctx)
		cancel(engine.ErrReleased)
	}()
	return lead(leading, t), nil
}

// grace is how long the end of ctx leaves a resignation.
const grace = time.Second

// lastWord resigns. Once ctx has ended it waits for the server no longer than grace: the engine goes on with the
// release, and Close waits for that.
func (t *Term) lastWord(ctx context.Context) error {
	resigning, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	var late atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { late.Store(true); giveUp() })
	})
	defer stop()
	err := t.Resign(resigning)
	if err != nil && late.Load() { // not wrapped: tell would take it for the end of ctx, which is no news
		return fmt.Errorf("holdfast: the server has not answered the resignation within %v: %v", grace, err) //nolint:errorlint // said above
	}
	return err
}

// tell reports what does not end Run. That ctx has ended is no news, and neither is another leader after MaxWait.
func (r *runner) tell(ctx context.Context, err error) {
	if err == nil || errors.Is(err, engine.ErrHeld) || ctx.Err() != nil && saysSo(ctx, err) {
		return
	}
	r.report(err)
}

// saysSo reports whether an error says that ctx has ended: as ctx does, or as lead's own, which is cancelled with the
// cause of ctx.
func saysSo(ctx context.Context, err error) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))
}

// rest lets others be elected. A little chance keeps candidates that failed together from coming back together.
func (r *runner) rest(ctx context.Context) {
	pause := max(r.pause, time.Millisecond)
	over := time.NewTimer(pause + rand.N(pause/4+1)) //nolint:gosec // a spread, not a secret
	defer over.Stop()
	select {
	case <-ctx.Done():
	case <-over.C:
	}
}
