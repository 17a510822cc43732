package api_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestC173_CloseEndsThousandHeldThousandWaitingAndThousandInFlight(t *testing.T) {
	const n = 1000
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	var held []*engine.Future[*engine.Lease]
	for i := range n {
		held = append(held, e.Lock(fmt.Sprint("held:", i)).AcquireAsync(context.Background()))
	}
	var ends []context.Context
	for _, f := range held {
		ends = append(ends, testkit.Get(t, f).Context())
	}
	var open []*engine.Future[*engine.Lease]
	for i := range n { // ten waiters for each of a hundred names held here
		open = append(open, e.Lock(fmt.Sprint("held:", i%100)).AcquireAsync(context.Background()))
	}
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	for i := range n {
		open = append(open, e.Lock(fmt.Sprint("flying:", i)).AcquireAsync(context.Background()))
	}
	testkit.Within(t, hold.C(), testkit.TooLong, "commands are in flight")
	require.EqualValues(t, 2*n, e.Stats().Waiting)

	closed := make(chan error, 1)
	go func() { closed <- testkit.Close(e) }()
	start := time.Now()
	for _, f := range open {
		require.ErrorIs(t, testkit.GetError(t, f), engine.ErrClosed)
	}
	for _, end := range ends {
		testkit.Within(t, end.Done(), testkit.TooLong, "it ends")
		require.ErrorIs(t, context.Cause(end), engine.ErrReleased)
	}
	require.Less(t, testkit.Ran(start), 2*time.Second, "nobody's future waits for the server")
	p.ReleaseCommands()
	require.NoError(t, <-closed)
	require.Equal(t, "0", s.Do(t, "DBSIZE"), "everything was given back before Close returned")

	sent := p.Count("EVALSHA")
	for _, f := range open {
		_, err, ok := f.Result()
		require.True(t, ok)
		require.ErrorIs(t, err, engine.ErrClosed, "a result stays")
	}
	require.Equal(t, sent, p.Count("EVALSHA"), "nothing is sent after Close")
	testkit.Eventually(t, "no connection is left", func() bool { return p.Stats().Open == 0 })
}

func TestCloseIsIdempotentAndMayBeCalledByMany(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for i := range 100 {
		testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i)))
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = testkit.Close(e) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, testkit.Close(e))
	require.Empty(t, s.Keys(t))
}

func TestOperationsAfterCloseAnswerErrClosedAndSendNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	l := e.Lock("name", engine.FixedLease(time.Minute))
	ls := testkit.Acquire(t, l)
	require.NoError(t, testkit.Close(e))
	testkit.ResetCalls(t, s)
	ctx := context.Background()

	_, err := l.Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = l.TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, testkit.GetError(t, l.AcquireAsync(ctx)), engine.ErrClosed)
	require.ErrorIs(t, testkit.GetError(t, l.TryAcquireAsync(ctx)), engine.ErrClosed)
	_, err = l.Inspect(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = l.ForceRelease(ctx)
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, l.Do(ctx, func(context.Context) error { panic("must not run") }), engine.ErrClosed)
	require.ErrorIs(t, e.Ping(ctx), engine.ErrClosed)
	require.Error(t, ls.Extend(ctx, time.Minute), "the lease is over")
	require.Error(t, ls.Release(ctx), "Close has released it")
	require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrReleased)
	require.False(t, engine.SafeToRetry(engine.ErrClosed))
	require.Empty(t, e.Held())
	require.Empty(t, testkit.Calls(t, s))
}

func TestCloseWithKeepOnCloseLeavesTheKeysToExpireAndEndsTheContexts(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.KeepOnClose = true })
	ls := testkit.Acquire(t, e.Lock("kept"))
	ctx := ls.Context()
	silent := testkit.Acquire(t, e.Lock("kept too"))
	require.NoError(t, ctx.Err())
	require.NoError(t, testkit.Close(e))

	require.Equal(t, []string{"kept", "kept too"}, s.Keys(t))
	for _, name := range []string{"kept", "kept too"} {
		left := testkit.Int(t, s, "PTTL", name)
		require.Positive(t, left)
		require.LessOrEqual(t, left, engine.DefaultLease.Milliseconds())
	}
	require.Equal(t, ls.OwnerID()+"\n1", s.Do(t, "HGETALL", "kept"))
	testkit.Within(t, ctx.Done(), testkit.TooLong, "it ends")
	require.Error(t, context.Cause(ctx))
	require.Error(t, silent.Context().Err(), "one asked for afterwards has ended, too")
	require.True(t, ls.Lost(), "nobody here may believe in it any more")
	require.Error(t, ls.Release(context.Background()))
}

