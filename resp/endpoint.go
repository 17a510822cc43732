package resp

import (
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// An endpoint is the client of one server, made when it is first needed.
type endpoint struct {
	addr     string // where it is at first
	dial     func(addr string) (rueidis.Client, error)
	borrowed bool                     // its client is somebody else's to close
	hide     func(text string) string // see Options.Hide; may be nil

	mu      sync.Mutex // never held during I/O
	client  rueidis.Client
	dialled *dialled // the dial under way, if there is one: whoever comes meanwhile has its end, too
	closed  bool

	// Of one whose server changes; see move.
	moved atomic.Pointer[string]
	moves atomic.Uint64
}

// address is where the server is now.
func (p *endpoint) address() string {
	if addr := p.moved.Load(); addr != nil {
		return *addr
	}
	return p.addr
}

// A dialled is how a dial ended, once done is closed.
type dialled struct {
	done   chan struct{}
	client rueidis.Client
	err    error
}

// move makes another server the endpoint's. A dial of the old one that is under way ends in errMoved, and a wire that
// was made with it finds out by moves. Blocks: never.
func (p *endpoint) move(addr string) (old rueidis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Store(&addr)
	p.moves.Add(1)
	old, p.client, p.dialled = p.client, nil, nil
	return old
}

// get returns the client. If there is none, one of those who ask dials for all of them. Blocks: for a dial and a
// handshake, however many ask.
func (p *endpoint) get() (rueidis.Client, error) {
	p.mu.Lock()
	client, d, closed := p.client, p.dialled, p.closed
	first := client == nil && d == nil && !closed
	if first {
		d = &dialled{done: make(chan struct{})}
		p.dialled = d
	}
	p.mu.Unlock()
	// The dial runs without mu: move and close must not wait for it.
	switch {
	case client != nil:
		return client, nil
	case closed:
		return nil, rueidis.ErrClosing
	case first:
		d.client, d.err = p.dialFor(d)
		close(d.done)
	default:
		<-d.done
	}
	return d.client, d.err
}

// dialFor dials, and keeps what came of it unless the endpoint was closed or moved meanwhile.
func (p *endpoint) dialFor(d *dialled) (rueidis.Client, error) {
	client, err := p.dial(p.address())
	p.mu.Lock()
	switch {
	case p.closed:
		err = rueidis.ErrClosing
	case p.dialled != d: // since it was begun, or before: another dial is the endpoint's now, or none
		err = errMoved
	case err == nil:
		p.client = client
	}
	// After a move it is not ours any more: somebody may be dialling the new address.
	if p.dialled == d {
		p.dialled = nil
	}
	p.mu.Unlock()
	if err == nil {
		return client, nil
	}
	if client != nil && !p.borrowed { // rueidis may return it beside an error
		client.Close()
	}
	return nil, err
}

// close ends the client, unless it is borrowed; one that is just dialled ends with its dial. Blocks: up to a second
// for a silent server.
func (p *endpoint) close() {
	p.mu.Lock()
	client := p.client
	p.client, p.closed = nil, true
	p.mu.Unlock()
	if client != nil && !p.borrowed {
		client.Close()
	}
}
