package family_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Some permits, or all, are taken away from whoever has them: here the holder is told before, elsewhere by its renewal.
func TestPermitsAreForceReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 8, engine.WatchdogLease(engine.DefaultLease)) // nothing expires by itself
	other := testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	events := e.Events(16)
	mine, kept := take(t, sem, 3), take(t, sem, 1)
	theirs := take(t, other.PermitSemaphore("s", engine.WatchdogLease(engine.MinWatchdogLease)), 2)
	requirePermits(t, sem, 2, 6, 8)

	// One of three: the lease is lost as a whole, and the other two are given back.
	n, err := sem.ForceRelease(ctx, strings.ToUpper(mine.IDs()[1]))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, mine.Lost(), "it is told before the permit is taken")
	require.ErrorIs(t, mine.Release(ctx), engine.ErrLost)
	testkit.Eventually(t, "the rest is given back", func() bool {
		free, err := sem.AvailablePermits(ctx)
		return err == nil && free == 5
	})
	require.False(t, kept.Lost())
	require.False(t, theirs.Lost())

	// What is free by then is passed over, and a waiter has what is free now.
	n, err = sem.ForceRelease(ctx, append(mine.IDs(), theirs.IDs()[0])...)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	testkit.Eventually(t, "its renewal tells the holder elsewhere", theirs.Lost)
	testkit.Eventually(t, "the rest is given back", func() bool {
		free, err := sem.AvailablePermits(ctx)
		return err == nil && free == 7
	})
	waits := other.PermitSemaphore("s").AcquireAsync(ctx, 8)
	testkit.Eventually(t, "it waits", func() bool { return other.Stats().Waits > 0 })

	// All that are leased.
	n, err = sem.ForceRelease(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, kept.Lost())
	all := testkit.Get(t, waits)
	require.NoError(t, all.Release(ctx))
	requirePermits(t, sem, 8, 0, 8)
	n, err = sem.ForceRelease(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = sem.ForceRelease(ctx, "no id")
	require.ErrorIs(t, err, engine.ErrNotHeld)

	kinds, last := testkit.KindsOf(t, events, 4)
	require.Equal(t, []engine.EventKind{engine.EventHeld, engine.EventHeld, engine.EventLost, engine.EventLost}, kinds)
	require.Equal(t, kept.IDs()[0], last.OwnerID)
	require.Equal(t, "it was force-released", last.Cause)
	permitsAreOver(t, s, e, other)
}

// An id that is named twice counts once.
func TestAPermitThatIsNamedTwiceIsTakenOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 3)
	ids := append(take(t, sem, 1).IDs(), take(t, sem, 1).IDs()...)
	n, err := sem.ForceRelease(testkit.Limited(t), ids[0], ids[1], strings.ToUpper(ids[0]))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	requirePermits(t, sem, 3, 0, 3)
	testkit.Idle(t, e)
}

// What an answer that was lost may have said counts: the permits are gone, and the caller is to know of them.
func TestPermitsThatATakeWithoutAnAnswerTookCount(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	holder, sem := permitsOf(t, s, 4, engine.WatchdogLease(engine.DefaultLease))
	ids := append(take(t, sem, 1).IDs(), take(t, sem, 1).IDs()...)
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.DropReply(testkit.ScriptCall("permitsset"), 1)
	n, err := e.PermitSemaphore("s").ForceRelease(testkit.Limited(t), ids...)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	requirePermits(t, sem, 4, 0, 4)
	n, err = e.PermitSemaphore("s").ForceRelease(testkit.Limited(t), ids...)
	require.NoError(t, err)
	require.Zero(t, n, "every command was answered")
	permitsAreOver(t, s, e, holder)
}
