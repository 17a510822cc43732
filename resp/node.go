package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// Options are what a node needs to know. The zero value of a field means its default.
type Options struct {
	ID           string        // the engine's UUID, first half of every owner id
	Clock        clock.Clock   // default clock.System()
	Lanes        int           // default 2
	ManyOps      int           // from so many on their way on, ops take all lanes; below half of it one; default 128
	QueueMax     int           // acquires a node's lanes hold before they refuse; default 262,144
	RunMost      int           // ops that a lane sends in one write, at most; default 8,192
	Recent       int           // releases that a lane keeps to send them again, at most; default 4,096
	AttemptLimit time.Duration // how long one attempt may take, and how late its copy may run; default 2.5 s
	PubSub       PubSub        // how releases are published in a cluster
	Publish      Publish       // which
	AskFrom      int           // from so many keys on a release asks who listens; default 32
	Linger       time.Duration // how long an unused channel stays subscribed
	Follows      bool          // the server is whoever is master now: one that is not is left
	Wide         *atomic.Int32 // how many nodes want ops to take all lanes; made if nil
	Pollers      *atomic.Int32 // how many lanes poll for replies; made if nil
	Crowd        *atomic.Int32 // if not nil: how many nodes there are, for who makes their clients
	AfterBatch   func()        // called by a lane after it answered a batch; must not block

	// Guard is what watches the connections of the clients; may be nil. If they are its own, lanes take their
	// connections over from the client.
	Guard *Guard

	// Hide takes passwords out of what a server says. May be nil.
	Hide func(text string) string

	// Subscriptions makes what waiters hear of one node's releases by, for a simulated world. Default: a
	// pubsub.Mux.
	Subscriptions func(addr string) pubsub.Subscriptions
}

// PubSub says which kind of channel carries releases in a cluster. It must be the same for all of a
// fleet: clients that decide differently do not hear each other.
type PubSub uint8

// The kinds.
const (
	PubSubAuto    PubSub = iota // sharded from Redis 7 on, as Redisson's AUTO
	PubSubSharded               // SPUBLISH and SSUBSCRIBE
	PubSubPlain                 // PUBLISH and SUBSCRIBE
)

func (o *Options) fill() {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Lanes <= 0 {
		o.Lanes = 2
	}
	if o.Wide == nil {
		o.Wide = new(atomic.Int32)
	}
	if o.Pollers == nil {
		o.Pollers = new(atomic.Int32)
	}
	if o.ManyOps <= 0 {
		o.ManyOps = manyOps
	}
	if o.QueueMax <= 0 {
		o.QueueMax = 4 * 65536
	}
	if o.AskFrom <= 0 {
		o.AskFrom = askFrom
	}
	if o.Recent <= 0 {
		o.Recent = recentMost
	}
	if o.RunMost <= 0 {
		o.RunMost = boundMost
	}
	if o.AttemptLimit <= 0 {
		o.AttemptLimit = 2500 * time.Millisecond
	}
}

var (
	errClosed     = &ServerError{Class: ClassClosed, Text: "the engine is closed"}
	errOverloaded = &ServerError{Class: ClassOverloaded, Text: "the lane's queue is full"}
	errTooLate    = &ServerError{Class: ClassRefused, Text: "the server's clock runs away from the attempt's not-after"}
)

