package family_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestReadersShareAndAWriterIsAlone(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ra, rb := a.RWLock("rw"), b.RWLock("rw")
	one, two, far := testkit.Acquire(t, ra.ReadLock()), testkit.Acquire(t, ra.ReadLock()), testkit.Acquire(t, rb.ReadLock())
	require.Equal(t, one.OwnerID(), two.OwnerID(), "readers of one engine share a field")
	require.NotEqual(t, one.OwnerID(), far.OwnerID())
	for _, l := range []*engine.Lock{ra.WriteLock(), rb.WriteLock()} {
		_, err := l.TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
	}
	info, err := rb.ReadLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "read", info.Mode)
	require.Equal(t, 2, info.Holds)
	require.True(t, info.Mine)
	require.Equal(t, far.OwnerID(), info.OwnerID)
	info, err = rb.WriteLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, info.Locked)

	sub, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer sub.Close()
	require.NoError(t, sub.Send("SUBSCRIBE", "redisson_rwlock:{rw}"))
	_, err = sub.Receive(testkit.Limited(t))
	require.NoError(t, err)
	writer := rb.WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Release(t, one)
	testkit.Release(t, far)
	_, _, ok := writer.Result()
	require.False(t, ok, "one reads on")
	require.Equal(t, "1", s.Do(t, "HGET", "rw", two.OwnerID()))
	testkit.Eventually(t, "the writer listens", func() bool { return b.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, two)
	_, err = sub.Receive(testkit.Limited(t))
	require.NoError(t, err, "the last reader tells who waits that it has left: nobody needs to poll")
	w, err := writer.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "write", s.Do(t, "HGET", "rw", "mode"))
	_, err = ra.ReadLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	readers := []*engine.Future[*engine.Lease]{ra.ReadLock().AcquireAsync(testkit.Limited(t)), rb.ReadLock().AcquireAsync(testkit.Limited(t))}
	testkit.Release(t, w)
	for _, f := range readers {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, a, b)
}

func TestWriterGoesOnReading(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	l := a.RWLock("rw")
	w, err := l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	r, err := l.ReadLock().Acquire(ctx)
	require.NoError(t, err)
	require.NotEqual(t, r.OwnerID()+":write", w.OwnerID(), "each has an owner id of its own")
	again, err := l.ReadLock().TryAcquire(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, o.Holds(l.ReadLock()))
	require.Equal(t, 1, o.Holds(l.WriteLock()))

	// A reader elsewhere waits, and is let in by the downgrade, not by a poll.
	reader := b.RWLock("rw").ReadLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it has subscribed", func() bool { return b.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, w)
	beside, err := reader.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, b.Stats().GrantsByPoll, "it was told, or looked when it had subscribed")
	require.Equal(t, "read", s.Do(t, "HGET", "rw", "mode"))
	require.False(t, r.Lost())
	require.Zero(t, o.Holds(l.WriteLock()))

	_, err = l.WriteLock().Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrUpgrade)
	testkit.Release(t, beside)
	_, err = l.WriteLock().TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrUpgrade)
	testkit.Release(t, again)
	testkit.Release(t, r)
	w, err = l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	w2, err := l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	require.Equal(t, "2", s.Do(t, "HGET", "rw", w.OwnerID()))
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "rw")), engine.DefaultLease, "entering again adds no time")
	testkit.Release(t, w)
	testkit.Release(t, w2)
	testkit.Finish(t, s, a, b)
}

// What an owner reads beside its own write hold is no way in for anybody else.
func TestNobodyReadsBesideSomebodyElsesWriteHold(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	p.Delay(20*time.Millisecond, 0) // a turn is ten round trips, and readers join each other that long
	e := testkit.Open(t, p.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	l := e.RWLock("rw")
	w, err := l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	r, err := l.ReadLock().Acquire(ctx)
	require.NoError(t, err)
	_, err = l.ReadLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	_, err = l.ReadLock().TryAcquire(engine.WithOwner(testkit.Limited(t), engine.NewOwner()))
	require.ErrorIs(t, err, engine.ErrHeld)
	testkit.Release(t, w)
	beside := testkit.Acquire(t, l.ReadLock())
	testkit.Release(t, beside)
	testkit.Release(t, r)
	testkit.Finish(t, s, e)
}

// Releasing the read hold of an owner that writes leaves the write hold renewed.
func TestReleasingAReadHoldDoesNotStopTheWritersRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	l := e.RWLock("rw", engine.WatchdogLease(2*time.Second))
	w, err := l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	r, err := l.ReadLock().Acquire(ctx)
	require.NoError(t, err)
	testkit.Release(t, r)
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "four more renewals", func() bool { return e.Stats().Renewals.Sent >= sent+4 })
	require.False(t, w.Lost())
	testkit.Release(t, w)
	testkit.Finish(t, s, e)
}

