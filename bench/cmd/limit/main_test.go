package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestParseFlags(t *testing.T) {
	var said bytes.Buffer
	c, err := parseFlags(nil, &said)
	if err != nil || len(c.kinds) != len(kinds()) || c.inFlight != 4096 {
		t.Fatalf("defaults: %+v, %v", c, err)
	}
	for _, args := range []string{
		"now", "-kinds spin", "-kinds lock,lock", "-inflight 0", "-rounds 0", "-pairs 0", "-duration 0s", "-nonsense",
	} {
		if status := run(t.Context(), strings.Fields(args), &said, &said); status != 2 {
			t.Errorf("%s: status %d", args, status)
		}
	}
}

// Every kind has its line, with a ratio, and what is replayed does what was recorded.
func TestRun(t *testing.T) {
	var out, said bytes.Buffer
	status := run(t.Context(), strings.Fields("-inflight 64 -pairs 500 -rounds 1 -duration 20ms"), &out, &said)
	if status != 0 {
		t.Fatalf("status %d: %s", status, said.String())
	}
	for _, kind := range kinds() {
		if !strings.Contains(out.String(), "\n"+kind+" ") {
			t.Errorf("%s is not in the table:\n%s", kind, out.String())
		}
	}
}

// A replay has the server do what the engine had it do, and no lock is left.
func TestReplayIsTheWorkOfTheRecording(t *testing.T) {
	for _, kind := range kinds() {
		s := redistest.Run(t, redistest.Options{})
		rec, err := record(t.Context(), s.Addr(), kind, 32, 400)
		if err != nil || rec.pairs < 400 {
			t.Fatalf("%s: %d pairs, %v", kind, rec.pairs, err)
		}
		before, err := s.CommandStats()
		if err != nil {
			t.Fatal(err)
		}
		if perS, err := replay(t.Context(), s.Addr(), rec, time.Millisecond); err != nil || perS <= 0 {
			t.Fatalf("%s: %v, %v", kind, perS, err)
		}
		after, err := s.CommandStats()
		if err != nil {
			t.Fatal(err)
		}
		written := int64(0)
		for _, command := range []string{"copy", "hset", "hincrby", "hdel", "del"} {
			written += after[command] - before[command]
		}
		if written < int64(2*rec.pairs) {
			t.Errorf("%s: %d writes for %d pairs: %v", kind, written, rec.pairs, after)
		}
	}
}

// What the server refuses ends a replay: errors are no pairs.
func TestReplayOfWhatIsRefused(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	rec := recording{[]commands{{[]byte("*1\r\n$4\r\nPING\r\n*1\r\n$7\r\nNONSENS\r\n"), 7}}, 1}
	if _, err := replay(t.Context(), s.Addr(), rec, time.Second); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Fatal(err)
	}
	rec.conns[0].bytes = []byte("*1\r\n$6\r\nDBSIZE\r\n")
	if _, err := replay(t.Context(), s.Addr(), rec, time.Second); err == nil || !strings.Contains(err.Error(), "bytes of answers") {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := replay(ended, s.Addr(), rec, time.Second); err == nil {
		t.Fatal("a replay that was called off")
	}
}
