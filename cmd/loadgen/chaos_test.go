package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

func TestChaos(t *testing.T) {
	needServer(t)
	t.Parallel()
	for _, tc := range []struct {
		name  string
		args  string
		check func(t *testing.T, r, chaos map[string]any)
	}{
		{"SlotsMoveAndNobodyNotices", "--cluster 3 --inflight 500 --chaos slots", func(t *testing.T, r, chaos map[string]any) {
			require.Contains(t, r["server_check"], "agrees: one acquiring command", "nothing ran twice")
			require.Positive(t, chaos["quiet"].(map[string]any)["pairs_per_s"])
			require.Positive(t, chaos["script_calls_to_quiet"])
		}},
		{"ConnectionsPausesAndScripts", "--cluster 2 --inflight 200 --chaos pause,kill-conn,script-flush", func(t *testing.T, r, _ map[string]any) {
			require.Contains(t, r["server_check"], "agrees")
		}},
		{"OfASingleServer", "--inflight 200 --chaos pause,kill-conn,script-flush", func(t *testing.T, r, _ map[string]any) {
			require.Equal(t, "single", r["topology"])
		}},
		{"Contend", "--cluster 3 --scenario contend --keys 3 --clients 12 --chaos slots,kill-conn", func(t *testing.T, r, _ map[string]any) {
			require.Positive(t, r["grants"])
		}},
		{"Failover", "--cluster 3 --replicas 1 --scenario hold --locks 300 --duration 2s --chaos failover", func(t *testing.T, r, _ map[string]any) {
			require.EqualValues(t, 300, r["held"])
			require.Contains(t, r["server_check"], "one of them took over")
		}},
		{"HoldThroughTheDeathOfAMaster", "--cluster 3 --replicas 1 --scenario hold --locks 600 --lease 15s --duration 2s --chaos kill", func(t *testing.T, r, _ map[string]any) {
			f := r["failover"].(map[string]any)
			require.Positive(t, f["locks"])
			require.EqualValues(t, 0, f["told_late"])
			require.EqualValues(t, 0, f["lost_elsewhere"])
			require.Equal(t, f["locks"], f["relocked"], "every name of the dead master can be locked again")
			require.Positive(t, f["replaced_after_s"])
		}},
		{"SentinelFailover", "--sentinel --scenario hold --locks 300 --lease 30s --chaos failover", func(t *testing.T, r, _ map[string]any) {
			require.EqualValues(t, 300, r["held"])
		}},
		{"SentinelKill", "--sentinel --scenario hold --locks 300 --lease 15s --chaos kill", func(t *testing.T, r, _ map[string]any) {
			f := r["failover"].(map[string]any)
			require.EqualValues(t, 300, f["locks"])
			require.EqualValues(t, 300, f["relocked"])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--duration", "1500ms", "--warmup", "50ms", "--chaos-every", "20ms", "--json", "-"}, strings.Fields(tc.args)...)
			status, stdout, stderr := invoke(t, args...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			r := requireReport(t, []byte(stdout))
			require.Empty(t, r["errors"])
			chaos := r["chaos"].(map[string]any)
			require.NotEmpty(t, chaos["done"])
			require.Empty(t, chaos["failed"])
			tc.check(t, r, chaos)
		})
	}
}

func TestChaosNeedsProcessesToDisturb(t *testing.T) {
	withoutServer(t)
	status, _, stderr := invoke(t, "run", "--chaos", "pause")
	require.Equal(t, report.StatusConnect, status)
	require.Contains(t, stderr, "--chaos needs redis-server or valkey-server on PATH")
}
