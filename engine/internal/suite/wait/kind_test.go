package wait_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Whoever is first waits in its own way: a spin lock's pauses and silence end with it.
func TestAWaiterBehindASpinLockThatLeavesListensAndPolls(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	spin := e.Lock("name", engine.Spin(time.Hour, time.Hour)).AcquireAsync(ctx)
	testkit.Eventually(t, "it is told", func() bool { return e.Stats().Waits == 1 })
	plain := e.Lock("name").AcquireAsync(testkit.Limited(t))
	cancel()
	_, err := spin.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	testkit.Eventually(t, "it listens", func() bool { return e.Stats().WokenBySubscribe == 1 })
	testkit.Release(t, theirs)
	ls, err := plain.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// And the reverse: a spin lock does not take over the polls of who was before it.
func TestASpinLockBehindAWaiterThatLeavesSpins(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	first := e.Lock("name", engine.Spin(time.Hour, time.Hour)).AcquireAsync(ctx)
	testkit.Eventually(t, "it is told", func() bool { return e.Stats().Waits == 1 })
	second := e.Lock("name", engine.Spin(time.Millisecond, 2*time.Millisecond)).AcquireAsync(testkit.Limited(t))
	cancel()
	_, err := first.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	testkit.Eventually(t, "it asks again and again", func() bool { return e.Stats().WokenByPoll > 5 })
	testkit.Release(t, theirs)
	ls, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// A Try to read that meets a reader's acquire on its way is not refused for that: readers let readers in.
func TestATryToReadBehindAnotherReadersAcquireIsAskedFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name")
	warm := testkit.Acquire(t, rw.ReadLock()) // the scripts are loaded
	testkit.Release(t, warm)
	held := p.Hold(testkit.ScriptCall("read"), 1)
	first := rw.ReadLock().AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the reader's acquire")
	second := rw.ReadLock().With(engine.FixedLease(5 * time.Second)).TryAcquireAsync(testkit.Limited(t)) // it cannot share a hold
	write := rw.WriteLock().TryAcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	a, err := first.Await(testkit.Limited(t))
	require.NoError(t, err)
	b, err := second.Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = write.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	testkit.Release(t, a)
	testkit.Release(t, b)
	testkit.Finish(t, s, e)
}

// The same behind a Try to write, which readers elsewhere refuse, and for a reader that would wait.
func TestReadersBehindATryToWriteThatReadersRefuseAreAskedFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name")
	theirs := testkit.Acquire(t, other.RWLock("name").ReadLock())
	_, err := rw.WriteLock().TryAcquire(testkit.Limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrHeld)
	held := p.Hold(testkit.ScriptCall("write"), 1)
	write := rw.WriteLock().TryAcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the writer's acquire")
	try, wait := rw.ReadLock().TryAcquireAsync(testkit.Limited(t)), rw.ReadLock().With(engine.FixedLease(5*time.Second)).AcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	_, err = write.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	a, err := try.Await(testkit.Limited(t))
	require.NoError(t, err)
	b, err := wait.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, e.Stats().Waits, "nobody was told that the lock is held but who asked to write")
	testkit.Release(t, a)
	testkit.Release(t, b)
	testkit.Release(t, theirs)
	testkit.Finish(t, s, e, other)
}

// "Another kind of lock stands there" is an answer for those who want the kind that was asked for.
func TestACallerOfTheWrongKindFailsNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.RWLock("name").WriteLock())
	_, err := e.Lock("name").TryAcquire(testkit.Limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrWrongKind)
	held := p.Hold(testkit.ScriptCall("acquire"), 1)
	plain := e.Lock("name").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the plain lock's acquire")
	reader := e.RWLock("name").ReadLock().AcquireAsync(testkit.Limited(t))
	fenced := e.FencedLock("name").AcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	for _, wrong := range []*engine.Future[*engine.Lease]{plain, fenced} {
		_, err = wrong.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind)
	}
	testkit.Eventually(t, "it listens to its own channel", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_rwlock:{name}") == "redisson_rwlock:{name}\n1"
	})
	testkit.Release(t, theirs)
	ls, err := reader.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e, other)
}

// A refusal that is about one kind's own keys is nobody else's.
func TestARefusalOfOneKindsScriptFailsNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	s.Do(t, "RPUSH", "redisson_lock_token:{name}", "no token")
	_, err := e.FencedLock("name").TryAcquire(testkit.Limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrWrongKind)
	held := p.Hold(testkit.ScriptCall("fenced"), 1)
	fenced := e.FencedLock("name").AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the fenced lock's acquire")
	plain := e.Lock("name").AcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	_, err = fenced.Await(testkit.Limited(t))
	require.Equal(t, resp.ClassWrongType, testkit.ServerClass(err))
	ls, err := plain.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	s.Do(t, "DEL", "redisson_lock_token:{name}")
	testkit.Finish(t, s, e)
}

// A waiter listens where its own kind of lock is told of releases, whoever was first before it.
func TestAWaiterListensToItsOwnKindsChannel(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	first := e.Lock("name").AcquireAsync(ctx)
	testkit.Eventually(t, "it listens", func() bool { return e.Stats().WokenBySubscribe == 1 })
	_, err := e.Lock("name").Inspect(testkit.Limited(t)) // over the same lane: it has looked and is parked again
	require.NoError(t, err)
	reader := e.RWLock("name").ReadLock().AcquireAsync(testkit.Limited(t))
	cancel()
	_, err = first.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = reader.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind, "it looks, and is told")
	require.Zero(t, e.Stats().WokenByPoll, "because it listens now")
	testkit.Release(t, theirs)
	testkit.Finish(t, s, e, other)
}
