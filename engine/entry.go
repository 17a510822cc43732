package engine

import (
	"sync"
	"sync/atomic"

	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// shardCount shards the table of names: enough that two busy names seldom share a mutex.
const shardCount = 256

// A shard is one part of the table of names. Its mutex guards its entries and everything that hangs
// on them; under it the lanes' and the wheel's mutexes may be taken, never another shard's, never
// the multiplexer's, and no user code runs.
type shard struct {
	mu      sync.Mutex
	names   table
	pending int // ops on their way whose answer somebody here waits for
	counts  counts
	telling atomic.Int32 // callers' calls that decided the results of others, and are still to tell them

	_ [64]byte // keeps neighbours off this cache line
}

// An entry is what goes on locally with one name: the machine that decides, and what its decisions
// need of the world. It exists only while something goes on.
type entry struct {
	queue

	eng  *Engine
	key  string
	hash uint64
	slot uint16
	gone bool // no longer in the table
	used bool // first is taken

	seats *seating // mostly nil
	park  *parking // there unless wait is waitNot
	chain *entry   // the table's
	first hold     // most entries see one hold
}

// newHold makes the hold of a grant.
func (ent *entry) newHold() *hold {
	h := &ent.first
	if ent.used {
		h = new(hold)
	}
	ent.used = true
	h.ent = ent
	return h
}

// parking is what a queue that waits has of the world: a subscription and two timers.
type parking struct {
	ent     *entry
	item    wheel.Item // the poll
	sub     pubsub.Subscription
	at      *resp.Node // where sub is
	prompt  wheel.Item // the end of a short pause
	asked   bool       // a subscription was asked for, of:
	channel string
	shares  bool // channel is a read-write lock's
}
