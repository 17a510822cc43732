package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What a crashed holder of a read-write lock leaves is free after the lease of what it still held.
func TestADowngradeLeavesTheKeyTheReadersLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	writer := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(time.Hour)))
	reader := testkit.Acquire(t, rw.ReadLock().With(engine.WatchdogLease(2*time.Second)))
	require.Greater(t, time.Until(testkit.Expiry(t, s, "rw")), 59*time.Minute)
	testkit.Release(t, writer)
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "rw")), 2*time.Second)
	require.False(t, testkit.Expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	testkit.RequireKept(t, e, reader, time.Second, 2)
	testkit.Release(t, reader)
	testkit.Finish(t, s, e)
}

// Redisson's readers say by their marks how long they read. Nobody cuts them short, and the dead keep nothing.
func TestADowngradeLeavesTheKeyAsLongAsTheLongestReaderOfRedissons(t *testing.T) {
	t.Parallel()
	for name, marks := range map[string][]string{"alive": {"4000", "9000"}, "dead": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr())
			writer := testkit.Acquire(t, e.RWLock("rw", engine.FixedLease(time.Hour)).WriteLock())
			s.Do(t, "HSET", "rw", "java:7", "2")
			for i, ms := range marks {
				s.Do(t, "SET", testkit.Numbered("{rw}:java:7:rwlock_timeout", i+1), "1", "PX", ms)
			}
			testkit.Release(t, writer)
			if marks == nil {
				require.False(t, testkit.Exists(t, s, "rw"))
				testkit.Finish(t, s, e)
				return
			}
			require.Equal(t, "read", s.Do(t, "HGET", "rw", "mode"))
			longest := testkit.Expiry(t, s, "{rw}:java:7:rwlock_timeout:2")
			require.WithinDuration(t, longest, testkit.Expiry(t, s, "rw"), 5*time.Millisecond, "the script reads what is left, and the server's clock goes on")
			s.Do(t, "DEL", "rw", "{rw}:java:7:rwlock_timeout:1", "{rw}:java:7:rwlock_timeout:2")
			testkit.Finish(t, s, e)
		})
	}
}

func TestAReaderThatLeavesItsWriterTakesItsLeaseAlong(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		rw := e.RWLock("rw", engine.As(engine.NewOwner()))
		writer := testkit.Acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
		reading := rw.ReadLock().With(engine.FixedLease(time.Hour))
		if cancelled {
			held := p.Hold(testkit.ScriptCall("read"), 1)
			f := reading.AcquireAsync(testkit.Limited(t))
			testkit.Await(t, held.C(), "it is on its way")
			require.True(t, f.Cancel())
			p.ReleaseCommands()
			testkit.Eventually(t, "nobody wants it", func() bool { return e.Stats().Ghosts == 1 })
		} else {
			reader := testkit.Acquire(t, reading)
			require.Greater(t, time.Until(testkit.Expiry(t, s, "rw")), 59*time.Minute)
			testkit.Release(t, reader)
		}
		testkit.Eventually(t, "the key lives as long as its writer asks for", func() bool {
			return time.Until(testkit.Expiry(t, s, "rw")) <= 2*time.Second
		})
		require.False(t, testkit.Expiry(t, s, "rw").Before(writer.Deadline()), "trusted for longer than the server keeps it")
		testkit.RequireKept(t, e, writer, 0, 2)
		testkit.Release(t, writer)
		testkit.Finish(t, s, e)
	}
}

func TestAReaderOfTheSameLeaseCostsItsWriterNoCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	settled := testkit.WatchCommands(p, testkit.ScriptCall("reacquire"))
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	writer := testkit.Acquire(t, rw.WriteLock())
	testkit.Release(t, testkit.Acquire(t, rw.ReadLock()))
	testkit.Release(t, writer)
	require.Empty(t, settled)
	testkit.Finish(t, s, e)
}

func TestAWriterThatGivesBackALongEntryKeepsTheKeyForItselfAndItsReader(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	outer := testkit.Acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
	reader := testkit.Acquire(t, rw.ReadLock().With(engine.FixedLease(time.Minute)))
	inner := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(time.Hour)))
	require.Greater(t, time.Until(testkit.Expiry(t, s, "rw")), 59*time.Minute)
	testkit.Release(t, inner)
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "rw")), time.Minute)
	require.False(t, testkit.Expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	testkit.Release(t, reader)
	testkit.Eventually(t, "the key lives as long as its writer asks for", func() bool {
		return time.Until(testkit.Expiry(t, s, "rw")) <= 2*time.Second
	})
	testkit.Release(t, outer)
	testkit.Finish(t, s, e)
}

