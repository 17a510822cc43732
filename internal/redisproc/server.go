package redisproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	startTimeout = 20 * time.Second        // for one server to answer
	stopGrace    = 1500 * time.Millisecond // between SIGTERM and SIGKILL
	startsTried  = 8                       // ports
	clusterFile  = "nodes.conf"
	sentinelFile = "sentinel.conf"
)

// errPortTaken means that the port was free when asked and is not any more.
var errPortTaken = errors.New("redisproc: the port was taken meanwhile")

// Options says which server to start. The zero Options is a plain single server.
type Options struct {
	// Binary is the server to run. Default: what [Binary] finds.
	Binary string
	// Cluster starts a node of a cluster, alone and without slots.
	Cluster bool
	// Args are further configuration arguments, such as "--maxmemory", "10mb". The
	// helpers authenticate with the "--requirepass" given here.
	Args []string

	sentinel string // body of a sentinel's configuration file
}

// Server is one running server process. All methods are safe for concurrent use.
type Server struct {
	binary   string
	dir      string
	port     int
	args     []string
	password string

	mu      sync.Mutex // serialises start and end of processes
	proc    *process   // the current or last process; mu
	stopped bool       // Stop was called; mu
}

// Start starts a server and returns when it answers. ctx bounds the start, not the
// life of the server: whoever starts it calls [Server.Stop].
//
// Errors: ErrNoServer; the end of the server's log when it will not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Binary == "" {
		path, err := Binary()
		if err != nil {
			return nil, err
		}
		o.Binary = path
	}
	var err error
	for range startsTried {
		var s *Server
		if s, err = startOnce(ctx, o); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// startOnce tries one port.
func startOnce(ctx context.Context, o Options) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-redis-")
	if err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	s := &Server{binary: o.Binary, dir: dir, port: port, password: passwordIn(o.Args)}
	if s.args, err = s.arguments(o); err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	running.Store(s, nil)
	return s, nil
}

// running are the servers that were started and not stopped.
var running sync.Map //nolint:gochecknoglobals // those of the process, which ends once

// StopAll kills all servers of this process and removes their directories: a process that ends at once calls it first.
func StopAll() {
	for s := range running.Range {
		s := s.(*Server)
		if s.mu.TryLock() { // else it is being stopped, or started
			s.proc.kill()
			s.stopped = true
			s.mu.Unlock()
		}
		_ = os.RemoveAll(s.dir)
	}
}

// arguments builds the command line; a sentinel reads and rewrites a file instead.
func (s *Server) arguments(o Options) ([]string, error) {
	port := strconv.Itoa(s.port)
	if o.sentinel != "" {
		file := filepath.Join(s.dir, sentinelFile)
		body := "port " + port + "\nbind 127.0.0.1\nprotected-mode no\ndir \"" + filepath.ToSlash(s.dir) + "\"\n" + o.sentinel
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			return nil, fmt.Errorf("redisproc: %w", err)
		}
		return append([]string{file, "--sentinel"}, o.Args...), nil
	}
	args := []string{
		"--port", port, "--bind", "127.0.0.1", "--protected-mode", "no",
		"--save", "", "--appendonly", "no", "--dir", s.dir,
	}
	if o.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", clusterFile)
	}
	return append(args, o.Args...), nil
}

// passwordIn returns the value of --requirepass among args.
func passwordIn(args []string) string {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == "--requirepass" {
			return args[i+1]
		}
	}
	return ""
}

// launch starts the process and waits until it answers. On error none is left.
func (s *Server) launch(ctx context.Context) error {
	p, err := launch(s.binary, s.dir, s.args)
	if err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	if err := s.awaitReady(ctx, p); err != nil {
		p.kill()
		return err
	}
	s.proc = p
	return nil
}

// awaitReady asks until the server answers, and checks that p is who answers.
func (s *Server) awaitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return poll(ctx, func() error {
		select {
		case <-p.done:
			return fatal{s.startError(p)}
		default:
		}
		if _, err := s.Command(ctx, "PING"); err != nil {
			return err
		}
		pid, err := s.infoField(ctx, "server", "process_id")
		if err != nil {
			return err
		}
		if pid != strconv.Itoa(p.pid()) {
			return fatal{errPortTaken}
		}
		return nil
	})
}

// startError tells why a server ended before it answered.
func (s *Server) startError(p *process) error {
	log := s.logTail()
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("redisproc: %s did not start: %w: %s", filepath.Base(s.binary), p.err, log)
}

// logTail returns the end of the server's log.
func (s *Server) logTail() string {
	const tail = 2048
	log, _ := os.ReadFile(logFile(s.dir))
	return string(bytes.TrimSpace(log[max(0, len(log)-tail):]))
}

func logFile(dir string) string { return filepath.Join(dir, "server.log") }

// Addr returns the server's address, "127.0.0.1:port". It never changes.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Port returns the server's port. It never changes.
func (s *Server) Port() int { return s.port }

// Dir returns the server's data directory; it is gone after Stop.
func (s *Server) Dir() string { return s.dir }

// Pid returns the id of the current process, or of the last one if none runs. A
// restart changes it.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Stop ends the server (SIGTERM, then SIGKILL), waits for it and removes its
// directory. A paused server is ended too. Stopping twice does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.terminate(stopGrace)
	s.stopped = true
	_ = os.RemoveAll(s.dir)
	running.Delete(s)
}

// Kill ends the server with SIGKILL, as a crash would, and waits for its end.
// [Server.Restart] brings it back, [Server.Stop] is still due.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
}

// Pause stops the server with SIGSTOP: connections stay open, the kernel still
// accepts new ones, nothing is answered. It returns when the server stands still. It does nothing where [CanPause] is false.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.pause()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = poll(ctx, func() error {
		if !stopped(s.proc.pid()) {
			return errors.New("still running")
		}
		return nil
	})
}

// Resume lets a paused server go on; it first runs what its sockets have received.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.resume()
}

// Restart ends the server, if it still runs, and starts it again on the same port
// with the same arguments and an empty data set. What a cluster node or a sentinel
// knows about its peers survives. ctx bounds the wait for the first answer.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("redisproc: restart of a stopped server")
	}
	s.proc.terminate(stopGrace)
	if err := s.removeData(); err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	return s.launch(ctx)
}

// removeData empties the directory, but for what makes a node known to its peers.
func (s *Server) removeData() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == clusterFile || e.Name() == sentinelFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// fatal is an error that ends a poll.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// poll calls try, with growing pauses, until it returns nil or a fatal error or ctx
// ends; then the error says what was last missing.
func poll(ctx context.Context, try func() error) error {
	const longest = 50 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		err := try()
		if err == nil {
			return nil
		}
		var f fatal
		if errors.As(err, &f) {
			return f.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redisproc: %w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}
