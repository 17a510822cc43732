package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestServersOfItsOwnAreLeftAProcessorEach(t *testing.T) {
	needServer(t)
	all := runtime.GOMAXPROCS(0)
	rest := func(servers int) int {
		if servers >= all {
			return all
		}
		return all - servers
	}
	theirs := redistest.Run(t, redistest.Options{}).Addr()
	for _, c := range []struct {
		what string
		args []string
		env  string // GOMAXPROCS
		want int
	}{
		{"a server", []string{"--inflight", "64"}, "", rest(1)},
		{"few in flight", []string{"--inflight", "63"}, "", all},
		{"a cluster with replicas", []string{"--cluster", "2", "--replicas", "1"}, "", rest(4)},
		{"sentinels", []string{"--sentinel", "--replicas", "1"}, "", rest(2)},
		{"the environment decides", nil, fmt.Sprint(all + 1), all + 1},
		{"blocking callers leave it idle", []string{"--api", "sync"}, "", all},
		{"servers of somebody else", []string{"--addr", theirs}, "", all},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			run := startChildUnder(t, []string{"GOMAXPROCS=" + c.env}, append([]string{
				"run", "--duration", "50ms", "--warmup", "0s", "--clients", "1", "--json", "-",
			}, c.args...)...)
			require.Equal(t, report.StatusOK, run.wait(), run.stderr.String())
			var r report.Report
			require.NoError(t, json.Unmarshal(run.stdout.Bytes(), &r))
			require.Equal(t, c.want, r.Processors)
			require.Equal(t, runtime.NumCPU(), r.OfAll)
		})
	}
}
