package api_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

type apiKey struct{}

// apiEnded checks a lease context that must have ended, and its children.
func apiEnded(t testing.TB, ctx, child context.Context, cause error) { //nolint:revive // two contexts: neither is a parameter to pass on
	t.Helper()
	select {
	case <-ctx.Done():
	default:
		require.FailNow(t, "it has not ended")
	}
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(ctx), cause)
	testkit.Within(t, child.Done(), testkit.Soon, "children end, too")
	require.ErrorIs(t, child.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(child), cause)
}

func TestLeaseContextHasTheValuesOfTheAcquireButNotItsEnd(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	base := context.WithValue(context.Background(), apiKey{}, "value")
	acquire, cancel := context.WithTimeout(base, time.Minute)
	ls, err := e.Lock("name").Acquire(acquire)
	require.NoError(t, err)
	ctx := ls.Context()
	cancel()
	require.NoError(t, ctx.Err(), "the end of the acquire's ctx is not the lease's")
	require.Equal(t, "value", ctx.Value(apiKey{}))
	_, has := ctx.Deadline()
	require.False(t, has, "a deadline that moves must not be frozen")
	child, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()
	require.Equal(t, "value", child.Value(apiKey{}))
	other, stopOther := context.WithCancel(ctx)
	require.Same(t, ctx, ls.Context(), "the same for everybody")
	stopOther()
	require.Error(t, other.Err())
	require.NoError(t, ctx.Err(), "the end of a child is the child's")

	require.False(t, ls.Lost())
	require.InDelta(t, time.Until(ls.Deadline()).Seconds(), engine.DefaultLease.Seconds(), 2)
	require.Equal(t, "name", ls.Name())
	testkit.Release(t, ls)
	apiEnded(t, ctx, child, engine.ErrReleased)
	require.NotErrorIs(t, context.Cause(ctx), engine.ErrLost)
	require.False(t, ls.Lost(), "released is not lost")
}

func TestLeaseContextMadeAfterTheReleaseHasEnded(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	testkit.Release(t, ls)
	ctx := ls.Context()
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	apiEnded(t, ctx, child, engine.ErrReleased)
}

func TestLeaseContextMadeAfterTheLossHasEnded(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(100*time.Millisecond)))
	testkit.Eventually(t, "it is lost", func() bool { return e.Stats().Lost == 1 })
	require.True(t, ls.Lost())
	ctx := ls.Context() // asked for the first time
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	apiEnded(t, ctx, child, engine.ErrLost)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost, "a release that comes too late does not change the cause")
}

// A hold passed on to the next waiter of the engine is a lease of its own: values, context, handle.
func TestEachOfSeveralHoldersInTurnHasAContextOfItsOwn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	for _, off := range []bool{false, true} {
		e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.NoHandOff = off })
		var fs []*engine.Future[*engine.Lease]
		for i := range 10 {
			fs = append(fs, e.Lock("name").AcquireAsync(context.WithValue(context.Background(), apiKey{}, i)))
		}
		for i, f := range fs {
			ls := testkit.Get(t, f)
			ctx := ls.Context()
			require.Equal(t, i, ctx.Value(apiKey{}))
			require.NoError(t, ctx.Err())
			require.Equal(t, "1", s.Do(t, "HGET", "name", ls.OwnerID()), "whoever holds it, the field is there")
			if i > 0 {
				before := testkit.Get(t, fs[i-1])
				require.ErrorIs(t, context.Cause(before.Context()), engine.ErrReleased)
				require.False(t, before.Lost())
				require.ErrorIs(t, before.Release(testkit.Limited(t)), engine.ErrNotHeld, "a late second release of the holder before")
				require.NoError(t, ctx.Err())
				require.False(t, ls.Lost())
			}
			testkit.Release(t, ls)
			require.ErrorIs(t, context.Cause(ctx), engine.ErrReleased)
		}
		require.Empty(t, s.Keys(t))
	}
}