// A Node is one Redis server: its lanes, its connections, its subscriptions. What one node suffers
// delays no other.
type Node struct {
	from   *endpoint
	opts   Options
	world  *world.World
	nodes  *Nodes    // of a cluster; nil for a node that serves all slots
	follow *follower // of a master that sentinels name; else nil
	mode   pubSubMode

	lanes    []*lane
	spread   *spread      // which of them an op takes
	crowded  atomic.Int32 // lanes that have more acquires than their share of QueueMax
	commands *link        // acquires, releases and single ops: of the first lane, where lanes have theirs for themselves
	beside   []*link      // then those of the other lanes
	acked    *link        // acquires that wait for replicas: what waits there delays nothing else
	renewals *link        // renewals, so that nothing delays them, and what is asked of the server itself
	retries  *link        // renewals that failed once
	subs     pubsub.Subscriptions

	reloaded atomic.Uint64         // how often the scripts were put back
	called   atomic.Uint64         // scriptSet
	stock    atomic.Pointer[stock] // of the server's run that was connected to last
	declares atomic.Bool           // of a cluster: every key has to be declared, so each travels alone
	resends  pacer
	heldBack atomic.Int64                // until when acquires wait for renewals, a clock.Instant
	evicts   atomic.Pointer[string]      // an eviction policy nobody has been told of yet
	policy   atomic.Pointer[string]      // the last one heard of
	infoFrom atomic.Int64                // a clock.Instant: before it INFO is not asked whether it takes writes
	loadFrom atomic.Int64                // and no script for that is loaded
	renewing atomic.Pointer[ServerError] // why the last renewals failed

	workers world.Group // lanes
	wg      world.Group // closing connections and pings
	stats   nodeStats
}

type nodeStats struct {
	batches, overloaded, revived atomic.Int64
}

// NodeStats count what a node did.
type NodeStats struct {
	Addr          string
	Version       string
	Batches       int64 // pipeline writes of the lanes
	Overloaded    int64 // acquires refused because a lane was full
	Queued        int   // ops waiting in lanes now
	Reconnects    int64 // connections made beyond the first of each link
	ScriptReloads int64
	Revived       int64 // releases that a server which took over, or came back, had not heard of, and was told again
	Subscriptions pubsub.Stats
}

// pubSubMode is how a node publishes and subscribes.
type pubSubMode struct {
	publish string
	sharded bool
}

// Connect makes a node of a single server, or of whatever master the client follows, and waits for
// its first answer. The client is not the node's to close.
//
// Errors: *ServerError; ClassUnreachable if there was no answer.
func Connect(client rueidis.Client, addr string, o Options) (*Node, error) {
	o.fill()
	n := newNode(&endpoint{addr: addr, client: client, borrowed: true, hide: o.Hide}, o)
	w, failed := n.commands.get()
	switch {
	case failed != nil:
		n.abort()
		return nil, failed
	// A single node would send the keys of every slot here; Open is for clusters.
	case w.caps.Cluster:
		n.abort()
		why := " is a node of a cluster, and a single server was asked for"
		return nil, &ServerError{Class: ClassOther, Text: addr + why}
	}
	n.start(nil, pubSubMode{publish: "PUBLISH"})
	return n, nil
}

// newNode makes a node that is not connected and has no goroutines yet.
func newNode(from *endpoint, o Options) *Node {
	n := &Node{from: from, opts: o, world: world.Of(o.Clock)}
	n.workers.Init(n.world)
	n.wg.Init(n.world)
	n.commands = n.newLink("commands")
	n.commands.evicts = n.mayEvict
	if o.Guard != nil && o.Guard.Own {
		n.commands.owned, n.commands.pollers = o.Guard, o.Pollers
		for range o.Lanes - 1 {
			l := n.newLink("commands beside")
			l.owned, l.pollers = o.Guard, o.Pollers
			n.beside = append(n.beside, l)
		}
	}
	n.acked = n.newLink("acknowledged")
	n.renewals = n.newLink("renewals")
	n.retries = n.newLink("retries")
	return n
}

// abort ends a node that was never started.
func (n *Node) abort() {
	n.commands.close()
	n.wg.Wait()
}

