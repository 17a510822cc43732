package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	runtimepprof "runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// profiler shares the one CPU profile that a process can have at a time: --cpuprofile and whoever asks --pprof get
// each the whole of their time. The profile is cut where one of them begins or ends, and pieces are put together. The
// zero value is ready.
type profiler struct {
	mu    sync.Mutex
	takes map[*take]bool
	piece bytes.Buffer // of the profile that runs, if there are takes
}

// A take is a stretch of time that is profiled.
type take struct{ pieces [][]byte }

// begin starts a stretch.
func (p *profiler) begin() (*take, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := new(take)
	p.cut()
	if p.takes == nil {
		p.takes = make(map[*take]bool)
	}
	p.takes[t] = true
	return t, p.goOn()
}

// end writes the profile of a stretch.
func (p *profiler) end(t *take, w io.Writer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	delete(p.takes, t)
	return errors.Join(p.goOn(), t.write(w))
}

// cut ends the piece and gives it to all.
func (p *profiler) cut() {
	if len(p.takes) == 0 {
		return
	}
	runtimepprof.StopCPUProfile()
	piece := bytes.Clone(p.piece.Bytes())
	for t := range p.takes {
		t.pieces = append(t.pieces, piece)
	}
}

// goOn begins the next piece, if anybody wants it.
func (p *profiler) goOn() error {
	p.piece.Reset()
	if len(p.takes) == 0 {
		return nil
	}
	return runtimepprof.StartCPUProfile(&p.piece)
}

func (t *take) write(w io.Writer) error {
	if len(t.pieces) == 1 {
		_, err := w.Write(t.pieces[0])
		return err
	}
	parts := make([]*profile.Profile, len(t.pieces))
	for i, piece := range t.pieces {
		var err error
		if parts[i], err = profile.ParseData(piece); err != nil {
			return fmt.Errorf("read a part of the CPU profile: %w", err)
		}
	}
	whole, err := profile.Merge(parts)
	if err != nil {
		return fmt.Errorf("put the CPU profile together: %w", err)
	}
	return whole.Write(w)
}

// longestProfile bounds what --pprof is asked for.
const longestProfile = time.Hour

// ServeHTTP answers /debug/pprof/profile?seconds=N.
func (p *profiler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	length := 30 * time.Second
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		length = time.Duration(seconds * float64(time.Second))
		if err != nil || length <= 0 || length > longestProfile {
			http.Error(w, "seconds must be more than 0 and at most 3600", http.StatusBadRequest)
			return
		}
	}
	t, err := p.begin()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	select {
	case <-time.After(length):
	case <-r.Context().Done():
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="profile"`)
	_ = p.end(t, w) // nobody else can be told
}

// servePprof serves the profiles on addr, which has been checked, until the returned
// function is called. Where it listens is said on w.
func servePprof(addr string, cpu *profiler, w io.Writer) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.Handle("/debug/pprof/profile", cpu)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	gone := make(chan struct{})
	go func() { // ends with stop
		defer close(gone)
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			say(w, "loadgen: pprof: %v\n", err)
		}
	}()
	say(w, "loadgen: profiles on http://%s/debug/pprof/\n", listener.Addr())
	return func() {
		_ = srv.Close() // there is nothing to save
		<-gone
	}, nil
}

// cpuProfile writes the CPU profile of what runs between start and stop, once.
type cpuProfile struct {
	shared *profiler
	file   *os.File
	take   *take // nil: it does not run
}

// newCPUProfile creates the file, so that a bad name is noticed before anything runs.
func newCPUProfile(name string) (*cpuProfile, error) {
	p := &cpuProfile{shared: new(profiler)}
	if name == "" {
		return p, nil
	}
	var err error
	if p.file, err = os.Create(name); err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return p, nil
}

func (p *cpuProfile) start() (err error) {
	if p.file != nil {
		p.take, err = p.shared.begin()
	}
	return err
}

// stop ends the profile; later rounds are not profiled.
func (p *cpuProfile) stop() (err error) {
	if p.file == nil {
		return nil
	}
	if p.take != nil {
		err = p.shared.end(p.take, p.file)
	}
	err = errors.Join(err, p.file.Close())
	p.file, p.take = nil, nil
	return err
}
