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

	mu     sync.Mutex // held while dialling
	client rueidis.Client
	closed bool

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

// move makes another server the endpoint's. Connections to the old one that are under way when it
// returns find out by moves. Blocks: for a dial that is under way.
func (p *endpoint) move(addr string) (old rueidis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved.Store(&addr)
	p.moves.Add(1)
	old, p.client = p.client, nil
	return old
}

// get returns the client, dialling if there is none. Blocks: for a dial and a handshake.
func (p *endpoint) get() (rueidis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	if p.closed {
		return nil, rueidis.ErrClosing
	}
	client, err := p.dial(p.address())
	if err != nil {
		if client != nil && !p.borrowed { // rueidis may return both
			client.Close()
		}
		return nil, err
	}
	p.client = client
	return client, nil
}

// close ends the client, unless it is borrowed. Blocks: up to a second for a silent server.
func (p *endpoint) close() {
	p.mu.Lock()
	client := p.client
	p.client, p.closed = nil, true
	p.mu.Unlock()
	if client != nil && !p.borrowed {
		client.Close()
	}
}
