package lockstate

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
	q   testQueue
	now clock.Instant

	line    []*testOp // the twin: those still wanted, in order
	leaving []*testOp // given up by their callers, and not yet out of the queue
	served  map[*testOp]string

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
	set       *Terms // what it asks for
	ran       bool
	code      int // answer, if it ran: the holder afterwards
	cancel    bool
	unknown   bool
	doubt     Indeterminate
	hint      bool // a hint came since it was sent

	poll, pause, again clock.Instant // timers; 0: not armed
	subscribed         bool
	held               int // id of the local hold
	closing            bool

	terms   [4]*Terms
	attempt *testAttempt  // of the last sending
	grant   *Grant        // the local hold, which closes the queue
	leftTo  clock.Instant // until when the lock is left to others
	late    int           // grants in a row that came too late
	heard   int           // messages since the lock was last had here
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
func (w *queueWorld) answer(op *testOp, result string) {
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
func (w *queueWorld) do(s Step) {
	for ; s == StepSend; s = w.q.Next() {
		w.mayAsk()
		w.fatalIf(w.q.Forcing(), "asks for what a force-release may take")
		a := beginAsking(&w.q)
		w.fatalIf(w.unknown && a != w.attempt, "an acquire whose copies may still run is not asked for again")
		w.attempt = a
		if !w.full {
			w.send()
			return
		}
		if w.q.Refused() == StepPark {
			s = StepPark
			break
		}
		w.drop()
		op := w.first()
		w.fatalIf(op.Told(), "one who was waiting is told that nothing can be sent")
		w.q.Unlink(&op.Waiter)
		if op.Claim() {
			w.answer(op, "refused")
		}
	}
	switch s {
	case StepPark:
		least, spread := w.q.PollSpan(w.now)
		w.fatalIf(least+spread > w.longestPoll()+1, "the poll may come after %v", least+spread)
		soonest := min(w.q.BusyUntil(), w.now.Add(800*time.Millisecond))
		w.fatalIf(w.first().terms.Spin == nil && w.q.BusyUntil() != 0 && w.now.Add(least).Before(soonest),
			"the poll may come before the holder's lease ends")
		w.poll, w.subscribed = w.now.Add(least), true
	case StepTidy:
		w.idle()
	}
}

// first is who is first in the queue, wanted or not; nil: nobody waits.
func (w *queueWorld) first() *testOp { return whose(w.q.First()) }

// longestPoll is how long the first may sleep while it is parked: what is said of its kind.
func (w *queueWorld) longestPoll() time.Duration {
	if spin := w.first().terms.Spin; spin != nil {
		return spin.Most + spin.Most/4
	}
	return 1200 * time.Millisecond
}

// mayAsk is the twin's opinion on sending an acquire now.
func (w *queueWorld) mayAsk() {
	w.fatalIf(w.flying || w.again != 0, "a second acquire is sent")
	w.fatalIf(len(w.releases) > 0 && w.first().terms.Ack != nil, "an acquire may overtake the release before it")
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
	w.q.Sent()
	w.flying, w.ran, w.cancel, w.hint, w.overtaken = true, false, false, false, false
	w.sentAt, w.set = w.now, w.first().terms
}

// drop forgets the acquire; what it may have taken is released.
func (w *queueWorld) drop() {
	w.fatalIf(w.flying, "an acquire that is on its way is forgotten")
	w.q.Settled()
	w.again = 0
	if w.unknown {
		w.ghosts = append(w.ghosts, w.id)
	}
	w.unknown, w.doubt = false, Indeterminate{}
}

func (w *queueWorld) unpark() {
	w.q.Unpark()
	w.heard = 0
	w.poll, w.pause, w.subscribed = 0, 0, false
}

func (w *queueWorld) idle() {
	if !w.q.Deserted() {
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
	w.q.Landed()
	switch {
	case lost:
		w.failed(out)
	case !w.ran:
		w.cancelled()
	case w.code == w.id && late:
		w.forget(w.id)
		w.late++
		if op := whose(w.q.GrantedLate()); op != nil {
			w.answer(op, "too late")
			w.late = 0
		}
		w.fatalIf(w.late > maxLate && len(w.line) > 0 && len(w.leaving) == 0, "asked for ever, and never in time")
		w.do(w.q.Next())
	case w.code == w.id:
		w.granted()
	default:
		w.busy()
		answered := w.flying || w.pause != 0 || w.cool || w.full
		w.fatalIf(!w.q.Forcing() && hint && len(w.line) > 0 && !answered,
			"a busy answer older than the last hint is believed")
	}
}

func (w *queueWorld) cancelled() {
	if !w.unknown {
		w.q.Settled()
	}
	w.do(w.q.Next())
}

// forget follows a definite answer with a grant that nobody believes. Its release mostly comes to the
// server before anything else of ours.
func (w *queueWorld) forget(id int) {
	if w.oneIn(2, "clean later") == 1 {
		w.ghosts = append(w.ghosts, id)
	} else {
		w.free(id)
	}
	w.unknown, w.doubt = false, Indeterminate{}
}

func (w *queueWorld) failed(out bool) {
	w.unknown = true
	w.doubt.Unanswered(w.sentAt, 2*time.Second, w.set.Lease)
	for at := w.q.First(); at != nil; {
		next := at.Next()
		if out && !at.Told() {
			w.q.Unlink(at)
			if at.Of.Claim() {
				w.answer(whose(at), "unknown")
			}
		}
		at = next
	}
	if w.q.First() == nil {
		w.idle()
		return
	}
	w.q.Resend()
	w.again = w.now.Add(50 * time.Millisecond)
}

func (w *queueWorld) granted() {
	seen := 0
	if w.set.Ack != nil {
		seen = rapid.IntRange(0, 1).Draw(w.t, "replicas")
	}
	var first *testOp
	if len(w.line) > 0 && !w.overtaken {
		want := w.line[0].terms
		if want.Lease == w.set.Lease && want.Family == w.set.Family && want.Replicas() <= seen {
			first = w.line[0]
		}
	}
	w.late = 0
	op := whose(w.q.Granted(w.set.Family, w.set.Lease, seen))
	w.fatalIf(op != first, "the grant went to another than the first who still wants it")
	if op == nil {
		w.unused(seen)
		return
	}
	w.unknown, w.doubt = false, Indeterminate{}
	w.fatalIf(w.holder != w.id, "a caller has the lock and the server says %d", w.holder)
	w.held = w.id
	w.leftTo = 0
	w.grant = &Grant{}
	w.grant.Begin(op.terms, 0, seen, nil)
	w.q.Close()
	w.answer(op, "granted")
	w.tries(true)
	w.unpark()
}

// unused gives back a grant nobody can use. Where its release may be overtaken, the next acquire waits.
func (w *queueWorld) unused(seen int) {
	if seen < w.set.Replicas() {
		if op := whose(w.q.GrantedUnseen(*w.set.Ack, w.set.Family)); op != nil {
			w.answer(op, "too few replicas")
		}
	}
	if w.set.Ack != nil {
		w.unknown, w.doubt = false, Indeterminate{}
		w.cool = w.q.First() != nil
		w.q.ReleaseSent()
		w.releases = append(w.releases, wireRelease{id: w.id, cleanup: true})
	} else {
		w.forget(w.id)
	}
	w.do(w.q.Next())
}

// tries answers every Try: somebody has the lock.
func (w *queueWorld) tries(granted bool) {
	for _, op := range taken(w.q.TakeTries(w.set.Family, granted)) {
		w.answer(op, "held")
	}
	for _, op := range w.line {
		w.fatalIf(op.Try, "a Try goes on waiting behind a lock that is held")
	}
}

func (w *queueWorld) busy() {
	keep := w.unknown && w.doubt.MayRunAfter(w.sentAt)
	if !keep {
		w.unknown, w.doubt = false, Indeterminate{}
	}
	remaining := time.Duration(rapid.IntRange(0, 2000).Draw(w.t, "remaining ms")) * time.Millisecond
	w.q.Busy(w.now.Add(remaining), keep)
	w.tries(false)
	for at := w.q.First(); at.TellBusy(); at = at.Next() {
	}
	w.do(w.q.AfterBusy(w.set.Family))
}

func (w *queueWorld) wake(kind WakeKind) {
	if !w.subscribed && kind != WakePause && kind != WakePoll {
		return
	}
	if kind == WakeMessage || kind == WakeLeft || kind == WakeLook {
		w.hint = true
	}
	paused := w.pause != 0
	due := time.Duration(0)
	if kind == WakeMessage {
		w.heard++
		due = map[int]time.Duration{1: 600 * time.Microsecond, 2: 250 * time.Microsecond}[w.heard]
	}
	if kind == WakeLeft {
		w.heard++
		due = LeftFor
	}
	before := w.q.wait
	s, pause, moved := w.q.Wake(kind)
	w.fatalIf(moved != (w.q.wait != before), "it says moved: %v, from %d to %d", moved, before, w.q.wait)
	if !moved {
		return
	}
	w.fatalIf(paused, "a pause is cut short")
	w.fatalIf(pause != due, "after %d messages the pause is %v", w.heard, pause)
	w.poll = 0
	if s == StepPause {
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
		w.wake(WakePause)
	case due(&w.poll):
		w.wake(WakePoll)
	case due(&w.again):
		w.fatalIf(!w.q.ResendDue(w.attempt), "the timer of an acquire that is forgotten is still armed")
		w.do(w.q.Next())
	default:
		return false
	}
	return true
}

func (w *queueWorld) submit(try bool, terms *Terms) {
	op := newOp(terms)
	op.Try = try
	if try && w.q.RefusesTry() {
		w.fatalIf(w.held == 0 && len(w.line)+len(w.leaving) == 0,
			"a Try is refused while the lock may be free and nobody waits")
		return
	}
	w.q.Push(&op.Waiter)
	w.line = append(w.line, op)
	w.do(w.q.Next())
}

// giveUp is the first half of what a caller does who leaves; leave is the second.
func (w *queueWorld) giveUp(op *testOp) {
	if op.Claim() {
		w.line = slices.DeleteFunc(w.line, func(o *testOp) bool { return o == op })
		w.leaving = append(w.leaving, op)
	}
}

func (w *queueWorld) leave() {
	op := w.leaving[0]
	w.leaving = w.leaving[1:]
	if op.Queued() {
		w.do(w.q.Leave(&op.Waiter))
	}
}

// release gives the local hold back: to the next one here, or to the server.
func (w *queueWorld) release(handOver bool) {
	g := w.grant
	if handOver {
		var first *testOp
		if len(w.line) > 0 {
			if want := w.line[0].terms; want.Compatible(g.Terms()) && want.Replicas() <= g.SeenBy() {
				first = w.line[0]
			}
		}
		op := whose(w.q.TakeCompatible(g.Terms(), g.SeenBy()))
		w.fatalIf(op != first, "the lock was handed to another than the first who still wants it")
		if op != nil {
			w.answer(op, "handed over")
			return
		}
	}
	w.freed(g)
	id := w.held
	w.held = 0
	if w.full { // it expires by itself
		w.ghosts = append(w.ghosts, id)
		w.do(w.q.Next())
		return
	}
	w.cool = w.q.First() != nil
	w.q.ReleaseSent()
	w.releases = append(w.releases, wireRelease{id: id})
}

func (w *queueWorld) released(heard, us int64, counted bool) {
	turn := !w.releases[0].cleanup
	w.releases = w.releases[1:]
	w.q.ReleaseAnswered()
	if len(w.releases) == 0 {
		w.cool = false
	}
	others := w.q.OthersWait(counted, heard, us)
	w.fatalIf(others && (counted && heard <= us || !counted && w.q.First() == nil), "the lock is left to nobody")
	if turn && !w.closing && w.held == 0 && others {
		w.q.Yield()
		w.pause = w.now.Add(2 * time.Millisecond)
		w.leftTo = w.pause
		w.subscribed = w.subscribed || w.q.First() != nil
	} else if turn && !w.closing && w.held == 0 && w.q.EndTenure(counted && heard == 1 && us == 1) {
		w.pause, w.poll = 0, 0
	}
	w.do(w.q.Next())
}

func (w *queueWorld) lose() {
	w.ghosts = append(w.ghosts, w.held)
	w.held = 0
	w.q.Lost()
	w.fatalIf(w.q.Standing(), "somebody has the lock by a hold that is lost")
	w.freed(w.grant)
	w.do(w.q.Next())
}

// freed opens the queue again, if it was this hold that closed it. That is the engine's to ask: a queue does not know
// by which hold it is closed.
func (w *queueWorld) freed(g *Grant) bool {
	mine := w.grant == g
	if mine {
		w.grant = nil
		w.q.Reopen()
	}
	return mine
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
	var live []*testOp
	var before *Waiter
	for at := w.q.head; at != nil; before, at = at, at.next {
		w.fatalIf(before != nil && at.prev != before || !at.queued, "the queue's links are broken")
		if op := whose(at); !slices.Contains(w.leaving, op) {
			live = append(live, op)
		}
	}
	w.fatalIf(w.q.head != nil && w.q.head.prev != before, "the queue's tail is wrong")
	w.fatalIf(!slices.Equal(live, w.line), "%d wait in the queue, %d should, or in another order", len(live), len(w.line))
	w.fatalIf((w.q.attempt != nil) != (w.q.ask != askNot), "an acquire is there while ask is %d", w.q.ask)
	w.fatalIf(w.flying != (w.q.ask == askInFlight) || (w.again != 0) != (w.q.ask == askResend), "ask is %d", w.q.ask)
	w.fatalIf((w.held != 0) != (w.grant != nil) || (w.held != 0) != (w.q.closed == closedHeld) ||
		w.q.closed == closedLost || w.held != 0 && w.flying, "a hold and an acquire at the same time")
	w.fatalIf((w.pause != 0) != w.q.wait.paused(), "wait is %d with the pause at %d", w.q.wait, w.pause)
	w.fatalIf(w.q.wait == waitParked && w.poll == 0, "parked without a poll")
	w.fatalIf(w.q.wait == waitParked && w.poll > w.now.Add(w.longestPoll()), "parked at the pace of somebody who has left")
	if len(w.line) > 0 && w.held == 0 {
		due := w.flying || w.again != 0 || w.poll != 0 || w.pause != 0 || len(w.releases) > 0 || w.q.Forcing()
		w.fatalIf(!due, "somebody waits and nothing is due")
	}
	if w.q.Empty() && w.q.wait != waitYield {
		w.fatalIf(w.poll != 0 || w.pause != 0 || w.again != 0 || w.subscribed || w.q.wait != waitNot,
			"an empty queue leaves something behind")
	}
}

// close ends the engine: nobody waits any more.
func (w *queueWorld) close() {
	w.closing, w.leftTo = true, 0
	w.q.StopAdmitting()
	for op := w.first(); op != nil; op = w.first() {
		w.q.Unlink(&op.Waiter)
		if op.Claim() {
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
