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
	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// Barriers in the simulation: callers wait for each other, leave and reset. Nobody passes before its whole generation has
// come, nobody of one that is complete is told that it is broken, an arrival counts once, and who waits in a generation
// that is over is told so soon.

// A simBarrier is a barrier.
type simBarrier struct {
	name       string
	parties    int
	generation int64                     // that gathers, when somebody last looked
	broken     bool                      // so is that one
	brokenAt   clock.Instant             // when it was last seen to be; 0: never
	came       map[int64]map[string]bool // who has come, by generation
	ended      map[int64]clock.Instant   // when a generation was first seen to be over: complete, broken or reset
	of         map[string]int64          // the generation of a party
	ids        map[*acquireOp]string     // of parties, by callers
	waiters    []*simParty
	heard      map[string]simWord // of engines
	leaves     int                // by callers, whose engines tell the server, or die
	// When somebody last left of whom the others must hear where nothing goes wrong; 0: nobody did, or it was reset since.
	leftAt, resetAt clock.Instant
}

// A simParty is a caller that waits at a barrier.
type simParty struct {
	who   string
	se    *simEngine
	gen   int
	tally *simTally
	op    *acquireOp
	since clock.Instant
	over  bool
}

func newSimBarrier(name string, parties int) *simBarrier {
	return &simBarrier{
		name: name, parties: parties, came: make(map[int64]map[string]bool), ended: make(map[int64]clock.Instant),
		of: make(map[string]int64), ids: make(map[*acquireOp]string), heard: make(map[string]simWord),
	}
}

// complete reports whether all of a generation have come.
func (b *simBarrier) complete(generation int64) bool { return len(b.came[generation]) >= b.parties }

// gathered looks at what a command has done to barriers.
func (c *simCounted) gathered(args []string) {
	if c == nil {
		return
	}
	for _, key := range simKeysOf(args) {
		for _, b := range c.barriers {
			if key == b.name {
				c.overdue(b, args)
				c.gather(b, simScriptNames[scriptArg(args)])
			}
		}
	}
}

// overdue forgets who was taken out by a request of others, because its engine was not heard of in time: the server's
// clock may have been stepped. What it waited in is broken. It was not told, and comes to the next generation.
func (c *simCounted) overdue(b *simBarrier, args []string) {
	_, _, _, parties := twin.BarrierParties(c.s.server.twin.Do([]string{"GET", b.name}).Text)
	for party, of := range b.of {
		engine, _, _ := strings.Cut(party, ":")
		_, there := parties[party]
		if !there && of == b.generation && !b.complete(of) && !strings.Contains(strings.Join(args, " "), engine) {
			delete(b.of, party)
			b.brokenAt = c.s.w.Now() // and a reset may follow in the same script
		}
	}
}

// gather notes what a barrier is, after a script.
func (c *simCounted) gather(b *simBarrier, script string) {
	s, now := c.s, c.s.w.Now()
	text := s.server.twin.Do([]string{"GET", b.name}).Text
	b.heardOf(text, now)
	generation, arrived, broken, parties := twin.BarrierParties(text)
	for party, of := range parties {
		if was, known := b.of[party]; known && was != of && !c.excused {
			s.fail("an arrival counts once", "%q: party %s is of the generations %d and %d", b.name, party, was, of)
		}
		if b.of[party] = of; b.came[of] == nil {
			b.came[of] = make(map[string]bool)
		}
		b.came[of][party] = true
	}
	c.identify(b)
	for of, came := range b.came {
		over := of < generation || broken && of == generation
		if len(came) > b.parties && !c.excused {
			s.fail("a generation has so many parties", "%q: %d have come to generation %d, which is for %d", b.name, len(came), of, b.parties)
		}
		if over && b.ended[of] == 0 {
			b.ended[of] = now
		}
	}
	if b.generation != 0 && generation > b.generation && !b.complete(b.generation) && script != "barrierset" && !c.excused {
		s.fail("a generation ends when all have come", "%q: generation %d ended by %s with %d parties", b.name, b.generation, script,
			len(b.came[b.generation]))
	}
	if broken {
		b.brokenAt = now
		if !b.broken && s.healthy() && !s.closes && b.leaves == 0 {
			s.fail("a barrier is broken by who leaves", "%q: nobody has left", b.name)
		}
	}
	if !broken && !c.excused && int(arrived) != len(b.came[generation]) {
		s.fail("who has come is counted", "%q: %d of generation %d, of which %d have come", b.name, arrived, generation, len(b.came[generation]))
	}
	b.generation, b.broken = generation, broken
}

// identify finds out by which number the server knows each caller.
func (c *simCounted) identify(b *simBarrier) {
	hash := xxhash.Sum64String(b.name)
	for _, se := range c.s.engines {
		if se.eng == nil {
			continue
		}
		if ent := se.eng.shard(hash).names.get(hash, b.name); ent != nil && ent.children() != nil {
			for op, id := range ent.children().parties {
				b.ids[op] = se.eng.id + ":" + strconv.FormatInt(id, 10)
			}
		}
	}
}

