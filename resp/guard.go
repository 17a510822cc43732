package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrReply is what a connection ends with when its server sent bytes that no server of ours sends.
var ErrReply = errors.New("a reply that is refused")

// A Guard stands between connections and the client that reads them. The client trusts what it reads: a length
// makes it allocate that much, and a reply that nobody asked for ends the process from a goroutine that nobody can
// recover. So every byte is looked at before the client has it. What is no reply, is too large or was not asked for
// closes the connection instead, with a clear error, and the client dials another.
//
//	                 largest here                      limit
//	a line           an error, some hundred bytes      64 KiB
//	a string         INFO: 10 KB                       8 MiB
//	a reply          CLUSTER SLOTS of 1,000 nodes:     16 MiB
//	                 1 MB, 50,000 elements             262,144 elements
//	nesting          CLUSTER SLOTS: 4                  16
//	a sentinel's     SENTINEL SENTINELS of 64: 60 KB,  256 KiB,
//	reply            2,600 elements                    8,192 elements
//	all that are     a key's refusal: 330 bytes        with Own, by what was
//	on their way                                       asked: see allowance
//
// The zero Guard is ready, and so is a nil one, which counts nothing. One may serve any number of connections.
type Guard struct {
	Own bool // every command on its connections is this package's: how much is said to it is known; set before use

	refused atomic.Int64
	last    atomic.Pointer[string] // why the last connection was closed; nil: told
	claims  claims
}

// Refused counts the connections that were closed.
func (g *Guard) Refused() int64 { return g.refused.Load() }

// TakeRefused returns, once, why the last connection was closed; "" if there is nothing new to say.
func (g *Guard) TakeRefused() string {
	if g.last.Load() == nil {
		return ""
	}
	if why := g.last.Swap(nil); why != nil {
		return *why
	}
	return ""
}

// Watch puts the guard in front of a connection of plain bytes: of one with TLS, inside.
func (g *Guard) Watch(conn net.Conn) net.Conn {
	if g == nil {
		g = &Guard{}
	}
	w := &watched{Conn: conn, guard: g}
	w.in.asked, w.out.asked, w.in.own = &w.asked, &w.asked, g.Own
	if g.Own {
		w.out.said = func(word string) { g.claims.sent(word, w) }
	}
	return w
}

// A DialFunc makes a connection, with TLS if config is not nil.
type DialFunc = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)

// Dialer puts the guard in front of what dial makes.
func (g *Guard) Dialer(dial DialFunc) DialFunc {
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, dialer, config)
		if err != nil {
			return nil, err
		}
		return g.Watch(conn), nil
	}
}

// Sentinels makes connections that Dialer has made ones to sentinels, whose replies are small.
func (g *Guard) Sentinels(dial DialFunc) DialFunc {
	return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, dialer, config)
		if w, ok := conn.(*watched); ok {
			w.in.small = true
		}
		return conn, err
	}
}

// watched is a guarded connection. Reads take turns, and writes do; one of each may run at a time.
type watched struct {
	net.Conn
	guard *Guard
	asked asked
	out   commandScanner // Write's
	in    replyScanner   // Read's
	ended error          // Read's: why it was closed
	heard atomic.Bool    // something has come

	hijacked atomic.Pointer[hijacked] // from the client: Read and Write are no longer the connection's
	writes   sync.Mutex               // the client writes; it is taken over between two writes
	closed   atomic.Bool
}

// alertSoon is how long the reason of a server that has closed a connection may take.
const alertSoon = 100 * time.Millisecond

// Write is the client's.
func (w *watched) Write(b []byte) (int, error) {
	for {
		if h := w.hijacked.Load(); h != nil {
			if w.closed.Load() {
				return 0, net.ErrClosed
			}
			if n, undone, err := h.write(b); !undone {
				return n, err
			}
		}
		if n, hijacked, err := w.writeThrough(b); !hijacked {
			return n, err
		}
	}
}

