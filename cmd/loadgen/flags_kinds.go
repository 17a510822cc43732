package main

import (
	"fmt"
	"slices"
	"strings"

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
	return nil
}
