package engine_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// hostileLog does something with its caller in one of its methods.
type hostileLog struct {
	method string
	does   func()
	called atomic.Int64
}

func (l *hostileLog) Enabled(context.Context, slog.Level) bool {
	l.in("Enabled")
	return true
}

func (l *hostileLog) Handle(context.Context, slog.Record) error {
	l.in("Handle")
	return nil
}

func (l *hostileLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *hostileLog) WithGroup(string) slog.Handler      { return l }

func (l *hostileLog) in(method string) {
	if method == l.method {
		l.called.Add(1)
		l.does()
	}
}

// The watchdog speaks of what is lost, and goes on whatever becomes of that.
func TestALoggerThatBlocksPanicsOrEndsItsGoroutineStopsNothing(t *testing.T) {
	for _, does := range []string{"Blocks", "Panics", "Ends"} {
		for _, method := range []string{"Enabled", "Handle"} {
			t.Run(does+"In"+method, func(t *testing.T) {
				t.Parallel()
				testHostileLogger(t, does, method)
			})
		}
	}
}

func testHostileLogger(t *testing.T, does, method string) {
	t.Helper()
	open := make(chan struct{})
	t.Cleanup(func() { close(open) })
	bad := &hostileLog{method: method, does: map[string]func(){
		"Blocks": func() { <-open }, "Panics": func() { panic("a logger's bug") }, "Ends": runtime.Goexit,
	}[does]}
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(bad) })
	var held []*engine.Lease
	for i := range 6 {
		held = append(held, testkit.Acquire(t, e.Lock(testkit.Numbered("held", i), engine.WatchdogLease(3*time.Second))))
	}
	for _, ls := range held[:3] {
		s.Do(t, "DEL", ls.Name())
	}
	testkit.Eventually(t, "three losses", func() bool { return e.Stats().Lost >= 3 })
	testkit.Eventually(t, "the logger is called", func() bool { return bad.called.Load() > 0 })
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "renewals go on", func() bool { return e.Stats().Renewals.Sent >= sent+6 })
	called := make(chan struct{})
	e.Lock("other").AcquireAsync(testkit.Limited(t)).OnComplete(func(ls *engine.Lease, err error) {
		if err == nil {
			ls.ReleaseAsync()
		}
		close(called)
	})
	testkit.Await(t, called, "a callback")
	for _, ls := range held[3:] {
		require.False(t, ls.Lost())
	}
	if does == "Blocks" {
		require.EqualValues(t, 1, bad.called.Load(), "it holds one worker")
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		err := e.Close(ctx)
		require.ErrorContains(t, err, "the logger has not returned")
		require.NotContains(t, err.Error(), "callbacks have not returned")
		require.Empty(t, s.Keys(t))
		return
	}
	testkit.Eventually(t, "one line after the other", func() bool { return bad.called.Load() >= 3 })
	require.NoError(t, e.Close(testkit.Limited(t)))
	if does == "Panics" {
		require.Equal(t, bad.called.Load(), e.Stats().CallbackPanics)
	}
}

// All workers of the pool are stuck, and it had to grow.
func TestALoggerThatPanicsOfACallbackThatPanicsInAPoolThatGrewEndsNothing(t *testing.T) {
	t.Parallel()
	const blocked = 300
	s := redistest.Run(t, redistest.Options{})
	bad := &hostileLog{method: "Handle", does: func() { panic("a logger's bug") }}
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(bad) })
	gate := make(chan struct{})
	for i := range blocked {
		e.Lock(testkit.Numbered("blocked", i)).AcquireAsync(t.Context()).OnComplete(func(*engine.Lease, error) { <-gate })
	}
	testkit.Eventually(t, "the pool is used up", func() bool { return e.Stats().CallbackOverflows > 0 })
	e.Lock("last").AcquireAsync(t.Context()).OnComplete(func(*engine.Lease, error) { panic("a user's bug") })
	testkit.Eventually(t, "both panics", func() bool { return e.Stats().CallbackPanics == 2 })
	close(gate)
	testkit.Eventually(t, "everybody else", func() bool { return e.Stats().Callbacks == blocked+2 })
	require.NoError(t, e.Close(testkit.Limited(t)))
}

func TestCloseCallsWhatWaitsBehindACallbackThatNeverReturns(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	gate, stuck := make(chan struct{}), make(chan struct{})
	ls := testkit.Acquire(t, e.Lock("name"))
	e.Lock("other").AcquireAsync(t.Context()).OnComplete(func(*engine.Lease, error) { close(stuck); <-gate })
	testkit.Await(t, stuck, "a callback")
	told := make(chan error, 20)
	for range cap(told) { // Close tells them
		e.Lock("name").AcquireAsync(t.Context()).OnComplete(func(_ *engine.Lease, err error) { told <- err })
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, e.Close(ctx))
	for range cap(told) {
		require.ErrorIs(t, testkit.Await(t, told, "an answer"), engine.ErrClosed)
	}
	require.False(t, ls.Lost())
	close(gate)
}

// Lines that a logger was too slow for are in the statistics: whoever reads its log would not miss them otherwise.
func TestLinesThatWereDroppedAreInTheStatistics(t *testing.T) {
	t.Parallel()
	const more = 7
	s := redistest.Run(t, redistest.Options{})
	gate, heard := make(chan struct{}), make(chan struct{}, callback.MaxLines+1)
	slow := &hostileLog{method: "Handle", does: func() { heard <- struct{}{}; <-gate }}
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(slow) })
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // before the engine is closed
	engine.Say(e, "the logger has it")
	testkit.Await(t, heard, "the first line")
	for range callback.MaxLines {
		engine.Say(e, "waits")
	}
	require.Zero(t, e.Stats().LogsDropped)
	for range more {
		engine.Say(e, "is dropped")
	}
	require.EqualValues(t, more, e.Stats().LogsDropped)
	open()
	testkit.Finish(t, s, e)
	require.EqualValues(t, more, e.Stats().LogsDropped)
	require.EqualValues(t, 1+callback.MaxLines+1, slow.called.Load(), "and one that says how many were dropped")
}
