package election

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// An Election is a handle on a name: cheap, immutable, usable by any number of goroutines.
type Election struct{ lock *engine.FencedLock }

// New returns a handle on an election. The options are the lock's: WatchdogLease says how soon after the
// leader's death another is elected, MaxWait how long a Campaign waits, MaxHold how long a term lasts. As has
// no effect: each campaign is an owner of its own.
func New(e *engine.Engine, name string, opts ...engine.Option) *Election {
	return &Election{e.FencedLock(name, opts...)}
}

// A Term is the time for which a process leads.
type Term struct{ lease *engine.Lease }

// Campaign waits until this process is elected. One term at a time runs, whoever campaigns: an owner that ctx
// carries does not enter the term that it leads already. Errors: those of engine.Lock.Acquire.
func (el *Election) Campaign(ctx context.Context) (*Term, error) {
	ls, err := el.lock.With(engine.As(engine.NewOwner())).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &Term{ls}, nil
}

// Context ends with the term, with cause engine.ErrLost or engine.ErrReleased.
func (t *Term) Context() context.Context { return t.lease.Context() }

// Token is greater than that of every earlier term.
func (t *Term) Token() int64 { return t.lease.Token() }

// Leading reports whether the term still runs: exact, no command.
func (t *Term) Leading() bool { return t.lease.Context().Err() == nil }

// ID names the term as Leader.ID does, wherever it is looked at.
func (t *Term) ID() string { return t.lease.OwnerID() }

// Resign ends the term; the next candidate is elected at once. Errors: engine.ErrLost if it had ended
// before, and those of engine.Lease.Release.
func (t *Term) Resign(ctx context.Context) error { return t.lease.Release(ctx) }

// A Leader is who leads.
type Leader struct {
	ID   string // of the term: "<engine id>:<number>"; empty: nobody leads
	Mine bool   // it is a process of this engine: this one
}

// Leader asks the server who leads now. Errors: those of engine.Lock.Inspect.
func (el *Election) Leader(ctx context.Context) (Leader, error) {
	info, err := el.lock.Inspect(ctx)
	if err != nil || !info.Locked {
		return Leader{}, err
	}
	return Leader{ID: info.OwnerID, Mine: info.Mine}, nil
}

// Observe calls changed with who leads, now and each time that has changed, until ctx ends or changed
// returns an error; it returns that error, or ctx's. It looks every so often: a term shorter than that may
// go unseen. While the server does not answer it says nothing, and looks again.
// Blocks: until then.
func (el *Election) Observe(ctx context.Context, every time.Duration, changed func(Leader) error) error {
	if err := el.lock.Err(); err != nil {
		return err
	}
	ticks := time.NewTicker(max(every, time.Millisecond))
	defer ticks.Stop()
	var last *Leader
	for {
		switch now, err := el.Leader(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !engine.SafeToRetry(err):
			return err
		case err == nil && (last == nil || *last != now):
			last = &now
			if err := changed(now); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}
