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

	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Values of a group in the simulation. Who believes in values has all of them on the server, and nobody else believes in
// one of them; an owner id has all values that it was asked for, or none; and in the end nobody has any.

// simSets are what callers take: most share a value with another one, and none is part of another one, so that a part
// can be told.
//
//nolint:gochecknoglobals // constants
var simSets = [][]string{{"a", "b"}, {"b", "c"}, {"c", "d", "e"}, {"e", "a"}, {"f"}}

// simGroup is the group of a run.
type simGroup struct {
	s      *sim
	name   string
	held   []*simValues
	takers []*simTaker
	gone   map[string]bool // owner ids that a failover has taken something of
}

// A simValues is what a caller has.
type simValues struct {
	who string
	ls  *Lease
	se  *simEngine
	gen int
}

func newSimGroup(s *sim) *simGroup {
	return &simGroup{s: s, name: "v", gone: make(map[string]bool)}
}

// shards are those of the sets.
func (c *simGroup) shards() (all []uint64) {
	if c != nil {
		for _, set := range simSets {
			all = append(all, xxhash.Sum64String(slot.GroupOf(c.name, KryoStrings(set...).sorted()))%shardCount)
		}
	}
	return all
}

// believes reports whether a caller has reason to think that it has its values.
func (v *simValues) believes() bool {
	return v.gen == v.se.gen && v.se.running() && !v.ls.Lost() && v.ls.state.Load() == leaseActive
}

// taken is who has which value in a hash, if that is not over.
func taken(hash []twin.Field, now int64) map[string]string {
	fields, has := make(map[string]string), make(map[string]string)
	for _, f := range hash {
		fields[f.Name] = f.Value
	}
	for name, owner := range fields {
		till, err := strconv.ParseInt(fields[name+":"+owner+":expire_time"], 10, 64)
		if len(name) == slot.GroupValue && err == nil && till > now {
			has[name] = owner
		}
	}
	return has
}

func (c *simGroup) taken() map[string]string {
	return taken(c.s.server.twin.Hash(c.name), c.s.server.twin.Millis())
}

// check: whoever has a value has all that it asked for.
func (c *simGroup) check() {
	if c.s.clocks { // a clock that is stepped back brings back what was over, of which others have taken a part
		return
	}
	values := make(map[string][]string)
	for v, owner := range c.taken() {
		values[owner] = append(values[owner], v)
	}
	for owner, some := range values {
		if !slices.ContainsFunc(simSets, func(set []string) bool {
			return KryoStrings(set...).sorted() == GroupValues{names: some}.sorted()
		}) {
			c.s.fail("values are taken and given back all or none", "%s has %d values that nobody asks for alone", owner, len(some))
		}
	}
	c.checkBelief()
}

// checkBelief: who believes in values has them, and nobody else does.
func (c *simGroup) checkBelief() {
	if c.s.clocks {
		return
	}
	believers := make(map[string]*simValues)
	for _, h := range c.held {
		if owner, _ := slot.CutGroup(h.ls.hold.Field); h.believes() && !c.gone[owner] {
			c.hasAlone(h, believers)
		}
	}
}

// hasAlone looks at what one who believes has, beside those who do, too.
func (c *simGroup) hasAlone(h *simValues, believers map[string]*simValues) {
	has := c.taken()
	owner, values := slot.CutGroup(h.ls.hold.Field)
	for ; values != ""; values = values[slot.GroupValue:] {
		v := values[:slot.GroupValue]
		if other := believers[v]; other != nil && other.ls.hold != h.ls.hold {
			c.s.fail("a value is one caller's", "%s and %s both believe in %s", other.who, h.who, v)
		}
		believers[v] = h
		if has[v] != owner {
			c.s.fail("who believes in a value has it", "%s believes in %s as %s, and %q has it", h.who, v, owner, has[v])
		}
	}
}

// afterCommand looks at what a command has done.
func (c *simGroup) afterCommand(keys []string) {
	if c != nil && slices.Contains(keys, c.name) {
		c.check()
	}
}

