package fault_test

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

// abandoned leaves an acquire of "a" without an answer and without anybody who wants it. Its caller's
// context ended and was seen: so the engine's tick has looked at this sending, which it does once.
func abandoned(t *testing.T) (*engine.Engine, *faultproxy.Proxy) {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	hold := p.Hold(testkit.ScriptCall("acquire"), 1)
	ctx, cancel := context.WithCancel(context.Background())
	f := e.Lock("a").AcquireAsync(ctx)
	testkit.Await(t, hold.C(), "the acquire is held")
	cancel()
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	t.Cleanup(func() { p.ReleaseCommands() })
	return e, p
}

// unreachable cuts every connection and returns when the engine has found that it can make no other.
func unreachable(t *testing.T, e *engine.Engine, p *faultproxy.Proxy) {
	t.Helper()
	p.RefuseNew(true)
	p.CutAll()
	testkit.Eventually(t, "the engine has no connection", func() bool { return e.Ping(testkit.Limited(t)) != nil })
}

func TestCtxBehindAbandonedAttempt(t *testing.T) {
	e, _ := abandoned(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f := e.Lock("a").AcquireAsync(ctx)
	testkit.Await(t, f.Done(), "the end of its context is seen")
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, testkit.Ran(begun), time.Second, "not when the attempt ends, after 2.5 s")
}

func TestMaxWaitBehindAbandonedAttempt(t *testing.T) {
	e, _ := abandoned(t)
	begun := time.Now()
	_, err := e.Lock("a", engine.MaxWait(100*time.Millisecond)).Acquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrUnknown)
	require.Less(t, testkit.Ran(begun), time.Second, "not when the attempt ends, after 2.5 s")
}

// A release that cannot be sent keeps the waiters from asking; they see the ends of their contexts.
func TestCtxWhileCooling(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = true })
	ls := testkit.Acquire(t, e.Lock("a"))
	waiter := e.Lock("a").AcquireAsync(context.Background())
	unreachable(t, e, p)
	given := ls.ReleaseAsync()
	require.True(t, waiter.Cancel())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f := e.Lock("a").AcquireAsync(ctx)
	testkit.Await(t, f.Done(), "the end of its context is seen")
	took := testkit.Ran(begun)
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, took, time.Second)
	p.RefuseNew(false)
	testkit.Await(t, given.Done(), "the release is answered")
}
