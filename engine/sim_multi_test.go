package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// Several locks at once. Each lock of a multi is an acquire, a hold and a release like those of other callers, and all
// rules hold for it, from its own grant on: what is kept while others are waited for is believed. Besides, all are
// granted or none, a multi that failed leaves nothing, and one that is lost is lost as a whole.

// A simMulti is one acquire of several locks.
type simMulti struct {
	who     string
	asked   int                 // parts that have no answer
	live    map[*Lease]*simHold // parts that are held
	giving  map[*Lease]bool     // parts whose release has no answer
	closing bool                // its engine closes: what it has is given back by Close
	raising clock.Instant       // since when what it has is extended, where it has everything; 0: it is not
}

// simParts is told of the parts of multis of one engine.
type simParts struct {
	s   *sim
	se  *simEngine
	gen int
}

//nolint:gochecknoglobals // a table
var simKindOf = map[resp.Family]simKind{
	resp.FamilyLock: simLock, resp.FamilySpin: simSpin, resp.FamilyFenced: simFenced, resp.FamilyRead: simRead,
	resp.FamilyWrite: simWrite, resp.FamilyFair: simFair,
}

// over reports whether the engine of that time is closing or gone.
func (p *simParts) over() bool { return p.se.gen != p.gen || p.se.closing }

func (p *simParts) asks(l *Lock, o *Owner, try bool) func(*Future[*Lease]) {
	s, se, n, m := p.s, p.se, p.s.byKey[l.key], p.s.parts[l]
	w := &simWait{who: m.who, kind: simKindOf[l.set.family], n: n, se: se, gen: p.gen, since: s.w.Now(), owner: o, lease: l.set.Lease, try: try}
	w.live = n.ownedBy(o, se) || s.untold(w) || se.stillHeld(o, n)
	w.had = n.hasHold(o, se) || len(se.giving[simGiving{o, n}]) > 0
	w.order = s.nextID()
	if s.text != nil {
		s.story("%s asks for %q as %s, one of several, once: %v", w.who, n.name, w.kind, try)
	}
	s.begins(w)
	m.asked++
	m.raising = 0
	return func(f *Future[*Lease]) {
		w.asked, w.returned, w.f = true, s.nextID(), f
		f.then(func() {
			n.dropWait(w)
			m.asked--
			ls, err, _ := f.Result()
			if err != nil {
				w.over = w.over || errors.Is(err, ErrCancelled)
				s.refused(w, &simStep{}, err)
				return
			}
			h := s.granted(w, ls, ls.set.Watchdog && ls.set.MaxHold == 0)
			h.maxHold = ls.set.MaxHold > 0
			if m.closing = p.over(); m.closing {
				s.endBelief(h)
				return
			}
			m.live[ls] = h
		})
	}
}

// of is the multi that has a lease; an empty one if none has.
func (p *simParts) of(ls *Lease) *simMulti {
	for _, m := range p.s.parts {
		if m.live[ls] != nil {
			return m
		}
	}
	return &simMulti{giving: make(map[*Lease]bool)}
}

func (p *simParts) givesBack(ls *Lease) func(*Future[struct{}]) {
	m := p.of(ls)
	h := m.live[ls]
	delete(m.live, ls)
	if h == nil || p.over() {
		return func(*Future[struct{}]) {}
	}
	m.giving[ls] = true
	given := p.s.beginsGiving(h)
	return func(f *Future[struct{}]) {
		given(f)
		f.then(func() { delete(m.giving, ls) })
	}
}

func (p *simParts) extends(ls *Lease, d time.Duration) func(*Future[struct{}]) {
	m := p.of(ls)
	h := m.live[ls]
	if h == nil || p.over() {
		return func(*Future[struct{}]) {}
	}
	p.s.checkKeeping(m, h)
	if m.asked == 0 {
		m.raising = p.s.w.Now()
	}
	return p.s.extends(h, d)
}