// died: nobody believes in what its callers had.
func (c *simGroup) died(se *simEngine) {
	if c == nil {
		return
	}
	c.held = slices.DeleteFunc(c.held, func(h *simValues) bool { return h.se == se })
	c.takers = slices.DeleteFunc(c.takers, func(w *simTaker) bool { return w.se == se })
	for _, a := range se.crew {
		a.gives = 0
	}
}

// failedOver: what the new master has not seen is lost.
func (c *simGroup) failedOver(old, replica *twin.Server) {
	if c == nil {
		return
	}
	left := make(map[twin.Field]bool)
	for _, f := range replica.Hash(c.name) {
		left[f] = true
	}
	for _, f := range old.Hash(c.name) {
		if left[f] {
			continue
		}
		if len(f.Name) == slot.GroupValue {
			c.gone[f.Value] = true
		} else if owner, is := strings.CutSuffix(f.Name, ":expire_time"); is {
			c.gone[owner[slot.GroupValue+1:]] = true
		}
	}
}

// values takes values of the group, once or twice, and gives them back after a while.
func (a *simActor) values(st *simStep) {
	s := a.s
	set := simSets[st.pick%len(simSets)]
	w := &simTaker{who: a.who(), se: a.se, gen: a.gen, tally: a.se.tally, n: st.pick % len(simSets), since: s.w.Now(), try: st.try}
	handle := a.se.eng.GroupLock(s.group.name, KryoStrings(set...), append(a.leasedOptions(st), As(NewOwner()))...)
	s.story("%s wants %v of the group", w.who, set)
	ctx, cancel := s.w.WithCancel(context.Background())
	f, done := (*Future[*Lease])(nil), s.w.NewLatch()
	got := (*simValues)(nil)
	s.group.takers = append(s.group.takers, w)
	s.ops++
	if st.try {
		f = handle.TryAcquireAsync(ctx)
	} else {
		f = handle.AcquireAsync(ctx)
	}
	f.then(func() {
		ls, err, _ := f.Result()
		got = s.tookValues(w, st, ls, err)
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
	a.keepValues(handle, got, st)
	if st.loose {
		a.gives++
		s.w.Go("gives values back", func() { a.giveValues(got); a.gives-- })
	} else {
		a.giveValues(got)
	}
}

// tookValues follows the result of an acquire.
func (s *sim) tookValues(w *simTaker, st *simStep, ls *Lease, err error) (got *simValues) {
	c := s.group
	s.story("%s has values: %v", w.who, err)
	c.takers = slices.DeleteFunc(c.takers, func(other *simTaker) bool { return other == w })
	most := simWaits[st.wait]
	if took := s.w.Now().Sub(w.since); most > 0 && !w.try && !s.crashes && took > most+25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3 {
		s.fail("MaxWait ends", "%s waited %v for values, and at most %v", w.who, took, most)
	}
	if w.try && errors.Is(err, ErrHeld) {
		w.tally.refused++
	}
	switch {
	case err == nil:
		got = &simValues{who: w.who, ls: ls, se: w.se, gen: w.gen}
		c.held = append(c.held, got)
		w.se.tells(ls)
		c.checkBelief()
	case s.healthy() && !errors.Is(err, ErrHeld) && !errors.Is(err, ErrClosed) && !w.over && (most == 0 || !errors.Is(err, ErrUnknown)) &&
		(st.acks == 0 || !errors.Is(err, ErrNotReplicated)):
		s.fail("where nothing goes wrong there are no errors", "%s got %v for values", w.who, err)
	}
	return got
}

// keepValues has values for a while, and takes them again, or extends them, or stops their renewals.
func (a *simActor) keepValues(handle *GroupLock, got *simValues, st *simStep) {
	s := a.s
	s.w.Sleep(st.keep / 2)
	if got.gen == a.se.gen && !a.se.closing {
		switch {
		case st.again:
			a.enterValues(handle, got, st)
		case st.owner >= 0 && got.ls.set.Watchdog:
			got.ls.StopRenewing()
		case st.owner >= 0:
			s.ops++
			f := got.ls.extend(context.Background(), simLeaseTimes[st.lease])
			await(s, f)
			_, err, _ := f.Result()
			s.story("%s has extended its values: %v", got.who, err)
		}
	}
	s.w.Sleep(st.keep / 2)
}

// enterValues has the owner take its values again, and give that back.
func (a *simActor) enterValues(handle *GroupLock, got *simValues, st *simStep) {
	s := a.s
	sound := s.healthy() && got.ls.set.Watchdog && st.hold == 0
	s.ops++
	f := handle.AcquireAsync(context.Background())
	await(s, f)
	ls, err, _ := f.Result()
	s.story("%s enters its values: %v", got.who, err)
	if err != nil {
		if sound && !got.se.closing && !errors.Is(err, ErrClosed) && (st.wait == 0 || !errors.Is(err, ErrUnknown)) {
			s.fail("where nothing goes wrong there are no errors", "%s enters its values: %v", got.who, err)
		}
		return
	}
	again := &simValues{who: got.who, ls: ls, se: got.se, gen: got.gen}
	s.group.held = append(s.group.held, again)
	got.se.tells(ls)
	s.w.Sleep(st.keep / 4)
	a.giveValues(again)
}

// giveValues gives values back, by the engine that has taken them.
func (a *simActor) giveValues(got *simValues) {
	s, tally := a.s, got.se.tally
	s.group.held = slices.DeleteFunc(s.group.held, func(other *simValues) bool { return other == got })
	sound := s.healthy() && got.believes() && !got.se.closing
	s.ops++
	f := got.ls.ReleaseAsync()
	await(s, f)
	_, err, _ := f.Result()
	s.story("%s has given values back: %v", got.who, err)
	if got.ls.eng() == got.se.eng {
		tally.released(err)
		got.se.seenLost(got.ls)
	}
	if sound && err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotHeld) {
		s.fail("where nothing goes wrong there are no errors", "%s gives values back: %v", got.who, err)
	}
}

// checkWaiting: who is first in its engine has values soon that are free, where nothing goes wrong any more.
func (c *simGroup) checkWaiting() {
	if c == nil {
		return
	}
	c.check()
	now := c.s.w.Now()
	quiet := c.s.quietAt != 0 && now.Sub(c.s.quietAt) >= simCalm
	type queue struct {
		se  *simEngine
		set int
	}
	first, has := make(map[queue]bool), c.taken()
	for _, w := range c.takers {
		q := queue{w.se, w.n}
		free := !slices.ContainsFunc(KryoStrings(simSets[w.n]...).names, func(v string) bool { return has[v] != "" })
		could := quiet && !first[q] && !w.try && !w.over && !w.se.closing && w.gen == w.se.gen && free
		first[q] = true
		switch {
		case !could:
			w.could = 0
		case w.could == 0:
			w.could = now
		case now.Sub(w.could) > simSoon+8*c.s.line:
			c.s.fail("values that are free are granted", "%s has waited for %v for %v, and they are free", w.who, simSets[w.n], now.Sub(w.could))
		}
	}
}

// checkEnd: nobody has anything.
func (c *simGroup) checkEnd() {
	if c == nil || c.s.clocks {
		return
	}
	if has := c.taken(); len(has)+len(c.held)+len(c.takers) > 0 {
		c.s.fail("what was taken is free in the end", "%d values are held; %d callers have some, %d wait", len(has), len(c.held), len(c.takers))
	}
}

// checkClosed: a closed engine has nothing any more, where nothing goes wrong.
func (c *simGroup) checkClosed(id string) {
	if c == nil || !c.s.smooth() {
		return
	}
	for v, owner := range c.taken() {
		if strings.HasPrefix(owner, id) {
			c.s.fail("Close frees the server", "%s of %s is left", v, owner)
		}
	}
}

// simGroupProfile is one seed in sixteen: nothing but values of a group.
//
//nolint:gochecknoglobals // a constant in all but name
var simGroupProfile = simProfile{"group", [][]simKind{{simLock}}, shapeGroup}

// shapeGroup: callers take values that others want, too, keep them for longer than some leases, and everything goes wrong
// that may.
func shapeGroup(p *simPlan, r *rand.Rand) {
	shapeLeased(p, r)
	p.habit.odds[doLatch], p.habit.again = 0, 30
}
