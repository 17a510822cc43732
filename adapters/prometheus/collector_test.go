package holdfastprom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	holdfastprom "github.com/seed-786ebc8c/holdfast/adapters/prometheus"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// A source has the counters it is given.
type source struct {
	id    string
	stats engine.Stats
}

func (s source) ID() string          { return s.id }
func (s source) Stats() engine.Stats { return s.stats }

// gather is what a registry with these engines shows.
func gather(t *testing.T, engines ...holdfastprom.Source) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(holdfastprom.NewCollector(engines...)))
	all, err := r.Gather()
	require.NoError(t, err)
	return all
}

// full is stats with one node and one class, in which every number is another one, so that one which is not shown, or
// shown under two names, is noticed. Histograms have them as their counts, in the first bucket.
func full() (stats engine.Stats, values map[int64]string) {
	stats = engine.Stats{Nodes: make([]engine.NodeStats, 1), Classes: make([]engine.ClassStats, 1)}
	next, values := int64(1), map[int64]string{}
	number(reflect.ValueOf(&stats).Elem(), &next, values, "Stats")
	return stats, values
}

func number(v reflect.Value, next *int64, values map[int64]string, path string) {
	if h, ok := v.Addr().Interface().(*engine.Histogram); ok {
		*next *= 2
		h.Count, h.Buckets[0], h.Sum = *next, *next, time.Second
		values[*next] = path
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			number(v.Field(i), next, values, path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		number(v.Index(0), next, values, path)
	case reflect.Int64, reflect.Int:
		*next += 1 << 20
		v.SetInt(*next)
		values[*next] = path
	case reflect.String:
		v.SetString("text of " + path)
	default:
		panic("Stats has a field that is neither number nor text: " + path)
	}
}

func TestEveryNumberOfStatsIsShownOnce(t *testing.T) {
	stats, values := full()
	seen := map[int64]int{}
	for _, family := range gather(t, source{"e", stats}) {
		for _, m := range family.GetMetric() {
			switch {
			case m.Counter != nil:
				seen[int64(m.GetCounter().GetValue())]++
				require.True(t, strings.HasSuffix(family.GetName(), "_total"), family.GetName())
			case m.Gauge != nil:
				seen[int64(m.GetGauge().GetValue())]++
			default:
				seen[int64(m.GetHistogram().GetSampleCount())]++ //nolint:gosec // a count
				require.True(t, strings.HasSuffix(family.GetName(), "_seconds"), family.GetName())
			}
		}
	}
	// Grants is shown as its four parts.
	require.Equal(t, 1, seen[stats.Grants-stats.GrantsByHandOff-stats.GrantsByMessage-stats.GrantsByPoll])
	for value, path := range values {
		if path != "Stats.Grants" {
			require.Equal(t, 1, seen[value], path)
		}
	}
}

func TestAHistogramIsShownAsPrometheusHasThem(t *testing.T) {
	var h engine.Histogram
	h.Count, h.Sum = 6, 90*time.Minute
	h.Buckets[0], h.Buckets[2], h.Buckets[len(h.Buckets)-1] = 1, 3, 2
	for _, family := range gather(t, source{"e", engine.Stats{Wait: h}}) {
		if family.GetName() != "holdfast_wait_seconds" {
			continue
		}
		got := family.GetMetric()[0].GetHistogram()
		require.EqualValues(t, 6, got.GetSampleCount())
		require.InDelta(t, 5400, got.GetSampleSum(), 0)
		buckets := got.GetBucket()
		require.Len(t, buckets, len(engine.HistogramBounds()))
		require.InDelta(t, 0.00025, buckets[0].GetUpperBound(), 0)
		require.InDelta(t, 262.144, buckets[len(buckets)-1].GetUpperBound(), 0)
		for i, want := range []uint64{1, 1, 4} {
			require.Equal(t, want, buckets[i].GetCumulativeCount())
		}
		require.EqualValues(t, 4, buckets[len(buckets)-1].GetCumulativeCount(), "the longest are in none")
		return
	}
	t.Fatal("no histogram of waits")
}

// Two engines have series of their own, and a name says whose series it is.
func TestSeriesAreToldApartByTheirLabels(t *testing.T) {
	stats, _ := full()
	labels := map[string][]string{}
	for _, family := range gather(t, source{"one", stats}, source{"two", stats}) {
		var all []string
		for _, m := range family.GetMetric() {
			one := ""
			for _, l := range m.GetLabel() {
				one += fmt.Sprintf("%s=%q,", l.GetName(), l.GetValue())
			}
			all = append(all, one)
		}
		slices.Sort(all)
		require.Len(t, slices.Compact(slices.Clone(all)), len(all))
		labels[family.GetName()] = all
	}
	require.Equal(t, []string{`engine="one",`, `engine="two",`}, labels["holdfast_held"])
	require.Contains(t, labels["holdfast_node_queued"], `engine="one",node="text of Stats.Nodes.Addr",`)
	require.Contains(t, labels["holdfast_class_wait_seconds"], `class="text of Stats.Classes.Class",engine="two",`)
}

func TestNamesFollowTheRulesOfPrometheus(t *testing.T) {
	stats, _ := full()
	problems, err := testutil.CollectAndLint(holdfastprom.NewCollector(source{"e", stats}))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestAPageShowsALiveEngine(t *testing.T) {
	eng := enginetest.Start(t).Engine()
	ls, err := eng.Lock("orders").Acquire(t.Context())
	require.NoError(t, err)
	r := prometheus.NewRegistry()
	r.MustRegister(holdfastprom.NewCollector(eng))
	read := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		require.Equal(t, http.StatusOK, w.Code)
		return w.Body.String()
	}
	require.Contains(t, read(), `holdfast_held{engine="`+eng.ID()+`"} 1`+"\n")
	require.NoError(t, ls.Release(t.Context()))
	text := read()
	require.Contains(t, text, `holdfast_held{engine="`+eng.ID()+`"} 0`+"\n")
	require.Contains(t, text, `holdfast_wait_seconds_count{engine="`+eng.ID()+`"} 1`+"\n")
	require.Contains(t, text, `holdfast_hold_seconds_count{engine="`+eng.ID()+`"} 1`+"\n")
}
