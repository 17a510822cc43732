package engine

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// setUp opens the engines and starts whoever takes part.
func (s *sim) setUp() {
	if s.healthy() {
		s.quietAt = s.w.Now().Add(-time.Minute)
	}
	if s.counts {
		s.counted = newSimCounted(s)
	}
	if s.leases {
		s.leased = newSimLeased(s)
	}
	if s.groups {
		s.group = newSimGroup(s)
	}
	if s.redServers > 0 {
		s.reds = newSimReds(s)
	}
	for n := range s.simPlan.engines {
		se := &simEngine{s: s, n: n, giving: make(map[simGiving][]*simHold)}
		s.engines = append(s.engines, se)
		for k := range s.simPlan.actors {
			a := &simActor{s: s, se: se, n: k, steps: s.steps[n*s.simPlan.actors+k]}
			se.crew = append(se.crew, a)
		}
		s.boot(se)
	}
	if s.refusals > 0 {
		s.server.refuses = s.refuses
	}
	s.foreigners()
	s.w.In(nil, "conductor", s.conduct)
	s.w.In(nil, "nemesis", s.nemesis)
	if s.cutsOff {
		s.w.In(nil, "cuts", s.cutOff)
	}
	s.calmAt = s.calm * s.size() / 100
	if s.outage > 0 {
		s.w.In(nil, "outage", s.goDark)
	}
}

// boot starts a process with an engine and its actors.
func (s *sim) boot(se *simEngine) {
	se.proc, se.dead = &world.Process{}, false
	s.w.In(se.proc, "boot", func() {
		se.reopen()
		for _, a := range se.crew {
			if !a.done {
				s.w.Go("actor", a.run)
			}
		}
	})
}

// conduct sees the run to its end.
func (s *sim) conduct() {
	total := s.simPlan.engines * s.simPlan.actors
	for s.ended < total {
		s.progress.WaitUntil(s.w.Now().Add(100 * time.Millisecond))
		if s.faults && s.outage == 0 && s.stepped >= s.calmAt {
			s.calmDown()
		}
		s.checkWaiting()
		s.checkPlaces()
		s.counted.checkWaiting()
		s.leased.checkWaiting()
		s.group.checkWaiting()
		s.reds.checkWaiting()
		s.counted.checkRest()
		s.checkCounts()
		s.checkLives()
		s.checkSpare()
		s.checkGhosts()
		s.checkCameBack()
		s.checkEvents()
		s.checkHolds()
		s.checkStopped()
		s.checkWoken()
		s.checkRegained()
		s.checkTrust()
		s.checkLingering()
	}
	s.calmDown()
	s.story("every actor has ended")
	s.waitForForeigners()
	for waited := time.Duration(0); s.unanswered() > 0; waited += 50 * time.Millisecond {
		s.w.Sleep(50 * time.Millisecond)
		if waited > time.Minute {
			s.fail("everything is answered", "a minute after the last fault %d commands wait for answers", s.unanswered())
			return
		}
	}
	s.settle()
	s.checkReleases()
	s.checkEmpty()
	s.counted.checkEnd()
	s.leased.checkEnd()
	s.group.checkEnd()
	s.reds.checkEnd()
	s.checkWatched()
	s.checkOwners()
	s.closeAll()
	s.over = true
}

// settle waits for as long as anything may be left, and then for as long as an attempt takes: whatever is still to
// come would come. One seed in eight, and one where something is left, waits for all of the time that is allowed:
// most of a run's steps would be those of engines that have nothing to do.
func (s *sim) settle() {
	end := s.w.Now().Add(s.settling() + 8*time.Second)
	for rest := clock.Instant(0); s.w.Now() < end; s.w.Sleep(250 * time.Millisecond) {
		s.checkRegained()
		s.checkCameBack()
		switch {
		case s.seed%8 == 0 || s.copies > 0 || s.somethingLeft():
			rest = 0
		case rest == 0:
			rest = s.w.Now()
		case s.w.Now().Sub(rest) > simAttempt+500*time.Millisecond:
			return
		}
	}
}

// somethingLeft reports whether an engine or the server has anything but fencing counters.
func (s *sim) somethingLeft() bool {
	for _, se := range s.engines {
		for i := range se.eng.shards {
			if sh := &se.eng.shards[i]; sh.names.n > 0 || sh.pending > 0 {
				return true
			}
		}
		if se.subs.refs > 0 || se.eng.watchdog.Stats().Watched > 0 {
			return true
		}
	}
	if s.leased.left() || s.reds.left() {
		return true
	}
	for _, e := range s.server.twin.Keys() {
		if !s.counted.keeps(e.Key) && !s.leased.keeps(e.Key) && !strings.HasPrefix(e.Key, "redisson_lock_token:") && !strings.HasSuffix(e.Key, ":fair_notes") { // the place of a dead waiter stays, but keeps others out only for a while
			return true
		}
	}
	return false
}

