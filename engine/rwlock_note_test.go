package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// soon is much less than the time for which the note of a waiting writer keeps readers out.
const soon = time.Second

// A writer gives up while others read. A reader behind it does not wait for nobody.
func TestAWriterThatGivesUpTakesItsNoteBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	for _, leaves := range []func(w *engine.Future[*engine.Lease], end func()){
		func(w *engine.Future[*engine.Lease], _ func()) { w.Cancel() },
		func(_ *engine.Future[*engine.Lease], end func()) { end() },
	} {
		theirs := acquire(t, other.RWLock("rw").ReadLock())
		ctx, end := context.WithCancel(limited(t))
		w := e.RWLock("rw").WriteLock().AcquireAsync(ctx)
		eventually(t, "the writer waits", func() bool { return exists(t, s, "{rw}:rwlock_writer") && e.Stats().Waiting == 1 })
		reader := e.RWLock("rw").ReadLock().AcquireAsync(limited(t))
		_, _, ok := reader.Result()
		require.False(t, ok, "a writer waits")
		began := time.Now()
		leaves(w, end)
		end()
		ls, err := reader.Await(limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(began), soon, "it waited for nobody")
		require.False(t, exists(t, s, "{rw}:rwlock_writer"))
		release(t, ls)
		release(t, theirs)
	}
	finish(t, s, e, other)
}

// A writer gives up while its acquire is on its way: the note comes later than the writer has left.
func TestANoteThatComesAfterItsWriterHasLeftIsTakenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.RWLock("rw").ReadLock())
	held := p.Hold(scriptCall("write"), 1)
	w := e.RWLock("rw").WriteLock().AcquireAsync(limited(t))
	await(t, held.C(), "the writer's acquire is on its way")
	reader := e.RWLock("rw").ReadLock().AcquireAsync(limited(t))
	require.True(t, w.Cancel())
	began := time.Now()
	require.Positive(t, p.ReleaseCommands())
	ls, err := reader.Await(limited(t))
	require.NoError(t, err)
	require.Less(t, time.Since(began), soon, "it waited for nobody")
	release(t, ls)
	release(t, theirs)
	eventually(t, "the note is taken back", func() bool { return !exists(t, s, "{rw}:rwlock_writer") })
	finish(t, s, e, other)
}

// Two writers wait in one engine, and one gives up: the other waits on, and no reader overtakes it.
func TestTheNoteStaysForTheWriterThatWaitsOn(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.RWLock("rw").ReadLock())
	first, second := e.RWLock("rw").WriteLock().AcquireAsync(limited(t)), e.RWLock("rw").WriteLock().AcquireAsync(limited(t))
	eventually(t, "the writers wait", func() bool { return exists(t, s, "{rw}:rwlock_writer") })
	sent := calls(t, s, "evalsha")
	require.True(t, first.Cancel())
	_, err := openEngine(t, s.Addr()).RWLock("rw").ReadLock().TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "a writer waits")
	require.Greater(t, calls(t, s, "evalsha"), sent)
	require.True(t, exists(t, s, "{rw}:rwlock_writer"))
	release(t, theirs)
	ls, err := second.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// A write hold was lost, and its release has no answer for longer than its lease. Its owner reads on, and that
// keeps the key: so the release is not given up, or nobody else could read for as long.
func TestALostWriteHoldIsReleasedHoweverLongItsOwnerReads(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock().With(engine.FixedLease(500*time.Millisecond)))
	r := acquire(t, rw.ReadLock().With(engine.WatchdogLease(time.Second)))
	dropped := p.DropCommand(scriptCall("writerelease"), -1)
	await(t, w.Context().Done(), "the write hold is lost")
	require.ErrorIs(t, w.Release(limited(t)), engine.ErrLost)
	await(t, dropped.C(), "its release")
	lastUntil(time.Now().Add(attemptLimit + 2*time.Second)) // longer than a lease and an attempt
	dropped.Remove()
	theirs := acquire(t, other.RWLock("rw", engine.MaxWait(5*time.Second)).ReadLock())
	require.False(t, r.Lost())
	release(t, theirs)
	release(t, r)
	finish(t, s, e, other)
}

// A write hold is lost while its release gets no answer. Its owner does not read any more, but has read for so long a
// lease that the key lives on: what nobody has is released all the same.
func TestALostWriteHoldIsReleasedHoweverLongItsOwnerHasRead(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*engine.Lock) *engine.Lease{
		"Granted": func(l *engine.Lock) *engine.Lease { return acquire(t, l.With(engine.WatchdogLease(20*time.Second))) },
		"Extended": func(l *engine.Lock) *engine.Lease {
			ls := acquire(t, l.With(engine.FixedLease(time.Second)))
			require.NoError(t, ls.Extend(limited(t), 20*time.Second))
			return ls
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
			rw := e.RWLock("rw", engine.As(engine.NewOwner()))
			w := acquire(t, rw.WriteLock().With(engine.FixedLease(700*time.Millisecond)))
			r := read(rw.ReadLock())
			dropped := []*faultproxy.Rule{p.DropCommand(scriptCall("writerelease"), -1), p.DropCommand(scriptCall("readrelease"), -1)}
			given := r.ReleaseAsync()
			await(t, w.Context().Done(), "the write hold is lost")
			require.ErrorIs(t, w.Release(limited(t)), engine.ErrLost)
			for _, d := range dropped {
				await(t, d.C(), "a release")
			}
			lastUntil(time.Now().Add(attemptLimit + 2*time.Second)) // longer than a lease and an attempt
			for _, d := range dropped {
				d.Remove()
			}
			_, _ = given.Await(limited(t)) // its caller may have been told that nobody knows
			release(t, acquire(t, other.RWLock("rw", engine.MaxWait(5*time.Second)).ReadLock()))
			finish(t, s, e, other)
		})
	}
}

// An owner reads for long, and reads again for less; others read and leave. The first reading is kept for as
// long as it was granted.
func TestReadingAgainForLessTakesNoTimeAway(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	read := e.RWLock("rw", engine.As(engine.NewOwner()), engine.FixedLease(500*time.Millisecond)).ReadLock()
	long := acquire(t, read)
	require.NoError(t, long.Extend(limited(t), 20*time.Second))
	short := acquire(t, read)
	release(t, acquire(t, other.RWLock("rw").ReadLock()))
	require.False(t, expiry(t, s, "rw").Before(long.Deadline()))
	mark := "{rw}:" + long.OwnerID() + ":rwlock_timeout:1"
	require.False(t, expiry(t, s, mark).Before(long.Deadline()))
	await(t, short.Context().Done(), "the shorter lease ends")
	require.False(t, long.Lost())
	_, err := other.RWLock("rw").WriteLock().TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "one reads")
	require.ErrorIs(t, short.Release(limited(t)), engine.ErrLost)
	release(t, long)
	finish(t, s, e, other)
}
