package wheel

import (
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const (
	// tick is the resolution of the timing wheel.
	tick = 5 * time.Millisecond
	// wheelSize slots of 5 ms reach 1.28 s on the first level, 23 h on the third.
	wheelSize = 256
	// horizon is how far ahead a timer is aimed at most.
	horizon = 24 * time.Hour
)

// timers is the goroutine that talks to the timing wheel, and nobody else does. That package can lock
// itself up: what it flushes it may put back into the bucket whose mutex it holds, and every call that
// comes to this bucket then waits for ever. So no mutex of ours is held across a call of it, and nobody
// waits for this goroutine. If it is stuck, the alarm and the ticker do without.
type timers struct {
	w     *Wheel
	after func(d time.Duration, f func()) Stopper
	tw    *timingwheel.TimingWheel // nil: replaced, in tests
	ring  chan struct{}            // capacity 1: the aim has changed
	ended chan struct{}

	// What the ticker knows of it.
	calls atomic.Int64              // calls begun and ended: odd while one is on its way
	due   atomic.Pointer[time.Time] // by when its timer has to come; nil: there is none
	stuck atomic.Int64              // how often it was found stuck

	// The ticker's.
	seen int64 // calls, at the last tick
	late int   // for how many ticks it looks stuck
}

// startTimers starts the timing wheel and its goroutine.
func (w *Wheel) startTimers(cfg Config) {
	if cfg.NoTimingWheel {
		return
	}
	t := &timers{w: w, after: cfg.After, ring: make(chan struct{}, 1), ended: make(chan struct{})}
	if t.after == nil {
		t.tw = timingwheel.NewTimingWheel(tick, wheelSize)
		t.after = func(d time.Duration, f func()) Stopper { return t.tw.AfterFunc(d, f) }
		t.tw.Start()
	}
	w.timers = t
	w.timed.set = t.wake
	go t.work()
}

// wake tells the goroutine that the aim has changed. Blocks: never.
func (t *timers) wake(clock.Instant) {
	select {
	case t.ring <- struct{}{}:
	default:
	}
}

// work keeps one timer on the timing wheel, aimed at the earliest bucket, a tick late: timers come up to
// a tick early.
func (t *timers) work() {
	world.NewPart("timers").Label()
	defer close(t.ended)
	var last Stopper
	for {
		select {
		case <-t.ring:
		case <-t.w.quit:
			if last != nil {
				last.Stop()
			}
			t.stop()
			return
		}
		last = t.aim(last)
	}
}

// aim sets the timer anew.
func (t *timers) aim(last Stopper) Stopper {
	t.calls.Add(1)
	defer t.calls.Add(1)
	t.due.Store(nil)
	if last != nil {
		last.Stop() // too late is no matter: a look too many
	}
	at := t.w.timed.aim()
	if at == 0 {
		return nil
	}
	left := min(max(at.Sub(t.w.clock.Now()), 0), horizon) + tick
	due := time.Now().Add(left + tick)
	t.due.Store(&due)
	return t.after(left, t.w.onTimer)
}

// stop stops the timing wheel while nothing is cascading. The goroutine that moves timers
// to a lower level hands them to the polling goroutine, and would wait for ever for one
// that Stop has sent home. Our timer has been taken out, so once a timer set now
// has come through that goroutine, it has nothing left to move. If a stepped wall clock
// keeps that timer from coming, we stop waiting for it.
func (t *timers) stop() {
	if t.tw == nil {
		return
	}
	through := make(chan struct{})
	t.tw.AfterFunc(tick, func() { close(through) })
	patience := time.NewTimer(2*tick + every)
	defer patience.Stop()
	select {
	case <-through:
	case <-patience.C:
	}
	t.tw.Stop()
}

// wait waits for the goroutine to end, but not for one that is stuck.
func (t *timers) wait() {
	if t == nil {
		return
	}
	patience := time.NewTimer(2*tick + stuckAfter)
	defer patience.Stop()
	select {
	case <-t.ended:
	case <-patience.C:
	}
}

// onTimer is what a timer of the timing wheel calls; it may come early or late. One that came early is not
// aimed again at what it missed, for the timing wheel would come early again, and at once, for as long as
// the wall clock is behind it: that is left to the ticker.
func (w *Wheel) onTimer() {
	w.timers.due.Store(nil)
	was := w.timed.spent()
	if at := w.sweep(); at != was {
		w.arm(at)
	}
}
