package faultproxy

import (
	"sync"
	"time"
)

// lineMax bounds the bytes on one line; a full line stops its reader, as a full
// socket would.
const lineMax = 64 << 20

// end says what happens to a connection behind an item.
type end uint8

const (
	goOn  end = iota
	eof       // the sender has ended its side
	sever     // close both sides
)

// item is what travels on a line.
type item struct {
	raw  []byte
	due  time.Time // deliver no earlier
	end  end
	then func() // called after the end, or when the item is lost; may be nil
}

// line is one direction of one connection: a queue whose tail can be held back.
// One goroutine takes.
type line struct {
	mu     sync.Mutex
	change sync.Cond // of anything below
	queue  []item
	size   int // bytes in queue
	free   int // the first items of queue that a hold does not concern; held only
	held   bool
	closed bool
}

func newLine() *line {
	l := new(line)
	l.change.L = &l.mu
	return l
}

// put appends an item, waiting while the line is full. On a closed line it is lost.
func (l *line) put(it item) {
	if !l.tryPut(it) {
		lose([]item{it})
	}
}

func (l *line) tryPut(it item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.size > lineMax && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return false
	}
	l.queue = append(l.queue, it)
	l.size += len(it.raw)
	l.change.Broadcast()
	return true
}

// lose calls what waits for items that will not be delivered.
func lose(items []item) {
	for _, it := range items {
		if it.then != nil {
			it.then()
		}
	}
}

// take removes all items that are not held, waiting for one. It returns nil when the
// line is closed.
func (l *line) take() []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.ready() == 0 {
		l.change.Wait()
	}
	if l.closed {
		return nil
	}
	n := l.ready()
	taken := l.queue[:n:n]
	l.queue = l.queue[n:]
	for _, it := range taken {
		l.size -= len(it.raw)
	}
	l.free -= min(l.free, n)
	l.change.Broadcast()
	return taken
}

// ready returns how many items may be taken now.
func (l *line) ready() int {
	if l.held {
		return l.free
	}
	return len(l.queue)
}

// hold keeps back everything put from now on.
func (l *line) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		l.held, l.free = true, len(l.queue)
	}
}

// release lets everything go and returns how many items with bytes were held.
func (l *line) release() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		return 0
	}
	n := 0
	for _, it := range l.queue[l.free:] {
		if len(it.raw) > 0 {
			n++
		}
	}
	l.held, l.free = false, 0
	l.change.Broadcast()
	return n
}

// close ends the line; what is on it is lost.
func (l *line) close() {
	l.mu.Lock()
	lost := l.queue
	l.closed = true
	l.queue, l.size = nil, 0
	l.change.Broadcast()
	l.mu.Unlock()
	lose(lost)
}

// gate stops all lines of a proxy while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed by opening; nil while open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = make(chan struct{})
	}
}

func (g *gate) unshut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

// pass waits until the gate is open or done is closed.
func (g *gate) pass(done <-chan struct{}) {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		if open == nil {
			return
		}
		select {
		case <-open:
		case <-done:
			return
		}
	}
}
