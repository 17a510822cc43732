package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// begin starts an acquire in the background.
func begin(tb testing.TB, l *engine.Lock) *engine.Future[*engine.Lease] {
	tb.Helper()
	return l.AcquireAsync(testkit.Limited(tb))
}

// releaseIt lets the next one in.
func releaseIt(ls *engine.Lease, err error) {
	if err == nil {
		ls.ReleaseAsync()
	}
}

func TestStart(t *testing.T) {
	t.Run("IsARealEngineOnTheWire", func(t *testing.T) {
		srv := enginetest.Start(t)
		require.Same(t, srv.Engine(), srv.Engine())
		require.False(t, srv.Held("name"))
		require.Empty(t, srv.Owner("name"))

		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		require.True(t, srv.Held("name"))
		require.Equal(t, ls.OwnerID(), srv.Owner("name"))
		_, err := srv.NewEngine().Lock("name").TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)

		require.NoError(t, ls.Release(testkit.Limited(t)))
		require.False(t, srv.Held("name"))
	})
	t.Run("EnginesContend", func(t *testing.T) {
		srv := enginetest.Start(t)
		var inside, violations atomic.Int32
		var wg sync.WaitGroup
		ctx := testkit.Limited(t)
		for range 3 {
			l := srv.NewEngine().Lock("hot")
			for range 4 {
				wg.Go(func() {
					for range 5 {
						if err := l.Do(ctx, func(context.Context) error {
							if inside.Add(1) != 1 {
								violations.Add(1)
							}
							runtime.Gosched()
							inside.Add(-1)
							return nil
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		require.Zero(t, violations.Load())
		require.False(t, srv.Held("hot"))
	})
	t.Run("FixedLeasesEndByThemselvesAndNoSoonerThanTheyAreTrusted", func(t *testing.T) {
		srv := enginetest.Start(t)
		var leases []*engine.Lease
		for begun := time.Now(); time.Since(begun) < engine.MinFixedLease*3/4; {
			name := fmt.Sprint("name", len(leases))
			leases = append(leases, testkit.Acquire(t, srv.Engine().Lock(name, engine.FixedLease(engine.MinFixedLease))))
		}
		for _, ls := range leases {
			for {
				held := srv.Held(ls.Name())
				if ls.Lost() {
					break
				}
				require.True(t, held, "the server let go while the lease was trusted")
				runtime.Gosched()
			}
		}
		require.Eventually(t, func() bool { return !srv.Held(leases[len(leases)-1].Name()) }, testkit.TooLong, time.Millisecond)
	})
	t.Run("TheWatchdogKeepsALock", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name", engine.WatchdogLease(time.Second)))
		first := ls.Deadline()
		require.Eventually(t, func() bool { return ls.Deadline().Sub(first) > 100*time.Millisecond }, testkit.TooLong, 10*time.Millisecond)
		require.False(t, ls.Lost())
		require.True(t, srv.Held("name"))
		require.NoError(t, ls.Release(testkit.Limited(t)))
	})
	t.Run("PrefixIsPartOfTheName", func(t *testing.T) {
		srv := enginetest.Start(t)
		e := srv.NewEngine(func(c *engine.Config) { c.Prefix = "app:" })
		ls := testkit.Acquire(t, e.Lock("name"))
		require.True(t, srv.Held("app:name"))
		require.False(t, srv.Held("name"))
		srv.Lose("app:name")
		require.True(t, ls.Lost())
	})
	t.Run("AnEngineOfOnesOwnConnectsByAddr", func(t *testing.T) {
		srv := enginetest.Start(t)
		e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{srv.Addr()}})
		require.NoError(t, err)
		ls := testkit.Acquire(t, e.Lock("name"))
		srv.Steal("name") // nobody can tell it
		require.False(t, ls.Lost())
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		require.NoError(t, e.Close(testkit.Limited(t)))
	})
	t.Run("EnginesClosedByTheTestAreNoTrouble", func(t *testing.T) {
		srv := enginetest.Start(t)
		e := srv.NewEngine()
		testkit.Acquire(t, e.Lock("name"))
		require.NoError(t, e.Close(testkit.Limited(t)))
		require.False(t, srv.Held("name"))
		srv.Steal("name")
		srv.Advance(enginetest.ForeignLease)
		srv.Down()
		srv.Up()
	})
}

func TestLose(t *testing.T) {
	t.Run("TheHolderIsToldAtOnce", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		ctx := ls.Context()
		srv.Lose("name")
		require.True(t, ls.Lost())
		require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
		require.False(t, srv.Held("name"))
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	})
	t.Run("WaitersAreWoken", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		here, there := begin(t, srv.Engine().Lock("name")), begin(t, srv.NewEngine().Lock("name"))
		srv.AwaitWaiters("name", 2)
		srv.Lose("name")
		require.True(t, ls.Lost())
		for _, f := range []*engine.Future[*engine.Lease]{here, there} {
			f.OnComplete(releaseIt)
		}
		for _, f := range []*engine.Future[*engine.Lease]{here, there} {
			_, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
		}
	})
	t.Run("WhateverIsRefused", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		srv.Refuse("LOADING Redis is loading the dataset in memory")
		srv.Lose("name")
		require.True(t, ls.Lost())
	})
	t.Run("WhileTheServerIsDownTheHolderLearnsAfterUp", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name", engine.WatchdogLease(time.Second)))
		srv.Down()
		srv.Lose("name")
		require.False(t, ls.Lost())
		srv.Up()
		<-ls.Context().Done()
		require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
	})
	t.Run("AFreeLockFailsTheTest", func(t *testing.T) {
		tb := &fakeTB{}
		srv := enginetest.Start(tb)
		defer tb.end()
		srv.Lose("name")
		require.Contains(t, tb.fatal, `"name"`)
	})
}

