package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A recorder stands between an engine and a server, and keeps what the engine says, byte by byte and connection by
// connection: internal/faultproxy would take it apart.
type recorder struct {
	listener net.Listener
	server   string
	ended    sync.WaitGroup

	mu    sync.Mutex
	conns []*recorded
}

// recorded is one connection of the engine's.
type recorded struct {
	client, server net.Conn

	mu      sync.Mutex
	bytes   []byte // what the engine said
	answers int    // how many bytes the server did
}

func newRecorder(ctx context.Context, server string) (*recorder, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &recorder{listener: listener, server: server}
	r.ended.Go(func() { r.accept(ctx) })
	return r, nil
}

func (r *recorder) addr() string { return r.listener.Addr().String() }

// accept ends with the listener.
func (r *recorder) accept(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		server, err := d.DialContext(ctx, "tcp", r.server)
		if err != nil {
			_ = client.Close() // the engine sees that
			continue
		}
		c := &recorded{client: client, server: server}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.ended.Go(func() { c.carry(server, client, func(part []byte) { c.bytes = append(c.bytes, part...) }) })
		r.ended.Go(func() { c.carry(client, server, func(part []byte) { c.answers += len(part) }) })
	}
}

// carry passes on what one side says until one of them is gone; the engine sees how it ended.
func (c *recorded) carry(to, from net.Conn, keep func(part []byte)) {
	defer c.close()
	part := make([]byte, 256<<10)
	for {
		n, err := from.Read(part)
		c.mu.Lock()
		keep(part[:n])
		c.mu.Unlock()
		if _, failed := to.Write(part[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (c *recorded) close() { _, _ = c.client.Close(), c.server.Close() }

// begin forgets what was said so far.
func (r *recorder) begin() {
	r.each(func(c *recorded) { c.bytes, c.answers = nil, 0 })
}

// taken is what was said since begin by each connection that sent scripts.
func (r *recorder) taken() (all []commands) {
	r.each(func(c *recorded) {
		if bytes.Contains(c.bytes, []byte("EVALSHA")) {
			all = append(all, commands{lasting(c.bytes), c.answers})
		}
	})
	return all
}

func (r *recorder) each(f func(*recorded)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.mu.Lock()
		f(c)
		c.mu.Unlock()
	}
}

// close ends all connections, and waits for that.
func (r *recorder) close() {
	_ = r.listener.Close() // it ends accept, and nothing else
	r.each((*recorded).close)
	r.ended.Wait()
}

// A recording is the commands of many pairs that begin and end with all locks free.
type recording struct {
	conns []commands
	pairs int
}

// commands are those of one connection.
type commands struct {
	bytes   []byte
	answers int // how many bytes were answered
}

// limitTimes are the times, in milliseconds, until which commands may run; instants of this century have as many digits.
var limitTimes = regexp.MustCompile(`\$13\r\n(\d{13})\r\n`)

// lasting moves the times until which the commands may run: a replay comes later than the engine's patience allows.
func lasting(bytes []byte) []byte {
	return limitTimes.ReplaceAllFunc(bytes, func(argument []byte) []byte {
		at, _ := strconv.ParseInt(string(limitTimes.FindSubmatch(argument)[1]), 10, 64) // 13 digits
		if until := time.UnixMilli(at); time.Until(until) < -time.Minute || time.Until(until) > time.Minute {
			return argument // it is something else
		}
		return fmt.Appendf(nil, "$13\r\n%d\r\n", at+time.Hour.Milliseconds())
	})
}

var errNoCommands = errors.New("the engine sent no scripts")

// record lets an engine work through a recorder until it has done so many pairs.
func record(ctx context.Context, addr, kind string, inFlight, pairs int) (rec recording, err error) {
	r, err := newRecorder(ctx, addr)
	if err != nil {
		return rec, err
	}
	defer r.close()
	w, err := newWorker(ctx, r.addr(), kind, inFlight)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	// Scripts are loaded, connections made, and batches as large as they become.
	if _, err := w.work(ctx, func(done int) bool { return done < pairs/4 }); err != nil {
		return rec, err
	}
	r.begin()
	rec.pairs, err = w.work(ctx, func(done int) bool { return done < pairs })
	if rec.conns = r.taken(); err == nil && len(rec.conns) == 0 {
		err = errNoCommands
	}
	return rec, err
}
