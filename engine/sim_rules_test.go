package engine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// The rules of waiting: what a Try, a MaxWait and a caller of the wrong kind are told, who goes before whom, and within
// what time who waits is served. They look at a run from outside, and mostly where nothing goes wrong: there each
// answer comes, so that whatever else is told was made here.

const (
	// simAnswered is within what time an answer comes where nothing goes wrong: a round trip, yield points, pauses.
	simAnswered = 100 * time.Millisecond
	// simTried is the same of a Try, which may rest behind commands of its engine before it is sent.
	simTried = 3 * simAnswered
	// simWoken is within what time who waits is served where nothing goes wrong: a message, and some round trips.
	// A poll would come a second later.
	simWoken = 300 * time.Millisecond
	// simPlace is for how long who waits keeps others out: a place in a fair lock's queue, and a writer's note.
	simPlace = 5 * time.Second
	// simNote is how long a writer's note stays at least: it expires after 2.5 s.
	simNote = 2400 * time.Millisecond
)

// simKnown is what these rules note of one name.
type simKnown struct {
	hash       uint64
	asks       int                          // acquires that were asked for
	hidden     []*simEngine                 // whose those are that are made inside of a Do: they are no belief of their own
	shownAt    clock.Instant                // when one of those last ended
	stood      [2]clock.Instant             // when a lock that one holds, and a read-write lock, was last seen there
	readOnly   bool                         // since nothing was on its way, only readers have asked
	writerAt   clock.Instant                // when a writer last came, left, or was seen to write
	wroteAt    clock.Instant                // when one was last seen to write
	releasedAt clock.Instant                // since when it is free because somebody gave it back; 0: it is not
	noted      map[*simEngine]clock.Instant // when a writer of an engine last left its note
	crowd      map[*simEngine]clock.Instant // when it last changed who waits in an engine
	toldUntil  map[*simEngine]clock.Instant // until when the server last said to an engine that somebody has it
	heardAt    map[*simEngine]clock.Instant // when a message last woke an engine that waits
	answeredAt map[*simEngine]clock.Instant // when a release of an engine was last answered: it may be late
	refusedAt  []clock.Instant              // when commands of it were refused
	leftAt     map[*simEngine]clock.Instant // the same of what gives back one of several handles, too
}

// noteAnswered notes what gives back among commands whose answers an engine has now.
func (s *sim) noteAnswered(se *simEngine, sent [][]string) {
	for _, args := range sent {
		script := simScriptNames[scriptArg(args)]
		if !strings.HasSuffix(script, "release") && script != "reacquire" {
			continue
		}
		for _, key := range simKeysOf(args) {
			if n := s.byKey[key]; n != nil {
				if n.known.answeredAt == nil {
					n.known.answeredAt, n.known.leftAt = make(map[*simEngine]clock.Instant), make(map[*simEngine]clock.Instant)
				}
				if n.known.leftAt[se] = s.w.Now(); script != "reacquire" {
					n.known.answeredAt[se] = s.w.Now()
				}
			}
		}
	}
}

// shown takes back one note of hidden.
func (k *simKnown) shown(se *simEngine) {
	if at := slices.Index(k.hidden, se); at >= 0 {
		k.hidden, k.shownAt = slices.Delete(k.hidden, at, at+1), se.s.w.Now()
	}
}

// class is what kinds of lock cannot stand under one name together.
func (k simKind) class() int {
	if k == simRead || k == simWrite {
		return 1
	}
	return 0
}

// smooth reports whether nothing goes wrong in this run, and nothing is slow, but what callers do to each other.
func (s *sim) smooth() bool {
	return s.rate == 0 && s.refusals == 0 && !s.cutsOff && s.line == 0 && s.outage == 0 && !s.crashes && !s.blows && !s.clocks && !s.java
}

// begins notes an acquire that is about to be asked for.
func (s *sim) begins(w *simWait) {
	n := w.n
	s.look(n)
	w.alone = s.isAlone(w)
	w.crowded = w.owner != nil && n.asksFor(w.owner)
	w.free = w.try && s.freeFor(w)
	n.known.asks++
	w.ask = n.known.asks
	n.waiters = append(n.waiters, w)
	n.changed(w)
}

