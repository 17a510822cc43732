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
	done            chan struct{} // made when somebody asks for it
	err             error
	deadline        clock.Instant // 0: none
	timer           Timer         // its end at the deadline
	watchers        []watcher
	one             [1]watcher // most have one
	last            int        // the id of the last watcher
	above           *Context   // the parent that ends it, and as which of its watchers; nil: none
	id              int
}

// A watcher is who wants to know of a context's end.
type watcher struct {
	id   int
	r    *routine // it waits no longer,
	c    *Context // or it ends, too,
	fn   func()   // or it is started in
	proc *Process
}

type contextKey struct{}

// contextOf finds the simulated context that ctx is made from; nil: it has none, and does not end.
func contextOf(ctx context.Context) *Context {
	if c, is := ctx.(*Context); is {
		return c
	}
	c, _ := ctx.Value(contextKey{}).(*Context)
	if c == nil || ctx.Done() != c.Done() { // context.WithoutCancel keeps the values
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
	return c, c.cancel
}

// WithTimeout returns a context that ends with the parent, after d, or when cancel is called.
func (w *World) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if w == nil {
		return context.WithTimeout(parent, d)
	}
	c := w.newContext(parent)
	c.deadline = w.now.Add(d)
	if c.err == nil {
		c.timer = Timer{w: w, fn: c.expire}
		c.timer.set(w.current(), c.deadline)
	}
	return c, c.cancel
}

func (w *World) newContext(parent context.Context) *Context {
	c := &Context{Context: parent, w: w}
	c.watchers = c.one[:0]
	if p := contextOf(parent); p != nil {
		if p.err != nil {
			c.end(p.err)
		} else {
			c.above, c.id = p, p.watch(watcher{c: c})
		}
	}
	return c
}

func (c *Context) cancel() { c.end(context.Canceled) }
func (c *Context) expire() { c.end(context.DeadlineExceeded) }

// end ends the context: once.
func (c *Context) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	c.timer.Stop()
	if c.above != nil {
		c.above.unwatch(c.id)
	}
	all := c.watchers
	c.watchers = nil
	for _, one := range all {
		one.tell(c)
	}
}

// tell tells a watcher of the end of c.
func (o watcher) tell(c *Context) {
	switch {
	case o.r != nil:
		o.r.goOn()
	case o.c != nil:
		o.c.end(c.err)
	default:
		c.w.start("afterfunc", o.proc, o.fn)
	}
}

// watch has somebody told of the context's end, unless unwatch is called with the answer before.
func (c *Context) watch(one watcher) int {
	c.last++
	one.id = c.last
	c.watchers = append(c.watchers, one)
	return one.id
}

// unwatch says whether the watcher was not told yet.
func (c *Context) unwatch(id int) bool {
	for i := range c.watchers {
		if c.watchers[i].id == id {
			c.watchers = append(c.watchers[:i], c.watchers[i+1:]...)
			return true
		}
	}
	return false
}

// AfterFunc has fn called in a goroutine of its own when the context has ended; the standard library's
// contexts look for it.
func (c *Context) AfterFunc(fn func()) (stop func() bool) {
	proc := c.w.current()
	if c.err != nil {
		c.w.start("afterfunc", proc, fn)
		return func() bool { return false }
	}
	id := c.watch(watcher{fn: fn, proc: proc})
	return func() bool { return c.unwatch(id) }
}

// Deadline returns when the context ends by itself, by the world's calendar.
func (c *Context) Deadline() (time.Time, bool) {
	if c.deadline == 0 {
		return time.Time{}, false
	}
	return c.w.Wall(c.deadline), true
}

// Watched counts who is to be told of the end of ctx, where it ends in a simulated world.
func (w *World) Watched(ctx context.Context) int {
	if c := contextOf(ctx); c != nil {
		return len(c.watchers)
	}
	return 0
}

// EndsAt is when ctx ends by itself on the world's clock; 0: it does not.
func (w *World) EndsAt(ctx context.Context) clock.Instant {
	if t, ok := ctx.Deadline(); ok {
		return w.instant(t)
	}
	return 0
}

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} {
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err says why the context ended, or nil.
func (c *Context) Err() error { return c.err }

// Value returns the parent's values, and the context itself to this package.
func (c *Context) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return c.Context.Value(key)
}
