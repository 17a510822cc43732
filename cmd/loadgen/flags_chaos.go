package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

var chaosKinds = []string{
	config.ChaosSlots, config.ChaosPause, config.ChaosKillConn, config.ChaosFlush,
	config.ChaosFailover, config.ChaosKill, config.ChaosClient,
}

const (
	minChaosEvery = 10 * time.Millisecond
	maxChaosEvery = time.Hour
	// electorate is how few masters can elect the successor of one of them.
	electorate = 3
	// clientMargin is for a second client to begin. What the rest still wait for at the end, they get.
	clientMargin = 2 * time.Second
)

func addChaosFlags(f *pflag.FlagSet, c *config.Config) {
	f.StringSliceVar(&c.Chaos, "chaos", nil,
		"disturb loadgen's own servers while measuring,\n`kinds` with commas between:\n"+
			"slots (one moves to another master, then back),\npause (a master stands still), kill-conn, script-flush,\n"+
			"failover (a replica is told to take over),\nkill (one master dies, once),\n"+
			"client (a second loadgen of the same locks is killed, once)")
	f.DurationVar(&c.ChaosEvery, "chaos-every", 500*time.Millisecond, "time from one disturbance to the next")
	f.Uint64Var(&c.ChaosSeed, "chaos-seed", 1, "seed of which disturbance hits whom")
}

// checkChaos refuses disturbances that the topology does not know, or of servers that are not ours.
func (c *flags) checkChaos(changed func(string) bool) error {
	if len(c.Chaos) == 0 {
		for _, flag := range []string{"chaos", "chaos-every", "chaos-seed"} {
			if changed(flag) {
				return fmt.Errorf("--%s needs --chaos with one or more of %s", flag, strings.Join(chaosKinds, ", "))
			}
		}
		return nil
	}
	if len(c.Addrs) > 0 && !c.OnlyKillsClient() {
		return errors.New("--chaos disturbs the servers, so they must be loadgen's own: leave --addr away")
	}
	if c.Yardstick {
		return errors.New("--chaos: the yardstick knows nothing but servers that stay as they are, leave --yardstick away")
	}
	if c.ChaosEvery < minChaosEvery || c.ChaosEvery > maxChaosEvery {
		return fmt.Errorf("--chaos-every must be between %v and %v, not %v", minChaosEvery, maxChaosEvery, c.ChaosEvery)
	}
	for i, kind := range c.Chaos {
		if err := c.checkChaosKind(kind); err != nil {
			return err
		}
		if slices.Contains(c.Chaos[:i], kind) {
			return fmt.Errorf("--chaos names %s twice", kind)
		}
	}
	return nil
}

func (c *flags) checkChaosKind(kind string) error {
	switch {
	case !slices.Contains(chaosKinds, kind):
		return fmt.Errorf("--chaos must be one or more of %s, not %q", strings.Join(chaosKinds, ", "), kind)
	case (kind == config.ChaosPause || kind == config.ChaosClient) && !redisproc.CanPause:
		return fmt.Errorf("--chaos %s stops a process for a while, which this system cannot do", kind)
	case kind == config.ChaosClient:
		return c.checkKillClient()
	case kind == config.ChaosSlots && c.Cluster < 2:
		return errors.New("--chaos slots needs --cluster with at least 2 masters: a slot goes from one to another")
	case (kind == config.ChaosFailover || kind == config.ChaosKill) && c.Replicas == 0:
		return fmt.Errorf("--chaos %s needs --sentinel, or --cluster with --replicas: somebody must be there to take over", kind)
	case kind == config.ChaosKill && !c.Sentinel && c.Cluster < electorate:
		return fmt.Errorf("--chaos kill needs --cluster with at least %d masters: the others elect the successor", electorate)
	}
	return nil
}

// checkKillClient refuses what would show nothing, or cannot be shared with a second process.
func (c *flags) checkKillClient() error {
	switch {
	case c.Scenario == "hold":
		return errors.New("--chaos client has no effect with --scenario hold: nobody waits for what the other client had")
	case c.Rate > 0:
		return errors.New("--chaos client: with --rate callers rest, which would look like a gap")
	case c.Mutex:
		return errors.New("--chaos client: a mutex is of one process, leave --mutex away")
	case c.WitnessProcs > 1:
		return errors.New("--chaos client starts a second process by itself, leave --witness-procs away")
	case c.Locks > 0:
		return errors.New("--chaos client: the other client would want the --locks that are kept")
	case !c.HasLease() && c.Duration < 2*clientMargin:
		return fmt.Errorf("--chaos client: the other client takes a while to begin, so --duration must be at least %v, not %v", 2*clientMargin, c.Duration)
	case c.HasLease() && c.Duration < c.Lease+clientMargin:
		return fmt.Errorf("--chaos client: the others wait for the lease of the one that was killed, so --duration must be at least --lease and %v, not %v", clientMargin, c.Duration)
	}
	return nil
}