// start makes the node ready for ops. Blocks: never; connections are dialled on demand.
func (n *Node) start(nodes *Nodes, mode pubSubMode) {
	n.nodes, n.mode = nodes, mode
	config := pubsub.Config{Dedicate: n.dedicate, Linger: n.opts.Linger, Sharded: mode.sharded}
	// Its connection may be the first to break when a master dies: lanes that are idle send nothing.
	config.OnEvent = func(e pubsub.Event) {
		if e.Kind == pubsub.Lost || e.Kind == pubsub.DialFailed || e.Kind == pubsub.Refused {
			n.suspect()
		}
	}
	if n.opts.Subscriptions != nil {
		n.subs = n.opts.Subscriptions(n.Addr())
	} else {
		n.subs = pubsub.Open(config)
	}
	n.spread = newSpread(&n.opts)
	for i := range n.opts.Lanes {
		over := n.commands
		if i > 0 && len(n.beside) > 0 {
			over = n.beside[i-1]
		}
		n.lanes = append(n.lanes, newLane(n, over))
	}
	// The lane that waits for replicas is the last one: Submit and Hurry find it there.
	last := newLane(n, n.acked)
	last.acks = newConfirming(n.world)
	n.lanes = append(n.lanes, last)
	for _, l := range n.lanes {
		n.workers.Add(1)
		n.world.Go("lane", l.work)
	}
}

// links lists them.
func (n *Node) links() []*link {
	return append([]*link{n.commands, n.acked, n.renewals, n.retries}, n.beside...)
}

func (n *Node) newLink(name string) *link {
	return &link{
		name: name, clock: n.opts.Clock, limit: n.opts.AttemptLimit, wg: &n.wg, world: n.world,
		from: n.from, follows: n.opts.Follows, begins: n.usual, stockOf: n.stockOf,
		dial: func() (rueidis.DedicatedClient, error) {
			client, err := n.from.get()
			if err != nil {
				return nil, err
			}
			// It is never released to the client: a wire is closed instead, see link.discard.
			var dedicated rueidis.DedicatedClient
			world.NewPart("connection").Apart(n.world, func() { dedicated, _ = client.Dedicate() })
			return dedicated, nil
		},
	}
}

func (n *Node) dedicate(context.Context) (rueidis.DedicatedClient, func(), error) {
	client, err := n.from.get()
	if errors.Is(err, errMoved) { // no failure: the new server is asked at once
		client, err = n.from.get()
	}
	if err != nil {
		return nil, nil, err
	}
	dedicated, release := client.Dedicate()
	return dedicated, release, nil
}

// mayEvict notes the eviction policy of the server, if it is a new one. With one, the server may throw away locks
// that are held.
func (n *Node) mayEvict(policy string) {
	if old := n.policy.Swap(&policy); policy != "" && (old == nil || *old != policy) {
		n.evicts.Store(&policy)
	}
}

// TakeEvicts returns, once, the policy by which this server may throw away locks that are held; "" if
// there is nothing new to say.
func (n *Node) TakeEvicts() string {
	if n.evicts.Load() == nil {
		return ""
	}
	if policy := n.evicts.Swap(nil); policy != nil {
		return *policy
	}
	return ""
}

// Submit hands an op to its lane. Blocks: never.
// Errors: *ServerError of ClassOverloaded or ClassClosed; then nothing was sent, and the sink is
// not called.
func (n *Node) Submit(op *Op) error {
	_, err := n.SubmitLed(op, false)
	return err
}

// SubmitLed is Submit for a caller that leads, if leads is set: it has to run its lead, if it gets one.
func (n *Node) SubmitLed(op *Op, leads bool) (Lead, error) {
	l := n.lanes[0]
	switch {
	case op.Ack != nil:
		l = n.lanes[n.opts.Lanes] // the one that waits for replicas
	case op.Wide:
		l = n.lanes[(op.Hash>>32)%uint64(n.opts.Lanes)]
	}
	led, refused := l.submit(op, leads)
	switch {
	case refused != nil: // else a nil *ServerError would be no nil error
		return Lead{}, refused
	case led:
		return Lead{l}, nil
	}
	return Lead{}, nil
}

// Hurry ends every wait for replicas, now and from now on: what was granted is answered as seen by none.
// Blocks: never.
func (n *Node) Hurry() { n.lanes[n.opts.Lanes].acks.stop() }

