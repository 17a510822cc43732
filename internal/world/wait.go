package world

import (
	"context"
	"sync"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// waiters are the goroutines of a simulated world that wait for one thing, in the order in which they came. A
// goroutine waits for one thing at a time, so they are linked through themselves.
type waiters struct {
	w           *World
	first, last *routine
}

// join has the caller wait: it parks next.
func (q *waiters) join() *routine {
	r := q.w.self()
	r.waits, r.behind = q, nil
	if q.last == nil {
		q.first = r
	} else {
		q.last.behind = r
	}
	q.last = r
	return r
}

// goOn ends the wait of r alone: its time is over. Nothing happens if it was woken meanwhile.
func (r *routine) goOn() {
	q := r.waits
	if q == nil {
		return
	}
	var before *routine
	for other := q.first; other != r; other = other.behind {
		before = other
	}
	if before == nil {
		q.first = r.behind
	} else {
		before.behind = r.behind
	}
	if q.last == r {
		q.last = before
	}
	r.waits, r.behind = nil, nil
	q.w.unpark(r)
}

// wait parks the caller until all are woken.
func (q *waiters) wait() {
	q.join()
	q.w.park()
}

// waitIn is wait, until ctx ends. It says whether ctx did not.
func (q *waiters) waitIn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	c := contextOf(ctx)
	if c == nil {
		q.wait()
		return true
	}
	id := c.watch(watcher{r: q.join()})
	q.w.park()
	c.unwatch(id)
	return ctx.Err() == nil
}

// waitUntil is wait, until an instant at the longest.
func (q *waiters) waitUntil(at clock.Instant) {
	r := q.join()
	r.timer.set(r.proc, at)
	q.w.park()
}

// wake lets all go on.
func (q *waiters) wake() {
	for r := q.first; r != nil; {
		next := r.behind
		r.waits, r.behind = nil, nil
		r.timer.Stop()
		q.w.unpark(r)
		r = next
	}
	q.first, q.last = nil, nil
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

// WaitUntil is WaitIn with an instant of a simulated world: a context and its timer cost more than the wait.
func (b *Bell) WaitUntil(at clock.Instant) bool {
	for !b.kept && b.waiters.w.now < at {
		b.waiters.waitUntil(at)
	}
	rung := b.kept
	b.kept = false
	return rung
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
	l := new(Latch)
	l.Init(w)
	return l
}

// Init makes the zero value a closed latch of a simulated world, where one stands in something else.
func (l *Latch) Init(w *World) { l.waiters.w = w }

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

// WaitUntil is WaitIn with an instant of a simulated world: a context and its timer cost more than the wait.
func (l *Latch) WaitUntil(at clock.Instant) bool {
	for !l.open && l.waiters.w.now < at {
		l.waiters.waitUntil(at)
	}
	return l.open
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
