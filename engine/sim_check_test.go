package engine

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// The invariants. Those of who holds what are looked at whenever the server has run a command and whenever a
// caller is granted something; those of what remains, when the run comes to its end.

// A simHold is what one caller believes to hold: from the result of its acquire until it begins to give it back.
type simHold struct {
	id       int
	who      string
	n        *simName
	kind     simKind
	ls       *Lease
	owner    *Owner
	se       *simEngine
	gen      int
	field    string
	excused  bool            // somebody else's deletion, or lost data, took it
	given    bool            // its ReleaseAsync has returned
	lostAt   clock.Instant   // when it was first seen to be lost
	stopped  bool            // its holder wants no renewal any more
	endsAt   clock.Instant   // and so it ends then, unless others have it renewed
	ctx      context.Context //nolint:containedctx // the lease's, if somebody asked for it
	since    clock.Instant
	maxHold  bool
	extended time.Duration // by the longest Extend that is on its way
	extends  int           // of those
	until    clock.Instant // a fixed lease: when it is over, as last told
	plain    bool          // a watchdog's, without MaxHold, and nobody stopped it
	keeps    clock.Instant // before then it is not lost where nothing goes wrong; 0: it is renewed
	most     clock.Instant // it stopped, and is trusted until then at most; 0: it did not
}

// handle makes a handle as that of which a lease is.
func (ls *Lease) handle() *Lock {
	ent := ls.hold.ent
	return &Lock{eng: ent.eng, set: ls.set, key: ent.key, hash: ent.hash, slot: ent.slot}
}

// believes reports whether the caller has reason to think that it has the lock.
func (h *simHold) believes() bool { return !h.ls.Lost() && h.ls.state.Load() == leaseActive }

// A simWait is one caller's acquire on its way.
type simWait struct {
	who      string
	kind     simKind
	n        *simName
	owner    *Owner
	se       *simEngine
	gen      int
	since    clock.Instant
	live     bool          // its owner had the lock when it asked
	left     bool          // it has given up, and may not be told yet
	had      bool          // its owner had handles of the name when it asked, or was giving some back
	over     bool          // cancelled, or its ctx has ended
	most     time.Duration // MaxWait; 0: none
	lease    time.Duration
	try      bool
	order    int // of its asking
	returned int // the same of the return of that call; 0: not yet
	acks     bool
	asked    bool // the call has returned
	f        *Future[*Lease]
	ask      int  // of those of its name
	alone    bool // its engine knew nothing of the name when it asked
	crowded  bool // its owner was asking already
	free     bool // it is a Try that must be granted unless somebody else asks
	goesOn   bool // its owner has given back to write, and goes on reading
}

func (n *simName) dropHold(h *simHold) {
	for i, other := range n.holds {
		if other == h {
			n.holds = slices.Delete(n.holds, i, i+1)
			return
		}
	}
}

func (n *simName) dropWait(w *simWait) {
	for i, other := range n.waiters {
		if other == w {
			n.waiters = slices.Delete(n.waiters, i, i+1)
			n.changed(w)
			return
		}
	}
}

