package scenario

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/chaos"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/pace"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// lateSlack is how far the clocks may be apart in which a deadline is kept and looked at.
const lateSlack = 10 * time.Millisecond

// watchEvery is how often held locks of a dead master are looked at.
const watchEvery = 200 * time.Millisecond

// keepRenewed lets the watchdog keep the locks for as long as was asked for, and where a master was killed one
// lease longer than the cluster needed to replace it: then every lock has been renewed at the new
// master, or is lost. It returns the locks that a holder believed in for too long.
func (s *holdScenario) keepRenewed(ctx context.Context) (late map[int]bool) {
	late = make(map[int]bool)
	until := time.Now().Add(s.Cfg.Duration)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		wait := time.Until(until)
		f := s.Chaos.Death()
		switch {
		case f == nil:
		case f.Replaced.IsZero():
			wait = min(chaos.LongestStep, chaos.LongestStep-time.Since(f.At))
		default:
			wait = max(wait, time.Until(f.Replaced.Add(s.Cfg.Lease)))
		}
		if wait <= 0 || ctx.Err() != nil {
			return late
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if f != nil {
			s.lookForLate(f, late)
		}
	}
}

func (s *holdScenario) lookForLate(f *chaos.MasterDeath, late map[int]bool) {
	for i, lease := range s.held.Leases {
		if lease != nil && f.Of(s.held.Name(i)) {
			noteLate(late, i, lease)
		}
	}
}

// noteLate notes a lease that is past its deadline and does not say that it is lost.
func noteLate(late map[int]bool, i int, lease believer) {
	deadline, now := newBelief(i, lease).deadline, time.Now()
	if now.After(deadline.Add(lateSlack)) && !lease.Lost() && !lease.Deadline().After(now) {
		late[i] = true
	}
}

// auditDeadMaster says what became of the dead master's locks, and gives up those that are lost; nil if none
// died.
func (s *holdScenario) auditDeadMaster(late map[int]bool) *report.Failover {
	f := s.Chaos.Death()
	if f == nil {
		return nil
	}
	out := &report.Failover{
		Master: f.Addr, ToldLate: int64(len(late)),
		Lost: s.beliefs.lostThere, LostElsewhere: s.beliefs.lost - s.beliefs.lostThere,
	}
	if !f.Replaced.IsZero() {
		out.ReplacedAfter = f.Replaced.Sub(f.At).Seconds()
	}
	for i, lease := range s.held.Leases {
		if lease != nil && f.Of(s.held.Name(i)) {
			out.Locks++
		}
	}
	s.held.Forget(f.Of)
	return out
}

// relock takes all names of the dead master once more. Who lost a lock there may find its key on the
// replica for another lease.
func (s *holdScenario) relock(ctx context.Context) {
	if s.failover == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Cfg.Lease+pace.DrainGrace)
	defer cancel()
	out := s.failover
	out.Relocked, out.NotRelocked, out.Problem = s.held.Again(ctx, s.Chaos.Death().Of)
}
