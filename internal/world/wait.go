package world

import (
	"context"
	"sync"
)

// waiters are the goroutines of a simulated world that wait for one thing.
type waiters struct {
	w    *World
	list []*routine
}

// wait parks the caller until all are woken.
func (q *waiters) wait() {
	q.list = append(q.list, q.w.cur)
	q.w.park()
}

// waitIn is wait, until ctx ends. It says whether ctx did not.
func (q *waiters) waitIn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	r := q.w.cur
	stop := q.w.AfterFunc(ctx, func() {
		for i, other := range q.list {
			if other == r {
				q.list = append(q.list[:i], q.list[i+1:]...)
				q.w.unpark(r)
				return
			}
		}
	})
	q.wait()
	stop()
	return ctx.Err() == nil
}

func (q *waiters) wake() {
	for _, r := range q.list {
		q.w.unpark(r)
	}
	q.list = q.list[:0]
}

// A Bell wakes one goroutine that waits; a ring that nobody waits for is kept, once.
type Bell struct {
	rung    chan struct{} // of the real world; capacity 1
	kept    bool
	waiters waiters
}

// NewBell makes a bell.
func (w *World) NewBell() *Bell {
	if w == nil {
		return &Bell{rung: make(chan struct{}, 1)}
	}
	return &Bell{waiters: waiters{w: w}}
}

// Ring rings. Blocks: never.
func (b *Bell) Ring() {
	if b.rung == nil {
		b.kept = true
		b.waiters.wake()
		return
	}
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Wait waits for a ring and takes it.
func (b *Bell) Wait() {
	if b.rung != nil {
		<-b.rung
		return
	}
	for !b.kept {
		b.waiters.wait()
	}
	b.kept = false
}

// WaitIn waits for a ring as long as ctx allows, and says whether there was one.
func (b *Bell) WaitIn(ctx context.Context) bool {
	if b.rung != nil {
		select {
		case <-b.rung:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for !b.kept {
		if !b.waiters.waitIn(ctx) {
			return false
		}
	}
	b.kept = false
	return true
}

// A Latch is opened once; whoever waits for it, or comes later, goes on.
type Latch struct {
	once    sync.Once
	opened  chan struct{} // of the real world
	open    bool
	waiters waiters
}

// NewLatch makes a closed latch.
func (w *World) NewLatch() *Latch {
	if w == nil {
		return &Latch{opened: make(chan struct{})}
	}
	return &Latch{waiters: waiters{w: w}}
}

// Open opens the latch. Blocks: never. Idempotent.
func (l *Latch) Open() {
	if l.opened == nil {
		l.open = true
		l.waiters.wake()
		return
	}
	l.once.Do(func() { close(l.opened) })
}

// IsOpen reports whether the latch is open.
func (l *Latch) IsOpen() bool {
	if l.opened == nil {
		return l.open
	}
	select {
	case <-l.opened:
		return true
	default:
		return false
	}
}

// WaitIn waits until the latch is open or ctx ends, and says whether it is open.
func (l *Latch) WaitIn(ctx context.Context) bool {
	if l.waiters.w == nil {
		select {
		case <-l.opened:
		case <-ctx.Done():
		}
		return l.IsOpen()
	}
	for !l.IsOpen() && l.waiters.waitIn(ctx) {
	}
	return l.IsOpen()
}

// A Group waits for goroutines to end. The zero value is one of the real world.
type Group struct {
	real    sync.WaitGroup
	count   int
	waiters waiters
}

// Init makes g a group of a world, before its first use.
func (g *Group) Init(w *World) { g.waiters.w = w }

// Add adds n goroutines.
func (g *Group) Add(n int) {
	if g.waiters.w == nil {
		g.real.Add(n)
		return
	}
	g.count += n
	if g.count == 0 {
		g.waiters.wake()
	}
}

// Done says that one has ended.
func (g *Group) Done() { g.Add(-1) }

// Go starts a goroutine of the group.
func (g *Group) Go(name string, fn func()) {
	g.Add(1)
	g.waiters.w.Go(name, func() {
		defer g.Done()
		fn()
	})
}

// Wait waits until all have ended.
func (g *Group) Wait() {
	if g.waiters.w == nil {
		g.real.Wait()
		return
	}
	for g.count > 0 {
		g.waiters.wait()
	}
}

// Await calls fn in a goroutine of its own when something was received from a channel, or it was closed.
func (w *World) Await(name string, c <-chan error, fn func()) {
	if w == nil {
		go func() {
			<-c //nolint:errcheck // why it ended does not matter
			fn()
		}()
		return
	}
	w.awaiting[c] = fn
}

// Closed says, in a simulated world, that a channel was closed that somebody may await.
func (w *World) Closed(c <-chan error) {
	if fn := w.awaiting[c]; fn != nil {
		delete(w.awaiting, c)
		w.Go("await", fn)
	}
}
