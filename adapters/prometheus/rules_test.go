package holdfastprom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// shown lists the names of all series, each with the values that its labels can have: nil, if any.
func shown(t *testing.T) map[string]map[string][]string {
	t.Helper()
	stats, _ := full()
	all := map[string]map[string][]string{}
	for _, family := range gather(t, source{"e", stats}) {
		labels := map[string][]string{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		for _, free := range []string{"engine", "node", "class", "version"} {
			if labels[free] != nil {
				labels[free] = nil
			}
		}
		if strings.HasSuffix(family.GetName(), "_seconds") {
			labels["le"] = nil
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				all[family.GetName()+suffix] = labels
			}
			continue
		}
		all[family.GetName()] = labels
	}
	return all
}

// names checks that an expression can be read, and names only series, labels and values that there are.
func names(t *testing.T, expr string) {
	t.Helper()
	series := shown(t)
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m") // Grafana's
	parsed, err := metricsql.Parse(expr)
	require.NoError(t, err, expr)
	found := 0
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		m, ok := e.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, filters := range m.LabelFilterss {
			name := filters[0].Value
			labels, ok := series[name]
			require.True(t, ok, "%s: there is no %s", expr, name)
			found++
			for _, f := range filters[1:] {
				values, ok := labels[f.Label]
				require.True(t, ok, "%s: %s has no label %s", expr, name, f.Label)
				if values == nil {
					continue
				}
				for _, value := range strings.Split(f.Value, "|") {
					require.Contains(t, values, value, expr)
				}
			}
		}
	})
	require.Positive(t, found, "%s names nothing", expr)
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(by[1], ",") {
			known := false
			for _, labels := range series {
				_, ok := labels[strings.TrimSpace(label)]
				known = known || ok
			}
			require.True(t, known, "%s: nothing has a label %s", expr, label)
		}
	}
}

func TestTheDashboardNamesOnlyMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Title, UID string
		Panels     []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ RefID, Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids, targets := map[int]bool{}, 0
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "%d twice", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			targets++
			names(t, target.Expr)
		}
	}
	require.Greater(t, targets, 30)
}

// A rule as Prometheus reads it; what is not here it would refuse.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func TestTheAlertsNameOnlyMetricsThatThereAreAndAreExplained(t *testing.T) {
	file, err := os.Open("alerts.yaml")
	require.NoError(t, err)
	defer file.Close()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&rules))
	guide, err := os.ReadFile("../../docs/OPERATIONS.md")
	require.NoError(t, err)
	require.Len(t, rules.Groups, 1)
	seen := map[string]bool{}
	for _, r := range rules.Groups[0].Rules {
		require.Regexp(t, `^Holdfast[A-Z][A-Za-z]+$`, r.Alert)
		require.False(t, seen[r.Alert], "%s twice", r.Alert)
		seen[r.Alert] = true
		names(t, r.Expr)
		if r.For != "" {
			_, err := time.ParseDuration(r.For)
			require.NoError(t, err, r.Alert)
		}
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.True(t, strings.Contains(string(guide), "\n**"+r.Alert+"**"), "OPERATIONS.md says nothing of %s", r.Alert)
	}
	require.Len(t, seen, 7)
}

// What these tests are for: an expression that names something else is noticed.
func TestAnExpressionThatNamesNothingIsNoticed(t *testing.T) {
	series := shown(t)
	require.Contains(t, series, "holdfast_wait_seconds_bucket")
	require.NotContains(t, series, "holdfast_wait_seconds")
	require.NotContains(t, series, "holdfast_lost")
	require.ElementsMatch(t, []string{"max_wait", "context", "cancel"}, series["holdfast_given_up_total"]["by"])
}
