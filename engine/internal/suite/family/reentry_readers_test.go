package family_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Two reads of one owner that must not enter again wait together: one is let in, the other is told.
func TestOfTwoNonReentrantReadsThatWaitTogetherOneEnters(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	theirs := testkit.Acquire(t, other.RWLock("name").WriteLock())
	read := e.RWLock("name", engine.As(engine.NewOwner()), engine.NonReentrant()).ReadLock()
	stranger := e.RWLock("name", engine.As(engine.NewOwner()), engine.NonReentrant()).ReadLock()
	f1, f2, f3 := read.AcquireAsync(testkit.Limited(t)), read.AcquireAsync(testkit.Limited(t)), stranger.AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "they wait", func() bool { return e.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, theirs)
	first, err := f1.Await(testkit.Limited(t))
	require.NoError(t, err)
	_, err = f2.Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrReentry)
	third, err := f3.Await(testkit.Limited(t))
	require.NoError(t, err, "another owner joins")
	testkit.Release(t, first)
	testkit.Release(t, third)
	testkit.Finish(t, s, e, other)
}