// writeThrough writes, unless a lane has taken the connection over meanwhile. None does before it is done.
func (w *watched) writeThrough(b []byte) (n int, hijacked bool, err error) {
	w.writes.Lock()
	defer w.writes.Unlock()
	if w.hijacked.Load() != nil {
		return 0, true, nil
	}
	// The commands are noted before they go out: their answers come later than that.
	w.out.scan(b)
	n, err = w.push(b)
	return n, false, err
}

// push writes, and says why the server has closed the connection if it did so before it said anything.
func (w *watched) push(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err == nil || w.heard.Load() {
		return n, err
	}
	return n, w.alert(err)
}

// alert says why a server has closed a connection before it has said anything. By TLS 1.3 it refuses a client's
// certificate after the handshake: a write may fail by the close before that reason is read.
func (w *watched) alert(failed error) error {
	secure, is := w.Conn.(*tls.Conn)
	if !is {
		return failed
	}
	_ = secure.SetReadDeadline(time.Now().Add(alertSoon)) // it has failed: nobody reads from it after this
	_, err := secure.Read(make([]byte, 1))
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "remote error" {
		return err
	}
	return failed
}

// Read is the client's.
func (w *watched) Read(b []byte) (int, error) {
	if h := w.hijacked.Load(); h == nil {
		n, err := w.receive(b)
		if h = w.hijacked.Load(); h == nil || n > 0 {
			return n, err
		} // else it was waiting there
	}
	if h := w.hijacked.Load(); h != nil {
		if w.closed.Load() {
			return 0, net.ErrClosed
		}
		if n, undone, err := h.read(b); !undone {
			return n, err
		}
	}
	return w.receive(b)
}

// receive delivers what was looked at: up to the byte that must not be delivered.
func (w *watched) receive(b []byte) (int, error) {
	if w.ended != nil {
		return 0, w.ended
	}
	n, err := w.Conn.Read(b)
	if n <= 0 {
		return n, err
	}
	if !w.heard.Load() {
		w.heard.Store(true)
	}
	good, refused := w.in.scan(b[:n])
	if refused == nil {
		return n, err
	}
	from := ""
	if addr := w.RemoteAddr(); addr != nil {
		from = addr.String()
	}
	w.ended = fmt.Errorf("%w, from %s: %w: %.48q", ErrReply, from, refused, b[good:n])
	text := w.ended.Error()
	w.guard.refused.Add(1)
	w.guard.last.Store(&text)
	_ = w.Close()
	return good, w.ended
}

// asked is what the commands of a connection may be answered with, as far as its client keeps count: each by one
// reply, and a subscription by one push for each of its channels, of which the client takes the first as the reply.
type asked struct {
	sent    atomic.Uint64 // commands so far
	allowed atomic.Int64  // what the replies to all of them may take, in bytes; stored after sent
	next    atomic.Uint64 // the number of the first one in special, the first command of all being 1; 0: none
	resp3   atomic.Bool   // HELLO 3 was sent
	listens atomic.Bool   // a subscription was sent

	mu      sync.Mutex
	special []special // commands that are answered otherwise, oldest first, from head on
	head    int
}

// A special command is one whose answer has to be looked at.
type special struct {
	number   uint64
	channels int // of SUBSCRIBE and its kin; 0: the command is UNSUBSCRIBE or its kin, and the PING behind it
}

func (a *asked) expect(s special) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == len(a.special) {
		a.special, a.head = a.special[:0], 0
		a.next.Store(s.number)
	}
	a.special = append(a.special, s)
}

// take returns the command with this number, if it is a special one.
func (a *asked) take(number uint64) (s special, ok bool) {
	// Without mu, because nearly every command is an ordinary one.
	if a.next.Load() != number {
		return s, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s = a.special[a.head]
	a.head++
	next := uint64(0)
	if a.head < len(a.special) {
		next = a.special[a.head].number
	}
	a.next.Store(next)
	return s, true
}
