package chaos

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// What is wrong and nothing else, so that no other failure covers it.
func TestEachThingThatIsWrongIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		what   func(t *testing.T, r *report.Report)
		status int
		says   string
	}{
		"FailedDisturbance": {func(_ *testing.T, r *report.Report) {
			c := &Chaos{cfg: &config.Config{}, done: map[string]int64{"slots": 1}, failed: []string{"slots: no"}}
			c.AddTo(r, nil)
		}, report.StatusFailed, "chaos slots: no"},
		"NothingDisturbed": {func(_ *testing.T, r *report.Report) {
			(&Chaos{cfg: &config.Config{}, done: map[string]int64{}}).AddTo(r, nil)
		}, report.StatusFailed, "nothing was disturbed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &report.Report{Errors: map[string]int64{}, Failures: []string{}}
			c.what(t, r)
			r.Settle()
			require.Equal(t, c.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), c.says)
		})
	}
}

func TestAGapThatIsTooLongIsAFailure(t *testing.T) {
	for _, tc := range []struct {
		name   string
		chaos  []string
		kind   string
		gap    time.Duration
		status int
	}{
		{"Within", []string{config.ChaosClient}, config.KindLock, 3 * time.Second, report.StatusOK},
		{"Beyond", []string{config.ChaosClient}, config.KindLock, 3*time.Second + 1, report.StatusFailed},
		{"APlaceOfTheDead", []string{config.ChaosClient}, config.KindFair, 7 * time.Second, report.StatusOK},
		{"BeyondThat", []string{config.ChaosClient}, config.KindFair, 7*time.Second + 1, report.StatusFailed},
		{"ServersAreDisturbed", []string{config.ChaosClient, config.ChaosPause}, config.KindLock, 4 * time.Second, report.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New(&config.Config{Chaos: tc.chaos, Kind: tc.kind, Lease: time.Second}, nil, nil, nil)
			c.done[config.ChaosClient], c.client.Killed = 1, 1
			c.WatchGaps(2).GrantedAt(1, tc.gap)
			r := new(report.Report)
			c.AddTo(r, nil)
			r.Settle()
			require.Equal(t, tc.status, r.Status, r.Failures)
			require.InDelta(t, tc.gap.Seconds(), r.Chaos.Client.Gap, 0.001)
		})
	}
}

func TestAnotherClientThatCannotBeginIsToldOf(t *testing.T) {
	v, err := startVictim(&config.Config{Scenario: "nonsense"}, &topology.Server{Addrs: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	require.ErrorContains(t, v.await(t.Context()), "ended by itself: loadgen: ")
	require.ErrorContains(t, v.kill(), "ended by itself")
}

// On a busy machine a replica may have taken over when it is told again, and then it refuses for good.
func TestWhoHasTakenOverIsNotToldAgain(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, 1, 0)
	c := &Chaos{cfg: &config.Config{}, srv: &topology.Server{Cluster: cluster}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	before, err := cluster.Nodes()[0].CommandStats()
	require.NoError(t, err)
	require.NoError(t, c.takeOver(ctx, cluster.Nodes()[0]))
	after, err := cluster.Nodes()[0].CommandStats()
	require.NoError(t, err)
	require.Equal(t, before["cluster|failover"], after["cluster|failover"])
}

// What such a master wrote last may be lost: before, after and during a step that replaces another one.
func TestAnUnplannedFailoverIsNoted(t *testing.T) {
	t.Parallel()
	cluster := redistest.RunCluster(t, 4, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	chaos := func(kind string) *Chaos {
		cfg := &config.Config{Chaos: []string{kind}, ChaosEvery: time.Millisecond, Duration: time.Minute, Replicas: 1}
		return New(cfg, &topology.Server{Cluster: cluster}, nil, nil)
	}
	c := chaos(config.ChaosKillConn)
	require.False(t, c.ReplicaMayBeBehind(ctx))
	require.NoError(t, chaos(config.ChaosFailover).failover(ctx))
	require.True(t, c.ReplicaMayBeBehind(ctx))
	require.True(t, c.ReplicaMayBeBehind(ctx), "once and for all")

	during := chaos(config.ChaosFailover)
	during.noteFailovers(ctx, 0)
	require.NoError(t, during.failover(ctx))
	before := during.masters
	require.Eventually(t, func() bool { // the second must replace another master than the first did
		require.NoError(t, chaos(config.ChaosFailover).failover(ctx))
		now := during.mastersNow(ctx)
		return len(slices.DeleteFunc(slices.Clone(before), func(m *redistest.Server) bool { return slices.Contains(now, m) })) >= 2
	}, time.Minute, time.Millisecond)
	during.noteFailovers(ctx, replacedBy(config.ChaosFailover))
	require.True(t, during.ReplicaMayBeBehind(ctx), "one of two was planned")

	planned := chaos(config.ChaosKill)
	planned.run(ctx)
	require.Equal(t, map[string]int64{config.ChaosKill: 1}, planned.done, planned.failed)
	require.False(t, planned.ReplicaMayBeBehind(ctx), "a step did that")
}

func TestTheOtherClientGetsNoPasswordAsAnArgument(t *testing.T) {
	const secret = "canary-dragon-42"
	args := victimArgs(&config.Config{User: "app", SecretFile: "password", Password: secret}, &topology.Server{Addrs: []string{"127.0.0.1:1"}})
	require.Contains(t, args, "--password-file")
	require.NotContains(t, strings.Join(args, " "), secret)
}
