package world

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Context is a context of a simulated world: it ends by Cancel or when the world's clock has reached
// its deadline.
type Context struct {
	context.Context //nolint:containedctx // the parent, for its values
	w               *World
	done            chan struct{}
	err             error
	deadline        clock.Instant // 0: none
	timer           *Timer
	fns             []*func()
	stop            func() bool // ends the watch of the parent
}

type contextKey struct{}

// contextOf finds the simulated context that ctx is made from; nil: it has none, and does not end.
func contextOf(ctx context.Context) *Context {
	c, _ := ctx.Value(contextKey{}).(*Context)
	if c == nil || ctx.Done() != c.done { // context.WithoutCancel keeps the values
		return nil
	}
	return c
}

// WithCancel returns a context that ends with the parent, or when cancel is called.
func (w *World) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	if w == nil {
		return context.WithCancel(parent)
	}
	c := w.newContext(parent)
	return c, func() { c.end(context.Canceled) }
}

// WithTimeout returns a context that ends with the parent, after d, or when cancel is called.
func (w *World) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if w == nil {
		return context.WithTimeout(parent, d)
	}
	c := w.newContext(parent)
	c.deadline = w.now.Add(d)
	if c.err == nil {
		c.timer = w.At(c.deadline, func() { c.end(context.DeadlineExceeded) })
	}
	return c, func() { c.end(context.Canceled) }
}

func (w *World) newContext(parent context.Context) *Context {
	c := &Context{Context: parent, w: w, done: make(chan struct{})}
	if p := contextOf(parent); p != nil {
		if p.err != nil {
			c.end(p.err)
		} else {
			c.stop = p.watch(func() { c.end(p.err) })
		}
	}
	return c
}

// end ends the context: once.
func (c *Context) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stop != nil {
		c.stop()
	}
	for _, fn := range c.fns {
		(*fn)()
	}
	c.fns = nil
}

// watch has fn called in whoever ends the context.
func (c *Context) watch(fn func()) (stop func() bool) {
	mine := &fn
	c.fns = append(c.fns, mine)
	return func() bool {
		for i, other := range c.fns {
			if other == mine {
				c.fns = append(c.fns[:i], c.fns[i+1:]...)
				return true
			}
		}
		return false
	}
}

// AfterFunc has fn called in a goroutine of its own when the context has ended; the standard library's
// contexts look for it.
func (c *Context) AfterFunc(fn func()) (stop func() bool) {
	proc := c.w.current()
	start := func() { c.w.start("afterfunc", proc, fn) }
	if c.err != nil {
		start()
		return func() bool { return false }
	}
	return c.watch(start)
}

// Deadline returns when the context ends by itself, by the world's calendar.
func (c *Context) Deadline() (time.Time, bool) {
	if c.deadline == 0 {
		return time.Time{}, false
	}
	return c.w.Wall(c.deadline), true
}

// EndsAt is when ctx ends by itself on the world's clock; 0: it does not.
func (w *World) EndsAt(ctx context.Context) clock.Instant {
	if t, ok := ctx.Deadline(); ok {
		return w.instant(t)
	}
	return 0
}

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} { return c.done }

// Err says why the context ended, or nil.
func (c *Context) Err() error { return c.err }

// Value returns the parent's values, and the context itself to this package.
func (c *Context) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}
