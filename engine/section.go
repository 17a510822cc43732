package engine

import (
	"github.com/seed-786ebc8c/holdfast/resp/pubsub"
)

// A section is the time in which one goroutine holds a shard's mutex, for one logical event: a call, an answer, a timer. What
// changes names is a method of it, so that nobody can call that without the mutex. Results and calls to others are collected
// meanwhile, and carried out when the mutex is free: they may run user code.
//
//	sc := e.enter(hash)
//	sc.advance(ent)
//	sc.leave()
//
// It stays on the stack: no closure may hold it. One that was left has no shard any more.
type section struct {
	effects
	eng *Engine
	sh  *shard // nil: the mutex was let go
	at  *shard // the same, for lock
}

// enter takes the mutex of the shard that has the names of this hash. Blocks: for it.
func (e *Engine) enter(hash uint64) section { return e.enterShard(e.shard(hash)) }

func (e *Engine) enterShard(sh *shard) section {
	sh.mu.Lock()
	return section{eng: e, sh: sh, at: sh}
}

// leave lets the mutex go and carries out what was collected. Blocks: never.
func (sc *section) leave() {
	sc.unlock()
	sc.effect()
}

// leaveAt is leave with a name for the time between the two, in which the simulation lets others come.
func (sc *section) leaveAt(between string) {
	sc.unlock()
	sc.eng.world.Yield(between)
	sc.effect()
}

// effect carries out what was collected, the loss first. Called without the mutex. Blocks: never.
func (sc *section) effect() {
	if sc.lost != nil {
		sc.tellLoss()
	}
	sc.publish()
}

// unlock lets the mutex go, for who has something to do before the effects.
func (sc *section) unlock() {
	sc.sh = nil
	sc.at.mu.Unlock()
}

// lock takes it again: what was collected before stays.
func (sc *section) lock() {
	sc.at.mu.Lock()
	sc.sh = sc.at
}

// owe keeps Close from returning before publish has told what was collected. The engine's own goroutines need not: Close
// waits for them. Called last.
func (sc *section) owe() {
	if sc.owed == nil && (sc.first != nil || sc.releases != nil || sc.more != nil) {
		sc.owed = sc.sh
		sc.sh.telling.Add(1)
	}
}

// told ends that of one call.
func (e *Engine) told(sh *shard) {
	if sh.telling.Add(-1) == 0 && e.closing.Load() {
		e.settled.Ring()
	}
}

// publish carries out what was collected. Called without the mutex. Blocks: never.
func (sc *section) publish() {
	if sc.before != nil {
		sc.before()
	}
	for op := sc.first; op != nil; {
		next := op.next
		op.next = nil
		sc.eng.world.Yield("section.publish: a result | the next")
		op.finish()
		op = next
	}
	for _, r := range sc.releases {
		sc.eng.world.Yield("section.publish: results | a release told")
		r.op.resolve(struct{}{}, r.err)
	}
	if sc.drop != nil {
		sc.drop.Drop()
	}
	if sc.subscribe != nil {
		sc.subscribe.open()
	}
	if op := sc.watch; op != nil {
		sc.eng.callbacks.Ask(op.ctx, op.watchContext)
	}
	for _, f := range sc.more {
		f()
	}
	if sc.owed != nil {
		sc.eng.told(sc.owed)
	}
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
	lost        *loss      // its holder is told before all results
	owed        *shard     // whose telling publish ends, if owe was called
	more        []func()   // further ones of subscribe, drop and watch: where seats or many ops are involved
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

// look has the ctx of an op watched.
func (fx *effects) look(op *acquireOp) {
	if fx.watch == nil {
		fx.watch = op
	} else {
		fx.more = append(fx.more, func() { op.lock.eng.callbacks.Ask(op.ctx, op.watchContext) })
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
