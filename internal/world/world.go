package world

import (
	"context"
	crypto "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A World runs goroutines, lets time pass and draws random numbers. The nil World is the real one. A
// simulated one belongs to the goroutine that runs it; only what runs in it may call its methods
// meanwhile.
type World struct {
	rng    *rand.Rand
	now    clock.Instant
	seq    uint64 // of timers: those of one instant fire in the order in which they were set
	timers timerHeap
	spare  []*Timer
	ready  []*routine
	idle   []*routine // ended, to be used again
	all    []*routine // those that were ever started, for Close
	crew   *Crew      // where they come from and go to; nil: nowhere
	cur    *routine
	closed bool

	yields   int // of 1000 calls of Yield, how many let others go first
	failure  error
	steps    uint64
	hash     uint64
	awaiting map[<-chan error]func()
	onStep   func()
	onYield  func(at string)
	proc     *Process // of timers that fire now
}

// New makes a simulated world. Of 1000 yield points that are passed, so many let others go first.
func New(seed uint64, yields int) *World {
	return &World{
		rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), //nolint:gosec // it must repeat, not be secret
		now: clock.Instant(time.Hour), yields: yields, hash: offset64, awaiting: make(map[<-chan error]func()),
	}
}

// Of returns the simulated world whose clock c is; nil: it is the real one.
func Of(c clock.Clock) *World {
	w, _ := c.(*World)
	return w
}

// Now returns the instant that the world's clock shows.
func (w *World) Now() clock.Instant { return w.now }

// epoch is what the calendar shows when a world begins.
//
//nolint:gochecknoglobals // a constant in all but name
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Wall translates t to the world's calendar.
func (w *World) Wall(t clock.Instant) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(t))
}

// instant is the opposite of Wall.
func (w *World) instant(t time.Time) clock.Instant { return clock.Instant(t.Sub(epoch)) }

// A Process is what stops and dies as one: a client with all its goroutines. What is started by one of
// a process belongs to it.
type Process struct {
	until clock.Instant // suspended until then
	dead  bool
	live  int
}

// Live counts the goroutines of a process that have not ended.
func (p *Process) Live() int { return p.live }

// routine is one goroutine of a simulated world, as a coroutine.
type routine struct {
	w     *World
	id    int
	name  string
	fn    func()
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	proc  *Process
	at    string // the last yield point it came by
	runs  bool

	timer  Timer    // until when it sleeps or waits
	waits  *waiters // where it waits; nil: nowhere, or only for its timer
	behind *routine // who waits there behind it
}

// Go starts fn. In the real world it is a goroutine.
func (w *World) Go(name string, fn func()) {
	if w == nil {
		go fn()
		return
	}
	w.start(name, w.current(), fn)
}

// In starts fn in a process.
func (w *World) In(p *Process, name string, fn func()) { w.start(name, p, fn) }

func (w *World) current() *Process {
	if w.cur != nil {
		return w.cur.proc
	}
	return w.proc
}

func (w *World) start(name string, p *Process, fn func()) {
	if w.closed { // who is unwound may start others: they would never run, and keep a coroutine of the crew
		return
	}
	var r *routine
	if n := len(w.idle); n > 0 {
		r, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		r = w.newRoutine()
	}
	r.name, r.fn, r.proc, r.at, r.runs = name, fn, p, "", true
	if p != nil {
		p.live++
	}
	w.ready = append(w.ready, r)
}

// errUnwound ends a coroutine whose world is closed.
var errUnwound = errors.New("world: closed")

// call runs one function to its end. The stack of a panic is lost behind a coroutine, so it is kept here.
func (r *routine) call() {
	defer func() {
		if v := recover(); v != nil && v != any(errUnwound) {
			r.w.Fail(fmt.Errorf("panic in %s: %v\n%s", r.name, v, debug.Stack()))
		}
	}()
	r.fn()
	r.runs = false
	if r.proc != nil {
		r.proc.live--
	}
}

// self is the goroutine that runs.
func (w *World) self() *routine {
	if w.cur == nil {
		panic("world: a wait outside of every goroutine of the world")
	}
	return w.cur
}

// park gives control back until somebody unparks who runs.
func (w *World) park() {
	if !w.self().yield(struct{}{}) {
		panic(errUnwound)
	}
}

func (w *World) unpark(r *routine) { w.ready = append(w.ready, r) }

// Yield lets others go first, now and then. It stands between two critical sections of one event and is
// nothing in the real world.
func (w *World) Yield(at string) {
	if w != nil {
		w.letGo(at)
	}
}

func (w *World) letGo(at string) {
	if w.cur != nil {
		w.cur.at = at
		if w.onYield != nil {
			w.onYield(at)
		}
	}
	if w.cur == nil || w.closed || w.yields == 0 || w.rng.IntN(1000) >= w.yields {
		return
	}
	if w.rng.IntN(8) == 0 { // the scheduler of a busy machine
		w.Sleep(time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))))
		return
	}
	w.unpark(w.cur)
	w.park()
}

