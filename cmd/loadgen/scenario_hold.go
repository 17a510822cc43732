package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// holdScenario takes many locks, keeps them under the watchdog, and then asks the server,
// past the engine, whether it thinks the same of each.
type holdScenario struct {
	stage
	held *heldLocks
	rec  *recorder

	heapPerLock float64
	kept        cost // between the last grant and the first release
	beliefs     audit
	left        int64 // keys still there after the releases
	failover    *failoverReport
}

func newHoldScenario(s stage) scenario {
	return &holdScenario{stage: s, rec: newRecorder(), held: newHeldLocks(s.cfg, s.engines)}
}

func (s *holdScenario) prepare(context.Context) error { return nil }

func (s *holdScenario) warm(context.Context) {}

// measure takes the locks, keeps them, looks at them and gives them back. What a pair
// cost is taking and giving alone; the time between has its own account.
func (s *holdScenario) measure(ctx context.Context) (round, error) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.duration+2*holdLimit)
	defer cancel()
	r := round{rec: s.rec}
	without := heapInUse()
	r.before = s.srv.snapshot(work)
	began := s.meter.read()
	s.held.take(ctx, s.rec)
	taken := s.meter.read()
	if s.rec.granted > 0 {
		s.heapPerLock = (float64(heapInUse()) - float64(without)) / float64(s.rec.granted)
	}

	keepFrom := s.meter.read()
	end := s.chaos.begin(ctx)
	late := s.keep(ctx)
	r.disturbed = s.chaos.kindsNow()
	end()
	s.kept = s.meter.read().minus(keepFrom)

	var err error
	if s.beliefs, err = s.auditOnceRenewed(work); err != nil {
		err = fmt.Errorf("compare with the server: %w", err)
	}
	s.failover = s.mourn(late)
	giveFrom := s.meter.read()
	s.held.give(work, s.rec)
	r.cost = s.meter.read().minus(giveFrom).plus(taken.minus(began))
	r.after = s.srv.snapshot(work)
	s.relock(work)
	var countErr error
	s.left, countErr = s.srv.countKeys(work, s.cfg.locks, s.held.name)
	return r, errors.Join(err, countErr)
}

func (s *holdScenario) finish(_ context.Context, r *report) error {
	r.addViolations(s.held.ledger)
	r.Held = s.beliefs.held
	r.Lost = max(r.Lost, s.beliefs.lost) // a release of the same ones says so again
	s.failover.addTo(r)
	r.HeapPerLock = &s.heapPerLock
	r.KeptS = s.kept.wall.Seconds()
	r.Mismatches, r.Behind = s.beliefs.mismatches, s.beliefs.behind
	if s.kept.cpuKnown && s.kept.wall > 0 {
		share := s.kept.cpu.Seconds() / s.kept.wall.Seconds()
		r.KeepingCPU = &share
	}
	if s.beliefs.mismatches > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%d of %d locks are not on the server what the engine believes", s.beliefs.mismatches, s.cfg.locks))
		r.Failures = append(r.Failures, s.beliefs.told...)
	}
	r.addLeft(s.left)
	return nil
}

func (s *holdScenario) pairs() int64 { return s.rec.live.Load() / 2 }

// auditBatch is how many locks are asked after in one round trip: two commands each, and
// rueidis takes a pipeline of 2000 elsewhere.
const auditBatch = 512

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

// auditOnceRenewed is audit. Where a sentinel put a replica in the master's place, the old master may have
// taken renewals that the new one never saw: nobody keeps clients from it meanwhile, as CLUSTER FAILOVER does.
// The next renewal puts that right, so engine and server have a lease's time to agree again.
func (s *holdScenario) auditOnceRenewed(ctx context.Context) (audit, error) {
	a, err := s.audit(ctx)
	behind, until := a.mismatches, time.Now().Add(s.cfg.lease)
	for err == nil && a.mismatches > 0 && s.chaos.sentinelReplaced() && time.Now().Before(until) && ctx.Err() == nil {
		time.Sleep(auditEvery)
		a, err = s.audit(ctx)
	}
	a.behind = behind - a.mismatches
	return a, err
}

// audit asks the server for owner and expiry of every lock that was granted.
func (s *holdScenario) audit(ctx context.Context) (audit, error) {
	var a audit
	for first := 0; first < len(s.held.leases); first += auditBatch {
		if err := s.auditSome(ctx, &a, first, min(first+auditBatch, len(s.held.leases))); err != nil {
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
	b := s.srv.client.B()
	cmds := make([]rueidis.Completed, 0, 2*(end-first))
	beliefs := make([]belief, 0, end-first)
	for i := first; i < end; i++ {
		lease := s.held.leases[i]
		if lease == nil {
			continue // never granted: an error already
		}
		// The belief is read before the question is sent: a renewal between the two only
		// makes the server's expiry later.
		beliefs = append(beliefs, newBelief(i, lease))
		name := s.held.name(i)
		cmds = append(cmds, b.Hgetall().Key(name).Build(), b.Pttl().Key(name).Build())
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := s.srv.client.DoMulti(ctx, cmds...)
	answered := time.Now()
	for i, want := range beliefs {
		if want.lost {
			a.lost++
			if s.chaos.fall().of(s.held.name(want.lock)) {
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
				a.told = append(a.told, fmt.Sprintf("%q: %s", s.held.name(want.lock), wrong))
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
