package resp

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A lane may hijack a connection: take it over from the client that has dialled it, greeted the server and
// authenticated itself. From then on the lane reads and writes. The client does so by goroutines of its own, which is
// one switch more for each write and each reply: much for one caller, nothing for thousands.

// A hijacked stands where the client reads and writes after that. To the client its connection is idle and alive: its
// PINGs are answered here.
type hijacked struct {
	entered chan struct{} // closed once the client's reader is here
	ended   chan struct{} // closed with the connection

	mu      sync.Mutex
	news    *sync.Cond
	pending []byte // replies to the client
	inside  bool
	closed  bool
	taken   bool // it was taken over
	undone  bool // it was not taken over after all
}

// What the client says on a connection that is idle, and what a server answers.
const (
	pingCommand = "*1\r\n$4\r\nPING\r\n"
	pingReply   = "+PONG\r\n"
)

var (
	errHijacked = errors.New("a lane has taken the connection over")
	errBroke    = errors.New("the connection broke while a lane took it over")
	errStray    = errors.New("the server has sent what nobody asked for, or the connection has ended")
	errNotLeft  = errors.New("the client does not leave its connection")
)

func newHijacked() *hijacked {
	h := &hijacked{entered: make(chan struct{}), ended: make(chan struct{})}
	h.news = sync.NewCond(&h.mu)
	return h
}

// read is the client's. It says undone where the connection is the client's again. Blocks: until there is a reply, the
// connection is closed, or that.
func (h *hijacked) read(b []byte) (n int, undone bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.inside {
		h.inside = true
		close(h.entered)
	}
	for len(h.pending) == 0 {
		if h.closed || h.undone {
			return 0, h.undone, net.ErrClosed
		}
		h.news.Wait()
	}
	n = copy(b, h.pending)
	h.pending = h.pending[n:]
	return n, false, nil
}

// write is the client's; undone as in read. Nothing is answered before the connection was taken over: the client's
// reader may be within a message, and a PONG would become a part of it.
// Blocks: until that is decided, which is at once, and within the limit of hijack.
func (h *hijacked) write(b []byte) (n int, undone bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.taken && !h.undone && !h.closed {
		h.news.Wait()
	}
	switch {
	case h.closed:
		return 0, false, net.ErrClosed
	case h.undone:
		return 0, true, nil
	}
	rest := b
	for bytes.HasPrefix(rest, []byte(pingCommand)) {
		rest = rest[len(pingCommand):]
		h.pending = append(h.pending, pingReply...)
	}
	h.news.Broadcast()
	if len(rest) > 0 {
		return len(b) - len(rest), false, errHijacked
	}
	return len(b), false, nil
}

// take says that it was taken over.
func (h *hijacked) take() {
	h.mu.Lock()
	h.taken = true
	h.mu.Unlock()
	h.news.Broadcast()
}

// undo gives the connection back.
func (h *hijacked) undo() {
	h.mu.Lock()
	h.undone = true
	h.mu.Unlock()
	h.news.Broadcast()
}

func (h *hijacked) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.ended)
	}
	h.mu.Unlock()
	h.news.Broadcast()
}

// past is a deadline that is over: it ends what waits for the connection.
//
//nolint:gochecknoglobals // a constant in all but name
var past = time.Unix(1, 0)

// hijack takes the connection over, unless the client waits for a reply on it: that would be taken for the answer to
// the lane's first command. After an error the connection is closed.
// Blocks: until the client has written what it is writing, and its reader has left the connection, which is at once.
func (w *watched) hijack(limit time.Duration) (hijacked bool, failed error) {
	h := newHijacked()
	w.writes.Lock() // what the client writes is written, and counted
	first := w.hijacked.CompareAndSwap(nil, h)
	w.writes.Unlock()
	if !first {
		return false, errHijacked
	}
	if w.closed.Load() { // since before: whoever closed it may not have seen h
		h.close()
		return false, errBroke
	}
	_ = w.Conn.SetReadDeadline(past)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.entered:
	case <-h.ended:
		return false, errBroke
	case <-timer.C:
		_ = w.Close()
		return false, errNotLeft
	}
	if err := w.Conn.SetReadDeadline(time.Time{}); err != nil {
		_ = w.Close()
		return false, err
	}
	if w.in.answered != w.asked.sent.Load() || !w.in.between() {
		w.hijacked.Store(nil)
		h.undo()
		return false, nil
	}
	h.take()
	return true, nil
}

// Close closes the connection, also for a client that it was taken from.
func (w *watched) Close() error {
	// Before h is looked for: a lane that takes the connection over sees one or the other. To a client that writes after
	// that nothing but an error will do: its writer ends by it.
	w.closed.Store(true)
	err := w.Conn.Close()
	if h := w.hijacked.Load(); h != nil {
		h.close()
	}
	return err
}

// A claims finds the connection behind a client: it is the one on which a word of ours goes out.
type claims struct {
	mu    sync.Mutex
	next  uint64
	found map[string]*watched // nil: not yet
}

// claim returns a word that no connection has sent yet.
func (c *claims) claim(word func(n uint64) string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	text := word(c.next)
	if c.found == nil {
		c.found = make(map[string]*watched)
	}
	c.found[text] = nil
	return text
}

// sent notes that a connection has sent a word, if it is one of ours.
func (c *claims) sent(word string, by *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ours := c.found[word]; ours {
		c.found[word] = by
	}
}

// take returns who has sent it, once; nil: nobody.
func (c *claims) take(word string) *watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.found[word]
	delete(c.found, word)
	return by
}

// timedOut reports whether a read or a write ended because a deadline was over.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
