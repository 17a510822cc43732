package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What Close tells somebody may make them act at once: here the answer to a reading comes while Close is
// still telling, to a hold that it has released.
func TestAnAnswerWhileCloseTellsFindsAHoldThatIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	writer := testkit.Acquire(t, rw.WriteLock())
	held := p.Hold(testkit.ScriptCall("read"), 1)
	reading := rw.ReadLock().AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the reading is on its way")
	engine.Then(reading, func() {
		p.ReleaseCommands()
		for engine.Changing(writer) {
			testkit.LastUntil(time.Now().Add(time.Millisecond))
		}
	})
	require.NoError(t, e.Close(testkit.Limited(t)))
	_, err := reading.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrClosed)
	require.ErrorIs(t, writer.Release(testkit.Limited(t)), engine.ErrNotHeld)
	require.Empty(t, s.Keys(t))
}

func TestAHandleGivenBackWhileCloseTellsIsAnswered(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	outer, inner := testkit.Acquire(t, l), testkit.Acquire(t, l)
	waiter := e.Lock("name").AcquireAsync(testkit.Limited(t)) // whose end Close tells
	var released *engine.Future[struct{}]
	engine.Then(waiter, func() { released = inner.ReleaseAsync() })
	require.NoError(t, e.Close(testkit.Limited(t)))
	_, err := released.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotHeld, "Close has released it")
	require.ErrorIs(t, outer.Release(testkit.Limited(t)), engine.ErrNotHeld)
	require.Empty(t, s.Keys(t))
}

func TestASecondCloseDoesNotWaitInsideTheFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	waiter := e.Lock("name").AcquireAsync(testkit.Limited(t))
	over, end := context.WithCancel(testkit.Limited(t))
	end()
	second, first := make(chan error, 1), make(chan error, 1)
	engine.Then(waiter, func() { second <- e.Close(over) })
	go func() { first <- e.Close(testkit.Limited(t)) }()
	require.ErrorIs(t, testkit.Await(t, second, "the second Close"), context.Canceled)
	require.NoError(t, testkit.Await(t, first, "the first Close"))
	require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrReleased)
}

// manyChildren makes contexts under a lease's, so that cancelling it takes a while. It returns one of them.
func manyChildren(t *testing.T, ls *engine.Lease, n int) (all []context.Context) {
	t.Helper()
	for range n {
		child, cancel := context.WithCancel(ls.Context())
		t.Cleanup(cancel)
		all = append(all, child)
	}
	return all
}

// The owner gives its handle back while the loss is still being told to others.
func TestAnOwnerThatGaveItsLostLeaseBackHasTheLockAnew(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for i := range 40 {
		l := e.Lock(testkit.Numbered("name", i), engine.As(engine.NewOwner()))
		ls := testkit.Acquire(t, l)
		released := make(chan error, 1)
		context.AfterFunc(ls.Context(), func() { released <- ls.Release(testkit.Limited(t)) })
		manyChildren(t, ls, 1000)
		engine.Lose(ls)
		require.ErrorIs(t, testkit.Await(t, released, "the release"), engine.ErrLost)
		again, err := l.Acquire(testkit.Limited(t))
		require.NoError(t, err, "nothing of what was lost is out")
		testkit.Release(t, again)
	}
	testkit.Finish(t, s, e)
}

// It does not get the lock anew before that, from the moment on at which it can know of the loss.
func TestAnOwnerThatIsJustToldOfALossHasToGiveBackFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for i := range 40 {
		l := e.Lock(testkit.Numbered("name", i), engine.As(engine.NewOwner()))
		ls := testkit.Acquire(t, l)
		again := make(chan error, 1)
		context.AfterFunc(ls.Context(), func() {
			_, err := l.Acquire(testkit.Limited(t))
			again <- err
		})
		manyChildren(t, ls, 1000)
		engine.Lose(ls)
		require.ErrorIs(t, testkit.Await(t, again, "the second acquire"), engine.ErrLost)
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	}
	testkit.Eventually(t, "what was lost is released", func() bool { return len(s.Keys(t)) == 0 })
	testkit.Finish(t, s, e)
}

