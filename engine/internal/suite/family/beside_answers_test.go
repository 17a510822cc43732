package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Two of one owner wait for a lock that somebody else has, one to write and one to read. The writer gets it, and the
// reading is asked for beside it: it was told "busy" once, but nobody is in its way any more. What the server
// refuses then is its answer, and the writer's release does not wait for memory.
func TestAReleaseDoesNotWaitForAReadingThatIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	theirs := testkit.Acquire(t, other.RWLock("name").WriteLock())
	asks := p.Hold(testkit.ScriptCall("write"), 1)
	writes := rw.WriteLock().AcquireAsync(testkit.Limited(t))
	testkit.Await(t, asks.C(), "it asks")
	reads := rw.ReadLock().AcquireAsync(testkit.Limited(t))
	p.ReleaseCommands()
	testkit.Eventually(t, "both wait", func() bool { return e.Stats().WokenBySubscribe > 0 })
	reading := p.Hold(testkit.ScriptCall("read"), -1)
	testkit.Release(t, theirs)
	w, err := writes.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Await(t, reading.C(), "the reading is on its way")
	released := w.ReleaseAsync()
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	p.ReleaseCommands()
	_, err = reads.Await(testkit.Limited(t))
	var refused *engine.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, engine.ClassOOM, refused.Class)
	testkit.Await(t, released.Done(), "the release goes on while memory is full")
	_, err = released.Await(testkit.Limited(t))
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	testkit.Release(t, testkit.Acquire(t, other.RWLock("name").WriteLock()))
	testkit.Finish(t, s, e, other)
}

// Who asks to read beside its own write hold, and has no answer when its MaxWait ends, is not told that somebody
// else has the lock.
func TestMaxWaitOfAReadingBesideItsOwnersWriteIsUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	rw := e.RWLock("name", engine.As(engine.NewOwner()))
	w := testkit.Acquire(t, rw.WriteLock())
	held := p.Hold(testkit.ScriptCall("read"), 1)
	_, err := rw.ReadLock().With(engine.MaxWait(200 * time.Millisecond)).Acquire(testkit.Limited(t))
	require.NotEmpty(t, held.C())
	require.ErrorIs(t, err, engine.ErrUnknown)
	require.NotErrorIs(t, err, engine.ErrHeld)
	p.ReleaseCommands()
	testkit.Release(t, w)
	testkit.Finish(t, s, e)
}
