package pace

import (
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
)

// ErrorPause is what a client waits after an error, so that a server that refuses
// everything is not asked a million times a second.
const ErrorPause = time.Millisecond

// DrainGrace is how long operations that have begun may take to end after a phase is
// over. What is still unanswered then is given up and counted as an error.
const DrainGrace = 15 * time.Second

// GraceOf is DrainGrace, and longer by a lease where a release may be forgotten: its lock is taken until then.
func GraceOf(cfg *config.Config) time.Duration {
	if cfg.LosesGrants() {
		return cfg.Lease + DrainGrace
	}
	return DrainGrace
}

// Phase is one stretch of load: when it began, how long it may start operations, and
// whether somebody wants it to end sooner.
type Phase struct {
	Began   time.Time
	length  time.Duration
	stop    chan struct{} // closed when the phase is to end early
	stopped atomic.Bool   // the same, for the hot loop
}

// NewPhase begins a phase now.
func NewPhase(length time.Duration) *Phase {
	return &Phase{Began: time.Now(), length: length, stop: make(chan struct{})}
}

// Elapsed is the time since the phase began: one reading of the monotonic clock.
func (p *Phase) Elapsed() time.Duration { return time.Since(p.Began) }

// Over reports whether nothing new may begin at now.
func (p *Phase) Over(now time.Duration) bool { return now >= p.length || p.stopped.Load() }

// End stops the phase early. Only its watcher calls it, once.
func (p *Phase) End() {
	p.stopped.Store(true)
	close(p.stop)
}
