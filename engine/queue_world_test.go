package engine

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A queueWorld is everything around one queue, as simple as can be: a server that knows one holder, a
// network of one request, timers that are instants, and the twin: who waits, in a slice.
type queueWorld struct {
	t   *rapid.T
	q   queue
	now clock.Instant

	line    []*acquireOp // the twin: those still wanted, in order
	leaving []*acquireOp // given up by their callers, and not yet out of the queue
	served  map[*acquireOp]string

	holder   int // at the server: an id, 0 nobody, -1 somebody else
	ids      int
	full     bool // nothing can be sent
	slow     bool // answers take as long as a lease
	ghosts   []int
	mail     int // messages on their way
	releases []wireRelease
	cool     bool // one of them left while others waited

	flying    bool // the one request
	overtaken bool // a force-release began since
	id        int
	sentAt    clock.Instant
	set       *settings // what it asks for
	ran       bool
	code      int // answer, if it ran: the holder afterwards
	cancel    bool
	unknown   bool
	doubt     indeterminate
	hint      bool // a hint came since it was sent

	poll, pause, again clock.Instant // timers; 0: not armed
	subscribed         bool
	held               int // id of the local hold
	closing            bool

	settings [4]*settings
	att      *attempt      // of the last sending
	leftTo   clock.Instant // until when the lock is left to others
	late     int           // grants in a row that came too late
	heard    int           // messages since the lock was last had here
}

// A wireRelease is a release of our own on its way.
type wireRelease struct {
	id      int
	ran     bool
	cleanup bool // of a grant that nobody could use: it ends no turn
}

func (w *queueWorld) fatalIf(bad bool, format string, args ...any) {
	w.t.Helper()
	if bad {
		w.t.Fatalf(format, args...)
	}
}

// answer notes a caller's result. Nobody gets two.
func (w *queueWorld) answer(op *acquireOp, result string) {
	if was, twice := w.served[op]; twice {
		w.t.Fatalf("one caller was told %q and then %q", was, result)
	}
	w.served[op] = result
	if i := slices.Index(w.line, op); i >= 0 {
		w.line = slices.Delete(w.line, i, i+1)
	}
	w.fatalIf(op.queued, "a caller that was told %q is still in the queue", result)
}

// do takes a step as the engine does.
func (w *queueWorld) do(s step) {
	for ; s == stepSend; s = w.q.next() {
		w.mayAsk()
		w.fatalIf(w.q.forceReleases > 0, "asks for what a force-release may take")
		a := w.q.asking(nil)
		w.fatalIf(w.unknown && a != w.att, "an acquire whose copies may still run is not asked for again")
		w.att = a
		if !w.full {
			w.send()
			return
		}
		if w.q.refused() == stepPark {
			s = stepPark
			break
		}
		w.drop()
		op := w.q.head
		w.fatalIf(op.told, "one who was waiting is told that nothing can be sent")
		w.q.unlink(op)
		if op.claim() {
			w.answer(op, "refused")
		}
	}
	switch s {
	case stepPark:
		least, spread := w.q.pollSpan(w.now)
		w.fatalIf(least+spread > w.longestPoll()+1, "the poll may come after %v", least+spread)
		w.fatalIf(w.q.head.set.spin == nil && w.q.busyUntil != 0 && w.now.Add(least).Before(min(w.q.busyUntil, w.now.Add(800*time.Millisecond))),
			"the poll may come before the holder's lease ends")
		w.poll, w.subscribed = w.now.Add(least), true
	case stepTidy:
		w.idle()
	}
}

// longestPoll is how long the first may sleep while it is parked: what is said of its kind.
func (w *queueWorld) longestPoll() time.Duration {
	if spin := w.q.head.set.spin; spin != nil {
		return spin.most + spin.most/4
	}
	return 1200 * time.Millisecond
}

// mayAsk is the twin's opinion on sending an acquire now.
func (w *queueWorld) mayAsk() {
	w.fatalIf(w.flying || w.again != 0, "a second acquire is sent")
	w.fatalIf(len(w.releases) > 0 && w.q.head.set.ack != nil, "an acquire may overtake the release before it")
	w.fatalIf(w.held != 0, "an acquire is sent behind a hold of this engine")
	w.fatalIf(w.cool, "an acquire is sent before the release it should follow is answered")
	w.fatalIf(w.pause != 0 || w.now.Before(w.leftTo), "a pause is cut short")
	w.fatalIf(len(w.line)+len(w.leaving) == 0, "an acquire is sent for nobody")
}

