package resp

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A lane is one worker of a node. Group commit, as databases do it: while one batch is on its way
// the next one collects; when the answers are in, what has collected travels together, as far as the bound allows.
// There is no delay timer: a lone op leaves at once, and the busier the lane, the larger its
// batches. A key always uses the same lane, so its commands keep their order.
type lane struct {
	node *Node
	link *link

	number int         // among the node's
	share  int         // so many acquires may wait, if no other lane has more than its share
	acks   *confirming // of the lane whose grants are answered when replicas have seen them; else nil

	mu          sync.Mutex
	queue       laneQueue
	awaited     int           // ops that have come since the last run, and whose callers wait
	inFlight    []*Op         // what the current run carries; guarded for tick
	since       clock.Instant // when its round began; 0: nothing is on its way
	begun       clock.Instant // when the run began
	oldest      clock.Instant // nothing that it carries was queued before
	reported    bool          // tick has listed this run
	asleep      bool          // nobody has the lane; the worker waits for wake
	rested      bool          // nothing was queued when it was let go: what is queued now has just come
	pings       bool          // the worker is to ask the server for a sign of life
	resting     bool          // asleep, acquires are queued, and they are held back
	closed      bool
	replays     bool          // the worker is to call replay
	replayFrom  clock.Instant // when it is to do so; 0: at no time
	replayPause time.Duration // the last one before that
	wake        *world.Bell
	crowds      bool                   // it has more than its share, and crowded counts it
	waiting     atomic.Int32           // acquires in the queue, for the other lanes; written under mu
	cut         atomic.Bool            // nothing is sent or waited for any more
	waitsOn     atomic.Pointer[direct] // whose replies the round on its way waits for, if not by the client

	// Owned by whoever has the lane: the worker, or a leader for one round.
	recent    recentReleases
	stage     stage
	simulated *simulatedRound // of a simulated world
	received  clock.Instant   // when the last reply came
	sent      *wire           // of the last round; nil: there was no connection
	limit     *limit          // ends the round on its way when it takes too long; replaced under mu
	bound     bound
	ops       []*Op
	dropped   []*Op // cancelled while they were queued
	results   []Result
	commands  []command
	again     []command
	done      []command // settled in this round
	outbox    outbox
	reply     [1]rueidis.RedisResult // to a lone command
	envelope  envelope
	rounds    int       // of this run
	scripts   uint64    // how often they had been loaded again when the round began
	loaded    scriptSet // what its pipeline loads
	loads     bool      // the next round loads all scripts that were used: they are gone
}

func newLane(n *Node, l *link) *lane {
	return &lane{
		node: n, link: l, number: len(n.lanes), bound: newBound(n.opts.RunMost),
		share:  max(n.opts.QueueMax/(n.opts.Lanes+1), 1),
		rested: true,
		wake:   n.world.NewBell(), limit: newLimit(),
	}
}

// A limit is the context of a lane's rounds. It ends when a tick finds the round on its way too old:
// a timer for each round would cost more than a lone lock operation does.
type limit struct {
	context.Context //nolint:containedctx // it is one
	done            chan struct{}
	over            bool // guarded by the lane's mu
}

func newLimit() *limit { return &limit{Context: context.Background(), done: make(chan struct{})} }

// Done ends with the round's time.
func (l *limit) Done() <-chan struct{} { return l.done }

// Err says whether it has.
func (l *limit) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// submit queues an op. Blocks: never. Acquires and re-sends are refused when the queue is full. If the caller leads,
// and nobody has the lane, it is the caller's: it has to lead.
func (l *lane) submit(op *Op, leads bool) (led bool, refused *ServerError) {
	l.mu.Lock()
	// Asked under mu: a worker that finds the queue empty and the lane closed ends, and nobody would answer the op.
	if l.closed {
		l.mu.Unlock()
		return false, errClosed
	}
	if op.Kind == OpAcquire && l.full() {
		l.mu.Unlock()
		l.node.stats.overloaded.Add(1)
		return false, errOverloaded
	}
	l.queue.of(op.Kind).push(op)
	l.noteWaiting()
	if leads {
		l.awaited++
	}
	if op.Kind != OpRelease { // a release cannot be taken back
		op.state.Store(opQueued)
	}
	// One ring for each sleep: only the op that ends it pays for waking the worker.
	free := l.asleep && (!l.resting || op.Kind != OpAcquire)
	if free {
		l.asleep = false
	}
	led = free && leads && !l.resting && l.leadable(l.link.cur.Load())
	l.mu.Unlock()
	if free && !led {
		l.wake.Ring()
	}
	return led, nil
}

