package engine

import (
	"context"
	"log/slog"
	"time"
)

// Each rule about the code of others, broken on purpose: see TestSimNotices.
//
//nolint:gochecknoglobals // a table
var simUserSabotages = []simSabotage{
	{"code of others runs under no mutex", "but under a shard's", []simKind{simLock}, func(s *sim) bool {
		se := s.engines[0]
		mu := &se.eng.shard(s.names[0].hash()).mu
		mu.Lock()
		defer mu.Unlock()
		c := &simContext{Context: context.Background(), o: se.others}
		_ = c.Err()
		return true
	}},
	{"code of others stops nothing", "but a caller's goroutine", []simKind{simLock}, func(s *sim) bool {
		(&simLogger{s.engines[0].others}).Enabled(context.Background(), slog.LevelInfo)
		return true
	}},
	{"a logger does not hear of its own panic", "but does", []simKind{simLock}, func(s *sim) bool {
		o := s.engines[0].others
		o.eng.callbacks.Add(func() {
			r := slog.NewRecord(time.Time{}, slog.LevelInfo, "a callback panicked", 0)
			r.Add("panic", errSimLogger)
			_ = (&simLogger{o}).Handle(context.Background(), r)
		})
		return true
	}},
	{"every callback is called once", "but is not", []simKind{simLock}, func(s *sim) bool {
		s.engines[0].others.callback(func() {})
		return true
	}},
	{"no watch of a context outlives its operation", "but one does", []simKind{simLock}, func(s *sim) bool {
		se, ctx := s.engines[0], anyContext(s)
		s.w.AfterFunc(ctx, func() {})
		s.watched = append(s.watched, simWatched{ctx, se.proc, se, "somebody"})
		return true
	}},
}
