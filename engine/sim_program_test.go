package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
)

// The callers: each actor does one step after the other. The steps are drawn before the run, so that a failure can
// be shrunk by leaving some out.

// A simDo is what an actor does in a step.
type simDo uint8

const (
	doAcquire simDo = iota
	doRelease
	doExtend
	doStop
	doContext
	doForce
	doLook
	doClose
	doPause
	doDo
	doMulti
	doPermits
	doLatch
	doBarrier
	doRed
	doOtherKind
	simDos // how many there are
)

// A simStep is one step of an actor.
type simStep struct {
	do    simDo
	kind  simKind
	name  int // among the names of the kind
	owner int // -1: none
	lease int // in simLeases
	wait  int // in simWaits: MaxWait
	hold  int // MaxHold: 1 is 1 s
	acks  int // WaitReplicas
	try   bool
	ends  simEnds
	after time.Duration // until it ends, or the pause
	keep  time.Duration // how long it is held; 0: until another step gives it back
	pick  int           // which of those that are held
	loose bool          // nobody waits for the answer
	again bool          // what is given back is asked for at once
}

// A simEnds is how a caller ends its waiting.
type simEnds uint8

const (
	endsResult simEnds = iota // it does not
	endsCancel
	endsCtx
)

//nolint:gochecknoglobals // constants
var (
	simLeases = []Option{
		WatchdogLease(2 * time.Second), WatchdogLease(2 * time.Second), WatchdogLease(time.Second), WatchdogLease(6 * time.Second),
		FixedLease(100 * time.Millisecond), FixedLease(1500 * time.Millisecond), FixedLease(5 * time.Second),
		FixedLease(time.Second), WatchdogLease(20 * time.Second), // of profiles only
	}
	simLeaseTimes = []time.Duration{
		2 * time.Second, 2 * time.Second, time.Second, 6 * time.Second, 100 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second,
		time.Second, 20 * time.Second,
	}
	simWaits = []time.Duration{0, 0, 5 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second}
)

// drawSteps draws what every actor does.
func (p *simPlan) drawSteps(r *rand.Rand, ops int) [][]simStep {
	actors := p.engines * p.actors
	steps := make([][]simStep, actors)
	if p.habit != nil {
		for i := range steps {
			for range min(max(ops/actors, 1), p.habit.steps) {
				steps[i] = append(steps[i], p.drawHabit(r))
			}
		}
		return steps
	}
	leases := simEvenLeases
	if r.IntN(2) == 0 && !p.nests {
		leases = 1 // so that they may be handed over and shared
	}
	hurried := r.IntN(2) == 0
	each := max(ops/actors, 1)
	for i := range steps {
		steps[i] = make([]simStep, 0, each)
		for range each {
			st := p.drawStep(r, leases)
			if hurried {
				st.after, st.keep = st.after/50, st.keep/50
			}
			steps[i] = append(steps[i], st)
		}
	}
	return steps
}

// simEvenLeases is how many of the leases everybody may have.
const simEvenLeases = 7

func (p *simPlan) drawStep(r *rand.Rand, leases int) simStep {
	st := simStep{
		kind: p.kinds[r.IntN(len(p.kinds))], name: r.IntN(2), owner: -1, lease: r.IntN(leases), pick: r.IntN(8),
		loose: r.IntN(3) == 0, again: r.IntN(8) == 0, after: drawSpan(r), keep: drawSpan(r),
	}
	if r.IntN(100) < p.nested {
		st.owner = r.IntN(p.owners)
	}
	if p.nests && r.IntN(8) == 0 {
		st.do = doExtend
		return st
	}
	switch n := r.IntN(100); {
	case n < 50:
		st.do = doAcquire
		st.try = r.IntN(4) == 0
		st.wait = r.IntN(len(simWaits))
		st.ends = []simEnds{endsResult, endsResult, endsCancel, endsCtx}[r.IntN(4)]
		if r.IntN(3) > 0 {
			st.keep = 0
		}
		if leases > 1 && r.IntN(8) == 0 {
			st.hold = 1
		}
		if leases > 1 && r.IntN(10) == 0 {
			st.acks = 1
		}
		if p.mixed && r.IntN(6) == 0 {
			st.kind = simKind(r.IntN(6)) //nolint:gosec // in range
		}
	case n < 80:
		st.do = doRelease
	case n < 84:
		st.do = doExtend
	case n < 86:
		st.do = doStop
	case n < 89:
		st.do = doContext
	case n < 91 && p.force:
		st.do = doForce
	case n < 93:
		st.do = doLook
	case n < 94 && p.closes:
		st.do = doClose
	case n < 96:
		st.do = doDo
	case n < 98:
		st.do = doMulti
		st.wait, st.try = r.IntN(len(simWaits)), r.IntN(4) == 0
		st.ends = []simEnds{endsResult, endsResult, endsCancel, endsCtx}[r.IntN(4)]
	default:
		st.do = doPause
	}
	return st
}

