package wait_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestMaxWaitEndsInHeldErrorWithTheRemainingTime(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)

	// measure runs an acquire and wants it refused when MaxWait is over.
	measure := func(t *testing.T, name string, left time.Duration) {
		t.Helper()
		start := time.Now()
		_, err := e.Lock(name, engine.MaxWait(limit)).Acquire(context.Background())
		took := time.Since(start)
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, engine.ErrHeld)
		require.True(t, engine.SafeToRetry(err))
		require.Equal(t, name, held.Name)
		require.GreaterOrEqual(t, took, limit, "not before the time is over")
		require.Less(t, testkit.Ran(start), limit+testkit.Soon)
		if left < 0 {
			require.Negative(t, held.Remaining)
			require.ErrorContains(t, err, "no expiry")
			return
		}
		require.InDelta(t, (left - limit).Seconds(), held.Remaining.Seconds(), 0.9, "what is left of the holder's lease")
	}
	t.Run("ForAForeignHolder", func(t *testing.T) {
		foreign.Lock("foreign", 10*time.Second)
		measure(t, "foreign", 10*time.Second)
	})
	t.Run("BehindALocalHolder", func(t *testing.T) {
		testkit.Acquire(t, e.Lock("local", engine.FixedLease(10*time.Second)))
		measure(t, "local", 10*time.Second)
	})
	t.Run("ForAKeyWithoutExpiry", func(t *testing.T) {
		foreign.Do("HSET", "immortal", foreign.Field, "1")
		measure(t, "immortal", -1)
	})
	t.Run("ForAnAsyncAcquireToo", func(t *testing.T) {
		start := time.Now()
		f := e.Lock("foreign", engine.MaxWait(limit)).AcquireAsync(context.Background())
		require.ErrorIs(t, testkit.GetError(t, f), engine.ErrHeld)
		require.InDelta(t, limit.Seconds(), time.Since(start).Seconds(), testkit.Soon.Seconds())
	})
	require.Zero(t, e.Stats().Waiting)
}

