package engine_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Trouble is not silent: an engine without a logger tells the program's own, whoever that is by then. Only what needs
// attention is told, and nothing where the engine was given a logger.
func TestWithoutALoggerTroubleGoesToTheDefaultOne(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	s := redistest.Run(t, redistest.Options{})
	own, ownLog := testkit.Logger()
	loud, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, testkit.Close(loud)) })
	quiet := testkit.OpenChecked(t, s.Addr(), func(c *engine.Config) { c.Logger = own })
	program, log := testkit.Logger()
	slog.SetDefault(program) // later than Open: as a program may
	for _, e := range []*engine.Engine{loud, quiet} {
		engine.Say(e, "an aside") // at Info
		name := "of " + e.ID()
		ls := testkit.Acquire(t, e.Lock(name))
		_, err := e.Lock(name).ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Within(t, ls.Context().Done(), testkit.TooLong, "it is lost")
	}
	testkit.Eventually(t, "the loss is told", func() bool {
		return len(log.With("WARN", "lock lost", loud.ID())) == 1 && len(ownLog.With("WARN", "lock lost", quiet.ID())) == 1
	})
	require.Empty(t, log.With("an aside"))
	require.Len(t, ownLog.With("INFO", "an aside"), 1)
	require.Empty(t, log.With(quiet.ID()))
}
