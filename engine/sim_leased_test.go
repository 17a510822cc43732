package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Semaphores with leased permits in the simulation. On the server, what is free and what is leased are always as many as
// there are; whoever believes in permits has all their ids there, and nobody else believes in one of them; and in the end
// nothing is leased any more.

// simLeased is the semaphores with leased permits of a run.
type simLeased struct {
	s    *sim
	sems []*simLeasedSem
	gone map[string]bool // ids whose lease was lost with a failover, or shortened
}

// A simLeasedSem is one of them.
type simLeasedSem struct {
	name   string
	limit  int
	held   []*simPermit
	takers []*simTaker
}

// A simPermit is what a caller has.
type simPermit struct {
	who string
	p   *Permit
	se  *simEngine
	gen int
}

func newSimLeased(s *sim) *simLeased {
	c := &simLeased{s: s, gone: make(map[string]bool)}
	for i, limit := range []int{1, 4} {
		sem := &simLeasedSem{name: "p" + strconv.Itoa(i), limit: limit}
		c.sems = append(c.sems, sem)
		s.server.twin.Do([]string{"SET", sem.name, strconv.Itoa(limit)})
	}
	return c
}

// keeps reports whether a key stays when all is over.
func (c *simLeased) keeps(key string) bool {
	return c != nil && slices.ContainsFunc(c.sems, func(sem *simLeasedSem) bool {
		return key == sem.name || key == slot.PermitTimeouts(sem.name)
	})
}

// shards are those of the names.
func (c *simLeased) shards() (all []uint64) {
	if c != nil {
		for _, sem := range c.sems {
			all = append(all, xxhash.Sum64String(sem.name)%shardCount)
		}
	}
	return all
}

// free is how many permits are free on the server, and leased how many are leased there, or stand there though that is over.
func (c *simLeased) free(sem *simLeasedSem) (free, leased, over int) {
	free, err := strconv.Atoi(c.s.server.twin.Do([]string{"GET", sem.name}).Text)
	if err != nil {
		c.s.fail("permits are a number", "%q: %v", sem.name, err)
	}
	now := float64(c.s.server.twin.Millis())
	for _, m := range c.s.server.twin.ZSet(slot.PermitTimeouts(sem.name)) {
		if m.Score > now {
			leased++
		} else {
			over++
		}
	}
	return free, leased, over
}

// check: no permit is made, and none is lost.
func (c *simLeased) check(sem *simLeasedSem) {
	if free, leased, over := c.free(sem); free < 0 || free+leased+over != sem.limit {
		c.s.fail("leased permits are neither made nor lost", "%q: %d are free, %d are leased, the leases of %d are over, and there are %d",
			sem.name, free, leased, over, sem.limit)
	}
	c.checkBelief(sem)
}

// believes reports whether a caller has reason to think that it has its permits.
func (p *simPermit) believes() bool {
	return p.gen == p.se.gen && p.se.running() && !p.p.Lost() && p.p.lease.state.Load() == leaseActive
}

// ids are those of its permits, as they stand on the server. Asking for them by IDs would keep them from being handed over.
func (p *simPermit) ids() (all []string) {
	for field := p.p.lease.hold.Field; len(field) >= resp.PermitID; field = field[resp.PermitID:] {
		all = append(all, field[:resp.PermitID])
	}
	return all
}

// checkBelief: who believes in permits has them, and nobody else does.
func (c *simLeased) checkBelief(sem *simLeasedSem) {
	now, set, has := float64(c.s.server.twin.Millis()), c.s.server.twin.ZSet(slot.PermitTimeouts(sem.name)), make(map[string]*simPermit)
	for _, p := range sem.held {
		if !p.believes() {
			continue
		}
		for _, id := range p.ids() {
			if other := has[id]; other != nil {
				c.s.fail("a permit is one caller's", "%q: %s and %s both believe in %x", sem.name, other.who, p.who, id)
			}
			has[id] = p
			there := slices.ContainsFunc(set, func(m twin.Member) bool { return m.Name == id && m.Score > now })
			if !there && !c.gone[id] && !c.s.clocks {
				c.s.fail("who believes in a permit has it", "%q: %s believes in %x, and it is not leased", sem.name, p.who, id)
			}
		}
	}
}

// afterCommand looks at what a command has done.
func (c *simLeased) afterCommand(keys []string) {
	if c == nil {
		return
	}
	for _, sem := range c.sems {
		if slices.Contains(keys, sem.name) || slices.Contains(keys, slot.PermitTimeouts(sem.name)) {
			c.check(sem)
		}
	}
}