func (w *queueWorld) send() {
	if !w.unknown {
		w.ids++
		w.id = w.ids
	}
	w.q.sent()
	w.flying, w.ran, w.cancel, w.hint, w.overtaken = true, false, false, false, false
	w.sentAt, w.set = w.now, w.q.head.set
}

// drop forgets the acquire; what it may have taken is released.
func (w *queueWorld) drop() {
	w.fatalIf(w.flying, "an acquire that is on its way is forgotten")
	w.q.settled()
	w.again = 0
	if w.unknown {
		w.ghosts = append(w.ghosts, w.id)
	}
	w.unknown, w.doubt = false, indeterminate{}
}

func (w *queueWorld) unpark() {
	w.q.unpark()
	w.heard = 0
	w.poll, w.pause, w.subscribed = 0, 0, false
}

func (w *queueWorld) idle() {
	if !w.q.deserted() {
		return
	}
	w.unpark()
	switch w.q.ask {
	case askNot:
	case askInFlight:
		w.cancel = true
	default:
		w.drop()
	}
}

// reply delivers an answer, or (lost) none.
func (w *queueWorld) reply(lost, late, out bool) {
	hint := w.hint
	w.flying = false
	w.q.landed()
	switch {
	case lost:
		w.failed(out)
	case !w.ran:
		w.cancelled()
	case w.code == w.id && late:
		w.forget(w.id)
		w.late++
		if op := w.q.grantedLate(); op != nil {
			w.answer(op, "too late")
			w.late = 0
		}
		w.fatalIf(w.late > maxLate && len(w.line) > 0 && len(w.leaving) == 0, "asked for ever, and never in time")
		w.do(w.q.next())
	case w.code == w.id:
		w.granted()
	default:
		w.busy()
		answered := w.flying || w.pause != 0 || w.cool || w.full
		w.fatalIf(w.q.forceReleases == 0 && (hint && len(w.line) > 0 && !answered), "a busy answer older than the last hint is believed")
	}
}

func (w *queueWorld) cancelled() {
	if !w.unknown {
		w.q.settled()
	}
	w.do(w.q.next())
}

// forget follows a definite answer with a grant that nobody believes. Its release mostly comes to the
// server before anything else of ours.
func (w *queueWorld) forget(id int) {
	if w.oneIn(2, "clean later") == 1 {
		w.ghosts = append(w.ghosts, id)
	} else {
		w.free(id)
	}
	w.unknown, w.doubt = false, indeterminate{}
}

func (w *queueWorld) failed(out bool) {
	w.unknown = true
	w.doubt.unanswered(w.sentAt, 2*time.Second, w.set.lease)
	for op := w.q.head; op != nil; {
		next := op.next
		if out && !op.told {
			w.q.unlink(op)
			if op.claim() {
				w.answer(op, "unknown")
			}
		}
		op = next
	}
	if w.q.head == nil {
		w.idle()
		return
	}
	w.q.resend()
	w.again = w.now.Add(50 * time.Millisecond)
}

func (w *queueWorld) granted() {
	seen := 0
	if w.set.ack != nil {
		seen = rapid.IntRange(0, 1).Draw(w.t, "replicas")
	}
	var first *acquireOp
	if len(w.line) > 0 && !w.overtaken {
		if want := w.line[0].set; want.lease == w.set.lease && want.family == w.set.family && want.replicas() <= seen {
			first = w.line[0]
		}
	}
	w.late = 0
	op := w.q.granted(w.set.lease, w.set.family, seen)
	w.fatalIf(op != first, "the grant went to another than the first who still wants it")
	if op == nil {
		w.unused(seen)
		return
	}
	w.unknown, w.doubt = false, indeterminate{}
	w.fatalIf(w.holder != w.id, "a caller has the lock and the server says %d", w.holder)
	w.held = w.id
	w.leftTo = 0
	h := &hold{}
	h.begin(op.set, 0, seen)
	w.q.held(h)
	w.answer(op, "granted")
	w.tries(true)
	w.unpark()
}