func TestTheHolderIsToldBeforeTheNextHereHasTheLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	children := manyChildren(t, ls, 50_000)
	next := e.Lock("name").AcquireAsync(testkit.Limited(t))
	late := 0
	engine.Then(next, func() {
		for _, c := range children {
			if c.Err() == nil {
				late++
			}
		}
	})
	s.Do(t, "DEL", "name")
	engine.Lose(ls)
	theirs, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, late, "contexts of the last holder that ended after the grant")
	testkit.Release(t, theirs)
	testkit.Finish(t, s, e)
}

// A give-back whose caller was told that its outcome is unknown is a give-back all the same.
func TestAGiveBackOfUnknownOutcomeIsNoHandleOfALostLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	outer, inner := testkit.Acquire(t, l), testkit.Acquire(t, l)
	held := p.Hold(testkit.ScriptCall("reacquire"), -1)
	released := inner.ReleaseAsync()
	testkit.Await(t, held.C(), "the change of the count is on its way")
	engine.OutOfPatience(outer)
	p.CutAll()
	_, err := released.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrUnknown)

	engine.Lose(outer)
	require.ErrorIs(t, outer.Release(testkit.Limited(t)), engine.ErrLost)
	p.ReleaseCommands()
	s.Do(t, "DEL", "name")
	again, err := l.Acquire(testkit.Limited(t))
	require.NoError(t, err, "every handle was given back")
	testkit.Release(t, again)
	testkit.Finish(t, s, e)
}

// A reader gives back what it read while its next reading is on its way, and that is lost.
func TestAReadReleaseThatWaitsIsNoHandleOfALostLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.RWLock("name", engine.As(engine.NewOwner()), engine.WatchdogLease(3*time.Second)).ReadLock()
	ls := testkit.Acquire(t, l)
	held := p.Hold(testkit.ScriptCall("read"), -1)
	longer := l.With(engine.WatchdogLease(4 * time.Second)).AcquireAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the longer reading is on its way")
	released := ls.ReleaseAsync()
	engine.Lose(ls)
	_, err := released.Await(testkit.Limited(t))
	require.True(t, err == nil || errors.Is(err, engine.ErrLost), "%v", err)
	p.ReleaseCommands()
	if more, err := longer.Await(testkit.Limited(t)); err == nil {
		testkit.Release(t, more)
	}
	again, err := l.Acquire(testkit.Limited(t))
	require.NoError(t, err, "every handle was given back")
	testkit.Release(t, again)
	testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
	testkit.Finish(t, s, e)
}

// A grant that nobody took, because its caller left, is nobody's handle.
func TestAnEntryThatNobodyWantsIsNoHandleOfALostLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	l := e.Lock("name", engine.As(engine.NewOwner()))
	ls := testkit.Acquire(t, l)
	first := p.Hold(testkit.ScriptCall("reacquire"), 1)
	again := l.AcquireAsync(testkit.Limited(t))
	testkit.Await(t, first.C(), "the change is on its way")
	require.True(t, again.Cancel())
	second := p.HoldNext(testkit.ScriptCall("reacquire"), 1)
	testkit.Await(t, second.C(), "the grant that nobody took is taken back")
	engine.Lose(ls)
	p.ReleaseCommands()
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	s.Do(t, "DEL", "name")
	anew, err := l.Acquire(testkit.Limited(t))
	require.NoError(t, err, "the only handle was given back")
	testkit.Release(t, anew)
	testkit.Finish(t, s, e)
}

