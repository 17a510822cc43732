package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/load"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// holdScenario takes many locks, keeps them under the watchdog, and then asks the server,
// past the engine, whether it thinks the same of each.
type holdScenario struct {
	Stage
	held *load.Held
	rec  *meter.Recorder

	heapPerLock float64
	kept        meter.Cost // between the last grant and the first release
	beliefs     audit
	unknown     bool  // the server did not answer
	left        int64 // keys still there after the releases
	failover    *report.Failover
}

func newHoldScenario(s Stage) Scenario {
	return &holdScenario{Stage: s, rec: meter.NewRecorder(), held: load.NewHeld(s.Cfg, s.Engines)}
}

func (s *holdScenario) Prepare(context.Context) error { return nil }

func (s *holdScenario) Warm(context.Context) {}

// Measure takes the locks, keeps them, looks at them and gives them back. What a pair
// cost is taking and giving alone; the time between has its own account.
func (s *holdScenario) Measure(ctx context.Context) (report.Round, error) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Cfg.Duration+2*load.HoldLimit)
	defer cancel()
	r := report.Round{Rec: s.rec, Kind: config.KindLock}
	without := meter.HeapInUse()
	r.Before = s.Srv.Snapshot(work)
	began := s.Meter.Read()
	s.held.Take(ctx, s.rec)
	taken := s.Meter.Read()
	if s.rec.Granted > 0 {
		s.heapPerLock = (float64(meter.HeapInUse()) - float64(without)) / float64(s.rec.Granted)
	}

	keepFrom := s.Meter.Read()
	end := s.Chaos.Begin(ctx)
	late := s.keepRenewed(ctx)
	r.Disturbed = s.Chaos.KindsNow()
	end()
	s.kept = s.Meter.Read().Minus(keepFrom)

	var err error
	if s.beliefs, err = s.auditOnceRenewed(work); err != nil {
		s.unknown = true
		err = fmt.Errorf("compare with the server: %w", err)
	}
	s.failover = s.auditDeadMaster(late)
	giveFrom := s.Meter.Read()
	s.held.Give(work, ctx, s.rec)
	r.Cost = s.Meter.Read().Minus(giveFrom).Plus(taken.Minus(began))
	r.After = s.Srv.Snapshot(work)
	s.relock(work)
	var countErr error
	s.left, countErr = s.Srv.CountKeys(work, s.Cfg.Locks, s.held.Name)
	return r, errors.Join(err, countErr)
}

func (s *holdScenario) Finish(_ context.Context, r *report.Report) error {
	r.AddViolations(s.held.Ledger)
	r.Held, r.Unknown = s.beliefs.held, s.unknown
	r.Lost = max(r.Lost, s.beliefs.lost) // a release of the same ones says so again
	s.failover.AddTo(r)
	r.HeapPerLock = &s.heapPerLock
	r.KeptS = s.kept.Wall.Seconds()
	r.Mismatches, r.Behind = s.beliefs.mismatches, s.beliefs.behind
	if s.kept.CPUKnown && s.kept.Wall > 0 {
		share := s.kept.CPU.Seconds() / s.kept.Wall.Seconds()
		r.KeepingCPU = &share
	}
	if s.beliefs.mismatches > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d of %d locks are not on the server what the engine believes", s.beliefs.mismatches, s.Cfg.Locks))
		r.Failures = append(r.Failures, s.beliefs.told...)
	}
	r.AddLeft(s.left)
	return nil
}

func (s *holdScenario) Pairs() int64 { return s.rec.Live.Load() / 2 }

// audit is what comparing the engine's belief with the server's came to.
type audit struct {
	held       int64 // on the server, under the field the engine says
	lost       int64 // the engine knows it has lost them
	lostThere  int64 // of those, on the master that was killed
	mismatches int64
	behind     int64    // were mismatches right after a failover, and agreed once renewed
	told       []string // the first few, in words
}

const mismatchesTold = 5

// auditEvery is the pause between two audits after a failover.
const auditEvery = 100 * time.Millisecond