// The end of an acquire's ctx is the caller's word: wherever the acquire is, the future completes at
// once and the engine cleans up behind it.
func TestAsyncAcquireCompletesAtOnceWhenItsContextEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		// begin brings the op called "name" to the place in question.
		begin func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease]
		after func(s *redistest.Server, p *faultproxy.Proxy)
	}{
		{name: "WhileParkedBehindAForeignHolder", begin: func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			testkit.NewForeign(t, s).Lock("name", time.Minute)
			f := e.Lock("name").AcquireAsync(ctx)
			testkit.Parked(t, s, "name", 1, 1, e)
			return f
		}},
		{name: "WhileQueuedBehindALocalHolder", begin: func(t *testing.T, _ *redistest.Server, _ *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			testkit.Acquire(t, e.Lock("name"))
			return e.Lock("name").AcquireAsync(ctx)
		}},
		{name: "WhileQueuedBehindAnotherWaiter", begin: func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			testkit.NewForeign(t, s).Lock("name", time.Minute)
			e.Lock("name").AcquireAsync(context.Background())
			testkit.Parked(t, s, "name", 1, 1, e)
			return e.Lock("name").AcquireAsync(ctx)
		}},
		{name: "WhileInFlightBehindAStoppedServer", begin: func(_ *testing.T, s *redistest.Server, _ *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			s.Pause()
			return e.Lock("name").AcquireAsync(ctx)
		}, after: func(s *redistest.Server, _ *faultproxy.Proxy) { s.Resume() }},
		{name: "WhileQueuedInTheLaneBehindAStoppedServer", begin: func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			s.Pause()
			for i := range 64 { // every lane is busy
				e.Lock(fmt.Sprint("other:", i)).AcquireAsync(context.Background())
			}
			testkit.Eventually(t, "the lanes have sent something", func() bool { return p.Count("EVALSHA") > 0 })
			return e.Lock("name").AcquireAsync(ctx)
		}, after: func(s *redistest.Server, _ *faultproxy.Proxy) { s.Resume() }},
		{name: "WhileTheLaneDialsAServerThatSwallowsConnections", begin: func(t *testing.T, _ *redistest.Server, p *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			p.Pause()
			p.CutAll()
			for i := range 64 { // every lane meets the cut, then dials
				e.Lock(fmt.Sprint("before:", i)).AcquireAsync(context.Background())
			}
			testkit.Eventually(t, "the lanes are busy dialling", func() bool {
				for i := range 64 {
					e.Lock(fmt.Sprint("behind:", i)).AcquireAsync(context.Background())
				}
				return e.Stats().Nodes[0].Queued >= 64
			})
			return e.Lock("name").AcquireAsync(ctx)
		}, after: func(_ *redistest.Server, p *faultproxy.Proxy) { p.Resume() }},
		{name: "WhileTheReleaseBeforeItIsRepeated", begin: func(t *testing.T, _ *redistest.Server, p *faultproxy.Proxy, e *engine.Engine, ctx context.Context) *engine.Future[*engine.Lease] {
			ls := testkit.Acquire(t, e.Lock("name"))
			before := e.Lock("name").AcquireAsync(context.Background())
			p.RefuseNew(true)
			p.CutAll()
			release := ls.ReleaseAsync()
			require.True(t, before.Cancel())
			for range 3 { // let it fail a few times, so that its pauses are long
				refused := p.Stats().Refused
				testkit.Eventually(t, "the release is tried again", func() bool { return p.Stats().Refused > refused })
			}
			testkit.Pending(t, release)
			return e.Lock("name").AcquireAsync(ctx)
		}, after: func(_ *redistest.Server, p *faultproxy.Proxy) { p.RefuseNew(false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.OpenChecked(t, p.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = true })
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f := c.begin(t, s, p, e, ctx)
			testkit.Pending(t, f)
			cancel()
			testkit.Within(t, f.Done(), testkit.Soon, "the future completes when its ctx ends")
			_, err, _ := f.Result()
			if c.after != nil {
				c.after(s, p)
			}
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, engine.ErrCancelled, "it is ctx's own error")
			testkit.Eventually(t, "the op has left the queue", func() bool {
				info, err := e.Lock("name").Inspect(testkit.Limited(t))
				return err == nil && info.Waiters <= 1 && (!info.Mine || e.Stats().Held > 0)
			})
			if c.after != nil {
				testkit.Eventually(t, "nobody holds what nobody wants", func() bool { return s.Do(t, "EXISTS", "name") == "0" })
			}
		})
	}
}

func TestBlockingAcquireReturnsWhenItsContextEnds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	testkit.NewForeign(t, s).Lock("foreign", time.Minute)
	testkit.Acquire(t, e.Lock("local"))
	for _, name := range []string{"foreign", "local"} {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, err := e.Lock(name).Acquire(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.False(t, engine.SafeToRetry(err))
		require.InDelta(t, 0.1, time.Since(start).Seconds(), testkit.Soon.Seconds(), name)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	testkit.ResetCalls(t, s)
	_, err := e.Lock("never sent").Acquire(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.Lock("never sent").TryAcquire(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, testkit.GetError(t, e.Lock("never sent").AcquireAsync(ended)), context.Canceled)
	_, err = e.Lock("never sent").Inspect(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, testkit.Calls(t, s), "a ctx that had ended before sends nothing")
	require.Zero(t, e.Stats().Waiting)
}

func TestBlockingAcquireBehindAStoppedServerReturnsWhenItsContextEnds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := e.Lock("name").Acquire(ctx)
	took := testkit.Ran(start)
	s.Resume()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, took, 100*time.Millisecond+testkit.Soon)
	testkit.Eventually(t, "the grant that came too late was given back", func() bool {
		return e.Stats().Names == 0 && s.Do(t, "EXISTS", "name") == "0"
	})
}