// changed notes that a caller has come or left.
func (n *simName) changed(w *simWait) {
	now := w.se.s.w.Now()
	if n.known.crowd == nil {
		n.known.crowd, n.known.noted = make(map[*simEngine]clock.Instant), make(map[*simEngine]clock.Instant)
	}
	n.known.crowd[w.se] = now
	if w.kind != simRead {
		n.known.writerAt, n.known.readOnly = now, false
	}
}

// look notes what stands under a name.
func (s *sim) look(n *simName) {
	kind, _ := s.server.twin.Look(n.name)
	now := s.w.Now()
	if kind == 0 {
		if n.freeAt == 0 {
			n.freeAt = now
		}
		return
	}
	n.freeAt, n.known.releasedAt = 0, 0
	switch mode(s.server.twin.Hash(n.name)) {
	case "":
		n.known.stood[0] = now
	case "write":
		n.known.stood[1], n.known.writerAt, n.known.wroteAt = now, now, now
	default:
		n.known.stood[1] = now
	}
}

// mode is a read-write lock's.
func mode(fields []twin.Field) string {
	for _, f := range fields {
		if f.Name == "mode" {
			return f.Value
		}
	}
	return ""
}

// isAlone reports whether an engine knows nothing of a name yet. What is asked for inside of a Do is no waiter here, and yet
// waits in its engine's queue: who comes behind it is told what the server said to it, until a message or the poll asks
// again. A spin lock has no messages, and a writer's note that has no writer any more none either.
func (s *sim) isAlone(w *simWait) bool {
	return !w.n.gone(w.se) && s.pending(w.se, w.n) == 0 && !slices.Contains(w.n.known.hidden, w.se) && !s.uses(w.n, func(_ simKind, se *simEngine) bool { return se == w.se })
}

// gone reports whether an engine is closing, or not there.
func (n *simName) gone(se *simEngine) bool {
	return se.closing || se.dead || se.eng == nil || se.gen != se.opened
}

// pending counts the commands of an engine that have no answer, about a name and those which share its shard.
func (s *sim) pending(se *simEngine, n *simName) int {
	if se.eng == nil {
		return 1
	}
	return se.eng.shard(n.hash()).pending
}

// hash is by what an engine finds a name.
func (n *simName) hash() uint64 {
	if n.known.hash == 0 {
		n.known.hash = xxhash.Sum64String(n.name)
	}
	return n.known.hash
}

// uses reports whether somebody waits for a name, has it or gives it back whom fit knows.
func (s *sim) uses(n *simName, fit func(simKind, *simEngine) bool) bool {
	for _, w := range n.waiters {
		if fit(w.kind, w.se) {
			return true
		}
	}
	for _, h := range n.holds {
		if fit(h.kind, h.se) {
			return true
		}
	}
	return s.givesBackAs(n, fit)
}

// givesBackAs reports whether somebody whom fit knows is giving a name back.
func (s *sim) givesBackAs(n *simName, fit func(simKind, *simEngine) bool) bool {
	for _, se := range s.engines {
		for g, all := range se.giving {
			for _, h := range all {
				if g.n == n && fit(h.kind, h.se) {
					return true
				}
			}
		}
	}
	return false
}

// freeFor reports whether a Try must be granted, if nobody else asks meanwhile: the lock is free for it, and all that is
// on its way are releases of its own engine, which it goes behind. Readers let readers in.
func (s *sim) freeFor(w *simWait) bool {
	n := w.n
	if !s.smooth() && s.refusals == 0 || s.mixed || w.had || n.forcing > 0 || n.inside > 0 || len(n.known.hidden) > 0 || n.extends > 0 || n.gone(w.se) {
		return false
	}
	if len(n.waiters) == 0 && s.allPending(n) == 0 && !s.uses(n, func(k simKind, _ *simEngine) bool { return k != simRead }) {
		n.known.readOnly = n.kinds[0].class() == 1
	}
	fields := s.server.twin.Hash(n.name)
	if w.kind == simRead && n.known.readOnly && s.onItsWay(w) {
		_, noted := s.server.twin.Look("{" + n.name + "}:rwlock_writer")
		return mode(fields) != "write" && noted == 0
	}
	if w.kind != simFair && w.goesAlong() || w.kind == simFair && w.asksApart() {
		return false
	}
	if len(n.waiters) > 0 || len(n.holds) > 0 || s.allPending(n) > s.pending(w.se, n) {
		return false
	}
	for _, field := range s.server.twin.List("redisson_lock_queue:{" + n.name + "}") {
		if w.kind != simFair || !resp.FieldOf(w.se.eng.id, field) { // a fair Try waits until who has left here has left there
			return false
		}
	}
	if w.se.holdsOn(n) {
		return false
	}
	for _, f := range fields {
		if f.Name != "mode" && !w.se.givesBackField(n, f.Name) {
			return false
		}
	}
	return true
}

