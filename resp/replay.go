package resp

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A server may lack the last releases: a replica that takes over never had what its master had not sent it yet, and a
// server that is started anew reads a copy of its data that may be old. On it the locks that were given back last would
// stay until their leases end. So a lane keeps its last releases, and sends them again, as a log is replayed, to each
// run of its server that it is connected to, and to the nodes that took over all slots of its own node. A server that
// has run them is not changed by that, for no field is used for two holds.

// recentReleases are a lane's last releases. They belong to whoever has the lane.
type recentReleases struct {
	all     []pastRelease // a ring: once there are as many as may be, the oldest stands at next
	next    int
	last    clock.Instant // when the last one was answered
	run     *stock        // the run of the server that has them all; nil: there was none yet
	current *replay       // what was sent again, until its outcome is looked at
	dialing atomic.Bool   // a connection is being made, to see which run it leads to
}

// A pastRelease is what a release was about.
type pastRelease struct {
	key, field string
	hash       uint64
	slot       uint16
	family     Family
}

const (
	// recentMost is how many releases a lane keeps: of some 20 ms, with thousands in flight. The masters of a cluster
	// share that number.
	recentMost = 4096
	// recentLeast is how many a lane of such a master keeps all the same.
	recentLeast = 256
	// replayFor is for how long after its last release an idle lane dials to see whether there is another run.
	replayFor = time.Minute
	// The pause before a replay is tried again doubles from the first to the second.
	replayPauseLeast = 100 * time.Millisecond
	replayPauseMost  = 2 * time.Second
)

// add keeps one more, of so many at the most.
func (rr *recentReleases) add(r pastRelease, most int) {
	if len(rr.all) < most {
		rr.all = append(rr.all, r)
		return
	}
	rr.all[rr.next] = r
	if rr.next++; rr.next >= len(rr.all) {
		rr.next = 0
	}
}

// keep forgets all but the last of these, which are in order.
func (rr *recentReleases) keep(these []pastRelease, most int) {
	rr.all, rr.next = these[max(len(these)-most, 0):], 0
}

// inOrder lists them, the oldest first.
func (rr *recentReleases) inOrder() []pastRelease {
	return append(append(make([]pastRelease, 0, len(rr.all)), rr.all[rr.next:]...), rr.all[:rr.next]...)
}

// behind reports whether the run that a connection leads to may lack some of them, or a connection is to be made to see
// that. Lanes may share a connection, so another may have made it.
func (rr *recentReleases) behind(w *wire, now clock.Instant) bool {
	switch {
	case len(rr.all) == 0 || rr.current != nil:
		return false
	case w == nil:
		return now.Sub(rr.last) < replayFor && !rr.dialing.Load()
	default:
		return w.stock != rr.run
	}
}

// noteRelease keeps a release that was answered, unless the lane has only sent it again.
func (l *lane) noteRelease(op *Op) {
	if !op.Family.row().replay || strings.HasSuffix(op.Field, noteMark) {
		return
	}
	if again, is := op.Sink.(*replayedRelease); is && again.of.lane == l {
		return
	}
	l.recent.last = l.received
	l.recent.add(pastRelease{op.Key, op.Field, op.Hash, op.Slot, op.Family}, l.node.recentMost())
}

func (n *Node) recentMost() int {
	most := n.opts.Recent
	if n.nodes != nil {
		most = max(most/len(n.nodes.All()), min(most, recentLeast))
	}
	return most
}

// A replay is releases that were sent again.
type replay struct {
	lane   *lane
	to     *stock        // the run that they were sent to; nil: other nodes alone
	moved  []pastRelease // those that were sent to other nodes
	left   atomic.Int32  // so many have no answer, and one more while they are being sent
	failed atomic.Bool
}

// A replayedRelease is one of them, and its own sink.
type replayedRelease struct {
	op Op
	of *replay
}

// Answered notes its outcome. A refusal that would come again is as good as an answer; that of a server that takes no
// writes for now is not.
func (s *replayedRelease) Answered(_ *Op, r *Result) {
	switch {
	case r.Code == CodeReleased:
		s.of.lane.node.stats.revived.Add(1)
	case r.Err != nil && (r.Err.Class.Transient() || !r.Definite() || RefusesWrites(r.Err)):
		s.of.failed.Store(true)
	}
	s.of.answered()
}

// answered counts an answer, or the end of the sending.
func (p *replay) answered() {
	if p.left.Add(-1) == 0 {
		p.lane.replayEnded(p.failed.Load())
	}
}

