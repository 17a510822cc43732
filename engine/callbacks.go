package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/panjf2000/ants/v2"
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
	pool   *ants.Pool
	logger *slog.Logger

	mu      sync.Mutex
	queue   []func()      // bound: one for each OnComplete of the user
	workers int           // running
	busy    int           // of those, inside user code
	idle    chan struct{} // closed when the last worker ends; nil while nobody waits for that

	ran, ranAtTick    int64
	panics, overflows int64
}

func newCallbacks(logger *slog.Logger) (*callbacks, error) {
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
	go c.work()
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
		close(c.idle)
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
		if r != nil {
			c.panics++
		}
		c.mu.Unlock()
		switch {
		case r != nil:
			c.logger.Error("holdfast: a callback panicked", "panic", r, "stack", string(debug.Stack()))
		case !returned:
			go c.work()
		}
	}()
	fn()
	returned = true
}

// close waits until every callback has returned or ctx ends, and says how many have not.
func (c *callbacks) close(ctx context.Context) (stuck int) {
	c.mu.Lock()
	if c.workers > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			c.mu.Lock()
			stuck = c.busy
			c.mu.Unlock()
		}
	}
	c.pool.Release()
	return stuck
}
