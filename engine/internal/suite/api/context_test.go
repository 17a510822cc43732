package api_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// hostileContext does something where it is asked for its end, and counts who watches it.
type hostileContext struct {
	context.Context //nolint:containedctx // it is one
	asked           func(n int64)
	n               atomic.Int64
	watches         atomic.Int64
	registered      atomic.Int64
}

func newHostileContext(asked func(n int64)) (*hostileContext, context.CancelFunc) {
	inner, cancel := context.WithCancel(context.Background())
	return &hostileContext{Context: inner, asked: asked}, cancel
}

func (c *hostileContext) Done() <-chan struct{} {
	if c.asked != nil {
		c.asked(c.n.Add(1))
	}
	return c.Context.Done()
}

// Value keeps the context package from finding its own context in here, and watching that.
func (c *hostileContext) Value(any) any { return nil }

// AfterFunc is what context.AfterFunc then calls.
func (c *hostileContext) AfterFunc(fn func()) func() bool {
	c.watches.Add(1)
	c.registered.Add(1)
	end := sync.OnceFunc(func() { c.watches.Add(-1) })
	stop := context.AfterFunc(c.Context, func() { end(); fn() })
	return func() bool { end(); return stop() }
}

func TestAContextMayAskTheEngineWhenItIsWatched(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, rival := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	for name, holder := range map[string]*engine.Engine{"here": e, "elsewhere": rival} {
		held := testkit.Acquire(t, holder.Lock(name))
		var asked atomic.Int64
		ctx, cancel := newHostileContext(func(int64) {
			_ = e.Held()
			_ = e.Stats()
			asked.Add(1)
		})
		began := make(chan *engine.Future[*engine.Lease], 1)
		go func() { began <- e.Lock(name).AcquireAsync(ctx) }()
		f := testkit.Await(t, began, "AcquireAsync returns")
		testkit.Eventually(t, "the context is watched", func() bool { return ctx.watches.Load() == 1 })
		cancel()
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.Canceled)
		require.Positive(t, asked.Load())
		testkit.Release(t, held)
	}
	testkit.Finish(t, s, e, rival)
}

// A watch that is never ended keeps the op, its lease and its context alive for as long as the context lives.
func TestNoWatchOfAContextOutlivesItsOperation(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	t.Run("GrantedWhileTheContextIsLookedAt", func(t *testing.T) {
		held := testkit.Acquire(t, e.Lock("name"))
		ctx, cancel := newHostileContext(func(n int64) {
			if n == 1 {
				testkit.Release(t, held) // and the op that is about to be watched has the lock
			}
		})
		defer cancel()
		ls, err := e.Lock("name").AcquireAsync(ctx).Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Eventually(t, "it is looked at to the end", func() bool { return ctx.registered.Load() == 1 && ctx.watches.Load() == 0 })
		testkit.Release(t, ls)
	})
	t.Run("CancelledWhileTheContextIsLookedAt", func(t *testing.T) {
		held := testkit.Acquire(t, e.Lock("name"))
		var first *engine.Future[*engine.Lease]
		gate, at := make(chan struct{}), make(chan struct{})
		ctx, cancel := newHostileContext(func(n int64) {
			if n == 1 {
				close(at)
				<-gate
			}
		})
		defer cancel()
		began := make(chan struct{})
		go func() {
			defer close(began)
			first = e.Lock("name").AcquireAsync(ctx)
		}()
		testkit.Await(t, at, "the context is asked")
		testkit.Eventually(t, "it waits", func() bool { return e.Stats().Waiting == 1 })
		closing := make(chan error, 1)
		go func() { closing <- e.Close(testkit.Limited(t)) }()
		testkit.Eventually(t, "Close ends it", func() bool { return e.Stats().Waiting == 0 })
		close(gate)
		testkit.Await(t, began, "AcquireAsync returns")
		_, err := first.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrClosed)
		require.NoError(t, testkit.Await(t, closing, "Close"))
		require.Zero(t, ctx.watches.Load())
		require.False(t, held.Lost())
	})
	t.Run("RefusedByAClosedEngine", func(t *testing.T) {
		ctx, cancel := newHostileContext(nil)
		defer cancel()
		_, err := e.Lock("name").Inspect(ctx)
		require.ErrorIs(t, err, engine.ErrClosed)
		require.EqualValues(t, 1, ctx.registered.Load())
		require.Zero(t, ctx.watches.Load())
	})
}

// endlessContext panics when it is asked why it ended.
type endlessContext struct {
	context.Context        //nolint:containedctx // it is one
	asked, watched, panics atomic.Bool
}

