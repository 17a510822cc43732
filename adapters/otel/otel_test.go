package holdfastotel_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	holdfastotel "github.com/seed-786ebc8c/holdfast/adapters/otel"
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

// number gives every number its own value.
func number(v reflect.Value, next *int64, values map[int64]string, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Buckets" {
				number(v.Field(i), next, values, path+"."+name)
			}
		}
	case reflect.Slice:
		number(v.Index(0), next, values, path)
	case reflect.Int64, reflect.Int:
		*next++
		v.SetInt(*next)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(*next * int64(time.Second))
		}
		values[*next] = path
	case reflect.String:
		v.SetString("text of " + path)
	default:
		panic("Stats has a field that is neither number nor text: " + path)
	}
}

// collect lists what is shown: by name, and the value with its attributes.
func collect(t *testing.T, reader *sdkmetric.ManualReader) (names map[string]int, values map[int64][]attribute.Set) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	names, values = map[string]int{}, map[int64][]attribute.Set{}
	note := func(name string, value int64, set attribute.Set) {
		names[name]++
		values[value] = append(values[value], set)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				require.True(t, data.IsMonotonic, m.Name)
				for _, p := range data.DataPoints {
					note(m.Name, p.Value, p.Attributes)
				}
			case metricdata.Sum[float64]:
				require.True(t, data.IsMonotonic && m.Unit == "s", m.Name)
				for _, p := range data.DataPoints {
					note(m.Name, int64(p.Value), p.Attributes)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					note(m.Name, p.Value, p.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					note(m.Name, int64(p.Count), p.Attributes) //nolint:gosec // a count
				}
			}
		}
	}
	return names, values
}

func TestEveryNumberOfStatsIsObservedOnce(t *testing.T) {
	stats := engine.Stats{Nodes: make([]engine.NodeStats, 1), Classes: make([]engine.ClassStats, 1)}
	next, fields := int64(0), map[int64]string{}
	number(reflect.ValueOf(&stats).Elem(), &next, fields, "Stats")
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	registration, err := holdfastotel.Observe(provider, source{"e", stats})
	require.NoError(t, err)
	names, values := collect(t, reader)
	for value, field := range fields {
		require.Len(t, values[value], 1, field)
		want := 1
		if strings.Contains(field, "Nodes") || strings.Contains(field, "Classes") {
			want = 2
		}
		require.Equal(t, want, values[value][0].Len(), field)
	}
	for _, name := range []string{
		"holdfast.grants", "holdfast.grants_by_hand_off", "holdfast.held", "holdfast.renewals.late", "holdfast.slots.masters",
		"holdfast.node.queued", "holdfast.node.subscriptions.messages", "holdfast.class.gave_up", "holdfast.class.wait.sum",
		"holdfast.wait.count", "holdfast.hold.sum",
	} {
		require.Equal(t, 1, names[name], name)
	}
	require.NoError(t, registration.Unregister())
	names, _ = collect(t, reader)
	require.Empty(t, names)
}

// The names of gauges are written down: one that has another name today would be shown as a counter.
func TestEveryGaugeIsOne(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	stats := engine.Stats{Nodes: make([]engine.NodeStats, 1)}
	_, err := holdfastotel.Observe(provider, source{"e", stats})
	require.NoError(t, err)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	gauges := 0
	for _, m := range all.ScopeMetrics[0].Metrics {
		if _, ok := m.Data.(metricdata.Gauge[int64]); ok {
			gauges++
		}
	}
	require.Equal(t, 9, gauges)
}

func attributes(kv []attribute.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range kv {
		all[string(a.Key)] = a.Value.Emit()
	}
	return all
}

func TestSpansOfALiveEngine(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	reader := sdkmetric.NewManualReader()
	trace, err := holdfastotel.Trace(tracers, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	require.NoError(t, err)
	srv := enginetest.Start(t)
	told := make(chan engine.Span, 100)
	eng := srv.NewEngine(func(cfg *engine.Config) {
		cfg.Trace = func(ctx context.Context, s engine.Span) { trace(ctx, s); told <- s }
	})
	ctx, request := tracers.Tracer("test").Start(t.Context(), "request")

	held, err := eng.Lock("orders").Acquire(ctx)
	require.NoError(t, err)
	waits := eng.Lock("orders").AcquireAsync(ctx)
	_, err = eng.Lock("orders").TryAcquire(ctx)
	require.ErrorIs(t, err, engine.ErrHeld)
	require.NoError(t, held.Release(ctx))
	next, err := waits.Await(ctx)
	require.NoError(t, err)
	srv.Lose("orders")
	require.ErrorIs(t, next.Release(ctx), engine.ErrLost)
	for range 5 {
		<-told
	}
	request.End()
	spans := map[string][]tracetest.SpanStub{}
	for _, s := range exporter.GetSpans() {
		spans[s.Name] = append(spans[s.Name], s)
		if s.Name != "request" {
			require.Equal(t, request.SpanContext().SpanID(), s.Parent.SpanID())
			require.Equal(t, "orders", attributes(s.Attributes)["holdfast.name"])
		}
	}
	require.Len(t, spans["holdfast.acquire"], 3)
	require.Len(t, spans["holdfast.hold"], 2)
	busy, tried := 0, 0
	for _, s := range spans["holdfast.acquire"] {
		require.Equal(t, codes.Unset, s.Status.Code)
		if attributes(s.Attributes)["holdfast.held"] == "true" {
			tried++
		}
		for _, e := range s.Events {
			busy++
			require.Equal(t, "busy", e.Name)
			require.Equal(t, held.OwnerID(), attributes(e.Attributes)["holdfast.holder"])
		}
	}
	require.Equal(t, []int{1, 1}, []int{busy, tried})
	lost := 0
	for _, s := range spans["holdfast.hold"] {
		if s.Status.Code == codes.Error {
			lost++
			require.Equal(t, next.OwnerID(), attributes(s.Attributes)["holdfast.owner_id"])
			require.Equal(t, "lost", s.Events[0].Name)
			require.Contains(t, attributes(s.Events[0].Attributes)["holdfast.cause"], "lease is lost")
		}
	}
	require.Equal(t, 1, lost)
	names, _ := collect(t, reader)
	require.Equal(t, 2, names["holdfast.acquire.duration"], "ok and held")
	require.Equal(t, 2, names["holdfast.hold.duration"], "ok and lost")
}

func TestWithoutProvidersNothingHappens(t *testing.T) {
	trace, err := holdfastotel.Trace(nil, nil)
	require.NoError(t, err)
	trace(t.Context(), engine.Span{Kind: engine.SpanHold, Err: errors.New("x")})
}

func TestAnErrorOfTheServerIsOneOfTheSpan(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	trace, err := holdfastotel.Trace(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), nil)
	require.NoError(t, err)
	at := time.Now()
	for _, cause := range []error{&engine.ServerError{Text: "OOM"}, context.DeadlineExceeded, engine.ErrUnknown} {
		exporter.Reset()
		trace(t.Context(), engine.Span{Kind: engine.SpanAcquire, Name: "a", Began: at, Ended: at.Add(time.Second), Err: cause})
		span := exporter.GetSpans()[0]
		require.Equal(t, codes.Error, span.Status.Code)
		require.Equal(t, "exception", span.Events[0].Name)
		require.Equal(t, time.Second, span.EndTime.Sub(span.StartTime))
	}
}
