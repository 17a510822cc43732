package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Profiles: what a seed makes frequent. What is drawn evenly from everything is rarely one thing twice, and some
// promises break only where several rare things meet: a read hold that is extended, asked for again, and outlived by
// a reader elsewhere. So every other seed has a profile, which makes its own few things frequent and leaves the rest
// out ("swarm testing", Groce et al. 2012).

// A simProfile changes the plan of a seed.
type simProfile struct {
	name  string
	kinds [][]simKind // one of them
	shape func(p *simPlan, r *rand.Rand)
}

// simOdds is what actors do in a profile, by weight.
type simOdds [simDos]int

// simSpans are the shortest and the longest that actors wait, or keep what they have.
type simSpans struct{ least, most time.Duration }

// A simHabit is how the actors of a profile behave; where there is none, everything is drawn evenly.
type simHabit struct {
	odds   simOdds
	spans  simSpans
	leases []int // in simLeases
	reads  []int // the same of who reads; nil: as the others
	limits int   // of 100 acquires, how many have a MaxHold
	waits  int   // of 100 acquires, how many have a MaxWait
	quits  int   // of 100 acquires, how many callers give up
	tries  int   // of 100 acquires, how many are a Try
	acks   int   // of 100 acquires, how many are for replicas
	again  int   // of 100 releases, how many are followed by an acquire at once
	steps  int   // of each actor, at most
	sole   bool  // one name only
}

//nolint:gochecknoglobals // a table
var (
	simEveryKind = [][]simKind{{simLock}, {simLock, simSpin}, {simFenced}, {simRead, simWrite}, {simFair}}
	simReadWrite = [][]simKind{{simRead, simWrite}}

	// simQueueProfile is one seed in ten, whatever else it would be: the others keep what they were.
	simQueueProfile = simProfile{"queue", [][]simKind{{simFair}}, shapeQueue}

	simProfiles = []simProfile{
		{"healthy", simEveryKind, shapeHealthy},
		{"slow", simEveryKind, shapeSlow},
		{"outage", [][]simKind{{simRead, simWrite}, {simRead, simWrite}, {simRead, simWrite}, {simFair}, {simFair}, {simLock}, {simFenced}}, shapeOutage},
		{"late", simEveryKind, shapeLate},
		{"extended", simReadWrite, shapeExtended},
		{"forced", append([][]simKind{{simRead, simWrite}}, simEveryKind...), shapeForced},
		{"squatters", simReadWrite, shapeSquatters},
		{"crowd", [][]simKind{{simRead}, {simRead, simWrite}, {simRead, simWrite}, {simFair}, {simFair}, {simLock, simSpin}, {simFenced}}, shapeCrowd},
	}
)

// profiled gives every other plan a profile, or all of them the one of that name.
func (p *simPlan) profiled(kinds []simKind, name string) {
	r := rand.New(rand.NewPCG(p.seed, 11)) //nolint:gosec // it must repeat
	even, f := r.IntN(2) == 0, simProfiles[r.IntN(len(simProfiles))]
	if name != "" {
		at := slices.IndexFunc(simProfiles, func(f simProfile) bool { return f.name == name })
		even, f = at < 0, simProfiles[max(at, 0)]
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 13)).IntN(10) == 0 || name == simQueueProfile.name { //nolint:gosec // as above
		even, f = false, simQueueProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 17)).IntN(8) == 0 || name == simCountedProfile.name { //nolint:gosec // as above
		even, f = false, simCountedProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 19)).IntN(16) == 0 || name == simLeasedProfile.name { //nolint:gosec // as above
		even, f = false, simLeasedProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 29)).IntN(16) == 0 || name == simGroupProfile.name { //nolint:gosec // as above
		even, f = false, simGroupProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 31)).IntN(16) == 0 || name == simRedProfile.name { //nolint:gosec // as above
		even, f = false, simRedProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 37)).IntN(16) == 0 || name == simLingerProfile.name { //nolint:gosec // as above
		even, f = false, simLingerProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 41)).IntN(16) == 0 || name == simRefusedProfile.name { //nolint:gosec // as above
		even, f = false, simRefusedProfile
	}
	if name == "" && rand.New(rand.NewPCG(p.seed, 43)).IntN(16) == 0 || name == simCutOffProfile.name { //nolint:gosec // as above
		even, f = false, simCutOffProfile
	}
	if even {
		return
	}
	p.profile, p.counts, p.leases = f.name, f.name == simCountedProfile.name, f.name == simLeasedProfile.name
	p.groups = f.name == simGroupProfile.name
	p.rate, p.fates, p.mixed, p.java, p.nests, p.users = 0, nil, false, false, false, false
	p.force, p.closes, p.crashes, p.blows, p.clocks = false, false, false, false, false
	p.engines, p.actors, p.owners, p.nested, p.calm = 1+r.IntN(2), 1+r.IntN(4), 1+r.IntN(2), 50+r.IntN(51), 100
	p.habit = &simHabit{
		odds:   simOdds{doAcquire: 50, doRelease: 30, doExtend: 5, doStop: 2, doContext: 5, doLook: 1, doDo: 2, doMulti: 3, doPause: 5},
		spans:  simSpans{time.Millisecond, time.Second},
		leases: []int{0, 2, 3, 5, 6}, waits: 30, quits: 30, limits: 5, tries: 20, acks: 3, again: 8, steps: 80,
	}
	if p.kinds = f.kinds[r.IntN(len(f.kinds))]; len(kinds) > 0 {
		p.kinds = kinds
	}
	f.shape(p, r)
}

