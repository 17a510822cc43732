package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// attemptLimit is how long a copy of a command may begin after it was sent.
const attemptLimit = 2 * time.Second

// A holdWorld is one wire hold and a server that knows one field. The twin counts handles.
type holdWorld struct {
	t   *rapid.T
	now clock.Instant
	w   wirehold

	handles int          // the twin: leases that callers have
	wanted  []*acquireOp // those who want in once more
	done    map[any]string

	field  int32 // the server's; 0: there is none
	copies []copied
	cur    *copied // of the present change, the last sending
	again  bool    // it waits to be sent again
	unsure bool    // an earlier sending of it got no answer

	ended    bool
	released int // releases sent for the last handle
}

// A copied change is one sending of it: it may run until its not-after has passed.
type copied struct {
	target int32
	sentAt clock.Instant
	ran    bool
	ours   bool // what the server said
}

func (hw *holdWorld) fatalIf(bad bool, format string, args ...any) {
	hw.t.Helper()
	if bad {
		hw.t.Fatalf(format, args...)
	}
}

func (hw *holdWorld) answer(who any, result string) {
	if was, twice := hw.done[who]; twice {
		hw.t.Fatalf("one caller was told %q and then %q", was, result)
	}
	hw.done[who] = result
	hw.wanted = slices.DeleteFunc(hw.wanted, func(op *acquireOp) bool { return op == who })
}

// next starts changes as the engine does.
func (hw *holdWorld) next() {
	for !hw.ended {
		c, step := hw.w.nextChange()
		switch step {
		case countRest:
			return
		case countReleaseLast:
			hw.fatalIf(hw.handles > 0, "the last release is sent with %d handles out", hw.handles)
			if c.release != nil {
				hw.answer(c.release, "released")
			}
			hw.over(holdReleased)
			return
		case countSend:
			hw.fatalIf(hw.cur != nil || hw.again, "two changes at a time")
			hw.fatalIf(c.acquire != nil && hw.done[c.acquire] != "", "a count is sent for one who has left")
			hw.fatalIf(hw.w.reentry.target < 1, "a count of %d is asked for", hw.w.reentry.target)
			hw.unsure = false
			hw.send()
		}
	}
}

func (hw *holdWorld) send() {
	hw.again = false
	hw.cur = &copied{target: hw.w.reentry.target, sentAt: hw.now}
}

// execute is the server's work on one sending.
func (hw *holdWorld) execute(c *copied) {
	c.ran = true
	if c.ours = hw.field > 0; c.ours {
		hw.field = c.target
	}
}

// reply delivers the answer to the present change.
func (hw *holdWorld) reply() {
	c := *hw.cur
	hw.cur = nil
	if !c.ours {
		hw.over(holdLost)
		return
	}
	n := hw.w.reentry
	switch ch := hw.w.confirmed(c.sentAt); {
	case ch.acquire != nil && ch.acquire.claim():
		hw.answer(ch.acquire, "entered")
		hw.handles++
	case ch.acquire != nil:
		n.undo()
	case ch.release != nil:
		hw.answer(ch.release, "released")
	}
	hw.next()
}

// drop loses the present change or its answer. A copy that has not run may do so later.
func (hw *holdWorld) drop() {
	c := *hw.cur
	hw.cur = nil
	if !c.ran {
		hw.copies = append(hw.copies, c)
	}
	hw.fatalIf(!hw.w.reentry.failed(false, true, sending{c.sentAt, attemptLimit, time.Second}, hw.now), "a change of unknown outcome is given up")
	most := attemptLimit
	if rapid.Bool().Draw(hw.t, "out of patience") {
		most = -1
	}
	hw.overdue(most)
	hw.again, hw.unsure = true, true
	if rapid.Bool().Draw(hw.t, "at once") {
		hw.send()
	}
}

