package engine

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/panjf2000/ants/v2"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

const (
	// maxCallbackWorkers bounds the pool's goroutines that run user callbacks.
	maxCallbackWorkers = 256
	// callbackBatch is how many callbacks may wait for each busy worker before another one starts.
	callbackBatch = 64
	// overflowStep is how many goroutines a tick adds beside a pool that is stuck.
	overflowStep = 8
)

// callbacks runs user code. A worker of the pool takes what has collected, one callback after the
// other, so that a batch of answers costs one submit. More workers start when much collects, or
// when a tick finds all of them stuck in user code; beyond the pool's size a tick adds a few counted
// goroutines. Nothing of ours ever waits for user code.
type callbacks struct {
	world  *world.World
	pool   *ants.Pool   // nil: each worker is a goroutine that ends with its queue
	logger *slog.Logger // nil: nobody listens

	mu      sync.Mutex
	queue   []func()     // bound: one for each OnComplete of the user, two for each acquire that waits with a context of the user's own
	workers int          // running
	busy    int          // of those, inside user code
	idle    *world.Latch // opened when the last worker ends; nil while nobody waits for that

	ran, ranAtTick    int64
	panics, overflows int64

	journal // guarded by mu
}

func newCallbacks(w *world.World, logger *slog.Logger) (*callbacks, error) {
	if w != nil {
		return &callbacks{world: w, logger: logger}, nil
	}
	pool, err := ants.NewPool(maxCallbackWorkers, ants.WithNonblocking(true))
	if err != nil {
		return nil, fmt.Errorf("holdfast: callback pool: %w", err)
	}
	return &callbacks{pool: pool, logger: logger}, nil
}

// add queues one callback and sees to it that somebody runs it. Blocks: never.
func (c *callbacks) add(fn func()) {
	c.mu.Lock()
	c.queue = append(c.queue, fn)
	start := c.workers == 0 || c.busy == c.workers && c.workers < maxCallbackWorkers && len(c.queue) > callbackBatch*c.workers
	if start {
		c.workers++
	}
	c.mu.Unlock()
	c.world.Yield("callbacks.add: counted | started")
	if start {
		c.start()
	}
}

// tick doubles the workers if every one was stuck in user code since the last tick while others
// wait; when the pool is used up, it adds one beside it.
func (c *callbacks) tick() {
	c.mu.Lock()
	more := 0
	if len(c.queue) > 0 && c.busy == c.workers && c.ran == c.ranAtTick {
		more = min(len(c.queue), max(overflowStep, min(c.workers, maxCallbackWorkers-c.workers)))
	}
	c.ranAtTick = c.ran
	c.workers += more
	c.mu.Unlock()
	for range more {
		c.start()
	}
}

func (c *callbacks) start() {
	if c.pool != nil && c.pool.Submit(c.work) == nil {
		return
	}
	c.mu.Lock()
	c.overflows++
	c.mu.Unlock()
	c.world.Go("callbacks", c.work)
}

func (c *callbacks) work() {
	c.mu.Lock()
	for len(c.queue) > 0 {
		fn := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.busy++
		c.mu.Unlock()
		c.call(fn)
		c.mu.Lock()
	}
	c.queue = nil
	c.workers--
	if c.workers == 0 && c.idle != nil {
		c.idle.Open()
		c.idle = nil
	}
	c.mu.Unlock()
}

// call runs one callback. One that ends its goroutine (runtime.Goexit) takes the worker with it:
// another one goes on in its place.
func (c *callbacks) call(fn func()) {
	returned := false
	defer func() {
		r := recover()
		c.mu.Lock()
		c.busy--
		c.ran++
		c.mu.Unlock()
		switch {
		case r != nil:
			c.panicked("holdfast: a callback panicked", r)
		case !returned:
			c.world.Go("callbacks", c.work)
		}
	}()
	fn()
	returned = true
}

// inCallback reports whether its caller runs inside a callback, of whatever engine: then the frame of call is
// on the stack.
func inCallback() bool {
	call := runtime.FuncForPC(reflect.ValueOf((*callbacks).call).Pointer()).Name()
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
func (c *callbacks) panicked(text string, r any) {
	c.mu.Lock()
	c.panics++
	c.mu.Unlock()
	c.say(line{slog.LevelError, text, []any{"panic", r, "stack", string(debug.Stack())}})
}

// contain, deferred, stops a panic in a context of the caller's.
func (c *callbacks) contain() {
	if r := recover(); r != nil {
		c.panicked("holdfast: a context panicked", r)
	}
}

// close waits until every callback has returned or ctx ends, and says what has not returned. Nobody else
// ticks any more, and whatever waits behind a callback that is stuck is still called: beside it.
func (c *callbacks) close(ctx context.Context) (stuck string) {
	c.mu.Lock()
	if c.workers > 0 && c.idle == nil {
		c.idle = c.world.NewLatch()
	}
	idle := c.idle
	c.mu.Unlock()
	if idle != nil && !c.waitIdle(ctx, idle) {
		stuck = c.stuck()
		c.world.Go("callbacks", func() { c.waitIdle(context.Background(), idle) })
	}
	c.release()
	return stuck
}

// waitIdle ticks until the last worker has ended, or ctx ends: then it says false.
func (c *callbacks) waitIdle(ctx context.Context, idle *world.Latch) bool {
	for ctx.Err() == nil {
		turn, cancel := c.world.WithTimeout(ctx, tickEvery)
		ended := idle.WaitIn(turn)
		cancel()
		if ended {
			return true
		}
		c.tick()
	}
	return idle.IsOpen()
}

// stuck says what has not returned; empty: nothing.
func (c *callbacks) stuck() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	callbacks := c.busy
	var parts []string
	if c.inLogger {
		callbacks--
		parts = append(parts, "the logger has not returned")
	}
	if callbacks > 0 {
		parts = append(parts, fmt.Sprintf("%d callbacks have not returned", callbacks))
	}
	return strings.Join(parts, ": ")
}

// release ends the pool.
func (c *callbacks) release() {
	if c.pool != nil {
		c.pool.Release()
	}
}
