//go:build holdfast_family_demo

package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A family is a row in two tables, its script and its file; all that every lock has, this one has: it excludes, waits, is
// handed over, entered again, renewed, taken by force, and batched.
func TestAFamilyThatIsAddedIsALock(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	o := engine.NewOwner()
	l := e.DemoLock("name", engine.WatchdogLease(time.Second), engine.As(o))

	first, second := testkit.Acquire(t, l), testkit.Acquire(t, l)
	require.Equal(t, "2", testkit.CountOf(t, s, first))
	_, err := e.Lock("name", engine.As(o)).TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind, "an owner's lock is entered as what it is")
	for _, busy := range []*engine.Lock{other.DemoLock("name"), other.Lock("name")} {
		_, err = busy.TryAcquire(ctx)
		require.ErrorIs(t, err, engine.ErrHeld)
	}
	testkit.RequireKept(t, e, first, time.Millisecond, 2)

	there := other.DemoLock("name").AcquireAsync(ctx)
	testkit.Parked(t, s, "name", 1, 1, other)
	testkit.Release(t, first)
	testkit.Pending(t, there)
	testkit.Release(t, second)
	held := testkit.Get(t, there)
	for passed := e.DemoLock("passed"); e.Stats().GrantsByHandOff == 0; { // a turn may end before the release
		ls := testkit.Acquire(t, passed)
		next := passed.AcquireAsync(ctx)
		testkit.Release(t, ls)
		testkit.Release(t, testkit.Get(t, next))
	}

	freed, err := l.ForceRelease(ctx)
	require.NoError(t, err)
	require.True(t, freed)
	require.ErrorIs(t, held.Release(ctx), engine.ErrLost)

	futures := make([]*engine.Future[*engine.Lease], 64)
	for i := range futures {
		futures[i] = e.DemoLock(testkit.Numbered("many", i)).AcquireAsync(context.Background())
	}
	for _, f := range futures {
		testkit.Release(t, testkit.Get(t, f))
	}
	require.ErrorIs(t, e.DemoLock("name", engine.Spin(time.Millisecond, time.Second)).Err(), engine.ErrLease)
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e, other)
}
