package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// Semaphores in the simulation: callers take permits and give them back, also by another engine than the one that took
// them, for nobody owns them. What is free on the server and what callers have is never more than there are; and in the
// end all are free but those of processes that have died.

// simCounted is what is counted in a run.
type simCounted struct {
	s        *sim
	sems     []*simSem
	latches  []*simLatch
	barriers []*simBarrier
	excused  bool // a failover has lost what was written, or brought it back
}

// A simSem is a semaphore.
type simSem struct {
	name   string
	limit  int
	held   int                // by callers who live
	by     map[*simEngine]int // of them
	lost   int                // by processes that have died
	leaky  bool               // more may be lost: what had no answer when a process died, or an engine gave up
	takers []*simTaker
	others map[*simEngine]int // who asks for it as a lock

	missing clock.Instant // since when some were missing, whenever nobody asked; 0: they are not
}

// A simTaker is a caller that wants permits.
type simTaker struct {
	who   string
	se    *simEngine
	gen   int
	tally *simTally
	n     int
	since clock.Instant
	try   bool
	over  bool          // it gives up
	could clock.Instant // since when it is the first of its engine, and as many are free; 0: it is not
}

func newSimCounted(s *sim) *simCounted {
	c := &simCounted{s: s, latches: []*simLatch{newSimLatch("l0"), newSimLatch("l1")}}
	c.barriers = []*simBarrier{newSimBarrier("b0", 2), newSimBarrier("b1", 3)}
	for i, limit := range []int{1, 3} {
		sem := &simSem{name: "s" + strconv.Itoa(i), limit: limit, by: make(map[*simEngine]int), others: make(map[*simEngine]int)}
		c.sems = append(c.sems, sem)
		s.server.twin.Do([]string{"SET", sem.name, strconv.Itoa(limit)})
	}
	return c
}

// keeps reports whether a key stays when all is over.
func (c *simCounted) keeps(key string) bool {
	return c != nil && (slices.ContainsFunc(c.sems, func(sem *simSem) bool {
		return key == sem.name || strings.HasPrefix(key, "{"+sem.name+"}:")
	}) || slices.ContainsFunc(c.latches, func(l *simLatch) bool {
		return key == l.name || strings.HasPrefix(key, "{"+l.name+"}:")
	}) || slices.ContainsFunc(c.barriers, func(b *simBarrier) bool { return key == b.name }))
}

// shards are those of the names.
func (c *simCounted) shards() (all []uint64) {
	if c != nil {
		for _, sem := range c.sems {
			all = append(all, xxhash.Sum64String(sem.name)%shardCount)
		}
		all = append(all, c.latchShards()...)
		for _, b := range c.barriers {
			all = append(all, xxhash.Sum64String(b.name)%shardCount)
		}
	}
	return all
}

// free is how many permits are free on the server.
func (c *simCounted) free(sem *simSem) int {
	n, err := strconv.Atoi(c.s.server.twin.Do([]string{"GET", sem.name}).Text)
	if err != nil {
		c.s.fail("permits are a number", "%q: %v", sem.name, err)
	}
	return n
}

// check: there are never more permits than there are.
func (c *simCounted) check(sem *simSem) {
	if free := c.free(sem); !c.excused && (free < 0 || free+sem.held+sem.lost > sem.limit) {
		c.s.fail("permits are never above the limit", "%q: %d are free, callers have %d, %d are lost with their processes, and there are %d",
			sem.name, free, sem.held, sem.lost, sem.limit)
	}
}

// afterCommand looks at what a command has done.
func (c *simCounted) afterCommand(keys []string) {
	if c == nil {
		return
	}
	for _, sem := range c.sems {
		if slices.Contains(keys, sem.name) {
			sem.missing = 0
			c.check(sem)
		}
	}
}

// died: what its callers had is lost, and what had no answer may be.
func (c *simCounted) died(se *simEngine) {
	if c == nil {
		return
	}
	for _, sem := range c.sems {
		sem.lost, sem.held = sem.lost+sem.by[se], sem.held-sem.by[se]
		delete(sem.by, se)
		sem.takers = slices.DeleteFunc(sem.takers, func(w *simTaker) bool { return w.se == se })
	}
	for _, l := range c.latches {
		l.waiters = slices.DeleteFunc(l.waiters, func(w *simAwait) bool { return w.se == se })
	}
	for _, b := range c.barriers {
		b.leaves++
		b.waiters = slices.DeleteFunc(b.waiters, func(w *simParty) bool { return w.se == se })
	}
	for _, a := range se.crew {
		a.gives = 0
	}
	c.leaks()
}

