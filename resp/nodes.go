package resp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// slotCount is the number of slots of a cluster.
const slotCount = 16384

// Nodes is the servers of one deployment, and who of them serves which slot: a single server, or the
// masters of a cluster.
//
// In a cluster the table of slots learns from what nodes answer and is read anew from any node that
// answers, at once when something looks wrong and every 30 s otherwise. It is a hint: an op that was
// sent to the wrong node is refused there and goes to the right one (see redirect).
//
// Locks: mu guards the maps; it is never held during I/O. The table is read without it.
type Nodes struct {
	opts     Options
	dial     func(addr string) (rueidis.Client, error)
	borrowed bool
	mode     pubSubMode
	single   *Node     // serves every slot; nil in a cluster
	follow   *follower // of a master that sentinels name

	table *[slotCount]atomic.Pointer[Node] // of a cluster; nil for a single server, which needs none of its 128 KB
	all   atomic.Pointer[[]*Node]          // those that serve slots, or lately did

	mu        sync.Mutex
	members   map[string]*membership // by address
	endpoints map[string]*endpoint   // everybody heard of, replicas too: whom to ask
	known     map[string]bool        // the addresses of the table that was read last, replicas too
	closed    bool

	hooks   Hooks
	suspect chan struct{} // capacity 1: the table may be wrong
	epoch   atomic.Int64  // of the configuration that the table is of
	learned atomic.Bool   // a MOVED changed the table, and the hooks were not told
	stop    chan struct{}
	wg      sync.WaitGroup // the keeper of the table, and what it started
	counts  struct{ refreshes, redirects, changes, masters, strangers atomic.Int64 }
}

// membership is a node and since when it serves no slot.
type membership struct {
	node *Node
	idle clock.Instant // 0: it serves some
}

// Hooks are told of changes, from a goroutine of Nodes. They may block for a while, never on Nodes.
type Hooks struct {
	Moved   func()            // slots have another owner
	Retired func(*Node)       // no slot is its any more; its lanes end
	Master  func(addr string) // sentinels name another master
}

// A Failure is why a server that was asked when nothing was known yet cannot be used.
type Failure struct {
	Addr string
	Err  *ServerError
}

// Error returns the server's own words, which name the address or not.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap makes it that error.
func (f *Failure) Unwrap() error { return f.Err }

// Failures are those of an Open or a Follow, one for each address that was asked; none where it is about nothing but
// the whole.
func Failures(err error) (all []*Failure) {
	switch e := err.(type) { //nolint:errorlint // what they have returned, not what is inside
	case *Failure:
		return []*Failure{e}
	case *ServerError:
		joined, ok := e.cause.(interface{ Unwrap() []error })
		if !ok {
			return nil
		}
		for _, err := range joined.Unwrap() {
			if one, ok := err.(*Failure); ok { //nolint:errorlint // the same
				all = append(all, one)
			}
		}
	}
	return all
}

// One makes the Nodes of a single server, or of whatever master a client follows.
func One(n *Node) *Nodes { return &Nodes{single: n, opts: n.opts} }

