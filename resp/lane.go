package resp

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A lane is one worker of a node. Group commit, as databases do it: while one batch is on its way
// the next one collects; when the answers are in, everything that has collected travels together.
// There is no delay timer: a lone op leaves at once, and the busier the lane, the larger its
// batches. A key always uses the same lane, so its commands keep their order.
type lane struct {
	node *Node
	link *link
	most int         // acquires that may wait
	acks *confirming // of the lane whose grants are answered when replicas have seen them; else nil

	mu       sync.Mutex
	queue    laneQueue
	inFlight []*Op         // what the current run carries; guarded for tick
	since    clock.Instant // when its round began; 0: nothing is on its way
	begun    clock.Instant // when the run began
	oldest   clock.Instant // nothing that it carries was queued before
	reported bool          // tick has listed this run
	asleep   bool          // the worker waits for wake
	closed   bool
	wake     *world.Bell
	cut      atomic.Bool // nothing is sent or waited for any more

	// Owned by the worker.
	sent     *wire  // of the last round; nil: there was no connection
	limit    *limit // ends the round on its way when it takes too long; replaced under mu
	spare    laneQueue
	ops      []*Op
	dropped  []*Op // cancelled while they were queued
	results  []Result
	commands []command
	again    []command
	done     []command // settled in this round
	built    []rueidis.Completed
	envelope envelope
	rounds   int  // of this run
	loads    bool // the next round loads the scripts first
}

// laneQueue holds ops by urgency. Releases are never refused: holds bound them.
type laneQueue struct {
	releases, singles, acquires []*Op
}

func (q *laneQueue) empty() bool { return len(q.releases)+len(q.singles)+len(q.acquires) == 0 }

func (q *laneQueue) reset() {
	clear(q.releases)
	clear(q.singles)
	clear(q.acquires)
	q.releases, q.singles, q.acquires = q.releases[:0], q.singles[:0], q.acquires[:0]
}

// maxReloads and maxTooLate bound how often one run repairs the same command.
const (
	maxReloads = 8
	maxTooLate = 3
)

