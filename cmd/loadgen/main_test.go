package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// The goroutines there are already belong to the callback pool's package, for good.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" { // the binary of --chaos client is this one
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if args := os.Getenv(childEnv); args != "" {
		ctx, exit := untilInterrupted()
		exit(run(ctx, strings.Fields(args), os.Stdout, os.Stderr))
	}
	if os.Getenv("GOMAXPROCS") == "" { // a run in this process takes no processor from the tests beside it
		_ = os.Setenv("GOMAXPROCS", strconv.Itoa(runtime.GOMAXPROCS(0)))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		// A client of a cluster asks for the slots again a second later, and closes the connections of nodes that
		// have left five seconds later, whether it is closed or not.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// Most of what starts servers of its own waits for them, for elections and for leases, and runs in parallel. Alone
// stay the tests that hide every server (they change the environment), that count what a rate makes in 300 ms, that ask
// how much heap a lock takes or how often each of several callers of one hot lock is served.

// invoke runs the program and returns its status and what it wrote.
func invoke(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// needServer skips what needs a real server where there is none.
func needServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
	if _, err := redistest.Binary(); err != nil {
		t.Skip(err)
	}
}

// withoutServer hides every server on PATH.
func withoutServer(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.BinaryEnv, "")
}

func TestCommands(t *testing.T) {
	for _, tc := range []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{nil, report.StatusUsage, "", "loadgen run [flags]"},
		{[]string{"help"}, report.StatusOK, "loadgen run [flags]", ""},
		{[]string{"--help"}, report.StatusOK, "loadgen run [flags]", ""},
		{[]string{"help", "run"}, report.StatusOK, "--inflight", ""},
		{[]string{"run", "--help"}, report.StatusOK, "Exit status", ""},
		{[]string{"help", "me"}, report.StatusUsage, "", "no help on"},
		{[]string{"version"}, report.StatusOK, "loadgen ", ""},
		{[]string{"-h"}, report.StatusOK, "loadgen run [flags]", ""},
		{[]string{"help", "help"}, report.StatusOK, "loadgen run [flags]", ""},
		{[]string{"help", "run", "me"}, report.StatusUsage, "", "no help on"},
		{[]string{"help", "completion"}, report.StatusOK, "powershell", ""},
		{[]string{"help", "completion", "zsh"}, report.StatusOK, "compinit", ""},
		{[]string{"run", "-h"}, report.StatusOK, "Exit status", ""},
		{[]string{"--version"}, report.StatusOK, "loadgen ", ""},
		{[]string{"walk"}, report.StatusUsage, "", `unknown command "walk"`},
		{[]string{"hold"}, report.StatusUsage, "", "Did you mean this?\n\trun\n"},
		{[]string{"rum"}, report.StatusUsage, "", "Did you mean this?\n\trun\n"},
		{[]string{"completion", "cmd"}, report.StatusUsage, "", `unknown command "cmd"`},
		{[]string{"scripts", "all"}, report.StatusUsage, "", "unexpected argument \"all\"\nSee \"loadgen help\".\n"},
		{[]string{"run", "now"}, report.StatusUsage, "", "loadgen: unexpected argument \"now\"\nSee \"loadgen help run\".\n"},
		{[]string{"run", "--now"}, report.StatusUsage, "", "loadgen: unknown flag: --now\nSee \"loadgen help run\".\n"},
		{[]string{"run", "--duration", "0s"}, report.StatusUsage, "", "--duration"},
		{[]string{"run", "--json", filepath.Join(t.TempDir(), "no", "such", "folder")}, report.StatusUsage, "", "--json"},
		{[]string{"run", "--cpuprofile", filepath.Join(t.TempDir(), "no", "such", "folder")}, report.StatusUsage, "", "--cpuprofile"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			status, stdout, stderr := invoke(t, tc.args...)
			require.Equal(t, tc.status, status)
			require.Contains(t, stdout, tc.stdout)
			require.Contains(t, stderr, tc.stderr)
			if tc.stdout == "" {
				require.Empty(t, stdout)
			}
		})
	}
}