// send sends one again, by the lane itself where it is the lane's own node's.
func (p *replay) send(r pastRelease, to *Node) {
	s := &replayedRelease{of: p, op: Op{
		Kind: OpRelease, Key: r.key, Hash: r.hash, Slot: r.slot, Field: r.field, Family: r.family,
	}}
	s.op.Sink = s
	p.left.Add(1)
	var closed bool
	if to == p.lane.node {
		_, err := p.lane.submit(&s.op, false)
		closed = err != nil
	} else {
		closed = to.nodes.Submit(&s.op) != nil
	}
	if closed {
		p.left.Add(-1)
	}
}

// noteRun sees to a replay where a connection leads to another run. Who has the lane calls it.
func (l *lane) noteRun(run *stock) {
	if len(l.recent.all) == 0 {
		l.recent.run = run
		return
	}
	l.mu.Lock()
	l.replays = l.replays || l.replayFrom == 0 && l.recent.current == nil
	l.mu.Unlock()
}

// replay looks at the outcome of the last replay, and sends again what another run, or another node, may lack. The
// worker calls it. Blocks: never.
func (l *lane) replay() {
	rr, most := &l.recent, l.node.recentMost()
	if p := rr.current; p != nil {
		if p.left.Load() != 0 {
			return
		}
		rr.current = nil
		switch {
		case p.failed.Load():
			rr.keep(append(p.moved, rr.inOrder()...), most)
		case p.to != nil:
			rr.run = p.to
		}
	}
	p := &replay{lane: l}
	p.left.Store(1)
	// Those of slots that others have now. The lanes of those keep them once they are answered.
	all, own := rr.inOrder(), rr.all[:0:0]
	for _, r := range all {
		if to := l.node.ownerOf(r.slot); to != l.node {
			p.moved = append(p.moved, r)
			p.send(r, to)
		} else {
			own = append(own, r)
		}
	}
	rr.keep(own, most)
	// The others, if this is another run.
	switch w := l.link.cur.Load(); {
	case len(own) == 0:
	case w == nil:
		l.dialToReplay()
	case w.stock != rr.run:
		p.to = w.stock
		for _, r := range own {
			p.send(r, l.node)
		}
	}
	if p.to != nil || p.moved != nil {
		rr.current = p
		p.answered()
	}
}

// dialToReplay makes a connection, to see which run it leads to. It does so beside the lane, whose callers go on. After
// replayFor that waits until the lane has something to send. Blocks: never.
func (l *lane) dialToReplay() {
	if l.node.opts.Clock.Now().Sub(l.recent.last) >= replayFor || l.recent.dialing.Swap(true) {
		return
	}
	l.node.wg.Go("lane.dialToReplay", func() {
		_, failed := l.link.get()
		l.recent.dialing.Store(false)
		if failed != nil {
			l.node.suspect() // another may serve its slots, or be the master
		}
		l.replayEnded(failed != nil)
	})
}

// replayEnded has the worker look at the outcome at once; or, where something failed, try again after a pause.
func (l *lane) replayEnded(failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed {
		l.replayPause = min(max(2*l.replayPause, replayPauseLeast), replayPauseMost)
		l.replayFrom = l.node.opts.Clock.Now().Add(l.replayPause)
		return
	}
	l.replayPause = 0
	l.ringToReplay()
}

// ringToReplay has the worker call replay. Called with mu held.
func (l *lane) ringToReplay() {
	l.replays, l.replayFrom = true, 0
	if l.asleep {
		l.asleep = false
		l.wake.Ring()
	}
}

// replaySoon has the worker call replay when its pause is over, and where the lane is idle and its run may lack
// something. Called with mu held, at each tick.
func (l *lane) replaySoon(now clock.Instant) {
	switch {
	case l.closed || l.cut.Load():
	case l.replayFrom != 0:
		if !now.Before(l.replayFrom) {
			l.ringToReplay()
		}
	// Nobody has the lane, so its releases may be looked at.
	case l.asleep && !l.resting && l.stage == stageNone && l.recent.behind(l.link.cur.Load(), now):
		l.ringToReplay()
	}
}

// ownerOf is the node that serves a slot, or this one where slots do not matter.
func (n *Node) ownerOf(slot uint16) *Node {
	if n.nodes == nil {
		return n
	}
	return n.nodes.Owner(slot)
}

// replay has the lanes send their last releases to those that took over all slots of the node. Blocks: never.
func (n *Node) replay() {
	for _, l := range n.lanes {
		l.mu.Lock()
		l.ringToReplay()
		l.mu.Unlock()
	}
}