// GiveUp ends what is on its way, and has nothing sent any more: no Tick will come that would end a round. Blocks:
// never.
func (n *Node) GiveUp() {
	n.Hurry()
	for _, l := range n.lanes {
		l.giveUp()
	}
}

// HoldBack keeps acquires in their queues until then: renewals are late, and what the server can do is theirs. Releases
// and whatever else is on its way or comes go on; acquires go on at the next Tick after that. Blocks: never.
func (n *Node) HoldBack(until clock.Instant) {
	for {
		old := n.heldBack.Load()
		if old >= int64(until) || n.heldBack.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// Subscriptions returns what the node's waiters hear of releases by.
func (n *Node) Subscriptions() pubsub.Subscriptions { return n.subs }

// Addr names the node in logs and errors.
func (n *Node) Addr() string { return n.from.address() }

// suspect has the sentinels or the cluster asked who serves what this node should serve. Blocks: never.
func (n *Node) suspect() {
	switch {
	case n.nodes != nil:
		n.nodes.Suspect()
	case n.follow != nil:
		n.follow.suspect()
	}
}

// move makes another server the node's: every connection to the old one is given up, what is on its
// way there gets no answer, and every waiter is woken. Blocks: never.
func (n *Node) move(addr string) {
	old := n.from.move(addr)
	for _, l := range n.links() {
		if w := l.cur.Load(); w != nil {
			l.giveUp(w)
		}
	}
	n.subs.Replace()
	if old != nil && !n.from.borrowed {
		// In the background: rueidis waits up to a second for a server that is silent.
		n.follow.wg.Go(old.Close)
	}
}

// left reports whether an error says that this server is not the master any more, where another may be at its
// address. A node of a cluster says who is instead.
func (n *Node) left(err *ServerError) bool {
	return err != nil && n.nodes == nil && (err.Class == ClassReadOnly || err.Class == ClassMasterDown)
}

// leave gives up a connection to a server that is not the master any more. Its subscriptions go with that of the
// commands.
func (n *Node) leave(l *link, w *wire) {
	if l.leave(w) && (l == n.commands || slices.Contains(n.beside, l)) && !n.opts.Follows {
		n.subs.Replace()
	}
}

// AttemptLimit is how long one attempt may take; no copy of it runs later than that.
func (n *Node) AttemptLimit() time.Duration { return n.opts.AttemptLimit }

// Tick must be called about every 50 ms, by one goroutine at a time: it ends attempts that have reached their limit,
// and appends the keys whose answers have been outstanding for longer than patience.
func (n *Node) Tick(now clock.Instant, patience time.Duration, keys []string) []string {
	n.spread.tick()
	for _, l := range n.lanes {
		keys = l.tick(now, patience, keys)
	}
	return keys
}

// Ping asks the server for an answer, and whether it takes writes; thorough: by a script, too. Blocks: until ctx ends
// or the attempt limit has passed.
func (n *Node) Ping(ctx context.Context, thorough bool) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.AttemptLimit)
	defer cancel()
	type answer struct{ err error }
	done := make(chan answer, 1)
	// On a goroutine of its own: a dial knows nothing of ctx.
	n.wg.Add(1)
	go func() {
		defer n.wg.Done()
		w, failed := n.renewals.get()
		if failed != nil {
			done <- answer{failed}
			return
		}
		asked := n.appendWritable([]rueidis.Completed{w.client.B().Ping().Build()}, w, thorough)
		names := make([]string, len(asked)) // once sent, a command is the client's
		for i, cmd := range asked {
			names[i] = cmd.Commands()[0]
		}
		all := w.client.DoMulti(ctx, asked...)
		r := all[0]
		// A caller whose time is over proves nothing against the connection.
		if r.NonRedisError() != nil && ctx.Err() == nil {
			n.renewals.giveUp(w)
		}
		if err := r.Error(); err != nil {
			done <- answer{n.takesNoWrites(classify(err))}
			return
		}
		if refused := n.refusal(names[1:], all[1:]); refused != nil {
			done <- answer{refused}
			return
		}
		done <- answer{nil}
	}()
	select {
	case a := <-done:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("no answer from %s: %w", n.from.address(), ctx.Err())
	}
}

