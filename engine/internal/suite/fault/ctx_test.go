package fault_test

import (
	"context"
	"fmt"
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

// TestWhoseCtxEndsIsToldOfWhat: whatever was called, a ctx that ends while the server is silent is told with the name,
// and with what becomes of what was asked for.
func TestWhoseCtxEndsIsToldOfWhat(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	held := testkit.Acquire(t, e.Lock("held"))
	fixed := testkit.Acquire(t, e.Lock("fixed", engine.FixedLease(time.Minute)))
	several, err := e.MultiLock("m1", "m2").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	sem, permits, latch := e.Semaphore("sem"), e.PermitSemaphore("permits"), e.CountDownLatch("latch")
	_, err = sem.TrySetPermits(testkit.Limited(t), 3)
	require.NoError(t, err)
	_, err = permits.TrySetPermits(testkit.Limited(t), 3)
	require.NoError(t, err)
	permit, err := permits.Acquire(testkit.Limited(t), 1)
	require.NoError(t, err)
	_, err = latch.TrySetCount(testkit.Limited(t), 3)
	require.NoError(t, err)
	over, end := context.WithCancel(context.Background())
	end()
	p.HoldCommands()
	t.Cleanup(func() { p.ReleaseCommands() })
	const asked, changed, released = "before it was done", "before it was done; it may be done all the same",
		"before it was done; the release goes on"
	const counted = "before it was done; it goes on"
	for _, c := range []struct {
		what, name, says string
		detached         bool // it begins whatever its ctx says
		call             func(ctx context.Context) error
	}{
		{"Inspect", "held", asked, false, func(ctx context.Context) error { return second(e.Lock("held").Inspect(ctx)) }},
		{"ForceRelease", "gone", changed, false, func(ctx context.Context) error { return second(e.Lock("gone").ForceRelease(ctx)) }},
		{"Queue", "fair", asked, false, func(ctx context.Context) error { return second(e.FairLock("fair").Queue(ctx)) }},
		{"Extend", "fixed", changed, false, func(ctx context.Context) error { return fixed.Extend(ctx, 2*time.Minute) }},
		{"AvailablePermits", "sem", asked, false, func(ctx context.Context) error { return second(sem.AvailablePermits(ctx)) }},
		{"AddPermits", "sem", changed, false, func(ctx context.Context) error { return second(sem.AddPermits(ctx, 1)) }},
		{"Holders", "permits", asked, false, func(ctx context.Context) error { return second(permits.Holders(ctx)) }},
		{"SetPermits", "permits", changed, false, func(ctx context.Context) error { return second(permits.SetPermits(ctx, 4)) }},
		{"Count", "latch", asked, false, func(ctx context.Context) error { return second(latch.Count(ctx)) }},
		{"Delete", "latch", changed, false, func(ctx context.Context) error { return second(latch.Delete(ctx)) }},
		{"Release", "held", released, true, held.Release},
		{"Release of a permit", "permits", released, true, permit.Release},
		{"Release of permits", "sem", counted, true, func(ctx context.Context) error { return sem.Release(ctx, 1) }},
		{"CountDown", "latch", counted, true, latch.CountDown},
		{"Release of two", "m1", "before it was done, of 2 locks in all; what was asked of them goes on", true, several.Release},
		{"Await", "other", "while waiting; the acquire goes on", true, func(ctx context.Context) error {
			f := e.Lock("other").AcquireAsync(context.Background())
			defer f.Cancel()
			return second(f.Await(ctx))
		}},
		{"Await of several", "another", "while waiting; the acquire goes on", true, func(ctx context.Context) error {
			f := engine.AllLeases(e.Lock("another").AcquireAsync(context.Background()))
			defer f.Cancel()
			return second(f.Await(ctx))
		}},
	} {
		told := func(ctx context.Context, cause error, says string) {
			err := c.call(ctx)
			var ended *engine.WaitError
			require.ErrorAs(t, err, &ended, c.what)
			require.Equal(t, c.name, ended.Name, c.what)
			require.ErrorIs(t, err, cause, c.what)
			require.Equal(t, fmt.Sprintf("holdfast: %q: %v %s", c.name, cause, says), err.Error(), c.what)
			require.False(t, engine.SafeToRetry(err), c.what)
		}
		if !c.detached {
			told(over, context.Canceled, "before it was asked for")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		told(ctx, context.DeadlineExceeded, c.says)
		cancel()
	}
	p.ReleaseCommands()
	require.NoError(t, p.Idle(testkit.Limited(t)))
	p.Refuse(testkit.ScriptCall("inspect"), -1, "LOADING not yet")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = e.Lock("held").Inspect(ctx)
	require.EqualError(t, err, `holdfast: "held": context deadline exceeded before it was done; the last answer was: server: LOADING not yet`)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, engine.ClassLoading, testkit.ServerClass(err))
	testkit.Release(t, fixed)
	require.NoError(t, testkit.Close(e))
}

// second is an error without the value beside it.
func second[T any](_ T, err error) error { return err }