// Each way in which a lease is lost, with the context made before and after.
func TestLossIsToldByLostByTheContextAndByRelease(t *testing.T) {
	for _, c := range []struct {
		name   string
		why    string
		option engine.Option
		lose   func(t *testing.T, s *redistest.Server, e *engine.Engine)
		within time.Duration // of the loss
	}{
		{name: "AFixedLeaseLapses", why: "its lease ran out unrenewed", option: engine.FixedLease(200 * time.Millisecond), within: 200 * time.Millisecond},
		{name: "C007SomebodyDeletesTheKey", why: "the server says it is not ours", option: engine.WatchdogLease(time.Second), within: time.Second, lose: func(t *testing.T, s *redistest.Server, _ *engine.Engine) {
			s.Do(t, "DEL", "name")
		}},
		{name: "C008SomebodyElseStandsInItsPlace", why: "the server says it is not ours", option: engine.WatchdogLease(time.Second), within: time.Second, lose: func(t *testing.T, s *redistest.Server, _ *engine.Engine) {
			s.Do(t, "DEL", "name")
			testkit.NewForeign(t, s).Lock("name", time.Minute)
		}},
		{name: "AnotherTypeStandsInItsPlace", why: "another value stands in its place", option: engine.WatchdogLease(time.Second), within: time.Second, lose: func(t *testing.T, s *redistest.Server, _ *engine.Engine) {
			s.Do(t, "SET", "name", "text")
		}},
		{name: "ForceReleaseHere", why: "it was force-released", option: engine.WatchdogLease(time.Minute), within: 100 * time.Millisecond, lose: func(t *testing.T, _ *redistest.Server, e *engine.Engine) {
			was, err := e.Lock("name").ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, was)
		}},
		{name: "ForceReleaseElsewhere", why: "the server says it is not ours", option: engine.WatchdogLease(time.Second), within: time.Second, lose: func(t *testing.T, s *redistest.Server, _ *engine.Engine) {
			was, err := testkit.OpenChecked(t, s.Addr()).Lock("name").ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, was)
		}},
		{name: "TheServerForgetsEverything", why: "the server says it is not ours", option: engine.WatchdogLease(time.Second), within: time.Second, lose: func(t *testing.T, s *redistest.Server, _ *engine.Engine) {
			s.Do(t, "FLUSHALL")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			logger, log := testkit.Logger()
			e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
			ls := testkit.Acquire(t, e.Lock("name", c.option))
			late := testkit.Acquire(t, e.Lock("other", engine.FixedLease(100*time.Millisecond)))
			ctx := ls.Context()
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			require.False(t, ls.Lost())
			if c.lose != nil {
				c.lose(t, s, e)
			}
			testkit.Within(t, ctx.Done(), c.within+testkit.Soon, "the context ends")
			apiEnded(t, ctx, child, engine.ErrLost)
			require.True(t, ls.Lost())
			require.True(t, ls.Lost(), "it stays lost")
			if c.lose == nil {
				testkit.NoKeys(t, s) // the engine gives back what it does not believe in
			}
			before := s.Do(t, "TYPE", "name")
			err := ls.Release(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrLost)
			require.EqualError(t, err, `holdfast: "name": lease is lost: `+c.why)
			require.Equal(t, before, s.Do(t, "TYPE", "name"), "a late release touches nothing")
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld, "this handle is spent")
			testkit.Eventually(t, "the loss is logged", func() bool { return len(log.With("WARN", "lost", "name")) > 0 })

			testkit.Within(t, late.Context().Done(), testkit.TooLong, "it ends, too")
			require.ErrorIs(t, context.Cause(late.Context()), engine.ErrLost)
			require.EqualValues(t, 2, e.Stats().Lost)
			testkit.Eventually(t, "its name is free here, once its holder was told", func() bool { return e.Stats().Held == 0 })
		})
	}
}

