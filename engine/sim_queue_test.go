package engine

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// The rules of a fair lock's queue in which Redisson's clients stand, too. They are the server's view: looked at after
// every script that may change the queue, of whichever side, by the server's clock.

// For how long one of ours keeps its place without asking, as package resp says it: before our own scripts, and before
// Redisson's. Those go by the time that the place was given, which may be half a second older than the question, and by
// the clock of their client, which may be ahead.
const (
	simGrace       = 5 * time.Second
	simGraceOfJava = simGrace - 500*time.Millisecond - simJavaAhead
)

// simOutages is how long after one that all were silent in those that are silent are dead.
const simOutages = time.Minute

// A simStander is who waits in the queue, or was taken out of it while it was alive.
type simStander struct {
	seq    int   // of its coming
	at     int64 // when it came, in the server's ms
	micros int64 // the same in µs: a server carries no two scripts out in one, but the simulation's may
	wait   int64 // of Redisson's: how long it waits at the most, in ms
	heard  int64 // of ours: when it has asked last
	beside bool  // of Redisson's: one of ours was alive in the queue when it came
	out    bool  // of ours: Redisson has taken it out, and when it asks again it has its place again
}

// A simQueueCall is one script that may change the queue of a fair lock.
type simQueueCall struct {
	script string
	field  string
	wait   int64 // of Redisson's

	waits, refused bool
	outage         bool  // who asks was not heard of for as long as a place is kept, for the first time in a while
	stood          int64 // when all of ours were silent last, by the notes
	back           bool  // it has stood here before, and may come back to where it was
	queue          []string
	was            string // the holder
	told           map[string]bool
}

// ourPlace reports whether one in a queue is an engine's.
func ourPlace(field string) bool { return !strings.HasPrefix(field, "99999999-") }

func (q *simQueueCall) before(s *sim, n *simName) {
	t := s.server.twin
	q.queue, q.was = slices.Clone(t.List(n.queue)), soleField(t.Hash(n.name))
	q.back = !slices.Contains(q.queue, q.field) && slices.ContainsFunc(t.ZSet("{"+n.name+"}:fair_asked"), func(m twin.Member) bool { return m.Name == q.field })
	for _, f := range t.Hash("{" + n.name + "}:fair_notes") {
		if f.Name == "stood" {
			q.stood, _ = strconv.ParseInt(f.Value, 10, 64)
		}
	}
	q.told = make(map[string]bool)
	s.published = q.told
}

// live reports whether one in the queue is alive, for a script of this side.
func (q *simQueueCall) live(p *simStander, field string, now int64) bool {
	grace := simGrace
	if strings.HasPrefix(q.script, "redisson ") {
		grace = simGraceOfJava
	}
	return !ourPlace(field) || now-p.heard < grace.Milliseconds()
}

// after looks at what a script did.
func (q *simQueueCall) after(s *sim, n *simName) {
	s.published = nil
	if s.blows || s.clocks { // what is lost, and when anything was, is not known
		return
	}
	t := s.server.twin
	now, queue, holder := t.Millis(), t.List(n.queue), soleField(t.Hash(n.name))
	if p := n.line[q.field]; p != nil && !p.out && q.script == "fair" && !q.refused && !q.live(p, q.field, now) {
		q.outage = now-q.stood >= simOutages.Milliseconds()
	}
	beside := slices.ContainsFunc(q.queue, func(f string) bool {
		p := n.line[f]
		return p != nil && ourPlace(f) && q.live(p, f, now)
	})
	for _, f := range q.queue {
		if p := n.line[f]; p != nil && f != holder && (!slices.Contains(queue, f) || q.movedBack(f, queue)) {
			q.gone(s, n, f, p, now)
		}
	}
	if holder != "" && holder != q.was {
		q.granted(s, n, holder, now)
	}
	if q.script == "fair" || q.script == "fairrelease" {
		q.forgotten(s, n, now)
	}
	for _, f := range queue {
		p := n.line[f]
		if p == nil {
			n.lines++
			p = &simStander{seq: n.lines, at: now, micros: s.server.micros(), wait: q.wait, beside: beside}
			n.line[f] = p
		}
		p.out = false
		if f == q.field && q.script == "fair" && q.waits && !hasField(t.Hash(n.name), "mode") { // else it is refused: another kind has it
			p.heard = now
		}
	}
	if len(t.ZSet("redisson_lock_timeout:{"+n.name+"}")) != len(queue) {
		s.fail("places and times are one set", "%q: after %s of %s the queue is %v, and its times are %v", n.name, q.script, q.field, queue, t.ZSet("redisson_lock_timeout:{"+n.name+"}"))
	}
	q.headIsTold(s, n, queue)
}

// forgotten: whom Redisson has taken out, and who has not asked since then for longer than its place is kept, is taken for
// dead by the next script of ours. If it asks after all it comes anew. The one that asks has its place again.
func (q *simQueueCall) forgotten(s *sim, n *simName, now int64) {
	heard := s.server.twin.ZSet("{" + n.name + "}:fair_heard")
	for f, p := range n.line {
		kept := slices.ContainsFunc(heard, func(m twin.Member) bool { return m.Name == f }) // after an outage nobody is dead
		if p.out && f != q.field && !kept && !q.live(p, f, now) {
			delete(n.line, f)
		}
	}
}

