package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/chaos"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/rival"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// closeTimeout bounds the end of an engine.
const closeTimeout = 30 * time.Second

// session is one run from the first connection to the report.
type session struct {
	cfg    *config.Config
	out    *outputs
	stderr io.Writer

	srv      *topology.Server
	engines  []*engine.Engine
	scenario scenario.Scenario
	rival    rival.Rival       // nil: none runs beside the scenario
	witness  *witness.Observer // nil: this process runs alone
	progress *progress
	chaos    *chaos.Chaos // nil: nothing is disturbed
	report   *report.Report

	scenarios map[string]func(scenario.Stage) scenario.Scenario
}

// run does the whole of it. A nil report means that nothing ran, and status says why.
func (s *session) run(ctx context.Context) (r *report.Report, status int) {
	if s.cfg.Victim {
		go chaos.EndWithInput() // lives as long as the process
	}
	stopPprof, err := servePprof(s.cfg.Pprof, s.out.cpu.shared, s.stderr)
	if err != nil {
		return s.fail(ctx, err, report.StatusUsage)
	}
	defer stopPprof()
	if s.srv, err = topology.Open(ctx, s.cfg, s.stderr); err != nil {
		return s.fail(ctx, err, report.StatusConnect)
	}
	defer s.srv.Close()
	leaveProcessors(s.cfg, s.srv)
	stopListening, err := s.srv.Listen(ctx, s.cfg.Listen, s.cfg.Prefix)
	if err != nil {
		return s.fail(ctx, err, report.StatusConnect)
	}
	defer stopListening()
	forget, err := chaos.ShareWitness(s.cfg)
	if err != nil {
		return s.fail(ctx, err, report.StatusFailed)
	}
	defer forget()
	if s.witness, err = witness.Open(s.cfg); err != nil {
		return s.fail(ctx, err, report.StatusUsage)
	}
	defer func() { _ = s.witness.Leave() }() // the file is mapped no longer, with or without an error
	if err := s.openEngines(ctx); err != nil {
		status := report.StatusConnect
		if errors.Is(err, engine.ErrConfig) {
			status = report.StatusUsage
		}
		return s.fail(ctx, errors.Join(err, s.closeEngines()), status)
	}
	switch {
	case s.cfg.Mutex:
		s.rival = rival.NewMutex(s.cfg, s.witness)
	case s.cfg.Yardstick:
		if s.rival, err = rival.NewYardstick(ctx, s.cfg, s.srv); err != nil {
			return s.fail(ctx, errors.Join(err, s.closeEngines()), report.StatusConnect)
		}
	}
	if s.rival != nil {
		defer s.rival.Close()
	}
	crowd := meter.WatchCrowd()
	s.report = report.New(s.cfg, s.srv)
	s.play(ctx)
	s.report.GoroutinesMax = crowd.Stop()
	if err := s.closeEngines(); err != nil {
		s.report.Fail("%v", err)
	}
	s.report.Interrupted = ctx.Err() != nil
	s.report.Settle()
	return s.report, s.report.Status
}

// fail says why nothing ran. What cannot be had any more because the user has ended the run is not to blame.
func (s *session) fail(ctx context.Context, err error, status int) (*report.Report, int) {
	if ctx.Err() != nil {
		say(s.stderr, "loadgen: interrupted before the run began\n")
		return nil, report.StatusInterrupted
	}
	say(s.stderr, "loadgen: %v\n", err)
	return nil, status
}