// onItsWay reports whether nobody waits in a caller's engine, or the first is just asking: a Try goes with it.
func (s *sim) onItsWay(w *simWait) bool {
	ent := w.se.eng.shard(w.n.hash()).names.get(w.n.hash(), w.n.name)
	return ent == nil || ent.First() == nil || !ent.Waited() && ent.InFlight()
}

// goesAlong reports whether an acquire of the name is on its way in a caller's engine, though who sent it may have left: a
// Try takes its answer, which the server may have given already.
func (w *simWait) goesAlong() bool {
	for at := range w.se.eng.shard(w.n.hash()).names.get(w.n.hash(), w.n.name).withChildren {
		if at.Attempt() != nil {
			return true
		}
	}
	return false
}

// asksApart reports whether an acquire of the name asks for replicas: its answer may be long in coming, and no Try waits
// for it.
func (w *simWait) asksApart() bool {
	for at := range w.se.eng.shard(w.n.hash()).names.get(w.n.hash(), w.n.name).withChildren {
		if at.Attempt() != nil && at.Attempt().op.Ack != nil {
			return true
		}
	}
	return false
}

func (s *sim) allPending(n *simName) (all int) {
	for _, se := range s.engines {
		all += s.pending(se, n)
	}
	return all
}

// holdsOn reports whether an engine still holds what is given back: another change of the count is to be answered. If
// a ForceRelease elsewhere has taken the lock meanwhile, that answer will say so; until then nobody here can know.
func (se *simEngine) holdsOn(n *simName) bool {
	for g, holds := range se.giving {
		if g.n == n && slices.ContainsFunc(holds, func(h *simHold) bool {
			return h.se == se && h.ls.hold.Status() == lockstate.Held && !h.ls.hold.Leaving()
		}) {
			return true
		}
	}
	return false
}

// givesBackField reports whether an engine is giving back a field, and not only one of several handles.
func (se *simEngine) givesBackField(n *simName, field string) bool {
	for g, all := range se.giving {
		for _, h := range all {
			if g.n == n && h.field == field && h.given && h.se == se && (h.owner == nil || h.ls.hold.Leaving()) {
				return true
			}
		}
	}
	return false
}

// checkTry looks at when one who only tried has its result.
func (s *sim) checkTry(w *simWait) {
	if took := s.w.Now().Sub(w.since); w.try && s.smooth() && !w.acks && took > simTried {
		s.fail("a Try waits for nobody", "%s tried %q as %s, and was told after %v", w.who, w.n.name, w.kind, took)
	}
	s.checkTriedBesideRefusals(w)
}

