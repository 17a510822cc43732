// Package holdfastprom shows what an engine counts to Prometheus:
//
//	prometheus.MustRegister(holdfastprom.NewCollector(eng))
//
// Every series carries the label engine, the engine's ID; series of one Redis node carry node, its address, and those
// of a class of names carry class (see Config.Class of the engine). Names are stable: they change with a line in the
// changelog only.
//
// dashboard.json is a dashboard for Grafana, alerts.yaml has rules for Prometheus. What to do about each alert is in
// docs/OPERATIONS.md of the repository.
package holdfastprom
