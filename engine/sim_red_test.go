package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// RedLocks in the simulation: three or five servers that share nothing, and in each process an engine for each of them.
// Some of the servers stop, cannot be reached, or come back empty when every lease is over. Never do two callers believe
// in the same lock; who believes has a majority; a release frees one; and nobody waits for ever for a lock that is free.

// simReds is the independent servers of a run, and the locks on them.
type simReds struct {
	s       *sim
	servers []*simServer
	names   []*simRedName
	engines map[*simEngine][]*Engine // of each process, in the order of the servers
	opening map[*simEngine]bool      // a process that opens them
	subs    map[*simEngine][]*simSubs
}

// A simRedName is one lock.
type simRedName struct {
	name   string
	held   []*simRedHold
	takers []*simRedTaker
	freeAt clock.Instant // when somebody last had it, or asked for it
	asks   int
}

// A simRedHold is what a caller was granted, and has not begun to give back.
type simRedHold struct {
	who    string
	se     *simEngine
	rl     *RedLease
	lostAt clock.Instant // when it was first seen to be lost
}

// A simRedTaker is a caller that asks.
type simRedTaker struct {
	who   string
	se    *simEngine
	since clock.Instant
	ask   int
	try   bool
	over  bool // it gives up
	free  bool // nobody else asks, or has asked lately
}

func newSimReds(s *sim) *simReds {
	c := &simReds{s: s, engines: make(map[*simEngine][]*Engine), opening: make(map[*simEngine]bool), subs: make(map[*simEngine][]*simSubs)}
	for range s.redServers {
		v := newSimServer(s)
		v.reds = c
		v.drift = float64(s.w.Int64N(16000)-8000) / 1e6
		c.servers = append(c.servers, v)
	}
	for _, name := range []string{"r0", "r1"} {
		c.names = append(c.names, &simRedName{name: name})
	}
	return c
}

// open opens the engines of a process, each as soon as its server lets it.
func (c *simReds) open(se *simEngine) {
	if c == nil {
		return
	}
	c.died(se)
	c.opening[se] = true
	var engines []*Engine
	for _, v := range c.servers {
		cfg := Config{Client: &simClient{server: v, proc: se.proc, se: se, gen: se.gen}, Logger: slog.New(slog.DiscardHandler)}
		for {
			eng, err := open(cfg, c.s.w, func(string) pubsub.Subscriptions {
				m := newSimSubs(v, se.proc)
				c.subs[se] = append(c.subs[se], m)
				return m
			})
			if err == nil {
				engines = append(engines, eng)
				break
			}
			c.s.w.Sleep(100 * time.Millisecond)
		}
	}
	c.engines[se] = engines
	delete(c.opening, se)
}

// opens reports whether a process has not reached all servers yet.
func (c *simReds) opens(se *simEngine) bool { return c != nil && c.opening[se] }

// died forgets what a process had.
func (c *simReds) died(se *simEngine) {
	if c == nil {
		return
	}
	for _, v := range c.servers {
		for _, conn := range slices.Clone(v.conns) {
			if conn.client.se == se {
				conn.cut()
			}
		}
	}
	for _, m := range c.subs[se] {
		m.Close()
	}
	delete(c.subs, se)
	delete(c.engines, se)
	delete(c.opening, se)
	for _, n := range c.names {
		n.freeAt = c.s.w.Now()
		n.held = slices.DeleteFunc(n.held, func(h *simRedHold) bool { return h.se == se })
		n.takers = slices.DeleteFunc(n.takers, func(w *simRedTaker) bool { return w.se == se })
	}
}

// close closes the engines of a process: also one that died, and whose servers have come back only now.
func (c *simReds) close(se *simEngine) {
	if c == nil {
		return
	}
	for c.opens(se) {
		c.s.w.Sleep(100 * time.Millisecond)
	}
	for i, eng := range c.engines[se] {
		ctx, cancel := c.s.w.WithTimeout(context.Background(), 30*time.Second)
		if err := eng.Close(ctx); err != nil {
			c.s.fail("Close returns", "the engine of process %d at server %d: %v", se.n, i, err)
		}
		cancel()
	}
}