// checkRefusal looks at why an acquire was refused.
func (s *sim) checkRefusal(w *simWait, st *simStep, err error) {
	n, now := w.n, s.w.Now()
	if w.over || n.gone(w.se) || w.gen != w.se.gen {
		return
	}
	held, unknown := (*HeldError)(nil), (*UnknownError)(nil)
	if errors.As(err, &held) && (held.Remaining < 0 || held.Remaining > max(n.longest, simPlace)+simLate) && !s.clocks && !s.java {
		s.fail("a holder is told to have what was asked for", "%s asked for %q as %s, and was told %v", w.who, n.name, w.kind, err)
	}
	switch {
	case errors.Is(err, ErrWrongKind):
		other := 1 - w.kind.class()
		owned := w.owner != nil && (w.had || w.crowded || n.asksFor(w.owner) || n.grantedAt[w.owner] >= w.since) // it has another kind itself
		if !owned && n.known.stood[other] < s.oldest(w) && !s.uses(n, func(k simKind, se *simEngine) bool { return k.class() == other && se == w.se }) {
			s.fail("ErrWrongKind is for who asked as the wrong kind", "%s asked for %q as %s, and no other kind of lock was there", w.who, n.name, w.kind)
		}
	case !errors.As(err, &held) && !errors.As(err, &unknown):
	case w.try:
		s.checkTry(w)
		if held != nil && w.free && n.known.asks == w.ask && n.seldomRefused(now) {
			s.fail("a Try of a free lock is granted", "%s tried %q as %s, and was told %v", w.who, n.name, w.kind, err)
		}
	case simWaits[st.wait] == 0 || w.had || s.mixed:
	case held != nil:
		if since := max(n.freeAt, n.known.answeredAt[w.se]); held.Remaining == 0 && now.Sub(since) < lockstate.YieldMost+s.travels()+25*time.Millisecond {
			return // its engine has just given it back, and leaves it to those who were heard to wait for it
		}
		if w.alone && n.freeAt != 0 && n.freeAt <= w.since && w.kind != simRead && w.kind != simFair {
			s.fail("MaxWait claims no holder that is not there", "%q was free for %v, and %s was told %v", n.name, now.Sub(n.freeAt), w.who, err)
		}
	case s.smooth() && !s.force && errors.Is(err, errNoAnswer):
		if w.goesAlong() && (n.known.toldUntil[w.se] <= now || now.Sub(n.known.heardAt[w.se]) < simAnswered) {
			return // what was said is over, or a message says that the lock may be free: who has it is just asked
		}
		for _, h := range n.holds {
			if h.se != w.se && h.believes() && (h.kind != simRead || w.kind != simRead) && now.Sub(max(h.since, w.since)) > simAnswered {
				s.fail("MaxWait tells of the holder", "%s has %q as %s, and %s was told %v", h.who, n.name, h.kind, w.who, err)
			}
		}
	}
}

// oldest is from when an answer may be that a caller is told: it goes with who is just asking in its engine.
func (s *sim) oldest(w *simWait) clock.Instant {
	switch {
	case w.alone:
		return w.since
	case s.smooth():
		return w.since.Add(-simAnswered)
	default:
		return w.since.Add(-simAttempt)
	}
}

// checkBarging: a Try never has a lock before who waited for it here.
func (s *sim) checkBarging(w *simWait) {
	if !w.try || w.owner != nil || w.kind == simRead || w.n.gone(w.se) || w.gen != w.se.gen {
		return
	}
	for _, other := range w.n.waiters {
		if other.se == w.se && other.gen == w.gen && sameFamily(other.kind, w.kind) && other.waits() && !other.try && other.owner == nil && other.returned < w.order {
			s.fail("a Try does not barge", "%q: %s has it by a Try, and %s asked before", w.n.name, w.who, other.who)
		}
	}
}

// sameFamily reports whether two kinds of lock ask with the same command.
func sameFamily(a, b simKind) bool { return a == b || a <= simSpin && b <= simSpin }

// waits reports whether a caller is still waiting: nobody has decided what it is told.
func (w *simWait) waits() bool {
	return w.returned != 0 && !w.over && w.f != nil && w.f.state.Load() == futurePending
}

// endsWriting notes, when a writer begins to give back, which readers are to go on: those of its owner that have
// asked.
func (s *sim) endsWriting(h *simHold) {
	if h.kind != simWrite || h.owner == nil || !h.believes() || h.n.gone(h.se) {
		return
	}
	for _, w := range h.n.waiters {
		if w.kind == simRead && w.owner == h.owner && w.se == h.se && w.live && !w.try && w.waits() {
			w.goesOn = true
		}
	}
}

// checkGoingOn: a writer that asked to read reads before the next writer writes, where nothing goes wrong.
func (s *sim) checkGoingOn(w *simWait) {
	if w.kind != simWrite || !s.smooth() || s.force {
		return
	}
	for _, r := range w.n.waiters {
		if r.goesOn && r.waits() && (w.owner == nil || w.owner != r.owner) && !w.n.gone(r.se) {
			s.fail("a writer that asked to read goes on reading", "%q: %s writes, and %s asked to read while it wrote", w.n.name, w.who, r.who)
		}
	}
}

// afterAsking notes what an engine is told of who has a lock.
func (s *sim) afterAsking(n *simName, b simBefore) {
	switch b.script {
	case "acquire", "fenced", "fair", "read", "write":
	default:
		return
	}
	if n.known.toldUntil == nil {
		n.known.toldUntil, n.known.heardAt = make(map[*simEngine]clock.Instant), make(map[*simEngine]clock.Instant)
	}
	_, expires := s.server.twin.Look(n.name)
	n.known.toldUntil[b.from.se] = s.w.Now().Add(time.Duration(expires-s.server.twin.Millis()) * time.Millisecond)
}

