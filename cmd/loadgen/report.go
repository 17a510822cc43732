package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// report is what a run showed: the JSON document, and what the table is made from. A
// field that does not apply, or could not be measured, is null.
type report struct {
	Scenario string `json:"scenario"`
	Topology string `json:"topology"`
	Masters  int    `json:"masters"`  // of a cluster; else 0
	Replicas int    `json:"replicas"` // of all its masters
	Server   string `json:"server"`
	Embedded bool   `json:"embedded"` // the server is loadgen's own

	Kind     string  `json:"kind"` // of the locks
	API      string  `json:"api"`
	Inflight int     `json:"inflight"`
	Clients  int     `json:"clients"`
	Engines  int     `json:"engines"`
	Keys     int     `json:"keys"`
	Locks    int     `json:"locks"`
	LeaseS   float64 `json:"lease_s"`
	Rate     float64 `json:"rate"`
	Seed     uint64  `json:"seed"`

	DurationS     float64          `json:"duration_s"` // measured, drain included, all rounds
	Pairs         int64            `json:"pairs"`      // all rounds
	PairsPerS     float64          `json:"pairs_per_s"`
	Acquire       *latency         `json:"acquire_us"`
	Release       *latency         `json:"release_us"`
	ClientCPU     *float64         `json:"client_cpu_us_per_pair"`
	ServerCPU     *float64         `json:"server_cpu_us_per_pair"` // of all servers, replicas too
	Allocs        *float64         `json:"allocs_per_pair"`
	Skipped       int64            `json:"skipped_starts"` // open loop: due and never made
	Errors        map[string]int64 `json:"errors"`
	Violations    int64            `json:"violations"`
	Commands      *serverCommands  `json:"server_commands"`
	ScriptCalls   *float64         `json:"script_calls_per_pair"`
	ServerCheck   string           `json:"server_check"`
	Renewals      renewals         `json:"renewals"`
	Lost          int64            `json:"lost"`
	Held          int64            `json:"held"`
	Mismatches    int64            `json:"mismatches"` // hold: server and engine disagree
	Behind        int64            `json:"behind"`     // hold: they disagreed after a failover, until the next renewal
	KeptS         float64          `json:"kept_s"`     // hold: between last grant and first release
	KeepingCPU    *float64         `json:"keeping_cpu_cores"`
	GoroutinesMax int64            `json:"goroutines_max"`
	HeapPerLock   *float64         `json:"heap_bytes_per_held_lock"`
	Fairness      *fairness        `json:"fairness"`
	Ratio         *float64         `json:"ratio_to_yardstick"`
	Yardstick     *yardstickReport `json:"yardstick"`
	Chaos         *chaosReport     `json:"chaos"`    // --chaos
	Failover      *failoverReport  `json:"failover"` // hold: a master was killed

	*contendReport // in the scenario contend only

	Interrupted bool     `json:"interrupted"`
	Failures    []string `json:"failures"`
	Status      int      `json:"status"`

	violated bool // the server's side, or another process, shows a grant without a lock
}

// latency is a distribution in microseconds.
type latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

type renewals struct {
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed"`
}

// fairness is how often the least and the most served was; for scenarios in which holders
// compete.
type fairness struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// yardstickReport is the raw pipeline beside the scenario, round by round.
type yardstickReport struct {
	Kind      string           `json:"kind"` // pipeline or single
	PairsPerS float64          `json:"pairs_per_s"`
	ClientCPU float64          `json:"client_cpu_us_per_pair"`
	ServerCPU *float64         `json:"server_cpu_us_per_pair"`
	CPURatio  *float64         `json:"client_cpu_ratio"`
	Rounds    []yardstickRound `json:"rounds"`
}

type yardstickRound struct {
	Yardstick float64 `json:"yardstick_pairs_per_s"`
	Scenario  float64 `json:"scenario_pairs_per_s"`
}

func newReport(cfg *config, srv *server) *report {
	return &report{
		Scenario: cfg.scenario,
		Topology: srv.topology,
		Masters:  srv.shape.masters,
		Replicas: srv.shape.replicas,
		Server:   srv.product,
		Embedded: srv.ours(),
		Kind:     cfg.kind,
		API:      cfg.api,
		Inflight: cfg.inflight,
		Clients:  cfg.clients,
		Engines:  cfg.engines,
		Keys:     cfg.keys,
		Locks:    cfg.locks,
		LeaseS:   cfg.lease.Seconds(),
		Rate:     cfg.rate,
		Seed:     cfg.seed,
		Errors:   make(map[string]int64),
		Failures: []string{},
	}
}

