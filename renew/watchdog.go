package renew

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

// Cause says why a hold was lost.
type Cause uint8

// The causes.
const (
	CauseDeadline  Cause = iota // no renewal was answered in time, or a fixed lease ran out
	CauseNotOurs                // the server said so
	CauseWrongType              // something else stands in the lock's place
	CauseForced                 // it was force-released here
	CauseClosed                 // the engine closes and lets it expire
)

// Events is how the watchdog tells the engine. Its methods run on the watchdog's goroutines, hold
// none of its locks, and must not block.
type Events interface {
	// Lost is final and comes at most once for a hold.
	Lost(s Subject, cause Cause)
	// Jeopardy says that two periods have passed without a success.
	Jeopardy(s Subject)
	// Renewed is called when renewals have succeeded: once for each, also for one that was sent over both connections and
	// succeeded twice. The slice is the watchdog's.
	Renewed(all []Success)
	// Outlasted follows the answer to a renewal that asked for a longer lease than the hold has now, or whose hold is
	// not renewed any more. The renewal may have raised the expiry of the key to what nobody asks for any more.
	Outlasted(s Subject)
	// Ended says that MaxHold is over and the hold is not renewed any more. Change may have it renewed again.
	Ended(s Subject)
}

// Renewer sends renewals to one node; *resp.Node is one. It must be comparable.
type Renewer interface {
	// Connect makes the first connection before it is needed. It may fail: Renew tries again.
	Connect()
	Renew(retry bool, limit time.Duration, batch []resp.Renewal)
	// HoldBack keeps new holds from being asked for until then: renewals wait for too long to be sent.
	HoldBack(until clock.Instant)
}

// A Router says which node serves a hold now. It is asked at every firing, so that a hold follows its
// slot. It must not block, and answers the same for a while: see Retire.
type Router func(s Subject) Renewer

// Cohorts is the watchdog of an engine.
type Cohorts struct {
	clock  clock.Clock
	world  *world.World
	route  Router
	events Events
	set    *wheel.Set[Subject]

	// mu guards the plain fields of holds under watch, and senders. No other lock is taken inside but the wheel's.
	mu      sync.Mutex
	senders map[Renewer]*nodeSenders
	order   []*nodeSenders // the same, in the order in which they were opened
	ended   bool
	wg      world.Group

	sent, failed, late, jeopardies atomic.Int64

	nearby int                   // see the constant
	spaces [][]waiting           // of fire, for those due at a node
	plans  []wheel.Plan[Subject] // of holds whose next look is known; empty while mu is free

	prefetched atomic.Uint32 // what prefetchKeys and prefetchHolds read, so that they do
}

// Stats count what the watchdog of a node did.
type Stats struct {
	Watched    int64 // holds under watch now
	Sent       int64 // renewals sent, a key each
	Failed     int64 // of those, answered with an error or not at all
	Late       int64 // successes that came more than half a lease after the success before: a third is the plan
	Jeopardies int64
}

// New makes a watchdog. It starts two goroutines for each node that has something to renew, one for
// each of its renewal connections.
func New(c clock.Clock, w *wheel.Wheel, route Router, events Events) *Cohorts {
	k := &Cohorts{clock: c, world: world.Of(c), route: route, events: events, senders: make(map[Renewer]*nodeSenders)}
	k.wg.Init(k.world)
	if k.nearby = nearby; k.world != nil {
		k.nearby = nearbySimulated
	}
	k.set = wheel.NewSet(w, bucket, k.fire)
	return k
}

// Retire ends the senders of a node that no hold is routed to any more. What they have is still
// sent. Blocks: never.
func (k *Cohorts) Retire(node Renewer) {
	k.mu.Lock()
	p := k.senders[node]
	delete(k.senders, node)
	k.order = slices.DeleteFunc(k.order, func(other *nodeSenders) bool { return other == p })
	k.mu.Unlock()
	if p != nil {
		p.retire()
	}
}

