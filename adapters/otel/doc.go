// Package holdfastotel gives OpenTelemetry what an engine counts, and a span for each acquire and each lease:
//
//	trace, err := holdfastotel.Trace(otel.GetTracerProvider(), otel.GetMeterProvider())
//	...
//	eng, err := engine.Open(ctx, engine.Config{Addrs: addrs, Trace: trace})
//	...
//	registration, err := holdfastotel.Observe(otel.GetMeterProvider(), eng)
//
// # Spans
//
// Both are children of the span in the ctx of the acquire, with the attributes holdfast.name and, where there is one,
// holdfast.owner_id.
//
//   - "holdfast.acquire" lasts from the call to its result. The event "busy" says when it was known that somebody else has
//     the lock; its attribute holdfast.holder is the owner id of the holder, if that is a lease of the same engine. An
//     error is recorded, and sets the status. That a try finds the lock taken is no error, but the attribute
//     holdfast.held.
//   - "holdfast.hold" lasts from the grant to the release or the loss. A loss is the event "lost" with its cause, and sets the
//     status.
//
// # Metrics
//
// Observe registers one instrument for each number of engine.Stats, named after it: holdfast.grants,
// holdfast.renewals.sent, holdfast.node.queued. Attributes are engine, node and class. OpenTelemetry has no histograms that are
// observed, so Wait and Hold are shown as count and sum; Trace records the histograms holdfast.acquire.duration and
// holdfast.hold.duration, of everything that it is told of.
package holdfastotel
