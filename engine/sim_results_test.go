package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// The rules of what is told: the results of releases, Extends and ForceReleases, the events, what an owner holds, the
// contexts, and the counters are what has happened here and on the server. They draw nothing, and nothing of theirs
// lets others go first: a run with them is the run without them.

// simTally is what callers of one engine were told, to be compared with what it counts and tells itself.
type simTally struct {
	events   map[simEventKey]*simNews
	order    []*simNews
	missed   bool // the buffer of the stream was full: nothing is known of the rest
	grants   int64
	releases int64
	unknown  int64 // releases told to be that: they go on without their callers
	refused  int64 // tries
}

type simEventKey struct{ name, field string }

// A simNews is what the stream of events has told of one hold.
type simNews struct {
	of             simEventKey
	held, released int
	lost           bool
	grants         int  // callers that have a handle of it, or had
	over           bool // one of them has seen that it is lost
}

func newTally() *simTally { return &simTally{events: make(map[simEventKey]*simNews)} }

func (t *simTally) of(name, field string) *simNews {
	told := t.events[simEventKey{name, field}]
	if told == nil {
		told = &simNews{of: simEventKey{name, field}}
		t.events[told.of] = told
		t.order = append(t.order, told)
	}
	return told
}

// released counts the result of a release.
func (t *simTally) released(err error) {
	switch {
	case err == nil:
		t.releases++
	case errors.Is(err, ErrUnknown):
		t.unknown++
	}
}

// hear reads the stream of events up to now, and looks at their order.
func (se *simEngine) hear() {
	for se.events != nil {
		select {
		case ev, ok := <-se.events.C():
			if !ok {
				se.events = nil
				return
			}
			se.heard(&ev)
		default:
			return
		}
	}
}

func (se *simEngine) heard(ev *Event) {
	s, t := se.s, se.tally
	t.missed = t.missed || ev.Missed > 0 || se.events.Dropped() > 0
	if t.missed {
		return
	}
	told := t.of(ev.Name, ev.OwnerID)
	wrong := ""
	switch ev.Kind {
	case EventHeld:
		if told.held++; told.lost {
			wrong = "after its loss"
		}
	case EventReleased:
		if told.released++; told.lost {
			wrong = "after its loss"
		} else if told.released > told.held {
			wrong = "more often than it was held"
		}
	case EventLost:
		if told.lost {
			wrong = "twice"
		} else if told.held == 0 {
			wrong = "before it was held"
		}
		told.lost = true
	case EventJeopardy:
		if s.healthy() && s.line == 0 {
			s.fail("no false jeopardy", "engine %d: %q", se.n, ev.Name)
		}
		if told.lost || told.released >= told.held {
			wrong = "when it was over"
		}
	}
	if wrong != "" {
		s.fail("events are told once and in order", "engine %d: %q was told to be %v %s, %s", se.n, ev.Name, ev.Kind, wrong, ev.OwnerID)
	}
}

// tells notes that a caller has a lease: the stream has told of it by then.
func (se *simEngine) tells(ls *Lease) {
	if ls.eng() != se.eng {
		return
	}
	se.tally.grants++
	if se.hear(); se.tally.missed || se.events == nil {
		return
	}
	told := se.tally.of(ls.Name(), ls.OwnerID())
	if told.grants++; told.grants > told.held {
		se.s.fail("events are told once and in order", "engine %d: %d callers have %q as %s, and %d were told of", se.n, told.grants, ls.Name(), ls.OwnerID(), told.held)
	}
}

// seenLost notes that the holder of a lease sees that it is lost: the stream will have told of that, in the end.
func (se *simEngine) seenLost(ls *Lease) {
	if ls.hold.Status() == lockstate.Lost && !ls.hold.Lingers() { // who gave it back before did not lose it
		se.tally.of(ls.Name(), ls.OwnerID()).over = true
	}
}

