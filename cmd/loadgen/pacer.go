package main

import (
	"sync/atomic"
	"time"
)

// pacer hands out the intended starts of an open loop: the n-th is due n/rate after the
// beginning, whatever became of those before it. A client that is late still gets the
// time at which it should have begun, and measures from there, so that a server which
// stands still is charged for everyone it kept waiting (no coordinated omission).
type pacer struct {
	starts  chan time.Duration // since the beginning of the phase; closed at its end
	skipped int64              // due, but nobody had a hand free before the end; read after starts is closed
}

// pacerQueue is how many starts may lie between the pacer and the clients. Their times
// are already fixed, so its size changes no figure.
const pacerQueue = 256

// startPacer begins to hand out starts, of which the last is due before p's end.
func startPacer(p *phase, rate float64) *pacer {
	pc := &pacer{starts: make(chan time.Duration, pacerQueue)}
	go pc.run(p, rate) // ends with the phase
	return pc
}

func (pc *pacer) run(p *phase, rate float64) {
	defer close(pc.starts)
	due := func(n int64) time.Duration { return time.Duration(float64(n) / rate * float64(time.Second)) }
	end := time.NewTimer(p.length - p.elapsed())
	defer end.Stop()
	for n := int64(0); due(n) < p.length; n++ {
		sleepUntil(p, due(n))
		if p.stopped.Load() {
			return
		}
		select {
		case pc.starts <- due(n):
			continue
		default:
		}
		select {
		case pc.starts <- due(n):
		case <-p.stop:
			return
		case <-end.C:
			pc.skipped = int64(float64(p.length)/float64(time.Second)*rate) - n
			return
		}
	}
}

// sleepUntil sleeps until at, or until the phase is stopped. The runtime's timers are a
// millisecond coarse when the process is idle, which is more than an acquire takes; the
// last stretch is left to the system.
func sleepUntil(p *phase, at time.Duration) {
	const coarse, slice = 2 * time.Millisecond, 50 * time.Millisecond
	for {
		left := at - p.elapsed()
		switch {
		case left <= 0 || p.stopped.Load():
			return
		case left > coarse:
			time.Sleep(min(left-coarse, slice))
		default:
			nap(left)
			return
		}
	}
}

// phase is one stretch of load: when it began, how long it may start operations, and
// whether somebody wants it to end sooner.
type phase struct {
	began   time.Time
	length  time.Duration
	stop    chan struct{} // closed when the phase is to end early
	stopped atomic.Bool   // the same, for the hot loop
}

func newPhase(length time.Duration) *phase {
	return &phase{began: time.Now(), length: length, stop: make(chan struct{})}
}

// elapsed is the time since the phase began: one reading of the monotonic clock.
func (p *phase) elapsed() time.Duration { return time.Since(p.began) }

// over reports whether nothing new may begin at now.
func (p *phase) over(now time.Duration) bool { return now >= p.length || p.stopped.Load() }

// end stops the phase early. Only its watcher calls it, once.
func (p *phase) end() {
	p.stopped.Store(true)
	close(p.stop)
}
