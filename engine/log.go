package engine

import (
	"context"
	"log/slog"
)

// maxLines is how many lines may wait for the user's logger. Further ones are dropped and counted.
const maxLines = 16 << 10

// A line is one word to the user's logger.
type line struct {
	level slog.Level
	text  string
	args  []any
}

// journal holds what the user's logger has not heard yet. A logger is user code: it may block, panic or
// end its goroutine in each of its methods. So all of it runs on a callback worker, one line after the
// other: lines keep their order, and a logger that blocks holds one worker and nothing else.
type journal struct {
	lines    []line // bound: maxLines
	speaking bool   // a callback that speaks is queued or runs
	inLogger bool   // it is in the logger now
	dropped  int64
	untold   int64 // of those, not told to the logger yet
}

// log has the user's logger told. Blocks: never.
func (e *Engine) log(level slog.Level, text string, args ...any) {
	e.callbacks.say(line{level, text, args})
}

// say queues a line, unless nobody listens or too many wait. Blocks: never.
func (c *callbacks) say(l line) {
	if c.logger == nil {
		return
	}
	c.mu.Lock()
	if len(c.lines) >= maxLines {
		c.dropped++
		c.untold++
		c.mu.Unlock()
		return
	}
	c.lines = append(c.lines, l)
	start := !c.speaking
	c.speaking = true
	c.mu.Unlock()
	if start {
		c.add(c.speak)
	}
}

// speak is the callback that says the first line.
func (c *callbacks) speak() {
	defer c.spoken()
	c.mu.Lock()
	l, untold := c.lines[0], c.untold
	c.lines[0] = line{}
	c.lines, c.untold, c.inLogger = c.lines[1:], 0, true
	c.mu.Unlock()
	if untold > 0 {
		c.logger.Log(context.Background(), slog.LevelWarn, "holdfast: lines were dropped, the logger is too slow", "lines", untold)
	}
	c.logger.Log(context.Background(), l.level, l.text, l.args...)
}

// spoken goes on with the next line, however the logger has ended. A panic of it is counted, and
// reported to nobody: the logger would panic again.
func (c *callbacks) spoken() {
	r := recover()
	c.mu.Lock()
	if r != nil {
		c.panics++
	}
	c.inLogger = false
	c.speaking = len(c.lines) > 0
	more := c.speaking
	if !more {
		c.lines = nil
	}
	c.mu.Unlock()
	if more {
		c.add(c.speak)
	}
}