// auditOnceRenewed is audit. Where a replica is in the place of a master that lived, the old master may have taken
// renewals that the new one never saw: nobody keeps clients from it meanwhile, as CLUSTER FAILOVER does.
// The next renewal puts that right, so engine and server have a lease's time to agree again.
func (s *holdScenario) auditOnceRenewed(ctx context.Context) (audit, error) {
	a, err := s.audit(ctx)
	behind, until := a.mismatches, time.Now().Add(s.Cfg.Lease)
	for err == nil && a.mismatches > 0 && time.Now().Before(until) && ctx.Err() == nil && s.Chaos.ReplicaMayBeBehind(ctx) {
		time.Sleep(auditEvery)
		a, err = s.audit(ctx)
	}
	a.behind = behind - a.mismatches
	return a, err
}

// audit asks the server for owner and expiry of every lock that was granted.
func (s *holdScenario) audit(ctx context.Context) (audit, error) {
	var a audit
	for first := 0; first < len(s.held.Leases); first += topology.Batch {
		if err := s.auditSome(ctx, &a, first, min(first+topology.Batch, len(s.held.Leases))); err != nil {
			return a, err
		}
	}
	return a, nil
}

// belief is what the engine thinks of one lock before the server is asked.
type belief struct {
	lock     int
	owner    string
	deadline time.Time
	lost     bool
}

// A believer is a lease, as far as it says what its holder may believe.
type believer interface {
	OwnerID() string
	Deadline() time.Time
	Lost() bool
}

// newBelief reads what the engine thinks. Deadline puts two clocks together, and whatever
// passes between reading them makes it later than meant; that is at most what the call
// took, and taken off.
func newBelief(i int, lease believer) belief {
	began := time.Now()
	deadline := lease.Deadline()
	return belief{i, lease.OwnerID(), deadline.Add(-time.Since(began)), lease.Lost()}
}

func (s *holdScenario) auditSome(ctx context.Context, a *audit, first, end int) error {
	b := s.Srv.Client.B()
	cmds := make([]rueidis.Completed, 0, 2*(end-first))
	beliefs := make([]belief, 0, end-first)
	for i := first; i < end; i++ {
		lease := s.held.Leases[i]
		if lease == nil {
			continue // never granted: an error already
		}
		// The belief is read before the question is sent: a renewal between the two only
		// makes the server's expiry later.
		beliefs = append(beliefs, newBelief(i, lease))
		name := s.held.Name(i)
		cmds = append(cmds, b.Hgetall().Key(name).Build(), b.Pttl().Key(name).Build())
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := s.Srv.Ask(ctx, cmds...)
	answered := time.Now()
	for i, want := range beliefs {
		if want.lost {
			a.lost++
			if s.Chaos.Death().Of(s.held.Name(want.lock)) {
				a.lostThere++
			}
			continue
		}
		fields, err := replies[2*i].AsStrMap()
		if err != nil {
			return err
		}
		pttl, err := replies[2*i+1].AsInt64()
		if err != nil {
			return err
		}
		if wrong := disagreement(want, fields, pttl, answered); wrong != "" {
			a.mismatches++
			if len(a.told) < mismatchesTold {
				a.told = append(a.told, fmt.Sprintf("%q: %s", s.held.Name(want.lock), wrong))
			}
			continue
		}
		a.held++
	}
	return nil
}

// expirySlack covers that PTTL is in whole milliseconds.
const expirySlack = 2 * time.Millisecond

// disagreement says what is wrong between belief and server; empty if nothing is. The key
// cannot expire later than answered plus its PTTL, so a holder that trusts it beyond that
// trusts it too long. Trusting it too briefly is the engine's caution, and no error.
func disagreement(want belief, fields map[string]string, pttl int64, answered time.Time) string {
	switch {
	case len(fields) == 0:
		return "not on the server, and the engine has not noticed"
	case len(fields) != 1 || fields[want.owner] == "":
		return fmt.Sprintf("held by %v on the server, by %q for the engine", fields, want.owner)
	case fields[want.owner] != "1":
		return fmt.Sprintf("held %s times on the server, once for the engine", fields[want.owner])
	case pttl < 0:
		return "has no expiry on the server"
	}
	expires := answered.Add(time.Duration(pttl)*time.Millisecond + expirySlack)
	if beyond := want.deadline.Sub(expires); beyond > 0 {
		return fmt.Sprintf("trusted %v beyond its expiry on the server", beyond)
	}
	return ""
}