// granted begins a belief: exclusion.
func (s *sim) granted(w *simWait, ls *Lease, plain bool) *simHold {
	s.ids++
	h := &simHold{
		id: s.ids, who: w.who, n: w.n, kind: w.kind, ls: ls, owner: w.owner, se: w.se, gen: w.gen, field: ls.OwnerID(), plain: plain,
		since: s.w.Now(), until: s.w.Now().Add(ls.set.Lease),
	}
	h.keeps = s.keptUntil(w, h, ls.set.MaxHold > 0)
	s.checkSharing(w, h)
	s.checkAsking(w)
	s.checkTry(w)
	s.checkBarging(w)
	s.checkGoingOn(w)
	h.excused = s.excused[h.field]
	if h.owner != nil {
		h.n.grantedAt[h.owner] = s.w.Now()
	}
	if s.text != nil {
		s.story("%s is granted %q to %s as %s, hold %d", h.who, h.n.name, h.kind, h.field, h.id)
	}
	if !h.believes() || w.se.closing || w.gen != w.se.gen { // it was slow to be told, or Close gives it back
		h.n.holds = append(h.n.holds, h)
		w.se.tells(ls)
		return h
	}
	again := s.seen[h.field] == h.owner // it entered what it has had before
	s.seen[h.field] = h.owner
	for _, other := range h.n.holds {
		if !again && other.owner != nil && other.owner == h.owner && other.gen == h.gen && other.se == h.se && other.lostAt != 0 && s.w.Now().Sub(other.lostAt) > simTold && !h.besideLive() && !w.live &&
			h.n.liveAt[h.owner] < s.born[h.field] && !s.mixed {
			s.fail("no entry anew after a loss", "%s got %q as %s while hold %d of the same owner is lost and not given back", h.who, h.n.name, h.kind, other.id)
		}
		known := other.lostAt != 0 && other.lostAt <= s.born[h.field] // before the server granted the next: else neither is first
		if known && h.excludes(other) && other.ctx != nil && other.ls.hold.Status() == lockstate.Lost && other.se == h.se && other.gen == h.gen {
			select {
			case <-other.ctx.Done():
			default:
				s.fail("the holder is told first", "%q: %s has it, and the context of hold %d, which is lost, has not ended", h.n.name, h.who, other.id)
			}
		}
		if h.excludes(other) && other.believes() && !other.excused && !h.excused {
			s.fail("exclusion", "%q: %s (%s, hold %d, %s) and %s (%s, hold %d, %s) both believe", h.n.name,
				other.who, other.kind, other.id, other.field, h.who, h.kind, h.id, h.field)
		}
	}
	for _, f := range s.foreign {
		if f.holds(h.n, h.kind) && !h.excused {
			s.fail("exclusion", "%q: %s was granted %s while the foreign client holds it as %s", h.n.name, h.who, h.kind, f.field)
		}
	}
	h.n.holds = append(h.n.holds, h)
	s.checkForced(h.se, h.n)
	s.checkHoldsOf(h)
	w.se.tells(ls)
	if s.w.Int64N(2) == 0 {
		s.ops++
		h.ctx = ls.Context()
	}
	s.checkBelief(h)
	return h
}

// besideLive reports whether the owner has the lock by another handle, so that it entered again.
func (h *simHold) besideLive() bool { return h.n.ownedBy(h.owner, h.se) }

// ownedBy reports whether an owner has the lock. It may have it by a handle whose give-back has begun, until that call
// returns.
func (n *simName) ownedBy(o *Owner, se *simEngine) bool {
	for _, h := range se.giving[simGiving{o, n}] {
		if o != nil && !h.given && h.gen == se.gen && h.ls.hold.Status() == lockstate.Held {
			return true
		}
	}
	for _, other := range n.holds {
		if o != nil && other.owner == o && other.se == se && other.gen == se.gen && other.believes() {
			return true
		}
	}
	return false
}

// untold reports whether the owner of an acquire may have the lock by another one that is granted, and whose result is on
// its way: by the server, or by its engine, where a reader joins others without a command.
func (s *sim) untold(w *simWait) bool {
	if w.owner == nil || !w.n.asksFor(w.owner) {
		return false
	}
	if w.se.eng != nil && w.se.eng.shard(w.n.hash()).names.get(w.n.hash(), w.n.name).readsFor(w.owner) > 0 {
		return true
	}
	for _, f := range s.server.twin.Hash(w.n.name) {
		if _, told := s.seen[f.Name]; !told && strings.HasPrefix(f.Name, w.se.eng.ID()+":") {
			return true
		}
	}
	return false
}

// leaves notes that a caller has given up what it waits for as a part of something.
func (s *sim) leaves(who string) {
	for _, n := range s.names {
		for _, w := range n.waiters {
			w.left = w.left || w.who == who
		}
	}
}

// settled reports whether its acquire has an end that it may just be told: a part of several is given up by the engine.
func (w *simWait) settled() bool { return w.f != nil && w.f.state.Load() != futurePending }

