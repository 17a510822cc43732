package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/twin"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// A simJava is how a foreign client waits for a fair lock: it runs Redisson's own scripts and sleeps as Redisson does,
// until a message on the channel of its place, or for as long as it was told.
type simJava struct {
	subs  *simSubs
	bell  *world.Bell
	skew  time.Duration // of its clock: Redisson sends its own time
	waits *simName      // what it waits for; nil: nothing
}

// Wake is its subscription's.
func (j *simJava) Wake(pubsub.WakeCause, string) { j.bell.Ring() }

// The waits of a foreign client. The first is that of lock(), which never gives up: what Redisson calls fairLockWaitTimeout.
//
//nolint:gochecknoglobals // a table
var simJavaWaits = []time.Duration{5 * time.Minute, 5 * time.Minute, time.Second, 5 * time.Second, 20 * time.Second, time.Minute}

// simJavaAhead is how far the clocks of Redisson's clients are from the server's at the most.
const simJavaAhead = 2500 * time.Millisecond

// simJavaLease is what it asks for.
const simJavaLease = 10 * time.Second

// fair wants the fair lock once: lock(), tryLock(wait) or tryLock().
func (f *simForeign) fair(n *simName) {
	s := f.s
	if f.java == nil {
		f.java = &simJava{subs: newSimSubs(s.server, nil), bell: s.w.NewBell(), skew: s.w.N(2*simJavaAhead) - simJavaAhead}
	}
	wait := simJavaWaits[s.w.Int64N(int64(len(simJavaWaits)))]
	r := twin.Redisson{
		Name: n.name, Field: f.field, LeaseMs: simJavaLease.Milliseconds(), WaitMs: wait.Milliseconds(), Publish: "PUBLISH", LatchMs: 1000,
	}
	n.longest = max(n.longest, simJavaLease)
	f.kind = simFair
	s.standing++
	var got bool
	if s.w.Int64N(8) == 0 {
		r.WaitMs = simJavaWaits[0].Milliseconds()
		got = f.askFair(n, &r, true) < 0
	} else {
		got = f.waitFair(n, &r, wait)
	}
	if got {
		s.w.Sleep(s.span(50*time.Microsecond, 8*time.Second))
		f.n = nil
		s.story("%s gives %q back", f.field, n.name)
		f.giveBackFair(n, &r)
	}
	s.standing--
}

// giveBackFair gives back until the lock is not its own any more. A give-back that was refused has left a count, and who
// asks again within the lease would raise it and keep the lock for ever.
func (f *simForeign) giveBackFair(n *simName, r *twin.Redisson) {
	for again := true; again; {
		again = false
		f.fairCall(n, "redisson fairunlock", r, func() []string { return r.FairUnlock() }, func(reply twin.Reply) {
			again = reply.Kind == twin.Error || reply.IsInt(0)
		})
		if again {
			f.s.w.Sleep(100 * time.Millisecond)
		}
	}
}

// waitFair is lock() and tryLock(wait): it asks, listens, asks again, and sleeps until it is told or the time is over
// that it was told.
func (f *simForeign) waitFair(n *simName, r *twin.Redisson, wait time.Duration) bool {
	s, until := f.s, f.s.w.Now().Add(wait)
	f.java.waits = n
	defer func() { f.java.waits = nil }()
	ever := wait == simJavaWaits[0]
	gives := func() bool { return !ever && s.w.Now() >= until }
	left := f.askFair(n, r, false)
	if left < 0 {
		return true
	}
	sub, err := f.java.subs.Subscribe("redisson_lock__channel:{"+n.name+"}:"+f.field, f.java)
	if err != nil {
		return false
	}
	defer sub.Drop()
	f.java.bell.WaitUntil(s.w.Now().Add(time.Second)) // it is subscribed
	for idle := 0; !gives(); idle++ {
		if left = f.askFair(n, r, false); left < 0 {
			return true
		}
		if left > 0 {
			idle = 0
		} else if idle > 1000 { // it asks without a pause, as Redisson does: that has been seen, and costs time
			left = 20 * time.Millisecond
		}
		if gives() {
			break
		}
		sleep := s.w.Now().Add(max(left, time.Millisecond))
		if !ever {
			sleep = min(sleep, until)
		}
		f.java.bell.WaitUntil(sleep)
	}
	s.story("%s gives up", f.field)
	f.fairCall(n, "redisson fairgiveup", r, func() []string { return r.FairGiveUp() }, func(twin.Reply) {})
	return false
}