// A loss that nobody knew of before the lease was given back is one all the same: counted, told of and logged. Nothing
// goes on for it.
func TestALossThatTheReleaseFinds(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(t *testing.T, s *redistest.Server)
		why  string
		told string
		kind bool // of the value there
	}{
		{
			"TheKeyIsGone", func(t *testing.T, s *redistest.Server) { s.Do(t, "DEL", "name") }, "the server says it is not ours",
			"the server says it is not ours", false,
		},
		{
			"AnotherTypeStandsInItsPlace", func(t *testing.T, s *redistest.Server) { s.Do(t, "SET", "name", "text") },
			"the name holds another kind of object: WRONGTYPE Operation against a key holding the wrong kind of value",
			"another value stands in its place", true,
		},
	} {
		for kind, lock := range map[string]func(e *engine.Engine) *engine.Lock{
			"Lock":   func(e *engine.Engine) *engine.Lock { return e.Lock("name") },
			"Spin":   func(e *engine.Engine) *engine.Lock { return e.Lock("name", engine.Spin(time.Millisecond, time.Second)) },
			"Fenced": func(e *engine.Engine) *engine.Lock { return e.FencedLock("name").Lock },
		} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := redistest.Run(t, redistest.Options{})
				logger, log := testkit.Logger()
				e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
				events := e.Events(8)
				ls := testkit.Acquire(t, lock(e))
				c.lose(t, s)
				before := s.Do(t, "TYPE", "name")
				err := ls.Release(testkit.Limited(t))
				require.ErrorIs(t, err, engine.ErrLost)
				require.Equal(t, c.kind, errors.Is(err, engine.ErrWrongKind))
				require.False(t, engine.SafeToRetry(err))
				require.Contains(t, err.Error(), `"name": lease is lost: `+c.why)
				require.True(t, ls.Lost())
				stats := e.Stats()
				require.EqualValues(t, []int64{1, 0, 0}, []int64{stats.Lost, stats.Releases, stats.Held})
				testkit.Eventually(t, "the loss is logged", func() bool { return len(log.With("WARN", "lost", c.told)) == 1 })
				require.Equal(t, before, s.Do(t, "TYPE", "name"), "nothing is touched")

				began := time.Now()
				require.NoError(t, e.Close(testkit.Limited(t)))
				require.Less(t, testkit.Ran(began), 3*time.Second, "nothing goes on for it")
				var kinds []engine.EventKind
				for ev := range events.C() {
					kinds = append(kinds, ev.Kind)
					if ev.Kind == engine.EventLost {
						require.Equal(t, c.told, ev.Cause)
					}
				}
				require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventReleased, engine.EventLost}, kinds)
			})
		}
	}
}

// A lease that was given back in time, and ran out while the server refused the release, nobody had any more: its caller
// is told, for nobody can say more, but it is no loss that anybody is to be woken for.
func TestALeaseThatRunsOutBehindItsReleaseIsNoLoss(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	var refused *faultproxy.Rule
	for _, c := range []struct {
		name          string
		trouble, calm func()
	}{
		{"Refused", func() {
			refused = p.Refuse(testkit.ScriptCall("release"), -1, "LOADING Redis is loading the dataset in memory")
		}, func() { refused.Remove() }},
		{"Slow", func() { p.Delay(300*time.Millisecond, 300*time.Millisecond) }, func() { p.Delay(0, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			logger, log := testkit.Logger()
			e := testkit.Open(t, p.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
			events := e.Events(8)
			ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(150*time.Millisecond)))
			c.trouble()
			require.False(t, ls.Lost())
			f := ls.ReleaseAsync()
			testkit.NoKeys(t, s)
			c.calm()
			_, err := f.Await(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrLost)
			require.Zero(t, e.Stats().Lost)
			require.NoError(t, e.Close(testkit.Limited(t)))
			require.Empty(t, log.With("WARN", "lost"))
			for ev := range events.C() {
				require.NotEqual(t, engine.EventLost, ev.Kind)
			}
		})
	}
}

