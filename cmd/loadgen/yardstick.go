package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// rival is what a scenario is measured beside, in turns.
type rival interface {
	// name is for the progress line.
	name() string
	// warm runs it once, unmeasured.
	warm(ctx context.Context) error
	// turn runs it once.
	turn(ctx context.Context) error
	// addTo sets the medians side by side, when the scenario has finished its report.
	addTo(r *report, rounds []round)
	close()
}

// yardstickRival is the yardstick beside a scenario: the same servers, a client for each, no engine.
type yardstickRival struct {
	nodes   []yardstick.Node
	kind    string
	run     func(context.Context, []yardstick.Node, yardstick.Options) (yardstick.Result, error)
	options yardstick.Options
	results []yardstick.Result
	srv     *server
	spent   []float64 // server CPU a pair of each turn, where known
	warmup  time.Duration
}

// newYardstickRival connects the yardstick. With one operation in flight it is bare calls of the
// scripts the engine sends; otherwise the pipeline of Redisson's scripts, one for each master.
func newYardstickRival(ctx context.Context, cfg *config, srv *server) (rival, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	r := &yardstickRival{kind: "pipeline", run: yardstick.Pipeline, srv: srv, warmup: cfg.warmup}
	r.options = yardstick.Options{Duration: cfg.duration, Lease: cfg.lease, Prefix: cfg.prefix + ":y:"}
	if cfg.inflight == 1 {
		r.kind, r.run, r.options.Scripts = "single", yardstick.Single, engineScripts()
	}
	if err := r.connect(ctx, srv); err != nil {
		return nil, fmt.Errorf("connect the yardstick: %s", srv.hide(err))
	}
	return r, nil
}

func (r *yardstickRival) connect(ctx context.Context, srv *server) error {
	option := yardstick.ClientOption(srv.addrs[0])
	option.Username, option.Password = srv.user, srv.password
	if srv.isURL() {
		option = srv.clientOption()
		option.ForceSingleClient = true
	}
	if srv.sentinel != nil {
		option.InitAddress = []string{srv.sentinel.Master.Addr()}
	}
	option.ClientName = srv.clientName
	if srv.topology != "cluster" {
		client, err := rueidis.NewClient(option)
		r.nodes = yardstick.One(client)
		return err
	}
	var err error
	r.nodes, err = yardstick.Masters(ctx, option)
	if len(r.nodes) > 1 && r.kind == "pipeline" {
		r.kind = fmt.Sprintf("%d pipelines", len(r.nodes))
	}
	if srv.sharded {
		r.options.Publish = "SPUBLISH"
	}
	return err
}

func (r *yardstickRival) name() string { return "yardstick" }

func (r *yardstickRival) warm(ctx context.Context) error {
	if r.warmup <= 0 {
		return nil
	}
	o := r.options
	o.Duration = r.warmup
	_, err := r.run(ctx, r.nodes, o)
	return err
}

func (r *yardstickRival) turn(ctx context.Context) error {
	before := r.srv.cpu(ctx)
	result, err := r.run(ctx, r.nodes, r.options)
	if err != nil {
		return fmt.Errorf("yardstick: %w", err)
	}
	if us, ok := cpuPerPair(before, r.srv.cpu(ctx), result.Pairs); ok {
		r.spent = append(r.spent, us)
	}
	r.results = append(r.results, result)
	return nil
}

func (r *yardstickRival) addTo(rep *report, rounds []round) {
	y := &yardstickReport{Kind: r.kind, Rounds: []yardstickRound{}}
	var rates, cpus []float64
	for i, one := range r.results {
		rates = append(rates, one.PairsPerSecond())
		cpus = append(cpus, float64(one.CPUPerPair().Nanoseconds())/1e3)
		if i < len(rounds) {
			y.Rounds = append(y.Rounds, yardstickRound{
				Yardstick: one.PairsPerSecond(),
				Scenario:  float64(rounds[i].rec.released) / rounds[i].cost.wall.Seconds(),
			})
		}
	}
	y.ServerCPU = median(r.spent)
	rep.Yardstick = y
	if m := median(rates); m != nil && *m > 0 {
		y.PairsPerS = *m
		ratio := rep.PairsPerS / *m
		rep.Ratio = &ratio
	}
	if m := median(cpus); m != nil && *m > 0 && rep.ClientCPU != nil {
		y.ClientCPU = *m
		ratio := *rep.ClientCPU / *m
		y.CPURatio = &ratio
	}
}

func (r *yardstickRival) close() { yardstick.CloseAll(r.nodes) }