// unused gives back a grant nobody can use. Where its release may be overtaken, the next acquire waits.
func (w *queueWorld) unused(seen int) {
	if seen < w.set.replicas() {
		if op := w.q.grantedUnseen(w.set.ack, w.set.family); op != nil {
			w.answer(op, "too few replicas")
		}
	}
	if w.set.ack != nil {
		w.unknown, w.doubt = false, indeterminate{}
		w.cool = w.q.head != nil
		w.q.releaseSent()
		w.releases = append(w.releases, wireRelease{id: w.id, cleanup: true})
	} else {
		w.forget(w.id)
	}
	w.do(w.q.next())
}

// tries answers every Try: somebody has the lock.
func (w *queueWorld) tries(granted bool) {
	for op := w.q.takeTries(w.set.family, granted); op != nil; {
		next := op.next
		op.next = nil
		w.answer(op, "held")
		op = next
	}
	for _, op := range w.line {
		w.fatalIf(op.try, "a Try goes on waiting behind a lock that is held")
	}
}

func (w *queueWorld) busy() {
	keep := w.unknown && w.doubt.mayRunAfter(w.sentAt)
	if !keep {
		w.unknown, w.doubt = false, indeterminate{}
	}
	w.q.busy(w.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(w.t, "remaining ms"))*time.Millisecond), keep)
	w.tries(false)
	for op := w.q.head; op.tellBusy(); op = op.next {
	}
	w.do(w.q.afterBusy(w.set.family))
}

func (w *queueWorld) wake(kind wakeKind) {
	if !w.subscribed && kind != wakePause && kind != wakePoll {
		return
	}
	if kind == wakeMessage || kind == wakeLeft || kind == wakeLook {
		w.hint = true
	}
	paused := w.pause != 0
	due := time.Duration(0)
	if kind == wakeMessage {
		w.heard++
		due = map[int]time.Duration{1: 600 * time.Microsecond, 2: 250 * time.Microsecond}[w.heard]
	}
	if kind == wakeLeft {
		w.heard++
		due = leftFor
	}
	before := w.q.wait
	s, pause := w.q.wake(kind)
	if w.q.wait == before {
		return
	}
	w.fatalIf(paused, "a pause is cut short")
	w.fatalIf(pause != due, "after %d messages the pause is %v", w.heard, pause)
	w.poll = 0
	if s == stepPause {
		w.pause = w.now.Add(pause)
		return
	}
	w.pause = 0
	w.do(s)
}

// fire runs one timer that is due, and says whether there was one.
func (w *queueWorld) fire() bool {
	due := func(at *clock.Instant) bool {
		if *at == 0 || w.now.Before(*at) {
			return false
		}
		*at = 0
		return true
	}
	switch {
	case due(&w.pause):
		w.wake(wakePause)
	case due(&w.poll):
		w.wake(wakePoll)
	case due(&w.again):
		w.fatalIf(!w.q.resendDue(w.q.att), "the timer of an acquire that is forgotten is still armed")
		w.do(w.q.next())
	default:
		return false
	}
	return true
}

func (w *queueWorld) submit(try bool, set *settings) {
	op := &acquireOp{set: set, try: try}
	if try && w.q.refusesTry() {
		w.fatalIf(w.held == 0 && len(w.line)+len(w.leaving) == 0, "a Try is refused while the lock may be free and nobody waits")
		return
	}
	w.q.push(op)
	w.line = append(w.line, op)
	w.do(w.q.next())
}

// giveUp is the first half of what a caller does who leaves; leave is the second.
func (w *queueWorld) giveUp(op *acquireOp) {
	if op.claim() {
		w.line = slices.DeleteFunc(w.line, func(o *acquireOp) bool { return o == op })
		w.leaving = append(w.leaving, op)
	}
}

func (w *queueWorld) leave() {
	op := w.leaving[0]
	w.leaving = w.leaving[1:]
	if op.queued {
		w.do(w.q.leave(op))
	}
}

// release gives the local hold back: to the next one here, or to the server.
func (w *queueWorld) release(handOver bool) {
	h := w.q.hold
	if handOver {
		var first *acquireOp
		if len(w.line) > 0 && w.line[0].set.compatible(h.set) && w.line[0].set.replicas() <= int(h.seen) {
			first = w.line[0]
		}
		op := w.q.takeCompatible(h)
		w.fatalIf(op != first, "the lock was handed to another than the first who still wants it")
		if op != nil {
			w.answer(op, "handed over")
			return
		}
	}
	w.q.freed(h)
	id := w.held
	w.held = 0
	if w.full { // it expires by itself
		w.ghosts = append(w.ghosts, id)
		w.do(w.q.next())
		return
	}
	w.cool = w.q.head != nil
	w.q.releaseSent()
	w.releases = append(w.releases, wireRelease{id: id})
}

