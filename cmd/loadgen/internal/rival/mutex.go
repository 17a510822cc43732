package rival

import (
	"context"
	"strconv"
	"sync"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
)

// mutexRival is the yardstick of the scenario contend: the same callers, keys and holds on a
// sync.Mutex each, which needs no server. Its callers block, also with --api async. Where
// several processes run over one witness file, the first of them has the callers of all on
// its mutexes while the others wait.
type mutexRival struct {
	cfg     *config.Config
	witness *witness.Observer
	contest *contest.Contest
	turns   int
	rates   []float64
	seen    *meter.Recorder
}

type mutexLock struct{ *sync.Mutex }

// Acquire locks.
func (l mutexLock) Acquire(context.Context) (contest.Held, error) {
	l.Lock()
	return l, nil
}

// Release unlocks.
func (l mutexLock) Release(context.Context) error {
	l.Unlock()
	return nil
}

// NewMutex makes the rival of --mutex.
func NewMutex(cfg *config.Config, b *witness.Observer) Rival {
	locks := make([]contest.Lock, cfg.Clients*b.Processes())
	mutexes := make([]sync.Mutex, cfg.Keys)
	for i := range locks {
		locks[i] = mutexLock{&mutexes[i%cfg.Keys]}
	}
	name := func(key int) string { return "mutex " + strconv.Itoa(key) }
	return &mutexRival{cfg: cfg, witness: b, contest: contest.New(cfg, locks, name), seen: meter.NewRecorder()}
}

// Name is for the progress line.
func (m *mutexRival) Name() string { return "mutex" }

// Warm runs the callers once, unmeasured.
func (m *mutexRival) Warm(ctx context.Context) error {
	if m.witness.First() {
		m.contest.Drive(ctx, min(m.cfg.Warmup, m.cfg.Duration), m.contest.GraceOf(1), nil, contest.Block)
	}
	return nil
}

// Turn runs the callers once.
func (m *mutexRival) Turn(ctx context.Context) error {
	if err := m.witness.Align(ctx); err != nil {
		return err
	}
	n := m.turns
	m.turns++
	if !m.witness.First() {
		return nil
	}
	began := meter.NewCostMeter()
	rec := m.contest.Drive(ctx, m.cfg.Duration, m.contest.GraceOf(1), (*witness.Round)(nil), contest.Block)
	rate := float64(rec.Granted) / began.Read().Wall.Seconds()
	m.seen.Merge(rec)
	if w := m.witness.File(); w != nil {
		w.PutRival(n, rate)
	}
	m.rates = append(m.rates, rate)
	return nil
}

// AddTo sets the medians side by side. It is called when all processes are through.
func (m *mutexRival) AddTo(r *report.Report, rounds []report.Round) {
	out := &report.Mutex{
		Callers: len(m.contest.Locks), Wait: report.NewLatency(m.seen.Acquires), Rounds: []report.MutexRound{},
	}
	rates := m.rates
	if w := m.witness.File(); w != nil {
		rates = w.Rival(m.turns)
	}
	if m.witness.First() {
		out.Fairness = report.FairnessOf(m.contest.Served)
	}
	r.AddViolations(m.contest.Ledger)
	for i, rate := range rates {
		if i < len(rounds) {
			out.Rounds = append(out.Rounds, report.MutexRound{
				Mutex: rate, Scenario: float64(rounds[i].Rec.Granted) / rounds[i].Cost.Wall.Seconds(),
			})
		}
	}
	r.Mutex = out
	reached := r.GrantsPerS
	if r.Witness != nil {
		reached = r.Witness.GrantsPerS
	}
	if v := report.Median(rates); v != nil && *v > 0 {
		out.GrantsPerS = *v
		ratio := reached / *v
		r.RatioToMutex = &ratio
	}
}

// Close has nothing to close.
func (m *mutexRival) Close() {}
