package main

import (
	"context"
	"errors"
	"sync/atomic"
)

// lockScenario takes and frees locks nobody else wants, with others held meanwhile if so
// asked.
type lockScenario struct {
	stage
	load *load
	held *heldLocks
	busy atomic.Bool // the load exists; the progress line looks in from outside
}

func newLockScenario(s stage) scenario { return &lockScenario{stage: s} }

func (s *lockScenario) prepare(ctx context.Context) error {
	h, err := s.srv.homes(ctx)
	if err != nil {
		return err
	}
	s.load = newLoad(s.cfg, s.engines, h)
	s.busy.Store(true)
	s.held = newHeldLocks(s.cfg, s.engines)
	return s.held.takeQuietly(ctx)
}

func (s *lockScenario) warm(ctx context.Context) { s.load.drive(ctx, s.cfg.warmup) }

func (s *lockScenario) measure(ctx context.Context) (round, error) {
	r := round{kind: s.cfg.kind}
	r.before = s.srv.snapshot(ctx)
	began := s.meter.read()
	s.load.gaps = s.chaos.watchGaps(len(s.load.slots))
	end := s.chaos.begin(ctx)
	r.rec, r.skipped = s.load.drive(ctx, s.cfg.duration)
	r.disturbed = s.chaos.kindsNow()
	end()
	r.cost = s.meter.read().minus(began)
	r.after = s.srv.snapshot(context.WithoutCancel(ctx))
	return r, nil
}

func (s *lockScenario) finish(ctx context.Context, r *report) error {
	held, lost := s.held.count()
	r.Held = held
	r.Lost += lost
	r.addViolations(s.load.ledger)
	r.addViolations(s.held.ledger)
	if err := s.held.giveQuietly(ctx); err != nil {
		return err
	}
	return errors.Join(
		s.addLeftover(ctx, r, s.cfg.keys, s.load.ledger.name),
		s.addLeftover(ctx, r, s.cfg.locks, s.held.name),
	)
}

func (s *lockScenario) pairs() int64 {
	if !s.busy.Load() {
		return 0
	}
	return s.load.pairs()
}
