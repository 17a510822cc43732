package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestC175_CloseWithoutAServer: the server is silent or gone when the engine is closed. Close
// keeps to its ctx and says what is left; every future is answered; every goroutine ends, with the
// server back or without it (TestMain would find one that does not).
func TestC175_CloseWithoutAServer(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		gone func(s *redistest.Server, p *faultproxy.Proxy)
		back func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy)
	}{
		{
			"ServerStopped",
			func(s *redistest.Server, _ *faultproxy.Proxy) { s.Pause() },
			func(_ *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { s.Resume() },
		},
		{"ServerStaysStopped", func(s *redistest.Server, _ *faultproxy.Proxy) { s.Pause() }, nil},
		{
			"BlackHole",
			func(_ *redistest.Server, p *faultproxy.Proxy) { p.Pause() },
			func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) { p.Resume() },
		},
		{"BlackHoleForEver", func(_ *redistest.Server, p *faultproxy.Proxy) { p.Pause() }, nil},
		{
			"BlackHoleWhileDialling",
			func(_ *redistest.Server, p *faultproxy.Proxy) {
				p.Pause()
				p.CutAll()
			}, nil,
		},
		{
			"Refused",
			func(_ *redistest.Server, p *faultproxy.Proxy) {
				p.RefuseNew(true)
				p.CutAll()
			}, nil,
		},
		{"ServerKilled", func(s *redistest.Server, _ *faultproxy.Proxy) { s.Kill() }, nil},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			const lease = 10 * time.Second
			held := make([]*engine.Lease, 20)
			for i := range held {
				held[i] = testkit.Acquire(t, e.Lock(testkit.Numbered("held", i), engine.WatchdogLease(lease)))
			}
			foreign := "2f1f1f66-0000-4000-8000-000000000000:77"
			s.Do(t, "HSET", "busy", foreign, "1")
			s.Do(t, "PEXPIRE", "busy", "5000")
			waiter := e.Lock("busy").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
			ended := held[1].Context()
			how.gone(s, p)
			gone := time.Now()

			// In flight when Close comes: a release, an acquire, a Try, an Inspect, a ForceRelease.
			released := held[0].ReleaseAsync()
			fresh, try := e.Lock("fresh").AcquireAsync(context.Background()), e.Lock("try").TryAcquireAsync(context.Background())
			inspect, force := e.Lock("fresh").InspectAsync(context.Background()), e.Lock("x").ForceReleaseAsync(context.Background())

			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			begun := time.Now()
			err := e.Close(ctx)
			require.Error(t, err)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, testkit.Ran(begun), time.Second+testkit.Soon, "Close keeps to its ctx")
			for _, f := range []*engine.Future[*engine.Lease]{waiter, fresh} {
				_, err, done := f.Result()
				require.True(t, done, "who waits is told at once")
				require.ErrorIs(t, err, engine.ErrClosed)
			}
			_, err = e.Lock("late").Acquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrClosed)
			testkit.Await(t, ended.Done(), "a held lease's context ends")
			require.ErrorIs(t, held[2].Release(testkit.Limited(t)), engine.ErrNotHeld)
			if how.back != nil {
				how.back(t, s, p)
			}
			begun = time.Now()
			err = e.Close(testkit.Limited(t)) // waits for the last goroutine
			t.Logf("ended %v after Close's ctx, %v", time.Since(begun).Round(time.Millisecond), err)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, testkit.Ran(gone), 9*time.Second, "the rest ends by itself")
			for _, f := range []interface {
				Done() <-chan struct{}
			}{released, try, inspect, force} {
				testkit.Await(t, f.Done(), "an answer to what was in flight")
			}
			_, tryErr := try.Await(testkit.Limited(t))
			require.Error(t, tryErr)
			if how.name == "ServerKilled" {
				return
			}
			s.Resume()
			require.Empty(t, s.ImmortalKeys(t))
			for _, key := range s.Keys(t) {
				require.False(t, testkit.Expiry(t, s, key).After(gone.Add(lease)), "%s was renewed", key)
				require.True(t, err != nil || key == "busy", "Close said that all was well, %s is left", key)
			}
		})
	}
}

