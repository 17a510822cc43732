package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A read release has no answer and is sent again. The owner, who writes, reads again. The first copy of the
// release arrives then: it must not take what is read now.
func TestALateCopyOfAReadReleaseTakesNoLaterReadHold(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock())
	first := acquire(t, rw.ReadLock())
	held := p.Hold(scriptCall("readrelease"), 1)
	released := first.ReleaseAsync()
	await(t, held.C(), "the release is held back")
	_, err := released.Await(limited(t))
	require.NoError(t, err, "it was sent again")
	second := acquire(t, rw.ReadLock())
	require.NotEqual(t, first.OwnerID(), second.OwnerID())
	release(t, w)
	require.Positive(t, p.ReleaseCommands())
	require.NoError(t, p.Idle(limited(t)))
	_, err = other.RWLock("name").WriteLock().TryAcquire(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld, "one reads")
	require.False(t, second.Lost())
	release(t, second)
	finish(t, s, e, other)
}

// One owner asks to read twice before it has an answer: two handles, two read holds. Giving one back leaves
// the other.
func TestTwoReadingsBesideOneWriteAreTwoReadHolds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock())
	f1, f2 := rw.ReadLock().AcquireAsync(limited(t)), rw.ReadLock().AcquireAsync(limited(t))
	r1, err := f1.Await(limited(t))
	require.NoError(t, err)
	r2, err := f2.Await(limited(t))
	require.NoError(t, err)
	require.NotEqual(t, r1.OwnerID(), r2.OwnerID())
	third := acquire(t, rw.ReadLock())
	require.Contains(t, []string{r1.OwnerID(), r2.OwnerID()}, third.OwnerID(), "one that is held is shared")
	for _, ls := range []*engine.Lease{r1, third, w} {
		release(t, ls)
		_, err = other.RWLock("name").WriteLock().TryAcquire(limited(t))
		require.ErrorIs(t, err, engine.ErrHeld, "one reads")
		require.False(t, r2.Lost())
	}
	release(t, r2)
	next, err := other.RWLock("name").WriteLock().TryAcquire(limited(t))
	require.NoError(t, err)
	release(t, next)
	finish(t, s, e, other)
}

// A writer asks to read, gets no answer, and gives the write lock back meanwhile: it goes on reading, whoever
// waits to write.
func TestAWriterThatAskedToReadGoesOnReading(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock())
	next := other.RWLock("name").WriteLock().AcquireAsync(limited(t))
	eventually(t, "the next writer has subscribed", func() bool { return other.Stats().WokenBySubscribe > 0 })
	dropped := p.DropCommand(scriptCall("read"), 4) // for longer than the next writer needs
	reading := rw.ReadLock().AcquireAsync(limited(t))
	await(t, dropped.C(), "the reading is lost on its way")
	released := w.ReleaseAsync()
	r, err := reading.Await(limited(t))
	require.NoError(t, err)
	_, err = released.Await(limited(t))
	require.NoError(t, err)
	require.Equal(t, "read", s.Do(t, "HGET", "name", "mode"))
	_, _, ok := next.Result()
	require.False(t, ok, "a writer overtook it")
	release(t, r)
	ls, err := next.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// While its owner reads, or has asked to, a write lock is not passed on inside the engine.
func TestAWriteHoldIsNotPassedOnWhileItsOwnerReads(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	p.Delay(20*time.Millisecond, 0) // a turn is ten round trips
	e := openEngine(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	for range 3 {
		w := acquire(t, rw.WriteLock())
		r := acquire(t, rw.ReadLock())
		next := e.RWLock("name").WriteLock().AcquireAsync(limited(t))
		release(t, w)
		require.Equal(t, "read", s.Do(t, "HGET", "name", "mode"))
		_, _, ok := next.Result()
		require.False(t, ok, "one reads")
		release(t, r)
		ls, err := next.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	finish(t, s, e)
}

// Somebody who reads asks to read on other terms, which needs a read hold of its own. A writer waits for it:
// it must not wait for the writer.
func TestAReaderEntersAgainBesideAWriterThatWaits(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	o := engine.NewOwner()
	read := e.RWLock("name", engine.As(o)).ReadLock()
	first := acquire(t, read)
	next := other.RWLock("name").WriteLock().AcquireAsync(limited(t))
	eventually(t, "a writer waits", func() bool { return exists(t, s, "{name}:rwlock_writer") })
	second := acquire(t, read.With(engine.FixedLease(15*time.Second)))
	require.NotEqual(t, first.OwnerID(), second.OwnerID())
	require.Equal(t, 2, o.Holds(read))
	release(t, first)
	require.Equal(t, 1, o.Holds(read))
	_, _, ok := next.Result()
	require.False(t, ok, "one reads")
	release(t, second)
	ls, err := next.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// An owner asks to read beside a lock that it believes to hold, and that is gone: both are told.
func TestAReadingBesideALockThatIsGoneIsTold(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock().With(engine.FixedLease(time.Minute))) // no renewal finds out
	s.Do(t, "DEL", "name")
	theirs := acquire(t, other.RWLock("name").WriteLock())
	_, err := rw.ReadLock().Acquire(limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	require.True(t, w.Lost())
	require.ErrorIs(t, w.Release(limited(t)), engine.ErrLost)
	release(t, theirs)
	finish(t, s, e, other)
}

// What was read is given back while the same owner's next reading is on its way. It is no way in any more:
// the reader waits for the writer that waits, and then reads.
func TestAReadingWhoseHoldWasGivenBackWaitsLikeOthers(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	read := e.RWLock("name", engine.As(engine.NewOwner()), engine.FixedLease(15*time.Second)).ReadLock()
	first := acquire(t, read)
	next := other.RWLock("name").WriteLock().AcquireAsync(limited(t))
	eventually(t, "a writer waits", func() bool { return exists(t, s, "{name}:rwlock_writer") })
	held := p.Hold(scriptCall("read"), 1)
	asked := read.AcquireAsync(limited(t))
	await(t, held.C(), "the reading is on its way")
	s.Do(t, "HDEL", "name", first.OwnerID()) // as its release, that another connection carried
	released := first.ReleaseAsync()
	require.Positive(t, p.ReleaseCommands())
	_, err := released.Await(limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	_ = next
	_, _, ok := asked.Result()
	require.False(t, ok, "a writer waits")
	s.Do(t, "DEL", "name")
	ls, err := next.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	r, err := asked.Await(limited(t))
	require.NoError(t, err)
	release(t, r)
	s.Do(t, "DEL", "{name}:"+first.OwnerID()+":rwlock_timeout:1")
	finish(t, s, e, other)
}