// checkAsking: who asks this engine first for a fair lock has it first, where nothing goes wrong.
func (s *sim) checkAsking(w *simWait) {
	if w.kind != simFair || w.owner != nil || w.acks || w.se.closing || w.gen != w.se.gen || !s.healthy() {
		return
	}
	for _, other := range w.n.waiters {
		if other.settled() || other.left || other.most > 0 && s.w.Now().Sub(other.since) >= other.most { // it has left, and may just be told
			continue
		}
		if other.se == w.se && other.kind == simFair && other.returned != 0 && other.returned < w.order && !other.over && !other.try && !other.acks && other.owner == nil && other.gen == w.gen {
			s.fail("fair order of asking", "%q: %s has it, and %s asked before", w.n.name, w.who, other.who)
		}
	}
}

// excludes reports whether two callers must not both have the lock.
func (h *simHold) excludes(o *simHold) bool {
	switch {
	case h.kind == simRead && o.kind == simRead:
		return false
	case h.se == o.se && h.gen == o.gen && h.owner != nil && h.owner == o.owner:
		return false
	default:
		return true
	}
}

// ended is the end of a belief: its holder begins to give it back.
func (s *sim) endBelief(h *simHold) {
	if h.wants(s.w.Now()) {
		h.n.stoppedAt = s.w.Now()
	}
	h.n.leftAt = s.w.Now()
	s.checkKept(h)
	s.checkRenewing(h)
	s.endsWriting(h)
	if h.owner != nil && h.believes() {
		h.n.liveAt[h.owner] = s.w.Now()
	}
	h.n.dropHold(h)
	if s.text != nil {
		s.story("%s gives back %q, hold %d", h.who, h.n.name, h.id)
	}
}

// beforeCommand notes what a check after the command has to know.
func (s *sim) beforeCommand(args []string) simBefore {
	b := simBefore{script: simScriptNames[scriptArg(args)]}
	if b.script == "force" {
		for _, f := range s.server.twin.Hash(args[3]) {
			b.fields = append(b.fields, f.Name)
		}
		if n := s.byKey[args[3]]; n != nil && n.kinds[0] == simFair {
			q := simQueueCall{script: b.script}
			q.before(s, n)
			b.lines = append(b.lines, q)
		}
	}
	if b.script == "fair" || b.script == "fairrelease" {
		for _, key := range simKeysOf(args) {
			b.queues = append(b.queues, append([]string(nil), s.server.twin.List("redisson_lock_queue:{"+key+"}")...))
			b.holders = append(b.holders, soleField(s.server.twin.Hash(key)))
			q := simQueueCall{script: b.script}
			q.field, q.waits = simFairField(args, len(b.lines))
			if n := s.byKey[key]; n != nil {
				q.before(s, n)
			}
			b.lines = append(b.lines, q)
		}
	}
	s.beforeReading(&b, args)
	s.beforeResults(&b, args)
	return b
}

type simBefore struct {
	script   string
	from     *simClient
	sent     clock.Instant
	fieldsOf [][]twin.Field // of each key, where readers and writers, or what was taken matter
	fields   []string
	queues   [][]string // of each key of a fair lock's script
	holders  []string
	lines    []simQueueCall // the same, for the rules of the queue
}

func soleField(fields []twin.Field) string {
	if len(fields) != 1 {
		return ""
	}
	return fields[0].Name
}

func scriptArg(args []string) string {
	if args[0] == "EVALSHA" {
		return args[1]
	}
	return ""
}

// simKeysOf lists the keys that a script was called with.
func simKeysOf(args []string) []string {
	n, _ := strconv.Atoi(args[2])
	return args[3 : 3+n]
}

// afterCommand looks at what a command has done.
func (s *sim) afterCommand(args []string, b simBefore, r *twin.Reply) {
	if b.script == "" {
		return
	}
	if s.text != nil {
		s.story("server: %s -> %s", simArgs(args), s.short(r.String()))
	}
	switch b.script {
	case "force":
		s.forcedAway(args[3], b)
	case "renew", "readrenew":
		s.checkRenewed(args, b.sent)
	}
	s.afterResults(args, b, r)
	s.counted.afterCommand(simKeysOf(args))
	s.counted.latched(args)
	s.counted.gathered(args)
	s.leased.afterCommand(simKeysOf(args))
	s.group.afterCommand(simKeysOf(args))
	for i, key := range simKeysOf(args) {
		n := s.byKey[key]
		if n == nil {
			continue
		}
		s.afterRelease(n, b.script)
		if b.fieldsOf != nil {
			s.grantedAnew(n, b.fieldsOf[i])
		}
		s.afterReading(n, i, args, b)
		s.afterAsking(n, b)
		s.checkName(n)
		if b.queues != nil {
			s.checkOrder(n, args, b.queues[i], b.holders[i], &b.lines[i])
		}
		if i < len(b.lines) {
			b.lines[i].refused = r.Kind == twin.Error || len(r.Array) < 2 || slices.ContainsFunc(r.Array, func(v twin.Reply) bool { return v.Kind == twin.Error })
			b.lines[i].waits = b.lines[i].waits && !b.lines[i].refused
			b.lines[i].after(s, n)
		}
	}
}