// What is found in a lock's place by whoever enters it again, gives a part of it back or extends it is a loss at once.
func TestAnotherTypeInALocksPlaceIsALossForEveryCommand(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	for name, touch := range map[string]func(t *testing.T, e *engine.Engine, owner context.Context, ls *engine.Lease) error{
		"Enter": func(_ *testing.T, e *engine.Engine, owner context.Context, _ *engine.Lease) error {
			_, err := e.Lock("name", engine.FixedLease(time.Minute)).Acquire(owner)
			return err
		},
		"Leave": func(t *testing.T, _ *engine.Engine, _ context.Context, ls *engine.Lease) error {
			return ls.Release(testkit.Limited(t))
		},
		"Extend": func(t *testing.T, _ *engine.Engine, _ context.Context, ls *engine.Lease) error {
			return ls.Extend(testkit.Limited(t), time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := testkit.OpenChecked(t, s.Addr())
			owner := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
			lock := e.Lock("name", engine.FixedLease(time.Minute))
			first, err := lock.Acquire(owner)
			require.NoError(t, err)
			second, err := lock.Acquire(owner)
			require.NoError(t, err)
			s.Do(t, "SET", "name", "text")
			err = touch(t, e, owner, second)
			require.ErrorIs(t, err, engine.ErrLost)
			require.ErrorContains(t, err, "another value stands in its place")
			require.ErrorIs(t, err, engine.ErrWrongKind)
			require.True(t, first.Lost())
			testkit.Within(t, first.Context().Done(), testkit.Soon, "its context ends")
			require.EqualValues(t, 1, e.Stats().Lost)
			err = first.Release(testkit.Limited(t)) // of what is known to be lost by then
			require.ErrorIs(t, err, engine.ErrLost)
			require.ErrorIs(t, err, engine.ErrWrongKind)
			s.Do(t, "DEL", "name")
		})
	}
}

// P2: Err is not nil exactly when Done is closed, also at the very deadline. The clock decides, not
// the watchdog's tick.
// It runs alone: it fills a core, and wants many looks while each lease lasts.
func TestLeaseContextErrAndDoneAgreeAtEveryMoment(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for i := range 10 {
		ls := testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i), engine.FixedLease(100*time.Millisecond)))
		ctx := ls.Context()
		looks := 0
		for deadline := time.Now().Add(testkit.TooLong); ; looks++ {
			require.True(t, time.Now().Before(deadline), "the lease never ends")
			done := false
			select {
			case <-ctx.Done():
				done = true
			default:
			}
			lost := ls.Lost()
			err := ctx.Err()
			if done || lost {
				require.Error(t, err, "Done was closed (%v) or the lease lost (%v)", done, lost)
			}
			if err != nil {
				<-ctx.Done() // closed already, or this hangs
				require.True(t, ls.Lost())
				require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
				break
			}
			runtime.Gosched()
		}
		require.Greater(t, looks, 10)
	}
}

// The early signal of a loss comes before the server lets anybody else in.
func TestHolderIsToldBeforeAnybodyElseCanBeGranted(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	holder, other := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	for i := range 10 {
		name := fmt.Sprint("name:", i)
		ls := testkit.Acquire(t, holder.Lock(name, engine.FixedLease(150*time.Millisecond)))
		ctx := ls.Context()
		next := testkit.Acquire(t, other.Lock(name)) // waits for it
		require.Error(t, ctx.Err(), "the first holder's context is still alive, the second has the lock")
		require.True(t, ls.Lost())
		testkit.Release(t, next)
	}
}

// The time an answer takes is the holder's loss: the server's lease began before.
func TestDeadlineCountsFromTheSendingOfTheAcquire(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	p.Delay(0, 300*time.Millisecond)
	start := time.Now()
	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(2*time.Second)))
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	require.Less(t, ls.Deadline().Sub(start), 2*time.Second+100*time.Millisecond)
	require.False(t, ls.Lost())

	// An answer that takes as long as the lease brings nothing anybody could use.
	_, err := e.Lock("short", engine.FixedLease(200*time.Millisecond)).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	require.NotZero(t, e.Stats().TooLate)
	p.Delay(0, 0)
	testkit.Release(t, ls)
	testkit.Idle(t, e)
	testkit.NoKeys(t, s)
	testkit.Release(t, testkit.Acquire(t, e.Lock("short", engine.FixedLease(200*time.Millisecond))))
}