// drawSpan draws from 10 µs to 20 ms, and now and then up to 2 s.
func drawSpan(r *rand.Rand) time.Duration {
	most := 11
	if r.IntN(24) == 0 {
		most = 18
	}
	return 10 * time.Microsecond << r.IntN(most) * time.Duration(100+r.IntN(100)) / 150
}

// A simActor is one caller, with what it holds.
type simActor struct {
	s     *sim
	se    *simEngine
	n     int
	steps []simStep
	next  int
	gen   int // of the engine that its holds are of
	held  []*simHold
	past  []*Lease // given back
	gives int      // permits that it is giving back, how often
	done  bool
	name0 string
}

func (a *simActor) who() string {
	if a.name0 == "" {
		a.name0 = fmt.Sprintf("e%d.a%d", a.se.n, a.n)
	}
	return a.name0
}

// run does the steps that are left, and gives everything back.
func (a *simActor) run() {
	for a.next < len(a.steps) {
		st := &a.steps[a.next]
		a.next++
		a.s.stepped++
		a.turn()
		a.step(st)
	}
	a.finish()
}

// turn notices that the engine is another by now: nothing of the old one is held any more.
func (a *simActor) turn() {
	if a.se.closing { // some go on meanwhile
		a.s.w.Sleep(a.s.w.N(2 * time.Millisecond))
	}
	if a.gen != a.se.gen {
		for _, h := range a.held {
			a.s.endBelief(h)
		}
		a.held, a.gen = nil, a.se.gen
	}
}

func (a *simActor) finish() {
	for a.turn(); len(a.held) > 0; a.turn() {
		a.release(a.held[0], false)
	}
	for a.se.closing || a.gives > 0 {
		a.s.w.Sleep(time.Millisecond)
	}
	a.done = true
	a.s.ended++
	a.s.progress.Ring()
}

func (a *simActor) step(st *simStep) {
	switch st.do {
	case doAcquire:
		a.acquire(st)
	case doPause:
		a.s.w.Sleep(st.after)
	case doForce:
		a.force(st)
	case doLook:
		a.look(st)
	case doClose:
		a.close()
	case doDo:
		a.do(st)
	case doMulti:
		a.multi(st)
	case doPermits:
		switch {
		case a.s.leased != nil:
			a.leased(st)
		case a.s.group != nil:
			a.values(st)
		default:
			a.permits(st)
		}
	case doLatch:
		a.latch(st)
	case doBarrier:
		a.barrier(st)
	case doRed:
		a.red(st)
	case doOtherKind:
		a.otherKind(st)
	default:
		if len(a.held) > 0 {
			a.withHeld(st, a.held[st.pick%len(a.held)])
		}
	}
}