// simRenewedFields are the fields of a renewal of n keys: one each, or one for the next so many keys.
func simRenewedFields(args []string, n int) (fields []string) {
	if len(args) == n {
		return args
	}
	for ; len(args) > 0; args = args[2:] {
		some, _ := strconv.Atoi(args[1])
		fields = append(fields, slices.Repeat(args[:1], some)...)
	}
	return fields
}

// checkRenewed: nobody is renewed who did not want to be when that was sent: a server that stops runs it much later.
func (s *sim) checkRenewed(args []string, sent clock.Instant) {
	keys := simKeysOf(args)
	for i, field := range simRenewedFields(args[3+len(keys)+3:], len(keys)) {
		n := s.byKey[keys[i]]
		if n == nil {
			continue
		}
		if sent.Sub(n.stoppedAt) < simTold { // it has crossed what lowers the key: the hold is settled when it is answered
			n.raised = max(n.raised, s.w.Now().Add(simLowered+4*s.line))
		}
		all := 0
		s.revived[field] = s.revived[field] || !n.believedIn(field) // a late one makes the mark of a read hold anew
		for _, h := range n.holds {
			if h.field != field {
				continue
			}
			if h.wants(sent) {
				all = 0
				break
			}
			if !h.since.After(sent) { // a late copy may be for one that has left before this one came
				all++
			}
		}
		if all > 0 && n.extends == 0 && len(n.waiters) == 0 && sent.Sub(n.stoppedAt) > simSoon && !s.crashes {
			s.fail("who stopped is not renewed", "%q: %s is renewed, and none of its %d handles wants that", n.name, field, all)
		}
	}
}

// believedIn reports whether somebody believes in a field.
func (n *simName) believedIn(field string) bool {
	return slices.ContainsFunc(n.holds, func(h *simHold) bool { return h.field == field && h.believes() })
}

// wants reports whether the holder of a handle wants it renewed.
func (h *simHold) wants(now clock.Instant) bool {
	return h.ls.set.Watchdog && !h.stopped && (!h.maxHold || now.Sub(h.since) <= time.Second+simSoon)
}

// forcedAway excuses those whose lock a ForceRelease took: one that somebody still waits for, or did lately.
func (s *sim) forcedAway(key string, b simBefore) {
	n := s.byKey[key]
	if n == nil || n.forcing == 0 && s.w.Now().Sub(n.forcedAt) > simAttempt+simLate && !s.clocks { // a step back prolongs a not-after
		return
	}
	left := s.server.twin.Hash(key)
	own := b.from.gen == b.from.se.gen && n.forces[simForcer{b.from.se, b.from.gen}] > 0 // else it is a dead one's
	for _, f := range b.fields {
		if !hasField(left, f) {
			s.taken[simField{n, f}] = own && strings.HasPrefix(f, b.from.se.eng.ID()+":")
			s.excuse(f, "it was force-released")
		}
	}
}

// A simField is a field of one lock: an engine may have the same in others.
type simField struct {
	n    *simName
	name string
}

// A simForcer is an engine that takes locks away.
type simForcer struct {
	se  *simEngine
	gen int
}

