package resp

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A lane may take a connection over from the client that has dialled it, greeted the server and authenticated itself:
// from then on the lane reads and writes. The client does so by goroutines of its own, which is one switch more for
// each write and each reply: much for one caller, nothing for thousands.

// A taken stands where the client reads and writes after that. To the client its connection is idle and alive: its
// PINGs are answered here.
type taken struct {
	entered chan struct{} // closed once the client's reader is here

	mu      sync.Mutex
	news    *sync.Cond
	pending []byte // replies to the client
	inside  bool
	closed  bool
	undone  bool // it was not taken over after all
}

// What the client says on a connection that is idle, and what a server answers.
const (
	pingCommand = "*1\r\n$4\r\nPING\r\n"
	pingReply   = "+PONG\r\n"
)

var errTaken = errors.New("the client writes to a connection that a lane has taken over")

func newTaken() *taken {
	t := &taken{entered: make(chan struct{})}
	t.news = sync.NewCond(&t.mu)
	return t
}

// read is the client's. It says undone where the connection is the client's again. Blocks: until there is a reply, the
// connection is closed, or that.
func (t *taken) read(b []byte) (n int, undone bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.inside {
		t.inside = true
		close(t.entered)
	}
	for len(t.pending) == 0 {
		if t.closed || t.undone {
			return 0, t.undone, net.ErrClosed
		}
		t.news.Wait()
	}
	n = copy(b, t.pending)
	t.pending = t.pending[n:]
	return n, false, nil
}

// write is the client's; undone as in read. Blocks: never.
func (t *taken) write(b []byte) (n int, undone bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.undone {
		return 0, true, nil
	}
	rest := b
	for bytes.HasPrefix(rest, []byte(pingCommand)) {
		rest = rest[len(pingCommand):]
		t.pending = append(t.pending, pingReply...)
	}
	t.news.Broadcast()
	switch {
	case t.closed:
		return 0, false, net.ErrClosed
	case len(rest) > 0:
		return len(b) - len(rest), false, errTaken
	}
	return len(b), false, nil
}

// undo gives the connection back.
func (t *taken) undo() {
	t.mu.Lock()
	t.undone = true
	t.mu.Unlock()
	t.news.Broadcast()
}

func (t *taken) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.news.Broadcast()
}

// past is a deadline that is over: it ends what waits for the connection.
//
//nolint:gochecknoglobals // a constant in all but name
var past = time.Unix(1, 0)

// take takes the connection over, unless the client waits for a reply on it: that would be taken for the answer to the
// lane's first command. It says whether all is well: else the client's reader has not left it, and it is to be closed.
// Blocks: until the reader has left it, which is at once.
func (w *watched) take(limit time.Duration) (took, well bool) {
	t := newTaken()
	if !w.taken.CompareAndSwap(nil, t) {
		return false, false
	}
	_ = w.Conn.SetReadDeadline(past)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.entered:
	case <-timer.C:
		return false, false
	}
	if w.Conn.SetReadDeadline(time.Time{}) != nil {
		return false, false
	}
	if w.in.answered != w.asked.sent.Load() {
		w.taken.Store(nil)
		t.undo()
		return false, true
	}
	return true, true
}

// Close closes the connection, also for a client that it was taken from.
func (w *watched) Close() error {
	err := w.Conn.Close()
	if t := w.taken.Load(); t != nil {
		t.close()
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
