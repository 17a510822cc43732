package resp

import (
	"slices"
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
	releaseRing
	last    clock.Instant // when the last one was answered
	run     *stock        // the run of the server that has them all; nil: there was none yet
	to      *stock        // the run that they are sent to, a few at a time; nil: there is none
	rest    []pastRelease // of those it is still to be sent, the latest last
	moved   []pastRelease // those of slots that others have now: not in the ring any more
	current *replay       // what was sent again, until its outcome is looked at
	owes    atomic.Bool   // other nodes are still to be sent some
	dialing atomic.Bool   // a connection is being made, to see which run it leads to
}

// A pastRelease is what a release was about.
type pastRelease struct {
	key, field string
	hash       uint64
	slot       uint16
	family     Family
	work       int32 // how many keys' work it is, and more where it is long
}

const (
	// recentMost is how much work a lane keeps: one each for releases of most families, and so those of some 20 ms, with
	// thousands in flight. The masters of a cluster share that number.
	recentMost = 4096
	// recentLeast is how much a lane of such a master keeps all the same.
	recentLeast = 256
	// replayMost is how much of it is sent again at once: beside what callers ask for, which does not wait for the rest.
	replayMost = 128
	// replayBytes is how long a name and an owner id are that count as one more.
	replayBytes = 256
	// replayFor is for how long after its last release an idle lane dials to see whether there is another run.
	replayFor = time.Minute
	// replayMovedFor is how long a node that serves no slots stays for what other nodes are still to be sent.
	replayMovedFor = 5 * time.Minute
	// The pause before a replay is tried again doubles from the first to the second.
	replayPauseLeast = 100 * time.Millisecond
	replayPauseMost  = 2 * time.Second
)

// newPastRelease is what a release was about.
func newPastRelease(op *Op) pastRelease {
	work := max(op.Family.Work(op.Field), 1) + (len(op.Key)+len(op.Field))/replayBytes
	return pastRelease{op.Key, op.Field, op.Hash, op.Slot, op.Family, int32(work)} //nolint:gosec // a few thousand
}

// A releaseRing keeps the last releases, as long as they are not too much work.
type releaseRing struct {
	all         []pastRelease
	first, kept int // the oldest, and how many there are
	work        int
}

// add keeps one more, of so much work at the most.
func (rr *releaseRing) add(r pastRelease, most int) {
	for rr.kept > 0 && rr.work+int(r.work) > most {
		oldest := &rr.all[rr.first]
		rr.work -= int(oldest.work)
		*oldest = pastRelease{}
		rr.first, rr.kept = (rr.first+1)%len(rr.all), rr.kept-1
	}
	if rr.kept == len(rr.all) {
		larger := make([]pastRelease, max(2*rr.kept, 16))
		copy(larger, rr.inOrder())
		rr.all, rr.first = larger, 0
	}
	rr.all[(rr.first+rr.kept)%len(rr.all)] = r
	rr.kept, rr.work = rr.kept+1, rr.work+int(r.work)
}

// inOrder lists them, the oldest first.
func (rr *releaseRing) inOrder() []pastRelease {
	all := make([]pastRelease, 0, rr.kept)
	for i := range rr.kept {
		all = append(all, rr.all[(rr.first+i)%len(rr.all)])
	}
	return all
}

// behind reports whether the run that a connection leads to may lack some of them, or a connection is to be made to see
// that. Lanes may share a connection, so another may have made it.
func (rr *recentReleases) behind(w *wire, now clock.Instant) bool {
	switch {
	case rr.kept == 0 || rr.current != nil:
		return false
	case w == nil:
		return now.Sub(rr.last) < replayFor && !rr.dialing.Load()
	default:
		return w.stock != rr.run
	}
}

// landed looks at the outcome of what was sent last. What failed is sent again after the others, as if it were older.
func (rr *recentReleases) landed() {
	if rr.current == nil {
		return
	}
	for _, s := range rr.current.sent {
		list := &rr.rest
		if s.moved {
			list = &rr.moved
		}
		if s.failed {
			*list = slices.Insert(*list, 0, s.about)
		}
	}
	rr.current = nil
}

// take takes the next to be sent: the latest first, for those a server that took over is most likely to lack.
func (rr *recentReleases) take() (rest, moved []pastRelease) {
	left := int32(replayMost)
	next := func(list *[]pastRelease) (taken []pastRelease) {
		for n := len(*list); n > 0 && left > 0; n-- {
			taken = append(taken, (*list)[n-1])
			left -= (*list)[n-1].work
			*list = (*list)[:n-1]
		}
		return taken
	}
	return next(&rr.rest), next(&rr.moved)
}

