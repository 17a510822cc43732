package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// The code of others that an engine calls: loggers, callbacks, contexts. It may block, panic, ask the engine and close
// it, and nothing else may be different for that: none of the other rules knows of it.

// simOthers is the code of others in one engine.
type simOthers struct {
	s      *sim
	eng    *Engine
	proc   *world.Process
	panics int64 // of it
	even   int   // contexts of which Done was asked
	told   []*simCallback
}

// A simCallback is a callback that was asked for.
type simCallback struct {
	calls int
	late  bool // when the engine had nothing but its callbacks left to wait for: Close may have looked
}

// A simWatched is a context of an acquire that is over, and did not end.
type simWatched struct {
	ctx  context.Context //nolint:containedctx // it is looked at
	proc *world.Process
	se   *simEngine
	who  string
}

// errSimUser is what code of others panics with.
var errSimUser = errors.New("simulated: code of others panics")

// drawUsers says whether the code of others is moody.
func drawUsers(seed uint64) bool {
	return rand.New(rand.NewPCG(seed, 13)).IntN(4) == 0 //nolint:gosec // it must repeat
}

// moody reports whether the code of others may block and panic now.
func (s *sim) moody() bool { return s.users && s.ended < len(s.steps) }

// entered is called by all code of others: no mutex of the engine is held where it runs. In a single goroutine a mutex
// that is locked was locked by the caller, for none is held over a wait.
func (o *simOthers) entered(what string) bool {
	if o.eng == nil { // it is just being opened
		return false
	}
	free := o.eng.callbacks.Unlocked()
	for _, n := range o.s.names {
		mu := &o.eng.shard(n.hash()).mu
		if free = free && mu.TryLock(); free {
			mu.Unlock()
		}
	}
	if !free {
		o.s.fail("code of others runs under no mutex", "%s", what)
	}
	return free
}

// onWorker is entered, for what runs on callback workers alone: whatever it does there stops nothing.
func (o *simOthers) onWorker(what string) bool {
	if !o.entered(what) {
		return false
	}
	if !callback.Inside() {
		o.s.fail("code of others stops nothing", "%s runs on no callback worker", what)
		return false
	}
	return true
}

// act blocks, panics or asks the engine, now and then.
func (o *simOthers) act() {
	s := o.s
	if !s.moody() {
		return
	}
	switch s.w.Int64N(8) {
	case 0:
		d := min(s.span(time.Millisecond, 2*time.Second), s.blocks)
		s.blocks -= d
		s.w.Sleep(d)
	case 1:
		o.panics++
		panic(errSimUser)
	case 2:
		o.eng.Held()
		o.eng.Stats()
	default:
	}
}

// simLogger is a logger with moods.
type simLogger struct{ o *simOthers }

func (l *simLogger) Enabled(context.Context, slog.Level) bool {
	if l.o.onWorker("Enabled of a logger") {
		l.o.act()
	}
	return true
}

func (l *simLogger) Handle(_ context.Context, r slog.Record) error {
	if !l.o.onWorker("Handle of a logger") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "panic" && a.Value.Any() == any(errSimLogger) {
			l.o.s.fail("a logger does not hear of its own panic", "%s", r.Message)
		}
		return true
	})
	if l.o.s.moody() && l.o.s.w.Int64N(4) == 0 {
		l.o.panics++
		panic(errSimLogger)
	}
	l.o.act()
	return nil
}

func (l *simLogger) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *simLogger) WithGroup(string) slog.Handler      { return l }

// errSimLogger is what a logger panics with in Handle.
var errSimLogger = errors.New("simulated: a logger panics")

// newOthers makes the code of others for an engine that is about to be opened.
func (se *simEngine) newOthers() (*simOthers, *slog.Logger) {
	o := &simOthers{s: se.s, proc: se.proc}
	if !se.s.users {
		return o, slog.New(slog.DiscardHandler)
	}
	return o, slog.New(&simLogger{o})
}

// callback makes a callback of what it does: it is called once.
func (o *simOthers) callback(do func()) func() {
	told := &simCallback{late: o.eng != nil && o.eng.ended.IsOpen()}
	o.told = append(o.told, told)
	return func() {
		if told.calls++; told.calls > 1 {
			o.s.fail("every callback is called once", "one was called again")
		}
		if o.onWorker("a callback") {
			do()
			o.act()
		}
	}
}

