package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// servedWithin is how long after a release who is next must have been served, on a busy machine.
	servedWithin = time.Second
	// goGrace is how long a Go waiter keeps its place that is not heard of, and goAsks how often one is heard of.
	goGrace = 5 * time.Second
	goAsks  = 1200 * time.Millisecond
	// goneWait is the fairLockWaitTimeout of the Java client that is closed.
	goneWait = time.Second
	// keepFor is how long a waiter holds what it gets, where a plan says nothing else.
	keepFor = 5 * time.Millisecond
)

// javaWays are the ways in which a waiter of Java waits: each takes another time off the queue when it is served.
var javaWays = []queuer{
	{side: javaWaits},
	{side: javaWaits, brief: true},
	{side: javaWaits, wait: 20 * time.Second},
	{side: javaWaits, wait: time.Hour},
}

// TestFairQueues plays hundreds of queues of both sides at the same time. Whoever waits must be served in the order of
// the queue, within a second of the release before; the exceptions are in [queueResult.limit].
func TestFairQueues(t *testing.T) {
	eachFairDeployment(t, func(t *testing.T, d *deployment) {
		seed := fairSeed(t)
		rng := rand.New(rand.NewPCG(seed, 0))
		groups := []struct {
			name  string
			plans []*queuePlan
		}{
			{"every order of up to four", everyOrder()},
			{"every order of five and six", ordersOfSix(rng)},
			{"waits that end in the middle", endsInTheMiddle()},
			{"a Java thread with the id 0", threadZero()},
			{"the holder's lease ends", abandonedQueues()},
			{"dead waiters", deadWaiters()},
		}
		var all []*queuePlan
		for _, g := range groups {
			all = append(all, g.plans...)
		}
		began := time.Now()
		results := newFairStage(t, d).playAll(all)
		t.Logf("%d queues in %v", len(all), time.Since(began).Round(time.Millisecond))
		for _, g := range groups {
			mine := results[:len(g.plans)]
			results = results[len(g.plans):]
			t.Run(g.name, func(t *testing.T) { requireQueues(t, mine) })
		}
	})
}

// eachFairDeployment runs fn on a single server and on a cluster, at the same time.
func eachFairDeployment(t *testing.T, fn func(t *testing.T, d *deployment)) {
	demand(t)
	for _, dep := range deployments[:2] {
		t.Run(dep.name, func(t *testing.T) {
			t.Parallel()
			fn(t, dep.start(t))
		})
	}
}

// everyOrder is every order of up to four waiters, for each way in which Java waits and for three holds. Queues
// of Go alone are few: the engine has its own tests.
func everyOrder() (plans []*queuePlan) {
	for n := 1; n <= 4; n++ {
		for order := range 1 << n {
			if order == 0 && n > 2 {
				continue
			}
			for way, java := range javaWays {
				for _, hold := range []time.Duration{0, 3 * time.Second, 8 * time.Second} {
					p := &queuePlan{what: "order", hold: hold, javaHolds: (len(plans)+way)%2 == 1}
					for i := range n {
						w := queuer{side: goWaits}
						if order>>i&1 == 1 {
							w = java
						}
						w.keep = keepFor
						p.waiters = append(p.waiters, w)
					}
					plans = append(plans, p)
				}
			}
		}
	}
	return plans
}

// ordersOfSix are all orders of five and of six, in which every waiter waits in a random way of its own.
func ordersOfSix(rng *rand.Rand) (plans []*queuePlan) {
	for n := 5; n <= 6; n++ {
		for order := 1; order < 1<<n; order++ { // Go alone: the engine has its own tests
			p := &queuePlan{
				what: "six", javaHolds: rng.IntN(2) == 0,
				hold: time.Duration(rng.Int64N(int64(10 * time.Second))).Truncate(100 * time.Millisecond),
			}
			for i := range n {
				w := queuer{side: goWaits}
				if order>>i&1 == 1 {
					w = javaWays[rng.IntN(len(javaWays))]
				}
				w.keep = time.Duration(rng.Int64N(int64(200 * time.Millisecond)))
				p.waiters = append(p.waiters, w)
			}
			plans = append(plans, p)
		}
	}
	return plans
}