func (a *simActor) withHeld(st *simStep, h *simHold) {
	switch st.do {
	case doRelease:
		a.give(st, h)
	case doExtend:
		if h.ls.set.Watchdog {
			return
		}
		d := simLeaseTimes[st.lease]
		a.s.ops++
		extends := a.s.extends(h, d)
		f := h.ls.extend(context.Background(), d)
		extends(f)
		if !st.loose {
			await(a.s, f)
		}
	case doStop:
		a.s.story("%s stops the renewals of hold %d", a.who(), h.id)
		if !h.stopped {
			h.endsAt = a.s.w.Now().Add(h.ls.set.Lease)
		}
		h.stops(a.s.w.Now())
		h.plain, h.stopped, h.n.stoppedAt = false, true, a.s.w.Now()
		a.s.ops++
		h.ls.StopRenewing()
	case doContext:
		a.s.ops++
		if len(a.past) > 0 && st.pick > 3 {
			if past := a.past[len(a.past)-1]; past.Context().Err() == nil {
				a.s.fail("a context ends with its lease", "that of %q lives on", past.Name())
			}
			return
		}
		if err := h.ls.Context().Err(); err != nil && h.believes() && a.gen == a.se.gen && !a.se.closing {
			a.s.fail("a context lives as long as the lease", "hold %d: %v", h.id, err)
		}
		a.s.watchEnd(h)
	default:
	}
}

// name finds what a step is about.
func (a *simActor) name(st *simStep) *simName {
	fit := 0
	for _, n := range a.s.names {
		if slices.Contains(n.kinds, st.kind) {
			fit++
		}
	}
	if fit == 0 {
		return a.s.names[st.name%len(a.s.names)]
	}
	at := st.name % fit
	for _, n := range a.s.names {
		if slices.Contains(n.kinds, st.kind) {
			if at == 0 {
				return n
			}
			at--
		}
	}
	panic("unreachable")
}

// lock makes the handle of a step.
func (a *simActor) lock(st *simStep) *Lock { return a.lockOf(st, a.name(st).name) }

// lockOf is lock of a name.
func (a *simActor) lockOf(st *simStep, name string) *Lock {
	e := a.se.eng
	opts := append(make([]Option, 0, 6), simLeases[st.lease])
	if st.owner >= 0 {
		opts = append(opts, As(a.se.owners[st.owner]))
	}
	if w := simWaits[st.wait]; w > 0 {
		opts = append(opts, MaxWait(w))
	}
	if st.hold > 0 {
		opts = append(opts, MaxHold(time.Duration(st.hold)*time.Second))
	}
	if st.acks > 0 {
		opts = append(opts, WaitReplicas(st.acks, 40*time.Millisecond))
	}
	switch st.kind {
	case simSpin:
		return e.Lock(name, append(opts, Spin(time.Millisecond, 64*time.Millisecond))...)
	case simFenced:
		return e.FencedLock(name, opts...).Lock
	case simRead:
		return e.RWLock(name, opts...).ReadLock()
	case simWrite:
		return e.RWLock(name, opts...).WriteLock()
	case simFair:
		return e.FairLock(name, opts...).Lock
	default:
		return e.Lock(name, append(opts, a.s.lingers(st)...)...)
	}
}

