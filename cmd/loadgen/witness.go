package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// laterGrace is how long processes of one run may be apart at any barrier but the first.
const laterGrace = time.Minute

// bystander is this process's part in a run of several over one witness file; nil and all its
// methods stand for a run alone.
type bystander struct {
	cfg *config
	w   *witness.Witness
	off bool // somebody did not come, or this run is to end: wait for nobody any more
}

// openWitness joins the run in cfg's witness file, and takes over its prefix.
func openWitness(cfg *config) (*bystander, error) {
	if cfg.witness == "" {
		return nil, nil //nolint:nilnil // nobody looks on: the nil bystander does nothing
	}
	o := witness.Options{Keys: cfg.keys, FallbackPrefix: "lg-" + randomID()}
	if cfg.prefixGiven {
		o.Prefix = cfg.prefix
	}
	w, err := witness.Open(cfg.witness, o)
	if err != nil {
		return nil, fmt.Errorf("--witness: %w", err)
	}
	cfg.prefix = w.Prefix()
	return &bystander{cfg: cfg, w: w}, nil
}

func (b *bystander) file() *witness.Witness {
	if b == nil {
		return nil
	}
	return b.w
}

// processes is how many run at the same time, as far as was said.
func (b *bystander) processes() int {
	if b == nil {
		return 1
	}
	return b.cfg.witnessProcs
}

// first reports whether this process does what one of them does for all.
func (b *bystander) first() bool { return b == nil || b.w.Index() == 0 }

// gather waits until every process has come.
func (b *bystander) gather(ctx context.Context) error {
	if b == nil {
		return nil
	}
	return b.await(ctx, b.cfg.witnessWait)
}

// align waits for the others before a phase that all begin at the same time.
func (b *bystander) align(ctx context.Context) error {
	if b == nil {
		return nil
	}
	return b.await(ctx, b.cfg.duration+b.cfg.warmup+laterGrace)
}

func (b *bystander) await(ctx context.Context, timeout time.Duration) error {
	if b.cfg.witnessProcs < 2 || b.off {
		return nil
	}
	err := b.w.Await(ctx, b.cfg.witnessProcs, timeout)
	b.off = err != nil
	return unlessEnded(ctx, err)
}

// gaveUp reports whether others may still be at work.
func (b *bystander) gaveUp() bool { return b != nil && b.off }

// begin begins to count the grants of round n over time.
func (b *bystander) begin(n int) *witness.Round {
	if b == nil {
		return nil
	}
	r := b.w.Begin(n, time.Now())
	return &r
}

// witnessReport is what the processes of one run did together.
type witnessReport struct {
	File       string           `json:"file"`
	Processes  []witnessProcess `json:"processes"`
	Grants     int64            `json:"grants"`       // together, in the measured rounds
	GrantsPerS float64          `json:"grants_per_s"` // together, the median round
	P99        float64          `json:"p99_us"`       // of the worst process
	Longest    float64          `json:"longest_wait_us"`
	Violations int64            `json:"violations"` // found by all
	Abandoned  int64            `json:"abandoned"`  // marks of processes that ended while they held, taken over
	Leftover   int              `json:"leftover"`   // the same, from the run before
	Gone       int              `json:"gone"`       // processes that ended without leaving
}

type witnessProcess struct {
	PID        int     `json:"pid"`
	Gone       bool    `json:"gone"`
	Grants     int64   `json:"grants"`
	GrantsPerS float64 `json:"grants_per_s"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Longest    float64 `json:"longest_wait_us"`
	Violations int64   `json:"violations"`
	Abandoned  int64   `json:"abandoned"`
}

// processesFairness is the least fair window: the grants of the least and of the most
// served process in it.
type processesFairness struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Ratio   float64 `json:"ratio"`
	WindowS float64 `json:"window_s"`
	Windows int     `json:"windows"` // how many were looked at
}

// conclude publishes what this process saw, waits for the others, and reports what all did.
func (b *bystander) conclude(ctx context.Context, r *report, waits *latency) error {
	if b == nil {
		return nil
	}
	if waits != nil {
		b.w.PutWait(witness.Wait{P50: waits.P50, P99: waits.P99, Longest: waits.Max})
	}
	err := b.align(ctx)
	s := b.w.Summary()
	out := &witnessReport{File: b.cfg.witness, Leftover: b.w.Leftover(), Processes: []witnessProcess{}}
	together := make([]float64, 0, b.cfg.rounds)
	for _, p := range s.Processes {
		one := witnessProcess{
			PID: p.PID, Gone: p.Gone, Grants: p.Grants,
			P50: p.Wait.P50, P99: p.Wait.P99, Longest: p.Wait.Longest,
			Violations: p.Violations, Abandoned: p.Abandoned,
		}
		if m := median(p.Rates); m != nil {
			one.GrantsPerS = *m
		}
		out.add(one)
		together = addUp(together, p.Rates)
	}
	if m := median(together); m != nil {
		out.GrantsPerS = *m
	}
	r.Witness = out
	if f := s.Fairness; f != nil {
		r.FairnessProcesses = &processesFairness{f.Min, f.Max, f.Ratio, f.Window.Seconds(), f.Windows}
	}
	b.blame(r, out)
	return err
}

func (w *witnessReport) add(p witnessProcess) {
	w.Processes = append(w.Processes, p)
	w.Grants += p.Grants
	w.Violations += p.Violations
	w.Abandoned += p.Abandoned
	w.P99, w.Longest = max(w.P99, p.P99), max(w.Longest, p.Longest)
	if p.Gone {
		w.Gone++
	}
}

// addUp adds the rates of one process to those of all, round by round.
func addUp(sum, one []float64) []float64 {
	for i, v := range one {
		if i == len(sum) {
			sum = append(sum, 0)
		}
		sum[i] += v
	}
	return sum
}

// blame puts what was wrong into the report: a violation, whoever found it, is one of every
// process's.
func (b *bystander) blame(r *report, out *witnessReport) {
	own, told := b.w.Violations()
	r.Violations += own
	if out.Violations > 0 {
		r.violated = true
		r.fail("exclusion between processes was violated %d times, %d of them seen here", out.Violations, own)
		r.Failures = append(r.Failures, told...)
	}
	if out.Gone > 0 && !b.cfg.killsClient() {
		r.fail("%d of the processes in %s ended without leaving", out.Gone, b.cfg.witness)
	}
}

func (b *bystander) leave() error {
	if b == nil {
		return nil
	}
	return b.w.Leave()
}

func (w *witnessReport) rows(f *processesFairness) [][2]string {
	rows := [][2]string{{"together", fmt.Sprintf("%d processes, %s grants/s, p99 of the worst %s ms, longest wait %s ms, violations %s",
		len(w.Processes), number(w.GrantsPerS), number(w.P99/1e3), number(w.Longest/1e3), count(w.Violations))}}
	if f != nil {
		rows = append(rows, [2]string{"grants a process", fmt.Sprintf("%s to %s, ratio %.2f, in the least fair of %d windows of %g s",
			number(f.Min), number(f.Max), f.Ratio, f.Windows, f.WindowS)})
	}
	if n := w.Abandoned + int64(w.Leftover); n > 0 {
		rows = append(rows, [2]string{"marks of the gone", count(n)})
	}
	return rows
}
