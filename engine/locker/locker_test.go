package locker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/engine/locker"
)

// tooLong is how long a test waits for what must happen.
const tooLong = 20 * time.Second

var _ sync.Locker = (*locker.Locker)(nil)

func TestLock(t *testing.T) {
	t.Run("ExcludesGoroutinesAndProcesses", func(t *testing.T) {
		srv := enginetest.Start(t)
		shared := locker.New(srv.Engine().Lock("name"))
		other := locker.New(srv.NewEngine().Lock("name"))
		var count atomic.Int64 // of all; read and written apart
		plain := 0             // of those that share a Locker: for the race detector
		var wg sync.WaitGroup
		for _, l := range []*locker.Locker{shared, shared, shared, other} {
			wg.Go(func() {
				for range 10 {
					l.Lock()
					was := count.Load()
					if l == shared {
						plain++
					}
					runtime.Gosched()
					count.Store(was + 1)
					l.Unlock()
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(40), count.Load())
		require.Equal(t, 30, plain)
		require.False(t, srv.Held("name"))
	})
	t.Run("WaitsForWhoOfOneOwnerHasLostIt", func(t *testing.T) {
		srv := enginetest.Start(t)
		refused := make(chan struct{}, 100)
		eng := srv.NewEngine(func(cfg *engine.Config) {
			cfg.Trace = func(_ context.Context, s engine.Span) {
				if s.Kind == engine.SpanAcquire && errors.Is(s.Err, engine.ErrLost) {
					refused <- struct{}{}
				}
			}
		})
		l := locker.New(eng.Lock("name", engine.As(engine.NewOwner())))
		l.Lock()
		ended := l.Context().Done()
		srv.Lose("name")
		<-ended
		err := l.LockContext(t.Context())
		require.ErrorIs(t, err, engine.ErrLost)
		require.False(t, engine.SafeToRetry(err), "until it was unlocked")
		<-refused
		require.False(t, l.TryLock())
		<-refused
		done := inBackground(l.Lock)
		<-refused
		l.Unlock()
		await(t, done)
		require.True(t, srv.Held("name"))
		l.Unlock()
	})
	t.Run("ExcludesGoroutinesOfOneOwnerToo", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name", engine.As(engine.NewOwner())))
		l.Lock()
		require.False(t, l.TryLock())
		count := 1
		done := inBackground(func() {
			l.Lock()
			defer l.Unlock()
			count++
		})
		l.Unlock()
		await(t, done)
		require.Equal(t, 2, count)
		require.Eventually(t, func() bool { return !srv.Held("name") }, tooLong, time.Millisecond)
	})
	t.Run("UnlockedItIsFreeForOthers", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		l.Lock()
		require.True(t, srv.Held("name"))
		l.Unlock()
		require.False(t, srv.Held("name"))
	})
	t.Run("WaitsThroughARefusal", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		srv.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
		done := inBackground(l.Lock)
		require.Eventually(t, func() bool { return srv.Engine().Stats().Errors >= 3 }, tooLong, time.Millisecond)
		srv.Accept()
		await(t, done)
		l.Unlock()
	})
	t.Run("WaitsThroughAnOutage", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		srv.Down()
		done := inBackground(l.Lock)
		srv.Up()
		await(t, done)
		l.Unlock()
	})
	t.Run("WaitsBeyondMaxWait", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Steal("name")
		l := locker.New(srv.Engine().Lock("name", engine.MaxWait(200*time.Millisecond)))
		require.ErrorIs(t, l.LockContext(t.Context()), engine.ErrHeld)
		before := srv.Engine().Stats().Waits
		done := inBackground(l.Lock)
		require.Eventually(t, func() bool { return srv.Engine().Stats().Waits >= before+2 }, tooLong, time.Millisecond)
		srv.Free("name")
		await(t, done)
		l.Unlock()
	})
	t.Run("PanicsWhereWaitingIsOfNoUse", func(t *testing.T) {
		srv := enginetest.Start(t)
		bad := locker.New(srv.Engine().Lock(strings.Repeat("x", 1<<20)))
		require.ErrorIs(t, panicked(bad.Lock), engine.ErrName)
		require.ErrorIs(t, panicked(func() { bad.TryLock() }), engine.ErrName)
		require.ErrorIs(t, bad.LockContext(t.Context()), engine.ErrName)

		e := srv.NewEngine()
		closed := locker.New(e.Lock("name"))
		require.NoError(t, e.Close(t.Context()))
		require.ErrorIs(t, panicked(closed.Lock), engine.ErrClosed)
	})
}

