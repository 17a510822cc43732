package holdfastotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// scope is what instruments and spans are made by.
const scope = "github.com/seed-786ebc8c/holdfast"

// Trace returns a function for Config.Trace of an engine, which makes spans and records the durations of acquires and
// holds. Without a provider of one of them that part is left out.
//
// Errors: those of the meter.
func Trace(tracers trace.TracerProvider, meters metric.MeterProvider) (func(context.Context, engine.Span), error) {
	t := &tracer{}
	if tracers != nil {
		t.spans = tracers.Tracer(scope)
	}
	if meters == nil {
		return t.told, nil
	}
	// 0.25 ms to about four minutes: the bounds of engine.Histogram
	bounds := make([]float64, 0, len(engine.HistogramBounds()))
	for _, bound := range engine.HistogramBounds() {
		bounds = append(bounds, bound.Seconds())
	}
	meter, err := meters.Meter(scope), error(nil)
	histogram := func(name, help string) metric.Float64Histogram {
		h, e := meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(bounds...))
		err = errors.Join(err, e)
		return h
	}
	t.acquires = histogram("holdfast.acquire.duration", "How long acquires took, whatever came of them.")
	t.holds = histogram("holdfast.hold.duration", "How long leases were held, until release or loss.")
	return t.told, err
}

type tracer struct {
	spans           trace.Tracer            // nil: none
	acquires, holds metric.Float64Histogram // nil: none
}

func (t *tracer) told(ctx context.Context, s engine.Span) {
	outcome := outcomeOf(s.Err)
	durations, name := t.acquires, "holdfast.acquire"
	if s.Kind == engine.SpanHold {
		durations, name = t.holds, "holdfast.hold"
	}
	if durations != nil {
		durations.Record(ctx, s.Ended.Sub(s.Began).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	}
	if t.spans == nil {
		return
	}
	_, span := t.spans.Start(ctx, name, trace.WithTimestamp(s.Began), trace.WithAttributes(attribute.String("holdfast.name", s.Name)))
	defer span.End(trace.WithTimestamp(s.Ended))
	if s.OwnerID != "" {
		span.SetAttributes(attribute.String("holdfast.owner_id", s.OwnerID))
	}
	if !s.Busy.IsZero() {
		var holder []attribute.KeyValue
		if s.Holder != "" {
			holder = append(holder, attribute.String("holdfast.holder", s.Holder))
		}
		span.AddEvent("busy", trace.WithTimestamp(s.Busy), trace.WithAttributes(holder...))
	}
	switch {
	case s.Err == nil:
	case s.Kind == engine.SpanHold:
		span.AddEvent("lost", trace.WithTimestamp(s.Ended), trace.WithAttributes(attribute.String("holdfast.cause", s.Err.Error())))
		span.SetStatus(codes.Error, s.Err.Error())
	case outcome == "held": // somebody has it: that is an answer
		span.SetAttributes(attribute.Bool("holdfast.held", true))
	default:
		span.RecordError(s.Err, trace.WithTimestamp(s.Ended))
		span.SetStatus(codes.Error, s.Err.Error())
	}
}

// outcomeOf puts errors into few groups.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, engine.ErrHeld):
		return "held"
	case errors.Is(err, engine.ErrLost):
		return "lost"
	case errors.Is(err, engine.ErrUnknown):
		return "unknown"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "given_up"
	default:
		return "error"
	}
}