// play takes the scenario through its acts. What goes wrong ends up in the report.
func (s *session) play(ctx context.Context) {
	s.chaos = chaos.New(s.cfg, s.srv, s.engines, s.witness)
	s.scenario = s.scenarios[s.cfg.Scenario](scenario.Stage{
		Cfg: s.cfg, Srv: s.srv, Engines: s.engines, Meter: meter.NewCostMeter(), Chaos: s.chaos, Witness: s.witness,
	})
	s.progress = newProgress(s.cfg, s.stderr, s.scenario.Pairs)
	note := func(err error) {
		if err != nil {
			s.report.Fail("%v", err)
		}
	}
	var rounds []report.Round
	var quiet *report.Round
	err := s.scenario.Prepare(ctx)
	if note(err); err == nil {
		note(s.warm(ctx))
		if s.cfg.Victim {
			say(s.stderr, "%s\n", chaos.Measuring)
		}
		quiet, err = s.measureQuiet(ctx)
		note(err)
		rounds, err = s.measure(ctx)
		note(err)
	}
	s.report.Interrupted = ctx.Err() != nil
	s.report.AddRounds(s.cfg, rounds)
	s.chaos.AddTo(s.report, quiet)
	note(s.scenario.Finish(context.WithoutCancel(ctx), s.report))
	if s.rival != nil {
		s.rival.AddTo(s.report, rounds)
	}
	s.addStats()
}

func (s *session) warm(ctx context.Context) error {
	if s.cfg.Warmup == 0 || ctx.Err() != nil {
		return nil
	}
	s.progress.during("warming up", s.cfg.Warmup, func() { s.scenario.Warm(ctx) })
	if s.rival == nil {
		return nil
	}
	return unlessEnded(ctx, s.rival.Warm(ctx))
}

// measureQuiet runs the load once undisturbed, for what chaos costs to be seen beside it. What hold
// does happens once, and what the death of a client costs shows in the gap.
func (s *session) measureQuiet(ctx context.Context) (*report.Round, error) {
	if s.chaos == nil || s.cfg.OnlyKillsClient() || s.cfg.Scenario == "hold" || ctx.Err() != nil {
		return nil, nil
	}
	s.chaos.Muted = true
	defer func() { s.chaos.Muted = false }()
	var one report.Round
	var err error
	s.progress.during(s.cfg.Scenario+" undisturbed", s.cfg.Duration, func() { one, err = s.scenario.Measure(ctx) })
	return &one, err
}

// measure runs the rounds; with --yardstick its turn comes before each.
func (s *session) measure(ctx context.Context) (rounds []report.Round, err error) {
	for i := range s.cfg.Rounds {
		if ctx.Err() != nil {
			break
		}
		name := s.cfg.Scenario
		if s.rival != nil {
			name = fmt.Sprintf("%s %d/%d", name, i+1, s.cfg.Rounds)
			s.progress.during(fmt.Sprintf("%s %d/%d", s.rival.Name(), i+1, s.cfg.Rounds), s.cfg.Duration, func() { err = s.rival.Turn(ctx) })
			if err != nil {
				return rounds, unlessEnded(ctx, err)
			}
		}
		var one report.Round
		s.progress.during(name, s.cfg.Duration, func() { one, err = s.profiled(ctx) })
		if one.Rec != nil {
			rounds = append(rounds, one)
		}
		if err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}

// profiled measures one round, the first of them under the CPU profile.
func (s *session) profiled(ctx context.Context) (report.Round, error) {
	if err := s.out.cpu.start(); err != nil {
		return report.Round{}, fmt.Errorf("--cpuprofile: %w", err)
	}
	before := s.reconnects()
	one, err := s.scenario.Measure(ctx)
	one.Reconnected = s.reconnects() > before
	return one, errors.Join(err, s.out.cpu.stop())
}

// reconnects is how many connections the engines have made again.
func (s *session) reconnects() (n int64) {
	for _, eng := range s.engines {
		for _, node := range eng.Stats().Nodes {
			n += node.Reconnects
		}
	}
	return n
}

// unlessEnded drops an error that only says that ctx ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *session) openEngines(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topology.ConnectTimeout)
	defer cancel()
	for range s.cfg.Engines {
		eng, err := engine.Open(ctx, s.srv.EngineConfig(s.cfg))
		if err != nil {
			return fmt.Errorf("connect to %s: %w", s.srv.Where(), err)
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
		s.report.Renewals.Add(&stats)
		lost += stats.Lost
	}
	s.report.Lost = max(s.report.Lost, lost) // the same leases, seen by both
}