// full reports whether QueueMax acquires wait in the node's lanes. What the others have is asked only where one of them
// has more than its share. Called with mu held.
func (l *lane) full() bool {
	waiting := l.queue.acquires.live()
	if waiting < l.share && l.node.crowded.Load() == 0 {
		return false
	}
	for _, other := range l.node.lanes {
		if other != l {
			waiting += int(other.waiting.Load())
		}
	}
	return waiting >= l.node.opts.QueueMax
}

// noteWaiting tells the other lanes how many acquires wait in this one. Called with mu held, when that has changed.
func (l *lane) noteWaiting() {
	waiting := l.queue.acquires.live()
	l.waiting.Store(int32(waiting)) //nolint:gosec // QueueMax is far less
	if crowds := waiting >= l.share; crowds != l.crowds {
		l.crowds = crowds
		change := int32(-1)
		if crowds {
			change = 1
		}
		l.node.crowded.Add(change)
	}
}

// work is the lane's goroutine: started by the node, ended by close.
func (l *lane) work() {
	defer l.node.workers.Done()
	world.NewPart("lane").Label()
	for l.nextRun() {
		l.tellDropped()
		l.run(false)
		l.finishRun()
	}
}

// tellDropped answers those who were cancelled while they were queued.
func (l *lane) tellDropped() {
	l.node.world.Yield("lane.work: claimed | the cancelled answered, the others sent")
	for i, op := range l.dropped {
		l.dropped[i] = nil
		op.resetRoute()
		op.Sink.Answered(op, &Result{Code: CodeCancelled})
	}
	l.dropped = l.dropped[:0]
}

// gatherMost is from how many ops on a run has enough company.
const gatherMost = 384

// gather lets those who were answered together ask together, if they get to run first. A lone op would pay for it
// alone, and of many enough are there.
func (l *lane) gather() {
	if n := len(l.ops); n > 1 && n < gatherMost {
		runtime.Gosched()
	}
}

// nextRun waits for ops and takes what goes into one write, or for a run that its leader has left. It says false when
// the lane is closed; what was still queued has then been answered.
func (l *lane) nextRun() bool {
	for l.gather(); ; {
		l.mu.Lock()
		if l.pings {
			l.pings, l.since = false, l.node.opts.Clock.Now()
			l.mu.Unlock()
			l.ping()
			continue
		}
		if l.replays && l.stage == stageNone {
			l.replays = false
			if !l.closed && !l.cut.Load() {
				l.mu.Unlock()
				l.replay()
				continue
			}
		}
		if l.stage != stageNone || l.begins(l.rested) {
			l.rested = false
			l.mu.Unlock()
			return true
		}
		if l.acks != nil && len(l.acks.waiting) > 0 {
			l.mu.Unlock()
			l.awaitReplicas()
			continue
		}
		// An empty queue comes first: a lane that is closed still sends what was queued.
		waiting := l.queue.len() > 0
		if l.closed && !waiting {
			l.mu.Unlock()
			return false
		}
		l.asleep, l.resting, l.rested = true, waiting, !waiting
		l.mu.Unlock()
		if l.acks == nil {
			l.node.spread.rests(l.number)
		}
		l.wake.Wait()
	}
}

// begins begins a run if there is something to do. Who was cancelled is told while acquires are held back, too. Called
// with mu held.
func (l *lane) begins(slept bool) bool {
	waiting := l.queue.len()
	if waiting == 0 {
		return false
	}
	now := l.node.opts.Clock.Now()
	if slept { // nothing was queued while the run before was on its way
		l.queue.begin(now)
	}
	heldBack := l.heldBack(now)
	if heldBack && waiting == l.queue.acquires.len() {
		l.dropped = l.queue.acquires.sweep(l.dropped[:0])
		l.noteWaiting()
		l.ops = l.ops[:0]
		return len(l.dropped) > 0
	}
	l.beginRun(now, heldBack)
	if l.acks == nil {
		l.node.spread.begins(l.number, len(l.ops), l.awaited)
	}
	l.awaited = 0
	return true
}