// unanswered counts what is on its way.
func (c *simReds) unanswered(se *simEngine) (n int) {
	if c == nil {
		return 0
	}
	for _, eng := range c.engines[se] {
		n += eng.unanswered()
	}
	return n
}

// quorum is the least majority.
func (c *simReds) quorum() int { return len(c.servers)/2 + 1 }

// servesNow counts the servers that have what a caller was granted; but for what is lost, if so: a server has it for a
// moment longer than its holder believes.
func (c *simReds) servesNow(n *simRedName, h *simRedHold, butLost bool) (has int) {
	for i := range h.rl.parts {
		ls := h.rl.parts[i].lease.Load()
		if ls == nil || butLost && ls.Lost() {
			continue
		}
		v := ls.eng().cfg.Client.(*simClient).server
		if hasField(v.twin.Hash(n.name), ls.OwnerID()) {
			has++
		}
	}
	return has
}

// check: one caller believes at most, and has a majority.
func (c *simReds) check() {
	if c == nil {
		return
	}
	for _, n := range c.names {
		var first *simRedHold
		for _, h := range n.held {
			switch {
			case h.rl.Lost():
				c.checkTold(n, h)
			case first != nil:
				c.s.fail("one caller has a RedLock", "%q: %s and %s both believe", n.name, first.who, h.who)
			case c.servesNow(n, h, false) < c.quorum():
				c.s.fail("who believes in a RedLock has a majority", "%q: %s believes, and %d of %d servers have it", n.name, h.who,
					c.servesNow(n, h, false), len(c.servers))
			default:
				first = h
			}
		}
	}
}

// checkTold: the context ends with the majority.
func (c *simReds) checkTold(n *simRedName, h *simRedHold) {
	now := c.s.w.Now()
	switch late := 250*time.Millisecond + time.Duration(c.s.yields)*time.Millisecond/3; {
	case h.lostAt == 0:
		h.lostAt = now
	case c.s.crashes, h.rl.group.Context.Err() != nil:
	case now.Sub(h.lostAt) > late:
		c.s.fail("the loss of a majority is told", "%q: %s has lost it %v ago, and its context goes on", n.name, h.who, now.Sub(h.lostAt))
	}
}

// checkWaiting: where nothing goes wrong any more, a lock that nobody has is granted to one who waits.
func (c *simReds) checkWaiting() {
	if c == nil {
		return
	}
	c.check()
	now := c.s.w.Now()
	if c.s.quietAt == 0 || now.Sub(c.s.quietAt) < simCalm {
		return
	}
	const most = 6 * time.Second
	for _, n := range c.names {
		for _, w := range n.takers {
			waits := min(now.Sub(c.s.quietAt.Add(simCalm)), now.Sub(w.since), now.Sub(n.freeAt))
			if len(n.held) == 0 && !w.try && !w.over && waits > most {
				c.s.fail("a RedLock that is free is granted", "%s waits for %q since %v, which nobody has", w.who, n.name, now.Sub(w.since))
			}
		}
	}
}

// left reports whether a server has anything, or is away.
func (c *simReds) left() bool {
	return c != nil && slices.ContainsFunc(c.servers, func(v *simServer) bool { return v.dark > c.s.w.Now() || len(v.twin.Keys()) > 0 })
}

// checkEnd: nothing is left on any server.
func (c *simReds) checkEnd() {
	if c == nil {
		return
	}
	c.check()
	for i, v := range c.servers {
		if keys := v.twin.Keys(); len(keys) > 0 {
			c.s.fail("nothing is left", "server %d has %d keys, the first is %q", i, len(keys), keys[0].Key)
		}
	}
}

// simRedAway is for how long a minority may stay away when nothing else goes wrong any more.
const simRedAway = simCalm + 8*time.Second

// heal ends what goes wrong. In one seed of two a minority stays away: the others serve all the same.
func (c *simReds) heal() {
	if c == nil {
		return
	}
	for at, v := range c.servers {
		v.heal()
		if c.s.seed%2 == 0 && c.s.blows && at < len(c.servers)-c.quorum() {
			v.dark = c.s.w.Now().Add(simRedAway)
			c.s.story("server %d stays away for %v", at, simRedAway)
		}
	}
}

// simRedMost is the longest lease that is asked for.
const simRedMost = 5 * time.Second