func (s *sim) unanswered() int {
	n := 0
	for _, se := range s.engines {
		if se.eng == nil || se.gen != se.opened || se.dead {
			return 1
		}
		n += se.unanswered()
	}
	return n
}

// unanswered is [Engine.unanswered], but only for the shards of names that anybody uses, and without their mutexes: it is
// asked all the time, and there are 256. In the end the engine itself is asked.
func (se *simEngine) unanswered() int {
	s, n := se.s, 0
	if s.shards == nil {
		for _, name := range s.names {
			if i := name.hash() % shardCount; !slices.Contains(s.shards, i) {
				s.shards = append(s.shards, i)
			}
		}
		s.shards = slices.Concat(s.shards, s.counted.shards(), s.leased.shards(), s.group.shards())
	}
	for _, i := range s.shards {
		n += se.eng.shards[i].pending
	}
	return n + s.reds.unanswered(se)
}

// calmDown ends all that goes wrong.
func (s *sim) calmDown() {
	if !s.faults {
		return
	}
	s.faults, s.calmed = false, s.w.Now()
	s.server.heal()
	s.reds.heal()
	s.endCuts()
	if s.blows && s.reds == nil && s.seed%4 == 0 {
		s.failOver(true)
	}
	s.quietAt = max(s.quietAt, s.w.Now())
	if s.healthy() {
		s.quietAt = s.w.Now().Add(-time.Minute)
	}
	s.story("no further faults")
}

// heal ends what the nemesis has done to the server.
func (v *simServer) heal() {
	v.twin.OOM, v.twin.Refuse = false, ""
	v.stopped, v.dark, v.renews = 0, 0, false
	for _, m := range v.subs {
		m.deaf = false
	}
}

// simMostFaults is for how long the nemesis strikes at most.
const simMostFaults = 3 * time.Minute

// nemesis strikes now and then.
func (s *sim) nemesis() {
	if !s.crashes && !s.blows && !s.clocks {
		return
	}
	began := s.w.Now()
	for !s.over {
		s.w.Sleep(s.span(5*time.Millisecond, time.Second))
		if !s.faults || s.w.Now().Sub(began) > simMostFaults { // else a process may never reach all servers at once
			return
		}
		if s.blows && s.w.Int64N(2) == 0 {
			if s.reds != nil {
				s.reds.blow()
			} else {
				s.blow()
			}
		}
		if s.crashes && s.w.Int64N(4) == 0 {
			s.crash()
		}
		if s.clocks && s.w.Int64N(4) == 0 {
			s.stepClock()
		}
	}
}

// goDark has the server not be there for long, once: it stops, or nobody gets through to it. Afterwards nothing goes wrong
// any more.
func (s *sim) goDark() {
	v := s.server
	for s.stepped < s.calmAt {
		s.w.Sleep(10 * time.Millisecond)
	}
	if !s.faults { // the callers were done before
		return
	}
	s.faultCount++
	until := s.w.Now().Add(s.outage)
	switch s.w.Int64N(4) {
	case 0:
		v.stopped = until
		s.story("the server stops for %v", s.outage)
	case 1: // as where one connection is cut off and another is not
		v.dark, v.renews = until, true
		s.story("nothing but renewals gets through for %v", s.outage)
	case 2:
		v.dark = until
		s.story("nothing gets through for %v", s.outage)
	default:
		v.dark = until
		s.story("the server is away for %v", s.outage)
		for _, c := range append([]*simConn(nil), v.conns...) {
			c.cut()
		}
	}
	for _, m := range v.subs {
		m.cut(s.outage)
	}
	s.w.Sleep(s.outage)
	s.calmDown()
}

// span draws a time, as likely in each power of two.
func (s *sim) span(least, most time.Duration) time.Duration {
	x := float64(s.w.Int64N(1<<30)) / (1 << 30)
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), x))
}

// blow strikes the server or the network.
func (s *sim) blow() {
	v, w := s.server, s.w
	s.faultCount++
	d := s.span(5*time.Millisecond, 4*time.Second)
	switch w.Int64N(8) {
	case 0, 1:
		v.stopped = max(v.stopped, w.Now().Add(d))
		s.story("the server stops for %v", d)
	case 2:
		for _, c := range append([]*simConn(nil), v.conns...) {
			if w.Int64N(2) == 0 {
				c.cut()
			}
		}
		s.story("connections are cut")
	case 3:
		for _, m := range v.subs {
			m.cut(d)
		}
		s.story("subscriptions are lost for %v", d)
	case 4:
		for _, m := range v.subs {
			m.deaf = true
		}
		w.Outside(w.Now().Add(min(d, time.Second)), v.hear)
		s.story("messages are swallowed")
	case 5:
		v.twin.FlushScripts()
		s.story("the scripts are forgotten")
		s.evict(d)
	case 6:
		v.refuse(s.pickRefusal(), d)
	default:
		s.failOver(false)
	}
}

