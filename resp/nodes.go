package resp

import (
	"context"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// Nodes is the servers of one deployment, and who of them serves which slot.
type Nodes struct {
	single *Node
}

// One makes the Nodes of a single server, or of whatever master a client follows.
func One(n *Node) *Nodes { return &Nodes{single: n} }

// Submit hands an op to the lane of its key. Blocks: never.
// Errors: *ServerError of ClassOverloaded or ClassClosed; then nothing was sent, and the sink is
// not called.
func (ns *Nodes) Submit(op *Op) error { return ns.single.Submit(op) }

// Owner is the node that serves a slot now, as far as is known. Never nil.
func (ns *Nodes) Owner(uint16) *Node { return ns.single }

// All lists the nodes.
func (ns *Nodes) All() []*Node { return []*Node{ns.single} }

// Cluster reports whether slots matter.
func (ns *Nodes) Cluster() bool { return false }

// AttemptLimit is how long one attempt may take; no copy of it runs later than that.
func (ns *Nodes) AttemptLimit() time.Duration { return ns.single.AttemptLimit() }

// Tick must be called about every 50 ms: it ends attempts that have reached their limit, and appends
// the keys whose answers have been outstanding for longer than patience.
func (ns *Nodes) Tick(now clock.Instant, patience time.Duration, keys []string) []string {
	return ns.single.Tick(now, patience, keys)
}

// Ping asks every node for an answer. Blocks: until ctx ends or the attempt limit has passed.
func (ns *Nodes) Ping(ctx context.Context) error { return ns.single.Ping(ctx) }

// Close ends every node.
func (ns *Nodes) Close() { ns.single.Close() }
