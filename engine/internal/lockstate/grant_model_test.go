package lockstate

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// attemptLimit is how long a copy of a command may begin after it was sent.
const attemptLimit = 2 * time.Second

// A holdWorld is one wire hold and a server that knows one field. The twin counts handles.
type holdWorld struct {
	t   *rapid.T
	now clock.Instant
	w   Grant

	handles int       // the twin: leases that callers have
	wanted  []*testOp // those who want in once more
	done    map[any]string

	field  int32 // the server's; 0: there is none
	copies []copied
	cur    *copied // of the present change, the last sending
	again  bool    // it waits to be sent again
	unsure bool    // an earlier sending of it got no answer

	ended    bool
	leaving  bool // the last handle was on its way back when it was last asked
	released int  // releases sent for the last handle
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
	hw.wanted = slices.DeleteFunc(hw.wanted, func(op *testOp) bool { return op == who })
}

// next starts changes as the engine does.
func (hw *holdWorld) next() {
	for !hw.ended {
		leaving := hw.w.Leaving()
		hw.fatalIf(hw.leaving && !leaving, "the last handle was on its way back, and stays")
		hw.leaving = leaving
		c, step := hw.w.NextChange()
		switch step {
		case CountRest:
			return
		case CountReleaseLast:
			hw.fatalIf(hw.handles > 0, "the last release is sent with %d handles out", hw.handles)
			hw.fatalIf(!leaving, "nobody knew that the last handle was on its way back")
			if c.Leave != nil {
				hw.answer(c.Leave, "released")
			}
			hw.over(Released)
			return
		case CountSend:
			hw.fatalIf(hw.cur != nil || hw.again, "two changes at a time")
			hw.fatalIf(c.Enter != nil && hw.done[c.Enter] != "", "a count is sent for one who has left")
			hw.fatalIf(hw.w.Changes().Target() < 1, "a count of %d is asked for", hw.w.Changes().Target())
			hw.unsure = false
			hw.send()
		}
	}
}

func (hw *holdWorld) send() {
	hw.again = false
	hw.cur = &copied{target: hw.w.Changes().Target(), sentAt: hw.now}
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
		hw.over(Lost)
		return
	}
	n := hw.w.Changes()
	switch ch := hw.w.Confirmed(c.sentAt, 0); {
	case ch.Enter != nil && ch.Enter.Claim():
		hw.answer(ch.Enter, "entered")
		hw.handles++
	case ch.Enter != nil:
		n.Undo()
	case ch.Leave != nil:
		hw.answer(ch.Leave, "released")
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
	again := hw.w.Changes().Failed(false, true, Sending{c.sentAt, attemptLimit, time.Second}, hw.now)
	hw.fatalIf(!again, "a change of unknown outcome is given up")
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
	for _, c := range hw.w.Changes().Overdue(hw.now, most) {
		if c.Enter != nil && c.Enter.Claim() {
			hw.answer(c.Enter, "unknown")
		}
		if c.Leave != nil {
			hw.answer(c.Leave, "unknown")
		}
	}
	for _, c := range append(hw.w.Changes().queue, hw.w.Changes().cur) {
		waits := c.Leave != nil || c.Enter != nil && hw.done[c.Enter] == ""
		hw.fatalIf(hw.now.Sub(c.Since) > most && waits, "somebody waits on")
	}
}