// A release that has met trouble waits to be sent again; the engine may close meanwhile. Whoever
// awaits it must still be answered: P10, C-173.
func TestC175_CloseWithoutAServerAnswersEveryFuture(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	var leases []*engine.Lease
	for i := range 50 {
		leases = append(leases, testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i))))
	}
	s.Kill()
	var releases []*engine.Future[struct{}]
	for _, ls := range leases[:25] {
		releases = append(releases, ls.ReleaseAsync())
	}
	inspect := e.Lock("name:0").InspectAsync(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := e.Close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, testkit.Ran(start), 500*time.Millisecond+testkit.Soon, "Close keeps to its ctx")

	limit, stop := context.WithTimeout(context.Background(), 12*time.Second)
	defer stop()
	for i, f := range releases {
		_, err := f.Await(limit)
		require.Error(t, err)
		require.NoError(t, limit.Err(), "release %d of %d has no answer long after Close", i, len(releases))
	}
	_, err = inspect.Await(limit)
	require.Error(t, err)
	require.NoError(t, limit.Err(), "inspect has no answer long after Close")

	err = testkit.Close(e)
	require.Error(t, err, "it says that locks were left to expire")
	require.NotErrorIs(t, err, context.DeadlineExceeded, "everything has ended")
}

// A server that stands still keeps every connection open and answers nothing.
func TestC175_CloseOfAnEngineWhoseServerStandsStillEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for i := range 50 {
		testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i), engine.WatchdogLease(2*time.Second)))
	}
	ctx := testkit.Acquire(t, e.Lock("watched")).Context()
	s.Pause()
	flying := e.Lock("flying").AcquireAsync(context.Background())
	limit, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.ErrorIs(t, e.Close(limit), context.DeadlineExceeded)
	require.Less(t, testkit.Ran(start), 300*time.Millisecond+testkit.Soon)
	require.ErrorIs(t, testkit.GetError(t, flying), engine.ErrClosed)
	testkit.Within(t, ctx.Done(), testkit.TooLong, "it ends")
	err := testkit.Close(e)
	took := testkit.Ran(start)
	s.Resume()
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "expire")
	require.Less(t, took, 12*time.Second, "every goroutine has ended, although the server says nothing")
}

// Each call waits for callbacks as long as its own ctx allows, whoever called first.
func TestEachCloseWaitsForCallbacksAsItsOwnContextAllows(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	unblock, running := make(chan struct{}), make(chan struct{})
	events := e.Events(8)
	e.Lock("name").AcquireAsync(context.Background()).OnComplete(func(*engine.Lease, error) {
		close(running)
		<-unblock
	})
	<-running
	beside := make(chan error, 1)
	go func() { beside <- testkit.Close(e) }()
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Millisecond)
		err := e.Close(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 callbacks have not returned")
	}
	require.Empty(t, s.Keys(t), "the lock itself was given back")
	for range events.C() { // it ends
	}
	require.Empty(t, beside)
	close(unblock)
	require.NoError(t, testkit.Await(t, beside, "it has waited for the callback"))
	require.NoError(t, testkit.Close(e))
}

// A context that has ended already is the shortest limit: Close still shuts the door.
func TestCloseWithAnEndedContextStillCloses(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	waiter := testkit.NewForeign(t, s)
	waiter.Lock("foreign", time.Minute)
	f := e.Lock("foreign").AcquireAsync(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, e.Close(ctx), "the grace is enough")
	require.ErrorIs(t, testkit.GetError(t, f), engine.ErrClosed)
	_, err := e.Lock("foreign").TryAcquire(context.Background())
	require.ErrorIs(t, err, engine.ErrClosed)
	require.NoError(t, testkit.Close(e))
}
