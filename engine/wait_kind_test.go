package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Whoever is first waits in its own way: a spin lock's pauses and silence end with it.
func TestAWaiterBehindASpinLockThatLeavesListensAndPolls(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(limited(t))
	spin := e.Lock("name", engine.Spin(time.Hour, time.Hour)).AcquireAsync(ctx)
	eventually(t, "it is told", func() bool { return e.Stats().Waits == 1 })
	plain := e.Lock("name").AcquireAsync(limited(t))
	cancel()
	_, err := spin.Await(limited(t))
	require.ErrorIs(t, err, context.Canceled)
	eventually(t, "it listens", func() bool { return e.Stats().WokenBySubscribe == 1 })
	release(t, theirs)
	ls, err := plain.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// And the reverse: a spin lock does not take over the polls of who was before it.
func TestASpinLockBehindAWaiterThatLeavesSpins(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(limited(t))
	first := e.Lock("name", engine.Spin(time.Hour, time.Hour)).AcquireAsync(ctx)
	eventually(t, "it is told", func() bool { return e.Stats().Waits == 1 })
	second := e.Lock("name", engine.Spin(time.Millisecond, 2*time.Millisecond)).AcquireAsync(limited(t))
	cancel()
	_, err := first.Await(limited(t))
	require.ErrorIs(t, err, context.Canceled)
	eventually(t, "it asks again and again", func() bool { return e.Stats().WokenByPoll > 5 })
	release(t, theirs)
	ls, err := second.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// A Try to read that meets a reader's acquire on its way is not refused for that: readers let readers in.
func TestATryToReadBehindAnotherReadersAcquireIsAskedFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	rw := e.RWLock("name")
	warm := acquire(t, rw.ReadLock()) // the scripts are loaded
	release(t, warm)
	held := p.Hold(scriptCall("read"), 1)
	first := rw.ReadLock().AcquireAsync(limited(t))
	await(t, held.C(), "the reader's acquire")
	second := rw.ReadLock().With(engine.FixedLease(5 * time.Second)).TryAcquireAsync(limited(t)) // it cannot share a hold
	write := rw.WriteLock().TryAcquireAsync(limited(t))
	p.ReleaseCommands()
	a, err := first.Await(limited(t))
	require.NoError(t, err)
	b, err := second.Await(limited(t))
	require.NoError(t, err)
	_, err = write.Await(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	release(t, a)
	release(t, b)
	finish(t, s, e)
}

// The same behind a Try to write, which readers elsewhere refuse, and for a reader that would wait.
func TestReadersBehindATryToWriteThatReadersRefuseAreAskedFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name")
	theirs := acquire(t, other.RWLock("name").ReadLock())
	_, err := rw.WriteLock().TryAcquire(limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrHeld)
	held := p.Hold(scriptCall("write"), 1)
	write := rw.WriteLock().TryAcquireAsync(limited(t))
	await(t, held.C(), "the writer's acquire")
	try, wait := rw.ReadLock().TryAcquireAsync(limited(t)), rw.ReadLock().With(engine.FixedLease(5*time.Second)).AcquireAsync(limited(t))
	p.ReleaseCommands()
	_, err = write.Await(limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	a, err := try.Await(limited(t))
	require.NoError(t, err)
	b, err := wait.Await(limited(t))
	require.NoError(t, err)
	require.Zero(t, e.Stats().Waits, "nobody was told that the lock is held but who asked to write")
	release(t, a)
	release(t, b)
	release(t, theirs)
	finish(t, s, e, other)
}

// "Another kind of lock stands there" is an answer for those who want the kind that was asked for.
func TestACallerOfTheWrongKindFailsNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.RWLock("name").WriteLock())
	_, err := e.Lock("name").TryAcquire(limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrWrongKind)
	held := p.Hold(scriptCall("acquire"), 1)
	plain := e.Lock("name").AcquireAsync(limited(t))
	await(t, held.C(), "the plain lock's acquire")
	reader := e.RWLock("name").ReadLock().AcquireAsync(limited(t))
	fenced := e.FencedLock("name").AcquireAsync(limited(t))
	p.ReleaseCommands()
	for _, wrong := range []*engine.Future[*engine.Lease]{plain, fenced} {
		_, err = wrong.Await(limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind)
	}
	eventually(t, "it listens to its own channel", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_rwlock:{name}") == "redisson_rwlock:{name}\n1"
	})
	release(t, theirs)
	ls, err := reader.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e, other)
}

// A refusal that is about one kind's own keys is nobody else's.
func TestARefusalOfOneKindsScriptFailsNobodyElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	s.Do(t, "RPUSH", "redisson_lock_token:{name}", "no token")
	_, err := e.FencedLock("name").TryAcquire(limited(t)) // the script is loaded
	require.ErrorIs(t, err, engine.ErrWrongKind)
	held := p.Hold(scriptCall("fenced"), 1)
	fenced := e.FencedLock("name").AcquireAsync(limited(t))
	await(t, held.C(), "the fenced lock's acquire")
	plain := e.Lock("name").AcquireAsync(limited(t))
	p.ReleaseCommands()
	_, err = fenced.Await(limited(t))
	require.Equal(t, resp.ClassWrongType, serverClass(err))
	ls, err := plain.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	s.Do(t, "DEL", "redisson_lock_token:{name}")
	finish(t, s, e)
}

// A waiter listens where its own kind of lock is told of releases, whoever was first before it.
func TestAWaiterListensToItsOwnKindsChannel(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.Lock("name"))
	ctx, cancel := context.WithCancel(limited(t))
	first := e.Lock("name").AcquireAsync(ctx)
	eventually(t, "it listens", func() bool { return e.Stats().WokenBySubscribe == 1 })
	_, err := e.Lock("name").Inspect(limited(t)) // over the same lane: it has looked and is parked again
	require.NoError(t, err)
	reader := e.RWLock("name").ReadLock().AcquireAsync(limited(t))
	cancel()
	_, err = first.Await(limited(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = reader.Await(limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind, "it looks, and is told")
	require.Zero(t, e.Stats().WokenByPoll, "because it listens now")
	release(t, theirs)
	finish(t, s, e, other)
}