// overdue tells who has waited for longer than most that nobody knows.
func (hw *holdWorld) overdue(most time.Duration) {
	for _, c := range hw.w.reentry.overdue(hw.now, most) {
		if c.acquire != nil && c.acquire.claim() {
			hw.answer(c.acquire, "unknown")
		}
		if c.release != nil {
			hw.answer(c.release, "unknown")
		}
	}
	for _, c := range append(hw.w.reentry.queue, hw.w.reentry.cur) {
		hw.fatalIf(hw.now.Sub(c.since) > most && (c.release != nil || c.acquire != nil && hw.done[c.acquire] == ""), "somebody waits on")
	}
}

// refuse answers the present change with an error of the server: nothing ran.
func (hw *holdWorld) refuse() {
	c := *hw.cur
	hw.cur = nil
	if hw.w.reentry.failed(true, false, sending{c.sentAt, attemptLimit, time.Second}, hw.now) {
		hw.again = true
		return
	}
	hw.fatalIf(hw.unsure, "a change that may have been made is given up")
	ch := hw.w.refused(hw.now)
	if ch.acquire != nil && ch.acquire.claim() {
		hw.answer(ch.acquire, "refused")
	}
	if ch.release != nil {
		hw.answer(ch.release, "refused")
	}
	hw.next()
}

// lateCopy runs one of the copies, if its not-after has not passed.
func (hw *holdWorld) lateCopy() {
	c := hw.copies[0]
	hw.copies = hw.copies[1:]
	if hw.now.Before(c.sentAt.Add(attemptLimit)) {
		hw.execute(&c)
	}
}

func (hw *holdWorld) enter() {
	op := &acquireOp{set: defaults[resp.FamilyLock]}
	hw.wanted = append(hw.wanted, op)
	hw.w.reentry.want(change{acquire: op})
	hw.next()
}

// giveBack releases one handle.
func (hw *holdWorld) giveBack(handOver bool) {
	hw.handles--
	if !hw.w.lastHandle() {
		hw.w.reentry.want(change{release: &releaseOp{}})
		hw.next()
		return
	}
	hw.fatalIf((hw.cur != nil || hw.again) && !hw.w.reentry.cur.settles, "a release overtakes a change of the count")
	hw.fatalIf(hw.handles != 0, "a release frees the lock with %d handles out", hw.handles)
	if handOver && hw.handOver() {
		return
	}
	hw.over(holdReleased)
}

func (hw *holdWorld) handOver() bool {
	with := handOffInput{now: hw.now, deadline: hw.now.Add(time.Second), lease: time.Second, renewing: true}
	if hw.w.mayHandOff(with) != handOffSafe {
		return false
	}
	hw.fatalIf(hw.field > 1, "passed on with a count of %d on the wire", hw.field)
	hw.fatalIf(hw.cur != nil || hw.again, "passed on while its count changes")
	for _, c := range hw.copies {
		hw.fatalIf(hw.now.Before(c.sentAt.Add(attemptLimit)), "passed on while a copy may still change its count")
	}
	hw.w.passed(hw.w.set)
	hw.handles = 1
	return true
}

// over ends the hold, once, whoever says so.
func (hw *holdWorld) over(as uint32) {
	if !hw.w.end(as) {
		hw.fatalIf(!hw.ended, "the status moved without an end")
		return
	}
	hw.fatalIf(hw.ended, "the status moved twice")
	hw.ended = true
	if as == holdReleased {
		hw.released++
		hw.field = 0
	}
	for _, c := range hw.w.drain() {
		if c.acquire != nil && c.acquire.claim() {
			hw.answer(c.acquire, "over")
		}
		if c.release != nil {
			hw.answer(c.release, "over")
		}
	}
	hw.fatalIf(as == holdLost && int(hw.w.count) != hw.handles, "%d handles are out, %d are remembered", hw.handles, hw.w.count)
	hw.cur, hw.again = nil, false
}