// Terms are the conditions of a watch.
type Terms struct {
	SentAt clock.Instant // when the answered acquire was sent
	Lease  time.Duration // that it asked for, and that renewals ask for
	Renew  bool          // a watchdog lease; else it runs out at its deadline
	Until  clock.Instant // MaxHold: no renewals from then on; 0 none
}

// Watch puts a new hold under watch. Blocks: never. A hold is watched once in its life.
func (k *Cohorts) Watch(s Subject, t Terms) {
	h := s.Watched()
	h.sentAt, h.until = t.SentAt, t.Until
	h.lease.Store(int64(t.Lease))
	h.deadline.Store(int64(TrustUntil(t.SentAt, t.Lease)))
	if !t.Renew {
		h.StopRenewing()
	}
	k.schedule(s)
}

// schedule puts a hold into the cohort of its next look.
func (k *Cohorts) schedule(s Subject) {
	h := s.Watched()
	if brief(h.Lease()) {
		k.set.SchedulePrecisely(s, h.wake())
	} else {
		k.set.Schedule(s, h.wake())
	}
}

// wake is when the hold needs a look: its next renewal, or its end.
func (h *Hold) wake() clock.Instant {
	end := SignalAt(h.Deadline(), h.Lease())
	switch {
	case !h.Renewing():
		return end
	case h.attempt == attemptSent && !h.jeopardy:
		return min(h.hedge(), jeopardyAt(h.sentAt, h.Lease()), end)
	case h.attempt == attemptSent:
		return min(h.hedge(), end)
	case h.attempt != noAttempt && !h.jeopardy:
		return min(jeopardyAt(h.sentAt, h.Lease()), end)
	case h.attempt != noAttempt:
		return end
	case h.next == 0:
		return min(spreadAt(h.sentAt, h.Lease()), end)
	default:
		return min(h.next, end)
	}
}

// Forget ends the watch: a release begins. It says whether the hold was still under watch; if not,
// it is lost, and Lost was or will be called.
func (k *Cohorts) Forget(s Subject) bool {
	h := s.Watched()
	if !h.leave() {
		return false
	}
	k.set.Cancel(&h.item)
	return true
}

// Change gives a hold under watch other terms from now on, because its handles want something else. The
// deadline stands. SentAt has no meaning here.
func (k *Cohorts) Change(s Subject, t Terms) {
	h := s.Watched()
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.gone() {
		return
	}
	now := k.clock.Now()
	if t.Renew && (!h.Renewing() || t.Lease < h.Lease()) {
		h.sentAt, h.jeopardy = max(h.sentAt, now), false // its periods begin anew
	}
	h.until = t.Until
	h.lease.Store(int64(t.Lease))
	h.renew(t.Renew)
	// A shorter lease may be due sooner. A longer one does not put off what was due.
	if next := nextRenewal(k.world, now, t.Lease); h.next == 0 || next < h.next {
		h.next = next
	}
	k.reschedule(s)
}

// Until is when the renewals of a hold end; 0: they do not.
func (k *Cohorts) Until(s Subject) clock.Instant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.Watched().until
}

// Lower moves the deadline of a hold back, before a command is sent that lowers its key's expiry. Answers
// to renewals that were sent with a longer lease prove no more than the present one: so change the
// terms first.
func (k *Cohorts) Lower(s Subject, to clock.Instant) {
	h := s.Watched()
	k.mu.Lock()
	defer k.mu.Unlock()
	if int64(to) >= h.deadline.Load() {
		return
	}
	h.deadline.Store(int64(to))
	if !h.gone() {
		k.reschedule(s)
	}
}

// Lose declares a hold lost for a reason the watchdog did not find itself.
func (k *Cohorts) Lose(s Subject, cause Cause) {
	if k.Forget(s) {
		k.world.Yield("Cohorts.Lose: the watch ended | the loss told")
		k.events.Lost(s, cause)
	}
}