// barrier waits at a barrier, or resets it.
func (a *simActor) barrier(st *simStep) {
	s := a.s
	if s.counted == nil {
		return
	}
	b := s.counted.barriers[st.name%len(s.counted.barriers)]
	s.ops++
	if st.pick == 0 {
		a.resetBarrier(b)
		return
	}
	opts := []Option{WatchdogLease(MinPartyLease)}
	if most := simWaits[st.wait]; most > 0 {
		opts = append(opts, MaxWait(most))
	}
	if len(opts) > 1 || st.ends != endsResult { // it may leave, and is told after its engine has said so
		b.leaves++
	}
	w := &simParty{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, since: s.w.Now()}
	s.story("%s comes to %q", w.who, b.name)
	ctx, cancel := s.w.WithCancel(context.Background())
	f := a.se.eng.Barrier(b.name, b.parties, opts...).AwaitAsync(ctx)
	w.op = f.op.(*taking).op
	b.waiters = append(b.waiters, w)
	broken, done := false, s.w.NewLatch()
	f.then(func() {
		_, err, _ := f.Result()
		s.story("%s has waited at %q: %v", w.who, b.name, err)
		broken = errors.Is(err, ErrBarrierBroken)
		s.met(b, w, simWaits[st.wait], err)
		done.Open()
	})
	if st.loose && st.pick < 4 {
		a.comesAndGoes(b)
	}
	limit := st.after + 2*time.Second
	switch {
	case s.crashes: // until those who have died are overdue
		limit += MinPartyLease
	case s.cutsOff: // until those who were not heard of should have been missed
		limit += 2 * MinPartyLease
	}
	if !done.WaitUntil(s.w.Now().Add(limit)) { // perhaps nobody comes
		w.over = true
		b.leaves++
		if st.ends == endsCancel {
			f.Cancel()
		} else {
			cancel()
		}
	}
	done.WaitIn(context.Background())
	cancel()
	if broken && st.loose {
		a.resetBarrier(b)
	}
}

// comesAndGoes has one more come while a request is on its way, and leave before any has named it.
func (a *simActor) comesAndGoes(b *simBarrier) {
	s := a.s
	s.ops++
	b.leaves++
	w := &simParty{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, since: s.w.Now(), over: true}
	f := a.se.eng.Barrier(b.name, b.parties, WatchdogLease(MinPartyLease)).AwaitAsync(context.Background())
	w.op = f.op.(*taking).op
	f.then(func() {
		_, err, _ := f.Result()
		s.story("%s has come to %q, and gone: %v", w.who, b.name, err)
		s.met(b, w, 0, err)
	})
	f.Cancel()
}

func (a *simActor) resetBarrier(b *simBarrier) {
	b.leaves++
	f := a.se.eng.Barrier(b.name, b.parties).ResetAsync(context.Background())
	b.leftAt, b.resetAt = 0, a.s.w.Now()
	await(a.s, f)
	b.leftAt, b.resetAt = 0, a.s.w.Now()
	reset, err, _ := f.Result()
	a.s.story("%s has reset %q: %v, %v", a.who(), b.name, reset, err)
}

// met follows the result of one who has waited.
func (s *sim) met(b *simBarrier, w *simParty, most time.Duration, err error) {
	b.waiters = slices.DeleteFunc(b.waiters, func(other *simParty) bool { return other == w })
	if took := s.w.Now().Sub(w.since); most > 0 && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v at %q, and at most %v", w.who, took, b.name, most)
	}
	of, came := b.of[b.ids[w.op]]
	switch {
	case err == nil:
		w.tally.grants++
		if !s.counted.excused && (!came || !b.complete(of)) {
			s.fail("nobody passes a barrier early", "%s has passed %q in generation %d, to which %d have come", w.who, b.name, of, len(b.came[of]))
		}
	case errors.Is(err, ErrBarrierBroken):
		switch {
		case s.counted.excused:
		case came && b.complete(of):
			s.fail("all pass, or all are told", "%s was told %v of %q, but all of generation %d have come", w.who, err, b.name, of)
		case !came && b.brokenAt < w.since && !b.broken:
			s.fail("all pass, or all are told", "%s was told %v of %q, and it was not", w.who, err, b.name)
		}
	default:
		b.leaves++
		if s.healthy() && !s.closes && (errors.Is(err, ErrNotOpen) || w.over) && max(b.brokenAt, b.resetAt) < w.since && (!came || !b.complete(of)) {
			b.leftAt = s.w.Now()
		}
		if s.healthy() && !errors.Is(err, ErrNotOpen) && !errors.Is(err, ErrClosed) && !w.over && (most == 0 || !errors.Is(err, ErrUnknown)) {
			s.fail("where nothing goes wrong there are no errors", "%s waited at %q: %v", w.who, b.name, err)
		}
	}
}

// checkBarriers: who waits in a generation that is over is told soon, where nothing goes wrong any more.
func (c *simCounted) checkBarriers() {
	now := c.s.w.Now()
	for _, b := range c.barriers {
		for _, w := range b.waiters {
			c.checkMissed(b, w)
		}
	}
	if c.excused || c.s.quietAt == 0 || now.Sub(c.s.quietAt) < simCalm {
		return
	}
	for _, b := range c.barriers {
		for _, w := range b.waiters {
			if b.leftAt != 0 && b.brokenAt < b.leftAt && w.since.Add(simWoken+4*c.s.line) < b.leftAt && !w.over && now.Sub(b.leftAt) > simWoken+8*c.s.line {
				c.s.fail("who leaves breaks it", "%s waits at %q, and one has left %v ago", w.who, b.name, now.Sub(b.leftAt))
			}
			ended := b.ended[b.of[b.ids[w.op]]]
			if ended != 0 && !w.over && !w.se.closing && w.gen == w.se.gen && now.Sub(ended) > simSoon+8*c.s.line {
				c.s.fail("who waits at a barrier is told", "%s waits at %q, and its generation was over at %v", w.who, b.name,
					time.Duration(ended)-time.Hour)
			}
		}
	}
}

// barrierOdds draws how often callers come to barriers, without changing what else is drawn.
func barrierOdds(p *simPlan) int {
	r := rand.New(rand.NewPCG(p.seed, 29)) //nolint:gosec // it must repeat
	return []int{0, 40, 150}[r.IntN(3)]
}
