package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// What a crashed holder of a read-write lock leaves is free after the lease of what it still held.
func TestADowngradeLeavesTheKeyTheReadersLease(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	writer := acquire(t, rw.WriteLock().With(engine.FixedLease(time.Hour)))
	reader := acquire(t, rw.ReadLock().With(engine.WatchdogLease(2*time.Second)))
	require.Greater(t, time.Until(expiry(t, s, "rw")), 59*time.Minute)
	release(t, writer)
	require.LessOrEqual(t, time.Until(expiry(t, s, "rw")), 2*time.Second)
	require.False(t, expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	requireKept(t, e, reader, time.Second, 2)
	release(t, reader)
	finish(t, s, e)
}

// Redisson's readers say by their marks how long they read. Nobody cuts them short, and the dead keep nothing.
func TestADowngradeLeavesTheKeyAsLongAsTheLongestReaderOfRedissons(t *testing.T) {
	t.Parallel()
	for name, marks := range map[string][]string{"alive": {"4000", "9000"}, "dead": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := openEngine(t, s.Addr())
			writer := acquire(t, e.RWLock("rw", engine.FixedLease(time.Hour)).WriteLock())
			s.Do(t, "HSET", "rw", "java:7", "2")
			for i, ms := range marks {
				s.Do(t, "SET", numbered("{rw}:java:7:rwlock_timeout", i+1), "1", "PX", ms)
			}
			release(t, writer)
			if marks == nil {
				require.False(t, exists(t, s, "rw"))
				finish(t, s, e)
				return
			}
			require.Equal(t, "read", s.Do(t, "HGET", "rw", "mode"))
			longest := expiry(t, s, "{rw}:java:7:rwlock_timeout:2")
			require.WithinDuration(t, longest, expiry(t, s, "rw"), 5*time.Millisecond, "the script reads what is left, and the server's clock goes on")
			s.Do(t, "DEL", "rw", "{rw}:java:7:rwlock_timeout:1", "{rw}:java:7:rwlock_timeout:2")
			finish(t, s, e)
		})
	}
}

func TestAReaderThatLeavesItsWriterTakesItsLeaseAlong(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := openEngine(t, p.Addr())
		rw := e.RWLock("rw", engine.As(engine.NewOwner()))
		writer := acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
		reading := rw.ReadLock().With(engine.FixedLease(time.Hour))
		if cancelled {
			held := p.Hold(scriptCall("read"), 1)
			f := reading.AcquireAsync(limited(t))
			await(t, held.C(), "it is on its way")
			require.True(t, f.Cancel())
			p.ReleaseCommands()
			eventually(t, "nobody wants it", func() bool { return e.Stats().Ghosts == 1 })
		} else {
			reader := acquire(t, reading)
			require.Greater(t, time.Until(expiry(t, s, "rw")), 59*time.Minute)
			release(t, reader)
		}
		eventually(t, "the key lives as long as its writer asks for", func() bool {
			return time.Until(expiry(t, s, "rw")) <= 2*time.Second
		})
		require.False(t, expiry(t, s, "rw").Before(writer.Deadline()), "trusted for longer than the server keeps it")
		requireKept(t, e, writer, 0, 2)
		release(t, writer)
		finish(t, s, e)
	}
}

func TestAReaderOfTheSameLeaseCostsItsWriterNoCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	settled := watchCommands(p, scriptCall("reacquire"))
	e := openEngine(t, p.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	writer := acquire(t, rw.WriteLock())
	release(t, acquire(t, rw.ReadLock()))
	release(t, writer)
	require.Empty(t, settled)
	finish(t, s, e)
}

