package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Waiters that travel in one batch stand in the server's queue as they asked, whatever their leases.
func TestFairWaitersOfOneBatchAreServedInTheOrderOfAsking(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.FairLock("q").Lock)
	_, err := e.FairLock("q").TryAcquire(testkit.Limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrHeld)

	held := p.Hold(testkit.ScriptCall("fair"), 1)
	const waiters = 6
	fs := make([]*engine.Future[*engine.Lease], waiters)
	for i := range fs {
		fs[i] = e.FairLock("q", engine.WatchdogLease(time.Duration(30-7*i%20)*time.Second)).AcquireAsync(testkit.Limited(t))
		if i == 0 {
			testkit.Await(t, held.C(), "the first is on its way, the others collect")
		}
	}
	p.ReleaseCommands()
	testkit.Eventually(t, "all wait", func() bool { return s.Do(t, "LLEN", slot.FairQueue("q")) == "6" })
	testkit.Release(t, theirs)
	requireServedInOrder(t, fs)
	testkit.Finish(t, s, e, other)
}

// requireServedInOrder: each has the lock when the one before it has given it back.
func requireServedInOrder(t *testing.T, fs []*engine.Future[*engine.Lease]) {
	t.Helper()
	for i, f := range fs {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		for _, later := range fs[i+1:] {
			_, _, ok := later.Result()
			require.False(t, ok, "not before its turn")
		}
		testkit.Release(t, ls)
	}
}

// A lock that is passed on with its release has the lease of the waiter that the server's queue has next,
// not of the one that asked here first.
func TestAFairLockIsPassedOnUnderTheLeaseOfItsNextHolder(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	leases := []time.Duration{24 * time.Hour, time.Hour, time.Second}
	held := testkit.Acquire(t, e.FairLock("q").Lock)
	fs := testkit.LineUp(t, s, len(leases), func(i int) *engine.FairLock { return e.FairLock("q", engine.WatchdogLease(leases[i])) })
	testkit.Eventually(t, "each was told", func() bool { return e.Stats().Waits == 3 })
	s.Do(t, "RPOPLPUSH", slot.FairQueue("q"), slot.FairQueue("q")) // the server's order is another
	for _, i := range []int{2, 0, 1} {
		testkit.Release(t, held)
		var err error
		held, err = fs[i].Await(testkit.Limited(t))
		require.NoError(t, err)
		left := time.Until(testkit.Expiry(t, s, "q"))
		require.LessOrEqual(t, left, leases[i])
		require.Greater(t, left, leases[i]*4/5)
	}
	require.Positive(t, e.Stats().GrantsByHandOff, "who is just asking has it by its own answer")
	testkit.Release(t, held)
	testkit.Finish(t, s, e)
}

// A server that stands still for longer than places are kept takes nobody's place: whoever asks first afterwards was silent,
// too, and so it was the server's silence.
func TestFairWaitersKeepTheirOrderThroughAnOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	lock := func(i int) *engine.FairLock {
		return engines[i%3].FairLock("q", engine.WatchdogLease(time.Minute))
	}
	held := testkit.Acquire(t, lock(0).Lock)
	const waiters = 7
	fs := testkit.LineUp(t, s, waiters, lock)
	s.Pause()
	time.Sleep(6500 * time.Millisecond) // of the server's own clock
	s.Resume()
	testkit.Release(t, held)
	requireServedInOrder(t, fs)
	testkit.Finish(t, s, engines...)
}
