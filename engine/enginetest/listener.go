package enginetest

import (
	"net"
	"sync"
)

// A listener accepts connections for a server that can go down and keep its address: then it cuts
// all connections, and every new one at once.
type listener struct {
	addr  string
	inner net.Listener
	serve func(net.Conn)
	gone  chan struct{} // closed when the accepting goroutine has ended

	mu    sync.Mutex
	down  bool
	conns map[*conn]struct{}
}

// listen listens on a free port. Each connection is given to serve, which must not block and sees to
// it that the connection is closed once nothing runs for it any more.
func listen(serve func(net.Conn)) (*listener, error) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &listener{
		addr: inner.Addr().String(), inner: inner, serve: serve,
		gone: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	go l.accept() // ends with close
	return l, nil
}

func (l *listener) accept() {
	defer close(l.gone)
	for {
		raw, err := l.inner.Accept()
		if err != nil {
			return
		}
		c := &conn{Conn: raw, owner: l, gone: make(chan struct{})}
		l.mu.Lock()
		down := l.down
		if !down {
			l.conns[c] = struct{}{}
		}
		l.mu.Unlock()
		if down {
			_ = raw.Close()
			continue
		}
		l.serve(c)
	}
}

// setDown cuts every connection, or lets new ones in. Blocks: until no command runs any more.
func (l *listener) setDown(down bool) {
	l.mu.Lock()
	l.down = down
	var cut []*conn
	if down {
		for c := range l.conns {
			cut = append(cut, c)
		}
	}
	l.mu.Unlock()
	for _, c := range cut {
		_ = c.Conn.Close()
	}
	for _, c := range cut {
		<-c.gone
	}
}

func (l *listener) close() {
	_ = l.inner.Close()
	<-l.gone
}

// A conn tells when the server is done with it.
type conn struct {
	net.Conn
	owner *listener
	once  sync.Once
	gone  chan struct{}
}

// Close is the server's: it comes when nothing runs for this connection any more.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.owner.mu.Lock()
		delete(c.owner.conns, c)
		c.owner.mu.Unlock()
		close(c.gone)
	})
	return err
}