func (c *endlessContext) Done() <-chan struct{} {
	c.asked.Store(true)
	return c.Context.Done()
}

// Value lets the context package find its own context in here; from then on it tells the watch of the end without asking.
func (c *endlessContext) Value(key any) any {
	if c.asked.Load() {
		c.watched.Store(true)
	}
	return c.Context.Value(key)
}

func (c *endlessContext) Err() error {
	if c.panics.Load() {
		panic("a context's other bug")
	}
	return c.Context.Err()
}

func TestAContextThatPanicsStopsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, rival := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, rival.Lock("name"))
	t.Run("WhenItHasEnded", func(t *testing.T) {
		inner, end := context.WithCancel(context.Background())
		ctx := &endlessContext{Context: inner}
		f := e.Lock("name").AcquireAsync(ctx)
		testkit.Eventually(t, "it is watched", ctx.watched.Load)
		ctx.panics.Store(true)
		before := e.Stats().CallbackPanics
		end()
		testkit.Eventually(t, "the panic is counted", func() bool { return e.Stats().CallbackPanics > before })
		require.True(t, f.Cancel())
	})
	ctx, cancel := newHostileContext(func(int64) { panic("a context's bug") })
	defer cancel()
	before := e.Stats().CallbackPanics
	f := e.Lock("name").AcquireAsync(ctx)
	testkit.Eventually(t, "the panic is counted", func() bool { return e.Stats().CallbackPanics > before })
	testkit.Release(t, testkit.Acquire(t, e.Lock("other", engine.MaxWait(time.Minute))))
	testkit.Release(t, held)
	ls, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, rival)
}

// That an op has to wait is learnt on lanes, on the wheel and on the connection of messages. A context that never answers
// holds none of them up, and is counted as what it is: code of others that has not returned.
func TestAContextThatBlocksStopsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, rival := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	gate := make(chan struct{})
	asked := make(chan struct{}, 100)
	var waiting []*engine.Future[*engine.Lease]
	for i := range 20 { // every lane has some
		release := testkit.Acquire(t, rival.Lock(testkit.Numbered("held", i)))
		require.NotNil(t, release)
		ctx, end := newHostileContext(func(int64) {
			asked <- struct{}{}
			<-gate
		})
		t.Cleanup(end)
		waiting = append(waiting, e.Lock(testkit.Numbered("held", i)).AcquireAsync(ctx))
	}
	testkit.Await(t, asked, "a context is asked")
	for i := range 100 {
		testkit.Release(t, testkit.Acquire(t, e.Lock(testkit.Numbered("free", i), engine.MaxWait(time.Minute))))
	}
	require.True(t, waiting[0].Cancel())
	began := time.Now()
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	require.ErrorContains(t, e.Close(ctx), "callbacks have not returned")
	require.Less(t, testkit.Ran(began), 1500*time.Millisecond)
	for _, f := range waiting[1:] {
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrClosed)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorContains(t, e.Close(ended), "callbacks have not returned", "still")
	close(gate)
	require.NoError(t, testkit.Close(e))
	require.NoError(t, rival.Close(testkit.Limited(t)))
}

// A context that closes the engine when it is asked for its end does not wait for itself.
func TestAContextMayCloseTheEngineWhenItIsWatched(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	for name, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		e, rival := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
		holder := e
		if elsewhere {
			holder = rival
		}
		testkit.Acquire(t, holder.Lock(name))
		closed := make(chan error, 10)
		ctx, end := newHostileContext(func(n int64) {
			if n == 1 {
				closed <- e.Close(testkit.Limited(t))
			}
		})
		t.Cleanup(end)
		f := e.Lock(name).AcquireAsync(ctx)
		require.NoError(t, testkit.Await(t, closed, "Close"))
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrClosed)
		require.NoError(t, e.Close(testkit.Limited(t)))
		require.NoError(t, rival.Close(testkit.Limited(t)))
	}
}

// A ForceRelease keeps everybody of its engine from asking for the name. It asks its context before.
func TestAContextThatBlocksAForceReleaseKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	gate, asked := make(chan struct{}), make(chan struct{}, 10)
	ctx, end := newHostileContext(func(int64) {
		asked <- struct{}{}
		<-gate
	})
	defer end()
	done := make(chan error, 1)
	go func() {
		_, err := e.Lock("name").ForceRelease(ctx)
		done <- err
	}()
	testkit.Await(t, asked, "its context is asked")
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	close(gate)
	require.NoError(t, testkit.Await(t, done, "ForceRelease"))
	testkit.Finish(t, s, e)
}
