package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What a crashed holder leaves is free after its own lease, whatever it asked for in between.
func TestANestedFixedLeaseLeavesNothingOnTheKeyWhenItIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	for name, l := range map[string]*engine.Lock{
		"lock": e.Lock("lock"), "fenced": e.FencedLock("fenced").Lock, "fair": e.FairLock("fair").Lock, "write": e.RWLock("write").WriteLock(),
	} {
		outer := testkit.Acquire(t, l.With(engine.As(o), engine.WatchdogLease(2*time.Second)))
		inner := testkit.Acquire(t, l.With(engine.As(o), engine.FixedLease(time.Hour)))
		require.Greater(t, time.Until(testkit.Expiry(t, s, name)), 59*time.Minute)
		require.Greater(t, time.Until(inner.Deadline()), 59*time.Minute)
		testkit.Release(t, inner)
		require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, name)), 2*time.Second, name)
		require.False(t, testkit.Expiry(t, s, name).Before(outer.Deadline()), "trusted for longer than the server keeps it")
		testkit.RequireKept(t, e, outer, 0, 1)
		testkit.Release(t, outer)
	}
	s.Do(t, "DEL", "redisson_lock_token:{fenced}") // has none, and stays
	testkit.Finish(t, s, e)
}

// The other order: what remains is trusted for what is left of its own lease.
func TestAFixedLeaseThatRemainsKeepsItsOwnEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	outer := testkit.Acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(time.Minute)))
	asked := time.Now()
	inner := testkit.Acquire(t, e.Lock("name", engine.As(o), engine.FixedLease(2*time.Second)))
	granted := time.Now()
	testkit.Release(t, outer)
	require.WithinRange(t, inner.Deadline(), asked.Add(1950*time.Millisecond), granted.Add(1990*time.Millisecond))
	require.WithinRange(t, testkit.Expiry(t, s, "name"), inner.Deadline(), granted.Add(2100*time.Millisecond))
	require.NoError(t, inner.Extend(testkit.Limited(t), time.Minute))
	require.Greater(t, time.Until(inner.Deadline()), 58*time.Second)
	again := testkit.Acquire(t, e.Lock("name", engine.As(o), engine.FixedLease(time.Second)))
	testkit.Release(t, again)
	require.Greater(t, time.Until(inner.Deadline()), 57*time.Second, "what it was extended to")
	require.Greater(t, time.Until(testkit.Expiry(t, s, "name")), 57*time.Second)
	testkit.Release(t, inner)
	testkit.Finish(t, s, e)
}

// A copy of the change that lowers the expiry must not take it from an Extend, or from a handle that comes
// later: these wait until no copy can run.
func TestALateCopyOfALoweringTakesNothingThatIsTrusted(t *testing.T) {
	t.Parallel()
	for _, extends := range []bool{true, false} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		o := engine.NewOwner()
		fixed := e.Lock("name", engine.As(o), engine.FixedLease(20*time.Second))
		outer := testkit.Acquire(t, fixed)
		inner := testkit.Acquire(t, fixed.With(engine.FixedLease(time.Minute)))
		lost := p.DropReply(testkit.ScriptCall("reacquire"), 1)
		released := inner.ReleaseAsync()
		testkit.Await(t, lost.C(), "the answer was lost")
		_, err := released.Await(testkit.Limited(t))
		require.NoError(t, err)
		began := time.Now()
		var later *engine.Lease
		if extends {
			require.NoError(t, outer.Extend(testkit.Limited(t), time.Hour))
		} else {
			later = testkit.Acquire(t, fixed.With(engine.FixedLease(time.Hour)))
		}
		require.Greater(t, time.Since(began), time.Second, "a copy might still have run")
		require.Greater(t, time.Until(outer.Deadline()), 59*time.Minute)
		require.False(t, testkit.Expiry(t, s, "name").Before(outer.Deadline()))
		testkit.Release(t, outer)
		if later != nil {
			testkit.Release(t, later)
		}
	}
}

// The hash of a read-write lock is the readers' too.
func TestAWriterThatLeavesLowersNothingUnderItsReader(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	outer := testkit.Acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
	reader := testkit.Acquire(t, rw.ReadLock().With(engine.FixedLease(time.Hour)))
	inner := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(time.Minute)))
	testkit.Release(t, inner)
	require.False(t, testkit.Expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	testkit.Release(t, outer)
	require.False(t, testkit.Expiry(t, s, "rw").Before(reader.Deadline()))
	testkit.Release(t, reader)
	testkit.Finish(t, s, e)
}
