package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// requireEndIn waits for an acquire with a MaxWait, and requires that it is what ends it.
func requireEndIn(t *testing.T, f *engine.Future[*engine.Lease], limit time.Duration, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := f.Await(ctx)
	require.ErrorIs(t, err, want)
}

func TestMaxWaitBoundsAnOwnerThatEntersAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	outer := testkit.Acquire(t, l)
	p.Pause()
	again := l.With(engine.MaxWait(100 * time.Millisecond)).AcquireAsync(testkit.Limited(t))
	requireEndIn(t, again, 2*time.Second, engine.ErrUnknown) // nobody else holds it
	p.Resume()
	testkit.Release(t, outer)
	testkit.Finish(t, s, e)
}

// Its hold goes to somebody else before its count can change: it queues like any other.
func TestMaxWaitBoundsAnOwnerWhoseReentryHasToQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	outer := testkit.Acquire(t, l)
	testkit.Release(t, testkit.Acquire(t, l)) // the script is loaded
	stranger := e.Lock("name").AcquireAsync(testkit.Limited(t))
	held := p.Hold(testkit.ScriptCall("reacquire"), 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := l.AcquireAsync(ctx)
	testkit.Await(t, held.C(), "a re-entry on its way")
	released := outer.ReleaseAsync()
	again := l.With(engine.MaxWait(300 * time.Millisecond)).AcquireAsync(testkit.Limited(t))
	cancel()
	_, err := left.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	p.ReleaseCommands()
	_, err = released.Await(testkit.Limited(t))
	require.NoError(t, err)
	ls, err := stranger.Await(testkit.Limited(t))
	require.NoError(t, err)
	requireEndIn(t, again, 2*time.Second, engine.ErrHeld)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}
