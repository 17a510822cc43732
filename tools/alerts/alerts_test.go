package alerts_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"

	holdfastprom "github.com/seed-786ebc8c/holdfast/adapters/prometheus"
	"github.com/seed-786ebc8c/holdfast/engine"
)

const (
	scrape = 15 * time.Second
	calm   = 30 * time.Minute // how long nothing is wrong
	wrong  = 40 * time.Minute // and how long something is then, in the same way at each scrape
)

// A source is an engine as the collector sees it.
type source struct{ stats engine.Stats }

func (source) ID() string            { return "e" }
func (s source) Stats() engine.Stats { return s.stats }

// busy is an engine in which everything goes well.
func busy() engine.Stats {
	return engine.Stats{
		Grants: 1000, GrantsByMessage: 400, GrantsByPoll: 20, Releases: 1000, Held: 50, Waits: 500,
		Renewals: engine.RenewalStats{Watched: 50, Sent: 1000}, Nodes: []engine.NodeStats{{Addr: "redis:6379"}},
	}
}

// series are the series of one engine, by how they are named in Prometheus.
func series(t *testing.T, stats engine.Stats) map[string]float64 {
	t.Helper()
	r := client.NewPedanticRegistry()
	require.NoError(t, r.Register(holdfastprom.NewCollector(source{stats})))
	families, err := r.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			switch name := family.GetName() + "{" + strings.Join(pairs, ",") + "}"; family.GetType() {
			case dto.MetricType_COUNTER:
				all[name] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				all[name] = m.GetGauge().GetValue()
			default: // a histogram is in no alert
			}
		}
	}
	return all
}

// history is what Prometheus has scraped: at each scrape all counters have grown by what the engine's are, well first, and
// then as something is wrong: once, or as long as it lasts. A gauge has that value.
func history(t *testing.T, well, spoilt engine.Stats, goesOn bool) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "load %v\n", scrape)
	before, after := series(t, well), series(t, spoilt)
	require.Equal(t, len(before), len(after))
	for name, first := range before {
		then := after[name]
		if strings.Contains(name, "_total{") {
			n, step := int(calm/scrape), first
			if goesOn {
				step = then
			}
			fmt.Fprintf(&b, "  %s 0+%.0fx%d %.0f+%.0fx%d\n", name, first, n, first*float64(n)+then, step, int(wrong/scrape))
			continue
		}
		fmt.Fprintf(&b, "  %s %.0f+0x%d %.0f+0x%d\n", name, first, int(calm/scrape), then, int(wrong/scrape))
	}
	return b.String()
}

// fired evaluates all alerts over that history each half minute, as Prometheus does, and returns when each has fired first,
// after the calm; and what it then said.
func fired(t *testing.T, well, spoilt engine.Stats, goesOn bool) (when map[string]time.Duration, said map[string]string) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, history(t, well, spoilt, goesOn))
	defer storage.Close()
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), storage)
	when, said = map[string]time.Duration{}, map[string]string{}
	for _, r := range alerts(t) {
		for at := calm / 2; at <= calm+wrong-time.Minute; at += 30 * time.Second {
			_, err := r.Eval(context.Background(), 0, time.UnixMilli(0).Add(at), query, &url.URL{}, 0)
			require.NoError(t, err, r.Name())
			for _, a := range r.ActiveAlerts() {
				if _, before := when[r.Name()]; !before && a.State == rules.StateFiring {
					when[r.Name()], said[r.Name()] = at-calm, a.Annotations.Get("summary")
				}
			}
		}
	}
	return when, said
}

// alerts are the rules of the file, as Prometheus reads it.
func alerts(t *testing.T) (all []*rules.AlertingRule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../../adapters/prometheus/alerts.yaml", false, model.UTF8Validation)
	require.Empty(t, errs)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			expr, err := parser.ParseExpr(r.Expr)
			require.NoError(t, err)
			all = append(all, rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
				labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.Default()))
		}
	}
	return all
}

// Each alert fires where it should, soon enough, and no other with it; and where there is a little less of what is wrong, it
// does not.
func TestEachAlertFires(t *testing.T) {
	cases := map[string]struct {
		spoil  func(*engine.Stats)
		within time.Duration
		says   string
		less   func(*engine.Stats) // what is no reason for it; nil: there is nothing less
	}{
		"HoldfastLockLost":       {func(s *engine.Stats) { s.Lost = 1 }, time.Minute, "leases were lost by engine e", nil},
		"HoldfastLockInJeopardy": {func(s *engine.Stats) { s.Renewals.Jeopardies = 1 }, time.Minute, "locks of engine e", nil},
		"HoldfastRenewalsLate": {
			func(s *engine.Stats) { s.Renewals.Late = 20 }, 11 * time.Minute, "renewals a second of engine e",
			func(s *engine.Stats) { s.Renewals.Late = 9 },
		},
		"HoldfastOrphans":     {func(s *engine.Stats) { s.Abandoned = 1 }, time.Minute, "grants of engine e", nil},
		"HoldfastLeaseLeaked": {func(s *engine.Stats) { s.Leaked = 1 }, time.Minute, "leases of engine e", nil},
		"HoldfastPollShare": {
			func(s *engine.Stats) { s.GrantsByMessage, s.GrantsByPoll = 70, 30 }, 31 * time.Minute, "engine e find locks by polling",
			func(s *engine.Stats) { s.GrantsByMessage, s.GrantsByPoll = 85, 15 },
		},
		"HoldfastOverloaded": {func(s *engine.Stats) { s.Nodes[0].Overloaded = 1 }, time.Minute, "because node redis:6379 is behind", nil},
	}
	for _, r := range alerts(t) {
		require.Contains(t, cases, r.Name(), "it is tried")
	}
	for alert, c := range cases {
		t.Run(alert, func(t *testing.T) {
			spoilt := busy()
			c.spoil(&spoilt)
			when, said := fired(t, busy(), spoilt, true)
			require.Len(t, when, 1, "%v", when)
			require.Contains(t, when, alert)
			require.Greater(t, when[alert], time.Duration(0))
			require.LessOrEqual(t, when[alert], c.within)
			require.Contains(t, said[alert], c.says)
			if c.less == nil {
				return
			}
			spoilt = busy()
			c.less(&spoilt)
			when, _ = fired(t, busy(), spoilt, true)
			require.Empty(t, when)
		})
	}
}

// What says that something has happened tells of what happens once; what says that it goes on does not.
func TestWhatHappensOnceIsAnAlertWhereItMatters(t *testing.T) {
	spoilt := busy()
	spoilt.Lost, spoilt.Renewals.Jeopardies, spoilt.Abandoned, spoilt.Leaked, spoilt.Nodes[0].Overloaded = 1, 1, 1, 1, 1
	spoilt.Renewals.Late, spoilt.GrantsByPoll = 500, 1000
	when, _ := fired(t, busy(), spoilt, false)
	require.Equal(t, []string{
		"HoldfastLeaseLeaked", "HoldfastLockInJeopardy", "HoldfastLockLost", "HoldfastOrphans", "HoldfastOverloaded",
	}, slices.Sorted(maps.Keys(when)))
}

func TestAllIsWellIsNoAlert(t *testing.T) {
	when, _ := fired(t, busy(), busy(), true)
	require.Empty(t, when)
	when, _ = fired(t, engine.Stats{}, engine.Stats{}, true)
	require.Empty(t, when)
}
