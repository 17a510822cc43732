package interop

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFairQueuesBesideRedissonAlone plays random queues twice at the same time: as drawn, with waiters of both sides, and
// with every waiter of Go replaced by one of Java that waits as long. Nobody may be worse off beside Go: served out of turn,
// refused, or left waiting while the lock is free, where Redisson alone does not do that. Waiters come before and
// after the first release, and some give up. HOLDFAST_SEED draws the same queues again.
func TestFairQueuesBesideRedissonAlone(t *testing.T) {
	const queues = 60
	eachFairDeployment(t, func(t *testing.T, d *deployment) {
		rng := rand.New(rand.NewPCG(fairSeed(t), 1))
		var plans []*queuePlan
		for i := range queues {
			p := randomQueue(rng)
			p.what = fmt.Sprintf("random %d", i)
			plans = append(plans, p, p.javaOnly())
		}
		results := newFairStage(t, d).playAll(plans)
		counts := map[string]int{}
		var grants, lag int
		for i := 0; i < len(results); i += 2 {
			mixed, alone := results[i], results[i+1]
			for _, f := range compare(mixed, alone) {
				if counts[f.what]++; len(counts) < 10 {
					t.Logf("%s: %s: %s; %s; Redisson alone %s", f.what, mixed.plan, f.how, mixed.story(), alone.story())
				}
			}
			a, b := mixed.summary(), alone.summary()
			grants += len(a.lags)
			for _, l := range a.lags {
				if l > freeMost {
					lag++
				}
			}
			if b.outOfOrder || len(b.lags) < len(a.lags) {
				t.Logf("Redisson alone does worse: %s: %s; mixed %s", mixed.plan, alone.story(), mixed.story())
			}
		}
		t.Logf("%d queues, %d grants, %d of them more than %v after the lock was free", queues, grants, lag, freeMost)
		require.Empty(t, counts)
	})
}

// randomQueue draws a queue of two to six waiters of both sides.
func randomQueue(rng *rand.Rand) *queuePlan {
	span := func(most time.Duration) time.Duration {
		return time.Duration(rng.Int64N(int64(most))).Truncate(time.Millisecond)
	}
	p := &queuePlan{javaHolds: rng.IntN(2) == 0, early: true, hold: span(6 * time.Second)}
	for range 2 + rng.IntN(5) {
		w := queuer{side: goWaits, after: span(800 * time.Millisecond), keep: span(600 * time.Millisecond)}
		if rng.IntN(2) == 0 {
			w.side, w.brief = javaWaits, rng.IntN(3) == 0
		}
		switch rng.IntN(6) {
		case 0:
			w.wait = 500*time.Millisecond + span(3*time.Second)
		case 1:
			w.wait = 20 * time.Second
		case 2:
			w.wait = time.Hour
		default:
		}
		p.waiters = append(p.waiters, w)
	}
	return p
}

// javaOnly is the same plan for Redisson alone.
func (p *queuePlan) javaOnly() *queuePlan {
	alone := *p
	alone.what += " alone"
	alone.javaHolds = true
	alone.waiters = nil
	for _, w := range p.waiters {
		w.side = javaWaits
		alone.waiters = append(alone.waiters, w)
	}
	return &alone
}

// A queueSummary is what matters of a result.
type queueSummary struct {
	outOfOrder bool
	lags       map[int]time.Duration // by waiter that was served: since it could have been
	outcomes   map[int]outcome
}

func (r *queueResult) summary() queueSummary {
	s := queueSummary{lags: map[int]time.Duration{}, outcomes: map[int]outcome{}}
	last, prev := -1, r.freed
	for _, o := range r.outcomes {
		s.outcomes[o.waiter] = o
		if !o.granted {
			continue
		}
		s.outOfOrder = s.outOfOrder || o.waiter < last
		s.lags[o.waiter] = max(0, o.at.Sub(later(prev, o.began)))
		last, prev = max(last, o.waiter), o.released
	}
	return s
}

// compare says where mixed is worse than Redisson alone. Three seconds are allowed for clients that have just been opened
// on a busy machine: a tryLock() for less may well be refused while the first subscriptions are made.
func compare(mixed, alone *queueResult) (faults []fault) {
	for _, r := range []*queueResult{mixed, alone} {
		if r.err != nil {
			return []fault{{"not played", r.err.Error()}}
		}
	}
	m, a := mixed.summary(), alone.summary()
	if m.outOfOrder && !a.outOfOrder {
		faults = append(faults, fault{"out of order", ""})
	}
	for i, w := range mixed.plan.waiters {
		here, answered := m.outcomes[i]
		there, answeredThere := a.outcomes[i]
		waited := there.at.Sub(there.began)
		switch {
		case !answered && answeredThere:
			faults = append(faults, fault{"never answered", fmt.Sprint("waiter ", i)})
		case !answered:
		case here.err != nil && here.granted:
			faults = append(faults, fault{"lost", fmt.Sprintf("waiter %d: %v", i, here.err)})
		case !here.granted && there.granted && waited+freeMost < w.wait:
			faults = append(faults, fault{"refused", fmt.Sprintf("waiter %d, served alone after %v", i, waited)})
		case !here.granted && w.wait == 0:
			faults = append(faults, fault{"refused", fmt.Sprintf("waiter %d, which waits for as long as it takes: %v", i, here.err)})
		case here.granted && m.lags[i] > freeMost+a.lags[i]:
			faults = append(faults, fault{"late", fmt.Sprintf("waiter %d, by %v", i, m.lags[i])})
		}
	}
	return faults
}