// checkTally: what an engine with nothing to do has told and counted is what its callers know.
func (s *sim) checkTally(se *simEngine, st *Stats) {
	t := se.tally
	if st.Grants != t.grants {
		s.fail("Stats balance", "engine %d counts %d grants, and its callers got %d", se.n, st.Grants, t.grants)
	}
	if st.Refused != t.refused {
		s.fail("Stats balance", "engine %d counts %d tries that were refused, and its callers were told of %d", se.n, st.Refused, t.refused)
	}
	if st.Releases < t.releases || st.Releases > t.releases+t.unknown {
		s.fail("Stats balance", "engine %d counts %d releases, and its callers were told of %d, and of %d that nobody knows", se.n, st.Releases, t.releases, t.unknown)
	}
	if st.GrantsByHandOff+st.GrantsByMessage+st.GrantsByPoll > st.Grants {
		s.fail("Stats balance", "engine %d counts %d grants, of which %d by hand-off, %d by a message, %d by a poll", se.n, st.Grants, st.GrantsByHandOff, st.GrantsByMessage, st.GrantsByPoll)
	}
	if st.Wait.Count != st.Grants {
		s.fail("Stats balance", "engine %d counts %d grants, and has measured the waits of %d", se.n, st.Grants, st.Wait.Count)
	}
	if st.Hold.Count > st.Releases || st.Wait.Sum < 0 || st.Hold.Sum < 0 {
		s.fail("Stats balance", "engine %d counts %d releases, and has measured %+v and %+v", se.n, st.Releases, st.Wait, st.Hold)
	}
	if lost, known := se.checkNews(); known && st.Lost != lost {
		s.fail("Stats balance", "engine %d counts %d losses, and has told of %d", se.n, st.Lost, lost)
	}
}

// checkNews: what an engine that has nothing, or is closed, has told is whole: but a Do that Close finds may begin later than
// that. It counts the losses.
func (se *simEngine) checkNews() (lost int64, known bool) {
	s, t := se.s, se.tally
	if se.hear(); t.missed {
		return 0, false
	}
	for _, told := range t.order {
		if told.lost {
			lost++
		}
		if told.held != told.grants && !se.closing || told.over && !told.lost || !told.lost && told.released != told.held {
			s.fail("events are told once and in order", "engine %d: %q as %s: %d grants; told held %d times, released %d times, lost: %v", se.n, told.of.name, told.of.field, told.grants, told.held, told.released, told.lost)
		}
	}
	return lost, true
}

// beforeResults notes which fields a release may take off.
func (s *sim) beforeResults(b *simBefore, args []string) {
	if !strings.HasSuffix(b.script, "release") {
		return
	}
	s.offered = s.offered[:0]
	for _, key := range simKeysOf(args) {
		n := s.byKey[key]
		for _, f := range s.server.twin.Hash(key) {
			if n != nil && slices.Contains(args, f.Name) { // it may end others beside, that are over
				s.offered = append(s.offered, simOffer{n, f.Name, b.script != "readrelease" || s.marked(n, f.Name)})
			}
		}
	}
}

// marked reports whether a read hold's own expiry is there.
func (s *sim) marked(n *simName, field string) bool {
	kind, _ := s.server.twin.Look("{" + n.name + "}:" + field + ":rwlock_timeout:1")
	return kind != 0
}

// afterResults notes what it took, and what a ForceRelease did.
func (s *sim) afterResults(args []string, b simBefore, r *twin.Reply) {
	if b.script == "force" && r.Kind == twin.Array && len(r.Array) > 1 {
		if n := s.byKey[args[3]]; n != nil {
			ran := n.ran[simForcer{b.from.se, b.from.gen}]
			if r.Array[1].Int == 1 {
				ran.took++
			} else {
				ran.none++
			}
			n.ran[simForcer{b.from.se, b.from.gen}] = ran
		}
	}
	if !strings.HasSuffix(b.script, "release") {
		return
	}
	for _, f := range s.offered {
		if !hasField(s.server.twin.Hash(f.n.name), f.name) {
			f.n.freed[f.name] = f.lives
		}
	}
}

