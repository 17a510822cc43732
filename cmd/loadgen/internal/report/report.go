package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Report is what a run showed: the JSON document, and what the table is made from. A
// field that does not apply, or could not be measured, is null.
type Report struct {
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

	Processors int `json:"processors"` // that this process uses: GOMAXPROCS
	OfAll      int `json:"processors_of_machine"`
	Listen     int `json:"listened_channels"` // of other locks, by this process

	DurationS     float64            `json:"duration_s"` // measured, drain included, all rounds
	Pairs         int64              `json:"pairs"`      // all rounds
	PairsPerS     float64            `json:"pairs_per_s"`
	Acquire       *Latency           `json:"acquire_us"`
	Release       *Latency           `json:"release_us"`
	ClientCPU     *float64           `json:"client_cpu_us_per_pair"`
	ServerCPU     *float64           `json:"server_cpu_us_per_pair"` // of all servers, replicas too
	Allocs        *float64           `json:"allocs_per_pair"`
	Skipped       int64              `json:"skipped_starts"` // open loop: due and never made
	Errors        map[string]int64   `json:"errors"`
	Violations    int64              `json:"violations"`
	Commands      *topology.Commands `json:"server_commands"`
	ScriptCalls   *float64           `json:"script_calls_per_pair"`
	ServerCheck   string             `json:"server_check"`
	Renewals      Renewals           `json:"renewals"`
	Lost          int64              `json:"lost"`
	Forgotten     int64              `json:"lost_with_a_master"` // of those: a replica took over without having heard of them
	Unknown       bool               `json:"unknown"`            // hold: the server did not say what it has; held and mismatches say nothing
	Held          int64              `json:"held"`
	Mismatches    int64              `json:"mismatches"` // hold: server and engine disagree
	Behind        int64              `json:"behind"`     // hold: they disagreed after a failover, until the next renewal
	KeptS         float64            `json:"kept_s"`     // hold: between last grant and first release
	KeepingCPU    *float64           `json:"keeping_cpu_cores"`
	GoroutinesMax int64              `json:"goroutines_max"`
	HeapPerLock   *float64           `json:"heap_bytes_per_held_lock"`
	Fairness      *Fairness          `json:"fairness"`
	Ratio         *float64           `json:"ratio_to_yardstick"`
	Yardstick     *Yardstick         `json:"yardstick"`
	Chaos         *Chaos             `json:"chaos"`    // --chaos
	Failover      *Failover          `json:"failover"` // hold: a master was killed

	*Contend // in the scenario contend only

	Interrupted bool     `json:"interrupted"`
	Failures    []string `json:"failures"`
	Status      int      `json:"status"`

	asked     time.Duration // for so long it was to be measured; 0: until something was done
	lease     time.Duration
	tooSoon   bool // the user ended it before there was a pair
	mayForget bool // the servers may: not in hold, which counts by master what was lost
	Violated  bool `json:"-"` // the server's side, or another process, shows a grant without a lock
}

// Latency is a distribution in microseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Renewals is what the watchdogs did, by the engines' own count.
type Renewals struct {
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed"`
	// LagP99S bounds, in seconds, how long after they were due 99 of 100 of those were answered that succeeded: a bound of
	// the engine's histogram, each of which is twice the one before. Null if there were none, or it has no such bound.
	LagP99S *float64 `json:"lag_p99_s"`
	lag     engine.Histogram
}

// Add counts what an engine counted.
func (r *Renewals) Add(s *engine.Stats) {
	r.Sent += s.Renewals.Sent
	r.Failed += s.Renewals.Failed
	r.lag.Count += s.RenewalLag.Count
	for i, n := range s.RenewalLag.Buckets {
		r.lag.Buckets[i] += n
	}
	r.LagP99S = nil
	below := int64(0)
	for i, bound := range engine.HistogramBounds() {
		if below += r.lag.Buckets[i]; below > 0 && 100*below >= 99*r.lag.Count {
			seconds := bound.Seconds()
			r.LagP99S = &seconds
			return
		}
	}
}