func (hw *holdWorld) events() []event {
	in := !hw.ended
	return []event{
		{"enter", in && hw.handles > 0 && hw.handles+len(hw.wanted) < 3, hw.enter},
		{"leave the queue", len(hw.wanted) > 0, func() {
			op := hw.wanted[rapid.IntRange(0, len(hw.wanted)-1).Draw(hw.t, "who")]
			op.claim()
			hw.answer(op, "gave up")
			if in {
				hw.w.reentry.leaves()
				left := 0
				for _, c := range hw.w.reentry.queue {
					if c.left() {
						left++
					}
				}
				hw.fatalIf(left > 0 && 2*left >= len(hw.w.reentry.queue), "%d that gave up still wait", left)
			}
		}},
		{"release", in && hw.handles > 0, func() { hw.giveBack(rapid.Bool().Draw(hw.t, "hand over")) }},
		{"run", hw.cur != nil && !hw.cur.ran, func() { hw.execute(hw.cur) }},
		{"answer", hw.cur != nil, func() {
			if !hw.cur.ran {
				hw.execute(hw.cur)
			}
			hw.reply()
		}},
		{"no answer", hw.cur != nil, hw.drop},
		{"refused", hw.cur != nil && !hw.cur.ran, hw.refuse},
		{"again", hw.again, hw.send},
		{"late copy", len(hw.copies) > 0, hw.lateCopy},
		{"settle", in && hw.due(), hw.settles},
		{"lost", in && rapid.IntRange(0, 9).Draw(hw.t, "luck") == 9, func() { hw.over(holdLost) }},
		{"lost too late", hw.ended, func() { hw.over(holdLost) }},
		{"anew", hw.ended && len(hw.wanted) == 0, hw.anew},
		{"deleted", hw.field > 0 && rapid.IntRange(0, 9).Draw(hw.t, "luck") == 9, func() { hw.field = 0 }},
		{"time", len(hw.copies) > 0, func() { hw.now = hw.now.Add(500 * time.Millisecond) }},
	}
}

// anew is the next grant of the name, under another owner id.
func (hw *holdWorld) anew() {
	*hw = holdWorld{t: hw.t, now: hw.now, handles: 1, field: 1, done: make(map[any]string)}
	hw.w.begin(&settings{lease: time.Second, watchdog: true}, clock.Instant(1<<62), 0)
	hw.w.reentry = &reentry{}
}

// due reports whether it is time to settle the hold.
func (hw *holdWorld) due() bool {
	at := hw.w.reentry.settleAt()
	return at != 0 && !hw.now.Before(at)
}

func (hw *holdWorld) settles() {
	hw.w.reentry.want(change{settles: true})
	hw.next()
}

// calm lets everything be answered, and the time of the last copies pass: then the count on the wire is that of the
// handles.
func (hw *holdWorld) calm() {
	for rounds := 0; !hw.ended && !hw.w.reentry.settled(); rounds++ {
		hw.fatalIf(rounds > 1000, "never settled")
		hw.check()
		switch {
		case hw.again:
			hw.send()
		case hw.cur != nil && !hw.cur.ran:
			hw.execute(hw.cur)
		case hw.cur != nil:
			hw.reply()
		case len(hw.copies) > 0:
			hw.lateCopy()
		case hw.due():
			hw.settles()
		default:
			hw.now = hw.now.Add(500 * time.Millisecond)
		}
	}
	hw.fatalIf(!hw.ended && hw.field > 0 && int(hw.field) != hw.handles, "%d handles are out, and the count on the wire is %d for good", hw.handles, hw.field)
}

// check is what holds between any two events.
func (hw *holdWorld) check() {
	n := hw.w.reentry
	hw.fatalIf(hw.ended != (hw.w.status.Load() != holdHeld), "ended is %v, the status %d", hw.ended, hw.w.status.Load())
	if hw.ended {
		hw.fatalIf(len(hw.wanted) > 0 || len(n.queue) > 0, "the hold is over and %d still wait", len(hw.wanted))
		return
	}
	hw.fatalIf(n.busy != (hw.cur != nil || hw.again), "busy is %v", n.busy)
	hw.fatalIf(hw.handles > 0 && !n.busy && len(n.queue) > 0, "changes wait and none is on its way")
	if n.settled() {
		hw.fatalIf(int(hw.w.count) != hw.handles, "%d handles are out, %d are counted", hw.handles, hw.w.count)
		hw.fatalIf(hw.field > 0 && hw.field != hw.w.onWire, "the count on the wire is %d, and should be %d", hw.field, hw.w.onWire)
	}
}

