package callback

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// ownContext is one of ours, as a lease's is.
type ownContext struct {
	Own
	context.Context //nolint:containedctx // it is one
}

// foreignContext is a caller's own.
type foreignContext struct{ context.Context } //nolint:containedctx // it is one

func TestContextsOfOthersAreAskedOnAWorkerAlone(t *testing.T) {
	p := newPool(t, nil)
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	timed, end := context.WithTimeout(t.Context(), long)
	defer end()
	w := world.New(1, 0)
	defer w.Close()
	simulated, stop := w.WithCancel(context.Background())
	defer stop()
	for name, c := range map[string]struct {
		ctx     context.Context //nolint:containedctx // a table
		foreign bool
	}{
		"Background": {context.Background(), false}, "TODO": {context.TODO(), false},
		"Cancel": {cancelled, false}, "Timeout": {timed, false}, "WithoutCancel": {context.WithoutCancel(foreignContext{cancelled}), false},
		"Simulated": {simulated, false}, "Ours": {ownContext{Context: cancelled}, false},
		"Foreign": {foreignContext{cancelled}, true}, "ForeignThatHasOurs": {foreignContext{ownContext{Context: cancelled}}, true},
		"ValueOfForeign": {context.WithValue(foreignContext{cancelled}, p, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			inside := make(chan bool, 1)
			p.Ask(c.ctx, func() { inside <- Inside() })
			if !c.foreign {
				require.Len(t, inside, 1, "at once")
			}
			require.Equal(t, c.foreign, <-inside)
			p.Unwatch(c.ctx, func() bool { inside <- Inside(); return true })
			require.Equal(t, c.foreign, <-inside)
		})
	}
}

func TestAWatchThatPanicsWhenItIsTakenBackIsReported(t *testing.T) {
	log := &orderlyLog{gate: make(chan struct{})}
	close(log.gate)
	p, err := New(nil, slog.New(log))
	require.NoError(t, err)
	p.Unwatch(t.Context(), nil)
	p.UnwatchHere(nil)
	p.UnwatchHere(func() bool { panic("on purpose") })
	p.Close(t.Context())
	require.EqualValues(t, 1, p.Stats().Panics)
	require.Equal(t, []string{"panic=on purpose"}, log.said)
}

func TestStuckTellsALoggerFromCallbacks(t *testing.T) {
	log := &orderlyLog{gate: make(chan struct{})}
	p := newPool(t, slog.New(log))
	require.Empty(t, p.Stuck())
	p.Say(slog.LevelInfo, "a line")
	require.Eventually(t, func() bool { return p.Stuck() == "the logger has not returned" }, long, time.Millisecond)
	open := block(t, p, 2)
	require.Equal(t, "the logger has not returned: 2 callbacks have not returned", p.Stuck())
	close(log.gate)
	open()
}