// grantedAnew ends what is known of fields that were taken and that are there again: an acquire of which a copy may still run
// keeps its owner id, so that the server may grant the same anew. Who believed before stays excused, and so does who enters his
// hold: it was deleted, and came back by a late copy with the lease of that, of which nobody is told before the next renewal.
func (s *sim) grantedAnew(n *simName, before []twin.Field) {
	for _, f := range s.server.twin.Hash(n.name) {
		if !hasField(before, f.Name) {
			delete(s.taken, simField{n, f.Name})
			if !slices.ContainsFunc(s.names, func(n *simName) bool { return n.standsExcused(f.Name) }) { // of any name: a batch shares it
				delete(s.excused, f.Name)
			}
		}
	}
}

// standsExcused reports whether somebody believes in a field that was taken from him.
func (n *simName) standsExcused(field string) bool {
	return slices.ContainsFunc(n.holds, func(h *simHold) bool { return h.excused && h.field == field && h.believes() })
}

// checkForced: when a ForceRelease is over nobody in its engine believes in what it took: it excuses the others alone.
func (s *sim) checkForced(se *simEngine, n *simName) {
	if se.closing || n.forces[simForcer{se, se.gen}] > 0 {
		return
	}
	for _, h := range n.holds {
		if s.taken[simField{n, h.field}] && h.se == se && h.gen == se.gen && h.believes() && !hasField(s.server.twin.Hash(n.name), h.field) {
			s.fail("a ForceRelease is told at home", "%q: %s (%s, hold %d, %s) believes in what its own engine took", n.name, h.who, h.kind, h.id, h.field)
		}
	}
}

// simLate is how much later than it may begin a command can end: the server's clock and ours differ a little.
const simLate = 100 * time.Millisecond

// excuse says that a field was taken by what the engine cannot prevent.
func (s *sim) excuse(field, why string) {
	s.excused[field] = true
	for _, n := range s.names {
		for _, h := range n.holds {
			if h.field == field && !h.excused {
				h.excused = true
				s.story("hold %d of %s on %q is excused: %s", h.id, h.who, n.name, why)
			}
		}
	}
}

// excuseNamed excuses those whose field a command names.
func (s *sim) excuseNamed(args []string) {
	for _, n := range s.names {
		for _, h := range n.holds {
			if slices.Contains(args, h.field) {
				s.excuse(h.field, "the clock was stepped back, and a copy of a command runs for longer")
			}
		}
	}
}

func hasField(fields []twin.Field, name string) bool {
	for _, f := range fields {
		if f.Name == name {
			return true
		}
	}
	return false
}

// checkName looks at one lock on the server.
func (s *sim) checkName(n *simName) {
	t := s.server.twin
	kind, expires := t.Look(n.name)
	fields := t.Hash(n.name)
	switch {
	case kind == 0:
		if n.freeAt == 0 {
			n.freeAt = s.w.Now()
		}
	case kind != twin.TypeHash:
		s.fail("no key is overwritten", "%q is a %v", n.name, kind)
	default:
		n.freeAt = 0
		if expires == 0 {
			s.fail("no key without a TTL", "%q: %v", n.name, fields)
		}
		if most := t.Millis() + (n.longest + simLate).Milliseconds(); expires > most && !s.java { // Redisson adds leases up
			s.fail("no key outlives its longest lease", "%q lives %d ms longer than the longest lease asked of it, %v", n.name, expires-most, n.longest)
		}
	}
	s.lives(n, expires)
	s.checkFields(n, fields)
	s.checkMarks(n, fields, expires)
	for _, h := range n.holds {
		if h.lostAt == 0 && h.ls.hold.Status() == lockstate.Lost {
			h.lostAt = s.w.Now()
			s.checkLoss(h)
		}
		s.checkKept(h)
		s.checkBelief(h)
	}
}

// simTold is how much later than it was decided a result may be told: yield points let others go first.
const simTold = 20 * time.Millisecond

// checkFields: a lock that one holds has one field, and who writes is alone but for its own readers.
func (s *sim) checkFields(n *simName, fields []twin.Field) {
	mode, writers, others := "", 0, 0
	for _, f := range fields {
		if _, known := s.born[f.Name]; !known {
			s.born[f.Name] = s.w.Now()
		}
		switch {
		case f.Name == "mode":
			mode = f.Value
		case strings.HasSuffix(f.Name, ":write"):
			writers++
		default:
			others++
		}
	}
	switch {
	case mode == "" && others+writers > 1:
		s.fail("one holder on the wire", "%q: %v", n.name, fields)
	case writers > 1, mode == "read" && writers > 0, mode == "write" && writers == 0 && others == 0:
		s.fail("one writer on the wire", "%q: %v", n.name, fields)
	}
}

