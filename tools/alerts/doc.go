// Package alerts is no program: its tests let each alert of adapters/prometheus fire, and look at what becomes of it in
// Prometheus itself. It is a module of its own, for Prometheus needs much.
package alerts