// noteRelease keeps a release that was answered, unless the lane has only sent it again. What was another node's is
// not kept any more, and is kept anew.
func (l *lane) noteRelease(op *Op) {
	if !op.Family.row().replay || strings.HasSuffix(op.Field, noteMark) {
		return
	}
	if again, is := op.Sink.(*replayedRelease); is && again.of.lane == l && !again.moved {
		return
	}
	l.recent.last = l.received
	l.recent.add(newPastRelease(op), l.node.recentMost())
}

func (n *Node) recentMost() int {
	most := n.opts.Recent
	if n.nodes != nil {
		most = max(most/len(n.nodes.All()), min(most, recentLeast))
	}
	return most
}

// A replay is a few releases that were sent again.
type replay struct {
	lane   *lane
	sent   []*replayedRelease
	left   atomic.Int32 // so many have no answer, and one more while they are being sent
	failed atomic.Bool
}

// A replayedRelease is one of them, and its own sink.
type replayedRelease struct {
	op     Op
	of     *replay
	about  pastRelease
	moved  bool // its slot was another's
	failed bool
}

// Answered notes its outcome. A refusal that would come again is as good as an answer; that of a server that takes no
// writes for now is not.
func (s *replayedRelease) Answered(_ *Op, r *Result) {
	switch {
	case r.Code == CodeReleased:
		s.of.lane.node.stats.revived.Add(1)
	case r.Err != nil && (r.Err.Class.Transient() || !r.Definite() || RefusesWrites(r.Err)):
		s.failed = true
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
func (p *replay) send(r pastRelease, moved bool) {
	s := &replayedRelease{of: p, about: r, moved: moved, op: Op{
		Kind: OpRelease, Key: r.key, Hash: r.hash, Slot: r.slot, Field: r.field, Family: r.family,
	}}
	s.op.Sink = s
	p.sent = append(p.sent, s)
	p.left.Add(1)
	var closed bool
	if to := p.lane.node.ownerOf(r.slot); to == p.lane.node {
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
	if l.recent.kept == 0 {
		l.recent.run = run
		return
	}
	l.mu.Lock()
	l.replays = l.replays || l.replayFrom == 0 && l.recent.current == nil
	l.mu.Unlock()
}

// replay looks at the outcome of what was sent again last, and sends more of what another run, or another node, may
// lack. The worker calls it. Blocks: never.
func (l *lane) replay() {
	rr := &l.recent
	if rr.current != nil && rr.current.left.Load() != 0 {
		return
	}
	rr.landed()
	l.sortMoved()
	switch w := l.link.cur.Load(); {
	case rr.kept == 0, w != nil && w.stock == rr.run:
		rr.rest, rr.to = nil, nil
	case w == nil:
		rr.rest, rr.to = nil, nil
		l.dialToReplay()
	case w.stock != rr.to:
		rr.rest, rr.to = rr.inOrder(), w.stock
	}
	rest, moved := rr.take()
	rr.owes.Store(len(moved) > 0 || len(rr.moved) > 0)
	if len(rest) == 0 && rr.to != nil {
		rr.run, rr.to = rr.to, nil
	}
	if len(rest)+len(moved) == 0 {
		return
	}
	p := &replay{lane: l}
	rr.current = p
	p.left.Store(1)
	for _, r := range rest {
		p.send(r, false)
	}
	for _, r := range moved {
		p.send(r, true)
	}
	p.answered()
}

// sortMoved takes those of slots that others have now out of the ring: the lanes of those keep them once they are
// answered. What has come back is the lane's own again, and its server may lack it.
func (l *lane) sortMoved() {
	rr, most := &l.recent, l.node.recentMost()
	if l.node.nodes == nil {
		return
	}
	own, moved := releaseRing{}, releaseRing{}
	for i, r := range slices.Concat(rr.moved, rr.inOrder()) {
		switch here := l.node.ownerOf(r.slot) == l.node; {
		case !here:
			moved.add(r, most)
			continue
		case i < len(rr.moved):
			rr.run, rr.to = nil, nil
		}
		own.add(r, most)
	}
	rr.releaseRing, rr.moved = own, moved.inOrder()
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

// owesReplay reports whether other nodes are still to be sent what the node's lanes have released.
func (n *Node) owesReplay() bool {
	return slices.ContainsFunc(n.lanes, func(l *lane) bool { return l.recent.owes.Load() })
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