// checkMarks: a lock that is only read lives no longer than the longest of its readers asks for.
func (s *sim) checkMarks(n *simName, fields []twin.Field, expires int64) {
	if !readsOnly(fields) {
		return
	}
	most := int64(0)
	for _, f := range fields {
		count, _ := strconv.Atoi(f.Value)
		for i := 1; i <= count; i++ {
			_, marked := s.server.twin.Look("{" + n.name + "}:" + f.Name + ":rwlock_timeout:" + strconv.Itoa(i))
			most = max(most, marked)
		}
	}
	if expires > most+simRounding {
		s.fail("a read lock lives no longer than its readers ask for", "%q lives %d ms longer than the longest of its marks: %v", n.name, expires-most, fields)
	}
}

// readsOnly reports whether a lock is read and not written.
func readsOnly(fields []twin.Field) bool {
	return slices.Contains(fields, twin.Field{Name: "mode", Value: "read"})
}

// simRounding is by how many ms a release may find two expiries equal that are not.
const simRounding = 5

// checkBelief: who believes has its field on the server, and for as long as it believes.
func (s *sim) checkBelief(h *simHold) {
	if h.excused || s.excused[h.field] || !h.believes() {
		return
	}
	t := s.server.twin
	if !hasField(t.Hash(h.n.name), h.field) {
		s.fail("belief is on the wire", "%q: %s (%s, hold %d) believes in %s, the server has %v", h.n.name, h.who, h.kind, h.id, h.field, t.Hash(h.n.name))
		return
	}
	_, expires := t.Look(h.n.name)
	left := time.Duration(expires-t.Millis()) * time.Millisecond
	slack := 2 * time.Millisecond
	if s.clocks {
		slack += h.ls.hold.Lease() / 100
	}
	if trust := h.ls.hold.Deadline().Sub(s.w.Now()); expires != 0 && left+slack < trust {
		s.fail("trust ends before the lease", "%q: %s (%s, hold %d) trusts %v more, the key lives %v", h.n.name, h.who, h.kind, h.id, trust, left)
	} else if h.kind == simRead {
		s.checkMark(h, trust-slack)
	}
}

// checkMark: a read hold's own expiry is no earlier either. Another reader's release lowers the key to the longest of those.
func (s *sim) checkMark(h *simHold, trust time.Duration) {
	t := s.server.twin
	_, expires := t.Look("{" + h.n.name + "}:" + h.field + ":rwlock_timeout:1")
	if left := time.Duration(expires-t.Millis()) * time.Millisecond; left < trust {
		s.fail("trust ends before the lease", "%q: %s (hold %d) trusts %v more, the mark of its read hold lives %v", h.n.name, h.who, h.id, trust, left)
	}
}

// checkOrder: a fair lock goes to the first in its queue.
func (s *sim) checkOrder(n *simName, args []string, before []string, was string, q *simQueueCall) {
	t := s.server.twin
	holder := soleField(t.Hash(n.name))
	if holder == "" || holder == was || q.back && holder == q.field {
		return
	}
	at := len(before)
	for i, f := range before {
		if f == holder {
			at = i
		}
	}
	for _, first := range before[:at] {
		for _, f := range t.List(n.queue) {
			if f == first {
				s.fail("fair order", "%q: %s was served before %s by %s", n.name, holder, first, simArgs(args))
			}
		}
	}
}

// checkWaiting: who waits for a free lock gets it soon, where nothing goes wrong.
func (s *sim) checkWaiting() {
	now := s.w.Now()
	if s.quietAt == 0 || now.Sub(s.quietAt) < s.settling() {
		return
	}
	for _, n := range s.names {
		s.checkName(n)
		soon := simSoon + 8*s.line
		if n.kinds[0] == simFair && !s.mixed && !s.java { // who is next hears of it, and does not wait for its poll
			soon = simFairSoon + 8*s.line
		}
		if n.freeAt == 0 || now.Sub(n.freeAt) < soon || s.deadFirst(n) {
			continue
		}
		for _, w := range n.waiters {
			if !w.over && !w.se.closing && w.gen == w.se.gen && now.Sub(w.since) > soon {
				s.fail("a free lock is granted", "%q is free for %v, and %s has waited to have it as %s for %v", n.name, now.Sub(n.freeAt), w.who, w.kind, now.Sub(w.since))
			}
		}
	}
}

