package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// requireKept waits until a lease has been renewed so often, and requires that it was never worth less than
// it asks for.
func requireKept(t *testing.T, e *engine.Engine, ls *engine.Lease, least time.Duration, renewals int64) {
	t.Helper()
	sent := e.Stats().Renewals.Sent
	for began := time.Now(); e.Stats().Renewals.Sent < sent+renewals; {
		require.False(t, ls.Lost())
		require.Greater(t, time.Until(ls.Deadline()), least)
		require.Less(t, time.Since(began), tooLong, "it is not renewed")
		lastUntil(time.Now().Add(5 * time.Millisecond))
	}
}

// What a crashed holder leaves is free after its own lease, whatever it asked for in between.
func TestANestedFixedLeaseLeavesNothingOnTheKeyWhenItIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	o := engine.NewOwner()
	for name, l := range map[string]*engine.Lock{
		"lock": e.Lock("lock"), "fenced": e.FencedLock("fenced").Lock, "fair": e.FairLock("fair").Lock, "write": e.RWLock("write").WriteLock(),
	} {
		outer := acquire(t, l.With(engine.As(o), engine.WatchdogLease(2*time.Second)))
		inner := acquire(t, l.With(engine.As(o), engine.FixedLease(time.Hour)))
		require.Greater(t, time.Until(expiry(t, s, name)), 59*time.Minute)
		require.Greater(t, time.Until(inner.Deadline()), 59*time.Minute)
		release(t, inner)
		require.LessOrEqual(t, time.Until(expiry(t, s, name)), 2*time.Second, name)
		require.False(t, expiry(t, s, name).Before(outer.Deadline()), "trusted for longer than the server keeps it")
		requireKept(t, e, outer, 0, 1)
		release(t, outer)
	}
	s.Do(t, "DEL", "redisson_lock_token:{fenced}") // has none, and stays
	finish(t, s, e)
}

// The other order: what remains is trusted for what is left of its own lease.
func TestAFixedLeaseThatRemainsKeepsItsOwnEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	o := engine.NewOwner()
	outer := acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(time.Minute)))
	asked := time.Now()
	inner := acquire(t, e.Lock("name", engine.As(o), engine.FixedLease(2*time.Second)))
	granted := time.Now()
	release(t, outer)
	require.WithinRange(t, inner.Deadline(), asked.Add(1950*time.Millisecond), granted.Add(1990*time.Millisecond))
	require.WithinRange(t, expiry(t, s, "name"), inner.Deadline(), granted.Add(2100*time.Millisecond))
	require.NoError(t, inner.Extend(limited(t), time.Minute))
	require.Greater(t, time.Until(inner.Deadline()), 58*time.Second)
	again := acquire(t, e.Lock("name", engine.As(o), engine.FixedLease(time.Second)))
	release(t, again)
	require.Greater(t, time.Until(inner.Deadline()), 57*time.Second, "what it was extended to")
	require.Greater(t, time.Until(expiry(t, s, "name")), 57*time.Second)
	release(t, inner)
	finish(t, s, e)
}

// A copy of the change that lowers the expiry must not take it from an Extend, or from a handle that comes
// later: these wait until no copy can run.
func TestALateCopyOfALoweringTakesNothingThatIsTrusted(t *testing.T) {
	t.Parallel()
	for _, extends := range []bool{true, false} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := openEngine(t, p.Addr())
		o := engine.NewOwner()
		fixed := e.Lock("name", engine.As(o), engine.FixedLease(20*time.Second))
		outer := acquire(t, fixed)
		inner := acquire(t, fixed.With(engine.FixedLease(time.Minute)))
		lost := p.DropReply(scriptCall("reacquire"), 1)
		released := inner.ReleaseAsync()
		await(t, lost.C(), "the answer was lost")
		_, err := released.Await(limited(t))
		require.NoError(t, err)
		began := time.Now()
		var later *engine.Lease
		if extends {
			require.NoError(t, outer.Extend(limited(t), time.Hour))
		} else {
			later = acquire(t, fixed.With(engine.FixedLease(time.Hour)))
		}
		require.Greater(t, time.Since(began), time.Second, "a copy might still have run")
		require.Greater(t, time.Until(outer.Deadline()), 59*time.Minute)
		require.False(t, expiry(t, s, "name").Before(outer.Deadline()))
		release(t, outer)
		if later != nil {
			release(t, later)
		}
	}
}

// The hash of a read-write lock is the readers' too.
func TestAWriterThatLeavesLowersNothingUnderItsReader(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	outer := acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
	reader := acquire(t, rw.ReadLock().With(engine.FixedLease(time.Hour)))
	inner := acquire(t, rw.WriteLock().With(engine.FixedLease(time.Minute)))
	release(t, inner)
	require.False(t, expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	release(t, outer)
	require.False(t, expiry(t, s, "rw").Before(reader.Deadline()))
	release(t, reader)
	finish(t, s, e)
}