// blow strikes some of the servers: mostly a minority.
func (c *simReds) blow() {
	s := c.s
	s.faultCount++
	many := 1 + int(s.w.Int64N(int64(c.quorum()-1)))
	if s.w.Int64N(4) == 0 {
		many = 1 + int(s.w.Int64N(int64(len(c.servers))))
	}
	how, d, from := s.w.Int64N(5), s.span(5*time.Millisecond, 4*time.Second), int(s.w.Int64N(int64(len(c.servers))))
	for i := range many {
		at := (from + i) % len(c.servers)
		v := c.servers[at]
		until := s.w.Now().Add(d)
		switch how {
		case 0, 1:
			v.stopped = max(v.stopped, until)
			s.story("server %d stops for %v", at, d)
		case 2:
			v.dark = max(v.dark, until)
			s.story("nothing gets through to server %d for %v", at, d)
		case 3:
			v.cutAll(d)
			s.story("the connections of server %d are cut", at)
		default:
			c.restart(v, at)
		}
	}
}

// cutAll cuts every connection.
func (v *simServer) cutAll(d time.Duration) {
	for _, conn := range slices.Clone(v.conns) {
		conn.cut()
	}
	for _, m := range v.subs {
		m.cut(d)
	}
}

// restart has a server come back without its data, when every lease on it is over.
func (c *simReds) restart(v *simServer, at int) {
	s := c.s
	until := max(v.dark, s.w.Now().Add(simRedMost*102/100+s.span(time.Millisecond, time.Second)))
	v.dark = until
	v.cutAll(until.Sub(s.w.Now()))
	s.story("server %d dies, and comes back empty at %v", at, time.Duration(until)-time.Hour)
	s.w.Outside(until, func() {
		if v.dark == until { // else it was something else, or is over
			s.story("server %d comes back empty", at)
			v.adopt(twin.New())
		}
	})
}