func newLane(n *Node, l *link) *lane {
	return &lane{
		node: n, link: l, most: max(n.opts.QueueMax/n.opts.Lanes, 1),
		wake: n.world.NewBell(), limit: newLimit(),
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

// submit queues an op. Blocks: never. Acquires and re-sends are refused when the queue is full.
func (l *lane) submit(op *Op) *ServerError {
	l.mu.Lock()
	// Asked under mu: a worker that finds the queue empty and the lane closed ends, and nobody would answer the op.
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	switch op.Kind {
	case OpRelease:
		l.queue.releases = append(l.queue.releases, op)
	case OpAcquire:
		if len(l.queue.acquires) >= l.most {
			l.mu.Unlock()
			l.node.stats.overloaded.Add(1)
			return errOverloaded
		}
		l.queue.acquires = append(l.queue.acquires, op)
	default:
		l.queue.singles = append(l.queue.singles, op)
	}
	if op.Kind != OpRelease { // a release cannot be taken back
		op.state.Store(opQueued)
	}
	// One ring for each sleep: only the op that ends it pays for waking the worker.
	ring := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if ring {
		l.wake.Ring()
	}
	return nil
}

// work is the lane's goroutine: started by the node, ended by close.
func (l *lane) work() {
	defer l.node.workers.Done()
	for l.nextRun() {
		l.node.world.Yield("lane.work: claimed | the cancelled answered, the others sent")
		for i, op := range l.dropped {
			l.dropped[i] = nil
			op.resetRoute()
			op.Sink.Answered(op, &Result{Code: CodeCancelled})
		}
		l.run()
		l.finishRun()
	}
}

// nextRun waits for ops and swaps the queue. It says false when the lane is closed; what was still
// queued has then been answered.
func (l *lane) nextRun() bool {
	for slept := l.begun == 0; ; slept = true {
		l.mu.Lock()
		if !l.queue.empty() {
			l.queue, l.spare = l.spare, l.queue
			l.beginRun()
			if slept { // nothing was queued while the run before was on its way
				l.oldest = l.begun
			}
			l.mu.Unlock()
			return true
		}
		// An empty queue comes first: a lane that is closed still sends what was queued.
		if l.closed {
			l.mu.Unlock()
			return false
		}
		l.asleep = true
		l.mu.Unlock()
		l.wake.Wait()
	}
}

// beginRun puts what was taken in order: releases before re-sends before acquires, acquires as byLease says.
// From here on an op cannot be taken back; those that were are set aside. Called with mu held.
func (l *lane) beginRun() {
	l.ops, l.dropped = l.ops[:0], l.dropped[:0]
	// Releases are not claimed: submit never made them cancellable.
	l.ops = append(l.ops, l.spare.releases...)
	l.claim(l.postpone(l.spare.singles))
	others := len(l.ops)
	l.claim(l.spare.acquires)
	acquires := l.ops[others:]
	// Mostly they are sorted: all of one family and lease. The check is cheaper than the sort, which is stable so that
	// those who asked first stay first.
	if !slices.IsSortedFunc(acquires, byLease) {
		slices.SortStableFunc(acquires, byLease)
	}
	l.spare.reset()
	// What is taken now was queued after the run before had begun: had it been there, that run would have
	// taken it, but for looks that were postponed.
	l.oldest, l.begun = l.begun, l.node.opts.Clock.Now()
	l.inFlight, l.since = l.ops, l.begun
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

// postpone leaves those for the next run that are too many for this one. Called with mu held.
func (l *lane) postpone(singles []*Op) (now []*Op) {
	looks, at := 0, 0
	for _, op := range singles {
		if op.Kind == OpInspect || op.Kind == OpQueue {
			if looks++; looks > mostLooks {
				l.queue.singles = append(l.queue.singles, op)
				continue
			}
		}
		singles[at] = op
		at++
	}
	clear(singles[at:])
	return singles[:at]
}

func (l *lane) claim(ops []*Op) {
	for _, op := range ops {
		if op.state.CompareAndSwap(opQueued, opSent) {
			l.ops = append(l.ops, op)
		} else {
			l.dropped = append(l.dropped, op)
		}
	}
}

// run sends what was loaded, in rounds: the first carries everything, later ones only what has to
// be sent again for a reason that is known to have kept it from running.
func (l *lane) run() {
	// Results are used again by the next run: a sink may read one during its call only.
	if cap(l.results) < len(l.ops) {
		l.results = make([]Result, len(l.ops)*2)
	}
	l.results = l.results[:len(l.ops)]
	l.commands = appendCommands(l.commands[:0], l.ops, l.results, l.node)
	for l.rounds = 0; len(l.commands) > 0; {
		l.round()
		if len(l.again) > 0 {
			l.publish()
		}
		l.done = l.done[:0]
		// The two slices change places, so that no round allocates.
		l.commands, l.again = l.again, l.commands[:0]
	}
}

// finishRun forgets the run and answers its ops.
func (l *lane) finishRun() {
	// An answered op belongs to its owner again. So tick must lose sight of it first: it reads the keys of a run.
	l.mu.Lock()
	l.inFlight, l.since, l.reported = nil, 0, false
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

// round sends l.commands in one write and reads their replies; what has to go again is in
// l.again afterwards.
func (l *lane) round() {
	l.again = l.again[:0]
	// The connection. A dial takes time, and so do earlier rounds: the limit of this one counts from now then.
	before := l.link.cur.Load()
	w, failed := l.link.get()
	l.sent = w
	// GiveUp may have come during the dial.
	if l.cut.Load() {
		failed = errClosed
	}
	if failed != nil {
		for i := range l.commands {
			l.failAll(&l.commands[i], failed)
		}
		return
	}
	scripts := l.node.reloaded.Load()
	if l.rounds++; l.rounds > 1 || w != before {
		l.restart()
	}
	// The pipeline. sentAt is from before the write, because leases are trusted from their sending. The not-after keeps
	// a copy that is late from running when the attempt is long over.
	sentAt := l.since
	loads := l.build(w, w.est.notAfter(sentAt, l.node.opts.AttemptLimit))
	replies := w.client.DoMulti(l.limit, l.built...)
	received := l.node.opts.Clock.Now()
	l.node.stats.batches.Add(1)

	// The replies, one for each command.
	refused := loadRefusal(replies[:loads])
	lost, missing := false, false
	for i := range l.commands {
		c := &l.commands[i]
		reply := replies[c.at]
		if reply.NonRedisError() != nil {
			lost = true
		}
		outcome := c.readReply(w, reply, sentAt, received)
		c.probed(replies[c.at-c.probes : c.at])
		if w.caps.Cluster {
			c.noteUndeclared()
		}
		if l.sort(c, outcome, refused) {
			missing = true
		}
	}
	// Scripts that are missing. One of the lanes that meet NOSCRIPT at the same time loads; one that has just
	// loaded, and misses them still, loads again.
	l.loads = missing && (l.loads || l.node.claimReload(scripts))
	// A connection that owes an answer is never used again: what still comes on it would be taken for another reply.
	if lost || w.malformed.Load() {
		l.link.giveUp(w)
		l.built = nil // the connection may still read it
	}
	// Replicas are asked when everything else is done: WAIT blocks the connection.
	if l.acks != nil {
		l.confirm(w, lost)
	}
}

// sort says what becomes of a command that has its reply: it is done, or goes into the next round. refused is why no
// script could be loaded. It reports whether the command's script is missing.
func (l *lane) sort(c *command, o outcome, refused *ServerError) (missing bool) {
	switch o {
	case settled:
		l.done = append(l.done, *c)
	case tooLate:
		l.sendAgain(c)
	case noScript:
		// Loading again would be refused again. The reason says more than NOSCRIPT.
		if refused != nil {
			l.failAll(c, refused)
			return false
		}
		c.reloads++
		l.again = append(l.again, *c)
		return true
	case split:
		l.bisect(c)
	}
	return false
}

// build makes the pipeline of l.commands: what loads scripts first, so many commands, if it is to.
func (l *lane) build(w *wire, notAfter int64) (loads int) {
	l.built = l.built[:0]
	// All scripts are noted before any is loaded: a load in this write is for each of them.
	for i := range l.commands {
		l.node.use(l.commands[i].script)
	}
	if l.loads {
		l.built = w.appendLoads(l.built, l.node.used())
	}
	loads = len(l.built)
	l.envelope = envelope{
		wire: w, cluster: l.node.nodes != nil, publish: l.node.mode.publish,
		notAfter: notAfter, args: l.envelope.args,
	}
	for i := range l.commands {
		c := &l.commands[i]
		// ASKING holds for one command. Nothing comes between: an op that asks has no probes.
		if c.ops[0].asking {
			l.built = append(l.built, w.client.B().Asking().Build())
		}
		l.built = c.appendProbes(l.built, w)
		c.at = len(l.built)
		l.built = append(l.built, c.build(&l.envelope))
	}
	return loads
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
			if l.acks == nil || !unconfirmed(op, &c.results[i]) {
				l.node.world.Yield("lane.publish: an answer | the next of its batch")
				l.answer(op, &c.results[i])
			}
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

// end ends the limit, once. Called with the lane's mu held.
func (l *limit) end() {
	if !l.over {
		l.over = true
		close(l.done)
	}
}

// giveUp ends the round on its way. From now on nothing is sent: what is queued, and what would go again, is refused.
// It is for a node that nobody ticks any more.
func (l *lane) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut.Store(true)
	l.limit.end()
}

// sendAgain repeats a command the server refused because its not-after had passed. Its reply has
// just told us the server's time.
func (l *lane) sendAgain(c *command) {
	if c.refusals++; c.refusals >= maxTooLate {
		l.failAll(c, errTooLate)
		return
	}
	l.again = append(l.again, *c)
}

func (l *lane) failAll(c *command, err *ServerError) {
	for i := range c.results {
		c.results[i] = Result{Code: CodeError, Err: err}
	}
	l.done = append(l.done, *c)
}

// bisect splits a command that was refused as a whole, until the guilty key stands alone.
func (l *lane) bisect(c *command) {
	middle := len(c.ops) / 2
	for _, part := range [...][2]int{{0, middle}, {middle, len(c.ops)}} {
		half := *c
		half.ops, half.results = c.ops[part[0]:part[1]], c.results[part[0]:part[1]]
		l.again = append(l.again, half)
	}
}

// tick ends a round that has taken its time, and lists the keys whose answer has been outstanding
// for longer than patience, since they were queued: only then is it worth watching their callers' contexts. What is
// queued behind is listed with every tick, what is on its way once.
func (l *lane) tick(now clock.Instant, patience time.Duration, keys []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 {
		return keys
	}
	if now.Sub(l.since) >= l.node.opts.AttemptLimit {
		l.limit.end()
	}
	if !l.reported && now.Sub(l.oldest) >= patience {
		l.reported = true
		for _, op := range l.inFlight {
			keys = append(keys, op.Key)
		}
	}
	if now.Sub(l.begun) < patience { // nothing was queued before that, but for looks that wait
		return keys
	}
	for _, q := range [...][]*Op{l.queue.singles, l.queue.acquires} {
		for _, op := range q {
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
