package engine_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// journal is a log that tests can read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestFault_C055_ServerThatMayEvictLocksIsReportedAndAnEvictedLockIsLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	var log journal
	e := openEngine(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	eventually(t, "a warning at the start", func() bool {
		return bytes.Contains([]byte(log.String()), []byte("maxmemory-policy=allkeys-lru"))
	})
	ls := acquire(t, e.Lock("evicted", engine.WatchdogLease(time.Second)))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1") // evicts all there is at the next write
	_, _ = s.Command(limited(t), "SET", "filler", "1", "PX", "1")
	eventually(t, "the lock is evicted", func() bool { return !exists(t, s, "evicted") })
	await(t, ls.Context().Done(), "the holder is told")
	require.True(t, ls.Lost())
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	finish(t, s, e)
}

func TestFault_C055_ServerThatNeverEvictsIsNotReported(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Args: []string{"--maxmemory", "100mb"}})
	var log journal
	e := openEngine(t, s.Addr(), func(c *engine.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	ls := acquire(t, e.Lock("kept", engine.WatchdogLease(time.Second)))
	from := time.Now()
	eventually(t, "several ticks pass", func() bool { return time.Since(from) > 200*time.Millisecond })
	require.NotContains(t, log.String(), "maxmemory")
	release(t, ls)
	finish(t, s, e)
}
