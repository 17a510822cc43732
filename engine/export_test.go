package engine

import (
	"log/slog"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// DeadlineOf is the exact trust deadline, which Lease.Deadline translates to wall time: histories are
// checked against it without slack.
func DeadlineOf(ls *Lease) clock.Instant { return ls.hold.Deadline() }

// Then calls fn in whoever publishes the future's result, before anything else is published.
func Then[T any](f *Future[T], fn func()) { f.then(fn) }

// Lose makes a lease lost, as a deadline that has come does: what the server has is released.
func Lose(ls *Lease) { ls.eng().watchdog.Lose(ls.hold, renew.CauseDeadline) }

// Changing reports whether a change of the lease's hold is on its way.
func Changing(ls *Lease) bool {
	sh := ls.eng().shard(ls.hold.ent.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return !ls.hold.Quiet()
}

// OutOfPatience makes the change of the lease's hold that is on its way as old as can be: the next failure
// tells its caller that the outcome is unknown.
func OutOfPatience(ls *Lease) {
	sh := ls.eng().shard(ls.hold.ent.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ls.hold.reentry().Current().Since = 1
}

// Say tells an engine's logger a line.
func Say(e *Engine, text string) { e.log(slog.LevelInfo, text) }

// AskFrom says from how many locks on that are given back together it is asked who listens.
func AskFrom(cfg *Config, locks int) { cfg.ask = locks }

// Told counts those who wait for a lock's name in its engine now, and were told that it is held.
func Told(l *Lock) (n int) {
	sh := l.eng.shard(l.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for ent := range sh.names.get(l.hash, l.key).withChildren {
		for op := range ent.ops {
			if op.Told() {
				n++
			}
		}
	}
	return n
}

// SameHold reports whether two leases are handles of one wire hold.
func SameHold(a, b *Lease) bool { return a.hold == b.hold }

// Renewing reports whether the watchdog renews a lease.
func Renewing(ls *Lease) bool { return ls.hold.Renewing() }

// ContextsOfHold counts the contexts that hang on the lease's hold.
func ContextsOfHold(ls *Lease) int {
	sh := ls.eng().shard(ls.hold.ent.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(ls.hold.contexts())
}

// StickTimingWheel has the timing wheel hang in each call until open is closed.
func StickTimingWheel(cfg *Config, open <-chan struct{}) {
	cfg.wheel.After = func(time.Duration, func()) wheel.Stopper {
		<-open
		return noTimer{}
	}
}

type noTimer struct{}

func (noTimer) Stop() bool { return false }
