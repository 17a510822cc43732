package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

func TestServePprof(t *testing.T) {
	var said strings.Builder
	stop, err := servePprof("127.0.0.1:0", new(profiler), &said)
	require.NoError(t, err)
	defer stop()
	url := strings.Fields(said.String())
	defer http.DefaultClient.CloseIdleConnections()
	for path, status := range map[string]int{
		"": http.StatusOK, "goroutine?debug=1": http.StatusOK,
		"profile?seconds=0": http.StatusBadRequest, "profile?seconds=x": http.StatusBadRequest, "profile?seconds=0.05": http.StatusOK,
	} {
		reply, err := http.Get(url[len(url)-1] + path)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, status, reply.StatusCode, path)
	}
}

// says passes on what a run says, and waits for a line.
type says struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (s *says) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		select {
		case s.news <- struct{}{}:
		default:
		}
	}()
	return s.text.Write(p)
}

// after is the word behind what, once it was said.
func (s *says) after(t *testing.T, what string) string {
	t.Helper()
	for {
		s.mu.Lock()
		_, rest, found := strings.Cut(s.text.String(), what)
		s.mu.Unlock()
		if word, _, whole := strings.Cut(rest, "\n"); found && whole {
			return word
		}
		select {
		case <-s.news:
		case <-t.Context().Done():
			t.Fatal("never said: ", what)
		}
	}
}

// Both profiles are whole, whoever begins and ends first, and show what goroutines work at.
func TestPprofBesideCPUProfile(t *testing.T) {
	needServer(t)
	file := filepath.Join(t.TempDir(), "cpu.out")
	said := &says{news: make(chan struct{}, 1)}
	ended := make(chan int)
	go func() { // ends with the run
		ended <- run(context.WithoutCancel(t.Context()), []string{
			"run", "--duration", "3s", "--warmup", "0s", "--pprof", "127.0.0.1:0", "--cpuprofile", file, "--json", "-",
		}, io.Discard, said)
	}()
	url := said.after(t, "profiles on ")
	said.after(t, "started ") // the server is there, and load begins
	reply, err := http.Get(url + "profile?seconds=1")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	asked, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, report.StatusOK, <-ended, said.text.String())
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	short, long := readProfile(t, asked), readProfile(t, written)
	require.InDelta(t, time.Second, short.DurationNanos, float64(900*time.Millisecond))
	require.InDelta(t, 3*time.Second, long.DurationNanos, float64(1500*time.Millisecond), "also what was profiled for --pprof")
	for _, p := range []*profile.Profile{short, long} {
		parts := make(map[string]bool)
		for _, s := range p.Sample {
			for _, part := range s.Label[world.PartKey] {
				parts[part] = true
			}
		}
		require.Subset(t, parts, map[string]bool{"lane": true, "caller": true})
	}
}

func readProfile(t *testing.T, data []byte) *profile.Profile {
	t.Helper()
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	return p
}
