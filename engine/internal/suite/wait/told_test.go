package wait_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// givenUp is the error of an acquire whose ctx ends.
func givenUp(t *testing.T, acquire func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := acquire(ctx)
	var ended *engine.WaitError
	require.ErrorAs(t, err, &ended)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, engine.ErrUnknown)
	require.False(t, engine.SafeToRetry(err))
	require.Zero(t, engine.RetryAfter(err))
	return err
}

// acquire is a lock's Acquire, and async the same as a future.
func acquire(l *engine.Lock) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := l.Acquire(ctx)
		return err
	}
}

func async(l *engine.Lock) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := l.AcquireAsync(ctx).Await(context.Background())
		return err
	}
}

func TestWhoGivesUpIsToldWhoWasInTheWay(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	here, there := testkit.Acquire(t, e.Lock("here")), testkit.Acquire(t, other.Lock("there"))
	for how, ask := range map[string]func(*engine.Lock) func(context.Context) error{"Acquire": acquire, "AcquireAsync": async} {
		var held *engine.HeldError
		err := givenUp(t, ask(e.Lock("here")))
		require.ErrorIs(t, err, engine.ErrHeld, how)
		require.ErrorAs(t, err, &held)
		require.Equal(t, here.OwnerID(), held.Holder, "it is this engine's")
		require.ErrorContains(t, err, `"here": context deadline exceeded while waiting: lock "here" is held by another caller`)

		err = givenUp(t, ask(e.Lock("there")))
		require.ErrorIs(t, err, engine.ErrHeld, how)
		require.ErrorAs(t, err, &held)
		require.Empty(t, held.Holder)
		require.Greater(t, held.Remaining, time.Second)
		require.ErrorContains(t, err, `"there" is held by another, `)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Lock("free").Acquire(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `holdfast: "free": context canceled before it was asked for`)
	testkit.Release(t, here)
	testkit.Release(t, there)
	testkit.Finish(t, s, e, other)
}

// Several locks are no exception: the first that is in the way is named.
func TestWhoGivesUpSeveralLocksIsToldWhichWasInTheWay(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	there := testkit.Acquire(t, other.Lock("b"))
	var majority []*engine.Lock
	for range 3 {
		one := redistest.Run(t, redistest.Options{})
		testkit.NewForeign(t, one).Lock("b", time.Minute)
		majority = append(majority, testkit.Open(t, one.Addr()).Lock("b"))
	}
	for how, ask := range map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := e.MultiLock("a", "b", "c").Acquire(ctx)
			return err
		},
		"AcquireAsync": func(ctx context.Context) error {
			_, err := e.MultiLock("a", "b", "c").AcquireAsync(ctx).Await(context.Background())
			return err
		},
		"Red": func(ctx context.Context) error {
			_, err := engine.Red(majority...).Acquire(ctx)
			return err
		},
	} {
		err := givenUp(t, ask)
		require.ErrorIs(t, err, engine.ErrHeld, how)
		require.ErrorContains(t, err, `lock "b" is held by another`, how)
	}
	testkit.Release(t, there)
	testkit.Finish(t, s, e, other)
}

// readOnly makes a server the replica of nobody: it has what it has, and takes no writes.
func readOnly(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
}

func TestWhoGivesUpIsToldWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	t.Run("ReadOnly", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		readOnly(t, s)
		err := givenUp(t, acquire(e.Lock("name")))
		require.NotErrorIs(t, err, engine.ErrHeld, "nobody has it")
		require.Equal(t, engine.ClassReadOnly, testkit.ServerClass(err))
		require.ErrorContains(t, err, `"name": context deadline exceeded while waiting, the last answer was: server: READONLY`)
		_, err = e.Lock("name", engine.MaxWait(300*time.Millisecond)).Acquire(testkit.Limited(t))
		require.NotErrorIs(t, err, engine.ErrUnknown, "the server has refused whatever was sent")
		require.NotErrorIs(t, err, engine.ErrHeld)
		require.ErrorContains(t, err, `holdfast: "name": server: READONLY`)
	})
	t.Run("NoConnection", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		log, lines := testkit.Logger()
		e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = log })
		ls := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(engine.MinWatchdogLease)))
		s.Kill()
		testkit.Eventually(t, "the engine has seen that its connection is gone: until then it sends", func() bool {
			_, err := e.Lock("another").TryAcquire(testkit.Limited(t))
			return !errors.Is(err, engine.ErrUnknown)
		})
		_, err := e.Lock("name", engine.MaxWait(300*time.Millisecond)).Acquire(testkit.Limited(t))
		require.NotErrorIs(t, err, engine.ErrUnknown, "nothing was sent")
		require.NotErrorIs(t, err, engine.ErrHeld)
		require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
		require.True(t, engine.SafeToRetry(err))
		require.Positive(t, engine.RetryAfter(err))
		require.Contains(t, err.Error(), `holdfast: "name": server: cannot connect: dial tcp `+s.Addr())
		err = givenUp(t, acquire(e.Lock("name")))
		require.ErrorContains(t, err, `holdfast: "name": context deadline exceeded while waiting, the last answer was: server: cannot connect`)
		err = e.Ping(testkit.Limited(t))
		require.ErrorContains(t, err, "holdfast: ping: server: cannot connect: dial tcp "+s.Addr())
		// The log says whose silence it was.
		testkit.Within(t, ls.Context().Done(), testkit.TooLong, "it is lost")
		for _, line := range []string{"in jeopardy", "lock lost"} {
			testkit.Eventually(t, line, func() bool { return len(lines.With("WARN", line, "held", s.Addr(), "cannot connect")) == 1 })
		}
	})
	t.Run("Silent", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		p.Pause()
		err := givenUp(t, acquire(e.Lock("name")))
		require.NotErrorIs(t, err, engine.ErrHeld)
		require.EqualError(t, err, `holdfast: "name": context deadline exceeded before the server answered`)
		p.Resume()
	})
	t.Run("HolderOfLongAgo", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		testkit.NewForeign(t, s).Lock("name", 700*time.Millisecond)
		waiter := e.Lock("name", engine.MaxWait(2500*time.Millisecond)).AcquireAsync(t.Context())
		testkit.Eventually(t, "it was told", func() bool { return e.Stats().Waits > 0 })
		readOnly(t, s)
		err := testkit.GetError(t, waiter)
		require.NotErrorIs(t, err, engine.ErrHeld, "its time is over, and nobody knows of another")
		require.ErrorIs(t, err, engine.ErrUnknown)
		require.Equal(t, engine.ClassReadOnly, testkit.ServerClass(err))
	})
	t.Run("HolderThatMayBeThere", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		testkit.NewForeign(t, s).Lock("name", time.Minute)
		waiter := e.Lock("name", engine.MaxWait(2500*time.Millisecond)).AcquireAsync(t.Context())
		testkit.Eventually(t, "it was told", func() bool { return e.Stats().Waits > 0 })
		s.Kill()
		err := testkit.GetError(t, waiter)
		require.ErrorIs(t, err, engine.ErrHeld)
		require.NotEqual(t, engine.Class(0), testkit.ServerClass(err))
		require.ErrorContains(t, err, "remaining; since then: server: ")
	})
}

// What a Do's function returns is its own: whether it may run again only its author knows.
func TestSafeToRetryOfADoThatHasRun(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	inner := testkit.Acquire(t, e.Lock("inner"))
	work := errors.New("work")
	for what, fn := range map[string]func(context.Context) error{
		"an error of its own": func(context.Context) error { return work },
		"another lock's": func(ctx context.Context) error {
			_, err := e.Lock("inner").TryAcquire(ctx)
			return errors.Join(work, err)
		},
		"an overload": func(context.Context) error { return errors.Join(work, engine.ErrOverloaded) },
		"the loss": func(ctx context.Context) error {
			_, err := e.Lock("outer").ForceRelease(context.WithoutCancel(ctx))
			return errors.Join(work, err)
		},
	} {
		for _, do := range []func(context.Context, func(context.Context) error) error{
			e.Lock("outer").Do, e.MultiLock("outer", "beside").Do,
		} {
			err := do(testkit.Limited(t), fn)
			require.ErrorIs(t, err, work, what)
			require.False(t, engine.SafeToRetry(err), what)
			require.Equal(t, what == "another lock's", errors.Is(err, engine.ErrHeld))
			require.Equal(t, what == "the loss", engine.RetryAfter(err) > 0)
		}
	}
	require.NoError(t, e.Lock("outer").Do(testkit.Limited(t), func(context.Context) error { return nil }))
	_, err := e.Lock("inner").TryAcquire(testkit.Limited(t))
	require.True(t, engine.SafeToRetry(err), "a Try changes nothing")
	err = e.Lock("inner", engine.MaxWait(time.Millisecond)).Do(testkit.Limited(t), func(context.Context) error { return nil })
	require.True(t, engine.SafeToRetry(err), "it has not run")
	testkit.Release(t, inner)
	require.False(t, engine.SafeToRetry(inner.Release(testkit.Limited(t))))
	testkit.Finish(t, s, e)
}
