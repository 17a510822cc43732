package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestScenariosOnAPrivateCluster(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, tc := range []struct {
		name  string
		args  string
		check func(t *testing.T, r map[string]any)
	}{
		{"Lock", "--cluster 3 --inflight 500", func(t *testing.T, r map[string]any) {
			require.EqualValues(t, 3, r["masters"])
			require.EqualValues(t, 0, r["replicas"])
		}},
		{"HoldWithReplicas", "--cluster 3 --replicas 1 --scenario hold --locks 2000 --lease 6s --duration 2500ms", func(t *testing.T, r map[string]any) {
			require.EqualValues(t, 3, r["replicas"])
			require.EqualValues(t, 2000, r["held"])
			require.EqualValues(t, 0, r["mismatches"])
		}},
		{"Contend", "--cluster 2 --scenario contend --keys 4 --clients 16 --engines 2", func(t *testing.T, r map[string]any) {
			require.Positive(t, r["fairness"].(map[string]any)["min"])
		}},
		{"BesideTheYardstick", "--cluster 3 --yardstick --rounds 1", func(t *testing.T, r map[string]any) {
			require.Positive(t, r["ratio_to_yardstick"])
			require.Equal(t, "3 pipelines", r["yardstick"].(map[string]any)["kind"])
		}},
		{"OneInFlightBesideTheYardstick", "--cluster 2 --yardstick --rounds 1 --inflight 1", func(t *testing.T, r map[string]any) {
			require.Equal(t, "single", r["yardstick"].(map[string]any)["kind"])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--duration", "300ms", "--warmup", "20ms", "--json", "-"}, strings.Fields(tc.args)...)
			status, stdout, stderr := invoke(t, args...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireReport(t, []byte(stdout))
			require.Equal(t, "cluster", r["topology"])
			require.Equal(t, true, r["embedded"])
			require.Contains(t, r["server_check"], "agrees")
			tc.check(t, r)
			requireNobodyListens(t, stderr)
		})
	}
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		status, stdout, stderr := invoke(t, "run", "--sentinel", "--yardstick", "--rounds", "1", "--duration", "300ms", "--warmup", "20ms", "--json", "-")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		r := requireReport(t, []byte(stdout))
		require.Equal(t, "sentinel", r["topology"])
		require.EqualValues(t, 1, r["replicas"])
		require.Contains(t, r["server_check"], "agrees")
		require.Positive(t, r["ratio_to_yardstick"])
		requireNobodyListens(t, stderr)
	})
	t.Run("TheTableNamesTheTopology", func(t *testing.T) {
		t.Parallel()
		status, stdout, stderr := invoke(t, "run", "--cluster", "1", "--replicas", "1", "--duration", "100ms", "--warmup", "0s")
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.Contains(t, stdout, "of its own (cluster of 1 master and 1 replica)")
	})
}

func TestAPrivateClusterNeedsABinary(t *testing.T) {
	withoutServer(t)
	status, _, stderr := invoke(t, "run", "--cluster", "3")
	require.Equal(t, report.StatusConnect, status)
	require.Contains(t, stderr, "--cluster needs redis-server or valkey-server on PATH")
}

// The servers of a run that is killed without a chance to clean up are gone with it.
func TestAPrivateClusterDiesWithItsRun(t *testing.T) {
	needServer(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent has died")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=run --cluster 2 --duration 1h --warmup 0s", "TMPDIR="+t.TempDir())
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "cluster of 2 masters")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	requireNobodyListens(t, line)
}

// Who interrupts twice does not want to wait: nothing is left all the same.
func TestTheSecondInterruptEndsTheServersToo(t *testing.T) {
	needServer(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process is sent no interrupt there")
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=run --cluster 2 --duration 1h --warmup 0s", "TMPDIR="+dir)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it still runs
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	started, err := filepath.Glob(filepath.Join(dir, "holdfast-redis-*"))
	require.NoError(t, err)
	require.Len(t, started, 2)
	for range 2 {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT)) // two of the same kind at once may be one
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, report.StatusInterrupted, cmd.ProcessState.ExitCode())
	requireNobodyListens(t, line)
	left, err := filepath.Glob(filepath.Join(dir, "holdfast-redis-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// requireNobodyListens looks at every address that a run said it had started a server on.
func requireNobodyListens(t *testing.T, said string) {
	t.Helper()
	addrs := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindAllString(said, -1)
	require.Greater(t, len(addrs), 1, said)
	for _, addr := range addrs {
		require.Eventually(t, func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err != nil
		}, 10*time.Second, 10*time.Millisecond, addr)
	}
}

func TestTwoServersThatAreNoCluster(t *testing.T) {
	one, other := redistest.Run(t, redistest.Options{}).Addr(), redistest.Run(t, redistest.Options{}).Addr()
	status, _, stderr := invoke(t, "run", "--addr", one, "--addr", other)
	require.Equal(t, report.StatusConnect, status)
	require.Contains(t, stderr, "it is a single server, and 2 addresses are given")
}
