package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// Load is a set of locks, cut into slots, and what drives them. A slot has one operation
// in flight at a time and keys that are nobody else's, so no key ever repeats in flight.
type Load struct {
	cfg    *config.Config
	locks  []*engine.Lock // by key
	slots  []keyRound     // by slot
	Ledger *meter.Ledger
	Gaps   *meter.Gaps // by slot; nil: nobody asks

	mu   sync.Mutex
	recs []*meter.Recorder // of the phase that runs; mu: the progress line looks in from outside
}

// keyRange is a stretch of numbers.
type keyRange struct{ first, count int }

// keyRound is the part of the keys that one slot goes round: every step-th. Neighbouring slots use
// neighbouring keys at about the same time, so that the load generator's own memory is read in
// order and what is measured is the engine.
type keyRound struct{ first, step, end int }

// next is the key after key.
func (r keyRound) next(key int) int {
	if key += r.step; key < r.end {
		return key
	}
	return r.first
}

// New makes the lock of every key, with the engine of its slot. Given the homes of names, every async
// client has keys of one home: it looks at its operations in the order in which they were submitted, and
// would let all masters wait for the slowest.
func New(cfg *config.Config, engines []*engine.Engine, h topology.Homes) *Load {
	numbers := place(h, cfg)
	name := func(key int) string { return cfg.LockName('k', numbers[key]) }
	l := &Load{
		cfg:    cfg,
		locks:  make([]*engine.Lock, cfg.Keys),
		slots:  make([]keyRound, cfg.Inflight),
		Ledger: meter.NewLedger(cfg.Keys, name),
	}
	for i := range l.slots {
		l.slots[i] = keyRound{i, cfg.Inflight, cfg.Keys}
	}
	for key := range l.locks {
		eng := engines[key%cfg.Inflight%len(engines)]
		l.locks[key] = NewLock(eng, cfg, cfg.Kind, name(key))
	}
	return l
}

// place gives every key the number in its name, so that its home is that of the client which drives it.
// Without homes, or where they cannot be shared out evenly, numbers are the keys themselves.
func place(h topology.Homes, cfg *config.Config) []int {
	numbers := make([]int, cfg.Keys)
	if h.N < 2 || cfg.API != "async" || cfg.Clients%h.N != 0 {
		for key := range numbers {
			numbers[key] = key
		}
		return numbers
	}
	homeOf := make([]int, cfg.Inflight) // by slot
	for client, window := range cut(cfg.Inflight, cfg.Clients) {
		for i := range window.count {
			homeOf[window.first+i] = client % h.N
		}
	}
	spare, next := make([][]int, h.N), 0
	for key := range numbers {
		want := homeOf[key%cfg.Inflight]
		for len(spare[want]) == 0 {
			at := h.Of(cfg.LockName('k', next))
			spare[at] = append(spare[at], next)
			next++
		}
		numbers[key], spare[want] = spare[want][0], spare[want][1:]
	}
	return numbers
}

// cut divides n things into parts that differ by one at most. n >= parts.
func cut(n, parts int) []keyRange {
	ranges := make([]keyRange, parts)
	for i := range ranges {
		first := i * n / parts
		ranges[i] = keyRange{first, (i+1)*n/parts - first}
	}
	return ranges
}

// Drive runs the load for length and returns what was seen, when the last answer has
// come. The end of ctx ends it early, not unfinished.
func (l *Load) Drive(ctx context.Context, length time.Duration) (total *meter.Recorder, skipped int64) {
	p, grace := pace.NewPhase(length), pace.GraceOf(l.cfg)
	ops, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer time.AfterFunc(length+grace, giveUp).Stop()
	defer context.AfterFunc(ctx, func() {
		p.End()
		time.AfterFunc(grace, giveUp)
	})()

	var clock *pace.Pacer
	var starts <-chan time.Duration
	if l.cfg.Rate > 0 {
		clock = pace.StartPacer(p, l.cfg.Rate)
		starts = clock.Starts
	}
	var wg sync.WaitGroup
	if l.cfg.API == "sync" {
		l.startCallers(ops, &wg, p, starts)
	} else {
		l.startClients(ops, &wg, p, starts)
	}
	wg.Wait()

	total = meter.NewRecorder()
	for _, r := range l.recs {
		total.Merge(r)
	}
	if clock != nil {
		skipped = clock.Skipped // the clients end only after starts is closed
	}
	return total, skipped
}

// startClients starts the async clients, each with a window of the slots.
func (l *Load) startClients(ctx context.Context, wg *sync.WaitGroup, p *pace.Phase, starts <-chan time.Duration) {
	windows := cut(len(l.slots), l.cfg.Clients)
	for i, rec := range l.newRecorders(len(windows)) {
		c := newClient(ctx, l, windows[i], rec)
		c.phase, c.starts = p, starts
		wg.Go(c.run) // ends with the phase
	}
}

// startCallers starts the blocking callers, one a slot.
func (l *Load) startCallers(ctx context.Context, wg *sync.WaitGroup, p *pace.Phase, starts <-chan time.Duration) {
	recs := l.newRecorders(min(meter.RecorderShards, len(l.slots)))
	for i := range l.slots {
		c := caller{load: l, slot: i, rec: recs[i%len(recs)], phase: p, starts: starts}
		wg.Go(func() { c.run(ctx) }) // ends with the phase
	}
}

// newRecorders replaces the recorders of the last phase.
func (l *Load) newRecorders(n int) []*meter.Recorder {
	recs := make([]*meter.Recorder, n)
	for i := range recs {
		recs[i] = meter.NewRecorder()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recs = recs
	return recs
}

// Pairs is how many pairs the running phase has done so far.
func (l *Load) Pairs() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.recs {
		n += r.Live.Load()
	}
	return n
}

// firstKey is where slot begins its round, by the seed: all slots on the same lap.
func (l *Load) firstKey(slot int) int {
	laps := l.cfg.Keys / l.cfg.Inflight
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	return slot + rng.IntN(laps)*l.cfg.Inflight
}