// acquire asks for a lock and waits for the result, or gives up. An actor that holds something else never waits
// for ever: that could be a deadlock of its own making.
func (a *simActor) acquire(st *simStep) {
	s, l, n := a.s, a.lock(st), a.name(st)
	n.longest = max(n.longest, l.set.Lease)
	w := &simWait{who: a.who(), kind: st.kind, n: n, se: a.se, gen: a.gen, since: s.w.Now(), owner: l.set.owner, lease: l.set.Lease}
	w.live = n.ownedBy(w.owner, a.se) || s.untold(w) || a.se.stillHeld(w.owner, n)
	w.had = n.hasHold(w.owner, a.se) || len(a.se.giving[simGiving{w.owner, n}]) > 0
	w.most = simWaits[st.wait]
	w.try, w.acks, w.order = st.try, st.acks > 0, s.nextID()
	ctx, cancel := s.w.WithCancel(a.around(st, n))
	ends, after := st.ends, st.after
	if len(a.held) > 0 && ends == endsResult {
		ends, after = endsCtx, min(after+time.Second, 2*time.Second)
	}
	if s.text != nil {
		s.story("%s asks for %q as %s%s", w.who, n.name, w.kind, st.detail())
	}
	s.begins(w)
	s.ops++
	own := a.se.own(ctx)
	own.calling = true
	var f *Future[*Lease]
	if st.try {
		f = l.TryAcquireAsync(own)
	} else {
		f = l.AcquireAsync(own)
	}
	own.calling = false
	w.asked, w.returned, w.f = true, s.nextID(), f
	got := (*simHold)(nil)
	gen := a.gen
	done := s.w.NewLatch()
	f.then(func() {
		n.dropWait(w)
		s.checkMaxWait(w, simWaits[st.wait])
		if ls, err, _ := f.Result(); err == nil {
			got = s.granted(w, ls, ls.set.Watchdog && st.hold == 0)
			got.maxHold = st.hold > 0
			if a.se.gen != gen || a.se.closing {
				s.endBelief(got) // Close gives it back
				got = nil
			}
		} else {
			s.refused(w, st, err)
		}
		done.Open()
	})
	switch ends {
	case endsCancel, endsCtx:
		if !done.WaitUntil(s.w.Now().Add(after)) {
			w.over = true
			n.changed(w)
			if s.text != nil {
				s.story("%s gives up waiting for %q", w.who, n.name)
			}
			if ends == endsCancel {
				s.ops++
				f.Cancel()
			} else {
				cancel()
			}
			if own.deaf() {
				f.Cancel()
			}
		}
	default:
	}
	done.WaitIn(context.Background())
	own.finish(a.se, w.who, cancel)
	if got == nil || a.gen != a.se.gen {
		return
	}
	a.held = append(a.held, got)
	if st.keep > 0 {
		s.w.Sleep(st.keep)
		if a.gen == a.se.gen && !a.se.closing {
			a.release(got, st.loose)
		}
	}
}

func (st *simStep) detail() string {
	text := fmt.Sprintf(", lease %v", simLeaseTimes[st.lease])
	if st.try {
		text += ", once"
	}
	if st.owner >= 0 {
		text += fmt.Sprintf(", owner %d", st.owner)
	}
	if w := simWaits[st.wait]; w > 0 {
		text += fmt.Sprintf(", at most %v", w)
	}
	if st.hold > 0 {
		text += ", MaxHold 1s"
	}
	if st.acks > 0 {
		text += ", seen by a replica"
	}
	return text
}

// checkMaxWait: an acquire is answered when its MaxWait is over.
func (s *sim) checkMaxWait(w *simWait, most time.Duration) {
	if took := s.w.Now().Sub(w.since); most > 0 && !w.try && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for %q, and at most %v", w.who, took, w.n.name, most)
	}
}

// A simDoing is a Do that runs in a process: others may use its ctx, too.
type simDoing struct {
	ctx context.Context //nolint:containedctx // that is what it is about
	n   *simName
}

// around is the ctx of an acquire: now and then that of a Do for another name, which makes it no owner of this one.
func (a *simActor) around(st *simStep, n *simName) context.Context {
	if st.owner < 0 && st.pick == 4 && a.se.did.n == n { // a Do that has ended makes nobody an owner
		return a.se.did.ctx
	}
	if st.owner < 0 && st.pick < 3 {
		for _, d := range a.se.doing {
			if d.n != n {
				return d.ctx
			}
		}
	}
	return context.Background()
}

