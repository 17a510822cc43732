package main

import (
	"context"
	"fmt"
	"time"
)

// failoverReport is what became of the locks of the master that --chaos kill killed, in the scenario
// hold. Redis replicates asynchronously, so the replica may not know of some of them: these may be
// lost, if their holders are told in time. All others may not.
type failoverReport struct {
	Master        string  `json:"master"`
	Locks         int64   `json:"locks"` // held there when it died
	ReplacedAfter float64 `json:"replaced_after_s"`
	Lost          int64   `json:"lost"`           // of them
	LostElsewhere int64   `json:"lost_elsewhere"` // on masters that lived
	ToldLate      int64   `json:"told_late"`      // believed in beyond their deadline
	Relocked      int64   `json:"relocked"`       // of all its names, taken again at the end
	NotRelocked   int64   `json:"not_relocked"`

	problem error // of the first that could not be locked again
}

// lateSlack is how far the clocks may be apart in which a deadline is kept and looked at.
const lateSlack = 10 * time.Millisecond

// watchEvery is how often held locks of a dead master are looked at.
const watchEvery = 200 * time.Millisecond

// keep lets the watchdog keep the locks for as long as was asked for, and where a master was killed one
// lease longer than the cluster needed to replace it: then every lock has been renewed at the new
// master, or is lost. It returns the locks that a holder believed in for too long.
func (s *holdScenario) keep(ctx context.Context) (late map[int]bool) {
	late = make(map[int]bool)
	until := time.Now().Add(s.cfg.duration)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		wait := time.Until(until)
		f := s.chaos.fall()
		switch {
		case f == nil:
		case f.replaced.IsZero():
			wait = min(longestStep, longestStep-time.Since(f.at))
		default:
			wait = max(wait, time.Until(f.replaced.Add(s.cfg.lease)))
		}
		if wait <= 0 || ctx.Err() != nil {
			return late
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		s.lookForLate(f, late)
	}
}

func (s *holdScenario) lookForLate(f *fall, late map[int]bool) {
	for i, lease := range s.held.leases {
		if lease != nil && f.of(s.held.name(i)) {
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

// mourn says what became of the dead master's locks, and gives up those that are lost; nil if none
// died.
func (s *holdScenario) mourn(late map[int]bool) *failoverReport {
	f := s.chaos.fall()
	if f == nil {
		return nil
	}
	out := &failoverReport{
		Master: f.addr, ToldLate: int64(len(late)),
		Lost: s.beliefs.lostThere, LostElsewhere: s.beliefs.lost - s.beliefs.lostThere,
	}
	if !f.replaced.IsZero() {
		out.ReplacedAfter = f.replaced.Sub(f.at).Seconds()
	}
	for i, lease := range s.held.leases {
		if lease != nil && f.of(s.held.name(i)) {
			out.Locks++
		}
	}
	s.held.forget(f.of)
	return out
}

// relock takes all names of the dead master once more. Who lost a lock there may find its key on the
// replica for another lease.
func (s *holdScenario) relock(ctx context.Context) {
	if s.failover == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.lease+drainGrace)
	defer cancel()
	out := s.failover
	out.Relocked, out.NotRelocked, out.problem = s.held.again(ctx, s.chaos.fall().of)
}

func (f *failoverReport) addTo(r *report) {
	if f == nil {
		return
	}
	r.Failover = f
	if f.ReplacedAfter == 0 {
		r.fail("nobody took over from %s", f.Master)
	}
	if f.ToldLate > 0 {
		r.fail("%d locks of %s were believed in beyond their deadline", f.ToldLate, f.Master)
	}
	if f.NotRelocked > 0 {
		r.fail("%d names of %s could not be locked again: %v", f.NotRelocked, f.Master, f.problem)
	}
}

func (f *failoverReport) rows() [][2]string {
	return [][2]string{
		{"killed", fmt.Sprintf("%s with %s locks, replaced after %.1f s", f.Master, count(f.Locks), f.ReplacedAfter)},
		{"lost with it", fmt.Sprintf("%s, told late %s; on others %s", count(f.Lost), count(f.ToldLate), count(f.LostElsewhere))},
		{"its names", fmt.Sprintf("%s locked again, %s not", count(f.Relocked), count(f.NotRelocked))},
	}
}
