package faultproxy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const dialTimeout = 10 * time.Second

// Proxy is a listening proxy in front of one server. All methods are safe for
// concurrent use.
type Proxy struct {
	listener net.Listener
	dropped  chan []string
	gate     gate
	refuse   atomic.Bool
	toServer atomic.Int64 // delay in ns
	toClient atomic.Int64 // delay in ns
	mangler  atomic.Pointer[Mangler]
	running  sync.WaitGroup

	mu       sync.Mutex // taken before a line's lock and before a conn's mu, after its out
	backend  string
	closed   bool
	rules    []*Rule            // in the order set
	conns    map[*conn]struct{} // open ones
	stats    Stats
	unsolved int           // commands without a reply yet, over all conns
	idle     chan struct{} // closed while unsolved is 0
}

// Stats counts what a proxy has seen and done since it was made.
type Stats struct {
	Commands        map[string]int // commands read, by upper-case name
	RepliesDropped  int
	CommandsDropped int
	MessagesDropped int
	Accepted        int // connections
	Refused         int // connections
	Open            int // connections now, those held for a gone client included
}

// New starts a proxy on a free port of 127.0.0.1; its user calls [Proxy.Close].
func New(backend string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{
		backend:  backend,
		listener: l,
		dropped:  make(chan []string, signalsMax),
		conns:    make(map[*conn]struct{}),
		stats:    Stats{Commands: make(map[string]int)},
		idle:     make(chan struct{}),
	}
	close(p.idle)
	p.running.Go(p.accept)
	return p, nil
}

// Run starts a proxy for one test and closes it at the test's end.
func Run(tb testing.TB, backend string) *Proxy {
	tb.Helper()
	p, err := New(backend)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close closes the proxy and all its connections and waits for its goroutines.
// Closing twice does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.CutAll()
	p.running.Wait()
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		nc, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := nc.(*net.TCPConn)
		if p.refuse.Load() {
			p.reject(client)
			continue
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect dials the server for a client and starts the connection.
func (p *Proxy) connect(client *net.TCPConn) {
	p.mu.Lock()
	backend := p.backend
	p.mu.Unlock()
	nc, err := net.DialTimeout("tcp", backend, dialTimeout)
	if err != nil {
		p.reject(client)
		return
	}
	c := newConn(p, client, nc.(*net.TCPConn))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		reset(c.client)
		reset(c.server)
		return
	}
	p.stats.Accepted++
	p.conns[c] = struct{}{}
	c.start()
}

// Redirect has new connections lead to another server. Those there are stay where they lead, as those do that
// a load balancer does not cut.
func (p *Proxy) Redirect(backend string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backend = backend
}

func (p *Proxy) reject(client *net.TCPConn) {
	reset(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Refused++
}

// reset closes a connection with RST.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Pause makes a black hole of the proxy: connections stay open and new ones are
// accepted, nothing gets through in either direction. Bytes being written at this
// moment may still pass.
func (p *Proxy) Pause() { p.gate.shut() }

// Resume ends a pause; what was sent meanwhile is delivered, commands of clients that
// are gone included.
func (p *Proxy) Resume() { p.gate.unshut() }

// CutAll resets all connections on both sides. What was held or delayed on them is
// lost.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	conns := maps.Clone(p.conns)
	p.mu.Unlock()
	for c := range conns {
		c.close(true)
	}
}

// Delay makes every command and every reply read from now on late by so much. Latency
// only: pipelined commands are all delayed by the same time.
func (p *Proxy) Delay(toServer, toClient time.Duration) {
	p.toServer.Store(int64(toServer))
	p.toClient.Store(int64(toClient))
}

// RefuseNew makes the proxy reset new connections at once, or not any more. The
// kernel accepts them first: a client sees its dial succeed and its first read fail.
func (p *Proxy) RefuseNew(refuse bool) { p.refuse.Store(refuse) }

// Dropped signals each reply, command and message that a rule has swallowed, as
// [Rule.C] does for one rule. A reply is signalled when its connection is cut.
func (p *Proxy) Dropped() <-chan []string { return p.dropped }

// Stats returns a copy of the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Commands = maps.Clone(s.Commands)
	s.Open = len(p.conns)
	return s
}

// Count returns how many commands of that name were read.
func (p *Proxy) Count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Commands[strings.ToUpper(name)]
}

// Idle returns when every command read so far has been answered by the server or has
// lost its connection. What a client has written and the proxy has not read yet is
// not waited for.
func (p *Proxy) Idle(ctx context.Context) error {
	p.mu.Lock()
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faultproxy: commands without a reply: %w", ctx.Err())
	}
}

// solve changes the number of commands without a reply.
func (p *Proxy) solve(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.solveLocked(change)
}

func (p *Proxy) solveLocked(change int) {
	was := p.unsolved
	p.unsolved += change
	switch {
	case was == 0 && p.unsolved > 0:
		p.idle = make(chan struct{})
	case was > 0 && p.unsolved == 0:
		close(p.idle)
	}
}
