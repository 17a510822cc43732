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

// A copy of a ForceRelease may still run, and somebody wants to read: it asks when no copy can, and not again and
// again until then.
func TestAReaderRestsWhileAForceReleaseMayStillRun(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	read := e.RWLock("name").ReadLock()
	first := testkit.Acquire(t, read)
	dropped := p.DropCommand(testkit.ScriptCall("force"), 1)
	f := read.ForceReleaseAsync(testkit.Limited(t))
	testkit.Await(t, dropped.C(), "the first copy is lost")
	before := p.Count("EVALSHA")
	ls := testkit.Acquire(t, read)
	require.Less(t, p.Count("EVALSHA")-before, 20)
	_, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.ErrorIs(t, first.Release(testkit.Limited(t)), engine.ErrLost)
	require.False(t, ls.Lost())
	testkit.Release(t, ls)
}

// The same of an owner that reads beside its write lock, which a ForceRelease of the read lock leaves alone.
func TestAReadingBesideAWriteRestsWhileAForceReleaseMayStillRun(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock())
	dropped := p.DropCommand(testkit.ScriptCall("force"), 1)
	f := rw.ReadLock().ForceReleaseAsync(testkit.Limited(t))
	testkit.Await(t, dropped.C(), "the first copy is lost")
	before := p.Count("EVALSHA")
	r := testkit.Acquire(t, rw.ReadLock())
	require.Less(t, p.Count("EVALSHA")-before, 20)
	_, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, r)
	testkit.Release(t, w)
}

// Who wants a lock while a ForceRelease of it goes on leaves when its MaxWait or its ctx ends. A Try is answered.
func TestWhoRestsBehindAForceReleaseWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	held := p.Hold(testkit.ScriptCall("force"), 1)
	f := e.Lock("name").ForceReleaseAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "it is on its way")
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	waits := e.Lock("name", engine.MaxWait(10*time.Millisecond)).AcquireAsync(testkit.Limited(t))
	leaves := e.Lock("name").AcquireAsync(ctx)
	cancel()
	for _, f := range []*engine.Future[*engine.Lease]{waits, leaves} {
		_, err := f.Await(testkit.Limited(t))
		require.Error(t, err)
	}
	_, _, ended := f.Result()
	require.False(t, ended, "they left before it ended")
	tried := e.Lock("name").TryAcquireAsync(testkit.Limited(t))
	require.Positive(t, p.ReleaseCommands())
	_, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	ls, err := tried.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// The server has granted, and replicas are to be asked, when a ForceRelease takes the lock away, and ends: who
// waits for the grant does not get it.
func TestAGrantThatWaitsForReplicasIsNotBelievedAfterAForceRelease(t *testing.T) {
	st := redistest.RunSentinel(t, 1, 0)
	s := st.Master
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	for name, kind := range map[string]func(e *engine.Engine, o ...engine.Option) *engine.Lock{
		"plain": func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.Lock("plain", o...) },
		"fair":  func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.FairLock("fair", o...).Lock },
		"write": func(e *engine.Engine, o ...engine.Option) *engine.Lock { return e.RWLock("rw", o...).WriteLock() },
	} {
		held := p.Hold(faultproxy.Command("WAIT"), 1)
		f := kind(e, engine.WaitReplicas(1, 5*time.Second)).AcquireAsync(testkit.Limited(t))
		testkit.Await(t, held.C(), "granted, and replicas are to be asked")
		_, err := kind(e).ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		theirs, err := kind(other).TryAcquire(testkit.Limited(t))
		require.NoError(t, err, name)
		require.Positive(t, p.ReleaseCommands())
		require.Never(t, func() bool { _, _, ok := f.Result(); return ok }, 50*time.Millisecond, 10*time.Millisecond, name)
		testkit.Release(t, theirs)
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err, name)
		testkit.Release(t, ls)
	}
}

// An owner goes on reading when it gives the write lock back, and that release is late. A ForceRelease of the write
// lock, which still stands on the server, takes what is read, too: its holder is told.
func TestAForceReleaseOfAWriteLockThatIsBeingReleasedTellsWhoReads(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w, r := testkit.Acquire(t, rw.WriteLock()), testkit.Acquire(t, rw.ReadLock())
	dropped := p.DropCommand(testkit.ScriptCall("writerelease"), 1)
	released := w.ReleaseAsync()
	testkit.Await(t, dropped.C(), "the release is lost")
	freed, err := e.RWLock("name").WriteLock().ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, freed, r.Lost(), "what is gone is lost")
	require.True(t, freed || s.Do(t, "HGET", "name", "mode") == "read")
	_, _ = released.Await(testkit.Limited(t))
}

// A ForceRelease of the read lock is sent again, and meanwhile its writer gives back: it runs in another mode than
// its name had here when it was called. Who reads is told.
func TestAForceReleaseOfAReadLockThatRunsBehindADowngradeTellsWhoReads(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w, r := testkit.Acquire(t, rw.WriteLock()), testkit.Acquire(t, rw.ReadLock())
	held := p.Hold(testkit.ScriptCall("force"), 1)
	f := e.RWLock("name").ReadLock().ForceReleaseAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the first copy is late")
	require.False(t, r.Lost(), "nobody knows that it is taken")
	s.Do(t, "HSET", "name", "mode", "read") // as the release of the write lock, that another connection carried
	s.Do(t, "HDEL", "name", w.OwnerID())
	require.Positive(t, p.ReleaseCommands())
	freed, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, freed)
	require.True(t, r.Lost())
	require.ErrorIs(t, r.Release(testkit.Limited(t)), engine.ErrLost)
	require.ErrorIs(t, w.Release(testkit.Limited(t)), engine.ErrLost)
}
