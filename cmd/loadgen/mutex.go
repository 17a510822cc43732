package main

import (
	"context"
	"strconv"
	"sync"

	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// mutexRival is the yardstick of the scenario contend: the same callers, keys and holds on a
// sync.Mutex each, which needs no server. Its callers block, also with --api async. Where
// several processes run over one witness file, the first of them has the callers of all on
// its mutexes while the others wait.
type mutexRival struct {
	cfg     *config
	witness *bystander
	contest *contest
	turns   int
	rates   []float64
	seen    *recorder
}

// mutexReport is what the mutex reached.
type mutexReport struct {
	Callers    int          `json:"callers"`
	GrantsPerS float64      `json:"grants_per_s"`
	Wait       *latency     `json:"acquire_us"` // null in all processes but the first
	Fairness   *fairness    `json:"fairness"`
	Rounds     []mutexRound `json:"rounds"`
}

type mutexRound struct {
	Mutex    float64 `json:"mutex_grants_per_s"`
	Scenario float64 `json:"scenario_grants_per_s"`
}

type mutexLock struct{ *sync.Mutex }

func (l mutexLock) acquire(context.Context) (grip, error) {
	l.Lock()
	return l, nil
}

// Release unlocks.
func (l mutexLock) Release(context.Context) error {
	l.Unlock()
	return nil
}

func newMutexRival(cfg *config, b *bystander) *mutexRival {
	locks := make([]lock, cfg.clients*b.processes())
	mutexes := make([]sync.Mutex, cfg.keys)
	for i := range locks {
		locks[i] = mutexLock{&mutexes[i%cfg.keys]}
	}
	name := func(key int) string { return "mutex " + strconv.Itoa(key) }
	return &mutexRival{cfg: cfg, witness: b, contest: newContest(cfg, locks, name), seen: newRecorder()}
}

func (m *mutexRival) name() string { return "mutex" }

func (m *mutexRival) warm(ctx context.Context) error {
	if m.witness.first() {
		m.contest.drive(ctx, min(m.cfg.warmup, m.cfg.duration), m.contest.graceOf(1), nil, block)
	}
	return nil
}

func (m *mutexRival) turn(ctx context.Context) error {
	if err := m.witness.align(ctx); err != nil {
		return err
	}
	n := m.turns
	m.turns++
	if !m.witness.first() {
		return nil
	}
	began := newCostMeter()
	rec := m.contest.drive(ctx, m.cfg.duration, m.contest.graceOf(1), (*witness.Round)(nil), block)
	rate := float64(rec.granted) / began.read().wall.Seconds()
	m.seen.merge(rec)
	if w := m.witness.file(); w != nil {
		w.PutRival(n, rate)
	}
	m.rates = append(m.rates, rate)
	return nil
}

// addTo sets the medians side by side. It is called when all processes are through.
func (m *mutexRival) addTo(r *report, rounds []round) {
	out := &mutexReport{Callers: len(m.contest.locks), Wait: newLatency(m.seen.acquires), Rounds: []mutexRound{}}
	rates := m.rates
	if w := m.witness.file(); w != nil {
		rates = w.Rival(m.turns)
	}
	if m.witness.first() {
		out.Fairness = fairnessOf(m.contest.served)
	}
	r.addViolations(m.contest.ledger)
	for i, rate := range rates {
		if i < len(rounds) {
			out.Rounds = append(out.Rounds, mutexRound{rate, float64(rounds[i].rec.granted) / rounds[i].cost.wall.Seconds()})
		}
	}
	r.Mutex = out
	reached := r.GrantsPerS
	if r.Witness != nil {
		reached = r.Witness.GrantsPerS
	}
	if v := median(rates); v != nil && *v > 0 {
		out.GrantsPerS = *v
		ratio := reached / *v
		r.RatioToMutex = &ratio
	}
}

func (m *mutexRival) close() {}