// settle answers everything, and gives every handle back: then the server is free, after one release.
func (hw *holdWorld) settle() {
	for rounds := 0; !hw.ended; rounds++ {
		hw.fatalIf(rounds > 1000, "never over")
		hw.check()
		switch {
		case hw.again:
			hw.send()
		case hw.cur != nil && !hw.cur.ran:
			hw.execute(hw.cur)
		case hw.cur != nil:
			hw.reply()
		case hw.handles > 0:
			hw.giveBack(false)
		default:
			hw.fatalIf(true, "nobody has a handle, and the lock is not released")
		}
	}
	for len(hw.copies) > 0 {
		hw.lateCopy()
	}
	if hw.w.status.Load() == holdReleased {
		hw.fatalIf(hw.field != 0 || hw.released != 1, "after %d releases the count on the wire is %d", hw.released, hw.field)
	}
	for _, op := range hw.wanted {
		hw.fatalIf(true, "%p waits for a hold that is over", op)
	}
}

// Whatever is dropped, refused, late or lost, and in whatever order: the count on the wire is what was
// last confirmed, nobody is answered twice, nothing is passed on with another count than one, the last
// handle sends one release, and the status moves once.
func TestModelWireHold(t *testing.T) {
	checkModel(t, func(t *rapid.T) {
		hw := &holdWorld{t: t, now: clock.Instant(time.Hour)}
		hw.anew()
		happen(t, hw.events, hw.check)
		hw.calm()
		hw.settle()
	})
}

// A lock is handed over when every condition holds, and as soon as one of them does not it is released:
// the rows of the table in ARCHITECTURE.md, alone and in any company.
func TestModelHandOverOnlyUnderEveryCondition(t *testing.T) {
	const lease = 10 * time.Second
	now := clock.Instant(time.Hour)
	type state struct {
		w    wirehold
		with handOffInput
	}
	rows := map[handOff]func(*state){
		handOffOff:           func(s *state) { s.with.off = true },
		handOffReentered:     func(s *state) { s.w.onWire = 2 },
		handOffCountChanging: func(s *state) { s.w.reentry.busy = true },
		handOffFamily:        func(s *state) { s.with.family = resp.FamilyFenced },
		handOffForceReleased: func(s *state) { s.w.forceReleased = true },
		handOffNotRenewed:    func(s *state) { s.with.renewing = false },
		handOffTenureOver:    func(s *state) { s.w.tenureUntil = now },
		handOffLeaseShort:    func(s *state) { s.with.deadline = now.Add(lease/2 - 1) },
		handOffIndeterminate: func(s *state) { s.w.copies = &indeterminate{until: now.Add(1)} },
		handOffNotLowered:    func(s *state) { s.with.unlowered = true },
	}
	others := []func(*state){
		func(s *state) { s.w.count = 2 },
		func(s *state) { s.w.reentry.want(change{}) },
		func(s *state) { s.w.reentry.late.unanswered(now.Add(-time.Hour), attemptLimit, lease) },
		func(s *state) { s.w.set = &settings{lease: lease} },
		func(s *state) { s.w.grants = tenureGrants },
		func(s *state) { s.with.family = resp.FamilyRead },
		func(s *state) { s.with.family = resp.FamilyFair },
		func(s *state) { s.with.reads = true },
	}
	good := func() *state {
		s := &state{with: handOffInput{now: now, deadline: now.Add(lease / 2), lease: lease, renewing: true}}
		s.w.begin(&settings{lease: lease, watchdog: true}, now.Add(1), 0)
		s.w.reentry = &reentry{}
		return s
	}
	for row, spoil := range rows {
		s := good()
		require.Equal(t, handOffSafe, s.w.mayHandOff(s.with))
		spoil(s)
		require.Equal(t, row, s.w.mayHandOff(s.with))
		others = append(others, spoil)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := good()
		n := rapid.IntRange(0, 3).Draw(t, "spoilt")
		for range n {
			others[rapid.IntRange(0, len(others)-1).Draw(t, "how")](s)
		}
		if got := s.w.mayHandOff(s.with); (got == handOffSafe) != (n == 0) {
			t.Fatalf("%d conditions fail, and the answer is %d", n, got)
		}
	})
}

