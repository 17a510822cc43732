package scenario

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// latchScenario opens latches again and again, for callers that wait for them.
type latchScenario struct {
	Stage
	latches []*contest.Latch // by key
	ledger  *meter.Ledger    // of the names
	begun   atomic.Bool      // latches exist; the progress line looks in from outside
	rates   []float64        // of each round
	waits   *meter.Recorder
	origins origins
	counted atomic.Bool // a latch had a count that nobody here gave it
	lasting *lastingLatch
	killed  report.Latch // what became of it
	gaps    *meter.Gaps
}

func newLatchScenario(s Stage) Scenario { return &latchScenario{Stage: s, waits: meter.NewRecorder()} }

// Prepare makes the latches: neighbouring callers have different ones.
func (s *latchScenario) Prepare(ctx context.Context) error {
	name := func(key int) string { return s.Cfg.LockName('k', key) }
	s.ledger = meter.NewLedger(s.Cfg.Keys, name)
	for range s.Cfg.Keys {
		s.latches = append(s.latches, &contest.Latch{Count: s.Cfg.Count, Hold: s.Cfg.Hold, Async: s.Cfg.API == "async"})
	}
	for i := range s.Cfg.Clients {
		key := i % s.Cfg.Keys
		l := s.latches[key]
		l.Of = append(l.Of, s.Engines[i/s.Cfg.Keys%len(s.Engines)].CountDownLatch(name(key)))
		l.Served = append(l.Served, 0)
	}
	s.renew()
	s.lasting = s.newLastingLatch()
	if err := s.lasting.begin(ctx); err != nil {
		return err
	}
	s.begun.Store(true)
	return nil
}

// renew gives each latch a record of its own for a phase.
func (s *latchScenario) renew() {
	for _, l := range s.latches {
		l.Rec = meter.NewRecorder()
	}
}

func (s *latchScenario) Warm(ctx context.Context) { s.drive(ctx, s.Cfg.Warmup) }

// drive plays rounds for length. One that has begun is brought to its end.
func (s *latchScenario) drive(ctx context.Context, length time.Duration) *meter.Recorder {
	phase := pace.NewPhase(length)
	defer context.AfterFunc(ctx, phase.End)()
	ops, giveUp := context.WithTimeout(context.WithoutCancel(ctx), length+pace.GraceOf(s.Cfg))
	defer giveUp()
	var all sync.WaitGroup
	for key, l := range s.latches {
		all.Go(func() {
			for !phase.Over(phase.Elapsed()) {
				err := l.Round(ops)
				if err == nil {
					s.gaps.Granted(key)
					continue
				}
				if errors.Is(err, contest.ErrCounted) {
					s.counted.Store(true)
				}
				time.Sleep(pace.ErrorPause)
			}
		})
	}
	all.Wait()
	total := meter.NewRecorder()
	for _, l := range s.latches {
		total.Merge(l.Rec)
	}
	return total
}

func (s *latchScenario) Measure(ctx context.Context) (report.Round, error) {
	r := report.Round{Contended: true, Kind: s.Cfg.Kind}
	s.renew()
	if s.Cfg.Victim {
		s.live(ctx)
		return r, nil
	}
	s.gaps = s.Chaos.WatchGaps(len(s.latches))
	r.Before = s.Srv.Snapshot(ctx)
	stats := s.readOrigins()
	began := s.Meter.Read()
	end := s.Chaos.Begin(ctx)
	r.Rec = s.drive(ctx, s.Cfg.Duration)
	r.Disturbed = s.Chaos.KindsNow()
	end()
	r.Cost = s.Meter.Read().Minus(began)
	r.After = s.Srv.Snapshot(context.WithoutCancel(ctx))
	s.origins = s.origins.plus(s.readOrigins().minus(stats))
	s.rates = append(s.rates, float64(r.Rec.Granted)/r.Cost.Wall.Seconds())
	s.waits.Merge(r.Rec)
	if !slices.Contains(r.Disturbed, config.ChaosClient) { // nobody was killed yet
		return r, nil
	}
	return r, s.lasting.finish(context.WithoutCancel(ctx), &s.killed)
}

// live is what it does where it is there to be killed.
func (s *latchScenario) live(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Cfg.Duration)
	defer cancel()
	rounds := make([]*engine.CountDownLatch, len(s.latches))
	for key, l := range s.latches {
		rounds[key] = l.Of[0]
	}
	s.lasting.live(ctx, rounds)
}

func (s *latchScenario) Finish(ctx context.Context, r *report.Report) error {
	c := &report.Contend{
		HoldS: s.Cfg.Hold.Seconds(), Grants: s.waits.Granted,
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
	out := s.killed
	out.Count, out.Bound, out.Judged = s.Cfg.Count, config.OpenMost.Seconds(), !config.ChangesServers(s.Cfg.Chaos)
	var served []int64
	for _, l := range s.latches {
		out.Rounds += l.Rounds.Load()
		out.Early += l.Early.Load()
		out.Late += l.Late.Load()
		out.Last = max(out.Last, time.Duration(l.Last.Load()).Seconds())
		served = append(served, l.Served...)
	}
	out.AddTo(r)
	r.Fairness = report.FairnessOf(served)
	if s.counted.Load() {
		r.Fail("a latch had a count that nobody here gave it")
	}
	return s.addLeftover(ctx, r, s.Cfg.Keys, s.ledger.Name)
}

func (s *latchScenario) Pairs() (n int64) {
	if !s.begun.Load() {
		return 0
	}
	for _, l := range s.latches {
		n += l.Rounds.Load() * int64(l.Count)
	}
	return n
}
