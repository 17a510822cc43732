package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestParseFlags(t *testing.T) {
	var said bytes.Buffer
	c, err := parseFlags(nil, &said)
	if err != nil || len(c.impls) != len(impls()) || len(c.callers) != 3 || c.rounds != 5 {
		t.Fatalf("defaults: %+v, %v", c, err)
	}
	for _, args := range []string{
		"now", "-callers 0", "-callers many", "-callers 1,", "-rounds 0", "-duration 0s", "-warmup -1s",
		"-impls nobody", "-impls bare,bare", "-nonsense",
	} {
		if _, err := parseFlags(strings.Fields(args), &said); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}

// Everybody has a turn, and nothing is left on the server.
func TestRun(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	dir := t.TempDir()
	document, drawing := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.svg")
	var out, said bytes.Buffer
	status := run(t.Context(), strings.Fields("-addr "+s.Addr()+
		" -callers 1,3 -rounds 2 -duration 20ms -warmup 5ms -json "+document+" -svg "+drawing), &out, &said)
	if status != 0 {
		t.Fatalf("status %d: %s", status, said.String())
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cells) != 2*len(impls()) {
		t.Fatalf("%d cells", len(r.Cells))
	}
	for _, c := range r.Cells {
		if c.PerS <= 0 || len(c.Rounds) != 2 || c.P50 <= 0 || c.P99 < c.P50 {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(out.String(), c.Impl) {
			t.Errorf("%s is not in the table", c.Impl)
		}
	}
	if svg, err := os.ReadFile(drawing); err != nil || !bytes.Contains(svg, []byte("<svg")) {
		t.Errorf("no drawing: %v", err)
	}
	if n := s.Do(t, "DBSIZE"); n != "0" {
		t.Errorf("%s keys are left", n)
	}
}

func TestWrongServer(t *testing.T) {
	var out, said bytes.Buffer
	if status := run(t.Context(), strings.Fields("-addr 127.0.0.1:1 -duration 10ms"), &out, &said); status != 1 {
		t.Fatalf("status %d", status)
	}
}
