package world

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Timer is a function that a simulated world will call, or a goroutine that it will let go on. It may be used
// again when it has fired or was stopped.
type Timer struct {
	at    clock.Instant
	seq   uint64
	w     *World
	fn    func()   // what it calls,
	r     *routine // or who sleeps until then
	proc  *Process
	place int  // in the world's timers, counted from 1; 0: it is not set
	spare bool // nobody knows it: the world uses it again
}

// Stop keeps the function from being called, and says whether it was still to be.
func (t *Timer) Stop() bool {
	if t.place == 0 {
		return false
	}
	t.w.timers.remove(t.place - 1)
	return true
}

// At has fn called when the clock shows an instant, or at once. fn runs outside of every goroutine: it
// must not wait.
func (w *World) At(at clock.Instant, fn func()) *Timer {
	t := &Timer{w: w, fn: fn}
	t.set(w.current(), at)
	return t
}

// After is At, counted from now.
func (w *World) After(d time.Duration, fn func()) *Timer { return w.At(w.now.Add(d), fn) }

// Outside is At for what belongs to no process: a server, the network. It cannot be stopped.
func (w *World) Outside(at clock.Instant, fn func()) {
	var t *Timer
	if n := len(w.spare); n > 0 {
		t, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		t = &Timer{w: w, spare: true}
	}
	t.fn = fn
	t.set(nil, at)
}

// set sets a timer that is not.
func (t *Timer) set(p *Process, at clock.Instant) {
	w := t.w
	w.seq++
	t.at, t.seq, t.proc = max(at, w.now), w.seq, p
	w.timers.push(t)
}

// tick lets time pass to the next timer and fires it. It says false if there is none.
func (w *World) tick() bool {
	if len(w.timers) == 0 {
		return false
	}
	t := w.timers[0].t
	w.timers.remove(0)
	w.now = max(w.now, t.at)
	if p := t.proc; p != nil {
		switch {
		case p.dead:
			return true
		case p.until > w.now:
			t.at = p.until
			w.timers.push(t)
			return true
		}
	}
	if r := t.r; r != nil {
		if r.waits != nil {
			r.goOn()
		} else {
			w.unpark(r)
		}
		return true
	}
	fn := t.fn
	w.proc = t.proc
	if t.spare {
		t.fn = nil
		w.spare = append(w.spare, t)
	}
	fn()
	w.proc = nil
	return true
}

// alarm is a clock.Alarm of a simulated world.
type alarm struct{ timer Timer }

// NewAlarm makes an alarm, disarmed, that calls fire when the clock shows the armed instant.
func (w *World) NewAlarm(fire func()) (clock.Alarm, error) {
	return &alarm{Timer{w: w, fn: fire}}, nil
}

// Arm sets the alarm to at.
func (a *alarm) Arm(at clock.Instant) {
	a.timer.Stop()
	a.timer.set(a.timer.w.current(), at)
}

// Disarm takes the arming back.
func (a *alarm) Disarm() { a.timer.Stop() }

// Close disarms.
func (a *alarm) Close() error {
	a.Disarm()
	return nil
}

// timerHeap holds the timers that are set, the earliest first; those of one instant in the order in which they were
// set. Each knows its place, so that one that is stopped leaves at once: most are, long before their time.
type timerHeap []timed

// timed is a timer with what it is ordered by.
type timed struct {
	at  clock.Instant
	seq uint64
	t   *Timer
}

func (a timed) before(b timed) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// put makes one the i-th.
func (h timerHeap) put(i int, one timed) {
	h[i] = one
	one.t.place = i + 1
}

func (h *timerHeap) push(t *Timer) {
	*h = append(*h, timed{})
	h.up(len(*h)-1, timed{t.at, t.seq, t})
}

// up puts one where it belongs, at the i-th place or above.
func (h timerHeap) up(i int, one timed) {
	for i > 0 {
		parent := (i - 1) / 2
		if !one.before(h[parent]) {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	h.put(i, one)
}

// down puts one where it belongs, at the i-th place or below.
func (h timerHeap) down(i int, one timed) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if next := child + 1; next < len(h) && h[next].before(h[child]) {
			child = next
		}
		if !h[child].before(one) {
			break
		}
		h.put(i, h[child])
		i = child
	}
	h.put(i, one)
}

// remove takes the i-th out.
func (h *timerHeap) remove(i int) {
	old := *h
	old[i].t.place = 0
	last := len(old) - 1
	one := old[last]
	old[last] = timed{}
	*h = old[:last]
	switch {
	case i == last:
	case i > 0 && one.before(old[(i-1)/2]):
		h.up(i, one)
	default:
		h.down(i, one)
	}
}
