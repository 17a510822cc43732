package callback

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// TickEvery is how often whoever made a pool calls its Tick.
const TickEvery = 50 * time.Millisecond

const (
	// poolSize is the capacity of the pool while it is not stuck.
	poolSize = 256
	// batch is how many callbacks collect before another worker helps.
	batch = 64
	// tickGrowth is how many turns a tick adds at least, and all that it adds beyond poolSize.
	tickGrowth = 8
)

// A Pool runs callbacks. The zero value is ready: it has no workers that stay, each turn is a goroutine, nobody needs
// to close it and nobody hears of panics.
type Pool struct {
	world  *world.World
	ants   *ants.Pool   // nil: each turn is a goroutine
	logger *slog.Logger // nil: nobody listens
	part   world.Part

	mu     sync.Mutex
	queue  []func()     // bound: one for each OnComplete, two for each acquire that waits with a context of the user's
	busy   int          // callbacks that were called and have not returned
	idle   *world.Latch // opened when no callback waits or runs; nil while nobody waits for that
	closed bool         // ants runs nothing any more

	// Parked is what those who wait for results of the same engine use again. It is the caller's.
	Parked sync.Pool

	ran, ranAtTick   int64
	panics, overflow int64

	journal // guarded by mu
}

// New makes a pool of a world; nil is the real one. logger hears of panics and what is said by Say; it may be nil.
func New(w *world.World, logger *slog.Logger) (*Pool, error) {
	p := &Pool{world: w, logger: logger, part: world.NewPart("callbacks")}
	if w != nil {
		return p, nil
	}
	var err error
	if p.ants, err = ants.NewPool(poolSize, ants.WithNonblocking(true)); err != nil {
		return nil, fmt.Errorf("holdfast: callback pool: %w", err)
	}
	return p, nil
}

// World is where the pool runs.
func (p *Pool) World() *world.World { return p.world }

// Add queues one callback. Blocks: never.
//
// While callbacks wait, a turn looks at them or one is on its way: whoever queues the first starts it, and a turn
// ends only when it finds none.
func (p *Pool) Add(fn func()) {
	p.mu.Lock()
	p.queue = append(p.queue, fn)
	start := len(p.queue)%batch == 1
	p.mu.Unlock()
	p.world.Yield("callback.Pool.Add: queued | started")
	if start {
		p.start()
	}
}

// Tick sees to callbacks that wait behind others that are stuck: if none has returned since the last tick, it doubles
// the turns, and beyond poolSize it adds a few.
func (p *Pool) Tick() {
	p.mu.Lock()
	more := 0
	if p.ran == p.ranAtTick {
		more = min(len(p.queue), max(tickGrowth, min(p.busy, poolSize-p.busy)))
	}
	p.ranAtTick = p.ran
	busy := p.busy
	p.mu.Unlock()
	for range more {
		if p.start() {
			continue
		}
		if p.ants.Running() <= busy { // else a worker has a turn that it has not begun
			p.grow(min(more, tickGrowth))
		}
		return
	}
	// The trouble is over: what was added beyond poolSize goes.
	if p.ants != nil && p.ants.Cap() > poolSize && p.ants.Running() < poolSize {
		p.ants.Tune(poolSize)
	}
}

// grow adds workers to a pool that has all of its workers in user code.
func (p *Pool) grow(n int) {
	p.mu.Lock()
	p.overflow += int64(n)
	p.mu.Unlock()
	p.ants.Tune(max(p.ants.Running(), poolSize) + n) // Running may have fallen since
	for range n {
		p.start()
	}
}

// start begins a turn. False: all workers are busy; one of them, or the next tick, takes what waits.
func (p *Pool) start() bool {
	if p.ants != nil {
		err := p.ants.Submit(p.turn)
		if err == nil {
			return true
		}
		p.mu.Lock()
		closed := p.closed
		p.mu.Unlock()
		// Full. A closed pool refuses, too, but what it was given is still called: on a goroutine of its own.
		if !closed {
			return false
		}
	}
	p.world.Go("callbacks", p.turn)
	return true
}