// settling is how long after the last fault its traces may last.
func (s *sim) settling() time.Duration {
	longest := time.Duration(0)
	for _, n := range s.names {
		longest = max(longest, n.longest)
	}
	return max(simCalm, longest+simCalm/2)
}

const (
	// simSoon is within what time a waiter has a free lock.
	simSoon = 2 * time.Second
	// simFairSoon is the same of a fair lock, of which no other kind stands under its name.
	simFairSoon = 500 * time.Millisecond
	// simCalm is how long after the last fault its traces may last: an attempt, its late copies, a lease of up to 6 s.
	simCalm = 12 * time.Second
)

// checkEmpty: after everything was given back nothing is left, here and on the server.
func (s *sim) checkEmpty() {
	for _, e := range s.server.twin.Keys() {
		dead := (s.crashes || s.blows || s.clocks) && (strings.HasPrefix(e.Key, "redisson_lock_queue:") || strings.HasPrefix(e.Key, "redisson_lock_timeout:") ||
			e.TTL > 0 && (strings.HasSuffix(e.Key, ":fair_heard") || strings.HasSuffix(e.Key, ":fair_asked") || strings.HasSuffix(e.Key, ":fair_notes")))
		if s.counted.keeps(e.Key) || s.leased.keeps(e.Key) || s.java && e.TTL > 0 && strings.HasSuffix(e.Key, ":fair_notes") { // Redisson's clients were seen
			continue
		}
		if !dead && !strings.HasPrefix(e.Key, "redisson_lock_token:") { // a dead waiter's place stays until somebody else asks, and so does one that a failover brings back
			s.fail("nothing is left", "the server has %q: %v", e.Key, e)
		}
	}
	for _, se := range s.engines {
		st := se.eng.Stats()
		if st.Names != 0 || st.Held != 0 || st.Waiting != 0 || st.Renewals.Watched != 0 {
			s.fail("nothing is left", "engine %d has %d names, %d holds, %d waiters, %d watched", se.n, st.Names, st.Held, st.Waiting, st.Renewals.Watched)
		}
		s.checkTally(se, &st)
		if st.CallbackPanics != se.others.panics {
			s.fail("no panic", "engine %d: %d panics were counted, and %d were of others", se.n, st.CallbackPanics, se.others.panics)
		}
		if n := se.eng.unanswered(); n != 0 {
			s.fail("everything is answered", "engine %d waits for %d answers", se.n, n)
		}
		if se.subs.refs != 0 {
			s.fail("nothing is left", "engine %d has %d subscriptions", se.n, se.subs.refs)
		}
	}
}

// checkCounts: the count on the wire is the number of handles, once nothing is unanswered.
func (s *sim) checkCounts() {
	for _, n := range s.names {
		if len(n.holds) == 0 || len(n.waiters) > 0 || n.inside > 0 || s.givesBack(n) || n.asked() {
			continue
		}
		handles := make(map[string]int)
		for _, h := range n.holds {
			if h.unsure(s.w.Now()) || s.excused[h.field] || s.uncounted[h.field] {
				handles[h.field] = -1 << 20
			}
			if h.believes() && !h.excused {
				handles[h.field]++
			}
		}
		for _, h := range n.holds {
			want := handles[h.field]
			if h.kind == simRead {
				want = 1
			}
			for _, f := range s.server.twin.Hash(n.name) {
				if f.Name == h.field && h.believes() && !h.excused && handles[h.field] > 0 && f.Value != strconv.Itoa(want) {
					s.fail("counts are handles", "%q: %s has count %s on the wire and %d handles", n.name, h.field, f.Value, want)
				}
			}
		}
	}
}

// checkEvents reads what is told: nobody is in jeopardy where nothing goes wrong.
func (s *sim) checkEvents() {
	for _, se := range s.engines {
		se.hear()
	}
}

