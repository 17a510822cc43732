package load

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// The pauses of a spinning waiter: Redisson's.
const (
	spinFirst = time.Millisecond
	spinMost  = 128 * time.Millisecond
)

// NewLock is the one place where a handle of a kind is made, under the watchdog.
func NewLock(e *engine.Engine, cfg *config.Config, kind, name string) *engine.Lock {
	watched := engine.WatchdogLease(cfg.Lease)
	if cfg.Linger > 0 {
		return e.Lock(name, watched, engine.Linger(cfg.Linger))
	}
	switch kind {
	case config.KindSpin:
		return e.Lock(name, watched, engine.Spin(spinFirst, spinMost))
	case config.KindFenced:
		return e.FencedLock(name, watched).Lock
	case config.KindFair:
		return e.FairLock(name, watched).Lock
	case config.KindRead:
		return e.RWLock(name, watched).ReadLock()
	case config.KindWrite:
		return e.RWLock(name, watched).WriteLock()
	default:
		return e.Lock(name, watched)
	}
}