func TestRun(t *testing.T) {
	t.Run("EmbeddedServer", func(t *testing.T) {
		needServer(t)
		profile := filepath.Join(t.TempDir(), "cpu.out")
		status, stdout, stderr := invoke(t, "run", "--duration", "500ms", "--warmup", "50ms", "--cpuprofile", profile)
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.Contains(t, stdout, "pairs/s")
		require.Contains(t, stdout, "agrees")
		require.Contains(t, stderr, "-server of its own on 127.0.0.1:")
		info, err := os.Stat(profile)
		require.NoError(t, err)
		require.Positive(t, info.Size())
	})
	t.Run("MiniredisWhereThereIsNoServer", func(t *testing.T) {
		withoutServer(t)
		status, stdout, stderr := invoke(t, "run", "--duration", "500ms", "--warmup", "0s", "--inflight", "128")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.Contains(t, stdout, "not available")
		require.Contains(t, stderr, "started miniredis of its own")
	})
	t.Run("UnreachableAddress", func(t *testing.T) {
		status, stdout, stderr := invoke(t, "run", "--addr", "127.0.0.1:1", "--duration", "500ms")
		require.Equal(t, report.StatusConnect, status)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "127.0.0.1:1")
	})
	t.Run("JSONAlone", func(t *testing.T) {
		withoutServer(t)
		status, stdout, stderr := invoke(t, "run", "--duration", "300ms", "--warmup", "0s", "--inflight", "64", "--json", "-")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		requireReport(t, []byte(stdout))
	})
	t.Run("JSONFileBesideTheTable", func(t *testing.T) {
		withoutServer(t)
		file := filepath.Join(t.TempDir(), "report.json")
		status, stdout, stderr := invoke(t, "run", "--duration", "300ms", "--warmup", "0s", "--inflight", "64", "--json", file)
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.Contains(t, stdout, "pairs/s")
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		requireReport(t, written)
	})
	t.Run("InterruptedBeforeItBegins", func(t *testing.T) {
		withoutServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var stdout, stderr bytes.Buffer
		require.Equal(t, report.StatusInterrupted, run(ctx, []string{"run"}, &stdout, &stderr))
		require.Contains(t, stderr.String(), "loadgen: interrupted before the run began\n")
		require.Empty(t, stdout.String())
	})
	t.Run("InterruptStillReports", func(t *testing.T) {
		withoutServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		defer time.AfterFunc(time.Second, cancel).Stop()
		status := run(ctx, []string{"run", "--duration", "1h", "--warmup", "0s", "--json", "-"}, &stdout, &stderr)
		require.Equal(t, report.StatusOK, status, stderr.String())
		r := requireReport(t, stdout.Bytes())
		require.Equal(t, true, r["interrupted"])
		require.Positive(t, r["pairs"])
	})
}

func TestRunAgainstAServer(t *testing.T) {
	needServer(t)
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, tc := range []struct {
		name  string
		args  string
		check func(t *testing.T, r map[string]any)
	}{
		{"Async", "--engines 2 --clients 3 --inflight 100", func(t *testing.T, r map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
			require.Nil(t, r["heap_bytes_per_held_lock"])
			require.Nil(t, r["ratio_to_yardstick"])
		}},
		{"Sync", "--api sync --clients 32", func(t *testing.T, r map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
		}},
		{"OpenLoop", "--rate 500", func(t *testing.T, r map[string]any) {
			require.InDelta(t, 150, r["pairs"], 2)
		}},
		{"OpenLoopSync", "--rate 500 --api sync --clients 8", func(t *testing.T, r map[string]any) {
			require.InDelta(t, 150, r["pairs"], 2)
		}},
		{"OthersHeldMeanwhile", "--locks 500", func(t *testing.T, r map[string]any) {
			require.EqualValues(t, 500, r["held"])
			require.Contains(t, r["server_check"], "agrees")
		}},
		{"Yardstick", "--yardstick --rounds 2 --inflight 256", func(t *testing.T, r map[string]any) {
			require.Positive(t, r["ratio_to_yardstick"])
			y := r["yardstick"].(map[string]any)
			require.Equal(t, "pipeline", y["kind"])
			require.Len(t, y["rounds"], 2)
		}},
		{"YardstickOfOne", "--yardstick --rounds 1 --inflight 1", func(t *testing.T, r map[string]any) {
			y := r["yardstick"].(map[string]any)
			require.Equal(t, "single", y["kind"])
			require.Positive(t, y["pairs_per_s"])
		}},
		{"Hold", "--scenario hold --locks 2000 --lease 1s --duration 1500ms", func(t *testing.T, r map[string]any) {
			require.EqualValues(t, 2000, r["held"])
			require.EqualValues(t, 2000, r["pairs"])
			require.EqualValues(t, 0, r["mismatches"])
			require.Positive(t, r["heap_bytes_per_held_lock"])
			sent := r["renewals"].(map[string]any)["sent"]
			require.GreaterOrEqual(t, sent, 4000.0)
			lag := r["renewals"].(map[string]any)["lag_p99_s"]
			require.Positive(t, lag)
			require.LessOrEqual(t, lag, 1.0, "the lease: none was lost")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"run", "--addr", addr, "--duration", "300ms", "--warmup", "20ms", "--json", "-"}, strings.Fields(tc.args)...)
			status, stdout, stderr := invoke(t, args...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			tc.check(t, requireReport(t, []byte(stdout)))
		})
	}
}

// reportFields are those other programs rely on.
var reportFields = []string{
	"scenario", "topology", "masters", "replicas", "server", "duration_s", "pairs", "pairs_per_s",
	"acquire_us.p50", "acquire_us.p90", "acquire_us.p99", "acquire_us.p999", "acquire_us.max",
	"release_us.p50", "release_us.p90", "release_us.p99", "release_us.p999", "release_us.max",
	"client_cpu_us_per_pair", "server_cpu_us_per_pair", "allocs_per_pair", "errors", "violations",
	"renewals.sent", "renewals.failed", "renewals.lag_p99_s", "lost", "held", "goroutines_max",
	"heap_bytes_per_held_lock", "fairness", "ratio_to_yardstick", "server_commands",
}

// requireReport decodes a report, which must be all there is, and checks its shape.
func requireReport(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var r map[string]any
	require.NoError(t, json.Unmarshal(text, &r), "%s", text)
	for _, field := range reportFields {
		at, names := r, strings.Split(field, ".")
		for i, name := range names {
			require.Contains(t, at, name, field)
			if i < len(names)-1 {
				at = at[name].(map[string]any)
			}
		}
	}
	if commands, ok := r["server_commands"].(map[string]any); ok {
		for _, name := range []string{"evalsha", "hset", "copy", "hdel", "publish"} {
			require.Contains(t, commands, name)
		}
	}
	return r
}