// simGhostsEnd is how many milliseconds before its expiry nobody looks for a ghost in a key.
const simGhostsEnd = 50

// checkGhosts: a field of an engine that runs, or its place in a fair lock's queue, is a hold's or an acquire's, or a
// command about its name has no answer. Nobody else will ever take it off: the key stays for its lease, and under
// readers, who renew it, for as long as they read. A key in its last moments is about to go without anybody.
func (s *sim) checkGhosts() {
	if s.clocks { // a step back prolongs what everybody has given up
		return
	}
	for _, n := range s.names {
		_, expires := s.server.twin.Look(n.name)
		for _, f := range s.server.twin.Hash(n.name) {
			if (expires == 0 || expires > s.server.twin.Millis()+simGhostsEnd) && !s.revived[f.Name] && !s.withoutMark(n, f.Name) {
				s.checkGhost(n, f.Name)
			}
		}
		for _, f := range s.server.twin.List(n.queue) {
			if !s.revived[f] {
				s.checkGhost(n, f)
			}
		}
	}
}

func (s *sim) checkGhost(n *simName, field string) {
	for _, se := range s.engines {
		if se.running() && strings.HasPrefix(field, se.eng.ID()+":") && !se.eng.knows(n.name, field) {
			s.fail("no ghost", "%q: engine %d runs, and knows nothing of its field %s", n.name, se.n, field)
		}
	}
}

// withoutMark reports whether a field is one that readers pass over: the read hold's own expiry is gone.
func (s *sim) withoutMark(n *simName, field string) bool {
	marked, _ := s.server.twin.Look("{" + n.name + "}:" + field + ":rwlock_timeout:1")
	for _, f := range s.server.twin.Hash(n.name) {
		if f.Name == "mode" && f.Value == "read" {
			return marked == 0
		}
	}
	return false
}

// running reports whether the process has an engine open.
func (se *simEngine) running() bool { return !se.closing && !se.dead && se.gen == se.opened }

// knows reports whether an engine has a hold or an acquire of a field, or waits for an answer about its name.
func (e *Engine) knows(name, field string) bool {
	hash := xxhash.Sum64String(name)
	sh := e.shard(hash)
	if sh.pending > 0 {
		return true
	}
	for ent := range sh.names.get(hash, name).withChildren {
		if h := ent.hold; h != nil && h.Field == field || ent.Attempt() != nil && ent.Attempt().op.Field == field || ent.Forcing() {
			return true
		}
	}
	return false
}

// asked reports whether an engine that has a name waits for answers.
func (n *simName) asked() bool {
	for _, h := range n.holds {
		if h.gen == h.se.gen && h.se.unanswered() > 0 {
			return true
		}
	}
	return false
}

// unsure reports whether a late copy of a change of the count may have had the last word, or a change was refused: the
// hold is settled as soon as no copy can run any more, and the server takes it.
func (h *simHold) unsure(now clock.Instant) bool {
	n := h.ls.hold.reentry()
	return n != nil && now.Before(n.UnsureUntil().Add(simSoon/4))
}

// givesBack reports whether a release of a name is on its way.
func (s *sim) givesBack(n *simName) bool {
	for _, se := range s.engines {
		for g, all := range se.giving {
			if g.n == n && len(all) > 0 {
				return true
			}
		}
	}
	return false
}

// simArgs is a command for the eye, made when somebody looks.
type simArgs []string

func (args simArgs) String() string {
	if args[0] != "EVALSHA" {
		return strings.Join(args, " ")
	}
	name := simScriptNames[args[1]]
	if strings.HasPrefix(name, "permits") { // ids are bytes
		return fmt.Sprintf("%s %q", name, args[3:])
	}
	return fmt.Sprintf("%s %s", name, strings.Join(args[3:], " "))
}

//nolint:gochecknoglobals // constant
var simScriptNames = func() map[string]string {
	names := make(map[string]string)
	for name, text := range resp.ScriptTexts() {
		sum := sha1.Sum([]byte(text))
		names[hex.EncodeToString(sum[:])] = strings.TrimSuffix(name, "one") // it does the same
	}
	return names
}()

// short leaves the engines' ids out.
func (s *sim) short(text string) string { return text }