// One turn is so many grants, however short they are.
func TestTurnEndsAfterItsGrants(t *testing.T) {
	var w wirehold
	set := &settings{lease: time.Second, watchdog: true}
	w.begin(set, clock.Instant(1<<62), 0)
	with := handOffInput{now: 1, deadline: clock.Instant(time.Second), lease: time.Second, renewing: true}
	grants := 1
	for ; w.mayHandOff(with) == handOffSafe; grants++ {
		w.passed(set)
	}
	require.Equal(t, tenureGrants, grants)
	require.Equal(t, handOffTenureOver, w.mayHandOff(with))
}

// What is sent for a hold that is over.
func TestWireHoldEndings(t *testing.T) {
	sent := clock.Instant(time.Hour)
	var sure, unsure wirehold
	unsure.copies = &indeterminate{}
	unsure.copies.unanswered(sent, attemptLimit, time.Second)
	closed := unsure.copies.until

	require.Equal(t, followUpNone, sure.afterRelease(true, sent))
	require.Equal(t, followUpRelease, sure.afterRelease(false, sent), "an unanswered release goes on")
	require.Equal(t, followUpReleaseLater, unsure.afterRelease(true, closed-1), "a copy of the acquire may have run after it")
	require.Equal(t, followUpNone, unsure.afterRelease(true, closed))

	for cause, want := range map[renew.Cause][2]followUp{ // sure, unsure
		renew.CauseDeadline:  {followUpRelease, followUpRelease},
		renew.CauseNotOurs:   {followUpNone, followUpReleaseLater},
		renew.CauseWrongType: {followUpNone, followUpReleaseLater},
		renew.CauseForced:    {followUpNone, followUpReleaseLater},
		renew.CauseClosed:    {followUpNone, followUpNone},
	} {
		require.Equal(t, want, [2]followUp{sure.afterLoss(cause), unsure.afterLoss(cause)}, "cause %d", cause)
	}
}

// What becomes of callers after a failure: a table of who they are and what is known.
func TestVerdictAfterAFailedAcquire(t *testing.T) {
	known, unknown := asking{}, asking{unknown: true}
	for _, c := range []struct {
		a                asking
		class            resp.Class
		parked, try, out bool
		want             verdict
	}{
		{known, resp.ClassUnreachable, true, false, true, keepWaiting}, // a waiter outlasts it
		{known, resp.ClassOOM, true, false, true, keepWaiting},
		{known, resp.ClassOOM, false, false, false, failServer},
		{known, resp.ClassNoPerm, true, false, false, failServer},
		{known, resp.ClassUnreachable, false, false, false, keepWaiting},
		{known, resp.ClassUnreachable, false, true, false, failServer}, // a Try asks once
		{known, resp.ClassUnreachable, false, false, true, failServer},
		{known, resp.ClassTryAgain, false, false, true, keepWaiting}, // the slot moves: as if the lock were held
		{known, resp.ClassTryAgain, false, true, false, keepWaiting},
		{known, resp.ClassTryAgain, false, true, true, failServer},
		{unknown, resp.ClassUnreachable, false, true, false, keepWaiting}, // the next answer is definite
		{unknown, resp.ClassUnreachable, false, false, true, failUnknown},
		{unknown, resp.ClassNoPerm, false, false, false, failUnknown},
		{unknown, resp.ClassPartly, false, false, false, failUnknown},
	} {
		require.Equal(t, c.want, c.a.verdict(c.class, c.parked, c.try, c.out), "%+v", c)
	}
}