func TestAWriterThatGivesBackALongEntryKeepsTheKeyForItselfAndItsReader(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	outer := acquire(t, rw.WriteLock().With(engine.WatchdogLease(2*time.Second)))
	reader := acquire(t, rw.ReadLock().With(engine.FixedLease(time.Minute)))
	inner := acquire(t, rw.WriteLock().With(engine.FixedLease(time.Hour)))
	require.Greater(t, time.Until(expiry(t, s, "rw")), 59*time.Minute)
	release(t, inner)
	require.LessOrEqual(t, time.Until(expiry(t, s, "rw")), time.Minute)
	require.False(t, expiry(t, s, "rw").Before(reader.Deadline()), "trusted for longer than the server keeps it")
	release(t, reader)
	eventually(t, "the key lives as long as its writer asks for", func() bool {
		return time.Until(expiry(t, s, "rw")) <= 2*time.Second
	})
	release(t, outer)
	finish(t, s, e)
}

// lateEntry has an owner enter twice and leave once, and then a copy of the entry run that had no answer.
func lateEntry(t *testing.T, p *faultproxy.Proxy, s *redistest.Server, l *engine.Lock) *engine.Lease {
	t.Helper()
	outer := acquire(t, l)
	lost := p.DropReply(scriptCall("reacquire"), 1)
	inner := acquire(t, l.With(engine.FixedLease(time.Hour)))
	entry := await(t, lost.C(), "the answer was lost")
	release(t, inner)
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
	e := openEngine(t, p.Addr())
	outer := lateEntry(t, p, s, e.Lock("name", engine.As(engine.NewOwner()), engine.WatchdogLease(4*time.Second)))
	began := time.Now()
	eventually(t, "the count is that of the handles", func() bool {
		return s.Do(t, "HGET", "name", outer.OwnerID()) == "1"
	})
	require.Less(t, time.Since(began), attemptLimit+limitSlack)
	require.LessOrEqual(t, time.Until(expiry(t, s, "name")), 4*time.Second)
	require.False(t, expiry(t, s, "name").Before(outer.Deadline()), "trusted for longer than the server keeps it")
	eventually(t, "the answer", func() bool { return !engine.Changing(outer) })
	release(t, outer)
	finish(t, s, e)
}

func TestNobodyWaitsForAHoldToBeSettled(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	outer := lateEntry(t, p, s, e.Lock("name", engine.As(engine.NewOwner())))
	lost := p.DropReply(scriptCall("reacquire"), -1)
	await(t, lost.C(), "it is settled, and has no answer")
	release(t, outer)
	lost.Remove()
	next := acquire(t, e.Lock("name"))
	requireHeldOnce(t, s, next)
	release(t, next)
	finish(t, s, e)
}

// An acquire that is asked for again asks for the lock, not for a count: who has it has entered again since, perhaps.
func TestALateCopyOfAnAcquireLeavesTheCount(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	lost := p.DropReply(scriptCall("acquire"), 1)
	again := p.DropReply(scriptCall("reacquire"), 1)
	outer := acquire(t, l)
	await(t, lost.C(), "the first answer was lost")
	copied := await(t, again.C(), "the second, too")
	inner := acquire(t, l)
	s.Do(t, copied...)
	require.Equal(t, "2", s.Do(t, "HGET", "name", outer.OwnerID()))
	release(t, inner)
	release(t, outer)
	finish(t, s, e)
}

// Renewals and what lowers a key's expiry travel on different connections.
func TestARenewalOfALongerLeaseThatComesLateIsSettled(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	o := engine.NewOwner()
	outer := acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(2*time.Second)))
	inner := acquire(t, e.Lock("name", engine.As(o), engine.WatchdogLease(30*time.Second)))
	held := p.Hold(func(cmd []string) bool { return scriptCall("renew")(cmd) && slices.Contains(cmd, "30000") }, 1)
	await(t, held.C(), "a renewal of the longer lease is on its way")
	release(t, inner)
	require.LessOrEqual(t, time.Until(expiry(t, s, "name")), 2*time.Second)
	p.ReleaseCommands()
	require.NoError(t, p.Idle(limited(t)), "it has come")
	eventually(t, "the key lives as long as is asked for", func() bool { return time.Until(expiry(t, s, "name")) <= 2*time.Second })
	require.False(t, outer.Lost())
	requireKept(t, e, outer, 0, 2)
	release(t, outer)
	finish(t, s, e)
}