// heldBack reports whether acquires wait for renewals, see [Node.HoldBack]. What is left of a lane that ends does not.
func (l *lane) heldBack(now clock.Instant) bool {
	until := l.node.heldBack.Load()
	return until != 0 && now.Before(clock.Instant(until)) && !l.closed && !l.cut.Load()
}

// beginRun takes as much as the bound allows, and puts it in order: releases before re-sends before acquires, acquires
// as byLease says. From here on an op cannot be taken back; those that were are set aside. Called with mu held.
func (l *lane) beginRun(now clock.Instant, heldBack bool) {
	l.ops, l.dropped = l.ops[:0], l.dropped[:0]
	q := &l.queue
	oldest := q.oldest()
	acquires := q.acquires.len()
	if heldBack {
		acquires = 0
	}
	releases, singles, acquires := l.bound.share(q.releases.len(), q.singles.len(), acquires)
	// Releases are not claimed: submit never made them cancellable.
	for range releases {
		l.ops = append(l.ops, q.releases.pop())
	}
	l.claim(&q.singles, singles)
	if q.releases.len() == 0 { // none of them overtakes a release
		l.claim(&q.looks, mostLooks)
	}
	others := len(l.ops)
	l.claim(&q.acquires, acquires)
	sorted := l.ops[others:]
	// Mostly they are sorted: all of one family and lease. The check is cheaper than the sort, which is stable so that
	// those who asked first stay first.
	if !slices.IsSortedFunc(sorted, byLease) {
		slices.SortStableFunc(sorted, byLease)
	}
	l.oldest, l.begun = oldest, now
	q.note(now)
	l.noteWaiting()
	l.inFlight, l.since, l.reported = l.ops, l.begun, false
	if l.acks != nil && len(l.acks.waiting) > 0 {
		l.oldest, l.inFlight = l.acks.oldest(oldest), l.acks.ops(slices.Clone(l.ops))
	}
}

// byLease orders acquires so that those which may share a command stand together. Fair waiters come last, in
// the order of their asking: it is to be that of the server's queue.
func byLease(a, b *Op) int {
	places, others := a.Family.row().places, b.Family.row().places
	switch {
	case places && !others:
		return 1
	case others && !places:
		return -1
	case places || a.LeaseMs == b.LeaseMs:
		return cmp.Compare(a.Family, b.Family)
	default:
		return cmp.Compare(a.LeaseMs, b.LeaseMs)
	}
}

// mostLooks is how many Inspects and Queues one run carries: their replies may be large, and are there together.
const mostLooks = 4

// claim takes so many ops that nobody has taken back. Called with mu held.
func (l *lane) claim(f *fifo, n int) {
	for n > 0 && f.len() > 0 {
		switch op := f.pop(); {
		case op == nil:
		case op.state.CompareAndSwap(opQueued, opSent):
			l.ops = append(l.ops, op)
			n--
		default:
			l.dropped = append(l.dropped, op)
		}
	}
}

// finishRun forgets the run and answers its ops.
func (l *lane) finishRun() {
	// An answered op belongs to its owner again. So tick must lose sight of it first: it reads the keys of a run.
	l.mu.Lock()
	l.inFlight, l.since, l.reported = nil, 0, false
	if l.acks != nil {
		l.inFlight = l.acks.ops(nil)
	}
	l.renewLimit()
	l.mu.Unlock()
	for i, op := range l.ops {
		l.ops[i] = nil
		if op != nil {
			l.node.world.Yield("lane.finishRun: an answer | the next of its batch")
			l.answer(op, &l.results[i])
		}
	}
	clear(l.results)
	if after := l.node.opts.AfterBatch; after != nil {
		after()
	}
}

