package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	sharedfile "github.com/seed-786ebc8c/holdfast/internal/witness"
)

// childEnv makes the test binary loadgen itself, run with these arguments.
const childEnv = "LOADGEN_TEST_ARGS"

// contendFields are those other programs rely on, in the scenario contend.
var contendFields = []string{
	"grants", "grants_per_s", "longest_wait_us", "hold_s",
	"grants_by_handoff", "grants_by_message", "grants_by_poll",
	"fairness", "fairness_engines", "ratio_to_mutex", "mutex", "witness", "fairness_processes",
}

func requireContendReport(t *testing.T, text []byte) map[string]any {
	t.Helper()
	r := requireReport(t, text)
	for _, field := range contendFields {
		require.Contains(t, r, field)
	}
	return r
}

func TestContend(t *testing.T) {
	needServer(t)
	addr := redistest.Run(t, redistest.Options{}).Addr()
	get := func(r map[string]any, name, field string) any { return r[name].(map[string]any)[field] }
	for _, tc := range []struct {
		name  string
		args  string
		check func(t *testing.T, r map[string]any)
	}{
		{"OneKey", "", func(t *testing.T, r map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
			require.Positive(t, r["grants_by_handoff"])
			require.Equal(t, "sync", r["api"])
			require.Positive(t, get(r, "fairness", "min"), "every caller was served")
			require.Nil(t, r["ratio_to_mutex"])
			require.Nil(t, r["witness"])
		}},
		{"Async", "--api async --clients 16", func(t *testing.T, r map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
			require.Positive(t, get(r, "fairness", "min"))
		}},
		{"AsyncHolding", "--api async --clients 4 --hold 2ms", func(t *testing.T, r map[string]any) {
			require.Less(t, r["grants_per_s"], 500.0)
			require.InDelta(t, 0.002, r["hold_s"], 1e-9)
		}},
		{"WithoutHandOff", "--no-handoff --clients 8", func(t *testing.T, r map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
			require.EqualValues(t, 0, r["grants_by_handoff"])
		}},
		{"EnginesAndKeys", "--engines 2 --keys 3 --clients 12", func(t *testing.T, r map[string]any) {
			require.Positive(t, get(r, "fairness_engines", "min"))
		}},
		{"BesideAMutex", "--clients 8 --hold 1ms --mutex --rounds 2", func(t *testing.T, r map[string]any) {
			require.Positive(t, r["ratio_to_mutex"])
			require.Len(t, get(r, "mutex", "rounds"), 2)
			require.EqualValues(t, 8, get(r, "mutex", "callers"))
			require.Less(t, r["grants_per_s"], 1000.0)
		}},
		{"AloneWithAWitness", "--clients 4 --witness " + filepath.Join(t.TempDir(), "w"), func(t *testing.T, r map[string]any) {
			require.Len(t, get(r, "witness", "processes"), 1)
			require.Equal(t, r["grants"], get(r, "witness", "grants"))
			require.Nil(t, r["fairness_processes"])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{
				"run", "--scenario", "contend", "--addr", addr,
				"--duration", "300ms", "--warmup", "20ms", "--json", "-",
			}, strings.Fields(tc.args)...)
			status, stdout, stderr := invoke(t, args...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			require.EqualValues(t, 0, r["violations"])
			require.Positive(t, r["longest_wait_us"])
			require.Equal(t, r["pairs"], r["grants"])
			tc.check(t, r)
		})
	}
}

func TestContendOnAServerOfItsOwn(t *testing.T) {
	withoutServer(t)
	status, stdout, stderr := invoke(t, "run", "--scenario", "contend", "--duration", "300ms", "--warmup", "0s",
		"--mutex", "--rounds", "1", "--witness", filepath.Join(t.TempDir(), "w"))
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	for _, row := range []string{"grants/s", "longest wait", "grants a caller", "beside a mutex", "together"} {
		require.Contains(t, stdout, row)
	}
}