func TestLockContext(t *testing.T) {
	t.Run("EndsWithItsContext", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Steal("name")
		l := locker.New(srv.Engine().Lock("name"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.LockContext(ctx) }()
		srv.AwaitWaiters("name", 1)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.ErrorIs(t, panicked(l.Unlock), locker.ErrUnlocked)
	})
	t.Run("BoundsTheWaitAloneNotTheHold", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, l.LockContext(ctx))
		cancel()
		require.NoError(t, l.Context().Err())
		require.False(t, l.Lost())
		l.Unlock()
	})
}

func TestTryLock(t *testing.T) {
	srv := enginetest.Start(t)
	l, other := locker.New(srv.Engine().Lock("name")), locker.New(srv.NewEngine().Lock("name"))
	require.True(t, l.TryLock())
	require.False(t, l.TryLock(), "held by this Locker")
	require.False(t, other.TryLock(), "held by another process")
	l.Unlock()
	require.True(t, other.TryLock())
	other.Unlock()
	srv.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
	require.False(t, l.TryLock(), "refused for the time being")
	srv.Refuse("NOPERM User app has no permissions to run the 'evalsha' command")
	var server *engine.ServerError
	require.ErrorAs(t, panicked(func() { l.TryLock() }), &server)
}

func TestUnlock(t *testing.T) {
	t.Run("OfAnUnlockedOnePanics", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		require.ErrorIs(t, panicked(l.Unlock), locker.ErrUnlocked)
		require.ErrorIs(t, panicked(func() { l.Context() }), locker.ErrUnlocked)
		l.Lock()
		require.NotPanics(t, l.Unlock)
		require.ErrorIs(t, panicked(l.Unlock), locker.ErrUnlocked)
		l.Lock()
		require.NotPanics(t, l.Unlock)
	})
	t.Run("ByAnotherGoroutine", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		l.Lock()
		await(t, inBackground(l.Unlock))
		require.False(t, srv.Held("name"))
	})
	t.Run("OfALockThatIsLostDoesNotFreeTheNextHolder", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		l.Lock()
		srv.Steal("name")
		l.Unlock()
		require.Equal(t, enginetest.ForeignOwner, srv.Owner("name"))
	})
}

func TestLost(t *testing.T) {
	t.Run("IsTold", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		require.False(t, l.Lost())
		l.Lock()
		ctx := l.Context()
		require.False(t, l.Lost())
		srv.Lose("name")
		require.True(t, l.Lost())
		require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
		l.Unlock()
		require.False(t, l.Lost(), "nobody is inside")
	})
	t.Run("TheGoroutinesOfThisProcessAreKeptOutUntilUnlock", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		l.Lock()
		done := inBackground(l.Lock)
		srv.AwaitWaiters("name", 1)
		srv.Lose("name")
		srv.AwaitHeld("name") // the second one has a lease, and waits for the first to leave
		require.True(t, l.Lost())
		require.False(t, l.TryLock())
		ctx, cancel := context.WithCancel(t.Context())
		third := make(chan error, 1)
		go func() { third <- l.LockContext(ctx) }()
		srv.AwaitWaiters("name", 1)
		cancel()
		require.ErrorIs(t, <-third, context.Canceled)
		select {
		case <-done:
			require.FailNow(t, "two inside")
		default:
		}
		l.Unlock()
		await(t, done)
		require.False(t, l.Lost())
		l.Unlock()
		require.False(t, srv.Held("name"))
	})
	t.Run("ALeaseLostBeforeItsTurnIsTakenAnew", func(t *testing.T) {
		srv := enginetest.Start(t)
		l := locker.New(srv.Engine().Lock("name"))
		l.Lock()
		done := inBackground(l.Lock)
		srv.AwaitWaiters("name", 1)
		srv.Lose("name")
		srv.AwaitHeld("name")
		srv.Steal("name") // from the second one, which is not inside yet
		l.Unlock()
		srv.AwaitWaiters("name", 1)
		srv.Free("name")
		await(t, done)
		require.False(t, l.Lost())
		l.Unlock()
	})
}

func inBackground(fn func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	return done
}

func await(tb testing.TB, done <-chan struct{}) {
	tb.Helper()
	timer := time.NewTimer(tooLong)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		require.FailNow(tb, "waited in vain")
	}
}

// panicked returns the error that fn panics with.
func panicked(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err, _ = r.(error)
			return
		}
		err = errors.New("did not panic")
	}()
	fn()
	return nil
}
