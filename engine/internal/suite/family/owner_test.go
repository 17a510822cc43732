package family_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestOwnerEntersAgainAndTheCountIsOnTheWire(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	l := e.Lock("name")
	first, err := l.Acquire(ctx)
	require.NoError(t, err)
	second, err := l.With(engine.As(o)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	third, err := l.TryAcquire(ctx)
	require.NoError(t, err)
	require.Equal(t, "3", testkit.CountOf(t, s, first))
	require.Equal(t, 3, o.Holds(l))
	require.Equal(t, first.OwnerID(), third.OwnerID())
	_, err = l.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "nobody's ctx is not the owner")
	_, err = other.Lock("name").TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrHeld)

	held := first.Context()
	require.NoError(t, first.Release(ctx))
	require.ErrorIs(t, context.Cause(held), engine.ErrReleased)
	require.NoError(t, third.Context().Err(), "the others are still held")
	require.ErrorIs(t, first.Release(ctx), engine.ErrNotHeld)
	require.Equal(t, "2", testkit.CountOf(t, s, second))
	require.NoError(t, third.Release(ctx))
	require.Equal(t, "1", testkit.CountOf(t, s, second))
	require.NoError(t, second.Release(ctx))
	require.Zero(t, o.Holds(l))
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e, other)
}

func TestOwnersOfOneEngineExcludeEachOther(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name")
	a, b := engine.WithOwner(testkit.Limited(t), engine.NewOwner()), engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	ls, err := l.Acquire(a)
	require.NoError(t, err)
	again, err := l.Acquire(a)
	require.NoError(t, err)
	waiting := l.AcquireAsync(b)
	require.NoError(t, ls.Release(a))
	_, _, ok := waiting.Result()
	require.False(t, ok, "one hold is left")
	require.NoError(t, again.Release(a))
	theirs, err := waiting.Await(b)
	require.NoError(t, err)
	require.NoError(t, theirs.Release(b))
	testkit.Finish(t, s, e)
}

func TestGoroutinesOfOneOwnerJoinThePendingAcquire(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	foreign, err := other.Lock("name").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	var wg sync.WaitGroup
	leases := make(chan *engine.Lease, 20)
	for range cap(leases) {
		wg.Go(func() {
			ls, err := e.Lock("name").Acquire(ctx)
			if err == nil {
				leases <- ls
			}
		})
	}
	testkit.Eventually(t, "all wait", func() bool { return e.Stats().Waiting == int64(cap(leases)) })
	require.NoError(t, foreign.Release(ctx))
	wg.Wait()
	require.Len(t, leases, cap(leases))
	require.Equal(t, "20", s.Do(t, "HGET", "name", func() string { ls := <-leases; leases <- ls; return ls.OwnerID() }()))
	close(leases)
	for ls := range leases {
		require.NoError(t, ls.Release(ctx))
	}
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e, other)
}

func TestDoInsideDoEntersAgain(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name")
	deep := 0
	var down func(ctx context.Context) error
	down = func(ctx context.Context) error {
		if deep++; deep == 4 {
			return nil
		}
		return l.Do(ctx, down)
	}
	require.NoError(t, l.Do(testkit.Limited(t), down))
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}

func TestC049_EnteringALostLockAgainIsErrLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	l := e.Lock("name")
	ls, err := l.Acquire(ctx)
	require.NoError(t, err)
	s.Do(t, "DEL", "name")
	_, err = l.Acquire(ctx) // finds out
	require.ErrorIs(t, err, engine.ErrLost)
	require.True(t, ls.Lost())
	_, err = l.Acquire(ctx) // remembers
	require.ErrorIs(t, err, engine.ErrLost)
	require.Empty(t, s.Keys(t), "it did not quietly start at one")
	require.ErrorIs(t, ls.Release(ctx), engine.ErrLost)
	ls, err = l.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, ls.Release(ctx))
	testkit.Finish(t, s, e)
}

func TestNestedHoldsInEveryOrderLeaveNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		leases := make([]*engine.Lease, 3)
		for i := range leases {
			var err error
			leases[i], err = e.Lock("name").Acquire(ctx)
			require.NoError(t, err)
		}
		for left, i := range order {
			require.NoError(t, leases[i].Release(ctx))
			if left < 2 {
				require.Equal(t, string(rune('2'-left)), testkit.CountOf(t, s, leases[i]))
			}
		}
		require.Empty(t, s.Keys(t))
	}
	testkit.Finish(t, s, e)
}

// C-024, C-025: each step of three nested holds loses its reply after the script has run, once and
// several times in a row; the count is right after each.
func TestC024C025_RepliesLostAtEveryStepOfNestedHolds(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 3} {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			s := redistest.Run(t, redistest.Options{})
			proxy := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, proxy.Addr())
			ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
			leases := make([]*engine.Lease, 3)
			for i := range leases {
				rule := proxy.DropReply(faultproxy.Command("EVALSHA"), times)
				var err error
				leases[i], err = e.Lock("name").Acquire(ctx)
				require.NoError(t, err)
				require.EqualValues(t, times, rule.Hits())
				rule.Remove()
				require.Equal(t, string(rune('1'+i)), testkit.CountOf(t, s, leases[i]))
			}
			for left, i := range order {
				rule := proxy.DropReply(faultproxy.Command("EVALSHA"), times)
				require.NoError(t, leases[i].Release(ctx))
				require.EqualValues(t, times, rule.Hits())
				rule.Remove()
				if left < 2 {
					require.Equal(t, string(rune('2'-left)), testkit.CountOf(t, s, leases[i]))
				}
			}
			require.Empty(t, s.Keys(t))
			testkit.Finish(t, s, e)
		}
	}
}

func TestCancelledReentryIsTakenBack(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	proxy := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, proxy.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	ls, err := e.Lock("name").Acquire(ctx)
	require.NoError(t, err)
	held := proxy.Hold(faultproxy.Command("EVALSHA"), 1)
	f := e.Lock("name").AcquireAsync(ctx)
	<-held.C()
	require.True(t, f.Cancel())
	proxy.ReleaseCommands()
	testkit.Eventually(t, "the count is one again", func() bool { return testkit.CountOf(t, s, ls) == "1" && proxy.Count("EVALSHA") >= 3 })
	require.NoError(t, ls.Release(ctx))
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}

func TestReentryRaisesTheLeaseAndAWatchdogWins(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	fixed, err := e.Lock("name", engine.FixedLease(2*time.Second)).Acquire(ctx)
	require.NoError(t, err)
	watched, err := e.Lock("name", engine.WatchdogLease(3*time.Second)).Acquire(ctx)
	require.NoError(t, err)
	testkit.Eventually(t, "it outlives the fixed lease", func() bool { return e.Stats().Renewals.Sent > 3 })
	require.False(t, fixed.Lost())
	require.NoError(t, watched.Release(ctx))
	<-fixed.Context().Done() // nobody wants it renewed any more
	require.ErrorIs(t, context.Cause(fixed.Context()), engine.ErrLost)
	require.True(t, errors.Is(fixed.Release(ctx), engine.ErrLost))
	testkit.Finish(t, s, e)
}

func TestC053_NestedHoldsAreGivenBackWhileMemoryIsFull(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	a, err := e.Lock("name").Acquire(ctx)
	require.NoError(t, err)
	b, err := e.Lock("name").Acquire(ctx)
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, b.Release(ctx))
	require.Equal(t, "1", testkit.CountOf(t, s, a))
	require.NoError(t, a.Release(ctx))
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}