// The watchdog of a short reader takes nothing off a longer lease, and touches no other reader's key.
func TestWatchdogOfAReaderNeverShortensAnother(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	long := testkit.Acquire(t, a.RWLock("rw", engine.FixedLease(time.Hour)).ReadLock())
	short := testkit.Acquire(t, b.RWLock("rw", engine.WatchdogLease(time.Second)).ReadLock())
	mine, other := slot.ReadHold("rw", short.OwnerID(), 1), slot.ReadHold("rw", long.OwnerID(), 1)
	began := testkit.Expiry(t, s, other)
	sent := b.Stats().Renewals.Sent
	testkit.Eventually(t, "four renewals", func() bool { return b.Stats().Renewals.Sent >= sent+4 })
	require.Greater(t, time.Until(testkit.Expiry(t, s, "rw")), 50*time.Minute)
	require.WithinDuration(t, began, testkit.Expiry(t, s, other), time.Second)
	require.Less(t, time.Until(testkit.Expiry(t, s, mine)), 2*time.Second)
	testkit.Release(t, long)
	require.Less(t, time.Until(testkit.Expiry(t, s, "rw")), 2*time.Second, "the hash lives as long as who is left")
	testkit.Release(t, short)
	testkit.Finish(t, s, a, b)
}

// Readers of two engines hold the lock between them all the time; a writer gets its turn all the same.
func TestWritersAreNotStarvedByReaders(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	stop := make(chan struct{})
	done := make(chan error, 16)
	for i := range 16 {
		l := engines[i%2].RWLock("rw").ReadLock()
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				ls, err := l.Acquire(t.Context())
				if err != nil {
					done <- err
					return
				}
				time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond) // they overlap
				if err := ls.Release(t.Context()); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	writer := engines[2].RWLock("rw").WriteLock()
	for range 10 {
		began := time.Now()
		w := testkit.Acquire(t, writer)
		require.Less(t, testkit.Ran(began), 3*time.Second)
		testkit.Release(t, w)
	}
	close(stop)
	for range 16 {
		require.NoError(t, testkit.Await(t, done, "a reader"))
	}
	testkit.Finish(t, s, engines...)
}

// A writer that gives up lets the readers in that it kept out: at once, not when its note expires.
func TestAWriterThatGivesUpLetsReadersIn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	r := testkit.Acquire(t, a.RWLock("rw").ReadLock())
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	writer := b.RWLock("rw").WriteLock().AcquireAsync(ctx)
	testkit.Eventually(t, "it has left its note", func() bool { return testkit.Exists(t, s, "{rw}:rwlock_writer") })
	// From a third engine: readers of a's would join a's.
	c := testkit.Open(t, s.Addr())
	reader := c.RWLock("rw").ReadLock().AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "the reader waits", func() bool { return c.Stats().WokenBySubscribe > 0 })
	s.Do(t, "PEXPIRE", "{rw}:rwlock_writer", "600000") // nobody lives to see the note expire
	cancel()
	_, err := writer.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	ls, err := reader.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, testkit.Exists(t, s, "{rw}:rwlock_writer"))
	testkit.Release(t, ls)
	testkit.Release(t, r)
	testkit.Finish(t, s, a, b, c)
}

func TestMutexAndRWLockOfOneNameRefuseEachOther(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	m := testkit.Acquire(t, a.Lock("x"))
	r := testkit.Acquire(t, a.RWLock("y").ReadLock())
	for _, e := range []*engine.Engine{a, b} {
		for _, l := range []*engine.Lock{e.RWLock("x").ReadLock(), e.RWLock("x").WriteLock(), e.Lock("y"), e.FencedLock("y").Lock, e.FairLock("y").Lock} {
			_, err := l.Acquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind)
			_, err = l.ForceRelease(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind)
			_, err = l.Inspect(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind)
		}
	}
	require.False(t, m.Lost())
	require.False(t, r.Lost())
	testkit.Release(t, m)
	testkit.Release(t, r)
	testkit.Finish(t, s, a, b)
}

