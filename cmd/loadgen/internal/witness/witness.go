package witness

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	sharedfile "github.com/seed-786ebc8c/holdfast/internal/witness"
)

// File is what the processes share.
type File = sharedfile.Witness

// Round counts the grants of one round over time.
type Round = sharedfile.Round

// MaxProcesses is how many may run over one file.
const MaxProcesses = sharedfile.MaxProcesses

// laterGrace is how long processes of one run may be apart at any barrier but the first.
const laterGrace = time.Minute

// Observer is this process's part in a run of several over one witness file; nil and all its
// methods stand for a run alone.
type Observer struct {
	cfg *config.Config
	w   *sharedfile.Witness
	off bool // somebody did not come, or this run is to end: wait for nobody any more
}

// Open joins the run in cfg's witness file, and takes over its prefix.
func Open(cfg *config.Config) (*Observer, error) {
	if cfg.Witness == "" {
		return nil, nil //nolint:nilnil // nobody looks on: the nil observer does nothing
	}
	o := sharedfile.Options{Keys: cfg.Keys, FallbackPrefix: "lg-" + config.RandomID()}
	if cfg.PrefixGiven {
		o.Prefix = cfg.Prefix
	}
	w, err := sharedfile.Open(cfg.Witness, o)
	if err != nil {
		return nil, fmt.Errorf("--witness: %w", err)
	}
	cfg.Prefix = w.Prefix()
	return &Observer{cfg: cfg, w: w}, nil
}

// File is what the processes share; nil for a run alone.
func (o *Observer) File() *File {
	if o == nil {
		return nil
	}
	return o.w
}

// Processes is how many run at the same time, as far as was said.
func (o *Observer) Processes() int {
	if o == nil {
		return 1
	}
	return o.cfg.WitnessProcs
}

// First reports whether this process does what one of them does for all.
func (o *Observer) First() bool { return o == nil || o.w.Index() == 0 }

// Gather waits until every process has come.
func (o *Observer) Gather(ctx context.Context) error {
	if o == nil {
		return nil
	}
	return o.await(ctx, o.cfg.WitnessWait)
}

// Align waits for the others before a phase that all begin at the same time.
func (o *Observer) Align(ctx context.Context) error {
	if o == nil {
		return nil
	}
	return o.await(ctx, o.cfg.Duration+o.cfg.Warmup+laterGrace)
}

func (o *Observer) await(ctx context.Context, timeout time.Duration) error {
	if o.cfg.WitnessProcs < 2 || o.off {
		return nil
	}
	err := o.w.Await(ctx, o.cfg.WitnessProcs, timeout)
	o.off = err != nil
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// GaveUp reports whether others may still be at work.
func (o *Observer) GaveUp() bool { return o != nil && o.off }

// Begin begins to count the grants of round n over time.
func (o *Observer) Begin(n int) *Round {
	if o == nil {
		return nil
	}
	r := o.w.Begin(n, time.Now())
	return &r
}

// Conclude publishes what this process saw, waits for the others, and reports what all did.
func (o *Observer) Conclude(ctx context.Context, r *report.Report, waits *report.Latency) error {
	if o == nil {
		return nil
	}
	if waits != nil {
		o.w.PutWait(sharedfile.Wait{P50: waits.P50, P99: waits.P99, Longest: waits.Max})
	}
	err := o.Align(ctx)
	s := o.w.Summary()
	out := &report.Witness{File: o.cfg.Witness, Leftover: o.w.Leftover(), Processes: []report.Process{}}
	together := make([]float64, 0, o.cfg.Rounds)
	for _, p := range s.Processes {
		one := report.Process{
			PID: p.PID, Gone: p.Gone, Grants: p.Grants,
			P50: p.Wait.P50, P99: p.Wait.P99, Longest: p.Wait.Longest,
			Violations: p.Violations, Abandoned: p.Abandoned,
		}
		if m := report.Median(p.Rates); m != nil {
			one.GrantsPerS = *m
		}
		out.Add(one)
		together = addUp(together, p.Rates)
	}
	if m := report.Median(together); m != nil {
		out.GrantsPerS = *m
	}
	r.Witness = out
	if f := s.Fairness; f != nil {
		r.FairnessProcesses = &report.ProcessesFairness{
			Min: f.Min, Max: f.Max, Ratio: f.Ratio, WindowS: f.Window.Seconds(), Windows: f.Windows,
		}
	}
	o.blame(r, out)
	return err
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
func (o *Observer) blame(r *report.Report, out *report.Witness) {
	own, told := o.w.Violations()
	r.Violations += own
	if out.Violations > 0 {
		r.Violated = true
		r.Fail("exclusion between processes was violated %d times, %d of them seen here", out.Violations, own)
		r.Failures = append(r.Failures, told...)
	}
	if out.Gone > 0 && !o.cfg.KillsClient() {
		r.Fail("%d of the processes in %s ended without leaving", out.Gone, o.cfg.Witness)
	}
}

// Leave ends this process's part.
func (o *Observer) Leave() error {
	if o == nil {
		return nil
	}
	return o.w.Leave()
}