// mastering reports whether the server answers as a master. A server that refuses to tell its role counts as one. A
// connection that breaks once is no silence yet. Blocks: for two dials and answers.
func (n *Node) mastering(ctx context.Context) bool {
	for tries := 1; ; tries++ {
		w, failed := n.renewals.get()
		if failed != nil {
			// These are refusals: a server that refuses is there.
			return failed.Class == ClassNoAuth || failed.Class == ClassNoPerm || failed.Class == ClassMaxClients
		}
		limited, cancel := context.WithTimeout(ctx, lookLimit)
		reply := w.client.Do(limited, w.client.B().Role().Build())
		silent := limited.Err() != nil
		cancel()
		if reply.NonRedisError() != nil && !silent && tries == 1 {
			n.renewals.giveUp(w)
			continue
		}
		parts, err := reply.ToArray()
		if err != nil || len(parts) == 0 {
			_, refused := rueidis.IsRedisErr(err)
			return refused
		}
		role, err := parts[0].ToString()
		return err == nil && role == "master"
	}
}

// claimReload says who loads the scripts again, of all that miss them at the same time: seen is how
// often it had been done when the command that met NOSCRIPT was sent.
func (n *Node) claimReload(seen uint64) bool { return n.reloaded.CompareAndSwap(seen, seen+1) }

// use notes that a script is about to be called. Only such are loaded again: a server that forgets its
// scripts all the time has less time to do so between the loading and the call.
func (n *Node) use(s *script) {
	if one := s.set(); n.used()&one == 0 {
		n.called.Or(uint64(one))
	}
}

// used is every script that was called on this node.
func (n *Node) used() scriptSet { return scriptSet(n.called.Load()) }

// usual is what a new connection loads: who takes it over from one that broke goes on with the scripts it was using.
func (n *Node) usual() scriptSet { return n.used() | usualScripts() }

// stockOf returns what a run of the server was given. All connections to it share that.
func (n *Node) stockOf(run string) *stock {
	fresh := &stock{run: run}
	if run == "" {
		return fresh
	}
	for {
		last := n.stock.Load()
		if last != nil && last.run == run {
			return last
		}
		if n.stock.CompareAndSwap(last, fresh) {
			return fresh
		}
	}
}

// Stats returns the node's counters.
func (n *Node) Stats() NodeStats {
	s := NodeStats{
		Addr: n.Addr(), Batches: n.stats.batches.Load(), Overloaded: n.stats.overloaded.Load(),
		ScriptReloads: int64(n.reloaded.Load()), Revived: n.stats.revived.Load(), Subscriptions: n.subs.Stats(),
	}
	if w := n.commands.cur.Load(); w != nil {
		s.Version = w.caps.Version
	}
	for _, l := range n.links() {
		if made := l.epoch.Load(); made > 1 {
			s.Reconnects += int64(made - 1)
		}
	}
	for _, l := range n.lanes {
		l.mu.Lock()
		s.Queued += l.queue.len()
		l.mu.Unlock()
	}
	return s
}

// Close ends the lanes, the subscriptions and the connections. What was queued is still sent.
// Blocks: at most about two attempt limits, when the server is silent.
func (n *Node) Close() {
	n.subs.Close()
	// Lanes end before the links that they send over. A WAIT would hold its lane for as long as its op allows.
	n.Hurry()
	for _, l := range n.lanes {
		l.close()
	}
	n.workers.Wait()
	n.spread.turn(false)
	for _, l := range n.links() {
		l.close()
	}
	n.wg.Wait()
}

// Dead reports whether err says that no answer can be expected at the moment.
func Dead(err error) bool {
	var s *ServerError
	return errors.As(err, &s) && (s.Class == ClassUnreachable || s.Class == ClassUnknown)
}
