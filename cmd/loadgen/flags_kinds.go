package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
)

var lockKinds = []string{
	config.KindLock, config.KindSpin, config.KindFenced, config.KindFair, config.KindRead, config.KindWrite,
}

// checkKind refuses a kind that does not fit the scenario.
func (c *flags) checkKind() error {
	if !slices.Contains(lockKinds, c.Kind) {
		return fmt.Errorf("--kind must be one of %s, not %q", strings.Join(lockKinds, ", "), c.Kind)
	}
	if c.Kind == config.KindRead && c.Scenario == "contend" {
		return fmt.Errorf("--kind %s: readers do not exclude each other, so nobody would contend", c.Kind)
	}
	if c.Linger > 0 && (c.Kind != config.KindLock || c.Scenario != "lock" && c.Scenario != "contend") {
		return errors.New("--linger is for plain locks: --scenario lock or contend, without another --kind")
	}
	return nil
}

// defaultTake is the most permits of one turn, where there are as many.
const (
	defaultPermits = 8
	defaultTake    = 3
	defaultCount   = 8
)

func addCountedFlags(f *pflag.FlagSet, c *config.Config) {
	f.IntVar(&c.Permits, "permits", defaultPermits, "semaphore, permits: how many permits there are")
	f.IntVar(&c.Take, "take", 0,
		fmt.Sprintf("semaphore, permits: each turn takes one to so many of them, by chance\n(default %d, or all if there are fewer)", defaultTake))
	f.IntVar(&c.Count, "count", defaultCount, "latch: how often each is counted down until it opens")
}

func (c *flags) settleSemaphore() {
	if c.Take == 0 {
		c.Take = min(defaultTake, c.Permits)
	}
}
