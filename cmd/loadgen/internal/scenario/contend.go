package scenario

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/load"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
)

// contendScenario lets callers wait for a few locks that all of them want.
type contendScenario struct {
	Stage
	contest *contest.Contest
	begun   atomic.Bool // the contest exists; the progress line looks in from outside

	rounds  int
	served  []int64 // grants of each caller, all rounds
	origins origins
	rates   []float64 // of each round
	waits   *meter.Recorder

	tokens *tokenCheck // scenario fenced
	order  *orderCheck // scenario fair
	rw     *rwTally    // scenario rw

	permits *permitCheck     // scenarios semaphore, permits
	several *contest.Several // scenario multi
}

// origins say what brought the grants, by the engines' own count.
type origins struct{ handOff, message, subscribe, reconnect, poll int64 }

func newContendScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder()}
}

// Prepare makes the locks: neighbouring callers have different keys, and those of one key
// are spread over the engines.
func (s *contendScenario) Prepare(ctx context.Context) error {
	name := func(key int) string { return s.Cfg.LockName('k', key) }
	locksOf := func(kind string) []contest.Lock {
		locks := make([]contest.Lock, s.Cfg.Clients)
		for i := range locks {
			eng := s.Engines[s.engineOf(i)]
			locks[i] = contest.EngineLock{Lock: load.NewLock(eng, s.Cfg, kind, name(i%s.Cfg.Keys))}
		}
		return locks
	}
	kind := s.Cfg.Kind
	if kind == config.KindRW {
		kind = config.KindWrite
	}
	var locks []contest.Lock
	if s.permits != nil {
		locks = s.permits.open(&s.Stage, name(0))
	} else {
		locks = locksOf(kind)
	}
	s.contest = contest.New(s.Cfg, locks, name)
	s.contest.Witness = s.Witness.File()
	switch {
	case s.permits != nil:
		s.contest.Counted, s.contest.Witness = true, nil
	case s.several != nil:
		s.openSeveral(name)
	case s.tokens != nil:
		s.contest.Observer = s.tokens
	case s.order != nil:
		s.order.open(s.Engines[0], s.Cfg.Keys, name)
		s.contest.Observer = s.order
	case s.rw != nil:
		s.contest.Readers, s.contest.ReadShare, s.contest.Seed = locksOf(config.KindRead), s.Cfg.ReadShare, s.Cfg.Seed
	}
	s.served = make([]int64, len(locks))
	s.begun.Store(true)
	if err := s.permits.give(ctx); err != nil {
		return err
	}
	return s.Witness.Gather(ctx)
}

func (s *contendScenario) Warm(ctx context.Context) { s.drive(ctx, s.Cfg.Warmup, nil) }

func (s *contendScenario) drive(ctx context.Context, length time.Duration, counting *witness.Round) *meter.Recorder {
	run := contest.Block
	if s.Cfg.API == "async" {
		run = contest.CallBack
	}
	defer s.order.watch(ctx)()
	defer s.permits.watch(ctx)()
	return s.contest.Drive(ctx, length, s.contest.GraceOf(s.Witness.Processes()), counting, run)
}

func (s *contendScenario) Measure(ctx context.Context) (report.Round, error) {
	if err := s.Witness.Align(ctx); err != nil {
		return report.Round{}, err
	}
	r := report.Round{Contended: true, Several: s.several != nil, Kind: s.Cfg.Kind}
	s.lingered()
	r.Before = s.Srv.Snapshot(ctx)
	stats := s.readOrigins()
	began := s.Meter.Read()
	counting := s.Witness.Begin(s.rounds)
	s.contest.Gaps = s.Chaos.WatchGaps(2 * s.Cfg.Keys)
	end := s.Chaos.Begin(ctx)
	r.Rec = s.drive(ctx, s.Cfg.Duration, counting)
	r.Disturbed = s.Chaos.KindsNow()
	end()
	r.Cost = s.Meter.Read().Minus(began)
	s.lingered()
	r.After = s.Srv.Snapshot(context.WithoutCancel(ctx))

	did := s.readOrigins().minus(stats)
	if s.Cfg.Kind != config.KindFair { // which the server hands on itself
		r.HandedOver = did.handOff
	}
	s.origins = s.origins.plus(did)
	for i, n := range s.contest.Served {
		s.served[i] += n
	}
	rate := float64(r.Rec.Granted) / r.Cost.Wall.Seconds()
	s.rates = append(s.rates, rate)
	s.waits.Merge(r.Rec)
	s.rw.add(s.contest.Reads, s.contest.Writes, r)
	if counting != nil {
		counting.End(min(s.Cfg.Duration, r.Cost.Wall), rate)
	}
	s.rounds++
	return r, nil
}

// lingered waits until nothing lingers any more that was given back: the server's counters are to have its release.
func (s *Stage) lingered() {
	if s.Cfg.Linger > 0 {
		time.Sleep(s.Cfg.Linger + lingerLate)
	}
}

// lingerLate is how much later than that a release may be answered.
const lingerLate = 100 * time.Millisecond

func (s *Stage) readOrigins() (o origins) {
	for _, eng := range s.Engines {
		st := eng.Stats()
		o = o.plus(origins{st.GrantsByHandOff, st.GrantsByMessage, st.WokenBySubscribe, st.WokenByReconnect, st.GrantsByPoll})
	}
	return o
}

func (o origins) plus(b origins) origins {
	return origins{o.handOff + b.handOff, o.message + b.message, o.subscribe + b.subscribe, o.reconnect + b.reconnect, o.poll + b.poll}
}

func (o origins) minus(b origins) origins {
	return origins{o.handOff - b.handOff, o.message - b.message, o.subscribe - b.subscribe, o.reconnect - b.reconnect, o.poll - b.poll}
}

func (s *contendScenario) Finish(ctx context.Context, r *report.Report) error {
	r.AddViolations(s.contest.Ledger)
	c := &report.Contend{
		HoldS:     s.Cfg.Hold.Seconds(),
		Grants:    s.waits.Granted,
		ByHandOff: s.origins.handOff, ByMessage: s.origins.message, ByPoll: s.origins.poll,
		BySubscribe: s.origins.subscribe, ByReconnect: s.origins.reconnect,
	}
	if m := report.Median(s.rates); m != nil {
		c.GrantsPerS = *m
	}
	if s.waits.Acquires.TotalCount() > 0 {
		c.LongestWait = float64(s.waits.Acquires.Max()) / 1e3
	}
	r.Contend = c
	s.tokens.addTo(r)
	s.order.addTo(r, s.Cfg.Chaos)
	s.rw.addTo(r, s.contest.Ledger)
	s.addSeveral(r)
	r.Fairness = report.FairnessOf(s.served)
	c.FairnessEngines = report.FairnessOf(s.servedByEngine())
	if err := s.Witness.Conclude(ctx, r, report.NewLatency(s.waits.Acquires)); err != nil || s.Witness.GaveUp() {
		return err
	}
	if err := s.permits.addTo(ctx, r); err != nil {
		return err
	}
	if s.permits != nil && !s.permits.set { // the process that made it takes it away, and looks
		return nil
	}
	return s.addLeftover(ctx, r, s.Cfg.Keys, s.contest.Ledger.Name)
}

func (s *contendScenario) servedByEngine() []int64 {
	sums := make([]int64, len(s.Engines))
	for i, n := range s.served {
		sums[s.engineOf(i)] += n
	}
	return sums
}

func (s *contendScenario) Pairs() int64 {
	if !s.begun.Load() {
		return 0
	}
	return s.contest.Pairs()
}