// answer gives an op its result, unless another node of the cluster is to be asked first.
func (l *lane) answer(op *Op, r *Result) {
	if op.Kind == OpRelease && r.Err == nil {
		l.noteRelease(op)
	}
	if r.Err != nil {
		l.checkMaster(r.Err)
	}
	if ns := l.node.nodes; ns != nil {
		if r.Err != nil && ns.redirect(l.node, op, r) {
			return
		}
		// It was refused in unknown words beside others, and not alone: the server minds undeclared keys.
		if op.among && (r.Err == nil || r.Err.Class != ClassOther) {
			l.node.declares.Store(true)
		}
		op.resetRoute()
	}
	// Hidden last: redirect reads addresses in what the server said.
	r.Err, r.AckErr = hidden(l.node.opts.Hide, r.Err), hidden(l.node.opts.Hide, r.AckErr)
	op.Sink.Answered(op, r)
}

// checkMaster reacts to an error that a server gives which may not be the master any more. It has the sentinels
// asked, if they name the master, and leaves a server that says so of itself.
func (l *lane) checkMaster(err *ServerError) {
	if l.node.follow != nil && err.Class.suspicious() {
		l.node.follow.suspect()
	}
	if l.node.left(err) && l.sent != nil {
		l.node.leave(l.link, l.sent)
	}
}

// publish answers what a round has settled when others have to go again: their rounds cost time, and
// a grant is trusted from its sending on.
func (l *lane) publish() {
	l.listInFlight()
	for _, c := range l.done {
		for i, op := range c.ops {
			if op == nil {
				continue
			}
			c.ops[i] = nil
			l.node.world.Yield("lane.publish: an answer | the next of its batch")
			l.answer(op, &c.results[i])
		}
	}
	l.done = l.done[:0]
}

// listInFlight notes which ops are still on their way. It runs before the others are answered, because an answered op
// belongs to its owner again.
func (l *lane) listInFlight() {
	var inFlight []*Op
	for i := range l.again {
		inFlight = append(inFlight, l.again[i].ops...)
	}
	l.mu.Lock()
	if l.acks != nil {
		inFlight = l.acks.ops(inFlight)
	}
	l.inFlight = inFlight
	l.mu.Unlock()
}

// restart counts the time of a round from now: the one before it, or a dial, took some.
func (l *lane) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = l.node.opts.Clock.Now()
	l.renewLimit()
}

// renewLimit makes a limit for the next round, if the last one's is over. Called with mu held.
func (l *lane) renewLimit() {
	if l.limit.over && !l.cut.Load() {
		l.limit = newLimit()
	}
}

// end ends the time of the round on its way, once. Called with mu held.
func (l *lane) end() {
	if l.limit.over {
		return
	}
	l.limit.over = true
	close(l.limit.done)
	if d := l.waitsOn.Load(); d != nil {
		d.interrupt()
	}
}

// giveUp ends the round on its way. From now on nothing is sent: what is queued, and what would go again, is refused.
// It is for a node that nobody ticks any more.
func (l *lane) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut.Store(true)
	l.end()
	if l.resting && l.asleep {
		l.asleep = false
		l.wake.Ring()
	}
}

// tick ends a round that has taken its time, and lists the keys whose answer has been outstanding
// for longer than patience, since they were queued: only then is it worth watching their callers' contexts. An op is
// listed once while it is queued, and once on its way. A worker whose acquires are held back looks again.
func (l *lane) tick(now clock.Instant, patience time.Duration, keys []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replaySoon(now)
	switch {
	case l.since != 0:
		if now.Sub(l.since) >= l.node.opts.AttemptLimit {
			l.end()
		}
		keys = l.report(now, patience, keys)
	case !l.asleep: // it is just being taken, or waits for replicas
		return l.report(now, patience, keys)
	case !l.resting: // nothing waits
		l.lookAfter(now)
		return keys
	default:
		l.asleep = false
		l.wake.Ring()
	}
	for _, f := range [...]*fifo{&l.queue.singles, &l.queue.looks, &l.queue.acquires} {
		keys = f.overdue(now.Add(-patience), keys)
	}
	l.queue.note(now)
	return keys
}

// report lists what is on its way once that has taken long. Called with mu held.
func (l *lane) report(now clock.Instant, patience time.Duration, keys []string) []string {
	if !l.reported && len(l.inFlight) > 0 && now.Sub(l.oldest) >= patience {
		l.reported = true
		for _, op := range l.inFlight {
			keys = append(keys, op.Key)
		}
	}
	return keys
}

func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	ring := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if ring {
		l.wake.Ring()
	}
}
