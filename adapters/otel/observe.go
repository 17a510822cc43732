package holdfastotel

import (
	"context"
	"reflect"
	"strings"
	"time"
	"unicode"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// A Source has counters: an *engine.Engine.
type Source interface {
	ID() string
	Stats() engine.Stats
}

// Observe registers a callback that shows the counters of engines each time they are collected, until the registration
// is taken back. An engine may be closed before: its counters stay as they were.
//
// Errors: those of the meter.
func Observe(meters metric.MeterProvider, engines ...Source) (metric.Registration, error) {
	o := &observer{engines: engines, meter: meters.Meter(scope), of: make(map[string]*instrument)}
	// The names are those of the fields, so a value without numbers has all of them.
	o.walk(reflect.ValueOf(engine.Stats{
		Nodes: make([]engine.NodeStats, 1), Classes: make([]engine.ClassStats, 1),
	}), place{name: "holdfast"}, o.make)
	if o.err != nil {
		return nil, o.err
	}
	return o.meter.RegisterCallback(o.observe, o.all...)
}

type observer struct {
	engines []Source
	meter   metric.Meter
	of      map[string]*instrument
	all     []metric.Observable
	err     error
}

// An instrument is one of these.
type instrument struct {
	whole metric.Int64Observable
	parts metric.Float64Observable // of seconds
}

// gauges go up and down; everything else only grows.
func isGauge(name string) bool {
	switch name {
	case "holdfast.held", "holdfast.waiting", "holdfast.names", "holdfast.renewals.watched", "holdfast.node.queued",
		"holdfast.node.subscriptions.channels", "holdfast.node.subscriptions.confirmed",
		"holdfast.node.subscriptions.lingering", "holdfast.node.subscriptions.refs":
		return true
	}
	return false
}

// A place is where a number of Stats stands.
type place struct {
	name       string
	attributes []attribute.KeyValue
}

// walk calls visit for each number.
func (o *observer) walk(v reflect.Value, at place, visit func(reflect.Value, place)) {
	switch v.Kind() {
	case reflect.Struct:
		if h, ok := v.Interface().(engine.Histogram); ok {
			visit(reflect.ValueOf(h.Count), place{at.name + ".count", at.attributes})
			visit(reflect.ValueOf(h.Sum), place{at.name + ".sum", at.attributes})
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() != reflect.String { // those are attributes
				o.walk(f, place{at.name + "." + nameOf(v.Type().Field(i).Name), at.attributes}, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			// The first text says which of them it is.
			one, label := v.Index(i), strings.TrimPrefix(singular(at.name), "holdfast.")
			key := attribute.String(label, one.FieldByName(map[string]string{"node": "Addr", "class": "Class"}[label]).String())
			o.walk(one, place{singular(at.name), append(at.attributes[:len(at.attributes):len(at.attributes)], key)}, visit)
		}
	default:
		visit(v, at)
	}
}

func singular(name string) string {
	if name == "holdfast.classes" {
		return "holdfast.class"
	}
	return strings.TrimSuffix(name, "s")
}

// nameOf is a field's name as OpenTelemetry writes names: GrantsByPoll is grants_by_poll.
func nameOf(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// make makes the instrument of a number.
func (o *observer) make(v reflect.Value, at place) {
	if o.err != nil {
		return
	}
	var one instrument
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		one.parts, o.err = o.meter.Float64ObservableCounter(at.name, metric.WithUnit("s"))
		o.all = append(o.all, one.parts)
	case isGauge(at.name):
		one.whole, o.err = o.meter.Int64ObservableGauge(at.name)
		o.all = append(o.all, one.whole)
	default:
		one.whole, o.err = o.meter.Int64ObservableCounter(at.name)
		o.all = append(o.all, one.whole)
	}
	o.of[at.name] = &one
}

// observe shows the present values. Blocks: for each engine's Stats.
func (o *observer) observe(_ context.Context, out metric.Observer) error {
	for _, e := range o.engines {
		at := place{"holdfast", []attribute.KeyValue{attribute.String("engine", e.ID())}}
		o.walk(reflect.ValueOf(e.Stats()), at, func(v reflect.Value, at place) {
			one, with := o.of[at.name], metric.WithAttributes(at.attributes...)
			if one.parts != nil {
				out.ObserveFloat64(one.parts, time.Duration(v.Int()).Seconds(), with)
				return
			}
			out.ObserveInt64(one.whole, v.Int(), with)
		})
	}
	return nil
}
