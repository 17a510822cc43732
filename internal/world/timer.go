package world

import (
	"container/heap"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Timer is a function that a simulated world will call.
type Timer struct {
	at   clock.Instant
	seq  uint64
	fn   func() // nil: fired or stopped
	proc *Process
}

// Stop keeps the function from being called, and says whether it was still to be.
func (t *Timer) Stop() bool {
	was := t.fn != nil
	t.fn = nil
	return was
}

// At has fn called when the clock shows an instant, or at once. fn runs outside of every goroutine: it
// must not wait.
func (w *World) At(at clock.Instant, fn func()) *Timer { return w.atFor(w.current(), at, fn) }

// After is At, counted from now.
func (w *World) After(d time.Duration, fn func()) *Timer { return w.At(w.now.Add(d), fn) }

// Outside is At for what belongs to no process: a server, the network.
func (w *World) Outside(at clock.Instant, fn func()) *Timer { return w.atFor(nil, at, fn) }

func (w *World) atFor(p *Process, at clock.Instant, fn func()) *Timer {
	w.seq++
	t := &Timer{at: max(at, w.now), seq: w.seq, fn: fn, proc: p}
	heap.Push(&w.timers, t)
	return t
}

// tick lets time pass to the next timer and fires it. It says false if there is none.
func (w *World) tick() bool {
	if len(w.timers) == 0 {
		return false
	}
	t := heap.Pop(&w.timers).(*Timer) //nolint:forcetypeassert // ours alone
	if t.fn == nil {
		return true
	}
	w.now = max(w.now, t.at)
	if p := t.proc; p != nil {
		switch {
		case p.dead:
			return true
		case p.until > w.now:
			t.at = p.until
			heap.Push(&w.timers, t)
			return true
		}
	}
	fn := t.fn
	t.fn = nil
	w.proc = t.proc
	fn()
	w.proc = nil
	return true
}

// alarm is a clock.Alarm of a simulated world.
type alarm struct {
	w     *World
	fire  func()
	timer *Timer
}

// NewAlarm makes an alarm, disarmed, that calls fire when the clock shows the armed instant.
func (w *World) NewAlarm(fire func()) (clock.Alarm, error) { return &alarm{w: w, fire: fire}, nil }

// Arm sets the alarm to at.
func (a *alarm) Arm(at clock.Instant) {
	a.Disarm()
	a.timer = a.w.At(at, a.fire)
}

// Disarm takes the arming back.
func (a *alarm) Disarm() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Close disarms.
func (a *alarm) Close() error {
	a.Disarm()
	return nil
}

// timerHeap orders timers, earliest first, for container/heap.
type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *timerHeap) Push(x any) { *h = append(*h, x.(*Timer)) } //nolint:forcetypeassert // ours alone

// Pop is for container/heap.
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