// checkKeeping: who waits for one of several locks extends those that it keeps one at a time, and none that is lost: else
// what nobody waits for piles up while answers take long.
func (s *sim) checkKeeping(m *simMulti, h *simHold) {
	if m.asked > 0 && (h.extends > 0 || h.ls.Lost()) {
		s.fail("what is kept is extended one at a time", "%s waits, and extends hold %d of %q, of which %d Extends have no answer, lost: %v",
			m.who, h.id, h.n.name, h.extends, h.ls.Lost())
	}
}

// several makes the handle of a step: two to four names in any order.
func (a *simActor) several(st *simStep) (*MultiLock, *simMulti) {
	r := rand.New(rand.NewPCG(uint64(st.after), uint64(st.keep)+uint64(st.pick))) //nolint:gosec // it must repeat
	one := *st
	one.acks = 0
	var locks []*Lock
	for _, at := range r.Perm(len(a.s.names))[:min(2+r.IntN(3), len(a.s.names))] {
		n := a.s.names[at]
		one.kind = n.kinds[r.IntN(len(n.kinds))]
		if slices.Contains(n.kinds, simSpin) { // it is that for all who ask: nobody would be told of its releases
			one.kind = simSpin
		}
		locks = append(locks, a.lockOf(&one, n.name))
		n.longest = max(n.longest, simLeaseTimes[st.lease])
	}
	m, multi := Multi(locks...), &simMulti{who: a.who(), live: make(map[*Lease]*simHold), giving: make(map[*Lease]bool)}
	for _, l := range m.sorted {
		a.s.parts[l] = multi
	}
	return m, multi
}

// multi takes several locks, has them for a while, and gives them back.
func (a *simActor) multi(st *simStep) {
	s := a.s
	lock, m := a.several(st)
	ctx, cancel := s.w.WithCancel(context.Background())
	defer cancel()
	ends, after := st.ends, st.after
	if len(a.held) > 0 && ends == endsResult {
		ends, after = endsCtx, min(after+time.Second, 2*time.Second)
	}
	if s.text != nil {
		s.story("%s asks for all of %q%s", m.who, lock.Names(), st.detail())
	}
	s.ops++
	began, gen := s.w.Now(), a.gen
	blocks := st.pick%3 == 0 && ends != endsCancel
	op := lock.begin(ctx, asking{try: st.try, async: !blocks})
	f, done := &op.Future, s.w.NewLatch()
	f.then(func() {
		s.judgeMulti(m, f)
		done.Open()
	})
	if blocks { // and its ctx may end meanwhile
		if ends == endsCtx {
			defer s.w.After(after, cancel).Stop()
		}
		if ml, err := op.wait(ctx); ml != f.value || !errors.Is(err, f.err) || !done.IsOpen() {
			s.fail("all or none", "%s is told %v, and its future %v", m.who, err, f.err)
		}
		ends = endsResult
	}
	if ends != endsResult && !done.WaitUntil(s.w.Now().Add(after)) {
		s.story("%s gives up waiting for all of %q", m.who, lock.Names())
		s.leaves(m.who)
		if ends == endsCancel {
			f.Cancel()
		} else {
			cancel()
		}
	}
	done.WaitIn(context.Background())
	took := s.w.Now().Sub(began)
	if most := simWaits[st.wait]; most > 0 && !st.try && !s.crashes && f.err != nil && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for all of %q, and at most %v", m.who, took, lock.Names(), most)
	}
	if f.err == nil && a.gen == a.se.gen && gen == a.gen && !a.se.closing {
		a.keeps(st, m, f.value)
	}
	for _, l := range lock.sorted {
		if len(m.live) == 0 && len(m.giving) == 0 {
			delete(s.parts, l)
		}
	}
}

