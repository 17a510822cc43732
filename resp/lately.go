package resp

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A server may not have heard, or have forgotten, what another or itself was told last: a replica that takes over lacks
// what its master had not sent it, and one that is started anew reads a copy of its data that may be old. There the
// locks that were given back last would stay until their leases end. So a lane keeps its last releases, and says them
// again to every server that it comes to: another run than before, or whoever serves their slots now. Where the release
// is known that changes nothing, for no field is used twice.

// A lately is a lane's last releases. It belongs to whoever has the lane.
type lately struct {
	all  []released // the oldest at next, once there are as many as there may be
	next int
	last clock.Instant // when the last one was answered
	told *stock        // the run that has heard of them; nil: there was none yet
	on   *telling      // what was said again, until it is known what came of it
	dial atomic.Bool   // a connection is being made for it
}

// A released is what a release was about.
type released struct {
	key, field string
	hash       uint64
	slot       uint16
	family     Family
}

const (
	// latelyMost is how many a lane keeps: of some 20 ms, with thousands in flight. In a cluster its masters share them.
	latelyMost = 4096
	// latelyLeast is how many each of them keeps at least.
	latelyLeast = 256
	// latelyCounts is for how long after its last release an idle lane looks for a server that may not have heard of it.
	latelyCounts = time.Minute
	// How long it is before it is tried again.
	tellLeast = 100 * time.Millisecond
	tellMost  = 2 * time.Second
)

// add notes the release that was just answered.
func (y *lately) add(op *Op, most int, now clock.Instant) {
	y.last = now
	r := released{op.Key, op.Field, op.Hash, op.Slot, op.Family}
	if len(y.all) < most {
		y.all = append(y.all, r)
		return
	}
	y.all[y.next] = r
	if y.next++; y.next >= len(y.all) {
		y.next = 0
	}
}

// keep forgets all but these, the oldest first.
func (y *lately) keep(these []released) { y.all, y.next = these, 0 }

// inOrder lists them, the oldest first.
func (y *lately) inOrder() []released {
	return append(append(make([]released, 0, len(y.all)), y.all[y.next:]...), y.all[:y.next]...)
}

// released notes a release that was answered, unless the lane has only said it again.
func (l *lane) released(op *Op) {
	if !op.Family.row().again || strings.HasSuffix(op.Field, noteMark) {
		return
	}
	if again, is := op.Sink.(*saidAgain); is && again.of.lane == l {
		return
	}
	l.lately.add(op, l.node.latelyMost(), l.received)
}

func (n *Node) latelyMost() int {
	if n.nodes == nil {
		return latelyMost
	}
	return max(latelyMost/len(n.nodes.All()), latelyLeast)
}

// A telling is releases on their way once more.
type telling struct {
	lane   *lane
	to     *stock     // the run that is told; nil: only others are
	moved  []released // what others are told
	left   atomic.Int32
	failed atomic.Bool
}

// A saidAgain is the sink of one.
type saidAgain struct {
	op Op
	of *telling
}

// Answered notes what came of it. A refusal that would come again is as good as an answer; that of a server that takes
// no writes for now is not.
func (s *saidAgain) Answered(_ *Op, r *Result) {
	switch {
	case r.Code == CodeReleased:
		s.of.lane.node.stats.revived.Add(1)
	case r.Err != nil && (r.Err.Class.Transient() || !r.Definite() || RefusesWrites(r.Err)):
		s.of.failed.Store(true)
	}
	s.of.end()
}

// end is called by each of them, and by who has sent them.
func (t *telling) end() {
	if t.left.Add(-1) == 0 {
		t.lane.heard(t.failed.Load())
	}
}

// meets notes the run of a server over whose connection the lane goes. Who has the lane calls it.
func (l *lane) meets(run *stock) {
	if len(l.lately.all) == 0 {
		l.lately.told = run
		return
	}
	l.mu.Lock()
	l.tells = l.tells || l.tellFrom == 0 && l.lately.on == nil
	l.mu.Unlock()
}