// hears notes that who waits is woken by a message.
func (s *sim) hears(wk pubsub.Waker) {
	p, waits := wk.(*wakeups)
	if !waits {
		return
	}
	if n := s.byKey[p.ent.key]; n != nil && n.known.heardAt != nil {
		if se := s.engineOf(p.ent.eng.ID() + ":"); se != nil {
			n.known.heardAt[se] = s.w.Now()
		}
	}
}

// beforeReading notes what the rules of readers and writers have to know after a command.
func (s *sim) beforeReading(b *simBefore, args []string) {
	if strings.HasSuffix(b.script, "release") {
		for _, key := range simKeysOf(args) {
			if n := s.byKey[key]; n != nil {
				s.look(n) // it may have expired
			}
		}
	}
	if b.script == "" || b.script != "read" && b.script != "writerelease" && len(s.excused) == 0 {
		return
	}
	for _, key := range simKeysOf(args) {
		b.fieldsOf = append(b.fieldsOf, append([]twin.Field(nil), s.server.twin.Hash(key)...))
	}
}

// afterReading: readers that come later wait behind a writer's note, where nothing goes wrong. Only what is certain
// counts: the note was left since it last changed who waits in the writer's engine, and nothing of it is on its way.
func (s *sim) afterReading(n *simName, i int, args []string, b simBefore) {
	if !s.smooth() || s.force || n.known.noted == nil {
		return
	}
	now, fields := s.w.Now(), s.server.twin.Hash(n.name)
	argv := args[3+len(simKeysOf(args)):]
	switch b.script {
	case "write":
		if mode(fields) == "read" && !hasField(fields, argv[1]) && argv[4] != "0" {
			if se := s.engineOf(argv[1]); se != nil {
				n.known.noted[se] = now
			}
		}
	case "writerelease":
		if mode(b.fieldsOf[i]) == "write" && mode(fields) != "write" {
			clear(n.known.noted) // it is the readers' turn
		}
		for _, se := range s.engines { // one note stands for all: others leave theirs anew when they are told
			if !strings.Contains(strings.Join(argv, " "), " "+se.eng.ID()+":") {
				delete(n.known.noted, se)
			}
		}
	case "read":
		if !hasField(fields, argv[1]) || hasField(b.fieldsOf[i], argv[1]) || argv[4] != "" && hasField(b.fieldsOf[i], argv[4]) {
			return
		}
		for _, se := range s.engines {
			if w := n.notes(se); w != nil && s.pending(se, n) == 0 && now.Sub(n.known.noted[se]) < simNote {
				s.fail("readers wait behind a writer that waits", "%q: %s reads, and %s has waited to write since %v", n.name, argv[1], w.who, time.Duration(w.since)-time.Hour)
			}
		}
	}
}

// notes is the writer of an engine whose note must be there; nil: there may be none.
func (n *simName) notes(se *simEngine) *simWait {
	at := n.known.noted[se]
	if at == 0 || at <= n.known.crowd[se] || n.gone(se) || len(n.known.hidden) > 0 {
		return nil
	}
	var first *simWait
	for _, w := range n.waiters {
		switch {
		case w.se != se:
		case !w.waits():
			return nil
		case first == nil || w.order < first.order:
			first = w
		}
	}
	if first == nil || first.kind != simWrite || first.try || first.owner != nil || first.acks { // an older take-back may overtake one for replicas
		return nil
	}
	return first
}

// engineOf is whose a field is.
func (s *sim) engineOf(field string) *simEngine {
	for _, se := range s.engines {
		if se.eng != nil && strings.HasPrefix(field, se.eng.ID()+":") {
			return se
		}
	}
	return nil
}

// afterRelease notes that a name is free because somebody has given it back.
func (s *sim) afterRelease(n *simName, script string) {
	was := n.freeAt
	s.look(n)
	if was == 0 && n.freeAt != 0 && strings.HasSuffix(script, "release") {
		n.known.releasedAt = n.freeAt
	}
}