// evict has the server forget some of what is kept of those who wait for fair locks beside Redisson's queue, as where its memory
// is full. Which, is drawn with d.
func (s *sim) evict(d time.Duration) {
	for i, suffix := range []string{":fair_asked", ":fair_heard", ":fair_notes"} {
		for _, n := range s.names {
			if d.Microseconds()>>i&1 == 1 && len(s.server.twin.List(n.queue)) > 0 {
				s.server.twin.Delete("{" + n.name + "}" + suffix)
				s.story("{%s}%s is evicted", n.name, suffix)
			}
		}
	}
}

func (v *simServer) hear() {
	for _, m := range v.subs {
		m.deaf = false
	}
}

func (s *sim) pickRefusal() string {
	return []string{
		"", "READONLY You can't write against a read only replica.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOREPLICAS Not enough good replicas to write.", "LOADING Redis is loading the dataset in memory",
	}[s.w.Int64N(5)]
}

// refuse has every write refused for a while; without a text for lack of memory.
func (v *simServer) refuse(text string, d time.Duration) {
	v.s.story("writes are refused for %v: %q", d, text)
	v.twin.Refuse, v.twin.OOM = text, text == ""
	v.w.Outside(v.w.Now().Add(d), func() { v.twin.Refuse, v.twin.OOM = "", false })
}

// failOver makes a replica the master that has not seen everything. It may be the last of what goes wrong.
func (s *sim) failOver(last bool) {
	v := s.server
	replica := v.twin.Clone()
	replica.FlushScripts() // masters do not pass them on
	s.story("a replica has seen what was written up to now")
	s.w.Outside(s.w.Now().Add(s.span(time.Millisecond, 300*time.Millisecond)), func() {
		if !s.faults && !last {
			return
		}
		if last {
			s.quietAt, s.calmed = max(s.quietAt, s.w.Now()), s.w.Now()
		}
		old := v.twin
		v.adopt(replica)
		if s.counted != nil {
			s.counted.excused = true
		}
		s.leased.failedOver(old, replica)
		s.group.failedOver(old, replica)
		s.forced = nil // they may be there again
		s.story("the master fails over to it")
		for _, n := range s.names {
			_, was := old.Look(n.name)
			_, is := replica.Look(n.name)
			left := replica.Hash(n.name)
			for _, f := range left {
				if !hasField(old.Hash(n.name), f.Name) {
					s.revived[f.Name] = true
				}
			}
			for _, f := range replica.List(n.queue) {
				s.revived[f] = true
			}
			for _, f := range old.Hash(n.name) {
				mark := "{" + n.name + "}:" + f.Name + ":rwlock_timeout:1" // of a read hold
				_, marked := old.Look(mark)
				_, stays := replica.Look(mark)
				for _, g := range left {
					if g.Name == f.Name && g.Value != f.Value {
						s.uncounted[f.Name] = true
					}
				}
				if is < was || stays < marked || !hasField(left, f.Name) {
					s.excuse(f.Name, "the replica had not seen it")
				}
			}
			s.cameBack(n)
			n.freeAt = 0
		}
		for _, c := range append([]*simConn(nil), v.conns...) {
			c.cut()
		}
		for _, m := range v.subs {
			m.cut(s.span(time.Millisecond, time.Second))
		}
	})
}

// stepClock steps the server's clock. Forward, what has a TTL ends early; back, a copy may run later than it should.
func (s *sim) stepClock() {
	d := s.span(time.Millisecond, 3*time.Second)
	if s.w.Int64N(2) == 0 {
		d = -d
	}
	for _, n := range s.names {
		n.longest = max(n.longest, simLeaseTimes[3]+3*time.Second) + time.Duration(math.Abs(float64(d))) // steps add up
		if d > 0 {
			for _, f := range s.server.twin.Hash(n.name) {
				s.excuse(f.Name, "the clock was stepped")
			}
		}
	}
	if d < 0 {
		s.steppedBack++
	}
	s.server.skew += d
	s.story("the server's clock is stepped by %v", d)
	s.faultCount++
}

