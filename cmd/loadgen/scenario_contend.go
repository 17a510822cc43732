package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// contendScenario lets callers wait for a few locks that all of them want.
type contendScenario struct {
	stage
	contest *contest
	begun   atomic.Bool // the contest exists; the progress line looks in from outside

	rounds  int
	served  []int64 // grants of each caller, all rounds
	origins origins
	rates   []float64 // of each round
	waits   *recorder

	tokens *tokenCheck // scenario fenced
	order  *orderCheck // scenario fair
	rw     *rwTally    // scenario rw
}

// origins say what brought the grants, by the engines' own count.
type origins struct{ handOff, message, subscribe, reconnect, poll int64 }

func newContendScenario(s stage) scenario {
	return &contendScenario{stage: s, waits: newRecorder()}
}

// prepare makes the locks: neighbouring callers have different keys, and those of one key
// are spread over the engines.
func (s *contendScenario) prepare(ctx context.Context) error {
	name := func(key int) string { return lockName(s.cfg.prefix, 'k', key) }
	locksOf := func(kind string) []lock {
		locks := make([]lock, s.cfg.clients)
		for i := range locks {
			eng := s.engines[i/s.cfg.keys%len(s.engines)]
			locks[i] = engineLock{newLock(eng, kind, name(i%s.cfg.keys), s.cfg.lease)}
		}
		return locks
	}
	kind := s.cfg.kind
	if kind == kindRW {
		kind = kindWrite
	}
	locks := locksOf(kind)
	s.contest = newContest(s.cfg, locks, name)
	s.contest.witness = s.witness.file()
	switch {
	case s.tokens != nil:
		s.contest.looker = s.tokens
	case s.order != nil:
		s.order.open(s.engines[0], s.cfg.keys, name)
		s.contest.looker = s.order
	case s.rw != nil:
		s.contest.readers, s.contest.readShare, s.contest.seed = locksOf(kindRead), s.cfg.readShare, s.cfg.seed
	}
	s.served = make([]int64, len(locks))
	s.begun.Store(true)
	return s.witness.gather(ctx)
}

func (s *contendScenario) warm(ctx context.Context) { s.drive(ctx, s.cfg.warmup, nil) }

func (s *contendScenario) drive(ctx context.Context, length time.Duration, counting *witness.Round) *recorder {
	run := block
	if s.cfg.api == "async" {
		run = callBack
	}
	defer s.order.watch(ctx)()
	return s.contest.drive(ctx, length, s.contest.graceOf(s.witness.processes()), counting, run)
}

func (s *contendScenario) measure(ctx context.Context) (round, error) {
	if err := s.witness.align(ctx); err != nil {
		return round{}, err
	}
	r := round{contended: true, kind: s.cfg.kind}
	r.before = s.srv.snapshot(ctx)
	stats := s.readOrigins()
	began := s.meter.read()
	counting := s.witness.begin(s.rounds)
	s.contest.gaps = s.chaos.watchGaps(2 * s.cfg.keys)
	end := s.chaos.begin(ctx)
	r.rec = s.drive(ctx, s.cfg.duration, counting)
	r.disturbed = s.chaos.kindsNow()
	end()
	r.cost = s.meter.read().minus(began)
	r.after = s.srv.snapshot(context.WithoutCancel(ctx))

	did := s.readOrigins().minus(stats)
	if s.cfg.kind != kindFair { // which the server hands on itself
		r.handedOver = did.handOff
	}
	s.origins = s.origins.plus(did)
	for i, n := range s.contest.served {
		s.served[i] += n
	}
	rate := float64(r.rec.granted) / r.cost.wall.Seconds()
	s.rates = append(s.rates, rate)
	s.waits.merge(r.rec)
	s.rw.add(s.contest.reads, s.contest.writes, r)
	if counting != nil {
		counting.End(min(s.cfg.duration, r.cost.wall), rate)
	}
	s.rounds++
	return r, nil
}