// deadFirst reports whether the first place of a fair lock's queue is one of Redisson's that nobody has any more: a
// failover has brought it back, and it holds the others up until its deadline, docs/REDISSON.md.
func (s *sim) deadFirst(n *simName) bool {
	first := s.server.twin.List(n.queue)
	if n.kinds[0] != simFair || len(first) == 0 {
		return false
	}
	for _, f := range s.foreign {
		if f.field == first[0] && (f.java == nil || f.java.waits != n) {
			until := s.server.twin.Millis() - (simJavaAhead + simSoon).Milliseconds()
			return slices.ContainsFunc(s.server.twin.ZSet("redisson_lock_timeout:{"+n.name+"}"), func(m twin.Member) bool {
				return m.Name == f.field && int64(m.Score) > until
			})
		}
	}
	return false
}

// askFair asks once: how long to wait; negative: it has the lock.
func (f *simForeign) askFair(n *simName, r *twin.Redisson, try bool) (left time.Duration) {
	args := func() []string {
		if try {
			return r.FairTryLock()
		}
		return r.FairLock()
	}
	f.fairCall(n, "redisson fairlock", r, args, func(reply twin.Reply) {
		left = time.Duration(max(0, reply.Int)) * time.Millisecond
		if reply.Kind == twin.Error { // the server lets nobody write
			left = 100 * time.Millisecond
		}
		if reply.Kind == twin.Nil {
			left = -1
			f.has(n, simJavaLease)
		}
	})
	return left
}

// fairCall runs a script of the fair lock with the client's own time, and looks at what it did to the queue.
func (f *simForeign) fairCall(n *simName, script string, r *twin.Redisson, args func() []string, at func(twin.Reply)) {
	v := f.s.server
	r.NowMs, r.Request = v.micros()/1000+f.java.skew.Milliseconds(), f.field+":"+string(rune('a'+f.s.nextID()%26))
	a := args()
	q := simQueueCall{script: script, field: f.field, wait: r.WaitMs}
	f.callAt(a, func() { q.before(f.s, n) }, func(reply twin.Reply) {
		f.s.story("server: %s of %s, waits %d ms -> %s", script, f.field, r.WaitMs, reply.String())
		at(reply)
		q.after(f.s, n)
	})
}

// has begins its belief to have a lock.
func (f *simForeign) has(n *simName, lease time.Duration) {
	f.n, f.until = n, f.s.w.Now().Add(lease)
	f.s.story("the foreign client %s has %q as %s", f.field, n.name, f.kind)
	for _, h := range n.holds {
		if (f.kind != simRead || h.kind != simRead) && h.believes() && !h.excused {
			f.s.fail("exclusion", "%q: the foreign client was given %s while %s (%s, hold %d, %s) believes", n.name, f.kind, h.who, h.kind, h.id, h.field)
		}
	}
}

// waitForForeigners sees to it that whoever waits with Redisson is served, too.
func (s *sim) waitForForeigners() {
	most := s.settling() + time.Minute
	if s.crashes || s.blows || s.clocks { // a dead place may cost as much as what was guessed, docs/REDISSON.md
		most += 2 * simJavaWaits[0]
	}
	s.beyond = most
	for end := s.w.Now().Add(most); s.standing > 0; s.w.Sleep(100 * time.Millisecond) {
		if s.w.Now() > end {
			left := ""
			for _, n := range s.names {
				if n.kinds[0] == simFair {
					left += fmt.Sprintf("; %q: %v %v", n.name, s.server.twin.List(n.queue), s.server.twin.ZSet("redisson_lock_timeout:{"+n.name+"}"))
				}
			}
			s.fail("who waits with Redisson is served", "%d of its clients still wait, or hold, at %d%s", s.standing, s.server.twin.Millis(), left)
			return
		}
	}
}
