package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func permitsOf(t *testing.T, r map[string]any) map[string]any {
	t.Helper()
	p, ok := r["permits"].(map[string]any)
	require.True(t, ok, "%v", r["permits"])
	require.EqualValues(t, 0, p["missing"])
	return p
}

func TestSemaphore(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{
		"",
		"--permits 1 --clients 8",
		"--permits 5 --take 5 --clients 12 --engines 3 --hold 1ms",
		"--api async --clients 12 --engines 2 --cluster 3",
		"--clients 8 --engines 2 --chaos pause,kill-conn,script-flush --chaos-every 50ms --duration 600ms",
		"--clients 12 --cluster 2 --chaos slots,script-flush --chaos-every 50ms --duration 600ms",
		"--clients 8 --no-handoff",
		"--scenario permits",
		"--scenario permits --permits 5 --take 5 --clients 12 --engines 3 --hold 1ms",
		"--scenario permits --api async --clients 12 --engines 2 --cluster 3",
		"--scenario permits --clients 8 --engines 2 --chaos pause,kill-conn,script-flush --chaos-every 50ms --duration 600ms",
		"--scenario permits --clients 12 --cluster 2 --chaos slots,script-flush --chaos-every 50ms --duration 600ms",
		"--scenario permits --clients 4 --permits 2 --take 1 --lease 1s --hold 600ms",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append([]string{
				"run", "--scenario", "semaphore", "--duration", "400ms", "--warmup", "20ms", "--json", "-",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			require.Empty(t, r["errors"])
			require.Positive(t, r["fairness"].(map[string]any)["min"], "every caller was served")
			p := permitsOf(t, r)
			require.Equal(t, p["permits"], p["free"])
			require.Positive(t, p["most"])
			require.LessOrEqual(t, p["most"], p["permits"])
			require.EqualValues(t, 0, p["killed_held"])
		})
	}
}

func TestSemaphoreAcrossProcesses(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, scenario := range []string{config.KindSemaphore, config.KindPermits} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			addr := redistest.Run(t, redistest.Options{}).Addr()
			args := []string{
				"run", "--scenario", scenario, "--addr", addr, "--clients", "6", "--duration", "500ms", "--warmup", "20ms", "--json", "-",
				"--witness", filepath.Join(t.TempDir(), "w"), "--witness-procs", "2",
			}
			one, two := startChild(t, args...), startChild(t, args...)
			for _, c := range []*child{one, two} {
				require.Equal(t, report.StatusOK, c.wait(), c.stderr.String())
				r := requireContendReport(t, c.stdout.Bytes())
				require.EqualValues(t, 8, permitsOf(t, r)["free"])
				require.Len(t, r["witness"].(map[string]any)["processes"], 2)
			}
		})
	}
}

// What a killed client had is missing, to the last permit, and nothing else is.
func TestPermitsOfAKilledClientAreAccountedFor(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{
		"--chaos client --clients 8",
		"--chaos client --clients 8 --engines 2 --cluster 3 --api async --take 4",
		"--chaos client,kill-conn --clients 6",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append([]string{
				"run", "--scenario", "semaphore", "--duration", "4s", "--warmup", "0s", "--hold", "1ms", "--json", "-",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			p, client := permitsOf(t, r), r["chaos"].(map[string]any)["client"].(map[string]any)
			require.EqualValues(t, 1, client["killed"])
			require.Positive(t, p["killed_held"], "it died as a holder")
			require.Equal(t, p["killed_held"], client["held"])
			require.EqualValues(t, 0, p["killed_unsettled"], "what it had is known exactly")
			require.InDelta(t, 8, p["free"].(float64)+p["killed_held"].(float64), 0)
		})
	}
}

// Under a lease what it had comes back, and others have it meanwhile no longer than that.
func TestLeasedPermitsOfAKilledClientComeBack(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, args := range []string{
		"--clients 8",
		"--clients 8 --engines 2 --cluster 3 --api async --permits 4 --take 4",
		"--chaos kill-conn --clients 6",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append([]string{
				"run", "--scenario", "permits", "--chaos", "client", "--lease", "2s", "--duration", "4s", "--warmup", "0s", "--hold", "1ms", "--json", "-",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireContendReport(t, []byte(stdout))
			p, client := permitsOf(t, r), r["chaos"].(map[string]any)["client"].(map[string]any)
			require.EqualValues(t, 1, client["killed"])
			require.Positive(t, p["killed_held"], "it died as a holder")
			require.Equal(t, p["permits"], p["free"])
			require.EqualValues(t, 0, p["lost_held"])
		})
	}
}

func TestSemaphoreTable(t *testing.T) {
	needServer(t)
	t.Parallel()
	status, stdout, stderr := invoke(t, "run", "--scenario", "semaphore", "--clients", "8", "--duration", "200ms", "--warmup", "0s")
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	require.True(t, strings.HasPrefix(stdout, "semaphore on "), stdout)
	for _, row := range []string{"8, up to 3 a turn", "free at the end", "free beside a waiter", "not checked: one command"} {
		require.Contains(t, stdout, row)
	}
}

func TestASemaphoreThatIsThereIsLeftAlone(t *testing.T) {
	needServer(t)
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	c := config.Config{Prefix: "mine"}
	s.Do(t, "SET", c.LockName('k', 0), "42")
	status, _, stderr := invoke(t, "run", "--scenario", "semaphore", "--addr", s.Addr(), "--prefix", "mine", "--duration", "100ms",
		"--json", "-")
	require.Equal(t, report.StatusFailed, status)
	require.Contains(t, stderr, "there is a semaphore")
	require.Equal(t, "42", s.Do(t, "GET", c.LockName('k', 0)))
}

// Nobody can take permits from a replica: that they were free there is no failing.
func TestPermitsThatAReplicaShowsAreFreeForNobody(t *testing.T) {
	needServer(t)
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	c := startChild(t, "run", "--scenario", config.KindSemaphore, "--addr", s.Addr(), "--clients", "6", "--duration", "6s", "--warmup", "20ms", "--hold", "1ms", "--json", "-")
	require.Eventually(t, func() bool {
		return strings.Contains(s.Do(t, "INFO", "commandstats"), "cmdstat_decrby:")
	}, 20*time.Second, 10*time.Millisecond, "permits are taken")
	s.Do(t, "REPLICAOF", "127.0.0.1", "1") // nobody is there, so it keeps what it has
	time.Sleep(config.IdleMost + time.Second)
	s.Do(t, "REPLICAOF", "NO", "ONE")
	c.wait()
	idle := permitsOf(t, requireContendReport(t, c.stdout.Bytes()))["idle_s"]
	require.Less(t, idle, config.IdleMost.Seconds(), c.stderr.String())
}
