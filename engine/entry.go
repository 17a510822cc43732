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

// effects collects what must happen after the shard's mutex is released: publishing results (user
// code may be waiting for them), watching contexts (user code too) and talking to the multiplexer.
type effects struct {
	first, last *acquireOp // claimed ops with their result set, linked by next
	releases    []answered // of handles that shared a hold
	subscribe   *parking
	drop        pubsub.Subscription
	watch       *acquireOp // its ctx is to be watched
	before      func()     // mostly nil: what comes before all results
	eng         *Engine
	owed        *shard   // whose telling run ends, if owe was called
	more        []func() // further ones of the last three: where seats or many ops are involved
}

// answered is a release with its result.
type answered struct {
	op  *releaseOp
	err error
}

func (fx *effects) released(op *releaseOp, err error) {
	fx.releases = append(fx.releases, answered{op, err})
}

func (fx *effects) grant(op *acquireOp, ls *Lease) {
	op.value = ls
	op.lock.eng.tell(EventHeld, ls.hold, "")
	fx.add(op)
}

// fail completes a claimed op with an error.
func (fx *effects) fail(op *acquireOp, err error) {
	op.err = err
	fx.add(op)
}

func (fx *effects) add(op *acquireOp) {
	if fx.last == nil {
		fx.first = op
	} else {
		fx.last.next = op
	}
	fx.last = op
}

// owe keeps Close from returning before run has told what was collected. The engine's own goroutines need not: Close
// waits for them. Called with the shard's mutex held, last.
func (fx *effects) owe(e *Engine, sh *shard) {
	if fx.owed == nil && (fx.first != nil || fx.releases != nil || fx.more != nil) {
		fx.eng, fx.owed = e, sh
		sh.telling.Add(1)
	}
}

// told ends that of one call.
func (e *Engine) told(sh *shard) {
	if sh.telling.Add(-1) == 0 && e.closing.Load() {
		e.settled.Ring()
	}
}

// run does what was collected. Blocks: never.
func (fx *effects) run() {
	if fx.before != nil {
		fx.before()
	}
	for op := fx.first; op != nil; {
		next := op.next
		op.next = nil
		op.lock.eng.world.Yield("effects.run: a result | the next")
		op.finish()
		op = next
	}
	for _, r := range fx.releases {
		r.op.hold.ent.eng.world.Yield("effects.run: results | a release told")
		r.op.resolve(struct{}{}, r.err)
	}
	if fx.drop != nil {
		fx.drop.Drop()
	}
	if fx.subscribe != nil {
		fx.subscribe.open()
	}
	if op := fx.watch; op != nil {
		op.lock.eng.callbacks.ask(op.ctx, op.watchContext)
	}
	for _, f := range fx.more {
		f()
	}
	if fx.owed != nil {
		fx.eng.told(fx.owed)
	}
}

// look has the ctx of an op watched.
func (fx *effects) look(op *acquireOp) {
	if fx.watch == nil {
		fx.watch = op
	} else {
		fx.more = append(fx.more, func() { op.lock.eng.callbacks.ask(op.ctx, op.watchContext) })
	}
}

// listen subscribes.
func (fx *effects) listen(p *parking) {
	if fx.subscribe == nil {
		fx.subscribe = p
	} else if fx.subscribe != p {
		fx.more = append(fx.more, p.open)
	}
}

// forget ends a subscription.
func (fx *effects) forget(sub pubsub.Subscription) {
	if fx.drop == nil {
		fx.drop = sub
	} else {
		fx.more = append(fx.more, sub.Drop)
	}
}
