package fault_test

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

// everyKind is a lock of every kind on one name.
func everyKind(e *engine.Engine, name string, opts ...engine.Option) map[string]*engine.Lock {
	return map[string]*engine.Lock{
		"plain": e.Lock(name, opts...), "spin": e.Lock(name, append(opts, engine.Spin(time.Millisecond, time.Second))...),
		"fenced": e.FencedLock(name, opts...).Lock, "fair": e.FairLock(name, opts...).Lock,
		"read": e.RWLock(name, opts...).ReadLock(), "write": e.RWLock(name, opts...).WriteLock(),
	}
}

// A server that says nothing has not said that somebody holds the lock.
func TestMaxWaitWithoutAnAnswerClaimsNoHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.Pause()
	for name := range everyKind(e, "") {
		_, err := everyKind(e, name, engine.MaxWait(20*time.Millisecond))[name].Acquire(testkit.Limited(t))
		require.NotErrorIs(t, err, engine.ErrHeld, name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		var unknown *engine.UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Greater(t, time.Until(unknown.FreeBy), engine.DefaultLease, "a copy of it may still run")
		require.True(t, engine.SafeToRetry(err))
	}
	p.Resume()
	testkit.Eventually(t, "what was granted late is given back", func() bool { return e.Stats().Names == 0 })
	s.Do(t, "DEL", "redisson_lock_token:{fenced}")
	testkit.Finish(t, s, e)
}

// Nobody can be reached: the last thing that was said about it is part of the answer.
func TestMaxWaitWithoutAnAnswerTellsTheLastError(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	unreachable(t, e, p)
	_, err := e.Lock("name", engine.MaxWait(300*time.Millisecond)).Acquire(testkit.Limited(t))
	require.NotErrorIs(t, err, engine.ErrUnknown, "nothing was sent")
	require.NotErrorIs(t, err, engine.ErrHeld)
	require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
	p.RefuseNew(false)
	testkit.Finish(t, s, e)
}

// Nobody can be reached, and before that nobody knows what has become of the acquire, or one is on its way.
func TestMaxWaitWithoutAnAnswerIsUnknownAsLongAsACopyMayRun(t *testing.T) {
	t.Parallel()
	t.Run("Before", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		lost := p.DropReply(testkit.ScriptCall("acquire"), 1)
		f := e.Lock("name", engine.MaxWait(600*time.Millisecond)).AcquireAsync(testkit.Limited(t))
		testkit.Await(t, lost.C(), "it was sent")
		p.RefuseNew(true)
		p.CutAll()
		err := testkit.GetError(t, f)
		require.ErrorIs(t, err, engine.ErrUnknown, "the server has granted it")
		require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err))
		p.RefuseNew(false)
		testkit.Finish(t, s, e)
	})
	t.Run("After", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		unreachable(t, e, p)
		f := e.Lock("name", engine.MaxWait(2*time.Second)).AcquireAsync(testkit.Limited(t))
		_, err := e.Lock("later").TryAcquire(testkit.Limited(t))
		require.Equal(t, engine.ClassUnreachable, testkit.ServerClass(err), "what came before it has failed, too")
		held := p.Hold(testkit.ScriptCall("acquire"), 1)
		p.RefuseNew(false)
		testkit.Await(t, held.C(), "it was sent")
		require.ErrorIs(t, testkit.GetError(t, f), engine.ErrUnknown, "the server may yet grant it")
		p.ReleaseCommands()
		testkit.Finish(t, s, e)
	})
}

// Where it is known who holds the lock, that is the answer, also if the server has gone silent since.
func TestMaxWaitTellsOfAHolderThatIsKnown(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	for name := range everyKind(e, "") {
		holder := name
		if name == "read" {
			holder = "write"
		}
		held := testkit.Acquire(t, everyKind(e, name)[holder])
		theirs := testkit.Acquire(t, everyKind(other, "their "+name)[holder])
		before := e.Stats().Waits
		f := everyKind(e, "their "+name)[name].AcquireAsync(testkit.Limited(t)) // it is told that it is held elsewhere
		testkit.Eventually(t, "it was told", func() bool { return e.Stats().Waits == before+1 })
		g := everyKind(e, "their "+name, engine.MaxWait(500*time.Millisecond))[name].AcquireAsync(testkit.Limited(t))
		if name == "fair" { // each asks for itself
			testkit.Eventually(t, "so was the second", func() bool { return e.Stats().Waits == before+2 })
		}
		p.Pause()
		for _, here := range []*engine.Future[*engine.Lease]{g, everyKind(e, name, engine.MaxWait(20*time.Millisecond))[name].AcquireAsync(testkit.Limited(t))} {
			_, err := here.Await(testkit.Limited(t))
			var busy *engine.HeldError
			require.ErrorAs(t, err, &busy, name)
			require.Greater(t, busy.Remaining, engine.DefaultLease/2, name)
		}
		p.Resume()
		f.Cancel()
		testkit.Release(t, held)
		testkit.Release(t, theirs)
		testkit.Eventually(t, "nothing goes on", func() bool { return e.Stats().Names == 0 })
	}
	s.Do(t, "DEL", "redisson_lock_token:{fenced}", "redisson_lock_token:{their fenced}")
	testkit.Finish(t, s, e, other)
}