// A simOffer is a field that a release may take off.
type simOffer struct {
	n     *simName
	name  string
	lives bool // or it is a read hold whose own expiry is gone: whoever releases next takes it off
}

// simRan is how often the server has run an engine's ForceRelease of a name.
type simRan struct{ took, none int }

// checkReleased: a release is told what has become of the lock.
func (s *sim) checkReleased(h *simHold, f *Future[struct{}]) {
	_, err, _ := f.Result()
	op, _ := f.op.(*releaseOp)
	sent, unknown := op.op != nil && op.op.Sink != nil, op.retry != nil && op.retry.unknown
	if h.ls.eng() == h.se.eng {
		h.se.tally.released(err)
		h.se.seenLost(h.ls)
	}
	over := h.n.gone(h.se) || h.gen != h.se.gen
	wrong := ""
	switch status := h.ls.hold.Status(); {
	case err == nil && sent:
		if _, freed := h.n.freed[h.field]; !freed && !unknown { // what was sent without an answer may not have run, and the lease have ended
			wrong = "nothing has given it back"
		} else if hasField(s.server.twin.Hash(h.n.name), h.field) && !s.revived[h.field] && h.ls.hold.Indeterminate().Until == 0 { // a late copy of its acquire may have brought it back
			wrong = "it is still there"
		}
	case err == nil:
	case errors.Is(err, ErrLost):
		if sent && h.n.freed[h.field] {
			wrong = "it was given back by this release"
		} else if !sent && status != lockstate.Lost {
			wrong = "it is not lost"
		}
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrClosed):
		if !over {
			wrong = "it was held"
		}
	default:
		if s.smooth() && !over {
			wrong = "nothing goes wrong here"
		}
	}
	if wrong != "" {
		s.fail("a release is told what has become of the lock", "hold %d of %s on %q (%s): %v, and %s", h.id, h.who, h.n.name, h.field, err, wrong)
	}
	s.checkEnded(h, err)
}

// checkEnded: a context that is asked for when its lease is over has ended, with the cause.
func (s *sim) checkEnded(h *simHold, err error) {
	cause := ErrReleased
	if errors.Is(err, ErrLost) {
		cause = ErrLost
	} else if h.id%4 > 0 { // one in four is enough
		return
	}
	c := h.ls.Context()
	select {
	case <-c.Done():
		if got := context.Cause(c); !errors.Is(got, cause) {
			s.fail("a context that is asked for late has ended", "that of hold %d on %q with %v, and not %v", h.id, h.n.name, got, cause)
		}
	default:
		s.fail("a context that is asked for late has ended", "that of hold %d on %q has not: %v", h.id, h.n.name, cause)
	}
}

// checkLoss: what is lost is over by time, or is not there, or somebody here has taken it away.
func (s *sim) checkLoss(h *simHold) {
	hold := h.ls.hold
	if h.excused || s.excused[h.field] || hold.ForceReleased() || h.n.gone(h.se) || h.gen != h.se.gen {
		return
	}
	if !s.w.Now().Before(renew.SignalAt(hold.Deadline(), hold.Lease())) || hold.Indeterminate().Until != 0 || s.revived[h.field] || s.withoutMark(h.n, h.field) {
		return
	}
	if hasField(s.server.twin.Hash(h.n.name), h.field) {
		s.fail("what is lost is over", "hold %d of %s on %q is lost, and %s is there for %v more", h.id, h.who, h.n.name, h.field, hold.Deadline().Sub(s.w.Now()))
	}
}