// The engine does not know yet that another has the lock: the server does.
func TestC045_ReleaseOfALockThatAnotherHoldsLeavesItAlone(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for _, opts := range [][]engine.Option{nil, {engine.FixedLease(time.Minute)}} {
		ls := testkit.Acquire(t, e.Lock("name", opts...))
		s.Do(t, "DEL", "name")
		s.Do(t, "HSET", "name", "another:1", "1")
		s.Do(t, "PEXPIRE", "name", "60000")
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		require.Equal(t, "another:1\n1", s.Do(t, "HGETALL", "name"))
		s.Do(t, "DEL", "name")
	}
}

func TestReleaseTwiceIsErrNotHeldAndSendsNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	testkit.Release(t, ls)
	next := testkit.Acquire(t, e.Lock("name"))
	testkit.ResetCalls(t, s)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	require.ErrorIs(t, testkit.GetError(t, ls.ReleaseAsync()), engine.ErrNotHeld)
	require.False(t, engine.SafeToRetry(ls.Release(testkit.Limited(t))))
	require.Empty(t, testkit.Calls(t, s))
	require.Equal(t, next.OwnerID()+"\n1", s.Do(t, "HGETALL", "name"), "the next holder's lock is untouched")
	testkit.Release(t, next)
}

// Of many who release one lease at once, one succeeds.
func TestReleaseByManyAtOnceSucceedsOnce(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for i := range 50 {
		ls := testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i)))
		results := make(chan error, 8)
		for range cap(results) {
			go func() { results <- ls.Release(context.Background()) }()
		}
		succeeded := 0
		for range cap(results) {
			if err := <-results; err == nil {
				succeeded++
			} else {
				require.ErrorIs(t, err, engine.ErrNotHeld)
			}
		}
		require.Equal(t, 1, succeeded)
	}
	require.Empty(t, s.Keys(t))
}

// A release is detached: the end of its ctx ends only the wait.
func TestReleaseGoesOnWhenItsContextEnds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := ls.Release(ctx)
	s.Resume()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	testkit.NoKeys(t, s)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)

	ls = testkit.Acquire(t, e.Lock("name"))
	require.False(t, ls.ReleaseAsync().Cancel(), "cannot be cancelled")
	testkit.NoKeys(t, s)
}

func TestFixedLeaseThatLapsesIsFreedByTheEngineAndItsWaitersAreServed(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	lease := 500 * time.Millisecond
	start := time.Now()
	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(lease)))
	f := e.Lock("name").AcquireAsync(context.Background())
	testkit.ResetCalls(t, s)
	testkit.Within(t, f.Done(), lease+testkit.Soon, "the waiter behind a forgotten lease is served")
	require.GreaterOrEqual(t, time.Since(start), lease*3/4-20*time.Millisecond, "but not while it is trusted")
	require.True(t, ls.Lost())
	got := testkit.Get(t, f)
	testkit.Eventually(t, "the engine has given the lapsed field back", func() bool { return testkit.Calls(t, s)["hdel"] >= 1 })
	require.Equal(t, got.OwnerID()+"\n1", s.Do(t, "HGETALL", "name"))
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	require.Equal(t, got.OwnerID()+"\n1", s.Do(t, "HGETALL", "name"))
	require.Zero(t, e.Stats().Renewals.Sent, "neither was renewed yet")
	testkit.Release(t, got)

	// One that nobody waits for goes, too, before the server's own expiry is needed.
	long := testkit.Acquire(t, e.Lock("other", engine.FixedLease(300*time.Millisecond)))
	s.Do(t, "PERSIST", "other") // the server would keep it for ever
	testkit.Within(t, long.Context().Done(), testkit.TooLong, "it ends")
	testkit.NoKeys(t, s)
}

