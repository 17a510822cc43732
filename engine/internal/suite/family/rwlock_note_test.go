package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// soon is much less than the time for which the note of a waiting writer keeps readers out.
const soon = time.Second

// A writer gives up while others read. A reader behind it does not wait for nobody.
func TestAWriterThatGivesUpTakesItsNoteBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	for _, leaves := range []func(w *engine.Future[*engine.Lease], end func()){
		func(w *engine.Future[*engine.Lease], _ func()) { w.Cancel() },
		func(_ *engine.Future[*engine.Lease], end func()) { end() },
	} {
		theirs := testkit.Acquire(t, other.RWLock("rw").ReadLock())
		ctx, end := context.WithCancel(testkit.Limited(t))
		w := e.RWLock("rw").WriteLock().AcquireAsync(ctx)
		testkit.Eventually(t, "the writer waits", func() bool { return testkit.Exists(t, s, "{rw}:rwlock_writer") && e.Stats().Waiting == 1 })
		reader := e.RWLock("rw").ReadLock().AcquireAsync(testkit.Limited(t))
		_, _, ok := reader.Result()
		require.False(t, ok, "a writer waits")
		began := time.Now()
		leaves(w, end)
		end()
		ls, err := reader.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, testkit.Ran(began), soon, "it waited for nobody")
		require.False(t, testkit.Exists(t, s, "{rw}:rwlock_writer"))
		testkit.Release(t, ls)
		testkit.Release(t, theirs)
	}
	testkit.Finish(t, s, e, other)
}

// A writer gives up while its acquire is on its way: the note comes later than the writer has left.
func TestANoteThatComesAfterItsWriterHasLeftIsTakenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.RWLock("rw").ReadLock())
	held := p.Hold(testkit.ScriptCall("write"), 1)
	w := e.RWLock("rw").WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the writer's acquire is on its way")
	reader := e.RWLock("rw").ReadLock().AcquireAsync(testkit.Limited(t))
	require.True(t, w.Cancel())
	began := time.Now()
	require.Positive(t, p.ReleaseCommands())
	ls, err := reader.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(began), soon, "it waited for nobody")
	testkit.Release(t, ls)
	testkit.Release(t, theirs)
	testkit.Eventually(t, "the note is taken back", func() bool { return !testkit.Exists(t, s, "{rw}:rwlock_writer") })
	testkit.Finish(t, s, e, other)
}

// Two writers wait in one engine, and one gives up: the other waits on, and no reader overtakes it.
func TestTheNoteStaysForTheWriterThatWaitsOn(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.RWLock("rw").ReadLock())
	first, second := e.RWLock("rw").WriteLock().AcquireAsync(testkit.Limited(t)), e.RWLock("rw").WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "the writers wait, and their engine knows", func() bool {
		return e.Stats().Waits > 0 && testkit.Exists(t, s, "{rw}:rwlock_writer")
	})
	sent := testkit.CallsOf(t, s, "evalsha")
	require.True(t, first.Cancel())
	_, err := e.RWLock("rw").ReadLock().Inspect(testkit.Limited(t)) // travels behind what follows from that
	require.NoError(t, err)
	_, err = testkit.Open(t, s.Addr()).RWLock("rw").ReadLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "a writer waits")
	require.Greater(t, testkit.CallsOf(t, s, "evalsha"), sent)
	require.True(t, testkit.Exists(t, s, "{rw}:rwlock_writer"))
	testkit.Release(t, theirs)
	ls, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// A write hold was lost, and its release has no answer for longer than its lease. Its owner reads on, and that
// keeps the key: so the release is not given up, or nobody else could read for as long.
func TestALostWriteHoldIsReleasedHoweverLongItsOwnerReads(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("rw", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(500*time.Millisecond)))
	r := testkit.Acquire(t, rw.ReadLock().With(engine.WatchdogLease(2*time.Second)))
	dropped := p.DropCommand(testkit.ScriptCall("writerelease"), -1)
	testkit.Await(t, w.Context().Done(), "the write hold is lost")
	require.ErrorIs(t, w.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Await(t, dropped.C(), "its release")
	testkit.LastUntil(time.Now().Add(testkit.AttemptLimit + 3*time.Second)) // longer than a lease and an attempt
	dropped.Remove()
	theirs := testkit.Acquire(t, other.RWLock("rw", engine.MaxWait(5*time.Second)).ReadLock())
	require.False(t, r.Lost())
	testkit.Release(t, theirs)
	testkit.Release(t, r)
	testkit.Finish(t, s, e, other)
}

// A write hold is lost while its release gets no answer. Its owner does not read any more, but has read for so long a
// lease that the key lives on: what nobody has is released all the same.
func TestALostWriteHoldIsReleasedHoweverLongItsOwnerHasRead(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*engine.Lock) *engine.Lease{
		"Granted": func(l *engine.Lock) *engine.Lease {
			return testkit.Acquire(t, l.With(engine.WatchdogLease(20*time.Second)))
		},
		"Extended": func(l *engine.Lock) *engine.Lease {
			ls := testkit.Acquire(t, l.With(engine.FixedLease(time.Second)))
			require.NoError(t, ls.Extend(testkit.Limited(t), 20*time.Second))
			return ls
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
			rw := e.RWLock("rw", engine.As(engine.NewOwner()))
			w := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(700*time.Millisecond)))
			r := read(rw.ReadLock())
			dropped := []*faultproxy.Rule{p.DropCommand(testkit.ScriptCall("writerelease"), -1), p.DropCommand(testkit.ScriptCall("readrelease"), -1)}
			given := r.ReleaseAsync()
			testkit.Await(t, w.Context().Done(), "the write hold is lost")
			require.ErrorIs(t, w.Release(testkit.Limited(t)), engine.ErrLost)
			for _, d := range dropped {
				testkit.Await(t, d.C(), "a release")
			}
			testkit.LastUntil(time.Now().Add(testkit.AttemptLimit + 2*time.Second)) // longer than a lease and an attempt
			for _, d := range dropped {
				d.Remove()
			}
			_, _ = given.Await(testkit.Limited(t)) // its caller may have been told that nobody knows
			testkit.Release(t, testkit.Acquire(t, other.RWLock("rw", engine.MaxWait(5*time.Second)).ReadLock()))
			testkit.Finish(t, s, e, other)
		})
	}
}

// An owner reads for long, and reads again for less; others read and leave. The first reading is kept for as
// long as it was granted.
func TestReadingAgainForLessTakesNoTimeAway(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	read := e.RWLock("rw", engine.As(engine.NewOwner()), engine.FixedLease(500*time.Millisecond)).ReadLock()
	long := testkit.Acquire(t, read)
	require.NoError(t, long.Extend(testkit.Limited(t), 20*time.Second))
	short := testkit.Acquire(t, read)
	testkit.Release(t, testkit.Acquire(t, other.RWLock("rw").ReadLock()))
	require.False(t, testkit.Expiry(t, s, "rw").Before(long.Deadline()))
	mark := "{rw}:" + long.OwnerID() + ":rwlock_timeout:1"
	require.False(t, testkit.Expiry(t, s, mark).Before(long.Deadline()))
	testkit.Await(t, short.Context().Done(), "the shorter lease ends")
	require.False(t, long.Lost())
	_, err := other.RWLock("rw").WriteLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "one reads")
	require.ErrorIs(t, short.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Release(t, long)
	testkit.Finish(t, s, e, other)
}