// tell says the last releases again to whoever may not have heard of them: to another run of the lane's server, and to
// those that serve its slots now. The worker calls it. Blocks: never.
func (l *lane) tell() {
	y := &l.lately
	if on := y.on; on != nil {
		if on.left.Load() != 0 {
			return
		}
		y.on = nil
		switch {
		case on.failed.Load():
			y.keep(append(on.moved, y.inOrder()...))
		case on.to != nil:
			y.told = on.to
		}
	}
	on := &telling{lane: l}
	on.left.Store(1)
	// What has moved. Those who serve it now note it themselves.
	all, own := y.inOrder(), y.all[:0:0]
	for _, r := range all {
		if to := l.node.ownerOf(r.slot); to != l.node {
			on.moved = append(on.moved, r)
			on.say(r, to)
		} else {
			own = append(own, r)
		}
	}
	y.keep(own)
	// The others, if this is another run.
	switch w := l.link.cur.Load(); {
	case len(own) == 0:
	case w == nil:
		l.dialToTell()
	case w.stock != y.told:
		on.to = w.stock
		for _, r := range own {
			on.say(r, l.node)
		}
	}
	if on.to != nil || on.moved != nil {
		y.on = on
		on.end()
	}
}

// dialToTell makes a connection, to see whether it is to another run. Who calls the lane meanwhile makes it as well.
// After a minute that waits until the lane has something to send.
func (l *lane) dialToTell() {
	if l.node.opts.Clock.Now().Sub(l.lately.last) >= latelyCounts || l.lately.dial.Swap(true) {
		return
	}
	l.node.wg.Go("lane.dialToTell", func() {
		_, failed := l.link.get()
		l.lately.dial.Store(false)
		if failed != nil {
			l.node.suspect() // another may serve its slots, or be the master
		}
		l.heard(failed != nil)
	})
}

// say sends one, to the lane's own node by the lane itself.
func (t *telling) say(r released, to *Node) {
	s := &saidAgain{of: t, op: Op{
		Kind: OpRelease, Key: r.key, Hash: r.hash, Slot: r.slot, Field: r.field, Family: r.family,
	}}
	s.op.Sink = s
	t.left.Add(1)
	var refused *ServerError
	if to == t.lane.node {
		_, refused = t.lane.submit(&s.op, false)
	} else if err := to.nodes.Submit(&s.op); err != nil {
		refused = AsServerError(err)
	}
	if refused != nil { // it is closed
		t.left.Add(-1)
	}
}

// heard has the worker see what has come of what it said, at once, or where that has to be tried again after a pause.
func (l *lane) heard(failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed {
		l.tellPause = min(max(2*l.tellPause, tellLeast), tellMost)
		l.tellFrom = l.node.opts.Clock.Now().Add(l.tellPause)
		return
	}
	l.tellPause = 0
	l.ringToTell()
}

// ringToTell has the worker look whom it has to tell. Called with mu held.
func (l *lane) ringToTell() {
	l.tells, l.tellFrom = true, 0
	if l.asleep {
		l.asleep = false
		l.wake.Ring()
	}
}

// tellSoon has it told when its pause is over, and by an idle lane whose server has gone. Called with mu held, at each
// tick.
func (l *lane) tellSoon(now clock.Instant) {
	switch {
	case l.closed || l.cut.Load():
	case l.tellFrom != 0:
		if !now.Before(l.tellFrom) {
			l.ringToTell()
		}
	// Nobody has the lane, so what it has released may be looked at.
	case l.asleep && !l.resting && l.stage == stageNone && len(l.lately.all) > 0 && l.lately.on == nil &&
		l.lately.behind(l.link.cur.Load(), now):
		l.ringToTell()
	}
}

// behind reports whether an idle lane may have to tell the run that a connection leads to, or has to make one. Lanes
// may share it, and another may have made it.
func (y *lately) behind(w *wire, now clock.Instant) bool {
	if w == nil {
		return now.Sub(y.last) < latelyCounts && !y.dial.Load()
	}
	return w.stock != y.told
}

// ownerOf is the node that serves a slot, or this one where slots do not matter.
func (n *Node) ownerOf(slot uint16) *Node {
	if n.nodes == nil {
		return n
	}
	return n.nodes.Owner(slot)
}

// tell has the lanes look which of their last releases are others' slots now. Blocks: never.
func (n *Node) tell() {
	for _, l := range n.lanes {
		l.mu.Lock()
		l.ringToTell()
		l.mu.Unlock()
	}
}

// tell has those nodes do so of which others have all slots now: a replica took over. What moves from a node that goes
// on serving brings its keys along. Blocks: never.
func (ns *Nodes) tell() {
	ns.mu.Lock()
	var idle []*Node
	for _, m := range ns.members {
		if m.idle != 0 {
			idle = append(idle, m.node)
		}
	}
	ns.mu.Unlock()
	for _, n := range idle {
		n.tell()
	}
}