func TestExtendRaisesAFixedLeaseAndNeverShortensIt(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ctx := testkit.Limited(t)
	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(500*time.Millisecond)))
	end := ls.Context()
	first := ls.Deadline()
	require.NoError(t, ls.Extend(ctx, 20*time.Second))
	require.InDelta(t, 20_000, testkit.Int(t, s, "PTTL", "name"), 2000)
	require.InDelta(t, 19.8, ls.Deadline().Sub(first).Seconds(), 2)
	require.NoError(t, ls.Extend(ctx, time.Second))
	require.Greater(t, testkit.Int(t, s, "PTTL", "name"), int64(15_000), "it was not shortened")
	require.Greater(t, time.Until(ls.Deadline()), 15*time.Second)
	select {
	case <-end.Done():
		require.Fail(t, "lost although it was extended")
	case <-time.After(700 * time.Millisecond): // the first lease is over by now
	}
	require.False(t, ls.Lost())
	require.Zero(t, e.Stats().Renewals.Sent)

	for _, d := range []time.Duration{0, -time.Second, 99 * time.Millisecond, engine.MaxLease + 1, engine.MaxLease + time.Millisecond, 1<<63 - 1} {
		testkit.ResetCalls(t, s)
		require.ErrorIs(t, ls.Extend(ctx, d), engine.ErrLease, "%v", d)
		require.Empty(t, testkit.Calls(t, s))
	}
	require.False(t, ls.Lost())
	testkit.Release(t, ls)
	require.ErrorIs(t, ls.Extend(ctx, time.Second), engine.ErrNotHeld)

	watched := testkit.Acquire(t, e.Lock("watched"))
	require.ErrorIs(t, watched.Extend(ctx, time.Minute), engine.ErrLease, "the watchdog renews it")
	testkit.Release(t, watched)
	require.ErrorIs(t, watched.Extend(ctx, time.Minute), engine.ErrNotHeld)
}

func TestExtendOfALeaseThatIsGoneIsErrLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ctx := testkit.Limited(t)
	lapsed := testkit.Acquire(t, e.Lock("lapsed", engine.FixedLease(100*time.Millisecond)))
	testkit.Within(t, lapsed.Context().Done(), testkit.TooLong, "it ends")
	require.ErrorIs(t, lapsed.Extend(ctx, time.Minute), engine.ErrLost)

	stolen := testkit.Acquire(t, e.Lock("stolen", engine.FixedLease(time.Minute)))
	s.Do(t, "DEL", "stolen")
	testkit.NewForeign(t, s).Lock("stolen", 5*time.Second)
	require.ErrorIs(t, stolen.Extend(ctx, time.Minute), engine.ErrLost)
	require.Error(t, stolen.Context().Err(), "what Extend learns, the context tells")
	require.LessOrEqual(t, testkit.Int(t, s, "PTTL", "stolen"), int64(5000), "a foreign lock is not extended")
	require.ErrorIs(t, stolen.Release(ctx), engine.ErrLost)
}

// dropLease takes a lock and forgets the lease.
//
//go:noinline
func apiDropLease(t testing.TB, l *engine.Lock) {
	t.Helper()
	testkit.Acquire(t, l)
}

func TestC020_LeaseThatWasDroppedUnreleasedIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	logger, log := testkit.Logger()
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
	apiDropLease(t, e.Lock("leaked", engine.WatchdogLease(2*time.Second)))
	kept := testkit.Acquire(t, e.Lock("kept", engine.WatchdogLease(2*time.Second)))
	watched := testkit.Acquire(t, e.Lock("watched", engine.WatchdogLease(2*time.Second))).Context()
	testkit.Eventually(t, "the leak is found", func() bool {
		runtime.GC()
		return e.Stats().Leaked > 0
	})
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "three more periods", func() bool {
		runtime.GC()
		return e.Stats().Renewals.Sent >= sent+9
	})
	require.EqualValues(t, 1, e.Stats().Leaked, "one, and only once")
	require.Len(t, log.With("ERROR", "dropped without Release"), 1)
	require.NotEmpty(t, log.With("dropped without Release", "leaked"))
	require.Equal(t, []string{"kept", "leaked", "watched"}, s.Keys(t), "it is renewed until MaxHold or Close")
	require.NoError(t, watched.Err(), "its context keeps a lease alive")
	testkit.Release(t, kept)
	require.NoError(t, testkit.Close(e))
	require.Empty(t, s.Keys(t))
	require.Error(t, watched.Err())
}

