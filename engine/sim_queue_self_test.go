package engine

import (
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// simQueueSabotages break the rules of the queue of a fair lock that is free and wanted by nobody.
//
//nolint:gochecknoglobals // a table
var simQueueSabotages = []simSabotage{
	{"nobody who lives is taken out", "one that has just asked", []simKind{simFair}, simTampered("fair", ourSimField, func(s *sim, do func(...string)) {
		do("LPOP", "redisson_lock_queue:{g}")
		do("ZREM", "redisson_lock_timeout:{g}", ourSimField)
	})},
	{"Redisson's waiters have their time", "taken out at once", []simKind{simFair}, simTampered("fairrelease", itsSimField, func(s *sim, do func(...string)) {
		do("LPOP", "redisson_lock_queue:{g}")
		do("ZREM", "redisson_lock_timeout:{g}", itsSimField)
	})},
	{"nobody is overtaken", "who came later has it", []simKind{simFair}, simTampered("fair", ourSimField, func(s *sim, do func(...string)) {
		do("HSET", "g", "somebody:1", "1")
	})},
	{"a free lock is told to its head", "nobody is told", []simKind{simFair}, simTampered("fairrelease", ourSimField, func(*sim, func(...string)) {})},
	{"places and times are one set", "a time is lost", []simKind{simFair}, simTampered("fair", ourSimField, func(s *sim, do func(...string)) {
		do("DEL", "redisson_lock_timeout:{g}")
	})},
	{"the order here is the order there", "two change places", []simKind{simFair}, simTwoPlaced(func(s *sim, n *simName, first, second *entry) {
		s.server.twin.Do([]string{"LREM", n.queue, "1", first.Attempt().op.Field})
		s.server.twin.Do([]string{"LINSERT", n.queue, "AFTER", second.Attempt().op.Field, first.Attempt().op.Field})
	})},
	{"the place of a waiter is known", "the answer is lost", []simKind{simFair}, simTwoPlaced(func(s *sim, n *simName, _, second *entry) {
		s.server.twin.Do([]string{"ZADD", "{" + n.name + "}:fair_asked", "1", second.Attempt().op.Field})
		s.quietAt = 1
		for _, other := range s.names {
			other.longest = 0
		}
	})},
	{"who waits with Redisson is served", "one waits for ever", []simKind{simFair}, func(s *sim) bool {
		s.standing++
		return true
	}},
}

// simTwoPlaced does something to two waiters of one engine that are known to stand in the queue of a fair lock.
func simTwoPlaced(does func(s *sim, n *simName, first, second *entry)) func(*sim) bool {
	return func(s *sim) bool {
		n, se := s.names[0], s.engines[0]
		if !se.running() || s.w.Now() < clock.Instant(simCalm+time.Second) {
			return false
		}
		var placed []*entry
		for child := se.eng.shard(n.hash()).names.get(n.hash(), n.name).firstChild(); child != nil; child = child.nextChild() {
			if child.children().since != 0 && child.Parked() && slices.Contains(s.server.twin.List(n.queue), child.Attempt().op.Field) {
				placed = append(placed, child)
			}
		}
		if len(placed) < 2 {
			return false
		}
		does(s, n, placed[0], placed[1])
		s.checkPlaces()
		return true
	}
}

const ourSimField, itsSimField = "ours:01", "99999999-its:7"

// simTampered lets one stand in the queue and a script do what it must not do.
func simTampered(script, field string, does func(*sim, func(...string))) func(*sim) bool {
	return func(s *sim) bool {
		n, t := s.names[0], s.server.twin
		if n.freeAt == 0 || len(t.List(n.queue)) > 0 || len(t.Hash(n.name)) > 0 {
			return false
		}
		do := func(args ...string) {
			if r := t.Do(args); r.Kind == twin.Error {
				panic(r.Text)
			}
		}
		do("RPUSH", n.queue, field)
		do("ZADD", "redisson_lock_timeout:{g}", "9e15", field)
		n.line[field] = &simStander{at: t.Millis(), wait: 300_000, heard: t.Millis(), beside: true}
		q := simQueueCall{script: script, field: "another:01"}
		q.before(s, n)
		does(s, do)
		q.after(s, n)
		return true
	}
}