func TestSteal(t *testing.T) {
	t.Run("AFreeLock", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Steal("name")
		require.Equal(t, enginetest.ForeignOwner, srv.Owner("name"))
		_, err := srv.Engine().Lock("name").TryAcquire(testkit.Limited(t))
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.Greater(t, held.Remaining, enginetest.ForeignLease/2)
		info, err := srv.Engine().Lock("name").Inspect(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, enginetest.ForeignOwner, info.OwnerID)
		require.False(t, info.Mine)
	})
	t.Run("AHeldLockAndNobodyGetsInBetween", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		here, there := begin(t, srv.Engine().Lock("name")), begin(t, srv.NewEngine().Lock("name"))
		srv.AwaitWaiters("name", 2)
		srv.Steal("name")
		require.True(t, ls.Lost())
		require.Equal(t, enginetest.ForeignOwner, srv.Owner("name"))
		for _, f := range []*engine.Future[*engine.Lease]{here, there} {
			_, _, done := f.Result()
			require.False(t, done)
		}
		srv.Free("name")
		for _, f := range []*engine.Future[*engine.Lease]{here, there} {
			f.OnComplete(releaseIt)
		}
		for _, f := range []*engine.Future[*engine.Lease]{here, there} {
			_, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
		}
	})
	t.Run("FromOneWhoTakesAndReleasesAllTheTime", func(t *testing.T) {
		srv := enginetest.Start(t)
		e := srv.Engine()
		ctx := testkit.Limited(t)
		for i := range 100 {
			name := fmt.Sprint("name", i)
			l := e.Lock(name)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					ls, err := l.TryAcquire(ctx)
					if err != nil {
						return
					}
					_ = ls.Release(ctx)
				}
			}()
			srv.Steal(name)
			require.Equal(t, enginetest.ForeignOwner, srv.Owner(name))
			require.Empty(t, e.Held(), "believes to hold a stolen lock")
			<-done
		}
	})
	t.Run("WhileTheServerIsDown", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name", engine.WatchdogLease(time.Second)))
		srv.Down()
		srv.Steal("name")
		srv.Up()
		<-ls.Context().Done()
		require.Equal(t, enginetest.ForeignOwner, srv.Owner("name"))
	})
	t.Run("FreeOfAnothersLockFailsTheTest", func(t *testing.T) {
		tb := &fakeTB{}
		srv := enginetest.Start(tb)
		defer tb.end()
		testkit.Acquire(t, srv.Engine().Lock("name"))
		srv.Free("name")
		require.Contains(t, tb.fatal, "not by ForeignOwner")
	})
}

func TestAdvance(t *testing.T) {
	t.Run("EndsForeignLeasesAndWakesTheirWaiters", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Steal("name")
		f := begin(t, srv.Engine().Lock("name"))
		srv.AwaitWaiters("name", 1)
		srv.Advance(enginetest.ForeignLease / 2)
		require.Equal(t, enginetest.ForeignOwner, srv.Owner("name"))
		srv.Advance(enginetest.ForeignLease / 2)
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, ls.OwnerID(), srv.Owner("name"))
	})
	t.Run("LeavesWhatTheEnginesHold", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name"))
		srv.Advance(24 * time.Hour)
		require.Equal(t, ls.OwnerID(), srv.Owner("name"))
		require.NoError(t, ls.Release(testkit.Limited(t)))
	})
	t.Run("EndsWhatACrashedProcessLeft", func(t *testing.T) {
		srv := enginetest.Start(t)
		crashed := srv.NewEngine(func(c *engine.Config) { c.KeepOnClose = true })
		testkit.Acquire(t, crashed.Lock("name"))
		require.NoError(t, crashed.Close(testkit.Limited(t)))
		require.True(t, srv.Held("name"))
		srv.Advance(engine.DefaultLease)
		require.False(t, srv.Held("name"))
	})
}