// shapeHealthy: the strict rules about leases apply only where nothing goes wrong, and what they are about takes time.
func shapeHealthy(p *simPlan, r *rand.Rand) {
	h := p.habit
	h.odds[doExtend], h.odds[doStop], h.odds[doPause] = 6, 6, 15
	h.spans, h.limits, h.steps = simSpans{5 * time.Millisecond, 5 * time.Second}, 20, 50
	p.owners, p.nested = 1, 90+r.IntN(11)
	if r.IntN(2) == 0 {
		p.yields = 0
	}
}

// shapeSlow: every round trip takes long, but no longer than the watchdog may bear.
func shapeSlow(p *simPlan, r *rand.Rand) {
	shapeHealthy(p, r)
	p.line = 60*time.Millisecond + time.Duration(r.Int64N(int64(125*time.Millisecond)))
	p.habit.leases = []int{0, 0, 3, 6, 8}
}

// shapeOutage: once the server is not there for long, in one way or another, and then nothing goes wrong any more.
func shapeOutage(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.outage = 500*time.Millisecond + time.Duration(r.Int64N(int64(8*time.Second)))
	p.calm = 20 + r.IntN(75)
	p.owners, p.nested = 1, 70+r.IntN(31)
	h.leases, h.reads = []int{2, 5, 7}, []int{8, 3, 2, 7}
	h.odds[doExtend] = 10
	h.spans = simSpans{10 * time.Millisecond, 8 * time.Second}
	h.odds[doRelease], h.odds[doPause], h.quits, h.steps = 20, 15, 10, 40
	if p.kinds[0] != simRead { // who waits, and leaves
		p.actors, p.nested, h.quits = 2+r.IntN(3), r.IntN(40), 50
	}
}

// shapeLate: copies of commands come late, and nothing else goes wrong.
func shapeLate(p *simPlan, r *rand.Rand) {
	p.rate = []int{20, 60, 150}[r.IntN(3)]
	p.fates = [][]simFate{{fateBreakLate}, {fateTwice}, {fateBreakLate, fateTwice}, {fateBreakLate, fateTwice, fatePartly, fateLostAnswer}}[r.IntN(4)]
	p.force = r.IntN(4) == 0
	if p.force {
		p.habit.odds[doForce] = 5
	}
	if r.IntN(2) == 0 {
		p.owners, p.nested = 1, 100
	}
	p.habit.sole = r.IntN(2) == 0
}

// shapeExtended: readers with very different leases, extended, asked for again, and outlived by each other.
func shapeExtended(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.owners, p.nested = 1, 30+r.IntN(71)
	h.leases, h.reads, h.sole = []int{4, 5}, []int{5, 7, 6, 3, 8}, true
	h.odds[doExtend], h.odds[doRelease] = 25, 20
	h.spans = simSpans{time.Millisecond, 2 * time.Second}
	switch r.IntN(3) {
	case 0:
		p.outage, p.calm = 2*time.Second+time.Duration(r.Int64N(int64(6*time.Second))), 20+r.IntN(60)
	case 1:
		p.rate, p.fates = 50, []simFate{fateTwice, fateBreakLate}
	default:
	}
}