// Open connects to the first address that answers, finds out whether it is a single server or a node
// of a cluster, and in that case the others. A node that knows of no slots is as good as none.
//
// dial makes the client of one node: of an address of addrs as it stands, and of addresses that the
// cluster names. Clients are closed with their node, unless they are borrowed.
//
// Errors: *ServerError, as *Failure where it is about one address; ClassUnreachable if nobody answered. Blocks: for a
// dial of each silent address.
func Open(addrs []string, dial func(addr string) (rueidis.Client, error), borrowed bool, o Options) (*Nodes, error) {
	o.fill()
	ns := &Nodes{
		opts: o, dial: dial, borrowed: borrowed,
		members: make(map[string]*membership), endpoints: make(map[string]*endpoint),
		suspect: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	var failures []error
	for _, addr := range addrs {
		// The first connection to an address tells what it is: nothing, a single server, or a node of a cluster.
		from := &endpoint{addr: addr, dial: dial, borrowed: borrowed, hide: o.Hide}
		n := newNode(from, o)
		w, failed := n.commands.get()
		if failed != nil {
			n.abort()
			from.close()
			if errors.Is(failed, ErrIsSentinel) { // the others will be, too
				return nil, failed
			}
			failures = append(failures, &Failure{addr, failed})
			continue
		}
		// A single server. Beside other addresses it would be a guess which of them has the locks.
		if !w.caps.Cluster {
			if len(addrs) > 1 {
				n.abort()
				from.close()
				text := fmt.Sprintf("%s is a single server, and %d addresses are given", addr, len(addrs))
				return nil, &ServerError{Class: ClassOther, Text: text, cause: ErrNoCluster}
			}
			n.start(nil, pubSubMode{publish: "PUBLISH"})
			ns.single = n
			return ns, nil
		}
		// A node of a cluster. It was made only to ask: if it serves slots, the table makes it anew.
		ns.mode, ns.table = clusterMode(o.PubSub, w.caps.Version), new([slotCount]atomic.Pointer[Node])
		n.abort()
		ns.endpoints[addr] = from
		err := ns.readTable()
		if err == nil {
			return ns, nil
		}
		ns.closeEndpoints() // a node that was added a moment ago, or thrown out, knows of no slots
		clear(ns.endpoints)
		failures = append(failures, &Failure{addr, AsServerError(err)})
	}
	// Nobody served. One that refused tells more than others that were silent.
	for _, err := range failures {
		if len(failures) == 1 || !Dead(err) {
			return nil, err
		}
	}
	return nil, &ServerError{Class: ClassUnreachable, Text: "no address answered", cause: errors.Join(failures...)}
}

// clusterMode decides how releases travel, once for the engine's life.
func clusterMode(want PubSub, version string) pubSubMode {
	if want == PubSubSharded || want == PubSubAuto && atLeast(version, 7, 0) {
		return pubSubMode{publish: "SPUBLISH", sharded: true}
	}
	return pubSubMode{publish: "PUBLISH"}
}

// Start begins to keep the table. Hooks are called from now on.
func (ns *Nodes) Start(h Hooks) {
	ns.hooks = h
	switch {
	case ns.single == nil:
		ns.wg.Go(ns.keep)
	case ns.follow != nil:
		ns.follow.start(func(addr string) {
			ns.counts.masters.Add(1)
			if h.Master != nil {
				h.Master(addr)
			}
		})
	}
}

// Wide says whether ops of a key of which nothing is outstanding are to take all lanes, see Op.Wide.
func (ns *Nodes) Wide() bool { return ns.opts.Wide.Load() > 0 }

// Submit hands an op to the lane of its key. Blocks: never.
// Errors: *ServerError of ClassOverloaded or ClassClosed; then nothing was sent, and the sink is
// not called.
func (ns *Nodes) Submit(op *Op) error {
	_, err := ns.SubmitLed(op, false)
	return err
}

// SubmitLed is Submit for a caller that leads, if leads is set: it has to run its lead, if it gets one.
func (ns *Nodes) SubmitLed(op *Op, leads bool) (Lead, error) {
	if ns.single != nil {
		return ns.single.SubmitLed(op, leads)
	}
	for {
		n := ns.Owner(op.Slot)
		lead, err := n.SubmitLed(op, leads)
		if !errors.Is(err, errClosed) || ns.Owner(op.Slot) == n { // not retired meanwhile
			return lead, err
		}
	}
}

// Owner is the node that serves a slot now, as far as is known. Never nil.
func (ns *Nodes) Owner(slot uint16) *Node {
	if ns.single != nil {
		return ns.single
	}
	return ns.table[slot%slotCount].Load()
}

// All lists the nodes.
func (ns *Nodes) All() []*Node {
	if ns.single != nil {
		return []*Node{ns.single}
	}
	return *ns.all.Load()
}

// Cluster reports whether slots matter.
func (ns *Nodes) Cluster() bool { return ns.single == nil }

// Counted reports whether the number of receivers that a release is answered with counts everybody
// who is subscribed. In a cluster plain channels are spread over all nodes, and each counts its own.
func (ns *Nodes) Counted() bool { return ns.single != nil || ns.mode.sharded }

// NodesStats count what happened to the table of slots.
type NodesStats struct {
	TableReads   int64 // how often it was read from a node
	TableChanges int64 // of those and of MOVED answers, how many changed it
	Redirects    int64 // ops that a node refused and another was asked
	Masters      int64 // how often sentinels named another master
	Strangers    int64 // redirections to nodes that no table has named, beyond those that are followed
}

// Stats returns the counters.
func (ns *Nodes) Stats() NodesStats {
	c := &ns.counts
	return NodesStats{
		TableReads: c.refreshes.Load(), TableChanges: c.changes.Load(), Redirects: c.redirects.Load(),
		Masters: c.masters.Load(), Strangers: c.strangers.Load(),
	}
}

// AttemptLimit is how long one attempt may take; no copy of it runs later than that.
func (ns *Nodes) AttemptLimit() time.Duration { return ns.opts.AttemptLimit }

// Tick must be called about every 50 ms: it ends attempts that have reached their limit, and appends
// the keys whose answers have been outstanding for longer than patience.
func (ns *Nodes) Tick(now clock.Instant, patience time.Duration, keys []string) []string {
	if ns.single != nil {
		return ns.single.Tick(now, patience, keys)
	}
	for _, n := range ns.All() {
		keys = n.Tick(now, patience, keys)
	}
	return keys
}

// Unwait ends the wait for replicas of an op that was cancelled when it had been sent: its grant is answered now, by
// the caller's goroutine. No mutex may be held. Blocks: never.
func (ns *Nodes) Unwait(op *Op) {
	for _, n := range ns.All() { // it may have been sent elsewhere than where its slot is now
		if n.lanes[n.opts.Lanes].unwait(op) {
			return
		}
	}
}

// GiveUp ends what is on its way; see Node.GiveUp.
func (ns *Nodes) GiveUp() {
	for _, n := range ns.All() {
		n.GiveUp()
	}
}

// Hurry ends every wait for replicas; see Node.Hurry.
func (ns *Nodes) Hurry() {
	for _, n := range ns.All() {
		n.Hurry()
	}
}

// Ping asks every node for an answer; see Node.Ping. Blocks: until ctx ends or the attempt limit has passed.
func (ns *Nodes) Ping(ctx context.Context, thorough bool) error {
	all := ns.All()
	errs := make(chan error, len(all))
	for _, n := range all {
		go func() { errs <- n.Ping(ctx, thorough) }()
	}
	var first error
	for range all {
		if err := <-errs; err != nil && (first == nil || RefusesWrites(err)) {
			first = err
		}
	}
	return first
}

// Close ends every node. Blocks: as the slowest of them, about two attempt limits at most.
func (ns *Nodes) Close() {
	if ns.single != nil {
		if ns.follow != nil {
			ns.follow.close()
		}
		ns.single.Close()
		ns.single.from.close()
		return
	}
	// closed comes first: from now on no table and no redirection adds a node.
	ns.mu.Lock()
	ns.closed = true
	ns.mu.Unlock()
	close(ns.stop)
	ns.wg.Wait()
	// The keeper, dials and retired nodes have ended. So members and endpoints are read without mu.
	var wg sync.WaitGroup
	for _, m := range ns.members {
		wg.Go(m.node.Close)
	}
	wg.Wait()
	ns.closeEndpoints()
}

func (ns *Nodes) closeEndpoints() {
	var wg sync.WaitGroup
	for _, p := range ns.endpoints {
		wg.Go(p.close)
	}
	wg.Wait()
}
