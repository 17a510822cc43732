package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// The kinds of locks that --kind names.
const (
	kindLock   = "lock"
	kindSpin   = "spin"
	kindFenced = "fenced"
	kindFair   = "fair"
	kindRead   = "read"
	kindWrite  = "write"

	kindRW = "rw" // both halves, in the scenario rw; no value of --kind
)

var lockKinds = []string{kindLock, kindSpin, kindFenced, kindFair, kindRead, kindWrite}

// The pauses of a spinning waiter: Redisson's.
const (
	spinFirst = time.Millisecond
	spinMost  = 128 * time.Millisecond
)

// closerLook are the scenarios that contend for locks of a kind of their own.
var closerLook = map[string]string{"fenced": kindFenced, "fair": kindFair, "rw": kindRW}

// contends reports whether the scenario has callers that want the same locks.
func (c *config) contends() bool { return c.scenario == "contend" || closerLook[c.scenario] != "" }

// newLock is the one place where a handle of a kind is made, under the watchdog.
func newLock(e *engine.Engine, kind, name string, lease time.Duration) *engine.Lock {
	watched := engine.WatchdogLease(lease)
	switch kind {
	case kindSpin:
		return e.Lock(name, watched, engine.Spin(spinFirst, spinMost))
	case kindFenced:
		return e.FencedLock(name, watched).Lock
	case kindFair:
		return e.FairLock(name, watched).Lock
	case kindRead:
		return e.RWLock(name, watched).ReadLock()
	case kindWrite:
		return e.RWLock(name, watched).WriteLock()
	default:
		return e.Lock(name, watched)
	}
}

// telling is how often a release publishes.
type telling struct {
	least, most int64
	note        string
}

// tells says how often the release of a kind publishes. A spinning waiter asks by itself; that of a fair
// lock is told only if somebody waits and is not of the releasing engine, and once more by who asks while it is free
// and somebody else is next.
func tells(kind string, contended bool) telling {
	switch {
	case kind == kindFair && contended:
		return telling{0, 2, "one acquiring command, one HDEL and at most two PUBLISH a pair"}
	case kind == kindSpin, kind == kindFair:
		return telling{0, 0, "one acquiring command, one HDEL and no PUBLISH a pair"}
	}
	return telling{1, 1, "one acquiring command, one HDEL and one PUBLISH a pair"}
}

// checkKind refuses a kind that does not fit the scenario.
func (c *config) checkKind() error {
	if !slices.Contains(lockKinds, c.kind) {
		return fmt.Errorf("--kind must be one of %s, not %q", strings.Join(lockKinds, ", "), c.kind)
	}
	if c.kind == kindRead && c.scenario == "contend" {
		return fmt.Errorf("--kind %s: readers do not exclude each other, so nobody would contend", c.kind)
	}
	return nil
}