// fire is the wheel's callback: some holds need a look.
func (k *Cohorts) fire(now clock.Instant, due []Subject) {
	// Decide, under mu. Nobody is told meanwhile: events run code of the engine, which may come back here.
	var f firing
	for some := range slices.Chunk(due, k.nearby) {
		k.world.Yield("Cohorts.fire: some decided | the next")
		k.prefetched.Store(prefetchHolds(some) + k.prefetchRoutes(some))
		k.mu.Lock()
		for _, s := range some {
			k.decide(&f, now, s)
		}
		k.scheduleAll()
		k.mu.Unlock()
	}
	k.jeopardies.Add(int64(len(f.endangered)))
	k.world.Yield("Cohorts.fire: decided | given to the senders")
	// Send first. What is told can wait, a renewal cannot.
	f.out.send(k)
	// Tell. expire looks at each loss once more.
	for _, s := range f.endangered {
		k.world.Yield("Cohorts.fire: given to the senders | jeopardy told")
		k.events.Jeopardy(s)
	}
	for _, s := range f.ended {
		k.world.Yield("Cohorts.fire: decided | the end of renewals told")
		k.events.Ended(s)
	}
	for _, s := range f.lost {
		k.world.Yield("Cohorts.fire: decided | a loss told")
		k.expire(s)
	}
}

// nearby is how many holds are looked at together: so many stay in the fastest cache from the first look to the last.
// In a simulation they are few, so that something happens between two parts.
const nearby, nearbySimulated = 128, 2

// A firing is what is to be sent and told.
type firing struct {
	lost, endangered, ended []Subject
	out                     dueByNode
	firsts                  bunch // of those that have no time yet
}

// decide says what a hold needs that is due. Called with mu held.
func (k *Cohorts) decide(f *firing, now clock.Instant, s Subject) {
	h := s.Watched()
	if h.gone() {
		return
	}
	if !now.Before(SignalAt(h.Deadline(), h.Lease())) {
		// Still under watch: an answer may raise the deadline before expire looks again.
		f.lost = append(f.lost, s)
		return
	}
	// MaxHold: from now on the hold runs out.
	if h.until != 0 && !now.Before(h.until) {
		h.until = 0
		h.StopRenewing()
		f.ended = append(f.ended, s)
	}
	if h.Renewing() && !k.ended {
		if h.next == 0 {
			if !f.firsts.joins(h, h.sentAt, h.Lease()) {
				f.firsts.next = firstRenewal(k.world, now, h.sentAt, h.Lease())
			}
			h.next = f.firsts.next
			f.out.of(k, s) // its senders connect meanwhile
		}
		if !h.jeopardy && !now.Before(jeopardyAt(h.sentAt, h.Lease())) {
			h.jeopardy = true
			f.endangered = append(f.endangered, s)
		}
		// Send it, or send it over the other connection, too.
		switch {
		case h.attempt == noAttempt && !now.Before(h.next):
			h.attempt = attemptSent
			f.out.of(k, s).add(s, h.second())
		case h.attempt == attemptSent && !now.Before(h.hedge()):
			h.attempt = attemptHedged // it hangs, or waits behind one that does: the other connection may be well
			f.out.of(k, s).add(s, !h.second())
		}
	}
	k.plan(s)
}

// prefetchRoutes does the same with what routes them.
func (k *Cohorts) prefetchRoutes(due []Subject) (known uint32) {
	for _, s := range due {
		if k.route(s) != nil {
			known++
		}
	}
	return known
}

// expire declares a hold lost whose time is over. An answer may have raised the deadline since that was found: then
// the hold is looked at again later.
func (k *Cohorts) expire(s Subject) {
	h := s.Watched()
	k.mu.Lock()
	over := !k.clock.Now().Before(SignalAt(h.Deadline(), h.Lease()))
	switch {
	case !over && !h.gone():
		k.reschedule(s)
	case over:
		over = h.leave()
	}
	k.mu.Unlock()
	if over {
		k.set.Cancel(&h.item)
		k.world.Yield("Cohorts.Lose: the watch ended | the loss told")
		k.events.Lost(s, CauseDeadline)
	}
}