// movedBack reports whether one of Redisson's took itself out, and stood in line again in the same script.
func (q *simQueueCall) movedBack(f string, queue []string) bool {
	return f == q.field && !ourPlace(f) && queue[len(queue)-1] == f && q.queue[len(q.queue)-1] != f
}

// granted: nobody who lives has asked before.
func (q *simQueueCall) granted(s *sim, n *simName, holder string, now int64) {
	mine := n.line[holder]
	delete(n.line, holder)
	for f, p := range n.line {
		if !p.out && (mine == nil || p.seq < mine.seq && p.micros < mine.micros) && q.live(p, f, now) {
			s.fail("nobody is overtaken", "%q: %s has it by %s of %s, and %s came before; the queue was %v", n.name, holder, q.script, q.field, f, q.queue)
		}
	}
}

// gone: nobody is taken out who lives, or whose time is not over.
func (q *simQueueCall) gone(s *sim, n *simName, f string, p *simStander, now int64) {
	switch leaves := f == q.field && (q.script == "fairrelease" || q.script == "redisson fairgiveup"); {
	case leaves:
	case ourPlace(f) && q.outage:
		s.fail("an outage is nobody's death", "%q: %s of %s, which was not heard of for as long, has taken out %s; the queue was %v", n.name, q.script, q.field, f, q.queue)
	case ourPlace(f) && q.live(p, f, now):
		s.fail("nobody who lives is taken out", "%q: %s of %s has taken out %s, which has asked %d ms ago; the queue was %v", n.name, q.script, q.field, f, now-p.heard, q.queue)
	case !ourPlace(f) && p.beside && now < p.at+p.wait:
		s.fail("Redisson's waiters have their time", "%q: %s of %s has taken out %s, which waits for %d ms and has waited for %d; the queue was %v", n.name, q.script, q.field, f, p.wait, now-p.at, q.queue)
	}
	if ourPlace(f) && strings.HasPrefix(q.script, "redisson ") {
		p.out = true
		return
	}
	delete(n.line, f)
}

// headIsTold: who is next for a free lock was told so, as soon as a script of ours has seen it.
func (q *simQueueCall) headIsTold(s *sim, n *simName, queue []string) {
	if soleField(s.server.twin.Hash(n.name)) != "" || len(queue) == 0 {
		n.head = ""
		return
	}
	if n.head != queue[0] {
		n.head, n.headTold = queue[0], false
	}
	if q.told["redisson_lock__channel:{"+n.name+"}:"+n.head] {
		n.headTold = true
	}
	if !n.headTold && !q.refused && !s.mixed && (q.script == "fair" || q.script == "fairrelease" || q.script == "redisson fairunlock") {
		s.fail("a free lock is told to its head", "%q: after %s of %s it is free, and %s is next and was not told; the queue was %v", n.name, q.script, q.field, n.head, q.queue)
	}
}

// simFairField finds the field that a script of the fair lock asks with, or gives back, for a key; the keys are declared.
func simFairField(args []string, at int) (field string, waits bool) {
	keys := simKeysOf(args)
	argv := args[3+len(keys):]
	fields := argv[6:]
	if simScriptNames[args[1]] == "fair" {
		fields, waits = argv[simFairFields:], argv[2] == "1"
	}
	for left := 0; ; left-- {
		if left == 0 {
			field = fields[0]
			left, _ = strconv.Atoi(fields[1])
			fields = fields[2:]
		}
		if at == 0 {
			return field, waits
		}
		at--
	}
}

// simFairFields is where the fields begin in the arguments of the script that asks.
const simFairFields = 7

// simHeardOf is how long after it came a waiter's engine may not know since when it stands in the queue: two polls, where
// nothing goes wrong any more.
const simHeardOf = 3 * time.Second

// checkPlaces: the waiters of an engine stand here in the order in which they stand in the queue of a fair lock, as far as it
// has been told; and where nothing goes wrong any more it has been told of each.
func (s *sim) checkPlaces() {
	calm := s.quietAt != 0 && s.w.Now().Sub(s.quietAt) >= s.settling()
	for _, n := range s.names {
		queue := s.server.twin.List(n.queue)
		if len(queue) == 0 {
			continue
		}
		came := make(map[string]float64)
		for _, m := range s.server.twin.ZSet("{" + n.name + "}:fair_asked") {
			came[m.Name] = m.Score
		}
		for _, se := range s.engines {
			if se.running() {
				s.checkPlacesOf(se, n, queue, came, calm)
			}
		}
	}
}

func (s *sim) checkPlacesOf(se *simEngine, n *simName, queue []string, came map[string]float64, calm bool) {
	before := -1
	for child := se.eng.shard(n.hash()).names.get(n.hash(), n.name).firstChild(); child != nil; child = child.nextChild() {
		a := child.Attempt()
		if a == nil {
			continue
		}
		at, since := slices.Index(queue, a.op.Field), came[a.op.Field]
		switch {
		case at < 0, since == 0: // or it was evicted since, and nobody has been told anything
		case float64(child.children().since) != since:
			if calm && child.Parked() && float64(s.server.micros())-since > float64(simHeardOf.Microseconds()) {
				s.fail("the place of a waiter is known", "%q: %s stands in the queue since %.0f, and its engine believes since %d", n.name, a.op.Field, since, child.children().since)
			}
		case at < before:
			s.fail("the order here is the order there", "%q: the queue is %v, and %s stands here behind %s", n.name, queue, a.op.Field, queue[before])
		default:
			before = at
		}
	}
}
