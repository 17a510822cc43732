package family_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A ForceRelease through a handle of another kind takes the lock away all the same; its holder in this
// engine is told before the command is sent, not by its next renewal.
func TestForceReleaseTellsHoldersOfEveryKindItTakes(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	for _, kind := range []string{"Lock", "Spin", "Fenced", "Fair"} {
		for _, by := range []string{"Lock", "Spin", "Fenced", "Fair"} {
			ls := testkit.Acquire(t, testkit.Family(e, kind)[kind])
			was, err := testkit.Family(e, kind)[by].ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, was)
			require.True(t, ls.Lost(), "%s, taken through %s", kind, by)
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		}
	}
	s.Do(t, "DEL", "redisson_lock_token:{Fenced}")
	testkit.Finish(t, s, e)
}

// What an owner reads beside its write hold goes with the write hold, and not with a ForceRelease of the
// read lock, which finds no read lock.
func TestForceReleaseOfAWriteLockTakesWhatItsOwnerReads(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	l := e.RWLock("rw")
	ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
	w, err := l.WriteLock().Acquire(ctx)
	require.NoError(t, err)
	r, err := l.ReadLock().Acquire(ctx)
	require.NoError(t, err)
	was, err := l.ReadLock().ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, was)
	require.False(t, r.Lost())
	require.False(t, w.Lost())
	was, err = l.WriteLock().ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, w.Lost())
	require.True(t, r.Lost())
	require.ErrorIs(t, r.Release(testkit.Limited(t)), engine.ErrLost)
	require.ErrorIs(t, w.Release(testkit.Limited(t)), engine.ErrLost)
	s.Do(t, "DEL", "{rw}:"+r.OwnerID()+":rwlock_timeout:1")
	testkit.Finish(t, s, e)
}