// checkTold: when an engine is closed, every callback was called.
func (o *simOthers) checkTold() {
	for _, told := range o.told {
		if told.calls != 1 && !told.late {
			o.s.fail("every callback is called once", "one was called %d times", told.calls)
		}
	}
}

// A simContext is a caller's own context.
type simContext struct {
	context.Context //nolint:containedctx // it is one
	o               *simOthers
	mood            simMood
	calling         bool // the caller is in the call that it gave this to
	over            bool // that has its result
}

// A simMood is what a context does when it is asked.
type simMood uint8

const (
	moodNone simMood = iota
	moodAsks         // it asks the engine
	moodPanicsInDone
	moodPanicsInErr
)

// own makes a caller's context of its own, now and then.
func (se *simEngine) own(ctx context.Context) *simContext {
	c := &simContext{Context: ctx, o: se.others}
	if se.s.moody() && se.s.w.Int64N(3) == 0 {
		c.mood = moodAsks + simMood(se.s.w.Int64N(3)) //nolint:gosec // in range
	}
	return c
}

// Done is asked by the call itself, and by a callback worker where the engine has learnt that an op has to wait.
func (c *simContext) Done() <-chan struct{} {
	if !c.over && !c.calling && c.stacked() && c.o.onWorker("Done of a context") && c.mood == moodAsks && c.o.s.moody() {
		c.o.lingers()
	}
	c.asked("Done of a context", moodPanicsInDone)
	return c.Context.Done()
}

// stacked reports whether it is worth to look at the whole stack: where a context has no moods, one in eight is enough.
func (c *simContext) stacked() bool {
	c.o.even++
	return c.mood != moodNone || c.o.even%8 == 0
}

// lingers blocks, now and then.
func (o *simOthers) lingers() {
	s := o.s
	if s.contexts == nil { // numbers of its own: they change no other draw
		s.contexts = rand.New(rand.NewPCG(s.seed, 19)) //nolint:gosec // it must repeat
	}
	if s.contexts.IntN(2) == 0 {
		d := min(time.Millisecond<<s.contexts.IntN(11), s.blocks)
		s.blocks -= d
		s.w.Sleep(d)
	}
}

// Err is asked by the call itself, and when the context has ended.
func (c *simContext) Err() error {
	if !c.calling {
		c.asked("Err of a context", moodPanicsInErr)
	}
	return c.Context.Err()
}

func (c *simContext) asked(what string, panics simMood) {
	switch {
	case c.over, !c.o.entered(what):
	case c.mood == moodAsks:
		c.o.eng.Held()
	case c.mood == panics:
		c.o.panics++
		panic(errSimUser)
	}
}

// deaf reports whether the end of the context may not be seen.
func (c *simContext) deaf() bool { return c.mood == moodPanicsInDone || c.mood == moodPanicsInErr }

// finish ends a context whose operation has its result, or has it looked at later whether somebody still watches it.
func (c *simContext) finish(se *simEngine, who string, cancel func()) {
	c.over = true
	if s := se.s; s.users && s.w.Int64N(4) == 0 && c.Context.Err() == nil {
		s.watched = append(s.watched, simWatched{c.Context, se.proc, se, who})
		return
	}
	cancel()
}

// checkWatched: nobody watches the context of an operation that is over.
func (s *sim) checkWatched() {
	for _, c := range s.watched {
		if n := s.w.Watched(c.ctx); n != 0 && c.proc == c.se.proc {
			s.fail("no watch of a context outlives its operation", "%s: %d are left", c.who, n)
		}
	}
}

// closeAs closes an engine, in the moods' time by a callback of its own or of another engine.
func (a *simActor) closeAs(ctx context.Context) error {
	s, eng, by := a.s, a.se.eng, a.se
	if s.moody() && s.w.Int64N(2) == 0 {
		if !s.crashes { // else the other process may die meanwhile
			by = s.engines[s.w.Int64N(int64(len(s.engines)))]
		}
		if by.eng == nil {
			by = a.se
		}
		returned := s.w.NewLatch()
		by.eng.callbacks.Add(by.others.callback(func() {
			if err := eng.Close(ctx); err != nil {
				s.story("engine %d is closed by a callback: %v", a.se.n, err)
			}
			returned.Open()
		}))
		returned.WaitIn(context.Background())
	}
	return eng.Close(ctx)
}