// do takes a lock for the time of a function.
func (a *simActor) do(st *simStep) {
	s, n := a.s, a.name(st)
	if len(a.held) > 0 {
		return
	}
	one := *st
	one.owner, one.acks, one.wait = -1, 0, 0
	l := a.lock(&one)
	n.longest = max(n.longest, l.set.Lease)
	w := &simWait{who: a.who(), kind: st.kind, n: n, se: a.se, gen: a.gen, since: s.w.Now(), order: s.nextID(), lease: l.set.Lease}
	s.begins(w)
	s.ops++
	ctx, cancel := s.w.WithCancel(context.Background())
	limit := s.w.After(st.after+time.Second, func() { w.over = true; cancel() })
	s.story("%s does something with %q as %s", w.who, n.name, w.kind)
	granted, tally := false, a.se.tally
	err := l.Do(ctx, func(inside context.Context) error {
		d, _ := inside.Value(ownerKey{}).(*doing)
		granted = true
		n.dropWait(w)
		h := s.granted(w, d.lease, st.hold == 0 && l.set.Watchdog)
		h.maxHold = st.hold > 0
		if a.se.closing || w.gen != a.se.gen {
			s.endBelief(h)
			return nil
		}
		mine := simDoing{inside, n}
		a.se.doing = append(a.se.doing, mine)
		s.w.Sleep(min(st.keep, 300*time.Millisecond))
		a.doInside(inside, st, l)
		for i, other := range a.se.doing {
			if other.ctx == mine.ctx {
				a.se.doing = append(a.se.doing[:i:i], a.se.doing[i+1:]...)
				break
			}
		}
		a.se.did = mine
		if h.gen == a.se.gen && !a.se.closing {
			s.endBelief(h)
		}
		return nil
	})
	if granted {
		tally.released(err)
	}
	n.dropWait(w)
	limit.Stop()
	cancel()
	s.story("%s has done it: %v", w.who, err)
}

// doInside does something else inside of a Do, in which the outer lock may still be entered again.
func (a *simActor) doInside(inside context.Context, st *simStep, outer *Lock) {
	s, gen := a.s, a.gen
	if st.pick > 2 || len(s.names) < 2 {
		return
	}
	other := *st
	other.name, other.owner, other.acks, other.wait = st.name+1, -1, 0, 2 // at most 5 ms
	inner := a.lock(&other)
	if inner.Name() == outer.Name() {
		return
	}
	a.name(&other).longest = max(a.name(&other).longest, inner.set.Lease)
	s.ops++
	n := a.name(st)
	n.inside++
	se := a.se
	for _, m := range []*simName{n, a.name(&other)} {
		m.known.asks++
		m.known.hidden = append(m.known.hidden, se)
	}
	defer func() {
		n.inside--
		n.stoppedAt = s.w.Now()
		n.known.shown(se)
		a.name(&other).known.shown(se)
	}()
	tally, granted := se.tally, false
	err := inner.Do(inside, func(within context.Context) error {
		d, _ := within.Value(ownerKey{}).(*doing)
		se.tells(d.lease)
		granted = true
		s.ops++
		f := outer.TryAcquireAsync(within)
		await(s, f)
		ls, err, _ := f.Result()
		switch {
		case err == nil:
			s.ops++
			se.tells(ls)
			back := ls.ReleaseAsync()
			await(s, back)
			tally.released(back.err)
		case errors.Is(err, ErrHeld):
			tally.refused++
		case s.healthy() && !a.se.closing && gen == a.se.gen && outer.set.Watchdog && st.hold == 0:
			s.fail("Do enters again what it holds", "%s: %q inside of %q: %v", a.who(), outer.Name(), inner.Name(), err)
		}
		return nil
	})
	if granted {
		tally.released(err)
	}
}

// refused looks at the error of an acquire.
func (s *sim) refused(w *simWait, st *simStep, err error) {
	if s.text != nil {
		s.story("%s does not get %q: %v", w.who, w.n.name, err)
	}
	if w.try && errors.Is(err, ErrHeld) && w.gen == w.se.gen {
		w.se.tally.refused++
	}
	s.checkRefusal(w, st, err)
	s.checkRemaining(w, err)
	if errors.Is(err, ErrLost) && w.owner != nil && !w.had && !w.n.asksFor(w.owner) && w.n.grantedAt[w.owner] < w.since && !w.se.closing && w.gen == w.se.gen &&
		!strings.Contains(err.Error(), "granted, but the answer took") {
		s.fail("who gave everything back may acquire", "%s got %v for %q", w.who, err, w.n.name)
	}
}

// asksFor reports whether an acquire of an owner has no result yet: it may be a grant that is just told.
func (n *simName) asksFor(o *Owner) bool {
	for _, w := range n.waiters {
		if w.owner == o {
			return true
		}
	}
	return false
}