// leaks: what had no answer is perhaps lost.
func (c *simCounted) leaks() {
	if c != nil {
		for _, sem := range c.sems {
			sem.leaky = true
		}
	}
}

// permits takes some permits, and gives them back after a while.
func (a *simActor) permits(st *simStep) {
	s := a.s
	if s.counted == nil {
		return
	}
	sem := s.counted.sems[st.name%len(s.counted.sems)]
	w := &simTaker{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, n: 1 + st.pick%sem.limit, since: s.w.Now(), try: st.try}
	var opts []Option
	if most := simWaits[st.wait]; most > 0 {
		opts = append(opts, MaxWait(most))
	}
	s.story("%s wants %d permits of %q", w.who, w.n, sem.name)
	s.ops++
	sem.takers = append(sem.takers, w)
	ctx, cancel := s.w.WithCancel(context.Background())
	f, handle := (*Future[struct{}])(nil), a.se.eng.Semaphore(sem.name, opts...)
	if st.try {
		f = handle.TryAcquireAsync(ctx, w.n)
	} else {
		f = handle.AcquireAsync(ctx, w.n)
	}
	taken, done := false, s.w.NewLatch()
	f.then(func() {
		_, err, _ := f.Result()
		taken = err == nil
		s.story("%s has %d permits of %q: %v", w.who, w.n, sem.name, err)
		s.took(sem, w, simWaits[st.wait], err)
		done.Open()
	})
	ends, after := st.ends, st.after
	if ends == endsResult && (s.crashes || s.blows || s.closes) { // what is lost with a process nobody gives back
		ends, after = endsCtx, after+time.Second
	}
	if ends != endsResult && !done.WaitUntil(s.w.Now().Add(after)) {
		w.over = true
		if ends == endsCancel {
			f.Cancel()
		} else {
			cancel()
		}
	}
	done.WaitIn(context.Background())
	cancel()
	if !taken {
		return
	}
	s.w.Sleep(st.keep)
	a.gives++
	if st.loose {
		s.w.Go("gives permits back", func() { a.givePermits(sem, w.n) })
	} else {
		a.givePermits(sem, w.n)
	}
}

// took follows the result of an acquire.
func (s *sim) took(sem *simSem, w *simTaker, most time.Duration, err error) {
	sem.takers = slices.DeleteFunc(sem.takers, func(other *simTaker) bool { return other == w })
	if took := s.w.Now().Sub(w.since); most > 0 && !w.try && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for permits of %q, and at most %v", w.who, took, sem.name, most)
	}
	if w.try && errors.Is(err, ErrHeld) {
		w.tally.refused++
	}
	switch {
	case err == nil:
		w.tally.grants++
		sem.held += w.n
		sem.by[w.se] += w.n
		s.counted.check(sem)
	case s.healthy() && !errors.Is(err, ErrNoPermits) && !errors.Is(err, ErrClosed) && !w.over && (most == 0 || !errors.Is(err, ErrUnknown)): // or it ended in a pause for others
		s.fail("where nothing goes wrong there are no errors", "%s got %v for %q", w.who, err, sem.name)
	}
}

// givePermits gives permits back by the engine that is there then: until one has taken them.
func (a *simActor) givePermits(sem *simSem, n int) {
	s := a.s
	sem.held -= n
	sem.by[a.se] -= n
	for {
		for a.se.closing {
			s.w.Sleep(time.Millisecond)
		}
		s.story("%s gives %d permits of %q back", a.who(), n, sem.name)
		s.ops++
		tally := a.se.tally
		f := a.se.eng.Semaphore(sem.name).ReleaseAsync(n)
		await(s, f)
		_, err, _ := f.Result()
		tally.released(err)
		s.story("%s has given %d permits of %q back: %v", a.who(), n, sem.name, err)
		if errors.Is(err, ErrUnknown) && (s.closes || s.crashes) { // else the engine goes on
			s.counted.leaks()
		}
		if err == nil || errors.Is(err, ErrUnknown) {
			break
		}
		if s.healthy() && !errors.Is(err, ErrClosed) {
			s.fail("where nothing goes wrong there are no errors", "%s gives permits of %q back: %v", a.who(), sem.name, err)
		}
		s.w.Sleep(time.Millisecond + s.w.N(50*time.Millisecond))
	}
	a.gives--
}