func (s *contendScenario) readOrigins() (o origins) {
	for _, eng := range s.engines {
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

func (s *contendScenario) finish(ctx context.Context, r *report) error {
	r.addViolations(s.contest.ledger)
	c := &contendReport{
		HoldS:     s.cfg.hold.Seconds(),
		Grants:    s.waits.granted,
		ByHandOff: s.origins.handOff, ByMessage: s.origins.message, ByPoll: s.origins.poll,
		BySubscribe: s.origins.subscribe, ByReconnect: s.origins.reconnect,
	}
	if m := median(s.rates); m != nil {
		c.GrantsPerS = *m
	}
	if s.waits.acquires.TotalCount() > 0 {
		c.LongestWait = float64(s.waits.acquires.Max()) / 1e3
	}
	r.contendReport = c
	s.tokens.addTo(r)
	s.order.addTo(r, s.cfg.chaos)
	s.rw.addTo(r, s.contest.ledger)
	r.Fairness = fairnessOf(s.served)
	c.FairnessEngines = fairnessOf(s.servedByEngine())
	if err := s.witness.conclude(ctx, r, newLatency(s.waits.acquires)); err != nil || s.witness.gaveUp() {
		return err
	}
	return s.addLeftover(ctx, r, s.cfg.keys, s.contest.ledger.name)
}

func (s *contendScenario) servedByEngine() []int64 {
	sums := make([]int64, len(s.engines))
	for i, n := range s.served {
		sums[i/s.cfg.keys%len(sums)] += n
	}
	return sums
}

func (s *contendScenario) pairs() int64 {
	if !s.begun.Load() {
		return 0
	}
	return s.contest.pairs()
}

// contendReport is what only the scenario contend has to say. It lies flat in the report.
type contendReport struct {
	HoldS       float64 `json:"hold_s"`
	Grants      int64   `json:"grants"`
	GrantsPerS  float64 `json:"grants_per_s"` // the median round
	LongestWait float64 `json:"longest_wait_us"`

	// What brought the grants, by the engines' own count. A wake-up that found the lock taken
	// again is among the messages and polls all the same.
	ByHandOff   int64 `json:"grants_by_handoff"`
	ByMessage   int64 `json:"grants_by_message"`
	ByPoll      int64 `json:"grants_by_poll"`
	BySubscribe int64 `json:"grants_by_subscribe"`
	ByReconnect int64 `json:"grants_by_reconnect"`

	FairnessEngines *fairness `json:"fairness_engines"`

	Tokens *tokenReport `json:"tokens"` // scenario fenced
	Order  *orderReport `json:"order"`  // scenario fair
	RW     *rwReport    `json:"rw"`     // scenario rw

	Mutex        *mutexReport `json:"mutex"` // --mutex
	RatioToMutex *float64     `json:"ratio_to_mutex"`

	Witness           *witnessReport     `json:"witness"` // --witness
	FairnessProcesses *processesFairness `json:"fairness_processes"`
}

// contendRows are the lines of the table.
func (c *contendReport) rows(f *fairness) [][2]string {
	rows := [][2]string{
		{"grants/s", number(c.GrantsPerS)},
		{"grants", fmt.Sprintf("%s: hand-off %s; wake-ups by message %s, by poll %s",
			count(c.Grants), count(c.ByHandOff), count(c.ByMessage), count(c.ByPoll))},
		{"longest wait", number(c.LongestWait/1e3) + " ms"},
	}
	rows = append(rows, c.Tokens.rows()...)
	rows = append(rows, c.Order.rows()...)
	rows = append(rows, c.RW.rows()...)
	if f != nil {
		rows = append(rows, [2]string{"grants a caller", f.text()})
	}
	if e := c.FairnessEngines; e != nil && e.Min != e.Max {
		rows = append(rows, [2]string{"grants an engine", e.text()})
	}
	if c.RatioToMutex != nil {
		rows = append(rows, [2]string{"beside a mutex", fmt.Sprintf("%.3f of its %s grants/s", *c.RatioToMutex, number(c.Mutex.GrantsPerS))})
	}
	if w := c.Witness; w != nil {
		rows = append(rows, w.rows(c.FairnessProcesses)...)
	}
	return rows
}

func (f *fairness) text() string { return fmt.Sprintf("%s to %s", number(f.Min), number(f.Max)) }
