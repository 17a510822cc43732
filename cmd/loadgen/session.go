package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// closeTimeout bounds the end of an engine.
const closeTimeout = 30 * time.Second

// session is one run from the first connection to the report.
type session struct {
	cfg    *config
	out    *outputs
	stderr io.Writer

	srv      *server
	engines  []*engine.Engine
	scenario scenario
	rival    rival      // nil: none runs beside the scenario
	witness  *bystander // nil: this process runs alone
	progress *progress
	chaos    *chaos // nil: nothing is disturbed
	report   *report

	scenarios map[string]func(stage) scenario
}

// run does the whole of it. A nil report means that nothing ran, and status says why.
func (s *session) run(ctx context.Context) (r *report, status int) {
	if s.cfg.victim {
		go endWithInput() // lives as long as the process
	}
	stopPprof, err := servePprof(s.cfg.pprof, s.stderr)
	if err != nil {
		return s.fail(err, statusUsage)
	}
	defer stopPprof()
	if s.srv, err = openServer(ctx, s.cfg, s.stderr); err != nil {
		return s.fail(err, statusConnect)
	}
	defer s.srv.close()
	forget, err := s.cfg.watchVictim()
	if err != nil {
		return s.fail(err, statusFailed)
	}
	defer forget()
	if s.witness, err = openWitness(s.cfg); err != nil {
		return s.fail(err, statusUsage)
	}
	defer func() { _ = s.witness.leave() }() // the file is mapped no longer, with or without an error
	if err := s.openEngines(ctx); err != nil {
		status := statusConnect
		if errors.Is(err, engine.ErrConfig) {
			status = statusUsage
		}
		return s.fail(errors.Join(err, s.closeEngines()), status)
	}
	switch {
	case s.cfg.mutex:
		s.rival = newMutexRival(s.cfg, s.witness)
	case s.cfg.yardstick:
		if s.rival, err = newYardstickRival(ctx, s.cfg, s.srv); err != nil {
			return s.fail(errors.Join(err, s.closeEngines()), statusConnect)
		}
	}
	if s.rival != nil {
		defer s.rival.close()
	}
	crowd := watchCrowd()
	s.report = newReport(s.cfg, s.srv)
	s.play(ctx)
	s.report.GoroutinesMax = crowd.stop()
	if err := s.closeEngines(); err != nil {
		s.report.fail("%v", err)
	}
	s.report.Interrupted = ctx.Err() != nil
	s.report.settle()
	return s.report, s.report.Status
}

func (s *session) fail(err error, status int) (*report, int) {
	say(s.stderr, "loadgen: %v\n", err)
	return nil, status
}

// play takes the scenario through its acts. What goes wrong ends up in the report.
func (s *session) play(ctx context.Context) {
	s.chaos = newChaos(s.cfg, s.srv, s.engines)
	s.scenario = s.scenarios[s.cfg.scenario](stage{
		cfg: s.cfg, srv: s.srv, engines: s.engines, meter: newCostMeter(), chaos: s.chaos, witness: s.witness,
	})
	s.progress = newProgress(s.cfg, s.stderr, s.scenario.pairs)
	note := func(err error) {
		if err != nil {
			s.report.fail("%v", err)
		}
	}
	var rounds []round
	var quiet *round
	err := s.scenario.prepare(ctx)
	if note(err); err == nil {
		note(s.warm(ctx))
		if s.cfg.victim {
			say(s.stderr, "%s\n", measuring)
		}
		quiet, err = s.measureQuiet(ctx)
		note(err)
		rounds, err = s.measure(ctx)
		note(err)
	}
	s.report.addRounds(s.cfg, rounds)
	s.chaos.addTo(s.report, quiet)
	note(s.scenario.finish(context.WithoutCancel(ctx), s.report))
	if s.rival != nil {
		s.rival.addTo(s.report, rounds)
	}
	s.addStats()
}

func (s *session) warm(ctx context.Context) error {
	if s.cfg.warmup == 0 || ctx.Err() != nil {
		return nil
	}
	s.progress.during("warming up", s.cfg.warmup, func() { s.scenario.warm(ctx) })
	if s.rival == nil {
		return nil
	}
	return unlessEnded(ctx, s.rival.warm(ctx))
}

// measureQuiet runs the load once undisturbed, for what chaos costs to be seen beside it. What hold
// does happens once, and what the death of a client costs shows in the gap.
func (s *session) measureQuiet(ctx context.Context) (*round, error) {
	if s.chaos == nil || s.cfg.onlyKillsClient() || s.cfg.scenario == "hold" || ctx.Err() != nil {
		return nil, nil
	}
	s.chaos.muted = true
	defer func() { s.chaos.muted = false }()
	var one round
	var err error
	s.progress.during(s.cfg.scenario+" undisturbed", s.cfg.duration, func() { one, err = s.scenario.measure(ctx) })
	return &one, err
}

// measure runs the rounds; with --yardstick its turn comes before each.
func (s *session) measure(ctx context.Context) (rounds []round, err error) {
	for i := range s.cfg.rounds {
		if ctx.Err() != nil {
			break
		}
		name := s.cfg.scenario
		if s.rival != nil {
			name = fmt.Sprintf("%s %d/%d", name, i+1, s.cfg.rounds)
			s.progress.during(fmt.Sprintf("%s %d/%d", s.rival.name(), i+1, s.cfg.rounds), s.cfg.duration, func() { err = s.rival.turn(ctx) })
			if err != nil {
				return rounds, unlessEnded(ctx, err)
			}
		}
		var one round
		s.progress.during(name, s.cfg.duration, func() { one, err = s.profiled(ctx) })
		if one.rec != nil {
			rounds = append(rounds, one)
		}
		if err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}

// profiled measures one round, the first of them under the CPU profile.
func (s *session) profiled(ctx context.Context) (round, error) {
	if err := s.out.cpu.start(); err != nil {
		return round{}, fmt.Errorf("--cpuprofile: %w", err)
	}
	one, err := s.scenario.measure(ctx)
	return one, errors.Join(err, s.out.cpu.stop())
}

// unlessEnded drops an error that only says that ctx ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *session) openEngines(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for range s.cfg.engines {
		eng, err := engine.Open(ctx, s.srv.engineConfig(s.cfg))
		if err != nil {
			return fmt.Errorf("connect to %s: %w", s.srv.where(), err)
		}
		s.engines = append(s.engines, eng)
	}
	return nil
}

func (s *session) closeEngines() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, eng := range s.engines {
		if err := eng.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close: %w", err))
		}
	}
	s.engines = nil
	return errors.Join(errs...)
}

// addStats adds what the engines counted themselves, from the first lock to the last.
func (s *session) addStats() {
	var lost int64
	for _, eng := range s.engines {
		stats := eng.Stats()
		s.report.Renewals.Sent += stats.Renewals.Sent
		s.report.Renewals.Failed += stats.Renewals.Failed
		lost += stats.Lost
	}
	s.report.Lost = max(s.report.Lost, lost) // the same leases, seen by both
}
