package fault_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestC012_ServerClockStepsForward: every lease on the server is over at once. Somebody else may get
// the lock, as the promises say; its holder is told with the next renewal, a token tells the two apart, and
// everybody goes on by the new time.
func TestC012_ServerClockStepsForward(t *testing.T) {
	t.Parallel()
	s := runStepped(t)
	a, b := testkit.Open(t, s.by.addr()), testkit.Open(t, s.by.addr())
	watched := engine.WatchdogLease(3 * time.Second)
	old, err := a.FencedLock("a", watched).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := old.Context()
	waiter := b.FencedLock("a", watched).AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().WokenBySubscribe > 0 })

	s.step(t, time.Minute)
	stepped := time.Now()
	late, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Await(t, ctx.Done(), "the holder is told")
	require.Less(t, testkit.Ran(stepped), 3*time.Second, "not by its own deadline: by the next renewal")
	require.True(t, old.Lost())
	require.ErrorIs(t, old.Release(testkit.Limited(t)), engine.ErrLost)
	require.Greater(t, late.Token(), old.Token())
	require.False(t, late.Lost())

	// The engine that knows nothing of the step yet asks with a not-after that has passed, hears the time,
	// and asks again: no caller sees that.
	for i := range 20 {
		testkit.Release(t, testkit.Acquire(t, a.Lock(testkit.Numbered("b", i))))
	}
	renewed := b.Stats().Renewals.Sent
	testkit.Eventually(t, "it is renewed by the new time", func() bool { return b.Stats().Renewals.Sent > renewed+2 })
	require.False(t, late.Lost())
	testkit.Release(t, late)
	s.Do(t, "DEL", "redisson_lock_token:{a}")
	s.end(t)
	testkit.Finish(t, s.Server, a, b)
}

// TestC013_ServerClockStepsBack: what is locked lasts a minute longer on the server. A holder knows
// nothing of it and keeps to its own deadline, when it gives the lock back; who waits for one that is dead is
// told how long, and ForceRelease helps at once.
func TestC013_ServerClockStepsBack(t *testing.T) {
	t.Parallel()
	s := runStepped(t)
	a, b := testkit.Open(t, s.by.addr()), testkit.Open(t, s.by.addr())
	s.Do(t, "HSET", "dead", "2f1f1f66-0000-4000-8000-000000000000:77", "1")
	s.Do(t, "PEXPIRE", "dead", "30000")
	fixed := testkit.Acquire(t, a.Lock("fixed", engine.FixedLease(2*time.Second)))
	alive := testkit.Acquire(t, a.Lock("alive", engine.WatchdogLease(2*time.Second)))
	lost := fixed.Context()

	s.step(t, -time.Minute)
	stepped := time.Now()
	testkit.Await(t, lost.Done(), "its own deadline ends it")
	require.Less(t, testkit.Ran(stepped), 2*time.Second)
	testkit.Release(t, testkit.Acquire(t, b.Lock("fixed")))
	_, err := b.Lock("dead").TryAcquire(testkit.Limited(t))
	var held *engine.HeldError
	require.True(t, errors.As(err, &held), "%v", err)
	require.Greater(t, held.Remaining, 50*time.Second, "it is told that this takes longer than any lease here")
	waiter := b.Lock("dead").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().WokenBySubscribe > 0 })
	_, err, done := waiter.Result()
	require.False(t, done, "%v", err)
	forced, err := b.Lock("dead").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, forced)
	ls, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)

	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "renewals go on", func() bool { return a.Stats().Renewals.Sent > sent+3 })
	require.False(t, alive.Lost())
	testkit.Release(t, ls)
	testkit.Release(t, alive)
	for i := range 20 {
		testkit.Release(t, testkit.Acquire(t, a.Lock(testkit.Numbered("b", i))))
	}
	s.end(t)
	testkit.Finish(t, s.Server, a, b)
}

// TestC012C013_ServerClockStepsUnderLoad: locks are taken and given back while the clock steps to and
// fro. Nobody is refused, and nothing stays behind.
func TestC012C013_ServerClockStepsUnderLoad(t *testing.T) {
	t.Parallel()
	s := runStepped(t)
	e := testkit.Open(t, s.by.addr())
	const workers = 4
	stop, done := make(chan struct{}), make(chan error, workers)
	for w := range workers {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				ls, err := e.Lock(testkit.Numbered(testkit.Numbered("n", w), i%50)).Acquire(t.Context())
				if err == nil {
					err = ls.Release(t.Context())
				}
				if err != nil && !errors.Is(err, engine.ErrLost) { // it was held while the clock stepped
					done <- err
					return
				}
			}
		}()
	}
	for _, d := range []time.Duration{10, -10, 3600, 60, -3600, 1, -61} {
		grants := e.Stats().Grants
		testkit.Eventually(t, "locks are granted", func() bool { return e.Stats().Grants > grants+200 })
		s.step(t, d*time.Second)
	}
	grants := e.Stats().Grants
	testkit.Eventually(t, "locks are granted at the end", func() bool { return e.Stats().Grants > grants+200 })
	close(stop)
	for range workers {
		require.NoError(t, testkit.Await(t, done, "a worker"))
	}
	s.end(t)
	testkit.Finish(t, s.Server, e)
}