// red takes a RedLock, has it for a while, and gives it back.
func (a *simActor) red(st *simStep) {
	s := a.s
	if s.reds == nil || s.reds.engines[a.se] == nil {
		return
	}
	n := s.reds.names[st.name%len(s.reds.names)]
	locks := make([]*Lock, 0, len(s.reds.servers))
	for _, eng := range s.reds.engines[a.se] {
		locks = append(locks, eng.Lock(n.name, simLeases[st.lease]))
	}
	lock, most := Red(locks...), simWaits[st.wait]
	if most > 0 {
		lock = lock.With(MaxWait(most))
	}
	w := s.reds.asks(n, a, st)
	ctx, cancel := s.w.WithCancel(context.Background())
	f := (*Future[*RedLease])(nil)
	if st.try {
		f = lock.TryAcquireAsync(ctx)
	} else {
		f = lock.AcquireAsync(ctx)
	}
	h, done := (*simRedHold)(nil), s.w.NewLatch()
	f.then(func() {
		h = s.reds.took(n, w, f, most)
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
	if h != nil {
		a.keepsRed(st, n, h)
	}
}

// keepsRed has it for a while, and gives it back.
func (a *simActor) keepsRed(st *simStep, n *simRedName, h *simRedHold) {
	s := a.s
	s.w.Sleep(st.keep / 2)
	if fixed := !h.rl.first0().set.Watchdog; fixed && st.pick > 3 {
		d := simLeaseTimes[st.lease]
		s.ops++
		if err := h.rl.Extend(context.Background(), d); err == nil {
			if left := h.rl.validity().Sub(s.w.Now()); s.healthy() && left < d-d/25-s.travels()-40*time.Millisecond {
				s.fail("an Extend of a RedLock counts", "%s extended %q to %v, and %v are left", h.who, n.name, d, left)
			}
		}
	}
	s.w.Sleep(st.keep / 2)
	s.reds.check()
	n.held = slices.DeleteFunc(n.held, func(other *simRedHold) bool { return other == h })
	n.freeAt = s.w.Now()
	lost := h.rl.Lost()
	s.story("%s gives %q back, lost: %v", h.who, n.name, lost)
	s.ops++
	f := h.rl.ReleaseAsync()
	f.then(func() { s.reds.gaveBack(n, h, lost, f.err) })
	if !st.loose {
		await(s, f)
	}
}

// first0 is a part that was granted.
func (rl *RedLease) first0() *Lease { return rl.parts[rl.first()].lease.Load() }

// asks notes who asks.
func (c *simReds) asks(n *simRedName, a *simActor, st *simStep) *simRedTaker {
	s := c.s
	n.asks++
	w := &simRedTaker{who: a.who(), se: a.se, since: s.w.Now(), ask: n.asks, try: st.try}
	w.free = s.healthy() && len(n.takers)+len(n.held) == 0 && s.w.Now().Sub(n.freeAt) > time.Second
	n.takers, n.freeAt = append(n.takers, w), s.w.Now()
	s.story("%s wants %q of %d servers%s", w.who, n.name, len(c.servers), st.detail())
	s.ops++
	return w
}

// askedIn reports whether somebody asks in a process.
func (n *simRedName) askedIn(se *simEngine) bool {
	return slices.ContainsFunc(n.takers, func(w *simRedTaker) bool { return w.se == se })
}

// took follows the result of an acquire.
func (c *simReds) took(n *simRedName, w *simRedTaker, f *Future[*RedLease], most time.Duration) *simRedHold {
	s := c.s
	rl, err, _ := f.Result()
	s.story("%s has %q: %v", w.who, n.name, err)
	n.takers = slices.DeleteFunc(n.takers, func(other *simRedTaker) bool { return other == w })
	took, late := s.w.Now().Sub(w.since), 25*time.Millisecond+time.Duration(s.yields)*time.Millisecond/3
	if most > 0 && !w.try && !s.crashes && took > most+late {
		s.fail("MaxWait ends", "%s waited %v for %q, and at most %v", w.who, took, n.name, most)
	}
	if err != nil {
		if w.free && w.ask == n.asks && !w.over && most == 0 {
			s.fail("a RedLock that is free is granted", "%s asked for %q, which nobody had, and was told %v", w.who, n.name, err)
		}
		return nil
	}
	n.freeAt = s.w.Now()
	h := &simRedHold{who: w.who, se: w.se, rl: rl}
	n.held = append(n.held, h)
	c.check()
	return h
}

// gaveBack follows the answer to a release. A copy of an acquire that comes late may be there again for a moment; and who
// asks in the same process may be handed what is given back, part by part.
func (c *simReds) gaveBack(n *simRedName, h *simRedHold, lost bool, err error) {
	s := c.s
	s.story("%s has given %q back: %v", h.who, n.name, err)
	if lost && !errors.Is(err, ErrLost) {
		s.fail("the loss of a majority is told", "%s gave %q back, which was lost, and was told %v", h.who, n.name, err)
	}
	if has := c.servesNow(n, h, true); err == nil && s.rate == 0 && !n.askedIn(h.se) && has > len(c.servers)-c.quorum() {
		s.fail("a release frees a majority", "%s was told that %q is free, and %d of %d servers have it", h.who, n.name, has, len(c.servers))
	}
}

// simRedProfile is one seed in sixteen: nothing but RedLocks.
//
//nolint:gochecknoglobals // a constant in all but name
var simRedProfile = simProfile{"red", [][]simKind{{simLock}}, shapeRed}

// shapeRed: callers take RedLocks and give them back, while servers come and go.
func shapeRed(p *simPlan, r *rand.Rand) {
	h := p.habit
	h.odds = simOdds{doRed: 80, doPause: 10}
	h.spans = simSpans{100 * time.Microsecond, []time.Duration{50, 1000, 4000}[r.IntN(3)] * time.Millisecond}
	h.waits, h.quits, h.tries, h.steps = 30, 20, 20, 25
	h.leases = []int{2, 5, 7, 6, 4}
	p.engines, p.actors, p.calm = 1+r.IntN(3), 1+r.IntN(3), []int{30, 70, 100}[r.IntN(3)]
	p.redServers = 3 + 2*r.IntN(2)
	if r.IntN(4) == 0 {
		return
	}
	p.blows, p.crashes = r.IntN(4) > 0, r.IntN(4) == 0
	if r.IntN(2) == 0 {
		p.rate = []int{2, 10, 50}[r.IntN(3)]
		for f := fateSlow; f <= fateTwice; f++ {
			if r.IntN(2) == 0 {
				p.fates = append(p.fates, f)
			}
		}
	}
}
