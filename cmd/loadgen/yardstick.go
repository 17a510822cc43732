package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// rival is the yardstick beside a scenario: the same server, one client, no engine.
type rival struct {
	client  rueidis.Client
	kind    string
	run     func(context.Context, rueidis.Client, yardstick.Options) (yardstick.Result, error)
	options yardstick.Options
	results []yardstick.Result
}

// newRival connects the yardstick. With one operation in flight it is bare calls of the
// scripts the engine sends; otherwise the pipeline of Redisson's scripts.
func newRival(cfg *config, srv *server) (*rival, error) {
	option := yardstick.ClientOption(srv.addrs[0])
	if srv.isURL() {
		option = srv.clientOption()
		option.ForceSingleClient = true
	}
	option.ClientName = srv.clientName
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect the yardstick: %w", err)
	}
	r := &rival{client: client, kind: "pipeline", run: yardstick.Pipeline}
	r.options = yardstick.Options{Duration: cfg.duration, Lease: cfg.lease, Prefix: cfg.prefix + ":y:"}
	if cfg.inflight == 1 {
		r.kind, r.run, r.options.Scripts = "single", yardstick.Single, engineScripts()
	}
	return r, nil
}

// warm runs the yardstick unmeasured.
func (r *rival) warm(ctx context.Context, length time.Duration) error {
	if length <= 0 {
		return nil
	}
	o := r.options
	o.Duration = length
	_, err := r.run(ctx, r.client, o)
	return err
}

// turn runs the yardstick once.
func (r *rival) turn(ctx context.Context) error {
	result, err := r.run(ctx, r.client, r.options)
	if err != nil {
		return fmt.Errorf("yardstick: %w", err)
	}
	r.results = append(r.results, result)
	return nil
}

// addTo sets the medians side by side.
func (r *rival) addTo(rep *report, rounds []round) {
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

func (r *rival) close() { r.client.Close() }
