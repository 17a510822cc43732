package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

// tick is how often the clock of miniredis is moved: the coarseness of its leases.
const tick = 100 * time.Millisecond

// Server is a running server that nobody else uses. Whoever starts it calls Stop.
type Server struct {
	// Kind is what runs: redis-server, valkey-server or miniredis.
	Kind string
	// InProcess says that the server lives in this process: what it costs is counted
	// with what its clients cost.
	InProcess bool

	child *redisproc.Server // nil: InProcess
	addr  string
	stop  func()
	once  sync.Once
}

// Start starts a server and returns when it answers. ctx bounds the start only.
//
// Errors: the real server's, if there is one and it does not start. That none is on PATH
// is no error.
func Start(ctx context.Context) (*Server, error) {
	child, err := redisproc.Start(ctx, redisproc.Options{})
	switch {
	case errors.Is(err, redisproc.ErrNoServer):
		return startMini()
	case err != nil:
		return nil, fmt.Errorf("start a server: %w", err)
	}
	kind := "redis-server"
	if path, err := redisproc.Binary(); err == nil {
		kind = strings.TrimSuffix(filepath.Base(path), ".exe") // as Windows calls it
	}
	return &Server{Kind: kind, child: child, addr: child.Addr(), stop: child.Stop}, nil
}

// startMini starts miniredis and the ticker that moves its time.
func startMini() (*Server, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start miniredis: %w", err)
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with Stop
		defer close(gone)
		moveTime(mini, quit)
	}()
	return &Server{Kind: "miniredis", InProcess: true, addr: mini.Addr(), stop: func() {
		close(quit)
		<-gone
		mini.Close()
	}}, nil
}

// moveTime moves the clock of mini along with ours until quit is closed.
func moveTime(mini *miniredis.Miniredis, quit <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
			now := time.Now()
			mini.FastForward(now.Sub(last))
			last = now
		}
	}
}

// Addr returns the host:port to connect to.
func (s *Server) Addr() string { return s.addr }

// Process returns the server's process; nil if it is in this one.
func (s *Server) Process() *redisproc.Server { return s.child }

// Stop ends the server. It may be called more than once.
//
// Blocks: until the server is gone.
func (s *Server) Stop() { s.once.Do(s.stop) }