// keeps has several locks for a while.
func (a *simActor) keeps(st *simStep, m *simMulti, ml *MultiLease) {
	s, gen := a.s, a.gen
	cause := (func() error)(nil)
	if st.pick%2 == 0 {
		ctx := ml.Context()
		cause = func() error {
			if ctx.Err() == nil {
				return nil
			}
			return context.Cause(ctx)
		}
	}
	s.w.Sleep(min(st.keep, 2*time.Second) / 2)
	here := func() bool { return gen == a.se.gen && !a.se.closing }
	if st.pick > 5 && here() && !ml.leases[0].set.Watchdog {
		s.ops++
		_ = ml.Extend(context.Background(), simLeaseTimes[st.lease])
	}
	s.w.Sleep(min(st.keep, 2*time.Second) / 2)
	if !here() {
		return
	}
	s.checkWhole(m, ml, cause)
	if !here() {
		return
	}
	s.ops++
	back := ml.ReleaseAsync()
	told := s.w.NewLatch()
	back.then(func() {
		for _, ls := range ml.leases {
			if m.giving[ls] && here() {
				s.fail("all or none", "%s was told that everything is given back: %v, and the release of %q has no answer", m.who, back.err, ls.Name())
			}
		}
		told.Open()
	})
	if !st.loose {
		told.WaitIn(context.Background())
	}
}

// judgeMulti looks at the result of a multi: all or none.
func (s *sim) judgeMulti(m *simMulti, f *Future[*MultiLease]) {
	ml, err, _ := f.Result()
	if s.text != nil {
		s.story("%s is told of several: %v", m.who, err)
	}
	closing := m.closing || f.op.(*multiOp).lead.closing.Load()
	if m.asked > 0 && !closing {
		s.fail("all or none", "%s has its result, and %d of its acquires go on", m.who, m.asked)
	}
	switch {
	case closing:
	case err != nil && len(m.live) > 0:
		s.fail("a multi that failed leaves nothing", "%s was told %v, and has %d locks", m.who, err, len(m.live))
	case errors.Is(err, ErrHeld) && !errors.Is(err, context.Canceled) && len(m.giving) > 0 && f.op.(*multiOp).try: // else its caller left
		s.fail("a multi that failed leaves nothing", "%s was told %v, and %d releases have no answer", m.who, err, len(m.giving))
	case err == nil:
		for _, ls := range ml.leases {
			if m.live[ls] == nil {
				s.fail("all or none", "%s is granted several locks, and does not have %q", m.who, ls.Name())
			}
			set := ls.set
			left, least := ls.hold.Deadline().Sub(s.w.Now()), set.Lease-set.Lease/4
			if m.raising != 0 { // unless the last answer took longer
				least = min(least, set.Lease-renew.Margin(set.Lease)-s.w.Now().Sub(m.raising))
			}
			least -= simEarly + s.travels()
			if s.healthy() && !set.Watchdog && left < least {
				s.fail("a fixed lease of several is nearly all there", "%s is granted %q with %v, of which %v are left", m.who, ls.Name(), set.Lease, left)
			}
		}
		s.checkWhole(m, ml, nil)
	}
}

// checkWhole: several locks are lost if any of them is, and else all of them are believed. cause is why their context
// has ended; nil: nobody asked for it.
func (s *sim) checkWhole(m *simMulti, ml *MultiLease, cause func() error) {
	if ml.lead.closing.Load() {
		return
	}
	one := slices.ContainsFunc(ml.leases, (*Lease).Lost)
	if lost := ml.Lost(); lost != one {
		s.fail("several locks are lost as a whole", "%s has several, of which one is lost: %v, and all are: %v", m.who, one, lost)
	}
	for _, ls := range ml.leases {
		if h := m.live[ls]; h != nil && !one {
			s.checkBelief(h)
		}
	}
	if cause == nil || !one {
		return
	}
	if err := cause(); !errors.Is(err, ErrLost) {
		s.fail("several locks are lost as a whole", "%s has lost one of several, and their context goes on: %v", m.who, err)
	}
}