// Extended is Hold.Extended for a hold under watch. It reports whether the hold lives on. If not, the hold is lost,
// Lost was or will be called, and the answer proves nothing.
func (k *Cohorts) Extended(s Subject, sentAt clock.Instant, lease time.Duration) bool {
	h := s.Watched()
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now() // under mu: a deadline that is over meanwhile stays over
	if h.gone() {
		return false
	}
	h.Extended(sentAt, lease, now)
	return now.Before(h.Deadline())
}

// reschedule puts a hold into the cohort of its next look. One that left meanwhile is taken out
// again: Forget may have run between our check and the insertion.
func (k *Cohorts) reschedule(s Subject) {
	k.schedule(s)
	if h := s.Watched(); h.gone() {
		k.set.Cancel(&h.item)
	}
}

// plan is reschedule for one of many: scheduleAll carries it out. Called with mu held.
func (k *Cohorts) plan(s Subject) {
	h := s.Watched()
	if brief(h.Lease()) {
		k.reschedule(s)
		return
	}
	k.plans = append(k.plans, wheel.Plan[Subject]{Item: s, Due: h.wake()})
}

// scheduleAll puts those that are planned into their cohorts. Called with mu held.
func (k *Cohorts) scheduleAll() {
	k.set.ScheduleAll(k.plans)
	for i := range k.plans {
		if h := k.plans[i].Item.Watched(); h.gone() { // see reschedule
			k.set.Cancel(&h.item)
		}
	}
	clear(k.plans)
	k.plans = k.plans[:0]
}

// A Success is a renewal whose answer came Lag after it was due.
type Success struct {
	Subject Subject
	Lag     time.Duration
}

// answered takes the answers of a batch that was sent with a lease, over the second connection or the first. It proves
// no more than the present one: an expiry that another command has lowered since is not to be believed. And of a hold
// whose renewals have ended it proves nothing.
func (k *Cohorts) answered(second bool, lease time.Duration, subjects []Subject, answers []resp.Renewal) {
	t := taking{second: second, lease: lease, renewed: make([]Success, 0, len(subjects))}
	for from := 0; from < len(subjects); from += k.nearby {
		some := subjects[from:min(from+k.nearby, len(subjects))]
		k.world.Yield("Cohorts.answered: some taken | the next")
		k.prefetched.Store(prefetchHolds(some))
		k.mu.Lock()
		now := k.clock.Now() // under mu: a deadline that is over meanwhile stays over
		for i, s := range some {
			k.take(&t, now, s, &answers[from+i])
		}
		k.scheduleAll()
		k.mu.Unlock()
	}
	k.sent.Add(int64(len(subjects)))
	k.failed.Add(t.failed)
	k.late.Add(t.late)
	// Tell, without mu. Losses come first: their holders have to stop.
	for i, s := range t.lost {
		k.world.Yield("Cohorts.answered: deadlines raised | a loss told")
		k.Lose(s, t.causes[i])
	}
	for _, s := range t.outlasted {
		k.world.Yield("Cohorts.answered: deadlines raised | an old lease told")
		k.events.Outlasted(s)
	}
	if len(t.renewed) > 0 {
		k.world.Yield("Cohorts.answered: deadlines raised | renewals told")
		k.events.Renewed(t.renewed)
	}
}

// A taking is what the answers of a batch come to.
type taking struct {
	second          bool
	lease           time.Duration
	lost, outlasted []Subject
	causes          []Cause // of the lost
	renewed         []Success
	failed, late    int64
	bunch           bunch // of those that were renewed
}