// crash suspends a process, or kills it and starts another.
func (s *sim) crash() {
	se := s.engines[s.w.Int64N(int64(len(s.engines)))]
	if se.gen != se.opened || se.dead {
		return
	}
	s.faultCount++
	if s.w.Int64N(3) > 0 || s.reds.opens(se) { // else one whose servers are away would never come to anything
		d := s.span(time.Millisecond, 8*time.Second)
		s.story("process %d is suspended for %v", se.n, d)
		s.w.Suspend(se.proc, d)
		return
	}
	s.story("process %d dies", se.n)
	s.w.Kill(se.proc)
	se.dead = true
	s.counted.died(se)
	s.leased.died(se)
	s.group.died(se)
	s.reds.died(se)
	for _, n := range s.names {
		for _, h := range append([]*simHold(nil), n.holds...) {
			if h.se == se {
				n.dropHold(h)
			}
		}
		for _, w := range append([]*simWait(nil), n.waiters...) {
			if w.se == se {
				n.dropWait(w)
			}
		}
	}
	for _, a := range se.crew {
		a.held = nil
	}
	for _, n := range s.names {
		if by := (simForcer{se, se.gen}); n.forces[by] > 0 {
			n.forcing, n.forcedAt = n.forcing-n.forces[by], s.w.Now()
		}
	}
	clear(se.giving)
	se.forget()
	s.w.Outside(s.w.Now().Add(s.span(time.Millisecond, time.Second)), func() { s.boot(se) })
}

// forget breaks the connections of a process that has died.
func (se *simEngine) forget() {
	for _, c := range append([]*simConn(nil), se.s.server.conns...) {
		if c.proc == se.proc {
			c.cut()
		}
	}
	if se.subs != nil {
		se.subs.Close()
	}
	kept := se.s.releases[:0]
	for _, r := range se.s.releases {
		if r.se != se {
			kept = append(kept, r)
		}
	}
	se.s.releases = kept
}

// checkReleases: every release was answered.
func (s *sim) checkReleases() {
	for _, r := range s.releases {
		if _, _, ok := r.f.Result(); !ok {
			s.fail("every future completes", "the release of hold %d has no answer", r.id)
		}
	}
}

// deadInFront: what a server lost has brought the place of one of Redisson's back, who has left. It costs what it asked for.
func (s *sim) deadInFront(n *simName) bool {
	queue := s.server.twin.List(n.queue)
	return !s.intact() && s.standing == 0 && len(queue) > 0 && !ourPlace(queue[0]) && len(s.server.twin.Hash(n.name)) == 0
}

// checkOwners: who gave everything back can acquire, every owner every name.
func (s *sim) checkOwners() {
	for _, se := range s.engines {
		s.w.Sleep(s.w.Suspended(se.proc)) // else what it is granted now may be over before it knows
		for i := range se.owners {
			for _, n := range s.names {
				n.longest = max(n.longest, simLeaseTimes[0])
				a := &simActor{s: s, se: se, n: 100 + i, gen: se.gen}
				n.longest = max(n.longest, simLeaseTimes[0])
				f := a.lock(&simStep{kind: n.kinds[0], owner: i, name: s.place(n)}).TryAcquireAsync(context.Background())
				await(s, f)
				ls, err, _ := f.Result()
				if err != nil && s.deadInFront(n) {
					continue
				}
				if err != nil && s.crashes && n.kinds[0] == simFair { // who asks finds the place of one that died, and nothing about it
					s.w.Sleep(simGrace + time.Second)
					f = a.lock(&simStep{kind: n.kinds[0], owner: i, name: s.place(n)}).TryAcquireAsync(context.Background())
					await(s, f)
					ls, err, _ = f.Result()
				}
				if err != nil {
					s.fail("who gave everything back may acquire", "owner %d of engine %d, %q: %v", i, se.n, n.name, err)
					continue
				}
				await(s, ls.ReleaseAsync())
			}
		}
	}
}

// place is the number by which a step finds a name.
func (s *sim) place(n *simName) int {
	at := 0
	for _, other := range s.names {
		if other == n {
			return at
		}
		for _, k := range other.kinds {
			if k == n.kinds[0] {
				at++
			}
		}
	}
	return at
}

// closeAll closes every engine: nothing of it is left.
func (s *sim) closeAll() {
	for _, se := range s.engines {
		ctx, cancel := s.w.WithTimeout(context.Background(), 30*time.Second)
		s.reds.close(se)
		began := s.w.Now()
		s.ops++
		err := se.eng.Close(ctx)
		cancel()
		if took := s.w.Now().Sub(began); err != nil || took > 10*time.Second {
			s.fail("Close returns", "engine %d with nothing to do took %v: %v", se.n, took, err)
		}
		se.others.checkTold()
		s.checkFreed(se.eng.ID())
		s.w.Sleep(time.Second)
		if n := se.proc.Live(); n != 0 {
			s.fail("nothing is left", "%d goroutines of engine %d", n, se.n)
		}
	}
}

// simRelease is a release that must be answered.
type simRelease struct {
	f  *Future[struct{}]
	id int
	se *simEngine
}