func TestContendEndsEarlyWithAReport(t *testing.T) {
	withoutServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	status := run(ctx, []string{"run", "--scenario", "contend", "--duration", "1h", "--warmup", "0s", "--json", "-"}, &stdout, &stderr)
	require.Equal(t, report.StatusOK, status, stderr.String())
	require.Equal(t, true, requireContendReport(t, stdout.Bytes())["interrupted"])
}

// child is loadgen in a process of its own.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	return startChildUnder(t, nil, args...)
}

// startChildUnder is startChild, with these variables in its environment.
func startChildUnder(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(append(os.Environ(), env...), childEnv+"="+strings.Join(args, " "))
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // if it still runs
	return c
}

func (c *child) wait() (status int) {
	_ = c.cmd.Wait() // the status says it
	return c.cmd.ProcessState.ExitCode()
}

func TestContendInThreeProcesses(t *testing.T) {
	needServer(t)
	addr := redistest.Run(t, redistest.Options{}).Addr()
	args := []string{
		"run", "--scenario", "contend", "--addr", addr, "--clients", "4", "--duration", "1s", "--warmup", "20ms", "--json", "-",
		"--witness", filepath.Join(t.TempDir(), "w"), "--witness-procs", "3", "--mutex", "--rounds", "1",
	}
	var children []*child
	for range 3 {
		children = append(children, startChild(t, args...))
	}
	var wg sync.WaitGroup
	for _, c := range children {
		wg.Go(func() { c.wait() })
	}
	wg.Wait()
	var first map[string]any
	for _, c := range children {
		require.Equal(t, report.StatusOK, c.cmd.ProcessState.ExitCode(), c.stderr.String())
		r := requireContendReport(t, c.stdout.Bytes())
		if first == nil {
			first = r
		}
		for _, same := range []string{"witness", "fairness_processes", "ratio_to_mutex"} {
			require.NotNil(t, r[same])
			require.Equal(t, first[same], r[same], "all say the same of all")
		}
		mutex := r["mutex"].(map[string]any)
		require.EqualValues(t, 12, mutex["callers"])
	}
	together := first["witness"].(map[string]any)
	require.Len(t, together["processes"], 3)
	require.EqualValues(t, 0, together["violations"])
	require.Greater(t, together["grants_per_s"], first["grants_per_s"])
	fair := first["fairness_processes"].(map[string]any)
	for _, field := range []string{"min", "max", "ratio", "window_s", "windows"} {
		require.Positive(t, fair[field], field)
	}
}

// The violation is planted by another process, this one, which marks the key as held while
// loadgen rightly holds it.
func TestAPlantedViolationInAnotherProcessEndsInStatus4(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "w")
	w, err := sharedfile.Open(file, sharedfile.Options{Keys: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Leave()) }()
	w.Take(0, 5)
	c := startChild(t, "run", "--scenario", "contend", "--addr", addr, "--clients", "2", "--duration", "100ms", "--warmup", "0s",
		"--json", "-", "--witness", file)
	require.Equal(t, report.StatusViolation, c.wait(), c.stderr.String())
	var r struct {
		Violations int64    `json:"violations"`
		Failures   []string `json:"failures"`
	}
	require.NoError(t, json.Unmarshal(c.stdout.Bytes(), &r))
	require.Positive(t, r.Violations)
	require.Contains(t, strings.Join(r.Failures, "\n"), "while caller 5 of process")
}

func TestWitnessThatDoesNotFit(t *testing.T) {
	withoutServer(t)
	file := filepath.Join(t.TempDir(), "w")
	require.NoError(t, os.WriteFile(file, []byte("a letter"), 0o600))
	status, _, stderr := invoke(t, "run", "--scenario", "contend", "--witness", file, "--duration", "1s")
	require.Equal(t, report.StatusUsage, status)
	require.Contains(t, stderr, "not a witness file")
}

func TestNobodyElseCame(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	status, stdout, _ := invoke(t, "run", "--scenario", "contend", "--addr", addr, "--duration", "1s", "--json", "-",
		"--witness", filepath.Join(t.TempDir(), "w"), "--witness-procs", "2", "--witness-wait", "50ms")
	require.Equal(t, report.StatusFailed, status)
	require.Contains(t, stdout, "1 of 2 processes came within 50ms")
}