func TestForceReleaseOfOneHalfLeavesTheOther(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	la, lb := a.RWLock("rw"), b.RWLock("rw")
	r := testkit.Acquire(t, la.ReadLock())
	for _, l := range []*engine.Lock{la.WriteLock(), lb.WriteLock()} {
		was, err := l.ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		require.False(t, was)
	}
	require.False(t, r.Lost())
	was, err := la.ReadLock().ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, r.Lost(), "told at once: it is this engine's")
	require.ErrorIs(t, r.Release(testkit.Limited(t)), engine.ErrLost)
	w := testkit.Acquire(t, lb.WriteLock())
	testkit.Release(t, w)
	s.Do(t, "DEL", slot.ReadHold("rw", r.OwnerID(), 1)) // left to expire, as Redisson leaves it
	testkit.Finish(t, s, a, b)
}

func TestC021_ReadAndWriteRepliesLost(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 5} {
		for _, half := range []struct {
			script, release string
			lock            func(*engine.RWLock) *engine.Lock
		}{
			{"read", "readrelease", (*engine.RWLock).ReadLock},
			{"write", "writerelease", (*engine.RWLock).WriteLock},
		} {
			t.Run(testkit.Numbered(half.script, times), func(t *testing.T) {
				t.Parallel()
				s := redistest.Run(t, redistest.Options{})
				p := faultproxy.Run(t, s.Addr())
				e := testkit.Open(t, p.Addr())
				lost := p.DropReply(testkit.ScriptCall(half.script), times, faultproxy.Cut)
				ls := testkit.Acquire(t, half.lock(e.RWLock("rw")))
				require.Equal(t, times, lost.Hits())
				require.Equal(t, "1", s.Do(t, "HGET", "rw", ls.OwnerID()))
				require.Equal(t, "2", s.Do(t, "HLEN", "rw"))
				lost = p.DropReply(testkit.ScriptCall(half.release), times, faultproxy.Cut)
				testkit.Release(t, ls)
				require.Equal(t, times, lost.Hits())
				require.Empty(t, s.Keys(t))
				testkit.Finish(t, s, e)
			})
		}
	}
}

// Many readers and writers on a few names in three engines, with cancellations: a writer is always alone.
func TestReadersAndWritersNeverMeet(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	const names, callers, rounds = 3, 24, 60
	var inside [names]struct{ readers, writers atomic.Int32 }
	done := make(chan error, callers)
	for c := range callers {
		go func() {
			random := rand.New(rand.NewPCG(uint64(c), 7))
			for range rounds {
				n := random.IntN(names)
				l, in := engines[c%3].RWLock(testkit.Numbered("rw", n)), &inside[n]
				half, mine, other := l.ReadLock(), &in.readers, &in.writers
				writes := random.IntN(4) == 0
				if writes {
					half, mine = l.WriteLock(), &in.writers
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if random.IntN(10) == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				}
				ls, err := half.Acquire(ctx)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						done <- err
						return
					}
					continue
				}
				if now := mine.Add(1); writes && (now > 1 || in.readers.Load() > 0) || !writes && other.Load() > 0 {
					done <- errMet
					return
				}
				mine.Add(-1)
				if err := ls.Release(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		require.NoError(t, testkit.Await(t, done, "a caller"))
	}
	testkit.Finish(t, s, engines...)
}

var errMet = &metError{}

type metError struct{}

func (*metError) Error() string { return "a writer was not alone" }

// A reader's acquire has no answer, and the reader leaves; a writer is next in the queue. The reader's wire
// id may have the lock, as a reader's: the writer must not take that for its own while others read.
func TestAWriterDoesNotInheritWhatAReaderAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	a, b := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	beside := testkit.Acquire(t, b.RWLock("rw").ReadLock())
	lost := p.DropReply(testkit.ScriptCall("read"), 1, faultproxy.Hang)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	reader := a.RWLock("rw").ReadLock().AcquireAsync(ctx)
	testkit.Await(t, lost.C(), "the script ran, its answer is lost")
	writer := a.RWLock("rw").WriteLock().AcquireAsync(testkit.Limited(t))
	cancel()
	_, err := reader.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	testkit.Eventually(t, "the writer has asked", func() bool {
		_, _, done := writer.Result()
		return done || testkit.Exists(t, s, "{rw}:rwlock_writer")
	})
	_, _, done := writer.Result()
	require.False(t, done, "somebody reads")
	testkit.Release(t, beside)
	w, err := writer.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "write", s.Do(t, "HGET", "rw", "mode"))
	require.Equal(t, "2", s.Do(t, "HLEN", "rw"))
	testkit.Release(t, w)
	testkit.Finish(t, s, a, b)
}