// New makes the report of a run that has shown nothing so far.
func New(cfg *config.Config, srv *topology.Server) *Report {
	return &Report{
		Scenario: cfg.Scenario,
		Topology: srv.Topology,
		Masters:  srv.Shape.Masters,
		Replicas: srv.Shape.Replicas,
		Server:   srv.Product,
		Embedded: srv.Ours(),
		Kind:     cfg.Kind,
		API:      cfg.API,
		Inflight: cfg.Inflight,
		Clients:  cfg.Clients,
		Engines:  cfg.Engines,
		Keys:     cfg.Keys,
		Locks:    cfg.Locks,
		LeaseS:   cfg.Lease.Seconds(),
		Rate:     cfg.Rate,
		Seed:     cfg.Seed,

		Processors: runtime.GOMAXPROCS(0),
		OfAll:      runtime.NumCPU(),
		Listen:     cfg.Listen,

		Errors:   make(map[string]int64),
		Failures: []string{},
	}
}

// AddRounds sums up the measured phases: counts and distributions over all of them, rates
// and costs as the median round.
func (r *Report) AddRounds(cfg *config.Config, rounds []Round) {
	total := meter.NewRecorder()
	var rates, cpus, serverCPUs, allocs []float64
	for _, one := range rounds {
		total.Merge(one.Rec)
		r.DurationS += one.Cost.Wall.Seconds()
		r.Skipped += one.Skipped
		r.addVerdict(judge(cfg.CheckServer, one), one)
		rates = append(rates, float64(one.Rec.Released)/one.Cost.Wall.Seconds())
		if one.Rec.Released == 0 {
			continue
		}
		us, ok := CPUPerPair(one.Before.CPU, one.After.CPU, one.Rec.Released)
		if ok && cfg.Scenario != "hold" && !config.CountsOthers(one.Disturbed) { // hold: renewals are in it
			serverCPUs = append(serverCPUs, us)
		}
		pairs := float64(one.Rec.Released)
		allocs = append(allocs, float64(one.Cost.Allocs)/pairs)
		if one.Cost.CPUKnown {
			cpus = append(cpus, float64(one.Cost.CPU.Nanoseconds())/1e3/pairs)
		}
	}
	r.Pairs, r.ScriptCalls, r.lease = total.Released, ScriptCalls(rounds), cfg.Lease
	if cfg.Scenario != "hold" {
		r.asked = cfg.Duration * time.Duration(len(rounds))
	}
	r.Lost += total.Lost
	r.Acquire, r.Release = NewLatency(total.Acquires), NewLatency(total.Releases)
	maps.Copy(r.Errors, total.Errors)
	if m := Median(rates); m != nil {
		r.PairsPerS = *m
	}
	r.ClientCPU, r.ServerCPU, r.Allocs = Median(cpus), Median(serverCPUs), Median(allocs)
	if cfg.LosesGrants() && cfg.Scenario != "hold" {
		r.mayForget = true
		delete(total.Errors, meter.ClassLost) // counted as lost
	}
	if n := total.ErrorCount(); n > 0 {
		r.Fail("%s operations failed: %s", format.Count(n), meter.FormatErrors(total.Errors))
	}
	switch {
	case r.Pairs == 0 && r.Interrupted:
		r.tooSoon = true
		r.Fail("interrupted before one pair was completed")
	case r.Pairs == 0:
		r.Fail("not one pair was completed")
	}
	r.judgeRate(cfg, len(rounds))
}

// mostSkipped is how many of its starts an open loop may leave out, of all. With more, latency is that of another load.
const mostSkipped = 0.01