// The end of ctx and a grant meet at every moment of the round trip. A blocking Acquire has one of
// two results: the lease, which is real, or ctx's error, and then nobody holds the lock. It waits for another engine's
// release, so that its ctx is watched when both come: that of an acquire that is just sent is looked at later.
func TestC039_BlockingAcquireReturnsTheLeaseIfItWasGrantedTogetherWithTheEndOfItsContext(t *testing.T) {
	const rounds = 200
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	granted, ended := 0, 0
	for i := range rounds {
		later := 25 * time.Microsecond << (i % 9) // up to 6.4 ms: from before the message to long after the grant
		l := e.Lock(fmt.Sprint("name:", i))
		theirs := testkit.Acquire(t, other.Lock(l.Name()))
		ctx, cancel := context.WithCancel(context.Background())
		before := e.Stats().WokenBySubscribe
		var wg sync.WaitGroup
		wg.Go(func() {
			testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > before })
			given := theirs.ReleaseAsync()
			for begin := time.Now(); time.Since(begin) < later; {
			}
			cancel()
			if _, err := given.Await(testkit.Limited(t)); err != nil {
				t.Errorf("release: %v", err)
			}
		})
		ls, err := l.Acquire(ctx)
		wg.Wait()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, ls)
			ended++
			continue
		}
		granted++
		require.False(t, ls.Lost())
		require.Equal(t, "1", s.Do(t, "HGET", l.Name(), ls.OwnerID()))
		testkit.Release(t, ls)
	}
	require.NotZero(t, granted, "no grant was ever in time")
	require.NotZero(t, ended, "no end of ctx was ever in time")
	testkit.Eventually(t, "what was granted too late is given back", func() bool { return e.Stats().Names == 0 })
	testkit.NoKeys(t, s)
	require.Zero(t, e.Stats().Held)
}

// The same race for futures, decided by Cancel: it says true and the result is ErrCancelled, or it
// says false and there is a lease.
func TestC039_CancelAndGrantDecideWithOneResult(t *testing.T) {
	rounds := 8000
	if testkit.Race {
		rounds = 4000
	}
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	var granted, cancelled atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range rounds / 8 {
				f := e.Lock(fmt.Sprintf("name:%d:%d", g, i%64)).AcquireAsync(context.Background())
				if i%2 == 0 {
					for until := time.Now().Add(time.Duration(i%97) * 10 * time.Microsecond); time.Now().Before(until); {
					}
				} else {
					<-time.After(time.Duration(i%13) * 20 * time.Microsecond)
				}
				won := f.Cancel()
				ls, err := f.Await(context.Background())
				switch {
				case won && !errors.Is(err, engine.ErrCancelled), won && !errors.Is(err, context.Canceled):
					t.Errorf("Cancel said true, the result is %v", err)
				case won:
					cancelled.Add(1)
				case err != nil:
					t.Errorf("Cancel said false, the error is %v", err)
				default:
					granted.Add(1)
					if err := ls.Release(context.Background()); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.NotZero(t, granted.Load())
	require.NotZero(t, cancelled.Load())
	testkit.NoKeys(t, s)
	testkit.Eventually(t, "the engine has forgotten every name", func() bool { return e.Stats().Names == 0 })
}

// An acquire that is taken back before it was sent leaves its turn to whoever came behind it. An Inspect
// of the same name that is not answered keeps the lane, so that the acquire is not sent.
func TestQueuedAcquireThatIsCancelledLeavesTheTurnToTheNext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	held := p.Hold(testkit.ScriptCall("inspect"), 1)
	looking := e.Lock("a").InspectAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the lane is busy")
	first := e.Lock("a").AcquireAsync(testkit.Limited(t))
	require.True(t, first.Cancel())
	second := e.Lock("a").AcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	_, err := looking.Await(testkit.Limited(t))
	require.NoError(t, err)
	ls, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.RequireHeldOnce(t, s, ls)
	require.EqualValues(t, 1, e.Stats().Grants, "the first one was never sent")
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}