// hasHold reports whether an owner has handles that it did not begin to give back.
func (n *simName) hasHold(o *Owner, se *simEngine) bool {
	for _, h := range n.holds {
		if o != nil && h.owner == o && h.se == se && h.gen == se.gen {
			return true
		}
	}
	return false
}

// stillHeld reports whether an owner has just begun to give back what it still has.
func (se *simEngine) stillHeld(o *Owner, n *simName) bool {
	return o != nil && slices.ContainsFunc(se.giving[simGiving{o, n}], func(h *simHold) bool { return h.ls.hold.Status() == lockstate.Held })
}

// A simGiving is an owner that is giving handles of a name back.
type simGiving struct {
	o *Owner
	n *simName
}

// release gives a hold back.
func (a *simActor) release(h *simHold, loose bool) {
	s := a.s
	for i, other := range a.held {
		if other == h {
			a.held = slices.Delete(a.held, i, i+1)
			break
		}
	}
	s.ops++
	given := s.beginsGiving(h)
	f := h.ls.ReleaseAsync()
	a.past = append(a.past[:min(len(a.past), 3)], h.ls)
	done := s.w.NewLatch()
	given(f)
	f.then(done.Open)
	if !loose {
		done.WaitIn(context.Background())
	}
	if s.w.Int64N(20) == 0 && h.gen == a.se.gen && !a.se.closing { // callbacks ask the engine, too: the one that calls them
		s.ops++
		told := a.se.others.callback(func() {
			s.ops += 3
			a.se.eng.Held()
			h.ls.Context()
			h.ls.ReleaseAsync()
		})
		f.OnComplete(func(struct{}, error) { told() })
	}
}

// beginsGiving notes that a hold is about to be given back. What it returns is to be called with what came of that.
func (s *sim) beginsGiving(h *simHold) func(*Future[struct{}]) {
	if h.ls.Lost() {
		s.checkEnded(h, ErrLost)
	}
	if h.plain && h.ls.Lost() {
		s.lostOne(h)
	}
	s.endBelief(h)
	g := simGiving{h.owner, h.n}
	giving := h.se.giving
	giving[g] = append(giving[g], h)
	s.stopBeside(h)
	return func(f *Future[struct{}]) {
		h.given = true
		f.then(func() {
			if _, err, _ := f.Result(); s.text != nil {
				s.story("%s has given back hold %d: %v", h.who, h.id, err)
			}
			s.checkReleased(h, f)
			for i, other := range giving[g] {
				if other == h {
					giving[g] = slices.Delete(giving[g], i, i+1)
					break
				}
			}
		})
		s.releases = append(s.releases, simRelease{f, h.id, h.se})
	}
}

// extends notes that a hold is about to be extended. What it returns is to be called with what came of that.
func (s *sim) extends(h *simHold, d time.Duration) func(*Future[struct{}]) {
	h.n.longest = max(h.n.longest, d)
	h.n.extends++
	h.extends++
	h.extended = max(h.extended, d)
	if s.text != nil {
		s.story("%s extends hold %d to %v", h.who, h.id, d)
	}
	began := s.w.Now()
	return func(f *Future[struct{}]) {
		f.then(func() {
			h.n.extends--
			h.until = max(h.until, s.w.Now().Add(d))
			if h.extends--; h.extends == 0 {
				h.extended = 0
			}
			h.n.stoppedAt = s.w.Now()
			_, err, _ := f.Result()
			s.checkExtended(h, d, began, err)
		})
	}
}

// lostOne: a lock that the watchdog renews is not lost while nothing goes wrong.
func (s *sim) lostOne(h *simHold) {
	if s.healthy() && !h.excused && !h.se.closing && h.gen == h.se.gen {
		s.fail("a watched lock is kept", "hold %d of %s on %q was lost", h.id, h.who, h.n.name)
	}
}

// healthy reports whether nothing ever goes wrong in this run.
func (s *sim) healthy() bool {
	return s.unharmed() && !s.force
}

