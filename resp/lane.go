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
	most   int         // acquires that may wait
	acks   *confirming // of the lane whose grants are answered when replicas have seen them; else nil

	mu       sync.Mutex
	queue    laneQueue
	inFlight []*Op         // what the current run carries; guarded for tick
	since    clock.Instant // when its round began; 0: nothing is on its way
	begun    clock.Instant // when the run began
	oldest   clock.Instant // nothing that it carries was queued before
	reported bool          // tick has listed this run
	asleep   bool          // the worker waits for wake
	resting  bool          // asleep, acquires are queued, and they are held back
	closed   bool
	wake     *world.Bell
	cut      atomic.Bool // nothing is sent or waited for any more

	// Owned by the worker.
	sent     *wire  // of the last round; nil: there was no connection
	limit    *limit // ends the round on its way when it takes too long; replaced under mu
	bound    bound
	ops      []*Op
	dropped  []*Op // cancelled while they were queued
	results  []Result
	commands []command
	again    []command
	done     []command // settled in this round
	built    []rueidis.Completed
	reply    [1]rueidis.RedisResult // to a lone command
	envelope envelope
	rounds   int  // of this run
	loads    bool // the next round loads all scripts that were used: they are gone
}

// maxReloads and maxTooLate bound how often one run repairs the same command.
const (
	maxReloads = 8
	maxTooLate = 3
)

func newLane(n *Node, l *link) *lane {
	return &lane{
		node: n, link: l, number: len(n.lanes), bound: newBound(n.opts.RunMost), most: max(n.opts.QueueMax/n.opts.Lanes, 1),
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
	if op.Kind == OpAcquire && l.queue.acquires.live() >= l.room() {
		l.mu.Unlock()
		l.node.stats.overloaded.Add(1)
		return errOverloaded
	}
	l.queue.of(op.Kind).push(op)
	if op.Kind != OpRelease { // a release cannot be taken back
		op.state.Store(opQueued)
	}
	// One ring for each sleep: only the op that ends it pays for waking the worker.
	ring := l.asleep && (!l.resting || op.Kind != OpAcquire)
	if ring {
		l.asleep = false
	}
	l.mu.Unlock()
	if ring {
		l.wake.Ring()
	}
	return nil
}

// room is how many acquires the lane may hold: all of the node's, while it is the only one that they take.
func (l *lane) room() int {
	if l.acks == nil && !l.node.spread.wide.Load() {
		return l.node.opts.QueueMax
	}
	return l.most
}

// work is the lane's goroutine: started by the node, ended by close.
func (l *lane) work() {
	defer l.node.workers.Done()
	world.NewPart("lane").Label()
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

// nextRun waits for ops and takes what goes into one write. It says false when the lane is closed; what was still
// queued has then been answered.
func (l *lane) nextRun() bool {
	// Those who were answered together ask together, if they get to run first. A lone op would pay for it alone, and of
	// many enough are there.
	if n := len(l.ops); n > 1 && n < manyOps {
		runtime.Gosched()
	}
	for slept := l.begun == 0; ; {
		l.mu.Lock()
		if l.begins(slept) {
			l.mu.Unlock()
			return true
		}
		// An empty queue comes first: a lane that is closed still sends what was queued.
		waiting := l.queue.len() > 0
		if l.closed && !waiting {
			l.mu.Unlock()
			return false
		}
		l.asleep, l.resting, slept = true, waiting, !waiting
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
		l.ops = l.ops[:0]
		return len(l.dropped) > 0
	}
	l.beginRun(now, heldBack)
	if l.acks == nil {
		l.node.spread.begins(l.number, len(l.ops))
	}
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
	replies := l.exchange(w.client)
	received := l.node.opts.Clock.Now()
	l.node.stats.batches.Add(1)
	l.learn(replies, received.Sub(sentAt))

	// The replies, one for each command.
	refused := w.stock.note(loads, replies)
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
		if l.sort(c, outcome, refused.of(c.script)) {
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

// exchange sends what is built and waits for the replies. A lone command goes alone: the client makes no list for it.
func (l *lane) exchange(to rueidis.DedicatedClient) []rueidis.RedisResult {
	if len(l.built) != 1 {
		return to.DoMulti(l.limit, l.built...)
	}
	l.reply[0] = to.Do(l.limit, l.built[0])
	return l.reply[:]
}

// learn fits the bound to how long the first round of a run has taken. One that got no answer because its connection
// broke says nothing.
func (l *lane) learn(replies []rueidis.RedisResult, took time.Duration) {
	limit := l.node.opts.AttemptLimit
	if l.rounds == 1 && (took >= limit || replies[len(replies)-1].NonRedisError() == nil) {
		l.bound.ran(len(l.ops), took, limit)
	}
}

// sort says what becomes of a command that has its reply: it is done, or goes into the next round. refused is why its
// script could not be loaded. It reports whether the command's script is missing.
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

// build makes the pipeline of l.commands. In front stands what loads the scripts that the server was not given yet, and
// those that it has lost.
func (l *lane) build(w *wire, notAfter int64) (loads scriptSet) {
	// All scripts are noted before any is loaded: a load in this write is for each of them.
	for i := range l.commands {
		s := l.commands[i].script
		l.node.use(s)
		loads |= s.set()
	}
	loads = w.stock.lacks(loads)
	if l.loads {
		loads |= l.node.used()
	}
	l.built = w.appendLoads(l.built[:0], loads)
	l.envelope = envelope{
		wire: w, cluster: l.node.nodes != nil, publish: l.node.mode.publish,
		asks: l.node.mode.asks(l.node.opts.Publish, l.node.nodes != nil), askFrom: l.node.opts.AskFrom, now: l.since,
		notAfter: notAfter, args: l.envelope.args, lease: l.envelope.lease, limit: l.envelope.limit,
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
	if l.resting && l.asleep {
		l.asleep = false
		l.wake.Ring()
	}
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
// for longer than patience, since they were queued: only then is it worth watching their callers' contexts. An op is
// listed once while it is queued, and once on its way. A worker whose acquires are held back looks again.
func (l *lane) tick(now clock.Instant, patience time.Duration, keys []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.since != 0:
		if now.Sub(l.since) >= l.node.opts.AttemptLimit {
			l.limit.end()
		}
		if !l.reported && now.Sub(l.oldest) >= patience {
			l.reported = true
			for _, op := range l.inFlight {
				keys = append(keys, op.Key)
			}
		}
	case !l.asleep || !l.resting: // nothing waits, or it is just being taken
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
