package engine

import (
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// A queue is the local queue of one name: those who want the lock, in order, the one acquire they
// have on its way, and what they wait for.
//
// It is a pure state machine: no mutex, no clock, no timer, no command. Events come in, with their
// times where those matter; what is to be done comes out as a step, an op or a pause, and the engine
// does it. The only thing others may change at the same time is whether an op is still wanted: that is
// the op's own compare-and-swap, and the queue takes nobody out for a result without winning it.
//
// What holds after every event whose step was done: if somebody waits and there is no hold here, then
// an acquire is on its way, or is to be sent again, or a wake-up is due, or a release or a force-release is on its way.
type queue struct {
	head, tail *acquireOp    // those who want the lock, in order
	att        *attempt      // there unless ask is askNot
	hold       *hold         // a trusted hold of this engine: closes the queue
	name       *queue        // of a child: the queue of its name, which counts for all of them; nil: this is it
	busyUntil  clock.Instant // what the last answer "busy" said; 0: there was none, or the lock was free since

	tenureUntil   clock.Instant // of this engine, while it has the lock again and again; 0: it has none
	forceReleases int32         // of a name: force-releases on their way: nothing is asked for meanwhile
	releases      int32         // releases on their way; of a name: those of its children among them
	telling       int32         // of a name: lost holds of it whose holders are not told yet
	epoch         uint32        // grows with every hint that the lock may be free; an older busy answer is not believed
	// of a name: when a release that leaves the lock to others was last sent or heard here; spin: the last "busy"
	leftAt          clock.Instant
	tenureSize      int16  // grants of the tenure
	missedReleases  uint8  // releases that went by since this engine last had the lock, counted to mostMissed
	others          uint8  // of a name: who heard the last release, but for this engine, counted to leaveTo
	askEpoch        uint32 // epoch when the acquire was sent
	ask             askState
	wait            waitState
	by              wakeKind // what sent the acquire that is on its way, or the last
	late            uint8    // grants in a row whose answers came too late to be trusted
	spins           uint8    // polls of the first, if it is a spin lock's
	releaseInFlight bool     // a release is on its way while others wait: they go when it is answered
	resting         bool     // of a name: an acquire of a child waits for the answers to all releases
	overtaken       bool     // a force-release began while the acquire was on its way: its grant may be gone
}

// whole is the queue that counts what concerns the whole name.
func (q *queue) whole() *queue {
	if q.name != nil {
		return q.name
	}
	return q
}

// An askState says where a name's one acquire is.
type askState uint8

const (
	askNot      askState = iota // nothing was asked, or the answer was the last word
	askInFlight                 // in a lane
	askResend                   // failed; a timer sends it again
	askKept                     // at rest; if a copy may still run, the next sending keeps its owner id
)

// A waitState says what a queue waits for that has nothing on its way.
type waitState uint8

const (
	waitNot    waitState = iota // it was never told "busy"
	waitWoken                   // it was, and has been woken since
	waitParked                  // a message, a reconnect or the poll sends the next acquire
	waitTenure                  // in a short pause: others have waited longer
	waitYield                   // in a short pause: this engine has just had its tenure
)

// paused reports whether nothing cuts the waiting short.
func (w waitState) paused() bool { return w >= waitTenure }

// The kinds of wake-up.
type wakeKind uint8

const (
	wakeNone    wakeKind = iota
	wakeMessage          // a release was published
	wakeLook             // messages may have been missed: look now
	wakePoll
	wakePause // a short pause is over
	wakeLeft  // a release was published that leaves the lock to others
)

// A step is what the engine has to do after an event.
type step uint8

const (
	stepRest  step = iota // nothing: something else is due
	stepSend              // send an acquire for the head, then say sent or refused
	stepPark              // subscribe, and arm the poll
	stepPause             // arm the end of a short pause
	stepTidy              // nobody waits: end what is only there for waiters
)

// maxLate is how often an acquire is tried whose answers take as long as its lease.
const maxLate = 3

// push puts an op at the end.
func (q *queue) push(op *acquireOp) {
	op.prev = q.tail
	if q.tail == nil {
		q.head = op
	} else {
		q.tail.next = op
	}
	q.tail = op
	op.queued = true
}

// unlink takes an op out of the queue; nothing happens if it is not in it.
func (q *queue) unlink(op *acquireOp) {
	if !op.queued {
		return
	}
	op.queued = false
	if op.prev == nil {
		q.head, q.spins = op.next, 0
	} else {
		op.prev.next = op.next
	}
	if op.next == nil {
		q.tail = op.prev
	} else {
		op.next.prev = op.prev
	}
	op.next, op.prev = nil, nil
}

// leave takes an op out that is not wanted any more, and says what follows: a parked queue waits as its
// first does, so it parks anew where the next waits in another way.
func (q *queue) leave(op *acquireOp) step {
	first := q.head == op
	q.unlink(op)
	switch {
	case q.head == nil:
		return stepTidy
	case first && q.wait == waitParked && !q.head.set.waitsAs(op.set):
		return stepPark
	default:
		return stepRest
	}
}

// writerNext reports whether who is next waits to write. A writer behind a reader of this engine leaves no note:
// it would keep that reader out, whom it waits for.
func (q *queue) writerNext() bool {
	op := q.live()
	return op != nil && traits(op.set.family).mark == markNote && !op.try
}

// attemptFor is what an op asks by for an entry: its own attempt, unless that is still on its way for another
// entry, where the op waited before.
func (op *acquireOp) attemptFor(ent *entry) *attempt {
	if at := op.att.ent; at != nil && at != ent && at.att == &op.att {
		return &attempt{}
	}
	return &op.att
}

// live is the first op that is still wanted: who has left may be in the queue for a moment longer.
func (q *queue) live() *acquireOp {
	for q.head != nil && q.head.state.Load() != futurePending {
		q.unlink(q.head)
	}
	return q.head
}

// standing is the hold that keeps others out; nil: there is none. One that is lost closes the queue until its holder is
// told, but nobody has the lock by it any more: who asks meanwhile waits for the telling, a Try too.
func (q *queue) standing() *hold {
	if q.hold == nil || q.hold.status.Load() == holdLost {
		return nil
	}
	return q.hold
}

// refusesTry reports whether a Try can be answered without asking the server: the lock is held here,
// or others wait for it. Behind an acquire that is on its way it takes that answer instead.
func (q *queue) refusesTry() bool {
	return q.standing() != nil || q.head != nil && (q.wait != waitNot || q.ask != askInFlight)
}

// next says what is to be done now. An acquire is sent unless something stands against it: one that
// is on its way or will be sent again, a local hold, a release whose waiters take their turn, a force-release
// that may still take the lock, or a wake-up that is still to come.
func (q *queue) next() step {
	switch {
	case q.head == nil:
		return stepTidy
	case q.head.set.ack != nil && q.whole().releases > 0: // it travels on another connection: it might overtake them
		q.whole().resting = true
		return stepRest
	case q.whole().forceReleases > 0: // its grant would not be believed
		return stepRest
	case q.hold != nil, q.releaseInFlight, q.ask == askInFlight, q.ask == askResend, q.wait >= waitParked:
		return stepRest
	default:
		return stepSend
	}
}

// asking is the acquire that is to be sent: the one whose owner id is kept, or the head's own.
func (q *queue) asking(ent *entry) *attempt {
	if q.att == nil {
		q.att, q.ask = q.head.attemptFor(ent), askKept
		q.att.ent, q.att.retry, q.att.op.Placed, q.att.op.Field = ent, nil, false, ""
	}
	return q.att
}

// sent follows a sending.
func (q *queue) sent() { q.ask, q.askEpoch, q.overtaken = askInFlight, q.epoch, false }

// overtake follows the beginning of a force-release. Whatever travels on another connection may be answered when
// that is long over.
func (q *queue) overtake() { q.overtaken = q.ask == askInFlight }

// refused says what to do when nothing could be sent. A waiter that was told "busy" stays parked, whatever
// came between: a hold of this engine, too; a new one is to be told (stepTidy), and the acquire forgotten.
func (q *queue) refused() step {
	if q.head.told {
		return q.park()
	}
	return stepTidy
}

// landed follows every answer: nothing is on its way any more.
func (q *queue) landed() { q.ask = askKept }

// settled forgets the acquire: its answer was the last word, or a cleanup sees to the rest.
func (q *queue) settled() { q.att, q.ask = nil, askNot }

// granted takes the first who still wants a lock of this lease and family, seen by so many replicas, out
// of the queue. Nobody: then the grant is to be given back. A force-release that began since it was asked for
// may have taken the lock already, and one on its way what was passed on by a release.
func (q *queue) granted(lease time.Duration, family resp.Family, seen int) *acquireOp {
	q.settled()
	q.late = 0
	if q.overtaken || q.whole().forceReleases > 0 {
		return nil
	}
	for op := q.live(); op != nil; op = q.live() {
		if op.set.lease != lease || op.set.family != family || op.set.replicas() > seen {
			return nil
		}
		q.unlink(op)
		if op.claim() {
			return op
		}
	}
	return nil
}

// grantedUnseen follows a grant that fewer replicas have seen than were asked for. It returns who is to be
// told: the first, if that is what it asked for. Otherwise the lock is asked for again.
func (q *queue) grantedUnseen(ack *resp.Ack, family resp.Family) *acquireOp {
	for op := q.live(); op != nil; op = q.live() {
		if op.set.ack == nil || *op.set.ack != *ack || op.set.family != family {
			return nil
		}
		q.unlink(op)
		if op.claim() {
			return op
		}
	}
	return nil
}

// grantedLate follows a grant whose answer took so long that its lease cannot be trusted. It returns
// who is to be told, if it is time for that; otherwise the lock is asked for again.
func (q *queue) grantedLate() *acquireOp {
	q.settled()
	op := q.live()
	if q.late++; op == nil || !op.try && q.late < maxLate {
		return nil
	}
	q.late = 0
	q.unlink(op)
	if !op.claim() {
		return nil
	}
	return op
}

// busy follows the answer that somebody else has the lock, until an instant or for ever. keep: a
// copy of the acquire may still run, so that the next must be the same.
func (q *queue) busy(until clock.Instant, keep bool) {
	if !keep {
		q.settled()
	}
	if q.wait == waitNot {
		q.wait = waitWoken
	}
	q.busyUntil, q.tenureUntil = until, 0
}

// meant reports whether the answer to an acquire is one for the first, too: it wants what was asked for.
// Who was asked for may have left since, or was a Try.
func (q *queue) meant(asked resp.Family) bool {
	return q.head != nil && entersAs(asked, q.head.set.family)
}

// acksSuit reports whether who is first may wait for replicas as the acquire on its way does: it would take that grant,
// and wait for as many and as long itself.
func (q *queue) acksSuit() bool {
	if q.head == nil || q.ask != askInFlight || q.att.op.Ack == nil {
		return true
	}
	set := q.head.set
	return set.ack != nil && *set.ack == *q.att.op.Ack && set.lease == q.att.lease && set.family == q.att.op.Family
}

// afterBusy says how the queue goes on: it is not to believe an answer older than the last hint, for
// answer and message travel on different connections; nor one that was given to another kind of lock.
func (q *queue) afterBusy(asked resp.Family) step {
	switch {
	case q.head == nil:
		return stepTidy
	case !q.meant(asked):
		if q.wait == waitWoken && !q.head.told {
			q.wait, q.busyUntil = waitNot, 0
		}
		return q.next()
	// it has no place to park in yet
	case q.epoch != q.askEpoch, q.att == nil && traits(q.head.set.family).mark == markPlace:
		return q.next()
	default:
		return q.park()
	}
}

// toldBusy reports whether the last answer, if there was one, was that somebody else has the lock. A poll that is on
// its way takes nothing of that back.
func (q *queue) toldBusy(now clock.Instant) bool {
	polls := q.wait == waitWoken && q.by == wakePoll && now.Before(q.busyUntil)
	return polls || q.wait == waitParked || q.wait == waitTenure || q.head != nil && q.head.told
}

// tellBusy notes that an op was told, and says whether that was news.
func (op *acquireOp) tellBusy() bool {
	news := op != nil && !op.told
	if news {
		op.told = true
	}
	return news
}

// park makes the queue wait for somebody else's release. A pause goes on; the poll is armed beside it.
func (q *queue) park() step {
	if !q.wait.paused() {
		q.wait = waitParked
	}
	return stepPark
}

// resend waits for the acquire to be sent again; resendDue is the end of that. It says whether the
// attempt is still the one meant.
func (q *queue) resend() { q.ask = askResend }

func (q *queue) resendDue(a *attempt) bool {
	if q.att != a || q.ask != askResend {
		return false
	}
	q.ask = askKept
	return true
}

// takeTries takes every Try that is still wanted out of the queue, linked by next: they take the answer
// that somebody has the lock. But readers let readers in, so neither a read grant nor a writer's "busy" is an
// answer to a Try to read, unless somebody else waits before it.
func (q *queue) takeTries(asked resp.Family, granted bool) (first *acquireOp) {
	var last *acquireOp
	f := traits(asked)
	readers := f.shared && granted || f.readsToo && !granted
	for op := q.head; op != nil; {
		next := op.next
		reads := traits(op.set.family).shared
		readers = readers && (reads || op.try)
		if op.try && (!reads || !readers) {
			q.unlink(op)
			if op.claim() {
				if last == nil {
					first = op
				} else {
					last.next = op
				}
				last = op
			}
		}
		op = next
	}
	return first
}

// mostMissed is where counting the releases that went by ends: whoever has heard so many asks at once.
const mostMissed = 3

// wake follows a hint that the lock may be free, the poll, or the end of a pause. It sends the head's
// next acquire, or, if one is on its way, sees to it that its answer "busy" is not believed.
//
// A message does not always mean now. An engine that has had its tenure lately leaves a moment to those
// who have heard more releases go by than it has: stepPause. Nothing cuts a pause short. A release that leaves the
// lock to others (wakeLeft) makes every engine wait, however many it has heard.
func (q *queue) wake(kind wakeKind) (step, time.Duration) {
	left := kind == wakeLeft
	if left {
		kind = wakeMessage
	}
	if kind == wakeMessage || kind == wakeLook {
		q.epoch++
	}
	if kind == wakeMessage && q.missedReleases < mostMissed {
		q.missedReleases++
	}
	if left && q.wait == waitWoken { // it may be asking: if the answer is "busy", it does not ask again at once
		q.wait = waitTenure
		return stepPause, leftFor
	}
	if q.wait < waitParked || q.wait.paused() && kind != wakePause {
		return stepRest, 0
	}
	if kind != wakePause { // that is the second half of a wake-up by message
		q.by = kind
	}
	pause := q.tenurePause()
	if left {
		pause = leftFor
	}
	if kind == wakeMessage && pause > 0 {
		q.wait = waitTenure
		return stepPause, pause
	}
	q.wait = waitWoken
	return q.next(), 0
}

// tenurePause orders engines that wake by the same message: who has heard fewer releases since its own
// last tenure leaves the others a head start. With nobody else about it costs one short pause at most
// a release; whoever has waited for three goes at once.
func (q *queue) tenurePause() time.Duration {
	switch q.missedReleases {
	case 1:
		return 600 * time.Microsecond
	case 2:
		return 250 * time.Microsecond
	default:
		return 0
	}
}

// pollSpan is the time in which a parked queue looks for itself, in case no message comes: after
// min(remaining lease, 1 s), spread by a fifth. Where the holder's lease ends first the poll comes
// just after it, never before. If the first is a spin lock's, its own pauses are the polls.
func (q *queue) pollSpan(now clock.Instant) (least, spread time.Duration) {
	if spin := q.head.set.spin; spin != nil {
		least, spread = spin.pause(int(q.spins))
		q.spins = min(q.spins+1, spinsMost)
		return least, spread
	}
	if end := max(q.busyUntil.Sub(now), 0) + time.Millisecond; q.busyUntil != 0 && end < pollCap {
		return end, max(end, 20*time.Millisecond) / 5
	}
	return pollCap * 4 / 5, pollCap * 2 / 5
}

// othersWait reports whether somebody elsewhere is known to wait for a lock that was just released.
// heard: who got the message, if the server could count them; us: how many of those are this engine.
// Where nobody counts, somebody waiting here after a tenure stands for somebody waiting elsewhere.
func (q *queue) othersWait(counted bool, heard, us int64) bool {
	if !counted {
		return q.head != nil
	}
	return heard > us
}

// yield leaves the name to others for a moment, whatever is heard meanwhile.
func (q *queue) yield() { q.wait, q.tenureUntil, q.busyUntil = waitYield, 0, 0 }

// tenure counts a grant of the server's, and says until when this engine's tenure with the lock lasts. It
// begins with the first grant after somebody else had the lock, or could have had it, or was not heard to
// wait.
func (q *queue) tenure(until clock.Instant) clock.Instant {
	if q.tenureUntil == 0 {
		q.tenureUntil, q.tenureSize = until, 0
	}
	q.tenureSize++
	return q.tenureUntil
}

// passed counts a grant that was handed over.
func (q *queue) passed() { q.tenureSize++ }

// endTenure ends a tenure that nobody else waits for the end of. If the release was published, and heard by this
// engine alone (told), it also wakes those who were waiting beside the hold: nobody is there whom they could
// leave a head start. It says whether it did.
func (q *queue) endTenure(told bool) (woken bool) {
	q.tenureUntil = 0
	if !told || q.wait != waitParked && q.wait != waitTenure {
		return false
	}
	q.wait, q.by = waitWoken, wakeMessage
	return true
}

// tenureOpen reports whether the tenure is not over: who waits here may ask again at once, whoever else waits.
// Where a lock is not handed over, that is how a tenure is more than one grant.
func (q *queue) tenureOpen(now clock.Instant) bool {
	return q.head != nil && now.Before(q.tenureUntil) && q.tenureSize < tenureGrants
}

// unpark ends the waiting: the lock is held here, or nobody wants it.
func (q *queue) unpark() { q.wait, q.busyUntil, q.missedReleases, q.by = waitNot, 0, 0, wakeNone }

// deserted reports whether what is only there for waiters can end. A yield pause outlives them: whoever
// comes next keeps it, too.
func (q *queue) deserted() bool { return q.head == nil && q.wait != waitYield }

// empty reports whether nothing goes on with the name any more.
func (q *queue) empty() bool {
	return q.head == nil && q.att == nil && q.hold == nil && q.releases == 0 && q.forceReleases == 0
}

// takeCompatible takes the first live op out of the queue if it asks for the same kind of lease, and for no
// more replicas than have seen the hold's field.
func (q *queue) takeCompatible(h *hold) *acquireOp {
	for op := q.live(); op != nil; op = q.live() {
		if op.set != h.set && !op.set.compatible(h.set) || op.set.replicas() > int(h.seen) {
			return nil
		}
		q.unlink(op)
		if op.claim() {
			return op
		}
	}
	return nil
}

// held closes the queue.
func (q *queue) held(h *hold) { q.hold = h }

// freed opens the queue again, if it was this hold that closed it.
func (q *queue) freed(h *hold) bool {
	mine := q.hold == h
	if mine {
		q.hold = nil
	}
	return mine
}

// releaseSent lets those who were already waiting try when the release is answered: at the moment it
// leaves, this engine's next acquire would win every race against waiters elsewhere.
func (q *queue) releaseSent() {
	q.releases++
	q.releaseInFlight = q.head != nil
	if q.name != nil {
		q.name.releases++
	}
}

// sendBehindRelease lets them go at once, right behind the release, in the same write: the tenure is not over.
func (q *queue) sendBehindRelease() { q.releaseInFlight = false }

// releaseAnswered follows the last answer to a release, definite or not. It says whether children of the name
// have rested until now.
func (q *queue) releaseAnswered() (rested bool) {
	if q.releases--; q.releases == 0 {
		q.releaseInFlight = false
		rested, q.resting = q.resting && q.name == nil, false
	}
	if q.name != nil {
		return q.name.releaseAnswered()
	}
	return rested
}

// stopAdmitting ends a yield pause: the engine closes.
func (q *queue) stopAdmitting() {
	if q.wait == waitYield {
		q.wait = waitWoken
	}
}

// An engine that is woken asks within a tenth of a millisecond. A JVM needs a millisecond or two, so where some engines
// and a JVM want one lock, an engine would win every race. So now and then the release at the end of a tenure says that
// the lock is left to others, and every engine that hears it waits. That is for nothing where nobody but engines waits,
// so it is seldom, and only where at least two others were heard: one other has the yield pause to itself.
const (
	leaveEvery = 15 * time.Millisecond
	leftFor    = 3 * time.Millisecond
	leaveTo    = 2
)

// leaves reports whether a release that is sent now leaves the lock to others. It does not where who waits here goes
// on.
func (q *queue) leaves(now clock.Instant) bool {
	if q.others < leaveTo || q.tenureOpen(now) || now.Sub(q.leftAt) < leaveEvery {
		return false
	}
	q.leftAt = now
	return true
}

// Who spins hears nothing and is not heard: it looks every now and then, Redisson every 128 ms at most. So an engine
// whose tenure with such a lock is over leaves it for spinsFor if it found somebody else to have it within rivalsFor.
const (
	spinsFor  = 5 * time.Millisecond
	rivalsFor = 10 * time.Second
)

// rivals reports whether somebody else has had a spin lock lately.
func (q *queue) rivals(now clock.Instant) bool { return q.leftAt != 0 && now.Sub(q.leftAt) < rivalsFor }

// Hand-off: a released lock may go straight to the next waiter of this engine. The field in Redis
// stays, the lease goes on, no command is sent; the new handle takes the hold's present deadline, so
// belief ends when it would have ended anyway. A tenure bounds how long one engine may go on so.
const (
	tenureLeast  = 20 * time.Millisecond
	tenureMost   = 200 * time.Millisecond
	tenureGrants = 256
	// yieldLeast is how long an engine that gave a wanted lock back leaves it to the others: its
	// own next acquire would win every race against one that first has to hear the message.
	yieldLeast = 2 * time.Millisecond
	yieldMost  = 20 * time.Millisecond
)

// pollCap bounds how long a waiter relies on messages: pub/sub is a hint.
const pollCap = time.Second