// died: nobody believes in what its callers had.
func (c *simLeased) died(se *simEngine) {
	if c == nil {
		return
	}
	for _, sem := range c.sems {
		sem.held = slices.DeleteFunc(sem.held, func(p *simPermit) bool { return p.se == se })
		sem.takers = slices.DeleteFunc(sem.takers, func(w *simTaker) bool { return w.se == se })
	}
	for _, a := range se.crew {
		a.gives = 0
	}
}

// failedOver: what the new master has not seen is lost.
func (c *simLeased) failedOver(old, replica *twin.Server) {
	if c == nil {
		return
	}
	for _, sem := range c.sems {
		left := replica.ZSet(slot.PermitTimeouts(sem.name))
		for _, m := range old.ZSet(slot.PermitTimeouts(sem.name)) {
			if !slices.ContainsFunc(left, func(o twin.Member) bool { return o.Name == m.Name && o.Score >= m.Score }) {
				c.gone[m.Name] = true
			}
		}
	}
}

// leased takes leased permits, and gives them back after a while.
func (a *simActor) leased(st *simStep) {
	s := a.s
	sem := s.leased.sems[st.name%len(s.leased.sems)]
	w := &simTaker{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, n: 1 + st.pick%sem.limit, since: s.w.Now(), try: st.try}
	handle := a.se.eng.PermitSemaphore(sem.name, a.leasedOptions(st)...)
	s.story("%s wants %d leased permits of %q", w.who, w.n, sem.name)
	s.ops++
	sem.takers = append(sem.takers, w)
	ctx, cancel := s.w.WithCancel(context.Background())
	f := (*Future[*Permit])(nil)
	if st.try {
		f = handle.TryAcquireAsync(ctx, w.n)
	} else {
		f = handle.AcquireAsync(ctx, w.n)
	}
	got, done := (*simPermit)(nil), s.w.NewLatch()
	f.then(func() {
		p, err, _ := f.Result()
		s.story("%s has %d leased permits of %q: %v", w.who, w.n, sem.name, err)
		got = s.tookLeased(sem, w, st, p, err)
		done.Open()
	})
	if st.ends != endsResult && !done.WaitUntil(s.w.Now().Add(st.after)) {
		w.over = true
		if st.ends == endsCancel {
			f.Cancel()
		} else {
			cancel()
		}
	}
	done.WaitIn(context.Background())
	cancel()
	if got == nil {
		return
	}
	a.keepLeased(sem, got, st)
	if st.loose {
		a.gives++
		s.w.Go("gives leased permits back", func() { a.giveLeased(sem, got); a.gives-- })
	} else {
		a.giveLeased(sem, got)
	}
}

func (a *simActor) leasedOptions(st *simStep) []Option {
	opts := []Option{simLeases[st.lease]}
	if most := simWaits[st.wait]; most > 0 {
		opts = append(opts, MaxWait(most))
	}
	if st.hold > 0 {
		opts = append(opts, MaxHold(simMaxHold))
	}
	if st.acks > 0 {
		opts = append(opts, WaitReplicas(st.acks, 40*time.Millisecond))
	}
	return opts
}

// tookLeased follows the result of an acquire.
func (s *sim) tookLeased(sem *simLeasedSem, w *simTaker, st *simStep, p *Permit, err error) (got *simPermit) {
	sem.takers = slices.DeleteFunc(sem.takers, func(other *simTaker) bool { return other == w })
	most := simWaits[st.wait]
	if took := s.w.Now().Sub(w.since); most > 0 && !w.try && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for leased permits of %q, and at most %v", w.who, took, sem.name, most)
	}
	if w.try && errors.Is(err, ErrHeld) {
		w.tally.refused++
	}
	switch {
	case err == nil:
		got = &simPermit{who: w.who, p: p, se: w.se, gen: w.gen}
		if n := len(got.ids()); n != w.n {
			s.fail("who wants permits gets as many", "%s wants %d of %q and has %d", w.who, w.n, sem.name, n)
		}
		sem.held = append(sem.held, got)
		w.se.tells(p.lease)
		s.leased.checkBelief(sem)
	case s.healthy() && !errors.Is(err, ErrNoPermits) && !errors.Is(err, ErrClosed) && !w.over && (most == 0 || !errors.Is(err, ErrUnknown)) &&
		(st.acks == 0 || !errors.Is(err, ErrNotReplicated)):
		s.fail("where nothing goes wrong there are no errors", "%s got %v for %q", w.who, err, sem.name)
	}
	return got
}

// keepLeased has permits for a while, and extends them, or stops their renewals, or is told their ids.
func (a *simActor) keepLeased(sem *simLeasedSem, got *simPermit, st *simStep) {
	s := a.s
	s.w.Sleep(st.keep / 2)
	if got.gen == a.se.gen && !a.se.closing {
		switch ls := got.p.lease; {
		case st.again:
			got.p.IDs()
		case st.owner >= 0 && ls.set.Watchdog:
			s.story("%s stops the renewals of its permits of %q", got.who, sem.name)
			got.p.StopRenewing()
		case st.owner >= 0:
			s.ops++
			f := ls.extend(context.Background(), simLeaseTimes[st.lease])
			await(s, f)
			_, err, _ := f.Result()
			s.story("%s has extended its permits of %q: %v", got.who, sem.name, err)
		}
	}
	s.w.Sleep(st.keep / 2)
}

