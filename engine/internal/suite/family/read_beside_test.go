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

// A read release has no answer and is sent again. The owner, who writes, reads again. The first copy of the
// release arrives then: it must not take what is read now.
func TestALateCopyOfAReadReleaseTakesNoLaterReadHold(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock())
	first := testkit.Acquire(t, rw.ReadLock())
	held := p.Hold(testkit.ScriptCall("readrelease"), 1)
	released := first.ReleaseAsync()
	testkit.Await(t, held.C(), "the release is held back")
	_, err := released.Await(testkit.Limited(t))
	require.NoError(t, err, "it was sent again")
	second := testkit.Acquire(t, rw.ReadLock())
	require.NotEqual(t, first.OwnerID(), second.OwnerID())
	testkit.Release(t, w)
	require.Positive(t, p.ReleaseCommands())
	require.NoError(t, p.Idle(testkit.Limited(t)))
	_, err = other.RWLock("name").WriteLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "one reads")
	require.False(t, second.Lost())
	testkit.Release(t, second)
	testkit.Finish(t, s, e, other)
}

// One owner asks to read twice before it has an answer: two handles, two read holds. Giving one back leaves
// the other.
func TestTwoReadingsBesideOneWriteAreTwoReadHolds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock())
	f1, f2 := rw.ReadLock().AcquireAsync(testkit.Limited(t)), rw.ReadLock().AcquireAsync(testkit.Limited(t))
	r1, err := f1.Await(testkit.Limited(t))
	require.NoError(t, err)
	r2, err := f2.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NotEqual(t, r1.OwnerID(), r2.OwnerID())
	third := testkit.Acquire(t, rw.ReadLock())
	require.Contains(t, []string{r1.OwnerID(), r2.OwnerID()}, third.OwnerID(), "one that is held is shared")
	for _, ls := range []*engine.Lease{r1, third, w} {
		testkit.Release(t, ls)
		_, err = other.RWLock("name").WriteLock().TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld, "one reads")
		require.False(t, r2.Lost())
	}
	testkit.Release(t, r2)
	next, err := other.RWLock("name").WriteLock().TryAcquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, next)
	testkit.Finish(t, s, e, other)
}

// A writer asks to read, gets no answer, and gives the write lock back meanwhile: it goes on reading, whoever
// waits to write.
func TestAWriterThatAskedToReadGoesOnReading(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock())
	next := other.RWLock("name").WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "the next writer has subscribed", func() bool { return other.Stats().WokenBySubscribe > 0 })
	dropped := p.DropCommand(testkit.ScriptCall("read"), 4) // for longer than the next writer needs
	reading := rw.ReadLock().AcquireAsync(testkit.Limited(t))
	testkit.Await(t, dropped.C(), "the reading is lost on its way")
	released := w.ReleaseAsync()
	r, err := reading.Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = released.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "read", s.Do(t, "HGET", "name", "mode"))
	_, _, ok := next.Result()
	require.False(t, ok, "a writer overtook it")
	testkit.Release(t, r)
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// While its owner reads, or has asked to, a write lock is not passed on inside the engine.
func TestAWriteHoldIsNotPassedOnWhileItsOwnerReads(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	p.Delay(20*time.Millisecond, 0) // a turn is ten round trips
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	for range 3 {
		w := testkit.Acquire(t, rw.WriteLock())
		r := testkit.Acquire(t, rw.ReadLock())
		next := e.RWLock("name").WriteLock().AcquireAsync(testkit.Limited(t))
		testkit.Release(t, w)
		require.Equal(t, "read", s.Do(t, "HGET", "name", "mode"))
		_, _, ok := next.Result()
		require.False(t, ok, "one reads")
		testkit.Release(t, r)
		ls, err := next.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, e)
}

// Somebody who reads asks to read on other terms, which needs a read hold of its own. A writer waits for it:
// it must not wait for the writer.
func TestAReaderEntersAgainBesideAWriterThatWaits(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	read := e.RWLock("name", engine.As(o)).ReadLock()
	first := testkit.Acquire(t, read)
	next := other.RWLock("name").WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "a writer waits", func() bool { return testkit.Exists(t, s, "{name}:rwlock_writer") })
	second := testkit.Acquire(t, read.With(engine.FixedLease(15*time.Second)))
	require.NotEqual(t, first.OwnerID(), second.OwnerID())
	require.Equal(t, 2, o.Holds(read))
	testkit.Release(t, first)
	require.Equal(t, 1, o.Holds(read))
	_, _, ok := next.Result()
	require.False(t, ok, "one reads")
	testkit.Release(t, second)
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// An owner asks to read beside a lock that it believes to hold, and that is gone: both are told.
func TestAReadingBesideALockThatIsGoneIsTold(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock().With(engine.FixedLease(time.Minute))) // no renewal finds out
	s.Do(t, "DEL", "name")
	theirs := testkit.Acquire(t, other.RWLock("name").WriteLock())
	_, err := rw.ReadLock().Acquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	require.True(t, w.Lost())
	require.ErrorIs(t, w.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Release(t, theirs)
	testkit.Finish(t, s, e, other)
}

// What was read is given back while the same owner's next reading is on its way. It is no way in any more:
// the reader waits for the writer that waits, and then reads.
func TestAReadingWhoseHoldWasGivenBackWaitsLikeOthers(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	read := e.RWLock("name", engine.As(engine.NewOwner()), engine.FixedLease(15*time.Second)).ReadLock()
	first := testkit.Acquire(t, read)
	next := other.RWLock("name").WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "a writer waits", func() bool { return testkit.Exists(t, s, "{name}:rwlock_writer") })
	held := p.Hold(testkit.ScriptCall("read"), 1)
	asked := read.AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the reading is on its way")
	s.Do(t, "HDEL", "name", first.OwnerID()) // as its release, that another connection carried
	released := first.ReleaseAsync()
	require.Positive(t, p.ReleaseCommands())
	_, err := released.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	_ = next
	_, _, ok := asked.Result()
	require.False(t, ok, "a writer waits")
	s.Do(t, "DEL", "name")
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	r, err := asked.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, r)
	s.Do(t, "DEL", "{name}:"+first.OwnerID()+":rwlock_timeout:1")
	testkit.Finish(t, s, e, other)
}
