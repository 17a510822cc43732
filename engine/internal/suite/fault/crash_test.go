package fault_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// awaitAOF waits until what took a lock is in the append-only file, and says where that is and how much it has:
// while an fsync lasts nothing is written.
func awaitAOF(tb testing.TB, dir string, ls *engine.Lease) (path string, size int64) {
	tb.Helper()
	testkit.Eventually(tb, "it is in the file", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
		require.NoError(tb, err)
		if len(found) == 0 {
			found = []string{filepath.Join(dir, "appendonly.aof")}
		}
		path = found[0]
		text, err := os.ReadFile(path)
		require.NoError(tb, err)
		size = int64(len(text))
		return bytes.Contains(text, []byte(ls.OwnerID()))
	})
	return path, size
}

// TestC065_AppendOnlyFileLacksTheLastSecond: the machine of a server dies, and what it had not yet
// written to its disk is gone. What was locked before is still locked; whoever locked in the last second is
// told with the first renewal, and others may have the lock.
func TestC065_AppendOnlyFileLacksTheLastSecond(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := redistest.Run(t, redistest.Options{Args: []string{"--dir", dir, "--appendonly", "yes", "--appendfsync", "everysec"}})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	kept := testkit.Acquire(t, a.Lock("kept"))
	path, size := awaitAOF(t, dir, kept)
	gone := testkit.Acquire(t, a.Lock("gone", engine.WatchdogLease(6*time.Second)))
	half := testkit.Acquire(t, a.Lock("half"))
	_, whole := awaitAOF(t, dir, half)
	require.Greater(t, whole, size)
	told := gone.Context()

	deadline := gone.Deadline()
	s.Kill()
	require.NoError(t, os.Truncate(path, size))
	require.NoError(t, s.Restart(testkit.Limited(t)))
	require.Equal(t, kept.OwnerID()+"\n1", s.Do(t, "HGETALL", "kept"))
	require.False(t, testkit.Exists(t, s, "gone"))

	theirs := testkit.Acquire(t, b.Lock("gone"))
	testkit.Await(t, told.Done(), "the loss is told")
	require.Less(t, time.Now(), deadline, "by the first renewal, not by its deadline")
	_, err := b.Lock("kept").TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.ErrorIs(t, half.Release(testkit.Limited(t)), engine.ErrLost)
	require.False(t, kept.Lost())
	testkit.Release(t, kept)
	testkit.Release(t, theirs)
	testkit.Finish(t, s, a, b)
}

// TestC123_AWaitOutlastsRestarts: the server of a waiter is away again and again, and comes back
// with its data. The waiter is still there, and hears the release. Long outages are simulated: AWaitOutlastsALongOutage.
func TestC123_AWaitOutlastsRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := redistest.Run(t, redistest.Options{Args: []string{"--dir", dir}})
	e := testkit.Open(t, s.Addr())
	const foreign = "2f1f1f66-0000-4000-8000-000000000000:77"
	s.Do(t, "HSET", "a", foreign, "1")
	s.Do(t, "PEXPIRE", "a", "86400000")
	waiter := e.Lock("a", engine.MaxWait(24*time.Hour)).AcquireAsync(t.Context())
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
	for round := range 4 {
		s.Do(t, "SAVE")
		s.Kill()
		require.NoError(t, s.Restart(testkit.Limited(t)))
		testkit.Eventually(t, "it listens again", func() bool {
			return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{a}") == "redisson_lock__channel:{a}\n1"
		})
		require.Equal(t, foreign+"\n1", s.Do(t, "HGETALL", "a"))
		_, err, done := waiter.Result()
		require.False(t, done, "round %d: %v", round, err)
	}
	s.Do(t, "DEL", "a")
	s.Do(t, "PUBLISH", "redisson_lock__channel:{a}", "0")
	ls, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.RequireHeldOnce(t, s, ls)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}
