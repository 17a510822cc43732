package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Two of one owner wait for a lock that somebody else has, one to write and one to read. The writer gets it, and the
// reading is asked for beside it: it was told "busy" once, but nobody is in its way any more. What the server
// refuses then is its answer, and the writer's release does not wait for memory.
func TestAReleaseDoesNotWaitForAReadingThatIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	theirs := acquire(t, other.RWLock("name").WriteLock())
	asks := p.Hold(scriptCall("write"), 1)
	writes := rw.WriteLock().AcquireAsync(limited(t))
	await(t, asks.C(), "it asks")
	reads := rw.ReadLock().AcquireAsync(limited(t))
	p.ReleaseCommands()
	eventually(t, "both wait", func() bool { return e.Stats().WokenBySubscribe > 0 })
	reading := p.Hold(scriptCall("read"), -1)
	release(t, theirs)
	w, err := writes.Await(limited(t))
	require.NoError(t, err)
	await(t, reading.C(), "the reading is on its way")
	released := w.ReleaseAsync()
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	p.ReleaseCommands()
	_, err = reads.Await(limited(t))
	var refused *engine.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, engine.ClassOOM, refused.Class)
	await(t, released.Done(), "the release goes on while memory is full")
	_, err = released.Await(limited(t))
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	release(t, acquire(t, other.RWLock("name").WriteLock()))
	finish(t, s, e, other)
}

// Who asks to read beside its own write hold, and has no answer when its MaxWait ends, is not told that somebody
// else has the lock.
func TestMaxWaitOfAReadingBesideItsOwnersWriteIsUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := openEngine(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := acquire(t, rw.WriteLock())
	held := p.Hold(scriptCall("read"), 1)
	_, err := rw.ReadLock().With(engine.MaxWait(200 * time.Millisecond)).Acquire(limited(t))
	require.NotEmpty(t, held.C())
	require.ErrorIs(t, err, engine.ErrUnknown)
	require.NotErrorIs(t, err, engine.ErrHeld)
	p.ReleaseCommands()
	release(t, w)
	finish(t, s, e)
}