// shapeForced: locks are taken away all the time.
func shapeForced(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.force, h.sole, p.yields = true, r.IntN(3) > 0, 20+r.IntN(300)
	h.odds[doForce], h.odds[doContext] = 18, 15
	h.spans = simSpans{100 * time.Microsecond, []time.Duration{5, 300}[r.IntN(2)] * time.Millisecond}
	p.actors = 2 + r.IntN(4)
	if r.IntN(2) == 0 {
		p.rate, p.fates = 60, []simFate{fateTwice, fateBreakLate, fateLostAnswer}
	}
	if r.IntN(2) == 0 { // who waits follows at once
		h.quits, h.waits, p.nested = 0, 0, 30
	}
}

// shapeSquatters: other clients have locks whose names are those of what the engine keeps beside a lock.
func shapeSquatters(p *simPlan, r *rand.Rand) {
	p.java, p.squats = true, 2
	p.owners, p.nested, p.habit.sole = 2, r.IntN(60), true
	p.habit.spans = simSpans{50 * time.Microsecond, 50 * time.Millisecond}
}

// shapeCrowd: who tries, gives back and asks again meets others within a round trip, and nothing goes wrong: what is told
// then was decided here. Readers are alone now and then.
func shapeCrowd(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.actors, p.nested = 1+r.IntN(5), r.IntN(2)*(20+r.IntN(60))
	h.odds = simOdds{doAcquire: 50, doRelease: 40, doExtend: 2, doStop: 1, doDo: 2, doMulti: 4, doPause: 5}
	h.spans = simSpans{10 * time.Microsecond, []time.Duration{1, 20}[r.IntN(2)] * time.Millisecond}
	h.tries, h.acks, h.again, h.sole = 40, r.IntN(3)*15, 40, r.IntN(2) == 0
	if p.force = r.IntN(4) == 0; p.force {
		h.odds[doForce] = 5
	}
}

// shapeQueue: Redisson's clients stand in one queue with callers of ours, behind holders that stay, and whoever waits may
// leave. Rarely a process dies.
func shapeQueue(p *simPlan, r *rand.Rand) {
	h := p.habit
	p.java, p.javas = true, r.IntN(3)
	p.engines, p.actors, p.owners, p.nested = 1+r.IntN(3), 1+r.IntN(3), 1, r.IntN(2)*20
	h.spans = simSpans{time.Millisecond, []time.Duration{300 * time.Millisecond, 8 * time.Second}[r.IntN(2)]}
	h.quits, h.tries, h.acks, h.limits, h.steps = r.IntN(3)*15, 10, 0, 0, 30
	h.odds[doPause] = 15
	p.crashes = r.IntN(6) == 0
}

// drawHabit draws a step as the actors of a profile behave.
func (p *simPlan) drawHabit(r *rand.Rand) simStep {
	h := p.habit
	st := simStep{
		do: h.odds.draw(r), kind: p.kinds[r.IntN(len(p.kinds))], owner: -1, pick: r.IntN(8), loose: r.IntN(3) == 0,
		again: r.IntN(100) < h.again, after: h.spans.draw(r), keep: h.spans.draw(r),
	}
	if !h.sole {
		st.name = r.IntN(2)
	}
	leases := h.leases
	if st.kind == simRead && h.reads != nil {
		leases = h.reads
	}
	st.lease = leases[r.IntN(len(leases))]
	if r.IntN(100) < p.nested {
		st.owner = r.IntN(p.owners)
	}
	switch st.do {
	case doAcquire, doMulti, doPermits, doLatch, doBarrier, doRed, doOtherKind:
	default:
		return st
	}
	st.try = r.IntN(100) < h.tries
	if r.IntN(100) < h.waits {
		st.wait = r.IntN(len(simWaits))
	}
	if r.IntN(100) < h.quits {
		st.ends = []simEnds{endsCancel, endsCtx}[r.IntN(2)]
	}
	if r.IntN(100) < h.limits {
		st.hold = 1
	}
	if r.IntN(100) < h.acks {
		st.acks = 1
	}
	if r.IntN(3) > 0 {
		st.keep = 0
	}
	return st
}

func (o *simOdds) draw(r *rand.Rand) simDo {
	all := 0
	for _, n := range o {
		all += n
	}
	at := r.IntN(all)
	for do, n := range o {
		if at -= n; at < 0 {
			return simDo(do) //nolint:gosec // in range
		}
	}
	return doPause
}

// draw is as likely in each power of two.
func (s simSpans) draw(r *rand.Rand) time.Duration {
	return time.Duration(float64(s.least) * math.Pow(float64(s.most)/float64(s.least), r.Float64()))
}