// giveLeased gives permits back, by the engine that has taken them.
func (a *simActor) giveLeased(sem *simLeasedSem, got *simPermit) {
	s, tally := a.s, got.se.tally
	sem.held = slices.DeleteFunc(sem.held, func(other *simPermit) bool { return other == got })
	sound := s.healthy() && got.believes() && !got.se.closing
	s.story("%s gives its permits of %q back", got.who, sem.name)
	s.ops++
	f := got.p.ReleaseAsync()
	await(s, f)
	_, err, _ := f.Result()
	s.story("%s has given its permits of %q back: %v", got.who, sem.name, err)
	if got.p.lease.eng() == got.se.eng {
		tally.released(err)
		got.se.seenLost(got.p.lease)
	}
	if sound && err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotHeld) {
		s.fail("where nothing goes wrong there are no errors", "%s gives permits of %q back: %v", got.who, sem.name, err)
	}
}

// checkWaiting: who is first in its engine has permits soon that are free, where nothing goes wrong any more.
func (c *simLeased) checkWaiting() {
	if c == nil {
		return
	}
	now := c.s.w.Now()
	quiet := c.s.quietAt != 0 && now.Sub(c.s.quietAt) >= simCalm
	for _, sem := range c.sems {
		c.check(sem)
		free, _, over := c.free(sem)
		first := make(map[*simEngine]bool)
		for _, w := range sem.takers {
			could := quiet && !first[w.se] && !w.try && !w.over && !w.se.closing && w.gen == w.se.gen && w.n <= free+over
			first[w.se] = true
			switch {
			case !could:
				w.could = 0
			case w.could == 0:
				w.could = now
			case now.Sub(w.could) > simSoon+8*c.s.line:
				c.s.fail("permits that are free are granted", "%s has waited for %d permits of %q for %v, and %d are free, and the leases of %d over",
					w.who, w.n, sem.name, now.Sub(w.could), free, over)
			}
		}
	}
}

// left reports whether anything is still leased.
func (c *simLeased) left() bool {
	return c != nil && slices.ContainsFunc(c.sems, func(sem *simLeasedSem) bool {
		_, leased, _ := c.free(sem)
		return leased > 0
	})
}

// checkEnd: nothing is leased that nobody has.
func (c *simLeased) checkEnd() {
	if c == nil || c.s.clocks {
		return
	}
	for _, sem := range c.sems {
		c.check(sem)
		if free, leased, _ := c.free(sem); leased > 0 || len(sem.held) > 0 || len(sem.takers) > 0 {
			c.s.fail("what was leased is free in the end", "%q: %d are free, and %d are leased; %d callers have some, %d wait", sem.name, free, leased,
				len(sem.held), len(sem.takers))
		}
	}
}

// checkClosed: what a closed engine had is not leased any more, where nothing goes wrong.
func (c *simLeased) checkClosed(id string) {
	if c == nil || !c.s.smooth() {
		return
	}
	mark := string(binary.BigEndian.AppendUint64(nil, xxhash.Sum64String(id)))
	now := float64(c.s.server.twin.Millis())
	for _, sem := range c.sems {
		for _, m := range c.s.server.twin.ZSet(slot.PermitTimeouts(sem.name)) {
			if m.Score > now && strings.HasPrefix(m.Name, mark) {
				c.s.fail("Close frees the server", "%q: %x is left", sem.name, m.Name)
			}
		}
	}
}

// simLeasedProfile is one seed in sixteen: nothing but leased permits.
//
//nolint:gochecknoglobals // a constant in all but name
var simLeasedProfile = simProfile{"leased", [][]simKind{{simLock}}, shapeLeased}

// shapeLeased: callers take leased permits, keep them for longer than some leases, and everything goes wrong that may.
func shapeLeased(p *simPlan, r *rand.Rand) {
	shapeCounted(p, r)
	h := p.habit
	h.leases, h.acks, h.again = []int{0, 0, 2, 2, 4, 5}, []int{0, 0, 5}[r.IntN(3)], 20
	h.spans = simSpans{10 * time.Microsecond, []time.Duration{2, 50, 1000, 4000}[r.IntN(4)] * time.Millisecond}
	p.owners, p.nested = 1, []int{0, 10, 40}[r.IntN(3)]
	if r.IntN(2) == 0 { // so that they are handed over
		h.leases = []int{0}
	}
}
