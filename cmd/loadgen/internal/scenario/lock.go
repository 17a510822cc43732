package scenario

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/load"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// lockScenario takes and frees locks nobody else wants, with others held meanwhile if so
// asked.
type lockScenario struct {
	Stage
	load *load.Load
	held *load.Held
	busy atomic.Bool // the load exists; the progress line looks in from outside
}

func newLockScenario(s Stage) Scenario { return &lockScenario{Stage: s} }

func (s *lockScenario) Prepare(ctx context.Context) error {
	h, err := s.Srv.Homes(ctx)
	if err != nil {
		return err
	}
	s.load = load.New(s.Cfg, s.Engines, h)
	s.busy.Store(true)
	s.held = load.NewHeld(s.Cfg, s.Engines)
	return s.held.TakeQuietly(ctx)
}

func (s *lockScenario) Warm(ctx context.Context) { s.load.Drive(ctx, s.Cfg.Warmup) }

func (s *lockScenario) Measure(ctx context.Context) (report.Round, error) {
	r := report.Round{Kind: s.Cfg.Kind}
	s.lingered()
	r.Before = s.Srv.Snapshot(ctx)
	stats := s.readOrigins()
	began := s.Meter.Read()
	s.load.Gaps = s.Chaos.WatchGaps(s.Cfg.Inflight)
	end := s.Chaos.Begin(ctx)
	r.Rec, r.Skipped = s.load.Drive(ctx, s.Cfg.Duration)
	r.Disturbed = s.Chaos.KindsNow()
	end()
	r.Cost = s.Meter.Read().Minus(began)
	r.HandedOver = s.readOrigins().minus(stats).handOff // of what lingered: no two callers have one key
	s.lingered()
	r.After = s.Srv.Snapshot(context.WithoutCancel(ctx))
	return r, nil
}

func (s *lockScenario) Finish(ctx context.Context, r *report.Report) error {
	held, lost := s.held.Count()
	r.Held = held
	r.Lost += lost
	r.AddViolations(s.load.Ledger)
	r.AddViolations(s.held.Ledger)
	if err := s.held.GiveQuietly(ctx); err != nil {
		return err
	}
	return errors.Join(
		s.addLeftover(ctx, r, s.Cfg.Keys, s.load.Ledger.Name),
		s.addLeftover(ctx, r, s.Cfg.Locks, s.held.Name),
	)
}

func (s *lockScenario) Pairs() int64 {
	if !s.busy.Load() {
		return 0
	}
	return s.load.Pairs()
}
