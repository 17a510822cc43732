package api_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestP7BlockingCallbacksDelayNeitherLocksNorRenewalsNorOtherCallbacks(t *testing.T) {
	const blockers = 300
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(2*time.Second)))
	unblock := make(chan struct{})
	var entered atomic.Int32
	for i := range blockers {
		e.Lock(fmt.Sprint("blocked:", i)).AcquireAsync(context.Background()).OnComplete(func(*engine.Lease, error) {
			entered.Add(1)
			<-unblock
		})
	}
	testkit.Eventually(t, "a callback blocks", func() bool { return entered.Load() > 0 })
	ran := make(chan struct{})
	start := time.Now()
	e.Lock("quick").AcquireAsync(context.Background()).OnComplete(func(*engine.Lease, error) { close(ran) })

	for i := range 100 { // locks go on
		begin := time.Now()
		testkit.Release(t, testkit.Acquire(t, e.Lock(fmt.Sprint("free:", i))))
		require.Less(t, testkit.Ran(begin), testkit.Soon)
	}
	select {
	case <-ran:
	case <-time.After(testkit.TooLong):
	}
	took := testkit.Ran(start)
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "renewals go on", func() bool { return e.Stats().Renewals.Sent >= sent+3 })
	lost := held.Lost()
	close(unblock)
	require.False(t, lost)
	require.LessOrEqual(t, took, 2*time.Second, "a callback that does not block, behind %d that do", blockers)
	testkit.Eventually(t, "the blocked ones end", func() bool { return e.Stats().Callbacks > blockers }) // a logger's count, too
	require.Zero(t, e.Stats().Lost)
}

func TestPanickingCallbackIsReportedToTheLoggerAndLocksGoOn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	logger, log := testkit.Logger()
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
	after := make(chan error, 1)
	e.Lock("name").AcquireAsync(context.Background()).OnComplete(func(ls *engine.Lease, err error) {
		defer func() { after <- err }()
		ls.ReleaseAsync()
		panic("boom in a callback")
	})
	require.NoError(t, <-after)
	testkit.Eventually(t, "the panic is reported", func() bool {
		return len(log.With("ERROR", "panicked", "boom in a callback", "callbacks_test.go")) == 1
	})
	require.EqualValues(t, 1, e.Stats().CallbackPanics)
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
}

// A callback holds no lock of ours: it may do whatever a caller may, blocking calls included.
func TestCallbackMayAcquireAndReleaseLocks(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	done := make(chan error, 1)
	e.Lock("outer").AcquireAsync(context.Background()).OnComplete(func(outer *engine.Lease, _ error) {
		ctx := context.Background()
		inner, err := e.Lock("inner").Acquire(ctx)
		if err == nil {
			err = inner.Release(ctx)
		}
		if err == nil {
			err = outer.Release(ctx)
		}
		if err == nil {
			_, err = e.Lock("outer").Inspect(ctx)
		}
		_ = e.Stats()
		done <- err
	})
	require.NoError(t, <-done)
	require.Empty(t, s.Keys(t))
}