// turn runs what waits, one after the other.
func (p *Pool) turn() {
	p.part.Label() // once more where a callback has changed it
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			// The array goes, too: it may have grown in a burst.
			p.queue = nil
			p.mu.Unlock()
			return
		}
		fn := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.busy++
		p.mu.Unlock()
		p.call(fn)
	}
}

// call runs one callback.
func (p *Pool) call(fn func()) {
	// runtime.Goexit runs deferred functions without a panic. So a flag tells it from an ordinary return.
	returned := false
	defer func() {
		r := recover()
		if r != nil {
			p.panicked("holdfast: a callback panicked", r)
		}
		p.returned()
		if r == nil && !returned {
			p.start() // it ended its goroutine, and the turn with it
		}
	}()
	fn()
	returned = true
}

// returned counts one callback that has ended.
func (p *Pool) returned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.ran++
	if p.busy == 0 && len(p.queue) == 0 && p.idle != nil {
		p.idle.Open()
		p.idle = nil
	}
}

// Inside reports whether its caller runs inside a callback, of whatever pool: then the frame of call is on the stack.
func Inside() bool {
	call := runtime.FuncForPC(reflect.ValueOf((*Pool).call).Pointer()).Name()
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == call {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// panicked counts and reports a panic of user code.
func (p *Pool) panicked(text string, r any) {
	p.mu.Lock()
	p.panics++
	p.mu.Unlock()
	p.Say(slog.LevelError, text, "panic", r, "stack", string(debug.Stack()))
}

// Stats are the counters of a pool.
type Stats struct {
	Ran      int64 // callbacks that have ended, lines to the logger among them
	Panics   int64 // of callbacks, of the logger, and of contexts
	Overflow int64 // workers that were added to a pool that was stuck
	Dropped  int64 // lines that the logger was too slow for
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Ran: p.ran, Panics: p.panics, Overflow: p.overflow, Dropped: p.dropped}
}

// Unlocked reports whether nobody holds the pool's mutex now. The simulation asks it where code of others runs.
func (p *Pool) Unlocked() bool {
	free := p.mu.TryLock()
	if free {
		p.mu.Unlock()
	}
	return free
}

// Close waits until every callback has returned. Nobody else ticks any more, and whatever waits behind a callback that
// is stuck is still called. From the end of ctx on the pool keeps no worker that is idle.
func (p *Pool) Close(ctx context.Context) {
	p.mu.Lock()
	if (p.busy > 0 || len(p.queue) > 0) && p.idle == nil {
		p.idle = p.world.NewLatch()
	}
	idle := p.idle
	p.mu.Unlock()
	over := idle == nil || p.waitIdle(ctx, idle)
	p.Release()
	if !over {
		p.waitIdle(context.Background(), idle)
	}
}

// waitIdle ticks until no callback waits or runs, or ctx ends: then it says false.
func (p *Pool) waitIdle(ctx context.Context, idle *world.Latch) bool {
	for ctx.Err() == nil {
		turn, cancel := p.world.WithTimeout(ctx, TickEvery)
		ended := idle.WaitIn(turn)
		cancel()
		if ended {
			return true
		}
		p.Tick()
	}
	return idle.IsOpen()
}

// Stuck says what has not returned; empty: nothing.
func (p *Pool) Stuck() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	callbacks := p.busy
	var parts []string
	if p.inLogger {
		callbacks--
		parts = append(parts, "the logger has not returned")
	}
	if callbacks > 0 {
		parts = append(parts, fmt.Sprintf("%d callbacks have not returned", callbacks))
	}
	return strings.Join(parts, ": ")
}

// Release ends the workers that are idle. What is added from now on runs in goroutines of its own.
func (p *Pool) Release() {
	p.mu.Lock()
	p.closed = true
	waits := len(p.queue) > 0
	p.mu.Unlock()
	if p.ants == nil {
		return
	}
	p.ants.Release()
	if waits { // the pool may have refused its turn
		p.start()
	}
}