// checkWoken: who waits is told of a release, and readers wait for nobody who is not there, where nothing goes wrong.
func (s *sim) checkWoken() {
	if !s.smooth() || s.force || s.mixed {
		return
	}
	now := s.w.Now()
	for _, n := range s.names {
		s.look(n)
		s.checkNote(n)
		writes := s.uses(n, func(k simKind, _ *simEngine) bool { return k != simRead })
		for _, w := range n.waiters {
			if !w.waits() || n.gone(w.se) || w.gen != w.se.gen || now.Sub(w.since) < simWoken {
				continue
			}
			if at := n.known.releasedAt; at != 0 && at == n.freeAt && now.Sub(at) > simWoken {
				s.fail("who waits hears of a release", "%q was given back %v ago, and %s waits to have it as %s", n.name, now.Sub(at), w.who, w.kind)
			}
			if w.kind == simRead && !writes && now.Sub(n.known.writerAt) > simWoken {
				s.fail("readers wait for a writer only", "%q: nobody wants to write for %v, and %s waits to read", n.name, now.Sub(n.known.writerAt), w.who)
			}
		}
	}
}

// checkNote: a note is there for a writer that waits, and is taken back with the last of its engine's. The release of one
// that writes takes it away.
func (s *sim) checkNote(n *simName) {
	if n.kinds[0].class() == 0 || len(n.known.hidden) > 0 {
		return
	}
	se := s.engineOf(s.server.twin.Do([]string{"GET", "{" + n.name + "}:rwlock_writer"}).Text + ":")
	if se == nil || n.gone(se) || s.pending(se, n) > 0 || s.w.Now().Sub(max(n.known.crowd[se], n.known.wroteAt)) < simAnswered {
		return
	}
	if s.uses(n, func(k simKind, of *simEngine) bool { return of == se && k == simWrite }) {
		return
	}
	s.fail("no note stays behind its writer", "%q: engine %d has left one, and no writer of it waits", n.name, se.n)
}

// A simForced is what a ForceRelease told a holder in its engine to have lost.
type simForced struct {
	n      *simName
	se     *simEngine
	gen    int
	field  string
	doneAt clock.Instant // when the ForceRelease had its result; 0: not yet
}

// simRegained is within what time what a ForceRelease leaves is gone: from its result, which comes when no copy of it
// can run any more, and from an attempt and a pause after the last fault on.
const simRegained = 500 * time.Millisecond

// forcing notes whom a ForceRelease has just told.
func (s *sim) forcing(n *simName, se *simEngine) (told []*simForced) {
	for _, h := range n.holds {
		if h.se == se && h.gen == se.gen && !h.excused && h.ls.hold.ForceReleased() && h.ls.hold.Status() == lockstate.Lost && !s.isForced(h.field) {
			f := &simForced{n: n, se: se, gen: se.gen, field: h.field}
			told = append(told, f)
			s.forced = append(s.forced, f)
		}
	}
	return told
}

func (s *sim) isForced(field string) bool {
	return slices.ContainsFunc(s.forced, func(f *simForced) bool { return f.field == field })
}

// checkForceError: a ForceRelease that had no answer is sent again, for as long as three attempts take.
func (s *sim) checkForceError(se *simEngine, gen int, began clock.Instant, err error) {
	unknown := (*UnknownError)(nil)
	if took := s.w.Now().Sub(began); errors.As(err, &unknown) && took < retryBudget*simAttempt && gen == se.gen && !se.closing {
		s.fail("a ForceRelease without an answer is sent again", "after %v: %v", took, err)
	}
}

// checkRegained: what a ForceRelease told a holder here to have lost is given back, once faults have stopped, sooner than
// it would expire.
func (s *sim) checkRegained() {
	if s.faults && !s.smooth() || len(s.forced) == 0 {
		return
	}
	now, quietAt := s.w.Now(), s.quietAt.Add(simAttempt+time.Second)
	if s.smooth() {
		quietAt = 0
	}
	for _, f := range s.forced {
		if f.doneAt == 0 || f.gen != f.se.gen || f.n.gone(f.se) {
			continue
		}
		due := max(f.doneAt, quietAt).Add(simRegained)
		if now.Before(due) || now.Sub(due) > time.Second { // looked at long ago
			continue
		}
		if hasField(s.server.twin.Hash(f.n.name), f.field) {
			s.fail("what a ForceRelease took is given back", "%q: %s was told to be lost, and is there %v after the result", f.n.name, f.field, now.Sub(f.doneAt))
		}
	}
}