func TestRefuse(t *testing.T) {
	for text, want := range map[string]struct {
		class            engine.Class
		release, inspect bool // go on working
	}{
		"OOM command not allowed when used memory > 'maxmemory'.":         {engine.ClassOOM, true, true},
		"READONLY You can't write against a read only replica.":           {engine.ClassReadOnly, false, true},
		"MISCONF Redis is configured to save RDB snapshots":               {engine.ClassMisconf, false, true},
		"NOREPLICAS Not enough good replicas to write.":                   {engine.ClassNoReplicas, false, true},
		"NOPERM User app has no permissions to run the 'evalsha' command": {engine.ClassNoPerm, false, false},
	} {
		t.Run(want.class.String(), func(t *testing.T) {
			srv := enginetest.Start(t)
			e := srv.Engine()
			before := testkit.Acquire(t, e.Lock("before"))
			srv.Refuse(text)

			_, err := e.Lock("name").TryAcquire(testkit.Limited(t))
			var server *engine.ServerError
			require.ErrorAs(t, err, &server)
			require.Equal(t, want.class, server.Class)
			require.Equal(t, text, server.Text)
			require.False(t, srv.Held("name"))
			_, err = e.Lock("before").Inspect(testkit.Limited(t))
			require.Equal(t, want.inspect, err == nil)
			if want.release {
				require.NoError(t, before.Release(testkit.Limited(t)))
			}

			srv.Accept()
			require.NoError(t, testkit.Acquire(t, e.Lock("name")).Release(testkit.Limited(t)))
		})
	}
	t.Run("AnAcquireGoesOnWhenItEnds", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Engine()
		srv.Refuse("READONLY You can't write against a read only replica.")
		f := begin(t, srv.Engine().Lock("name"))
		srv.AwaitWaiters("name", 1)
		srv.Accept()
		_, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
	})
	t.Run("NoErrorFailsTheTest", func(t *testing.T) {
		tb := &fakeTB{}
		srv := enginetest.Start(tb)
		defer tb.end()
		srv.Refuse("")
		require.Contains(t, tb.fatal, "not an error")
	})
}

func TestDown(t *testing.T) {
	t.Run("NothingIsAnsweredUntilUp", func(t *testing.T) {
		srv := enginetest.Start(t)
		e := srv.Engine()
		held := testkit.Acquire(t, e.Lock("held"))
		srv.Down()
		short, cancel := context.WithTimeout(testkit.Limited(t), 100*time.Millisecond)
		defer cancel()
		_, err := e.Lock("name").TryAcquire(short)
		if !errors.Is(err, context.DeadlineExceeded) { // or it has noticed already, and says so at once
			var server *engine.ServerError
			require.ErrorAs(t, err, &server)
			require.Equal(t, engine.ClassUnreachable, server.Class)
		}
		require.Error(t, e.Ping(testkit.Limited(t)))
		require.True(t, srv.Held("held"), "keys stay")
		srv.Up()
		ls, err := e.Lock("name").TryAcquire(testkit.Limited(t))
		require.NoError(t, err)
		require.NoError(t, ls.Release(testkit.Limited(t)))
		require.NoError(t, held.Release(testkit.Limited(t)))
	})
	t.Run("AHolderLosesItsLeaseInTime", func(t *testing.T) {
		srv := enginetest.Start(t)
		ls := testkit.Acquire(t, srv.Engine().Lock("name", engine.WatchdogLease(time.Second)))
		srv.Down()
		<-ls.Context().Done()
		require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
		srv.Up()
	})
	t.Run("AWaiterIsServedAfterUp", func(t *testing.T) {
		srv := enginetest.Start(t)
		srv.Steal("name")
		f := begin(t, srv.Engine().Lock("name"))
		srv.AwaitWaiters("name", 1)
		srv.Down()
		srv.Free("name")
		srv.Up()
		_, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
	})
	t.Run("UpReconnectsAnIdleEngine", func(t *testing.T) {
		srv := enginetest.Start(t)
		e := srv.Engine()
		for range 3 {
			srv.Down()
			srv.Up()
			ls, err := e.Lock("name").TryAcquire(testkit.Limited(t))
			require.NoError(t, err)
			require.NoError(t, ls.Release(testkit.Limited(t)))
		}
	})
	t.Run("CleanupEndsIt", func(t *testing.T) {
		srv := enginetest.Start(t)
		testkit.Acquire(t, srv.Engine().Lock("name"))
		srv.Down()
	})
}

func TestCleanupLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	tb := &fakeTB{}
	srv := enginetest.Start(tb)
	testkit.Acquire(t, srv.Engine().Lock("name"))
	begin(t, srv.NewEngine().Lock("name"))
	srv.AwaitWaiters("name", 1)
	tb.end()
	require.Empty(t, tb.fatal)
	goleak.VerifyNone(t, before)
}

// BenchmarkStart is what a test pays for its server and engine.
func BenchmarkStart(b *testing.B) {
	for range b.N {
		tb := &fakeTB{}
		enginetest.Start(tb).Engine()
		tb.end()
	}
}

// fakeTB is a test of the kind that goes on after Fatalf, with its end in our hands.
type fakeTB struct {
	fatal    string
	cleanups []func()
}

func (f *fakeTB) Helper()                           {}
func (f *fakeTB) Cleanup(fn func())                 { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Fatalf(format string, args ...any) { f.fatal = fmt.Sprintf(format, args...) }

func (f *fakeTB) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}