// TestC173_CloseWithEverythingInFlight: hundreds of acquires, waiters, holds, releases and cancels
// are under way when the engine is closed. Every future is answered, everything is released.
func TestC173_CloseWithEverythingInFlight(t *testing.T) {
	t.Parallel()
	const n = 300
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	held := make([]*engine.Future[*engine.Lease], n)
	for i := range held {
		held[i] = e.Lock(testkit.Numbered("held", i)).AcquireAsync(testkit.Limited(t))
	}
	leases, err := engine.AllLeases(held...).Await(testkit.Limited(t))
	require.NoError(t, err)
	theirs := testkit.Acquire(t, other.Lock("theirs"))
	var futures []*engine.Future[*engine.Lease]
	for i := range n {
		futures = append(futures, e.Lock(testkit.Numbered("held", i)).AcquireAsync(context.Background()), // behind a local hold
			e.Lock("theirs").AcquireAsync(context.Background())) // behind somebody else's
	}
	testkit.Eventually(t, "they wait", func() bool { return e.Stats().WokenBySubscribe > 0 })
	p.Delay(20*time.Millisecond, 20*time.Millisecond)
	var releases []*engine.Future[struct{}]
	for i := range n {
		switch i % 3 {
		case 0:
			releases = append(releases, leases[i].ReleaseAsync())
		case 1:
			futures[2*i].Cancel()
		}
		futures = append(futures, e.Lock(testkit.Numbered("fresh", i)).AcquireAsync(context.Background()))
	}
	begun := time.Now()
	require.NoError(t, e.Close(testkit.Limited(t)))
	require.Less(t, testkit.Ran(begun), 2*time.Second)
	for _, f := range futures {
		ls, err, done := f.Result()
		require.True(t, done)
		if err == nil { // it was granted just before
			require.False(t, ls.Lost())
			require.Error(t, ls.Context().Err())
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
			continue
		}
		require.True(t, testkit.ErrorIsAny(err, engine.ErrClosed, engine.ErrCancelled), "%v", err)
	}
	for _, f := range releases {
		_, err, done := f.Result()
		require.True(t, done)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"theirs"}, s.Keys(t))
	require.NoError(t, e.Close(testkit.Limited(t)), "closing twice")
	testkit.Release(t, theirs)
	testkit.Finish(t, s, other)
}

// TestC173_CloseDuringCourtesy: an engine that has just given back a lock that somebody else waits
// for leaves it alone for a moment. Closed in that moment it leaves nothing behind.
func TestC173_CloseDuringCourtesy(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	other := testkit.Open(t, s.Addr())
	const rounds = 10
	late := 0
	for range rounds {
		e := testkit.Open(t, s.Addr())
		ls := testkit.Acquire(t, e.Lock("a"))
		before := other.Stats().WokenBySubscribe
		waiter := other.Lock("a").AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "it is subscribed", func() bool { return other.Stats().WokenBySubscribe > before })
		given := time.Now()
		testkit.Release(t, ls)
		require.EqualValues(t, 1, e.Stats().Heard)
		next := e.Lock("a").AcquireAsync(testkit.Limited(t))
		require.NoError(t, e.Close(testkit.Limited(t)))
		ls, err := next.Await(testkit.Limited(t))
		if err == nil { // the moment was over before Close began: the machine stood still for as long
			late++
			require.Greater(t, time.Since(given), lockstate.YieldLeast)
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
		} else {
			require.ErrorIs(t, err, engine.ErrClosed)
		}
		require.Zero(t, e.Stats().Names)
		got, err := waiter.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	}
	require.Less(t, late, rounds/2, "Close begins in that moment")
	testkit.Finish(t, s, other)
}

// Close with many waiters parked on different names.
func TestCloseWithManyNamesParked(t *testing.T) {
	const n = 8000
	s := redistest.Run(t, redistest.Options{})
	other := testkit.Open(t, s.Addr())
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		fs[i] = other.Lock(testkit.Numbered("a", i)).AcquireAsync(testkit.Limited(t))
	}
	_, err := engine.AllLeases(fs...).Await(testkit.Limited(t))
	require.NoError(t, err)
	e := testkit.Open(t, s.Addr())
	waiting := make([]*engine.Future[*engine.Lease], n)
	for i := range waiting {
		waiting[i] = e.Lock(testkit.Numbered("a", i)).AcquireAsync(testkit.Limited(t))
	}
	testkit.Eventually(t, "all wait", func() bool { return e.Stats().Waits == n })
	testkit.Eventually(t, "all listen", func() bool { return e.Stats().Nodes[0].Subscriptions.Confirmed == n }) // whatever woke them
	require.NoError(t, e.Close(testkit.Limited(t)))
	done := 0
	for _, f := range waiting {
		if _, _, ok := f.Result(); ok {
			done++
		}
	}
	require.Equal(t, n, done)
}