// endsInTheMiddle are queues of four of which one or two give up while the holder holds.
func endsInTheMiddle() (plans []*queuePlan) {
	for _, order := range []string{"GJGJ", "JGJG", "JJGG", "GGJJ", "JGGJ", "GJJG"} {
		for first := range order {
			for second := first; second < len(order); second++ {
				p := &queuePlan{what: "gives up", hold: 4 * time.Second, javaHolds: len(plans)%2 == 1}
				for i, s := range order {
					w := queuer{side: side(s), keep: keepFor}
					if i == first || i == second {
						w.wait = time.Duration(i+1) * 600 * time.Millisecond
					} else if s == 'J' {
						w.brief = i%2 == 0
					}
					p.waiters = append(p.waiters, w)
				}
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// threadZero are queues with a thread of Java whose owner id ends in ":0".
func threadZero() (plans []*queuePlan) {
	for _, order := range []string{"J", "GJ", "JG", "JGJ", "GJGJ"} {
		for _, hold := range []time.Duration{0, 8 * time.Second} {
			for _, wait := range []time.Duration{0, 20 * time.Second} {
				p := &queuePlan{what: "id 0", hold: hold}
				zero := true
				for _, s := range order {
					w := queuer{side: side(s), keep: keepFor}
					if s == 'J' {
						w.zero, zero, w.wait = zero, false, wait
					}
					p.waiters = append(p.waiters, w)
				}
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// abandonedQueues wait for a lock that nobody gives back.
func abandonedQueues() (plans []*queuePlan) {
	for _, order := range []string{"J", "GJ", "JG", "GGJ", "JGJG", "GJGJ"} {
		for _, java := range javaWays {
			p := &queuePlan{what: "abandoned", lease: 4 * time.Second, abandons: true, javaHolds: len(plans)%2 == 1}
			for _, s := range order {
				w := java
				if s == 'G' {
					w = queuer{side: goWaits}
				}
				w.keep = keepFor
				p.waiters = append(p.waiters, w)
			}
			plans = append(plans, p)
		}
	}
	return plans
}

// deadWaiters are queues in which waiters of either side die. The holder's lease bounds how long a waiter of Java
// sleeps whom nobody can tell.
func deadWaiters() (plans []*queuePlan) {
	ten := strings.Repeat("k", 10)
	for _, order := range []string{
		ten + "J", strings.Repeat("s", 10) + "J", ten + "JG", ten + "GJ", "J" + ten + "J", "kkkJ", "kkkJG", "GkJkG", "Gk",
		"JkkkJ", "sJGs", "xG", "xGJ", "GxG", "xkG", "kxJG", "xsJG",
	} {
		for _, hold := range []time.Duration{time.Second, 8 * time.Second} {
			for _, way := range []int{0, 2} {
				if way > 0 && behindUnknown(order) {
					continue
				}
				p := &queuePlan{what: "dead", lease: 14 * time.Second, hold: hold, javaHolds: len(plans)%2 == 1}
				for _, s := range order {
					w := queuer{side: side(s)}
					if w.side == javaWaits {
						w = javaWays[way]
					}
					w.keep = keepFor
					p.waiters = append(p.waiters, w)
				}
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// behindUnknown reports whether a dead Go waiter stands behind a Java waiter that came when nobody of Go was there, and
// no Go waiter is left. How long that Java waiter is going to wait is not on the server, so the place behind it is a guess:
// right for lock() but for what was left of the lease, up to 300 s too long for a tryLock() that waits for less. As
// long as one Go waiter lives nothing of that remains.
func behindUnknown(order string) bool {
	return order[0] == 'J' && strings.Contains(order, "k") && !strings.Contains(order, "G")
}

// A fault is one thing that is wrong with a result.
type fault struct{ what, how string }

// requireQueues counts what is wrong, and shows some of it.
func requireQueues(t *testing.T, results []*queueResult) {
	t.Helper()
	counts := map[string]int{}
	shown := 0
	var lags []time.Duration
	for _, r := range results {
		faults, mine := r.judge()
		lags = append(lags, mine...)
		for _, f := range faults {
			counts[f.what]++
			if shown++; shown <= 12 {
				t.Logf("%s: %s: %s; queue %q, %s", f.what, r.plan, f.how, r.queue, r.story())
			}
		}
	}
	if len(lags) > 0 {
		slices.Sort(lags)
		t.Logf("%d queues, %d grants, from release to grant: median %v, p99 %v, longest %v", len(results), len(lags),
			lags[len(lags)/2].Round(time.Millisecond), lags[len(lags)*99/100].Round(time.Millisecond), lags[len(lags)-1].Round(time.Millisecond))
	}
	require.Empty(t, counts)
}

// story tells what came when, counted from the release.
func (r *queueResult) story() string {
	var b strings.Builder
	if !r.died.IsZero() {
		fmt.Fprintf(&b, "death at %v, ", r.died.Sub(r.freed).Round(time.Millisecond))
	}
	b.WriteString("answers:")
	for _, o := range r.outcomes {
		fmt.Fprintf(&b, " %d", o.waiter)
		if !o.granted {
			b.WriteString(" no")
		}
		fmt.Fprintf(&b, " at %v,", o.at.Sub(r.freed).Round(time.Millisecond))
	}
	return b.String()
}

// judge compares a result with its plan.
func (r *queueResult) judge() (faults []fault, lags []time.Duration) {
	if r.err != nil {
		return []fault{{"not played", r.err.Error()}}, nil
	}
	answers := map[int]outcome{}
	last, prev := -1, r.freed
	for _, o := range r.outcomes {
		answers[o.waiter] = o
		w := r.plan.waiters[o.waiter]
		switch {
		case o.granted && r.plan.givesUp(w):
			faults = append(faults, fault{"served late", fmt.Sprintf("waiter %d should have given up", o.waiter)})
		case o.granted:
			if o.err != nil {
				faults = append(faults, fault{"lost", fmt.Sprintf("waiter %d: %v", o.waiter, o.err)})
			}
			if o.waiter < last {
				faults = append(faults, fault{"out of order", fmt.Sprintf("%d after %d", o.waiter, last)})
			}
			last = max(last, o.waiter)
			from := later(prev, o.began)
			lags = append(lags, max(0, o.at.Sub(from)))
			if limit := r.limit(o, from); o.at.After(limit) {
				faults = append(faults, fault{"late", fmt.Sprintf("waiter %d %v after the release, %v late", o.waiter, o.at.Sub(prev), o.at.Sub(limit))})
			}
			prev = o.released
		case !r.plan.givesUp(w):
			faults = append(faults, fault{"refused", fmt.Sprintf("waiter %d after %v: %v", o.waiter, o.at.Sub(o.began), o.err)})
		case o.at.Sub(o.began) > w.wait+servedWithin:
			faults = append(faults, fault{"gives up late", fmt.Sprintf("waiter %d after %v", o.waiter, o.at.Sub(o.began))})
		}
	}
	for i, w := range r.plan.waiters {
		if _, ok := answers[i]; !ok && !w.side.dead() {
			faults = append(faults, fault{"never answered", fmt.Sprint("waiter ", i)})
		}
	}
	return faults, lags
}

// givesUp reports whether a waiter's time is over before the holder leaves.
func (p *queuePlan) givesUp(w queuer) bool { return w.wait > 0 && w.wait < p.hold }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// limit is by when a waiter must have been served that was next from an instant on: a second later. A dead waiter
// before it is passed over when its time is over. If a waiter of Go stands behind, it finds that out;
// otherwise a waiter of Java may sleep as long as it was told that the lock lives.
func (r *queueResult) limit(o outcome, from time.Time) time.Time {
	limit := from.Add(servedWithin)
	waiters := r.plan.waiters
	dead := false
	for _, w := range waiters[:o.waiter] {
		dead = dead || w.side.dead()
		switch w.side {
		case goKilled, goStopped:
			limit = later(limit, r.died.Add(goGrace+goAsks+servedWithin))
		case javaGone: // its wait, after the lease that it was told or after the last Go place before it
			limit = later(limit, r.died.Add(r.plan.lease+goneWait+goAsks+servedWithin))
			limit = later(limit, from.Add(goGrace+goneWait+goAsks+servedWithin))
		default:
		}
	}
	watched := slices.ContainsFunc(waiters[o.waiter:], func(w queuer) bool { return w.side == goWaits })
	if dead && !watched {
		limit = later(limit, o.began.Add(r.plan.lease+servedWithin))
		if waiters[0].side == javaWaits { // see behindUnknown
			limit = later(limit, r.died.Add(goGrace+r.plan.lease+servedWithin))
		}
	}
	return limit
}

// fairSeed is what the random queues come from.
func fairSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("HOLDFAST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	t.Logf("HOLDFAST_SEED=%d", seed)
	return seed
}
