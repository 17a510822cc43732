package pace

import "time"

// Pacer hands out the intended starts of an open loop: the n-th is due n/rate after the
// beginning, whatever became of those before it. A client that is late still gets the
// time at which it should have begun, and measures from there, so that a server which
// stands still is charged for everyone it kept waiting (no coordinated omission).
type Pacer struct {
	Starts  chan time.Duration // since the beginning of the phase; closed at its end
	Skipped int64              // due, but nobody had a hand free, even lateStarts after the end; read after starts is closed
}

// lateStarts is how long after the end of a phase what was due before it may still begin: a short stall at the end is
// then seen in the latency, and only a rate that is never reached skips starts.
const lateStarts = 250 * time.Millisecond

// pacerQueue is how many starts may lie between the pacer and the clients. Their times
// are already fixed, so its size changes no figure.
const pacerQueue = 256

// StartPacer begins to hand out starts, of which the last is due before p's end.
func StartPacer(p *Phase, rate float64) *Pacer {
	pc := &Pacer{Starts: make(chan time.Duration, pacerQueue)}
	go pc.run(p, rate) // ends with the phase
	return pc
}

func (pc *Pacer) run(p *Phase, rate float64) {
	defer close(pc.Starts)
	due := func(n int64) time.Duration { return time.Duration(float64(n) / rate * float64(time.Second)) }
	end := time.NewTimer(p.length + lateStarts - p.Elapsed())
	defer end.Stop()
	napper := newNapper()
	defer napper.close()
	for n := int64(0); due(n) < p.length; n++ {
		sleepUntil(p, napper, due(n))
		if p.stopped.Load() {
			return
		}
		select {
		case pc.Starts <- due(n):
			continue
		default:
		}
		select {
		case pc.Starts <- due(n):
		case <-p.stop:
			return
		case <-end.C:
			pc.Skipped = int64(float64(p.length)/float64(time.Second)*rate) - n
			return
		}
	}
}

// sleepUntil sleeps until at, or until the phase is stopped. The runtime's timers are a
// millisecond coarse when the process is idle, which is more than an acquire takes; the
// last stretch is left to the system.
func sleepUntil(p *Phase, napper *napper, at time.Duration) {
	const coarse, slice = 2 * time.Millisecond, 50 * time.Millisecond
	for {
		left := at - p.Elapsed()
		switch {
		case left <= 0 || p.stopped.Load():
			return
		case left > coarse:
			time.Sleep(min(left-coarse, slice))
		default:
			napper.nap(left)
			return
		}
	}
}
