package testkit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Log is a slog.Handler that remembers what was said.
type Log struct {
	mu    sync.Mutex
	lines []string
	began time.Time // if set, each line says how long after that it came
	most  int       // if positive, as many lines are kept, the last ones
}

// Logger makes a logger, and what it says.
func Logger() (*slog.Logger, *Log) {
	log := &Log{}
	return slog.New(log), log
}

// Enabled is true: everything is remembered.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs drops the attributes.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup drops the group.
func (l *Log) WithGroup(string) slog.Handler { return l }

// Handle remembers a line.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	if !l.began.IsZero() {
		line = fmt.Sprintf("%7.3fs %s", time.Since(l.began).Seconds(), line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && len(l.lines) == l.most {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, line)
	return nil
}

// With returns the lines that have all the parts.
func (l *Log) With(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
line:
	for _, text := range l.lines {
		for _, part := range parts {
			if !strings.Contains(text, part) {
				continue line
			}
		}
		found = append(found, text)
	}
	return found
}

// Journal is a log that tests can read while it is written.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String is all that was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
