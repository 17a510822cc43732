package rival

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// yardstickRival is the yardstick beside a scenario: the same servers, a client for each, no engine.
type yardstickRival struct {
	nodes   []yardstick.Node
	kind    string
	run     func(context.Context, []yardstick.Node, yardstick.Options) (yardstick.Result, error)
	options yardstick.Options
	results []yardstick.Result
	srv     *topology.Server
	spent   []float64 // server CPU a pair of each turn, where known
	warmup  time.Duration
}

// NewYardstick connects the yardstick. With one operation in flight it is bare calls of the
// scripts the engine sends; otherwise the pipeline of Redisson's scripts, one for each master.
func NewYardstick(ctx context.Context, cfg *config.Config, srv *topology.Server) (Rival, error) {
	ctx, cancel := context.WithTimeout(ctx, topology.ConnectTimeout)
	defer cancel()
	r := &yardstickRival{kind: "pipeline", run: yardstick.Pipeline, srv: srv, warmup: cfg.Warmup}
	r.options = yardstick.Options{Duration: cfg.Duration, Lease: cfg.Lease, Prefix: cfg.Prefix + ":y:"}
	if cfg.Inflight == 1 {
		r.kind, r.run, r.options.Scripts = "single", yardstick.Single, engineScripts()
	}
	if err := r.connect(ctx, srv); err != nil {
		return nil, fmt.Errorf("connect the yardstick: %s", srv.Hide(err))
	}
	return r, nil
}

func (r *yardstickRival) connect(ctx context.Context, srv *topology.Server) error {
	option := yardstick.ClientOption(srv.Addrs[0])
	if named := srv.ClientOption(); srv.IsURL() || named.Sentinel.MasterSet != "" {
		option = named
		option.ForceSingleClient = true
	}
	srv.LetIn(&option)
	if srv.Sentinel != nil {
		option.InitAddress, option.Sentinel = []string{srv.Sentinel.Master.Addr()}, rueidis.SentinelOption{}
	}
	option.ClientName = srv.ClientName
	if srv.Topology != "cluster" {
		client, err := rueidis.NewClient(option)
		r.nodes = yardstick.One(client)
		return err
	}
	var err error
	r.nodes, err = yardstick.Masters(ctx, option)
	if len(r.nodes) > 1 && r.kind == "pipeline" {
		r.kind = fmt.Sprintf("%d pipelines", len(r.nodes))
	}
	if srv.Sharded {
		r.options.Publish = "SPUBLISH"
	}
	return err
}

func (r *yardstickRival) Name() string { return "yardstick" }

func (r *yardstickRival) Warm(ctx context.Context) error {
	if r.warmup <= 0 {
		return nil
	}
	o := r.options
	o.Duration = r.warmup
	_, err := r.run(ctx, r.nodes, o)
	return err
}

func (r *yardstickRival) Turn(ctx context.Context) error {
	before := r.srv.CPU(ctx)
	result, err := r.run(ctx, r.nodes, r.options)
	if err != nil {
		return fmt.Errorf("yardstick: %w", err)
	}
	if us, ok := report.CPUPerPair(before, r.srv.CPU(ctx), result.Pairs); ok {
		r.spent = append(r.spent, us)
	}
	r.results = append(r.results, result)
	return nil
}

func (r *yardstickRival) AddTo(rep *report.Report, rounds []report.Round) {
	y := &report.Yardstick{Kind: r.kind, Rounds: []report.YardstickRound{}}
	var rates, cpus []float64
	for i, one := range r.results {
		rates = append(rates, one.PairsPerSecond())
		cpus = append(cpus, float64(one.CPUPerPair().Nanoseconds())/1e3)
		if i < len(rounds) {
			y.Rounds = append(y.Rounds, report.YardstickRound{
				Yardstick: one.PairsPerSecond(),
				Scenario:  float64(rounds[i].Rec.Released) / rounds[i].Cost.Wall.Seconds(),
			})
		}
	}
	y.ServerCPU = report.Median(r.spent)
	rep.Yardstick = y
	if m := report.Median(rates); m != nil && *m > 0 {
		y.PairsPerS = *m
		ratio := rep.PairsPerS / *m
		rep.Ratio = &ratio
	}
	if m := report.Median(cpus); m != nil && *m > 0 && rep.ClientCPU != nil {
		y.ClientCPU = *m
		ratio := *rep.ClientCPU / *m
		y.CPURatio = &ratio
	}
}

func (r *yardstickRival) Close() { yardstick.CloseAll(r.nodes) }
