package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/callback"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// How an operation on several locks is driven. It is no goroutine: the last answer that its present step waits for
// makes it due, and one goroutine an engine, which ends when nothing is due, goes on with what is. An answer is told on
// a lane, by a timer or inside the call of somebody else: a step there would hold that one up, and a release in it that
// hands a lock to the next such operation would call itself again for as many as wait.

// begin registers a joint with its engines. Close of any of them ends it from then on.
func (j *joint) begin(work jointWork, locks []*Lock) error {
	j.work = work
	for _, l := range locks { // mostly of one engine
		if n := len(j.engines); (n == 0 || j.engines[n-1] != l.eng) && !slices.Contains(j.engines, l.eng) {
			j.engines = append(j.engines, l.eng)
		}
	}
	j.turns.Store(1) // the caller's
	for i, e := range j.engines {
		if !e.joints.add(e, j) {
			j.leave(j.engines[:i])
			return ErrClosed
		}
	}
	return nil
}

// add registers a joint, unless the engine closes.
func (js *joints) add(e *Engine, j *joint) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	if e.closing.Load() {
		return false
	}
	if js.open == nil {
		js.open = make(map[*joint]uint64)
	}
	js.asked++
	js.open[j] = js.asked
	return true
}

// leave takes a joint out again: no Close waits for it any more.
func (j *joint) leave(engines []*Engine) {
	for _, e := range engines {
		e.joints.mu.Lock()
		delete(e.joints.open, j)
		e.joints.mu.Unlock()
		if e.closing.Load() {
			e.settled.Ring()
		}
	}
}

// unfinished counts the joints that have no result, and who works at them.
func (js *joints) unfinished() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	n := len(js.open)
	if js.driving {
		n++
	}
	return n
}

// expect says how many answers the next step waits for. The caller has one more to give, when all are asked for.
func (j *joint) expect(n int) { j.left.Store(int32(n) + 1) } //nolint:gosec // as many as there are locks

// answer counts one of them.
func (j *joint) answer() {
	if j.left.Add(-1) == 0 {
		j.wake()
	}
}

// wake makes the joint due. Blocks: never.
func (j *joint) wake() {
	if j.turns.Add(1) == 1 {
		j.lead.joints.hand(j.lead, j)
	}
}

// hand has the engine's goroutine work at a joint. One that is over is left alone: its engine may be closed.
func (js *joints) hand(e *Engine, j *joint) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if _, open := js.open[j]; !open {
		return
	}
	js.due = append(js.due, j)
	if !js.driving {
		js.driving = true
		e.world.Go("joints", func() { js.drive(e) })
	}
}

// drive works at the joints that are due, and ends when none is.
func (js *joints) drive(e *Engine) {
	for {
		js.mu.Lock()
		due := js.due
		js.due = nil
		js.driving = len(due) > 0
		js.mu.Unlock()
		if len(due) == 0 {
			break
		}
		for _, j := range due {
			e.world.Yield("joints.drive: due | worked at")
			j.run()
		}
	}
	if e.closing.Load() {
		e.settled.Ring()
	}
}

// run works at a joint until there is nothing left to do. The caller has its turn.
func (j *joint) run() {
	for n := j.turns.Load(); n > 0; n = j.turns.Add(-n) {
		j.work.step()
	}
}

// giveUp has the joint end with an error. Its future was claimed for that.
func (j *joint) giveUp(err error) {
	j.quitWith(err)
	if j.turns.Add(1) == 1 {
		j.run()
	}
}

// Scheduled is its place among the timers.
func (j *joint) Scheduled() *wheel.Item[timed] { return &j.item }

// giveUpLater is giveUp for who must not be held up: a timer.
func (j *joint) giveUpLater(err error) {
	j.quitWith(err)
	j.wake()
}

func (j *joint) quitWith(err error) {
	// In this order: whoever has the turn may look in between.
	j.given = err
	j.quit.Store(true)
}

// close ends all joints of an engine that closes.
func (js *joints) close() {
	js.mu.Lock()
	all := slices.SortedFunc(maps.Keys(js.open), func(a, b *joint) int { return cmp.Compare(js.open[a], js.open[b]) })
	js.mu.Unlock()
	for _, j := range all {
		j.work.abandon(ErrClosed)
	}
}

// watchContext makes a joint see the end of its ctx. That may be code of others: callback.Pool.Ask says where it runs.
// The joint may have its result meanwhile: then either finish finds the note, or the claim is seen here.
func (j *joint) watchContext(ctx context.Context, name string, pending func() bool) {
	pool, w := j.lead.callbacks, j.lead.world
	pool.Ask(ctx, func() {
		defer pool.Contain()
		if ctx.Done() == nil {
			return
		}
		stop := w.AfterFunc(ctx, func() {
			defer pool.Contain()
			j.work.abandon(&WaitError{Name: name, cause: ctx.Err()})
		})
		w.Yield("joint.watchContext: watched | noted")
		// Only one of the two takes the note away, and ends the watch.
		j.stop.Store(&stop)
		if !pending() && j.stop.Swap(nil) != nil {
			stop()
		}
	})
}

// askPart begins the acquire of one of several locks. Its operation watches ctx and MaxWait.
func askPart(ctx context.Context, l *Lock, o *Owner, try bool) *acquireOp {
	w := l.eng.joints.watch
	if w == nil {
		return l.begin(ctx, o, try, false)
	}
	asked := w.asks(l, o, try)
	op := l.begin(ctx, o, try, false)
	asked(&op.Future)
	return op
}

// givePart gives one of several locks back.
func givePart(ls *Lease) *Future[struct{}] {
	w := ls.eng().joints.watch
	if w == nil {
		return ls.release(false)
	}
	given := w.givesBack(ls)
	f := ls.release(false)
	given(f)
	return f
}

// extendPart extends one of several fixed leases.
func extendPart(ls *Lease, d time.Duration) *Future[struct{}] {
	w := ls.eng().joints.watch
	if w == nil {
		return ls.extend(context.Background(), d)
	}
	began := w.extends(ls, d)
	f := ls.extend(context.Background(), d)
	began(f)
	return f
}

// finish ends what a joint has of the world. Its result is published next, and then it leaves.
func (j *joint) finish(ctx context.Context) {
	j.over = true
	if stop := j.stop.Swap(nil); stop != nil {
		j.lead.callbacks.Unwatch(ctx, *stop)
	}
	j.lead.timers.Cancel(&j.item)
}

// runner runs callbacks of the joint's future.
func (j *joint) runner() *callback.Pool {
	if j.lead == nil { // it was refused before anything began
		return idleCallbacks
	}
	return j.lead.callbacks
}
