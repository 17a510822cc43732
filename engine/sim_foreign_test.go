package engine

import (
	"strconv"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/twin"
)

// A simForeign is a client with Redisson that contends for the same names, one lock at a time. Nothing ever goes wrong
// on its way: it is there to be excluded and to exclude.
type simForeign struct {
	s     *sim
	n     *simName // what it holds; nil: nothing
	kind  simKind
	field string
	until clock.Instant // its own lease
	java  *simJava      // nil: it has not wanted a fair lock yet
}

// foreigners starts the foreign clients.
func (s *sim) foreigners() {
	if !s.java {
		return
	}
	for i := range 2 + s.javas {
		f := &simForeign{s: s, field: "99999999-9999-4999-8999-99999999999" + strconv.Itoa(i) + ":" + []string{"7", "7", "0", "12"}[i]}
		s.foreign = append(s.foreign, f)
		s.w.In(nil, "foreign", f.run)
	}
}

// holds reports whether the foreign client has the lock, in a way that keeps others out.
func (f *simForeign) holds(n *simName, kind simKind) bool {
	return f.n == n && (f.kind != simRead || kind != simRead) && f.s.w.Now().Before(f.until) &&
		hasField(f.s.server.twin.Hash(n.name), f.wire())
}

func (f *simForeign) wire() string {
	if f.kind == simWrite {
		return f.field + ":write"
	}
	return f.field
}

func (f *simForeign) run() {
	s := f.s
	for range 150 { // not for ever: nobody yields to it
		s.w.Sleep(s.span(50*time.Microsecond, 50*time.Millisecond))
		if s.ended == len(s.simPlan.steps) {
			return
		}
		n := s.names[s.w.Int64N(int64(len(s.names)))]
		if n.kinds[0] == simRead && s.w.Int64N(int64(s.squats)) == 0 {
			f.squat(n)
			continue
		}
		switch n.kinds[0] {
		case simLock:
			f.kind = simLock
		case simRead:
			f.kind = []simKind{simRead, simWrite}[s.w.Int64N(2)]
		case simFair:
			f.fair(n)
			continue
		default:
			continue
		}
		r := twin.Redisson{
			Name: n.name, Field: f.field, LeaseMs: 2000, Publish: "PUBLISH", Request: strconv.Itoa(s.nextID()), LatchMs: 1000,
		}
		n.longest = max(n.longest, 2*time.Second)
		if !f.lock(n, r) {
			continue
		}
		s.w.Sleep(s.span(50*time.Microsecond, 300*time.Millisecond))
		f.unlock(r)
	}
}

// squat holds a lock whose name is that of what a writer notes, or of a read hold's mark, as clients could that do
// not know better: nobody may touch it.
func (f *simForeign) squat(n *simName) {
	s := f.s
	name := "{" + n.name + "}:rwlock_writer"
	r := twin.Redisson{Name: name, Field: f.field, LeaseMs: 10_000, Publish: "PUBLISH", Request: strconv.Itoa(s.nextID()), LatchMs: 1000}
	got := false
	f.kind = simLock
	f.call(r.Lock(), func(reply twin.Reply) { got = reply.Kind == twin.Nil })
	if !got {
		return
	}
	s.story("the foreign client has a lock of the name %q", name)
	s.w.Sleep(s.span(time.Millisecond, 300*time.Millisecond))
	f.call(r.Unlock(), func(reply twin.Reply) {
		if !reply.IsInt(1) && s.intact() {
			s.fail("nobody touches what is not a lock's own", "%q was taken from who held it: %s", name, reply.String())
		}
	})
}

// intact reports whether the server has lost nothing.
func (s *sim) intact() bool { return !s.blows && !s.clocks }

// lock asks once.
func (f *simForeign) lock(n *simName, r twin.Redisson) bool {
	args := r.Lock()
	switch f.kind {
	case simRead:
		args = r.ReadLock()
	case simWrite:
		args = r.WriteLock()
	default:
	}
	got := false
	f.call(args, func(reply twin.Reply) {
		if reply.Kind != twin.Nil {
			return
		}
		got = true
		f.has(n, 2*time.Second)
	})
	return got
}

func (f *simForeign) unlock(r twin.Redisson) {
	args := r.Unlock()
	switch f.kind {
	case simRead:
		args = r.ReadUnlock()
	case simWrite:
		args = r.WriteUnlock()
	default:
	}
	n := f.n
	f.n = nil
	f.s.story("the foreign client gives %q back", n.name)
	f.call(args, func(twin.Reply) {})
}

// call runs a command where it arrives, and waits for the answer.
func (f *simForeign) call(args []string, at func(twin.Reply)) { f.callAt(args, func() {}, at) }

// callAt is call for who looks at the server just before, too.
func (f *simForeign) callAt(args []string, before func(), at func(twin.Reply)) {
	w, v := f.s.w, f.s.server
	done := w.NewBell()
	w.Outside(max(w.Now().Add(v.latency()), v.stopped), func() {
		before()
		reply := v.twin.Do(args)
		at(reply)
		for _, n := range f.s.names {
			f.s.checkName(n)
		}
		w.Outside(w.Now().Add(v.latency()), done.Ring)
	})
	done.Wait()
}