// A handle that stops being renewed at the moment it is given back stops nobody else's renewals.
func TestStopRenewingBesideAReleaseStopsNobodyElse(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	shared := 0
	for i, l := range []*engine.Lock{e.Lock("plain"), e.RWLock("shared").ReadLock()} {
		for range 300 {
			mine := testkit.Acquire(t, l)
			theirs := l.AcquireAsync(testkit.Limited(t))
			start, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				close(start)
				mine.StopRenewing()
			}()
			<-start
			testkit.Release(t, mine)
			<-stopped
			other, err := theirs.Await(testkit.Limited(t))
			require.NoError(t, err)
			if engine.SameHold(mine, other) {
				shared++
			}
			require.True(t, engine.Renewing(other), "lock %d", i)
			testkit.Release(t, other)
		}
	}
	require.Positive(t, shared)
	testkit.Finish(t, s, e)
}

// The hold may be the next holder's by then.
func TestAContextOfALeaseThatIsOverHangsOnNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.Lock("name")
	first := testkit.Acquire(t, l)
	next := l.AcquireAsync(testkit.Limited(t))
	testkit.Release(t, first)
	second, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, engine.SameHold(first, second), "it was handed over")
	require.ErrorIs(t, context.Cause(first.Context()), engine.ErrReleased)
	require.Zero(t, engine.ContextsOfHold(second))
	require.NoError(t, second.Context().Err())
	require.Equal(t, 1, engine.ContextsOfHold(second))
	engine.Lose(second)
	require.ErrorIs(t, context.Cause(second.Context()), engine.ErrLost)
	require.ErrorIs(t, context.Cause(first.Context()), engine.ErrReleased)
	require.ErrorIs(t, second.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Finish(t, s, e)
}

// With the race detector.
func TestTokenMayBeAskedForWhileReadersJoin(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for i := range 20 {
		l := e.RWLock(testkit.Numbered("name", i)).ReadLock()
		first := testkit.Acquire(t, l)
		joined, asked := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(asked)
			for {
				select {
				case <-joined:
					return
				default:
					_ = first.Token()
				}
			}
		}()
		second := testkit.Acquire(t, l.With(engine.As(engine.NewOwner())))
		close(joined)
		<-asked
		require.Zero(t, first.Token())
		testkit.Release(t, second)
		testkit.Release(t, first)
	}
	testkit.Finish(t, s, e)
}

func deep(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	return deep(n-1, f)
}

// A callback may close the engine: what Close would wait for last is that callback.
func TestCloseCalledByACallbackReturns(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	inside, outside, returns := make(chan error, 1), make(chan error, 1), make(chan struct{})
	returned := make(chan bool, 1)
	e.Lock("name").AcquireAsync(testkit.Limited(t)).OnComplete(func(*engine.Lease, error) {
		go func() { outside <- e.Close(testkit.Limited(t)) }()
		inside <- deep(100, func() error { return e.Close(context.Background()) })
		<-returns
		returned <- true
	})
	require.NoError(t, testkit.Await(t, inside, "the Close inside"))
	require.Empty(t, s.Keys(t), "it waited for the releases")
	require.Empty(t, outside, "the Close outside waits for the callback")
	close(returns)
	require.NoError(t, testkit.Await(t, outside, "the Close outside"))
	require.Len(t, returned, 1)
}

func TestCallbacksMayCloseEachOthersEngines(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	closed := make(chan error, 2)
	both := make(chan struct{}, 2)
	for i, e := range []*engine.Engine{a, b} {
		other := []*engine.Engine{b, a}[i]
		e.Lock(testkit.Numbered("name", i)).AcquireAsync(testkit.Limited(t)).OnComplete(func(*engine.Lease, error) {
			both <- struct{}{}
			for len(both) < 2 {
				testkit.LastUntil(time.Now().Add(time.Millisecond))
			}
			closed <- other.Close(context.Background())
		})
	}
	require.NoError(t, testkit.Await(t, closed, "one engine"))
	require.NoError(t, testkit.Await(t, closed, "the other"))
	testkit.Finish(t, s, a, b)
}
