package lockstate

import (
	"fmt"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// A Queue is the local queue of one name: those who want the lock, in order, the one acquire they
// have on its way, and what they wait for.
//
// It is a pure state machine: no mutex, no clock, no timer, no command. Events come in, with their
// times where those matter; what is to be done comes out as a step, a waiter or a pause, and the engine
// does it. The only thing others may change at the same time is whether an op is still wanted.
//
// What holds after every event whose step was done: if somebody waits and there is no hold here, then
// an acquire is on its way, or is to be sent again, or a wake-up is due, or a release or a force-release is on its way.
type Queue[A Attempt] struct {
	head    *Waiter  // those who want the lock, in order; before the first stands the last
	attempt A        // there unless ask is askNot
	extra   *rare[A] // mostly nil, see seldom

	tenureUntil     clock.Instant // of this engine, while it has the lock again and again; 0: it has none
	releases        int32         // releases on their way; of a name: those of its children among them
	tenureSize      int16         // grants of the tenure
	missedReleases  uint8         // releases that went by since this engine last had the lock, counted to mostMissed
	others          uint8         // of a name: who heard the last release, but for this engine, counted to leaveTo
	ask             askState
	wait            waitState
	closed          closing  // by a grant of this engine
	by              WakeKind // what sent the acquire that is on its way, or the last
	late            uint8    // grants in a row whose answers came too late to be trusted
	spins           uint8    // polls of the first, if it is a spin lock's
	wanted          bool     // of a name: the last release was heard by somebody else
	contended       bool     // in this tenure somebody else was known to want the lock, or to have it
	hinted          bool     // since the last sending the lock may have been free: an older answer "busy" is not believed
	releaseInFlight bool     // a release is on its way while others wait: they go when it is answered
	resting         bool     // of a name: somebody waits for the answers to all releases, or to what is leaving
	overtaken       bool     // a force-release began while the acquire was on its way: its grant may be gone
	answered        uint16   // of a name: releases that were answered, or have failed for a while; it wraps
	behind          uint16   // what that was to be once all were answered that the last sending went behind, or who rests
}

// rare is what few queues need: of a lock that is held, and that nobody else wants, a million may be there.
type rare[A Attempt] struct {
	name      *Queue[A]     // of a child: the queue of its name, which counts for all of them; nil: this is it
	busyUntil clock.Instant // what the last answer "busy" said; 0: there was none, or the lock was free since
	// of a name: when a release that leaves the lock to others was last sent or heard here; spin: the last "busy"
	leftAt        clock.Instant
	forceReleases int32   // of a name: force-releases on their way: nothing is asked for meanwhile
	leaving       int32   // of a fair lock's name: commands on their way whose answers a Try waits for, see LeaveBegun
	rests         *Waiter // who is first, and rests behind releases
	failing       int32   // of the releases, those whose last answer was not the final one: they are not on their way now
	telling       int32   // of a name: lost holds of it whose holders are not told yet
	counting      bool    // of a name: somebody waits for the answers to some releases, but not to all
}

// seldom is what there is of that, to read.
func (q *Queue[A]) seldom() rare[A] {
	if q.extra == nil {
		return rare[A]{}
	}
	return *q.extra
}

// ensureExtra is the same to write: it is made if it is not there.
func (q *Queue[A]) ensureExtra() *rare[A] {
	if q.extra == nil {
		q.extra = &rare[A]{}
	}
	return q.extra
}

// tookUntil notes until when somebody else has the lock.
func (q *Queue[A]) tookUntil(at clock.Instant) {
	if at != 0 || q.extra != nil {
		q.ensureExtra().busyUntil = at
	}
}

// Under makes it the queue of a child of a name: what it hears is meant for it.
func (q *Queue[A]) Under(name *Queue[A]) { q.ensureExtra().name, q.missedReleases = name, mostMissed }

// An Attempt is an acquire that was sent, or is to be: a pointer, and nil is none.
type Attempt interface {
	comparable
	// Suits reports whether a grant of it would be what these terms ask for, seen by as many replicas.
	Suits(t *Terms) bool
}

// closing says what keeps a queue closed.
type closing uint8

const (
	closedNot  closing = iota
	closedHeld         // a grant of this engine
	closedLost         // one that is lost, and whose holder is not told yet
)

// String says where it is, for the eye.
func (q *Queue[A]) String() string {
	return fmt.Sprintf("ask %d wait %d closed %d releases %d in flight %v forces %d",
		q.ask, q.wait, q.closed, q.releases, q.releaseInFlight, q.seldom().forceReleases)
}

// whole is the queue that counts what concerns the whole name.
func (q *Queue[A]) whole() *Queue[A] {
	if q.extra != nil && q.extra.name != nil {
		return q.extra.name
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

// A WakeKind says what wakes a queue.
type WakeKind uint8

const (
	WakeNone    WakeKind = iota
	WakeMessage          // a release was published
	WakeLook             // messages may have been missed: look now
	WakePoll
	WakePause // a short pause is over
	WakeLeft  // a release was published that leaves the lock to others
)

// A Step is what the engine has to do after an event.
type Step uint8

const (
	StepRest  Step = iota // nothing: something else is due
	StepSend              // send an acquire for the head, then say sent or refused
	StepPark              // subscribe, and arm the poll
	StepPause             // arm the end of a short pause
	StepTidy              // nobody waits: end what is only there for waiters
)

// maxLate is how often an acquire is tried whose answers take as long as its lease.
const maxLate = 3

// Leave takes one out that is not wanted any more, and says what follows: a parked queue waits as its
// first does, so it parks anew where the next waits in another way.
func (q *Queue[A]) Leave(w *Waiter) Step {
	first, rests := q.head == w, w.again || q.seldom().rests == w
	q.Unlink(w)
	switch {
	case q.head == nil:
		return StepTidy
	case first && rests: // the others were held back by it
		return q.Next()
	case first && q.wait == waitParked && q.terms().Family.Serves == ServesSome: // there may be enough for the next
		q.wait, q.by = waitWoken, WakeLook
		return q.Next()
	case first && q.wait == waitParked && !q.terms().waitsAs(w.Of.Terms()):
		return StepPark
	default:
		return StepRest
	}
}

// First is who is first, wanted or not; nil: nobody waits.
func (q *Queue[A]) First() *Waiter { return q.head }

// terms are the first's.
func (q *Queue[A]) terms() *Terms { return q.head.Of.Terms() }

// WriterNext reports whether who is next waits to write. A writer behind a reader of this engine leaves no note:
// it would keep that reader out, whom it waits for.
func (q *Queue[A]) WriterNext() bool {
	w := q.Live()
	return w != nil && w.Of.Terms().Family.Mark == MarkNote && !w.Try
}

// Live is the first that is still wanted: who has left may be in the queue for a moment longer.
func (q *Queue[A]) Live() *Waiter {
	for q.head != nil && !q.head.Of.Pending() {
		q.Unlink(q.head)
	}
	return q.head
}

// Standing reports whether a grant of this engine keeps others out. One that is lost closes the queue until its holder
// is told, but nobody has the lock by it any more: who asks meanwhile waits for the telling, a Try too.
func (q *Queue[A]) Standing() bool { return q.closed == closedHeld }

// RefusesTry reports whether a Try can be answered without asking the server: the lock is held here,
// or others wait for it. Behind an acquire that is on its way it takes that answer instead.
func (q *Queue[A]) RefusesTry() bool {
	return q.Standing() || q.head != nil && (q.wait != waitNot || q.ask != askInFlight)
}

// Next says what is to be done now. An acquire is sent unless something stands against it: one that
// is on its way or will be sent again, a local hold, a release whose waiters take their turn, a force-release
// that may still take the lock, or a wake-up that is still to come.
func (q *Queue[A]) Next() Step {
	switch {
	case q.head == nil:
		return StepTidy
	// A Try, and once one rests everybody: so nobody overtakes it, and who comes and leaves meanwhile, and is not sent,
	// does not make it rest for longer.
	case q.terms().Family.Mark == MarkPlace && q.whole().seldom().leaving > 0 && (q.head.Try || q.whole().resting):
		q.whole().resting = true
		return StepRest
	case q.Forcing(): // its grant would not be believed
		return StepRest
	case q.closed != closedNot, q.releaseInFlight, q.ask == askInFlight, q.ask == askResend, q.wait >= waitParked:
		return StepRest
	case q.goesBehind():
		return StepRest
	default:
		return StepSend
	}
}

// Attempt is the acquire that was asked for and has no final answer, or is to be: its owner id may have to be kept.
// Nil: there is none.
func (q *Queue[A]) Attempt() A { return q.attempt }

// Begin makes an attempt the one that is to be sent next. There is none.
func (q *Queue[A]) Begin(a A) { q.attempt, q.ask = a, askKept }

// Asked reports whether there is one.
func (q *Queue[A]) Asked() bool { return q.ask != askNot }

// InFlight reports whether it is on its way.
func (q *Queue[A]) InFlight() bool { return q.ask == askInFlight }

// Sent follows a sending.
func (q *Queue[A]) Sent() {
	q.ask, q.hinted, q.overtaken = askInFlight, false, false
	q.behind = q.whole().due()
	q.restsNoMore()
}

// ForceBegun follows the beginning of a force-release of the name.
func (q *Queue[A]) ForceBegun() { q.ensureExtra().forceReleases++ }

// ForceAnswered follows its end, when no copy of it can run any more.
func (q *Queue[A]) ForceAnswered() { q.ensureExtra().forceReleases-- }

// Forcing reports whether one is on its way: no grant is believed meanwhile.
func (q *Queue[A]) Forcing() bool { return q.whole().seldom().forceReleases > 0 }

// Overtake follows the beginning of a force-release, for every queue of the name. Whatever travels on another
// connection may be answered when that is long over.
func (q *Queue[A]) Overtake() { q.overtaken = q.ask == askInFlight }

// Refused says what to do when nothing could be sent. A waiter that was told "busy" stays parked, whatever
// came between: a hold of this engine, too; a new one is to be told (StepTidy), and the acquire forgotten.
func (q *Queue[A]) Refused() Step {
	q.restsNoMore()
	if q.head.told {
		return q.park()
	}
	return StepTidy
}

// Landed follows every answer: nothing is on its way any more.
func (q *Queue[A]) Landed() { q.ask = askKept }

// Settled forgets the acquire: its answer was the last word, or a cleanup sees to the rest.
func (q *Queue[A]) Settled() {
	var none A
	q.attempt, q.ask = none, askNot
}

// asks reports whether there is an acquire.
func (q *Queue[A]) asks() bool {
	var none A
	return q.attempt != none
}

// Granted takes the first who still wants what these terms ask for, seen by so many replicas, out of the queue.
// Nobody: then the grant is to be given back. A force-release that began since it was asked for
// may have taken the lock already, and one on its way what was passed on by a release.
func (q *Queue[A]) Granted(family *Traits, lease time.Duration, seen int) *Waiter {
	if !q.believed() {
		return nil
	}
	return q.claim(func(t *Terms) bool {
		return t.Lease == lease && t.Family == family && t.Replicas() <= seen
	})
}

// believed follows a grant, and says whether it counts.
func (q *Queue[A]) believed() bool {
	q.Settled()
	q.late = 0
	return !q.overtaken && !q.Forcing()
}

// claim takes the first who is still wanted out of the queue, if its terms suit. Nobody: nil.
func (q *Queue[A]) claim(suits func(*Terms) bool) *Waiter {
	for w := q.Live(); w != nil; w = q.Live() {
		if !suits(w.Of.Terms()) {
			return nil
		}
		q.Unlink(w)
		if w.Of.Claim() {
			return w
		}
	}
	return nil
}

// GrantedUnseen follows a grant that fewer replicas have seen than were asked for. It returns who is to be
// told: the first, if that is what it asked for. Otherwise the lock is asked for again.
func (q *Queue[A]) GrantedUnseen(ack Ack, family *Traits) *Waiter {
	return q.claim(func(t *Terms) bool { return t.Ack != nil && *t.Ack == ack && t.Family == family })
}

// GrantedLate follows a grant whose answer took so long that its lease cannot be trusted. It returns
// who is to be told, if it is time for that; otherwise the lock is asked for again.
func (q *Queue[A]) GrantedLate() *Waiter {
	q.Settled()
	w := q.Live()
	if q.late++; w == nil || !w.Try && q.late < maxLate {
		return nil
	}
	// Told once, and only the first: whoever is next has its own tries.
	q.late = 0
	q.Unlink(w)
	if !w.Of.Claim() {
		return nil
	}
	return w
}

// Busy follows the answer that somebody else has the lock, until an instant or for ever. keep: a
// copy of the acquire may still run, so that the next must be the same.
func (q *Queue[A]) Busy(until clock.Instant, keep bool) {
	if !keep {
		q.Settled()
	}
	// It waits from now on; how is for AfterBusy to say, and a pause goes on.
	if q.wait == waitNot {
		q.wait = waitWoken
	}
	// Of permits this engine may have some, and give them to who waits here: that goes on until its time.
	if q.tookUntil(until); q.head == nil || q.terms().Family.Serves != ServesSome {
		q.tenureUntil = 0
	}
}

// Meant reports whether the answer to an acquire is one for the first, too: it wants what was asked for.
// Who was asked for may have left since, or was a Try.
func (q *Queue[A]) Meant(asked *Traits) bool {
	return q.head != nil && asked.EntersAs(q.terms().Family)
}

// AcksSuit reports whether who is first may wait for replicas as the acquire on its way does: it would take that grant,
// and wait for as many and as long itself.
func (q *Queue[A]) AcksSuit() bool {
	return q.head == nil || q.ask != askInFlight || q.attempt.Suits(q.terms())
}

// AfterBusy says how the queue goes on: it is not to believe an answer older than the last hint, for
// answer and message travel on different connections; nor one that was given to another kind of lock.
func (q *Queue[A]) AfterBusy(asked *Traits) Step {
	switch {
	case q.head == nil:
		return StepTidy
	case !q.Meant(asked):
		// The answer says nothing about what the first wants: it is as if nothing had been asked.
		if q.wait == waitWoken && !q.head.told {
			q.wait = waitNot
			q.tookUntil(0)
		}
		return q.Next()
	// it has no place to park in yet
	case q.hinted, !q.asks() && q.terms().Family.Mark == MarkPlace:
		return q.Next()
	default:
		return q.park()
	}
}

// ToldBusy reports whether the last answer, if there was one, was that somebody else has the lock. A poll that is on
// its way takes nothing of that back.
func (q *Queue[A]) ToldBusy(now clock.Instant) bool {
	polls := q.wait == waitWoken && q.by == WakePoll && now.Before(q.BusyUntil())
	return polls || q.wait == waitParked || q.wait == waitTenure || q.head != nil && q.head.told
}

// park makes the queue wait for somebody else's release. A pause goes on; the poll is armed beside it.
func (q *Queue[A]) park() Step {
	if !q.wait.paused() {
		q.wait = waitParked
	}
	return StepPark
}

// Resend waits for the acquire to be sent again.
func (q *Queue[A]) Resend() { q.ask = askResend }

// Resends reports whether nothing is on its way because the acquire failed, and a timer sends it again.
func (q *Queue[A]) Resends() bool { return q.ask == askResend }

// ResendDue is the end of that. It says whether the attempt is still the one meant.
func (q *Queue[A]) ResendDue(a A) bool {
	if q.attempt != a || q.ask != askResend {
		return false
	}
	q.ask = askKept
	return true
}

// TakeTries takes every Try that is still wanted out of the queue: they take the answer that somebody has the lock. But
// readers let readers in, so neither a read grant nor a writer's "busy" is an
// answer to a Try to read, unless somebody else waits before it. Nor is "busy" one to a Try of another kind: what it
// wants is asked for next, unless somebody who waits stands before it.
func (q *Queue[A]) TakeTries(asked *Traits, granted bool) (tries Chain) {
	// As long as nobody but readers stands before it, a Try to read may still get in.
	readers := asked.Shared && granted || asked.ReadsToo && !granted
	asks := !granted
	for w := q.head; w != nil; {
		next := w.next
		asks = asks && w.Try
		if asks && asked.OtherKind(w.Of.Terms().Family) {
			w = next
			continue
		}
		reads := w.Of.Terms().Family.Shared
		readers = readers && (reads || w.Try)
		if w.Try && (!reads || !readers) {
			q.Unlink(w)
			if w.Of.Claim() {
				tries.Add(w)
			}
		}
		w = next
	}
	return tries
}

// mostMissed is where counting the releases that went by ends: whoever has heard so many asks at once.
const mostMissed = 3

// Wake follows a hint that the lock may be free, the poll, or the end of a pause. It sends the head's
// next acquire, or, if one is on its way, sees to it that its answer "busy" is not believed.
//
// A message does not always mean now. An engine that has had its tenure lately leaves a moment to those
// who have heard more releases go by than it has: StepPause. Nothing cuts a pause short. A release that leaves the
// lock to others (WakeLeft) makes every engine wait, however many it has heard. tenure.go has for how long.
func (q *Queue[A]) Wake(kind WakeKind) (s Step, pause time.Duration, moved bool) {
	before := q.wait
	s, pause = q.wake(kind)
	return s, pause, q.wait != before
}

func (q *Queue[A]) wake(kind WakeKind) (Step, time.Duration) {
	left := kind == WakeLeft
	if left {
		kind = WakeMessage
	}
	// The poll and the end of a pause are no hints: they come by themselves.
	if kind == WakeMessage || kind == WakeLook {
		q.hinted = true
	}
	if kind == WakeMessage && q.missedReleases < mostMissed {
		q.missedReleases++
	}
	if left && q.wait == waitWoken { // it may be asking: if the answer is "busy", it does not ask again at once
		q.wait = waitTenure
		return StepPause, LeftFor
	}
	// Who is not parked asks already, or is about to; nothing but its end cuts a pause short.
	if q.wait < waitParked || q.wait.paused() && kind != WakePause {
		return StepRest, 0
	}
	if kind != WakePause { // that is the second half of a wake-up by message
		q.by = kind
	}
	pause := q.tenurePause()
	if left {
		pause = LeftFor
	}
	if kind == WakeMessage && pause > 0 {
		q.wait = waitTenure
		return StepPause, pause
	}
	q.wait = waitWoken
	return q.Next(), 0
}

// PollSpan is the time in which a parked queue looks for itself, in case no message comes: after
// min(remaining lease, 1 s), spread by a fifth. Where the holder's lease ends first the poll comes
// just after it, never before. If the first is a spin lock's, its own pauses are the polls.
func (q *Queue[A]) PollSpan(now clock.Instant) (least, spread time.Duration) {
	if spin := q.terms().Spin; spin != nil {
		least, spread = spin.pause(int(q.spins))
		q.spins = min(q.spins+1, spinsMost)
		return least, spread
	}
	busyUntil := q.BusyUntil()
	if end := max(busyUntil.Sub(now), 0) + time.Millisecond; busyUntil != 0 && end < pollCap {
		return end, max(end, 20*time.Millisecond) / 5
	}
	return pollCap * 4 / 5, pollCap * 2 / 5
}

// Hinted follows word that the lock may have been passed on to who asks just now: an older "busy" is not believed.
func (q *Queue[A]) Hinted() { q.hinted = true }

// WokenBy is what sent the acquire that is on its way, or the last.
func (q *Queue[A]) WokenBy() WakeKind { return q.by }

// BusyUntil is what the last answer "busy" said; 0: there was none, or the lock was free since.
func (q *Queue[A]) BusyUntil() clock.Instant { return q.seldom().busyUntil }

// Waited reports whether it was told "busy" and waits since.
func (q *Queue[A]) Waited() bool { return q.wait != waitNot || q.head != nil && q.head.again }

// Yields reports whether the name is left to others for a moment, and nothing was asked that may yet be granted.
func (q *Queue[A]) Yields() bool { return q.wait == waitYield && q.ask == askNot }

// Parked reports whether it waits for somebody else's release.
func (q *Queue[A]) Parked() bool { return q.wait == waitParked }

// Paused reports whether it is in a pause that nothing cuts short.
func (q *Queue[A]) Paused() bool { return q.wait.paused() }

// Unpark ends the waiting: the lock is held here, or nobody wants it.
func (q *Queue[A]) Unpark() {
	q.wait, q.missedReleases, q.by = waitNot, 0, WakeNone
	q.tookUntil(0)
}

// Deserted reports whether what is only there for waiters can end. A yield pause outlives them: whoever
// comes next keeps it, too.
func (q *Queue[A]) Deserted() bool { return q.head == nil && q.wait != waitYield }

// Empty reports whether nothing goes on with the name any more.
func (q *Queue[A]) Empty() bool {
	return q.head == nil && !q.asks() && q.closed == closedNot && q.releases == 0 && q.seldom().forceReleases == 0
}

// TakeCompatible takes the first live op out of the queue if it asks for the same kind of lease, and for no
// more replicas than have seen what is held.
func (q *Queue[A]) TakeCompatible(held *Terms, seen int) *Waiter {
	return q.claim(func(t *Terms) bool { return t.Compatible(held) && t.Replicas() <= seen })
}

// Close closes the queue: this engine has a grant that keeps others out.
func (q *Queue[A]) Close() { q.closed = closedHeld }

// Lost follows the loss of that grant. The queue stays closed until Reopen: its holder is to be told first.
func (q *Queue[A]) Lost() {
	if q.closed == closedHeld {
		q.closed = closedLost
	}
}

// Reopen follows its end.
func (q *Queue[A]) Reopen() { q.closed = closedNot }

// LossBegun follows the loss of any grant of the name.
func (q *Queue[A]) LossBegun() { q.whole().ensureExtra().telling++ }

// LossTold follows that its holder was told.
func (q *Queue[A]) LossTold() { q.whole().ensureExtra().telling-- }

// LossUntold reports whether holders of lost grants of the name are still to be told.
func (q *Queue[A]) LossUntold() bool { return q.whole().seldom().telling > 0 }

// StopAdmitting ends a yield pause: the engine closes.
func (q *Queue[A]) StopAdmitting() {
	if q.wait == waitYield {
		q.wait = waitWoken
	}
}

// pollCap bounds how long a waiter relies on messages: pub/sub is a hint.
const pollCap = time.Second