// checkExtended: an Extend is told what has become of the lease.
func (s *sim) checkExtended(h *simHold, d time.Duration, began clock.Instant, err error) {
	if h.n.gone(h.se) || h.gen != h.se.gen || h.ls.state.Load() != leaseActive {
		return
	}
	wrong := ""
	unknown, server := (*UnknownError)(nil), (*ServerError)(nil)
	switch {
	case err == nil:
		h.keeps = max(h.keeps, renew.TrustUntil(began, d).Add(-simEarly))
		if h.most != 0 {
			h.most = max(h.most, renew.TrustUntil(s.w.Now(), d))
		}
		if h.believes() && h.ls.hold.Deadline() < renew.TrustUntil(began, d) {
			wrong = "its deadline is earlier"
		}
		s.checkBelief(h)
	case errors.Is(err, ErrLost):
		if hold := h.ls.hold; h.believes() && !hold.ForceReleased() && s.w.Now().Before(renew.SignalAt(hold.Deadline(), hold.Lease())) { // else it is about to be told
			wrong = "it is not lost"
		}
	case errors.As(err, &unknown), errors.As(err, &server):
		if s.smooth() {
			wrong = "nothing goes wrong here"
		}
	default:
		wrong = "it is held"
	}
	if wrong != "" {
		s.fail("an Extend is told what has become of the lease", "hold %d of %s on %q to %v: %v, and %s", h.id, h.who, h.n.name, d, err, wrong)
	}
}

// checkTaken: a ForceRelease is told what the server did: whether there was a lock, or may have been.
func (s *sim) checkTaken(n *simName, by simForcer, before simRan, doubt, taken bool, err error) {
	if by.gen != by.se.gen || n.gone(by.se) {
		return
	}
	ran := n.ran[by]
	wrong := ""
	unknown, server := (*UnknownError)(nil), (*ServerError)(nil)
	switch {
	case err == nil && taken && ran.took == before.took && !doubt:
		wrong = "the server has taken nothing"
	case err == nil && !taken && ran.none == before.none:
		wrong = "the server did not say that there is nothing"
	case (errors.As(err, &unknown) || errors.As(err, &server)) && s.smooth():
		wrong = "nothing goes wrong here"
	}
	if wrong != "" {
		s.fail("a ForceRelease is told what it did", "%q: %v, %v, and %s", n.name, taken, err, wrong)
	}
}

// checkHolds: what an owner is told to hold is its handles.
func (s *sim) checkHolds() {
	for _, n := range s.names {
		for _, h := range n.holds {
			s.checkHoldsOf(h)
		}
	}
}

func (s *sim) checkHoldsOf(h *simHold) {
	n := h.n
	if h.owner == nil || h.gen != h.se.gen || n.gone(h.se) || n.asksFor(h.owner) || len(h.se.giving[simGiving{h.owner, n}]) > 0 {
		return
	}
	want, f := 0, h.ls.set.family
	for _, o := range n.holds {
		if o.owner == h.owner && o.se == h.se && o.gen == h.gen && entersAs(o.ls.set.family, f) {
			if !o.ls.hold.Quiet() { // a change of the count is on its way, or one that nobody wants is taken back
				return
			}
			if !o.ls.Lost() {
				want++
			}
		}
	}
	if got := h.owner.Holds(h.ls.handle()); got != want {
		s.fail("an owner holds its handles", "%q: the owner of hold %d holds it %d times as %s, and has %d handles", n.name, h.id, got, h.kind, want)
	}
}

// checkFreed: what a closed engine had is not on the server any more, where nothing goes wrong.
func (s *sim) checkFreed(id string) {
	if !s.smooth() {
		return
	}
	for _, e := range s.server.twin.Keys() {
		if s.counted.keeps(e.Key) || s.leased.keeps(e.Key) { // notes of requests end by themselves
			continue
		}
		left := strings.Contains(e.Key, id) && !s.force || strings.Contains(e.Text, id) || // a ForceRelease leaves a read hold's mark, which nobody looks at any more, to expire
			slices.ContainsFunc(e.Hash, func(f twin.Field) bool { return strings.HasPrefix(f.Name, id) }) ||
			slices.ContainsFunc(e.List, func(f string) bool { return strings.HasPrefix(f, id) })
		if left {
			s.fail("Close frees the server", "%q is left of engine %s: %v", e.Key, id, e)
		}
	}
}