func TestDoHoldsTheLockWhileTheFunctionRuns(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	l := e.Lock("name")
	ctx := context.WithValue(testkit.Limited(t), apiKey{}, "value")
	boom := errors.New("boom")
	var inside context.Context
	err := l.Do(ctx, func(held context.Context) error {
		inside = held
		require.Equal(t, "value", held.Value(apiKey{}))
		require.NoError(t, held.Err())
		deadline, has := held.Deadline()
		want, _ := ctx.Deadline()
		require.True(t, has, "the caller's deadline")
		require.Equal(t, want, deadline)
		info, err := l.Inspect(held)
		require.NoError(t, err)
		require.True(t, info.Mine)
		return boom
	})
	require.ErrorIs(t, err, boom, "fn's own error")
	require.NotErrorIs(t, err, engine.ErrLost)
	require.Error(t, inside.Err(), "its context ends with it")
	require.Empty(t, s.Keys(t))
	require.NoError(t, l.Do(ctx, func(context.Context) error { return nil }))
}

func TestDoEndsItsContextWithTheCallers(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(context.Background())
	err := e.Lock("name").Do(ctx, func(held context.Context) error {
		cancel(why)
		testkit.Within(t, held.Done(), testkit.Soon, "it ends with the caller's")
		require.ErrorIs(t, held.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(held), why)
		return held.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, engine.ErrLost)
	require.Empty(t, s.Keys(t), "released in spite of the ended ctx")

	limited, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	err = e.Lock("name").Do(limited, func(held context.Context) error {
		testkit.Within(t, held.Done(), testkit.TooLong, "it ends")
		require.ErrorIs(t, held.Err(), context.DeadlineExceeded)
		return held.Err()
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, s.Keys(t))
}

func TestDoJoinsErrLostWithTheFunctionsError(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	boom := errors.New("boom")
	err := e.Lock("name", engine.FixedLease(200*time.Millisecond)).Do(context.Background(), func(held context.Context) error {
		testkit.Within(t, held.Done(), testkit.TooLong, "it ends")
		require.ErrorIs(t, context.Cause(held), engine.ErrLost)
		return boom
	})
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, err, engine.ErrLost)
	err = e.Lock("name", engine.FixedLease(200*time.Millisecond)).Do(context.Background(), func(held context.Context) error {
		testkit.Within(t, held.Done(), testkit.TooLong, "it ends")
		return nil // it pretends that all is well
	})
	require.ErrorIs(t, err, engine.ErrLost)
	err = e.Lock("name", engine.FixedLease(200*time.Millisecond)).Do(context.Background(), func(held context.Context) error {
		testkit.Within(t, held.Done(), testkit.TooLong, "it ends")
		return context.Cause(held)
	})
	require.ErrorIs(t, err, engine.ErrLost)
	require.EqualError(t, err, `holdfast: "name": lease is lost: its lease ran out unrenewed`, "it is said once, and of what")
	testkit.NoKeys(t, s)
}

func TestDoReleasesWhenTheFunctionPanics(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	var inside context.Context
	require.PanicsWithValue(t, "boom", func() {
		_ = e.Lock("name").Do(context.Background(), func(held context.Context) error {
			inside = held
			panic("boom")
		})
	})
	require.Error(t, inside.Err())
	require.Empty(t, s.Keys(t))
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
}

func TestDoThatCannotHaveTheLockDoesNotRunTheFunction(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	testkit.NewForeign(t, s).Lock("name", time.Minute)
	never := func(context.Context) error { panic("must not run") }
	require.ErrorIs(t, e.Lock("name", engine.MaxWait(300*time.Millisecond)).Do(context.Background(), never), engine.ErrHeld)
	require.ErrorIs(t, e.Lock("").Do(context.Background(), never), engine.ErrName)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, e.Lock("free").Do(ctx, never), context.Canceled)
}
