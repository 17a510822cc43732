package callback

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// orderlyLog waits for the gate, then remembers the first attribute of every line.
type orderlyLog struct {
	gate chan struct{}
	mu   sync.Mutex
	said []string
}

func (l *orderlyLog) Enabled(context.Context, slog.Level) bool { <-l.gate; return true }
func (l *orderlyLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *orderlyLog) WithGroup(string) slog.Handler            { return l }

func (l *orderlyLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		l.said = append(l.said, a.String())
		return false
	})
	return nil
}

func TestLinesForALoggerThatBlocksAreBoundedCountedAndInOrder(t *testing.T) {
	log := &orderlyLog{gate: make(chan struct{})}
	p, err := New(nil, slog.New(log))
	require.NoError(t, err)
	const more = 100
	for i := range MaxLines + more {
		p.Say(slog.LevelInfo, "a line", "n", i)
	}
	// One may be with the logger already.
	lost := p.Stats().Dropped
	require.GreaterOrEqual(t, lost, int64(more-1))
	require.LessOrEqual(t, lost, int64(more))
	close(log.gate)
	p.Close(t.Context())
	require.Len(t, log.said, MaxLines+more-int(lost)+1)
	var told []string
	want := 0
	for _, line := range log.said {
		if line == fmt.Sprint("n=", want) {
			want++
		} else {
			told = append(told, line)
		}
	}
	require.Equal(t, []string{fmt.Sprint("lines=", lost)}, told, "and the logger is told, once")
	require.True(t, slices.Contains(log.said, "n=0"))
}
