package engine_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// warnings hands on what a logger is told.
type warnings struct{ told chan string }

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w.told <- r.Message
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

// A timing wheel that has locked itself up stops nothing, and the operator hears of it once.
func TestAStuckTimingWheelIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	open := make(chan struct{})
	told := make(chan string, 100)
	e := testkit.Open(t, s.Addr(), func(cfg *engine.Config) {
		engine.StickTimingWheel(cfg, open)
		cfg.Logger = slog.New(warnings{told})
	})
	require.Contains(t, testkit.Await(t, told, "the warning"), "the timing wheel is stuck")
	require.EqualValues(t, 1, e.Stats().TimingWheelStuck)
	ls := testkit.Acquire(t, e.Lock("name", engine.WatchdogLease(engine.MinWatchdogLease)))
	testkit.RequireKept(t, e, ls, 0, 3)
	testkit.Release(t, ls)
	require.Empty(t, told, "once")
	close(open)
	testkit.Finish(t, s, e)
}
