// Package metrics writes an engine's counters in Prometheus' text exposition format, version 0.0.4,
// without a dependency on its client library:
//
//	http.Handle("/metrics", metrics.Handler(eng))
//
// A program that has a registry already appends them to its own page with Write, or lets its
// Prometheus scrape a second path.
//
// Every series carries the label engine, the engine's ID; series of one Redis node carry node, its
// address, as well. Counters end in _total and only grow; all others are gauges. Names are stable:
// they change with a line in the changelog only.
package metrics
