package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// patience bounds every wait of this package: whoever waits that long has failed.
const patience = 10 * time.Second

// TB is what Start needs of a test: *testing.T, *testing.B and *testing.F have it, and those of most
// test frameworks.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// A Server is a double of one Redis server, with the engines opened on it. Its methods may be called
// by any goroutine, those that can fail the test only where the test's Fatalf may.
type Server struct {
	tb       TB
	mini     *miniredis.Miniredis
	listener *listener
	clock    serverClock
	asking   atomic.Int32 // questions of ours on their way: no refusal is for them
	acting   sync.Mutex   // held by Lose, Steal and Free, before any other mutex

	mu       sync.Mutex
	first    *engine.Engine
	engines  []member
	refusal  string            // what commands are answered; empty: what they ask for
	scripted map[string]func() // keys whose next force-release does this instead
	down     bool
}

// A member is an engine with what it puts before names.
type member struct {
	*engine.Engine
	prefix string
}

// Start starts a server. The cleanup of tb closes it and every engine that was opened on it.
func Start(tb TB) *Server {
	tb.Helper()
	s, err := start()
	if err != nil {
		tb.Fatalf("enginetest: %v", err)
		return nil
	}
	s.tb = tb
	tb.Cleanup(s.close)
	return s
}

func start() (*Server, error) {
	s := &Server{mini: miniredis.NewMiniRedis(), scripted: map[string]func(){}}
	// This starts miniredis without a listener: ours keeps its port while the server is down.
	conn, err := s.mini.Dial()
	if err != nil {
		return nil, fmt.Errorf("start miniredis: %w", err)
	}
	_ = conn.Close()
	s.clock.start(s.mini)
	s.mini.Server().SetPreHook(s.before)
	s.listener, err = listen(func(c net.Conn) { s.mini.Server().ServeConn(c) })
	if err != nil {
		s.mini.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return s, nil
}

// close ends every trouble, then the engines, then the server.
func (s *Server) close() {
	s.tb.Helper()
	s.Accept()
	s.setDown(false)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	late := false
	for _, m := range s.members() {
		// What else Close says is the answer to troubles that the test made.
		late = errors.Is(m.Close(ctx), context.DeadlineExceeded) || late
	}
	s.listener.close()
	s.mini.Close()
	if late {
		s.tb.Fatalf("enginetest: an engine was not closed within %v: does a callback not return?", patience)
	}
}

// Addr returns the host:port to connect to. A loss is told at once only to engines that this server
// opened; to those opened with Addr it is told as in life, by their next renewal.
func (s *Server) Addr() string { return s.listener.addr }

// Engine returns the engine that the program under test uses, always the same. It is opened when
// first asked for.
func (s *Server) Engine() *engine.Engine {
	s.tb.Helper()
	s.mu.Lock()
	first := s.first
	s.mu.Unlock()
	if first != nil {
		return first
	}
	opened := s.NewEngine()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil { // else another goroutine was faster, and this one stays unused
		s.first = opened
	}
	return s.first
}

// NewEngine opens a further engine: another process that contends for the same locks. Each change
// is made to its configuration before it is opened.
func (s *Server) NewEngine(changes ...func(*engine.Config)) *engine.Engine {
	s.tb.Helper()
	cfg := engine.Config{Addrs: []string{s.Addr()}, Logger: slog.New(slog.DiscardHandler)} // losses are scripted
	for _, change := range changes {
		change(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := engine.Open(ctx, cfg)
	if err != nil {
		s.tb.Fatalf("enginetest: open an engine: %v", err)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines = append(s.engines, member{e, cfg.Prefix})
	return e
}

func (s *Server) members() []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engines[:len(s.engines):len(s.engines)]
}