// Sleep waits for d. In the real world it is time.Sleep.
func (w *World) Sleep(d time.Duration) {
	if w == nil {
		time.Sleep(d)
		return
	}
	r := w.self()
	r.timer.set(r.proc, w.now.Add(max(d, 0)))
	w.park()
}

// Fail ends the run with an error; the first one counts.
func (w *World) Fail(err error) {
	if w.failure == nil {
		w.failure = err
	}
}

// Failed returns why the run ended, or nil.
func (w *World) Failed() error { return w.failure }

// OnStep has fn called after every step.
func (w *World) OnStep(fn func()) { w.onStep = fn }

// OnYield has fn called in every goroutine that comes by a yield point, before others may go first. It may wait.
func (w *World) OnYield(fn func(at string)) { w.onYield = fn }

// Alive lists the goroutines of a process that have not ended, each with the last yield point that it came by.
func (w *World) Alive(p *Process) []string {
	var alive []string
	for _, r := range w.all {
		if r.runs && r.proc == p {
			alive = append(alive, r.name+" ("+r.at+")")
		}
	}
	return alive
}

// Steps returns how many steps were taken.
func (w *World) Steps() uint64 { return w.steps }

// Hash returns a hash of every step that was taken: what ran, and when.
func (w *World) Hash() uint64 { return w.hash }

// Run takes steps until the run has failed, nobody can go on and no timer is set, or done says so.
func (w *World) Run(done func() bool) error {
	for w.failure == nil && !done() {
		if len(w.ready) == 0 {
			if !w.tick() {
				break
			}
			continue
		}
		i := 0
		if n := len(w.ready); n > 1 {
			i = w.rng.IntN(n)
		}
		r := w.ready[i]
		last := len(w.ready) - 1
		w.ready[i], w.ready[last] = w.ready[last], nil
		w.ready = w.ready[:last]
		if w.delayed(r) {
			continue
		}
		w.step(r)
	}
	return w.failure
}

// delayed keeps what belongs to a process that is suspended or dead from running.
func (w *World) delayed(r *routine) bool {
	switch p := r.proc; {
	case p == nil:
		return false
	case p.dead:
		return true
	case p.until > w.now:
		r.timer.set(nil, p.until)
		return true
	default:
		return false
	}
}

func (w *World) step(r *routine) {
	w.steps++
	w.mix(r.name, uint64(r.id))
	w.cur = r
	r.next()
	w.cur = nil
	if w.onStep != nil {
		w.onStep()
	}
}

const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// Note mixes something that happened into the hash of the run.
func (w *World) Note(text string, n uint64) { w.mix(text, n) }

func (w *World) mix(text string, n uint64) {
	h := w.hash
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime64
	}
	h = (h ^ n) * prime64
	w.hash = (h ^ uint64(w.now)) * prime64 //nolint:gosec // bits
}

// Suspend keeps everything of a process from running for d.
func (w *World) Suspend(p *Process, d time.Duration) { p.until = max(p.until, w.now.Add(d)) }

// Suspended is for how much longer that is.
func (w *World) Suspended(p *Process) time.Duration { return max(p.until.Sub(w.now), 0) }

// Kill ends a process: nothing of it runs any more.
func (w *World) Kill(p *Process) { p.dead = true }

// Close ends whoever still waits. The world cannot be used afterwards.
func (w *World) Close() {
	w.closed = true
	for _, r := range w.all {
		if w.crew != nil && r.fn == nil {
			w.crew.rest(r)
			continue
		}
		w.cur = r
		r.stop()
	}
	w.cur, w.all, w.idle = nil, nil, nil
}

// N draws a duration from 0 to below n.
func (w *World) N(n time.Duration) time.Duration {
	if w == nil {
		return rand.N(n)
	}
	return time.Duration(w.rng.Int64N(int64(n)))
}

// Int64 draws a number from 0 on.
func (w *World) Int64() int64 {
	if w == nil {
		return rand.Int64()
	}
	return w.rng.Int64()
}

// Int64N draws a number from 0 to below n.
func (w *World) Int64N(n int64) int64 {
	if w == nil {
		return rand.Int64N(n)
	}
	return w.rng.Int64N(n)
}

// Read fills b with random bytes: those of the real world nobody can guess. It never fails.
func (w *World) Read(b []byte) (int, error) {
	if w == nil {
		return crypto.Read(b)
	}
	var eight [8]byte
	for at := 0; at < len(b); at += len(eight) {
		binary.BigEndian.PutUint64(eight[:], uint64(w.rng.Int64()))
		copy(b[at:], eight[:])
	}
	return len(b), nil
}

// AfterFunc is context.AfterFunc. In a simulated world only its own contexts end, see [World.WithCancel].
func (w *World) AfterFunc(ctx context.Context, fn func()) (stop func() bool) {
	if w == nil {
		return context.AfterFunc(ctx, fn)
	}
	if c := contextOf(ctx); c != nil {
		return c.AfterFunc(fn)
	}
	return func() bool { return true }
}
