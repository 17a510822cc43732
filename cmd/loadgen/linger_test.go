package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Locks that linger cost the server what was not handed over, and nothing is left of them.
func TestLinger(t *testing.T) {
	needServer(t)
	t.Parallel()
	addr := redistest.Run(t, redistest.Options{}).Addr()
	for _, args := range []string{
		"--keys 64 --inflight 64", "--api sync --keys 64 --clients 16", "--scenario contend --clients 1", "--scenario contend --clients 8",
		"--scenario contend --clients 8 --engines 4",
	} {
		t.Run(args, func(t *testing.T) {
			all := append([]string{
				"run", "--addr", addr, "--linger", "100ms", "--duration", "1s", "--warmup", "50ms", "--json", "-", "--check-server", "on",
			}, strings.Fields(args)...)
			status, stdout, stderr := invoke(t, all...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireReport(t, []byte(stdout))
			require.Contains(t, r["server_check"], "that was not handed over", stdout)
			require.EqualValues(t, 0, r["violations"])
			commands := r["server_commands"].(map[string]any)
			if !strings.Contains(args, "engines") { // they take turns, and hear each other
				require.Less(t, 5*commands["publish"].(float64), r["pairs"], "most are granted without a command")
			}
		})
	}
}

func TestLingerIsForPlainLocks(t *testing.T) {
	for args, want := range map[string]string{
		"--linger 101ms":                               "between 0 and 100ms",
		"--linger -1ms":                                "between 0 and 100ms",
		"--linger 1500us":                              "whole milliseconds",
		"--linger 5ms --kind fair":                     "plain locks",
		"--linger 5ms --kind spin":                     "plain locks",
		"--linger 5ms --scenario multi":                "plain locks",
		"--linger 5ms --scenario fenced":               "plain locks",
		"--linger 5ms --scenario contend":              "",
		"--linger 0 --scenario semaphore":              "",
		"--linger 100ms --inflight 1":                  "",
		"--linger 5ms --scenario hold":                 "plain locks",
		"--linger 5ms --kind lock":                     "",
		"--linger 5ms --scenario latch":                "plain locks",
		"--linger 5ms --kind write":                    "plain locks",
		"--linger 5ms --scenario contend --kind write": "plain locks",
	} {
		_, err := parseFlags(strings.Fields(args))
		if want == "" {
			require.NoError(t, err, args)
		} else {
			require.ErrorContains(t, err, want, args)
		}
	}
}