// lateEntry has an owner enter twice and leave once, and then a copy of the entry run that had no answer.
func lateEntry(t *testing.T, p *faultproxy.Proxy, s *redistest.Server, l *engine.Lock) *engine.Lease {
	t.Helper()
	outer := testkit.Acquire(t, l)
	lost := p.DropReply(testkit.ScriptCall("reacquire"), 1)
	inner := testkit.Acquire(t, l.With(engine.FixedLease(time.Hour)))
	entry := testkit.Await(t, lost.C(), "the answer was lost")
	testkit.Release(t, inner)
	require.Equal(t, "1", s.Do(t, "HGET", outer.Name(), outer.OwnerID()))
	s.Do(t, entry...)
	require.Equal(t, "2", s.Do(t, "HGET", outer.Name(), outer.OwnerID()), "the late copy came too late for this test")
	return outer
}

// A hash of Redisson's has room for a count and for nothing that would tell an old command from a new one. So a
// copy of an entry can count again until its not-after, and as soon as none can the hold is settled.
func TestALateCopyOfAnEntryIsSettled(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	outer := lateEntry(t, p, s, e.Lock("name", engine.As(engine.NewOwner()), engine.WatchdogLease(4*time.Second)))
	began := time.Now()
	testkit.Eventually(t, "the count is that of the handles", func() bool {
		return s.Do(t, "HGET", "name", outer.OwnerID()) == "1"
	})
	require.Less(t, testkit.Ran(began), testkit.AttemptLimit+testkit.LimitSlack)
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "name")), 4*time.Second)
	require.False(t, testkit.Expiry(t, s, "name").Before(outer.Deadline()), "trusted for longer than the server keeps it")
	testkit.Eventually(t, "the answer", func() bool { return !engine.Changing(outer) })
	testkit.Release(t, outer)
	testkit.Finish(t, s, e)
}

func TestNobodyWaitsForAHoldToBeSettled(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	outer := lateEntry(t, p, s, e.Lock("name", engine.As(engine.NewOwner())))
	lost := p.DropReply(testkit.ScriptCall("reacquire"), -1)
	testkit.Await(t, lost.C(), "it is settled, and has no answer")
	testkit.Release(t, outer)
	lost.Remove()
	next := testkit.Acquire(t, e.Lock("name"))
	testkit.RequireHeldOnce(t, s, next)
	testkit.Release(t, next)
	testkit.Finish(t, s, e)
}

// An acquire that is asked for again asks for the lock, not for a count: who has it has entered again since, perhaps.
func TestALateCopyOfAnAcquireLeavesTheCount(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	lost := p.DropReply(testkit.ScriptCall("acquire"), 1)
	again := p.DropReply(testkit.ScriptCall("reacquire"), 1)
	outer := testkit.Acquire(t, l)
	testkit.Await(t, lost.C(), "the first answer was lost")
	copied := testkit.Await(t, again.C(), "the second, too")
	inner := testkit.Acquire(t, l)
	s.Do(t, copied...)
	require.Equal(t, "2", s.Do(t, "HGET", "name", outer.OwnerID()))
	testkit.Release(t, inner)
	testkit.Release(t, outer)
	testkit.Finish(t, s, e)
}

// Renewals and what lowers a key's expiry travel on different connections.
func TestARenewalOfALongerLeaseThatComesLateIsSettled(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	o := engine.NewOwner()
	outer := testkit.Acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(2*time.Second)))
	inner := testkit.Acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(30*time.Second)))
	held := p.Hold(func(cmd []string) bool { return testkit.ScriptCall("renew")(cmd) && slices.Contains(cmd, "30000") }, 1)
	testkit.Await(t, held.C(), "a renewal of the longer lease is on its way")
	testkit.Release(t, inner)
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "name")), 2*time.Second)
	p.ReleaseCommands()
	require.NoError(t, p.Idle(testkit.Limited(t)), "it has come")
	testkit.Eventually(t, "the key lives as long as is asked for", func() bool { return time.Until(testkit.Expiry(t, s, "name")) <= 2*time.Second })
	require.False(t, outer.Lost())
	testkit.RequireKept(t, e, outer, 0, 2)
	testkit.Release(t, outer)
	testkit.Finish(t, s, e)
}
