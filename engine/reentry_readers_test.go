package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Two reads of one owner that must not enter again wait together: one is let in, the other is told.
func TestOfTwoNonReentrantReadsThatWaitTogetherOneEnters(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	theirs := acquire(t, other.RWLock("name").WriteLock())
	read := e.RWLock("name", engine.As(engine.NewOwner()), engine.NonReentrant()).ReadLock()
	stranger := e.RWLock("name", engine.As(engine.NewOwner()), engine.NonReentrant()).ReadLock()
	f1, f2, f3 := read.AcquireAsync(limited(t)), read.AcquireAsync(limited(t)), stranger.AcquireAsync(limited(t))
	eventually(t, "they wait", func() bool { return e.Stats().WokenBySubscribe > 0 })
	release(t, theirs)
	first, err := f1.Await(limited(t))
	require.NoError(t, err)
	_, err = f2.Await(limited(t))
	require.ErrorIs(t, err, engine.ErrReentry)
	third, err := f3.Await(limited(t))
	require.NoError(t, err, "another owner joins")
	release(t, first)
	release(t, third)
	finish(t, s, e, other)
}
