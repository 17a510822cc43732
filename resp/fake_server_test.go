package resp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
)

// A fakeServer answers commands without a network, in the goroutine of whoever sends them. It is the client of itself.
type fakeServer struct {
	rueidis.Client
	// says answers a command. Nil, or an answer of "": as a server does that has just been started.
	says func(conn *fakeConn, cmd []string) string

	mu    sync.Mutex
	conns []*fakeConn
	asked [][]string
}

// fakeBroken is what says answers for no answer at all.
const fakeBroken = "broken"

var errFakeBroken = errors.New("the connection broke")

func (s *fakeServer) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (s *fakeServer) Close()                   {}

func (s *fakeServer) Dedicate() (rueidis.DedicatedClient, func()) {
	c := &fakeConn{DedicatedClient: mock.NewDedicatedClient(nil), server: s, broken: make(chan error)}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	return c, c.Close
}

// one is a connection for whoever does not ask for one of its own.
func (s *fakeServer) one() *fakeConn {
	return &fakeConn{DedicatedClient: mock.NewDedicatedClient(nil), server: s, broken: make(chan error)}
}

func (s *fakeServer) B() rueidis.Builder { return s.one().B() }

func (s *fakeServer) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	return s.one().DoMulti(ctx, multi...)
}

// count is how often a command was sent.
func (s *fakeServer) count(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.asked {
		if cmd[0] == name {
			n++
		}
	}
	return n
}

// dials is how many connections were made.
func (s *fakeServer) dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// A fakeConn is one connection.
type fakeConn struct {
	rueidis.DedicatedClient
	server *fakeServer
	once   sync.Once
	broken chan error
}

func (c *fakeConn) Close() { c.once.Do(func() { close(c.broken) }) }

func (c *fakeConn) closed() bool {
	select {
	case _, open := <-c.broken:
		return !open
	default:
		return false
	}
}

func (c *fakeConn) SetPubSubHooks(rueidis.PubSubHooks) <-chan error { return c.broken }

func (c *fakeConn) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return c.DoMulti(ctx, cmd)[0]
}

func (c *fakeConn) DoMulti(_ context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	replies := make([]rueidis.RedisResult, len(multi))
	for i, cmd := range multi {
		replies[i] = c.reply(slices.Clone(cmd.Commands()))
	}
	return replies
}

func (c *fakeConn) reply(cmd []string) rueidis.RedisResult {
	c.server.mu.Lock()
	c.server.asked = append(c.server.asked, cmd)
	c.server.mu.Unlock()
	text := ""
	if c.server.says != nil {
		text = c.server.says(c, cmd)
	}
	switch {
	case text == fakeBroken || c.closed():
		return mock.ErrorResult(errFakeBroken)
	case text == "":
		text = fakeAnswer(cmd)
	}
	m, rest, ok := decode(text)
	if !ok || rest != "" {
		return mock.ErrorResult(errors.New("no reply: " + text))
	}
	return mock.Result(m)
}

// fakeAnswer is what a server says at a handshake. It does everything else, and says so.
func fakeAnswer(cmd []string) string {
	switch strings.Join(cmd[:min(2, len(cmd))], " ") {
	case "INFO server":
		return "+redis_version:7.4.0\r\n"
	case "TIME":
		return "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"
	case "ROLE":
		return "*1\r\n+master\r\n"
	default:
		return "+OK\r\n"
	}
}
