package callback

import (
	"context"
	"log/slog"
)

// MaxLines is how many lines may wait for the user's logger. Further ones are dropped and counted.
const MaxLines = 16 << 10

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
	lines    []line // bound: MaxLines
	speaking bool   // a callback that speaks is queued or runs
	inLogger bool   // it is in the logger now
	dropped  int64
	untold   int64 // of those, not told to the logger yet
}

// Say has the logger told a line, unless nobody listens or too many wait. Blocks: never.
func (p *Pool) Say(level slog.Level, text string, args ...any) {
	if p.logger == nil {
		return
	}
	p.mu.Lock()
	if len(p.lines) >= MaxLines {
		p.dropped++
		p.untold++
		p.mu.Unlock()
		return
	}
	p.lines = append(p.lines, line{level, text, args})
	start := !p.speaking
	p.speaking = true
	p.mu.Unlock()
	if start {
		p.Add(p.speak)
	}
}

// speak is the callback that says the first line.
func (p *Pool) speak() {
	defer p.spoken()
	p.mu.Lock()
	l, untold := p.lines[0], p.untold
	// Taken out before it is said: a logger that ends its goroutine does not hear it again.
	p.lines[0] = line{}
	p.lines, p.untold, p.inLogger = p.lines[1:], 0, true
	p.mu.Unlock()
	if untold > 0 {
		p.logger.Log(context.Background(), slog.LevelWarn,
			"holdfast: lines were dropped, the logger is too slow", "lines", untold)
	}
	p.logger.Log(context.Background(), l.level, l.text, l.args...)
}

// spoken goes on with the next line, however the logger has ended. A panic of it is counted, and
// reported to nobody: the logger would panic again.
func (p *Pool) spoken() {
	r := recover()
	p.mu.Lock()
	if r != nil {
		p.panics++
	}
	p.inLogger = false
	p.speaking = len(p.lines) > 0
	more := p.speaking
	if !more {
		p.lines = nil
	}
	p.mu.Unlock()
	if more {
		p.Add(p.speak)
	}
}