// refuse answers the present change with an error of the server: nothing ran.
func (hw *holdWorld) refuse() {
	c := *hw.cur
	hw.cur = nil
	if hw.w.Changes().Failed(true, false, Sending{c.sentAt, attemptLimit, time.Second}, hw.now) {
		hw.again = true
		return
	}
	hw.fatalIf(hw.unsure, "a change that may have been made is given up")
	ch := hw.w.Refused(hw.now)
	if ch.Enter != nil && ch.Enter.Claim() {
		hw.answer(ch.Enter, "refused")
	}
	if ch.Leave != nil {
		hw.answer(ch.Leave, "refused")
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
	op := opFor(lockTraits)
	hw.wanted = append(hw.wanted, op)
	hw.w.Changes().Want(Change{Enter: op})
	hw.next()
}

// giveBack releases one handle.
func (hw *holdWorld) giveBack(handOver bool) {
	hw.handles--
	if !hw.w.LastHandle() {
		hw.w.Changes().Want(Change{Leave: &leaver{}})
		hw.next()
		return
	}
	hw.fatalIf((hw.cur != nil || hw.again) && !hw.w.Changes().cur.Settles, "a release overtakes a change of the count")
	hw.fatalIf(hw.handles != 0, "a release frees the lock with %d handles out", hw.handles)
	if handOver && hw.handOver() {
		return
	}
	hw.over(Released)
}

func (hw *holdWorld) handOver() bool {
	with := HandOffInput{Now: hw.now, Deadline: hw.now.Add(time.Second), Lease: time.Second, Renewing: true}
	if hw.w.MayHandOff(with) != HandOffSafe {
		return false
	}
	hw.fatalIf(hw.field > 1, "passed on with a count of %d on the wire", hw.field)
	hw.fatalIf(hw.cur != nil || hw.again, "passed on while its count changes")
	for _, c := range hw.copies {
		hw.fatalIf(hw.now.Before(c.sentAt.Add(attemptLimit)), "passed on while a copy may still change its count")
	}
	hw.w.Passed(hw.w.terms)
	hw.handles = 1
	return true
}

// over ends the hold, once, whoever says so.
func (hw *holdWorld) over(as Status) {
	if !hw.w.End(as) {
		hw.fatalIf(!hw.ended, "the status moved without an end")
		return
	}
	hw.fatalIf(hw.ended, "the status moved twice")
	hw.ended = true
	if as == Released {
		hw.released++
		hw.field = 0
	}
	for _, c := range hw.w.Drain() {
		if c.Enter != nil && c.Enter.Claim() {
			hw.answer(c.Enter, "over")
		}
		if c.Leave != nil {
			hw.answer(c.Leave, "over")
		}
	}
	hw.fatalIf(as == Lost && int(hw.w.Count()) != hw.handles,
		"%d handles are out, %d are remembered", hw.handles, hw.w.Count())
	hw.cur, hw.again = nil, false
}

func (hw *holdWorld) events() []event {
	in := !hw.ended
	return []event{
		{"enter", in && hw.handles > 0 && hw.handles+len(hw.wanted) < 3, hw.enter},
		{"leave the queue", len(hw.wanted) > 0, func() {
			op := hw.wanted[rapid.IntRange(0, len(hw.wanted)-1).Draw(hw.t, "who")]
			op.Claim()
			hw.answer(op, "gave up")
			if in {
				hw.w.Changes().GaveUp()
				left := 0
				for _, c := range hw.w.Changes().queue {
					if c.Left() {
						left++
					}
				}
				hw.fatalIf(left > 0 && 2*left >= len(hw.w.Changes().queue), "%d that gave up still wait", left)
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
		{"lost", in && rapid.IntRange(0, 9).Draw(hw.t, "luck") == 9, func() { hw.over(Lost) }},
		{"lost too late", hw.ended, func() { hw.over(Lost) }},
		{"anew", hw.ended && len(hw.wanted) == 0, hw.anew},
		{"deleted", hw.field > 0 && rapid.IntRange(0, 9).Draw(hw.t, "luck") == 9, func() { hw.field = 0 }},
		{"time", len(hw.copies) > 0, func() { hw.now = hw.now.Add(500 * time.Millisecond) }},
	}
}

// anew is the next grant of the name, under another owner id.
func (hw *holdWorld) anew() {
	*hw = holdWorld{t: hw.t, now: hw.now, handles: 1, field: 1, done: make(map[any]string)}
	hw.w.Begin(&Terms{Family: lockTraits, Lease: time.Second, Watchdog: true}, clock.Instant(1<<62), 0, nil)
	hw.w.Counting(&Changes{})
}

// due reports whether it is time to settle the hold.
func (hw *holdWorld) due() bool {
	at := hw.w.Changes().SettleAt()
	return at != 0 && !hw.now.Before(at)
}

func (hw *holdWorld) settles() {
	hw.w.Changes().Want(Change{Settles: true})
	hw.next()
}

// calm lets everything be answered, and the time of the last copies pass: then the count on the wire is that of the
// handles.
func (hw *holdWorld) calm() {
	for rounds := 0; !hw.ended && !hw.w.Changes().settled(); rounds++ {
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
	hw.fatalIf(!hw.ended && hw.field > 0 && int(hw.field) != hw.handles,
		"%d handles are out, and the count on the wire is %d for good", hw.handles, hw.field)
}

// check is what holds between any two events.
func (hw *holdWorld) check() {
	n := hw.w.Changes()
	hw.fatalIf(hw.ended != (hw.w.Status() != Held), "ended is %v, the status %d", hw.ended, hw.w.Status())
	if hw.ended {
		hw.fatalIf(len(hw.wanted) > 0 || len(n.queue) > 0, "the hold is over and %d still wait", len(hw.wanted))
		return
	}
	hw.fatalIf(n.busy != (hw.cur != nil || hw.again), "busy is %v", n.busy)
	hw.fatalIf(hw.handles > 0 && !n.busy && len(n.queue) > 0, "changes wait and none is on its way")
	if n.settled() {
		hw.fatalIf(int(hw.w.count) != hw.handles, "%d handles are out, %d are counted", hw.handles, hw.w.count)
		hw.fatalIf(hw.field > 0 && hw.field != hw.w.onWire,
			"the count on the wire is %d, and should be %d", hw.field, hw.w.onWire)
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
	if hw.w.Status() == Released {
		hw.fatalIf(hw.field != 0 || hw.released != 1, "after %d releases the count on the wire is %d", hw.released, hw.field)
	}
	for _, op := range hw.wanted {
		hw.fatalIf(true, "%p waits for a hold that is over", op)
	}
}

// A leaver waits to be told that a handle was given back.
type leaver struct{ _ byte } // one is not another, as it may be of no size

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
		w    Grant
		with HandOffInput
	}
	// of makes the terms another family's.
	of := func(f *Traits) func(*state) {
		return func(s *state) {
			terms := *s.w.terms
			terms.Family = f
			s.w.SetTerms(&terms)
		}
	}
	rows := map[HandOff]func(*state){
		HandOffOff:           func(s *state) { s.with.Off = true },
		HandOffReentered:     func(s *state) { s.w.onWire = 2 },
		HandOffCountChanging: func(s *state) { s.w.Changes().busy = true },
		HandOffFamily:        of(fencedTraits),
		HandOffForceReleased: func(s *state) { s.w.forceReleased = true },
		HandOffNotRenewed:    func(s *state) { s.with.Renewing = false },
		HandOffTenureOver:    func(s *state) { s.w.tenureUntil = now },
		HandOffLeaseShort:    func(s *state) { s.with.Deadline = now.Add(lease/2 - 1) },
		HandOffIndeterminate: func(s *state) { s.w.ensureExtra().copies = &Indeterminate{Until: now.Add(1)} },
		HandOffNotLowered:    func(s *state) { s.with.Unlowered = true },
	}
	others := []func(*state){
		func(s *state) { s.w.count = 2 },
		func(s *state) { s.w.Changes().Want(Change{}) },
		func(s *state) { s.w.Changes().late.Unanswered(now.Add(-time.Hour), attemptLimit, lease) },
		func(s *state) { s.w.SetTerms(&Terms{Family: s.w.terms.Family, Lease: lease}) },
		func(s *state) { s.w.grants = tenureGrants },
		of(readTraits),
		of(fairTraits),
		func(s *state) { s.with.Reads = true },
	}
	good := func() *state {
		s := &state{with: HandOffInput{Now: now, Deadline: now.Add(lease / 2), Lease: lease, Renewing: true}}
		s.w.Begin(&Terms{Family: lockTraits, Lease: lease, Watchdog: true}, now.Add(1), 0, nil)
		s.w.Counting(&Changes{})
		return s
	}
	for row, spoil := range rows {
		s := good()
		require.Equal(t, HandOffSafe, s.w.MayHandOff(s.with))
		spoil(s)
		require.Equal(t, row, s.w.MayHandOff(s.with))
		others = append(others, spoil)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := good()
		n := rapid.IntRange(0, 3).Draw(t, "spoilt")
		for range n {
			others[rapid.IntRange(0, len(others)-1).Draw(t, "how")](s)
		}
		if got := s.w.MayHandOff(s.with); (got == HandOffSafe) != (n == 0) {
			t.Fatalf("%d conditions fail, and the answer is %d", n, got)
		}
	})
}

// One turn is so many grants, however short they are.
func TestTurnEndsAfterItsGrants(t *testing.T) {
	var w Grant
	terms := &Terms{Family: lockTraits, Lease: time.Second, Watchdog: true}
	w.Begin(terms, clock.Instant(1<<62), 0, nil)
	with := HandOffInput{Now: 1, Deadline: clock.Instant(time.Second), Lease: time.Second, Renewing: true}
	grants := 1
	for ; w.MayHandOff(with) == HandOffSafe; grants++ {
		w.Passed(terms)
	}
	require.Equal(t, tenureGrants, grants)
	require.Equal(t, HandOffTenureOver, w.MayHandOff(with))
}

// What is sent for a hold that is over.
func TestWireHoldEndings(t *testing.T) {
	sent := clock.Instant(time.Hour)
	sure, unsure := Grant{terms: &Terms{}}, Grant{terms: &Terms{}}
	unsure.ensureExtra().copies = &Indeterminate{}
	unsure.ensureExtra().copies.Unanswered(sent, attemptLimit, time.Second)
	closed := unsure.ensureExtra().copies.Until

	require.Equal(t, FollowUpNone, sure.AfterRelease(true, sent))
	require.Equal(t, FollowUpRelease, sure.AfterRelease(false, sent), "an unanswered release goes on")
	require.Equal(t, FollowUpReleaseLater, unsure.AfterRelease(true, closed-1),
		"a copy of the acquire may have run after it")
	require.Equal(t, FollowUpNone, unsure.AfterRelease(true, closed))

	for why, want := range map[Loss][2]FollowUp{ // sure, unsure
		LossDeadline: {FollowUpRelease, FollowUpRelease},
		LossTaken:    {FollowUpNone, FollowUpReleaseLater}, // not ours, of another type, or forced
		LossKept:     {FollowUpNone, FollowUpNone},
	} {
		require.Equal(t, want, [2]FollowUp{sure.AfterLoss(why), unsure.AfterLoss(why)}, "loss %d", why)
	}
	var several Grant
	several.terms = &Terms{Units: 2}
	require.Equal(t, FollowUpRelease, several.AfterLoss(LossTaken), "one of them was taken, the other is still leased")
	require.Equal(t, FollowUpNone, several.AfterLoss(LossKept))
}

// What becomes of callers after a failure: a table of who they are and what is known.
func TestVerdictAfterAFailedAcquire(t *testing.T) {
	known, unknown := Asking{}, Asking{unknown: true}
	for _, c := range []struct {
		a                Asking
		fault            Fault
		parked, try, out bool
		want             Verdict
	}{
		{known, faultUnreachable, true, false, true, KeepWaiting}, // a waiter outlasts it
		{known, faultOOM, true, false, true, KeepWaiting},
		{known, faultOOM, false, false, false, FailServer},
		{known, faultNoPerm, true, false, false, FailServer},
		{known, faultUnreachable, false, false, false, KeepWaiting},
		{known, faultUnreachable, false, true, false, FailServer}, // a Try asks once
		{known, faultUnreachable, false, false, true, FailServer},
		{known, faultTryAgain, false, false, true, KeepWaiting}, // the slot moves: as if the lock were held
		{known, faultTryAgain, false, true, false, KeepWaiting},
		{known, faultTryAgain, false, true, true, FailServer},
		{unknown, faultUnreachable, false, true, false, KeepWaiting}, // the next answer is definite
		{unknown, faultUnreachable, false, false, true, FailUnknown},
		{unknown, faultNoPerm, false, false, false, FailUnknown},
		{unknown, faultPartly, false, false, false, FailUnknown},
	} {
		require.Equal(t, c.want, c.a.Judge(c.fault, c.parked, c.try, c.out), "%+v", c)
	}
}