// judgeRate refuses a rate that was not reached. Servers that are disturbed may make nobody reach it.
func (r *Report) judgeRate(cfg *config.Config, rounds int) {
	due := cfg.Rate * cfg.Duration.Seconds() * float64(rounds)
	if r.Skipped == 0 || len(cfg.Chaos) > 0 || float64(r.Skipped) <= mostSkipped*due {
		return
	}
	share := float64(r.Skipped) / due
	r.Fail("--rate asks for %s pairs a second and %s a second were begun: %s starts (%s %%) were due and not made, since all of the %s "+
		"operations in flight were busy; ask for less, or allow more by --inflight",
		format.Number(cfg.Rate), format.Number(cfg.Rate*(1-share)), format.Count(r.Skipped), format.Number(100*share), format.Count(int64(cfg.Inflight)))
}

// ScriptCalls is how many EVALSHA a pair took; nil where the servers' counters are not to be had.
func ScriptCalls(rounds []Round) *float64 {
	var calls, pairs int64
	for _, one := range rounds {
		did, why := one.counted()
		if why != "" || config.CountsOthers(one.Disturbed) {
			return nil
		}
		calls += did.Evalsha
		pairs += one.Rec.Released
	}
	if pairs == 0 {
		return nil
	}
	v := float64(calls) / float64(pairs)
	return &v
}

// addVerdict adds what the server's counters said about one round.
func (r *Report) addVerdict(v verdict, of Round) {
	if did, why := of.counted(); why == "" && !config.ChangesServers(of.Disturbed) {
		if r.Commands != nil {
			did = did.Plus(*r.Commands)
		}
		r.Commands = &did
	}
	r.Failures = append(r.Failures, v.failures...)
	r.Failures = append(r.Failures, v.ghosts...)
	r.Violated = r.Violated || len(v.ghosts) > 0
	switch {
	case len(v.failures)+len(v.ghosts) > 0 && v.note == "":
		r.ServerCheck = "disagrees"
	case r.ServerCheck != "disagrees":
		r.ServerCheck = v.note
	}
}

// AddViolations adds what the ledger caught.
func (r *Report) AddViolations(l *meter.Ledger) {
	n := l.Violations.Load()
	r.Violations += n
	if n > 0 {
		r.Fail("exclusion was violated %d times", n)
		r.Failures = append(r.Failures, l.Told()...)
	}
}

// Fail notes a failure, in words.
func (r *Report) Fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// Settle decides the exit status, when everything is in.
func (r *Report) Settle() {
	switch {
	case r.mayForget:
		r.Forgotten = r.Lost
	case r.Failover != nil && !r.outlasted():
		r.Forgotten = min(r.Failover.Lost, r.Lost)
	}
	switch n := r.Lost - r.Forgotten; {
	case n > 0 && r.Failover != nil && r.outlasted():
		r.Fail("%d leases were lost: they last %v, of which a third may be over when the master dies, and it was replaced after %.1f s",
			n, r.lease, r.Failover.ReplacedAfter)
	case n > 0:
		r.Fail("%d leases were lost", n)
	}
	switch {
	case r.Violations > 0 || r.Violated:
		r.Status = StatusViolation
	case r.tooSoon && len(r.Failures) == 1:
		r.Status = StatusInterrupted
	case len(r.Failures) > 0:
		r.Status = StatusFailed
	default:
		r.Status = StatusOK
	}
}

// outlasted reports whether leases were over before a master was replaced: then it was not for its replica that they were
// lost. They are renewed when a third of them is over.
func (r *Report) outlasted() bool {
	return r.lease > 0 && r.Failover.ReplacedAfter >= (r.lease*2/3).Seconds()
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// NewLatency reads the distribution of h, which is in nanoseconds; nil if it is empty.
func NewLatency(h *hdrhistogram.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e3 }
	return &Latency{P50: us(50), P90: us(90), P99: us(99), P999: us(99.9), Max: float64(h.Max()) / 1e3}
}

// Median returns the middle of v, the mean of both for an even number; nil for none.
func Median(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	v = slices.Sorted(slices.Values(v))
	m := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	return &m
}