// checkWaiting: who is first in its engine has permits soon that are free, where nothing goes wrong any more.
func (c *simCounted) checkWaiting() {
	if c == nil {
		return
	}
	c.checkLatches()
	c.checkBarriers()
	now := c.s.w.Now()
	quiet := c.s.quietAt != 0 && now.Sub(c.s.quietAt) >= simCalm
	for _, sem := range c.sems {
		free, first := c.free(sem), make(map[*simEngine]bool)
		for _, w := range sem.takers {
			could := quiet && !first[w.se] && !w.try && !w.over && !w.se.closing && w.gen == w.se.gen && w.n <= free
			first[w.se] = true
			switch {
			case !could:
				w.could = 0
			case w.could == 0:
				w.could = now
			case now.Sub(w.could) > simSoon+8*c.s.line:
				c.s.fail("permits that are free are granted", "%s has waited for %d permits of %q for %v, and %d are free", w.who, w.n, sem.name,
					now.Sub(w.could), free)
			}
		}
	}
}

// checkRest: where nobody asks, and nothing is unanswered, what is not free is somebody's.
func (c *simCounted) checkRest() {
	if c == nil || c.excused || c.s.crashes || c.s.unanswered() > 0 {
		return
	}
	for _, se := range c.s.engines {
		for _, a := range se.crew {
			if a.gives > 0 {
				return
			}
		}
	}
	for _, sem := range c.sems {
		asked := slices.ContainsFunc(c.s.engines, func(se *simEngine) bool {
			hash := xxhash.Sum64String(sem.name)
			ent := se.eng.shard(hash).names.get(hash, sem.name)
			return ent != nil && ent.Attempt() != nil
		})
		free, now := c.free(sem), c.s.w.Now()
		switch {
		case asked || sem.leaky:
		case free+sem.held+sem.lost == sem.limit:
			sem.missing = 0
		case sem.missing == 0: // a result may be about to be told
			sem.missing = now
		case now.Sub(sem.missing) > 200*time.Millisecond:
			c.s.fail("no permit is lost", "%q: %d are free, callers have %d, %d are lost with their processes, and there are %d", sem.name, free,
				sem.held, sem.lost, sem.limit)
		}
	}
}

// checkEnd: what was taken was given back.
func (c *simCounted) checkEnd() {
	if c == nil || c.excused {
		return
	}
	for _, sem := range c.sems {
		free, want := c.free(sem), sem.limit-sem.lost
		if free > want || free < want && !sem.leaky {
			c.s.fail("no permit is lost", "%q: in the end %d are free, of %d, and %d are lost with their processes", sem.name, free, sem.limit, sem.lost)
		}
	}
}

// simCountedProfile is one seed in eight: nothing but what is counted.
//
//nolint:gochecknoglobals // a constant in all but name
var simCountedProfile = simProfile{"counted", [][]simKind{{simLock}}, shapeCounted}

// shapeCounted: callers take and give back permits, and everything goes wrong that may.
func shapeCounted(p *simPlan, r *rand.Rand) {
	h := p.habit
	h.odds = simOdds{doPermits: 50, doLatch: []int{0, 30, 90}[r.IntN(3)], doPause: 10, doClose: r.IntN(3), doOtherKind: 8}
	h.odds[doBarrier] = barrierOdds(p)
	h.spans = simSpans{10 * time.Microsecond, []time.Duration{2, 50, 1000}[r.IntN(3)] * time.Millisecond}
	h.waits, h.quits, h.tries = 30, 30, 20
	p.engines, p.actors, p.calm = 1+r.IntN(3), 1+r.IntN(5), []int{30, 70, 100}[r.IntN(3)]
	p.closes = h.odds[doClose] > 0
	if r.IntN(4) == 0 {
		return
	}
	p.rate = []int{2, 10, 50, 200}[r.IntN(4)]
	for f := fateSlow; f <= fateTwice; f++ {
		if r.IntN(2) == 0 {
			p.fates = append(p.fates, f)
		}
	}
	p.crashes, p.blows, p.clocks = r.IntN(4) == 0, r.IntN(3) == 0, r.IntN(6) == 0
}
