package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	runtimepprof "runtime/pprof"
	"time"
)

// servePprof serves the profiles on addr, which has been checked, until the returned
// function is called. Where it listens is said on w.
func servePprof(addr string, w io.Writer) (stop func(), err error) {
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
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
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
type cpuProfile struct{ file *os.File }

// newCPUProfile creates the file, so that a bad name is noticed before anything runs.
func newCPUProfile(name string) (*cpuProfile, error) {
	if name == "" {
		return &cpuProfile{}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return &cpuProfile{file: f}, nil
}

func (p *cpuProfile) start() error {
	if p.file == nil {
		return nil
	}
	return runtimepprof.StartCPUProfile(p.file)
}

// stop ends the profile; later rounds are not profiled.
func (p *cpuProfile) stop() error {
	if p.file == nil {
		return nil
	}
	runtimepprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return err
}
