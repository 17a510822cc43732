package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// A ForceRelease gets no answer: it is sent again, and the lock is gone when it returns. The holder here was
// told so before.
func TestAForceReleaseWithoutAnAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	for _, drop := range []func(){
		func() { p.DropCommand(scriptCall("force"), 1) },
		func() { p.DropReply(scriptCall("force"), 1) },
	} {
		ls := acquire(t, e.Lock("name"))
		drop()
		was, err := e.Lock("name").ForceRelease(limited(t))
		require.NoError(t, err)
		require.True(t, was, "there was a lock")
		require.True(t, ls.Lost())
		require.False(t, exists(t, s, "name"))
	}
	finish(t, s, e)
}

// A ForceRelease is given up without an answer. Its holder here was told that the lock is lost: so it is given
// back, and nobody waits for the rest of a lease that nobody has.
func TestWhatAForceReleaseWithoutAnAnswerTookHereIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	ls := acquire(t, e.Lock("name"))
	dropped := p.DropCommand(scriptCall("force"), -1)
	ctx, cancel := context.WithCancel(limited(t))
	f := e.Lock("name").ForceReleaseAsync(ctx)
	await(t, dropped.C(), "it is on its way")
	require.True(t, ls.Lost())
	cancel()
	_, err := f.Await(limited(t))
	require.ErrorIs(t, err, context.Canceled)
	eventually(t, "the key is gone, long before its lease", func() bool { return !exists(t, s, "name") })
	next := acquire(t, e.Lock("name"))
	release(t, next)
	finish(t, s, e)
}

// The first copy of a ForceRelease is still on its way when the second is answered. Nobody is told before the
// first can take nothing any more: whoever takes the lock then keeps it.
func TestALateCopyOfAForceReleaseTakesNoLaterLock(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	c := &cutter{}
	client := c.client(t, p.Addr())
	e := openEngine(t, "", func(cfg *engine.Config) { cfg.Addrs, cfg.Client = nil, client })
	other := openEngine(t, s.Addr())
	theirs := acquire(t, other.Lock("name"))
	held := p.Hold(scriptCall("force"), 1)
	f := e.Lock("name").ForceReleaseAsync(limited(t))
	await(t, held.C(), "the first copy is held")
	c.cut()
	was, err := f.Await(limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, theirs.Release(limited(t)), engine.ErrLost)
	next := acquire(t, other.Lock("name"))
	before := calls(t, s, "evalsha")
	require.Positive(t, p.ReleaseCommands())
	require.NoError(t, p.Idle(limited(t)))
	require.Greater(t, calls(t, s, "evalsha"), before, "the copy ran")
	requireHeldOnce(t, s, next)
	release(t, next)
	finish(t, s, e, other)
}

// A ForceRelease that nobody answers ends, too, and says by when it can have no effect any more.
func TestAForceReleaseOfUnknownOutcomeHasAnEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	p.DropCommand(scriptCall("force"), -1)
	began := time.Now()
	_, err := e.Lock("name").ForceRelease(limited(t))
	require.ErrorIs(t, err, engine.ErrUnknown)
	var unknown *engine.UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Greater(t, time.Since(began), 3*attemptLimit)
	require.Less(t, time.Until(unknown.FreeBy), limitSlack)
	finish(t, s, e)
}