func (w *queueWorld) released(heard, us int64, counted bool) {
	turn := !w.releases[0].cleanup
	w.releases = w.releases[1:]
	w.q.releaseAnswered()
	if len(w.releases) == 0 {
		w.cool = false
	}
	others := w.q.othersWait(counted, heard, us)
	w.fatalIf(others && (counted && heard <= us || !counted && w.q.head == nil), "the lock is left to nobody")
	if turn && !w.closing && w.held == 0 && others {
		w.q.yield()
		w.pause = w.now.Add(2 * time.Millisecond)
		w.leftTo = w.pause
		w.subscribed = w.subscribed || w.q.head != nil
	} else if turn && !w.closing && w.held == 0 && w.q.endTenure(counted && heard == 1 && us == 1) {
		w.pause, w.poll = 0, 0
	}
	w.do(w.q.next())
}

func (w *queueWorld) lose() {
	w.ghosts = append(w.ghosts, w.held)
	w.held = 0
	w.q.freed(w.q.hold)
	w.do(w.q.next())
}

// free makes the server's lock free, and publishes that.
func (w *queueWorld) free(id int) {
	if w.holder == id {
		w.holder = 0
		w.mail++
	}
}

// other is what somebody elsewhere does: take the lock, or give it back.
func (w *queueWorld) other() {
	if w.holder == 0 {
		w.holder = -1
	} else {
		w.free(-1)
	}
}

// run is the server's work on the request.
func (w *queueWorld) run() {
	if w.holder == 0 {
		w.holder = w.id
	}
	w.ran, w.code = true, w.holder
}

// check is what holds between any two events.
func (w *queueWorld) check() {
	var live []*acquireOp
	var before *acquireOp
	for op := w.q.head; op != nil; before, op = op, op.next {
		w.fatalIf(op.prev != before || !op.queued, "the queue's links are broken")
		if !slices.Contains(w.leaving, op) {
			live = append(live, op)
		}
	}
	w.fatalIf(w.q.tail != before, "the queue's tail is wrong")
	w.fatalIf(!slices.Equal(live, w.line), "%d wait in the queue, %d should, or in another order", len(live), len(w.line))
	w.fatalIf((w.q.att != nil) != (w.q.ask != askNot), "an acquire is there while ask is %d", w.q.ask)
	w.fatalIf(w.flying != (w.q.ask == askInFlight) || (w.again != 0) != (w.q.ask == askResend), "ask is %d", w.q.ask)
	w.fatalIf((w.held != 0) != (w.q.hold != nil) || w.held != 0 && w.flying, "a hold and an acquire at the same time")
	w.fatalIf((w.pause != 0) != w.q.wait.paused(), "wait is %d with the pause at %d", w.q.wait, w.pause)
	w.fatalIf(w.q.wait == waitParked && w.poll == 0, "parked without a poll")
	w.fatalIf(w.q.wait == waitParked && w.poll > w.now.Add(w.longestPoll()), "parked at the pace of somebody who has left")
	if len(w.line) > 0 && w.held == 0 {
		due := w.flying || w.again != 0 || w.poll != 0 || w.pause != 0 || len(w.releases) > 0 || w.q.forceReleases > 0
		w.fatalIf(!due, "somebody waits and nothing is due")
	}
	if w.q.empty() && w.q.wait != waitYield {
		w.fatalIf(w.poll != 0 || w.pause != 0 || w.again != 0 || w.subscribed || w.q.wait != waitNot, "an empty queue leaves something behind")
	}
}

// close ends the engine: nobody waits any more.
func (w *queueWorld) close() {
	w.closing, w.leftTo = true, 0
	w.q.stopAdmitting()
	for op := w.q.head; op != nil; op = w.q.head {
		w.q.unlink(op)
		if op.claim() {
			w.answer(op, "closed")
		}
	}
	w.idle()
	if w.held != 0 {
		w.release(false)
	}
	w.fatalIf(w.poll != 0 || w.pause != 0 || w.again != 0 || w.subscribed, "a closed queue leaves something behind")
	w.check()
}
