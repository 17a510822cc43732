package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParseFlags(t *testing.T) {
	var said bytes.Buffer
	c, err := parseFlags(nil, &said)
	if err != nil || len(c.impls) != len(hot.Impls()) || c.procs != 1 || c.callers != 64 || c.rounds != 5 {
		t.Fatalf("defaults: %+v, %v", c, err)
	}
	for _, args := range []string{
		"now", "-procs 0", "-procs 65", "-callers 0", "-rounds 0", "-duration 0s", "-hold -1s",
		"-impls nobody", "-impls mutex,mutex", "-nonsense",
	} {
		if _, err := parseFlags(strings.Fields(args), &said); err == nil {
			t.Errorf("%s was accepted", args)
		}
	}
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, args := range []string{"", "-procs 2 -callers 2 -hold 100us"} {
		t.Run(args, func(t *testing.T) {
			var out, errs bytes.Buffer
			all := append(strings.Fields(args), "-addr", addr, "-rounds", "2", "-duration", "100ms", "-warmup", "20ms", "-json", "-")
			if status := run(t.Context(), all, &out, &errs); status != 0 {
				t.Fatalf("status %d: %s", status, errs.String())
			}
			check(t, out.Bytes(), strings.Contains(args, "-procs 2"))
		})
	}
}

// check looks at the JSON as another program would.
func check(t *testing.T, text []byte, several bool) {
	t.Helper()
	var r struct {
		Impls []struct {
			Name       string
			GrantsPerS float64 `json:"grants_per_s"`
			Rounds     []float64
			Grants     int64
			Wait       map[string]float64 `json:"wait_us"`
			Fairness   map[string]float64
			Processes  map[string]float64 `json:"fairness_processes"`
			Errors     int64
			Violations int64
			Ratio      map[string]float64 `json:"ratio_to"`
			P99Ratio   map[string]float64 `json:"p99_ratio_to"`
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Impls) != len(hot.Impls()) {
		t.Fatalf("%d implementations", len(r.Impls))
	}
	for _, m := range r.Impls {
		switch {
		case m.GrantsPerS <= 0 || m.Grants <= 0 || len(m.Rounds) != 2:
			t.Errorf("%s did nothing: %+v", m.Name, m)
		case m.Errors != 0 || m.Violations != 0:
			t.Errorf("%s failed: %+v", m.Name, m)
		case m.Wait["max"] < m.Wait["p99"] || m.Wait["p99"] < m.Wait["p50"] || m.Fairness["max"] < m.Fairness["min"]:
			t.Errorf("%s: no distribution: %+v", m.Name, m)
		case len(m.Ratio) != len(r.Impls)-1 || len(m.P99Ratio) != len(r.Impls)-1:
			t.Errorf("%s: ratios %v, %v", m.Name, m.Ratio, m.P99Ratio)
		case (m.Processes != nil) != (several && m.Name != "mutex"):
			t.Errorf("%s: fairness of processes %v", m.Name, m.Processes)
		}
	}
}

// The other holder is planted in the witness, for good.
func TestAViolationIsSeen(t *testing.T) {
	file := t.TempDir() + "/witness"
	w, err := witness.Open(file, witness.Options{Keys: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Leave() }()
	w.Take(0, 1)
	in := strings.NewReader(`{"Impls":["mutex"],"Callers":1,"Witness":"` + file + `"}` + "\n" + `{"Callers":1,"Duration":1000000}` + "\n")
	var out bytes.Buffer
	if err := work(context.Background(), in, &out); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(&out)
	var ready, a answer
	if err := answers.Decode(&ready); err != nil {
		t.Fatal(err)
	}
	if err := answers.Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.Violations == 0 || len(a.Told) == 0 || a.Grants == 0 {
		t.Fatalf("not seen: %+v", a)
	}
}

func TestReport(t *testing.T) {
	r := newReport(config{procs: 2, callers: 1, impls: []string{"holdfast", "redislock"}})
	for i, grants := range []int64{300, 10} {
		waits := hot.NewWaits()
		if err := waits.RecordValue(int64(1000 * (i + 1))); err != nil {
			t.Fatal(err)
		}
		text, err := waits.Encode(hdrEncoding)
		if err != nil {
			t.Fatal(err)
		}
		one := answer{Grants: grants, Wall: 1e9, Waits: text, Served: []int64{grants}}
		other := one
		other.Grants, other.Served = 2*grants, []int64{2 * grants}
		if err := r.Impls[i].add([]answer{one, other}); err != nil {
			t.Fatal(err)
		}
	}
	r.settle()
	if m := r.Impls[0]; m.GrantsPerS != 900 || m.Ratio["redislock"] != 30 || m.Processes.Ratio != 0.5 {
		t.Fatalf("%+v", m)
	}
	if text := r.table(); !strings.Contains(text, "30.00") || !strings.Contains(text, "/redislock") {
		t.Fatal(text)
	}
}
