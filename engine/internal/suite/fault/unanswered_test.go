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

// Who is counted at a barrier may be among those who pass it, whatever is heard later: to come again would count twice.
func TestWhoIsCountedAtABarrierIsNotToldThatNothingWasDone(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	a, b, c := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	second := b.Barrier("bar", 3, engine.WatchdogLease(engine.MinPartyLease)).AwaitAsync(ctx)
	testkit.Eventually(t, "it waits", func() bool { return b.Stats().Waits == 1 })
	first := a.Barrier("bar", 3, engine.MaxWait(8*time.Second)).AwaitAsync(ctx)
	testkit.Eventually(t, "it waits", func() bool { return a.Stats().Waits == 1 })
	unreachable(t, a, p)
	require.NoError(t, c.Barrier("bar", 3).Await(ctx))
	_, err := second.Await(ctx)
	require.NoError(t, err, "all three have come")
	_, err = first.Await(ctx)
	require.ErrorIs(t, err, engine.ErrUnknown)
	p.RefuseNew(false)
	for _, e := range []*engine.Engine{a, b, c} { // the barrier itself stays
		require.NoError(t, testkit.Close(e))
	}
}

// One of several locks is refused, and of another one nobody knows whether it was granted.
func TestOneOfSeveralLocksThatMayBeHeldMakesTheWholeUnknown(t *testing.T) {
	t.Parallel()
	acquires := testkit.ScriptCall("acquire")
	servers := func(t *testing.T, n int) (ps []*faultproxy.Proxy, es []*engine.Engine) {
		t.Helper()
		for range n {
			p := faultproxy.Run(t, redistest.Run(t, redistest.Options{}).Addr())
			ps, es = append(ps, p), append(es, testkit.Open(t, p.Addr()))
		}
		return ps, es
	}
	t.Run("MultiWhileItIsAsked", func(t *testing.T) {
		t.Parallel()
		ps, es := servers(t, 2)
		unreachable(t, es[0], ps[0])
		ps[1].DropReply(acquires, -1, faultproxy.Hang)
		_, err := engine.Multi(es[0].Lock("a", engine.MaxWait(600*time.Millisecond)), es[1].Lock("b")).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrUnknown)
		require.NotErrorIs(t, err, engine.ErrHeld)
	})
	t.Run("MultiThatWaitsForAnother", func(t *testing.T) {
		t.Parallel()
		ps, es := servers(t, 2)
		unreachable(t, es[0], ps[0])
		ps[1].DropReply(acquires, 1)
		ps[1].Refuse(testkit.ScriptCall("release"), -1, "NOPERM no permissions")
		asked := 0
		ps[1].Refuse(func(cmd []string) bool {
			if acquires(cmd) {
				asked++
			}
			return acquires(cmd) && asked > 1
		}, -1, "NOPERM no permissions")
		w := engine.MaxWait(1200 * time.Millisecond)
		_, err := engine.Multi(es[0].Lock("a", w), es[1].Lock("b", w)).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrUnknown)
	})
	t.Run("Red", func(t *testing.T) {
		t.Parallel()
		ps, es := servers(t, 3)
		var locks []*engine.Lock
		for i, e := range es {
			locks = append(locks, e.Lock("red", engine.MaxWait(600*time.Millisecond), engine.FixedLease(20*time.Second)))
			if i == 0 {
				unreachable(t, e, ps[i])
			} else {
				ps[i].DropReply(acquires, -1, faultproxy.Hang)
			}
		}
		_, err := engine.Red(locks...).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrUnknown, "a majority has granted it")
		_, err = engine.Red(locks...).TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrUnknown)
	})
}

// The server takes no new connection, and refuses one renewal: the connection that brought the refusal is well.
func TestARefusedRenewalNeedsNoOtherConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ls := testkit.Acquire(t, e.Lock("name", engine.WatchdogLease(engine.MinWatchdogLease)))
	testkit.Eventually(t, "there is a connection for renewals", func() bool { return e.Stats().Renewals.Sent > 0 })
	p.RefuseNew(true)
	refused := p.Refuse(testkit.ScriptCall("renew"), 1, "BUSY Redis is busy running a script")
	testkit.Await(t, refused.C(), "a renewal")
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "it is renewed for more than a lease", func() bool { return ls.Lost() || e.Stats().Renewals.Sent > sent+5 })
	require.False(t, ls.Lost())
	p.RefuseNew(false)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// Why nothing is renewed is said without what a server must not say, and of refusals that are one lock's alone nothing is
// said of others.
func TestTheLogOfALockThatIsNotRenewedHasNoSecretAndNoOthersError(t *testing.T) {
	t.Parallel()
	for refusal, said := range map[string]string{
		"READONLY user app pass secret": "READONLY user app pass ***",
		"NOPERM of tenant:two":          "",
	} {
		s := testkit.ACLServer(t)
		p := faultproxy.Run(t, s.Addr())
		log, lines := testkit.Logger()
		e := testkit.Open(t, p.Addr(), testkit.AsApp, func(c *engine.Config) { c.Logger = log })
		ls := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(engine.MinWatchdogLease)))
		p.Refuse(testkit.ScriptCall("renew"), -1, refusal)
		testkit.Within(t, ls.Context().Done(), testkit.TooLong, "it is lost")
		for _, line := range []string{"in jeopardy", "lock lost"} {
			testkit.Eventually(t, line, func() bool { return len(lines.With("WARN", line, p.Addr(), said)) == 1 })
		}
		require.Empty(t, lines.With("secret"))
		require.Empty(t, lines.With("tenant"))
		require.NoError(t, e.Close(testkit.Limited(t)))
	}
}
