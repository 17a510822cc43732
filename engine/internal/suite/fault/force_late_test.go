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

// A ForceRelease gets no answer: it is sent again, and the lock is gone when it returns. The holder here was
// told so before.
func TestAForceReleaseWithoutAnAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	for _, drop := range []func(){
		func() { p.DropCommand(testkit.ScriptCall("force"), 1) },
		func() { p.DropReply(testkit.ScriptCall("force"), 1) },
	} {
		ls := testkit.Acquire(t, e.Lock("name"))
		drop()
		was, err := e.Lock("name").ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, was, "there was a lock")
		require.True(t, ls.Lost())
		require.False(t, testkit.Exists(t, s, "name"))
	}
	testkit.Finish(t, s, e)
}

// A ForceRelease is given up without an answer. Its holder here was told that the lock is lost: so it is given
// back, and nobody waits for the rest of a lease that nobody has.
func TestWhatAForceReleaseWithoutAnAnswerTookHereIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	ls := testkit.Acquire(t, e.Lock("name"))
	dropped := p.DropCommand(testkit.ScriptCall("force"), -1)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	f := e.Lock("name").ForceReleaseAsync(ctx)
	testkit.Await(t, dropped.C(), "it is on its way")
	require.True(t, ls.Lost())
	cancel()
	_, err := f.Await(testkit.Limited(t))
	require.ErrorIs(t, err, context.Canceled)
	testkit.Eventually(t, "the key is gone, long before its lease", func() bool { return !testkit.Exists(t, s, "name") })
	next := testkit.Acquire(t, e.Lock("name"))
	testkit.Release(t, next)
	testkit.Finish(t, s, e)
}

// The first copy of a ForceRelease is still on its way when the second is answered. Nobody is told before the
// first can take nothing any more: whoever takes the lock then keeps it.
func TestALateCopyOfAForceReleaseTakesNoLaterLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	c := &cutter{}
	client := c.client(t, p.Addr())
	e := testkit.Open(t, "", func(cfg *engine.Config) { cfg.Addrs, cfg.Client = nil, client })
	other := testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.Lock("name"))
	held := p.Hold(testkit.ScriptCall("force"), 1)
	f := e.Lock("name").ForceReleaseAsync(testkit.Limited(t))
	testkit.Await(t, held.C(), "the first copy is held")
	c.cut()
	was, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, theirs.Release(testkit.Limited(t)), engine.ErrLost)
	next := testkit.Acquire(t, other.Lock("name"))
	before := testkit.CallsOf(t, s, "evalsha")
	require.Positive(t, p.ReleaseCommands())
	require.NoError(t, p.Idle(testkit.Limited(t)))
	require.Greater(t, testkit.CallsOf(t, s, "evalsha"), before, "the copy ran")
	testkit.RequireHeldOnce(t, s, next)
	testkit.Release(t, next)
	testkit.Finish(t, s, e, other)
}

// A ForceRelease that nobody answers ends, too, and says by when it can have no effect any more.
func TestAForceReleaseOfUnknownOutcomeHasAnEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	p.DropCommand(testkit.ScriptCall("force"), -1)
	began := time.Now()
	_, err := e.Lock("name").ForceRelease(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrUnknown)
	var unknown *engine.UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Greater(t, time.Since(began), 3*testkit.AttemptLimit)
	require.Less(t, time.Until(unknown.FreeBy), testkit.LimitSlack)
	testkit.Finish(t, s, e)
}