// addRounds sums up the measured phases: counts and distributions over all of them, rates
// and costs as the median round.
func (r *report) addRounds(cfg *config, rounds []round) {
	total := newRecorder()
	var rates, cpus, serverCPUs, allocs []float64
	for _, one := range rounds {
		total.merge(one.rec)
		r.DurationS += one.cost.wall.Seconds()
		r.Skipped += one.skipped
		r.addVerdict(judge(cfg.checkServer, one), one)
		rates = append(rates, float64(one.rec.released)/one.cost.wall.Seconds())
		if one.rec.released == 0 {
			continue
		}
		us, ok := cpuPerPair(one.before.cpu, one.after.cpu, one.rec.released)
		if ok && cfg.scenario != "hold" && !countsOthers(one.disturbed) { // hold: renewals are in it
			serverCPUs = append(serverCPUs, us)
		}
		pairs := float64(one.rec.released)
		allocs = append(allocs, float64(one.cost.allocs)/pairs)
		if one.cost.cpuKnown {
			cpus = append(cpus, float64(one.cost.cpu.Nanoseconds())/1e3/pairs)
		}
	}
	r.Pairs, r.ScriptCalls = total.released, scriptCalls(rounds)
	r.Lost += total.lost
	r.Acquire, r.Release = newLatency(total.acquires), newLatency(total.releases)
	maps.Copy(r.Errors, total.errors)
	if m := median(rates); m != nil {
		r.PairsPerS = *m
	}
	r.ClientCPU, r.ServerCPU, r.Allocs = median(cpus), median(serverCPUs), median(allocs)
	if n := total.errorCount(); n > 0 {
		r.fail("%d operations failed: %s", n, formatErrors(total.errors))
	}
	if r.Pairs == 0 {
		r.fail("not one pair was completed")
	}
}

// scriptCalls is how many EVALSHA a pair took; nil where the servers' counters are not to be had.
func scriptCalls(rounds []round) *float64 {
	var calls, pairs int64
	for _, one := range rounds {
		if !one.before.known || !one.after.known || countsOthers(one.disturbed) {
			return nil
		}
		calls += one.after.commands.minus(one.before.commands).Evalsha
		pairs += one.rec.released
	}
	if pairs == 0 {
		return nil
	}
	v := float64(calls) / float64(pairs)
	return &v
}

// addVerdict adds what the server's counters said about one round.
func (r *report) addVerdict(v verdict, of round) {
	if of.before.known && of.after.known {
		did := of.after.commands.minus(of.before.commands)
		if r.Commands != nil {
			did = did.plus(*r.Commands)
		}
		r.Commands = &did
	}
	r.Failures = append(r.Failures, v.failures...)
	r.Failures = append(r.Failures, v.ghosts...)
	r.violated = r.violated || len(v.ghosts) > 0
	switch {
	case len(v.failures)+len(v.ghosts) > 0:
		r.ServerCheck = "disagrees"
	case r.ServerCheck != "disagrees":
		r.ServerCheck = v.note
	}
}

// addViolations adds what the ledger caught.
func (r *report) addViolations(l *ledger) {
	n := l.violations.Load()
	r.Violations += n
	if n > 0 {
		r.fail("exclusion was violated %d times", n)
		r.Failures = append(r.Failures, l.told()...)
	}
}

func (r *report) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// settle decides the exit status, when everything is in.
func (r *report) settle() {
	excused := int64(0)
	if r.Failover != nil {
		excused = r.Failover.Lost
	}
	if n := r.Lost - excused; n > 0 {
		r.fail("%d leases were lost", n)
	}
	switch {
	case r.Violations > 0 || r.violated:
		r.Status = statusViolation
	case len(r.Failures) > 0:
		r.Status = statusFailed
	default:
		r.Status = statusOK
	}
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// newLatency reads the distribution of h, which is in nanoseconds; nil if it is empty.
func newLatency(h *hdrhistogram.Histogram) *latency {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e3 }
	return &latency{P50: us(50), P90: us(90), P99: us(99), P999: us(99.9), Max: float64(h.Max()) / 1e3}
}

// median returns the middle of v, the mean of both for an even number; nil for none.
func median(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	v = slices.Sorted(slices.Values(v))
	m := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	return &m
}

func formatErrors(errors map[string]int64) string {
	parts := make([]string, 0, len(errors))
	for _, class := range slices.Sorted(maps.Keys(errors)) {
		parts = append(parts, fmt.Sprintf("%s %d", class, errors[class]))
	}
	return strings.Join(parts, ", ")
}