func (a *simActor) force(st *simStep) {
	s, n := a.s, a.name(st)
	s.story("%s takes %q away as %s", a.who(), n.name, st.kind)
	s.ops++
	n.forcing++
	by := simForcer{a.se, a.gen}
	n.forces[by]++
	began, gen, ran := s.w.Now(), a.se.gen, n.ran[by]
	f := a.lock(st).ForceReleaseAsync(context.Background())
	told := s.forcing(n, a.se)
	f.then(func() {
		taken, err, _ := f.Result()
		n.forcing--
		if err != nil && (a.se.closing || a.se.gen != gen) { // else no copy can run any more
			n.forcedAt = s.w.Now()
		}
		s.checkForceError(a.se, gen, began, err)
		s.checkTaken(n, by, ran, f.op.(*singleOp[bool]).indeterminate.Until != 0, taken, err)
		for _, h := range told {
			h.doneAt = s.w.Now()
		}
		s.story("%s has taken %q away: %v, %v", a.who(), n.name, taken, err)
		if n.forces[by]--; by.gen == a.se.gen {
			s.checkForced(a.se, n)
		}
	})
	if !st.loose {
		await(s, f)
	}
}

func (a *simActor) look(st *simStep) {
	a.s.ops++
	ctx, cancel := a.s.w.WithCancel(context.Background())
	own := &simContext{Context: ctx, o: a.se.others, calling: true}
	f := a.lock(st).InspectAsync(own)
	own.calling = false
	await(a.s, f)
	own.finish(a.se, a.who(), cancel)
	if st.pick == 0 {
		a.s.ops += 2
		a.se.eng.Held()
		a.se.eng.Stats()
	}
}

// close closes the engine, in the middle of all that goes on, and opens another.
func (a *simActor) close() {
	s, se := a.s, a.se
	s.ops++
	if se.closing || a.gen != se.gen { // a second one waits with the first
		ctx, cancel := s.w.WithTimeout(context.Background(), 30*time.Second)
		if err := se.eng.Close(ctx); err != nil && ctx.Err() != nil {
			s.fail("Close returns", "a second one of engine %d: %v", se.n, err)
		}
		cancel()
		return
	}
	se.closing = true
	s.story("%s closes its engine", a.who())
	for _, n := range s.names {
		for _, h := range append([]*simHold(nil), n.holds...) {
			if h.se == se && h.gen == se.gen {
				s.endBelief(h)
			}
		}
	}
	for _, other := range se.crew { // what is given back while the engine closes has an answer, too
		for _, h := range append([]*simHold(nil), other.held...) {
			if h.gen == se.gen && s.w.Int64N(2) == 0 {
				s.w.Go("gives back", func() { other.release(h, true) })
			}
		}
	}
	ctx, cancel := s.w.WithTimeout(context.Background(), 30*time.Second)
	began := s.w.Now()
	others, id := se.others, se.eng.ID()
	err := a.closeAs(ctx)
	cancel()
	if err != nil {
		s.counted.leaks()
	}
	others.checkTold()
	s.story("engine %d is closed: %v", se.n, err)
	if took := s.w.Now().Sub(began); took > 20*time.Second {
		s.fail("Close returns", "engine %d took %v: %v", se.n, took, err)
	}
	s.checkClosed(se)
	if err == nil {
		s.checkFreed(id)
		s.leased.checkClosed(id)
		s.group.checkClosed(id)
		se.checkNews()
	}
	se.reopen()
}

// checkClosed: a closed engine has answered every future.
func (s *sim) checkClosed(se *simEngine) {
	for _, n := range s.names {
		for _, w := range n.waiters {
			if w.se == se && w.gen == se.gen && w.asked {
				s.fail("every future completes", "engine %d is closed, and %s waits for %q", se.n, w.who, n.name)
			}
		}
	}
	for g, all := range se.giving {
		for _, h := range all {
			if h.given {
				s.fail("every future completes", "engine %d is closed, and the release of hold %d of %q has no answer", se.n, h.id, g.n.name)
			}
		}
	}
	clear(se.giving)
}

// await waits for a future.
func await[T any](s *sim, f *Future[T]) {
	done := s.w.NewLatch()
	f.then(done.Open)
	done.WaitIn(context.Background())
}
