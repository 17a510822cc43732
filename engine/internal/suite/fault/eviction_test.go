package fault_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestC055_ServerThatMayEvictLocksIsReportedAndAnEvictedLockIsLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	var log testkit.Journal
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	testkit.Eventually(t, "a warning at the start", func() bool {
		return bytes.Contains([]byte(log.String()), []byte("maxmemory-policy=allkeys-lru"))
	})
	ls := testkit.Acquire(t, e.Lock("evicted", engine.WatchdogLease(time.Second)))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1") // evicts all there is at the next write
	_, _ = s.Command(testkit.Limited(t), "SET", "filler", "1", "PX", "1")
	testkit.Eventually(t, "the lock is evicted", func() bool { return !testkit.Exists(t, s, "evicted") })
	testkit.Await(t, ls.Context().Done(), "the holder is told")
	require.True(t, ls.Lost())
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	testkit.Finish(t, s, e)
}

func TestC055_ServerThatNeverEvictsIsNotReported(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Args: []string{"--maxmemory", "100mb"}})
	var log testkit.Journal
	e := testkit.Open(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	ls := testkit.Acquire(t, e.Lock("kept", engine.WatchdogLease(time.Second)))
	from := time.Now()
	testkit.Eventually(t, "several ticks pass", func() bool { return time.Since(from) > 200*time.Millisecond })
	require.NotContains(t, log.String(), "maxmemory")
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}