// take takes what one answer proves. Called with mu held.
func (k *Cohorts) take(t *taking, now clock.Instant, s Subject, a *resp.Renewal) {
	h := s.Watched()
	if h.gone() {
		return
	}
	stale := h.answeredBefore(a)
	if !stale {
		h.attempt = noAttempt
	}
	// The key may outlive what is trusted now, and nobody but the engine lowers it again.
	if t.lease > h.Lease() || !h.Renewing() && TrustUntil(now, t.lease).After(h.Deadline()) {
		t.outlasted = append(t.outlasted, s)
	}
	switch {
	case stale:
		k.proves(h, a.SentAt, t.lease, now)
	case a.Code == resp.CodeRenewed:
		if now.Sub(h.sentAt) > h.Lease()/2 {
			t.late++
		}
		if lag := h.lag(now); lag >= 0 {
			t.renewed = append(t.renewed, Success{s, lag})
		}
		k.succeeded(t, h, a.SentAt, now)
	case a.Code == resp.CodeNotOurs:
		// No look is scheduled: Lose ends the watch.
		t.lost, t.causes = append(t.lost, s), append(t.causes, CauseNotOurs)
		return
	case a.Err != nil && a.Err.Class == resp.ClassWrongType:
		t.lost, t.causes = append(t.lost, s), append(t.causes, CauseWrongType)
		return
	case a.Err != nil && a.Err.Class == resp.ClassMoved: // it was refused there, and is routed anew
		t.failed++
		h.next = now
	default:
		t.failed++
		h.failing = true
		h.set(secondBit, t.second == saidBy(a.Err)) // a connection that brings an answer is well
		h.next = now.Add(retryAfter(h.Lease()))
	}
	k.plan(s)
}

// unanswered leaves out those that were released since they came due, for the server would answer that they are not
// ours, and those that an answer over the other connection has renewed.
func (k *Cohorts) unanswered(subjects []Subject) []Subject {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(subjects, func(s Subject) bool {
		h := s.Watched()
		return h.gone() || h.attempt == noAttempt
	})
}

// saidBy reports whether an error is a server's answer.
func saidBy(err *resp.ServerError) bool {
	return err != nil && err.Class != resp.ClassUnknown && err.Class != resp.ClassUnreachable
}

// succeeded takes what a success proves that was sent then. Called with mu held.
func (k *Cohorts) succeeded(t *taking, h *Hold, sentAt, now clock.Instant) {
	if h.failing {
		h.set(secondBit, false)
	}
	h.failing = false
	due := h.next
	proven := k.proves(h, sentAt, t.lease, now)
	if !t.bunch.joins(h, due, proven) || h.sentAt != t.bunch.sentAt {
		t.bunch.sentAt, t.bunch.next = h.sentAt, nextRenewal(k.world, h.sentAt, proven)
	}
	h.next = t.bunch.next
}

// proves takes what the server has proven by a success, whatever else is on its way. It returns the lease that is
// proven. Called with mu held.
func (k *Cohorts) proves(h *Hold, sentAt clock.Instant, lease time.Duration, now clock.Instant) time.Duration {
	h.jeopardy = false
	// With two connections an older attempt may be answered after a newer one.
	h.sentAt = max(h.sentAt, sentAt)
	proven := min(lease, h.Lease())
	if h.Renewing() {
		h.raise(TrustUntil(sentAt, proven), now)
	}
	return proven
}

// Stats returns the counters.
func (k *Cohorts) Stats() Stats {
	return Stats{
		Watched: int64(k.set.Len()), Sent: k.sent.Load(), Failed: k.failed.Load(), Late: k.late.Load(),
		Jeopardies: k.jeopardies.Load(),
	}
}

// Close ends the watchdog's goroutines. Holds still under watch are neither renewed nor told lost;
// the caller has released or abandoned them. Blocks: up to one attempt's limit.
func (k *Cohorts) Close() {
	k.mu.Lock()
	for _, p := range k.order {
		p.close()
	}
	// ended keeps fire from opening senders: nobody would close them.
	k.senders, k.order, k.ended = nil, nil, true
	k.mu.Unlock()
	k.wg.Wait()
}
