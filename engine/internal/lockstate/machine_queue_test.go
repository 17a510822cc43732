package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestMachineQueueUnlinksAnybody(t *testing.T) {
	a, b, c := opFor(lockTraits), opFor(lockTraits), opFor(lockTraits)
	q := queueOf(a, b, c)
	q.spins = 5
	q.Unlink(&b.Waiter)
	require.Equal(t, []*testOp{a, c}, inLine(t, q))
	require.EqualValues(t, 5, q.spins, "the first goes on with its pauses")
	q.Unlink(&b.Waiter)
	q.Unlink(&c.Waiter)
	require.Equal(t, []*testOp{a}, inLine(t, q))
	require.EqualValues(t, 5, q.spins)
	q.Unlink(&a.Waiter)
	require.Empty(t, inLine(t, q))
	require.Zero(t, q.spins, "the next begins with its first pause")
	require.False(t, a.queued)
}

func TestMachineQueueParksAnewForAFirstThatWaitsOtherwise(t *testing.T) {
	lock, read, spin := lockTraits, readTraits, newOp(&Terms{Family: spinTraits, Spin: &Spin{1, 1}})
	for name, c := range map[string]struct {
		ops  []*testOp
		who  int
		wait waitState
		want Step
	}{
		"the last":         {[]*testOp{opFor(lock)}, 0, waitParked, StepTidy},
		"the next is so":   {[]*testOp{opFor(lock), opFor(lock)}, 0, waitParked, StepRest},
		"the next is not":  {[]*testOp{opFor(lock), opFor(read)}, 0, waitParked, StepPark},
		"the next spins":   {[]*testOp{opFor(lock), spin}, 0, waitParked, StepPark},
		"it is not parked": {[]*testOp{opFor(lock), opFor(read)}, 0, waitWoken, StepRest},
		"it is in a pause": {[]*testOp{opFor(lock), opFor(read)}, 0, waitTenure, StepRest},
		"not the first":    {[]*testOp{opFor(lock), opFor(read)}, 1, waitParked, StepRest},
	} {
		q := queueOf(c.ops...)
		q.wait = c.wait
		require.Equal(t, c.want, q.Leave(&c.ops[c.who].Waiter), name)
		require.NotContains(t, inLine(t, q), c.ops[c.who], name)
		for _, op := range inLine(t, q) {
			q.Unlink(&op.Waiter)
		}
	}
}

func TestMachineQueueKnowsWhetherAWriterIsNext(t *testing.T) {
	read, write := readTraits, writeTraits
	require.False(t, (&testQueue{}).WriterNext())
	require.True(t, queueOf(opFor(write)).WriterNext())
	require.False(t, queueOf(opFor(read), opFor(write)).WriterNext())
	require.False(t, queueOf(tryFor(write)).WriterNext())
	q := queueOf(gone(opFor(read)), opFor(write))
	require.True(t, q.WriterNext())
	require.Len(t, inLine(t, q), 1, "who has left is taken out")
}

func TestMachineQueueIsClosedByAHold(t *testing.T) {
	for name, c := range map[string]struct {
		events         func(*testQueue)
		stands, closed bool
	}{
		"none":                      {func(*testQueue) {}, false, false},
		"a hold":                    {func(q *testQueue) { q.Close() }, true, true},
		"released":                  {func(q *testQueue) { q.Close(); q.Reopen() }, false, false},
		"lost":                      {func(q *testQueue) { q.Close(); q.Lost() }, false, true},
		"lost, and its holder told": {func(q *testQueue) { q.Close(); q.Lost(); q.Reopen() }, false, false},
		"held again":                {func(q *testQueue) { q.Close(); q.Lost(); q.Reopen(); q.Close() }, true, true},
	} {
		q := &testQueue{}
		c.events(q)
		require.Equal(t, c.stands, q.Standing(), name)
		require.Equal(t, c.stands, q.RefusesTry(), name)
		require.Equal(t, c.closed, !q.Empty(), name)
		q.Push(&opFor(lockTraits).Waiter)
		require.Equal(t, c.closed, q.Next() == StepRest,
			"%s: one that is lost keeps it closed until its holder is told", name)
		q.Reopen()
		require.False(t, q.Standing(), name)
		require.Equal(t, StepSend, q.Next(), name)
		q.Unlink(q.First())
		require.True(t, q.Empty(), name)
	}
}

func TestMachineTryIsRefusedBehindThoseWhoWait(t *testing.T) {
	require.False(t, (&testQueue{}).RefusesTry())
	require.True(t, queueOf(opFor(lockTraits)).RefusesTry())
	q := asked(opFor(lockTraits))
	require.False(t, q.RefusesTry(), "it takes the answer of the acquire that is on its way")
	q.wait = waitWoken
	require.True(t, q.RefusesTry())
}

func TestMachineQueueAsksUnlessSomethingStandsAgainstIt(t *testing.T) {
	require.Equal(t, StepTidy, (&testQueue{}).Next())
	for name, c := range map[string]struct {
		q    testQueue
		want Step
	}{
		"nothing":             {testQueue{}, StepSend},
		"woken":               {testQueue{wait: waitWoken}, StepSend},
		"kept":                {testQueue{ask: askKept}, StepSend},
		"on its way":          {testQueue{ask: askInFlight}, StepRest},
		"to be sent again":    {testQueue{ask: askResend}, StepRest},
		"parked":              {testQueue{wait: waitParked}, StepRest},
		"a pause":             {testQueue{wait: waitTenure}, StepRest},
		"a yield pause":       {testQueue{wait: waitYield}, StepRest},
		"a hold":              {testQueue{closed: closedHeld}, StepRest},
		"a hold that is lost": {testQueue{closed: closedLost}, StepRest},
		"a release":           {testQueue{releaseInFlight: true}, StepRest},
		"releases of it":      {testQueue{releases: 1}, StepSend},
		"a force-release":     {testQueue{extra: &rare[*testAttempt]{forceReleases: 1}}, StepRest},
		"one of the name's":   {testQueue{extra: &rare[*testAttempt]{name: &testQueue{extra: &rare[*testAttempt]{forceReleases: 1}}}}, StepRest},
	} {
		c.q.Push(&opFor(lockTraits).Waiter)
		require.Equal(t, c.want, c.q.Next(), name)
		require.False(t, c.q.resting, name)
	}
	for _, name := range []*testQueue{nil, {}} {
		q := queueOf(acked(1))
		q.ensureExtra().name = name
		require.Equal(t, StepSend, q.Next())
		q.whole().releases = 1
		require.Equal(t, StepRest, q.Next(), "it travels on another connection, and might overtake the release")
		require.True(t, q.whole().resting)
	}
	name := &testQueue{}
	require.Same(t, name, (&testQueue{extra: &rare[*testAttempt]{name: name}}).whole())
	require.Same(t, name, name.whole())
}

// A Try is told of who has a fair lock, or waits for it: not of who has left, and is just being taken out.
func TestMachineTryWaitsForWhatNobodyWantsAnyMore(t *testing.T) {
	name := &testQueue{}
	child := func(op *testOp) *testQueue {
		q := queueOf(op)
		q.Under(name)
		return q
	}
	before, try := child(opFor(fairTraits)), child(tryFor(fairTraits))
	behind, other := child(opFor(fairTraits)), child(tryFor(lockTraits))
	before.LeaveBegun()
	name.LeaveBegun()
	require.Equal(t, StepSend, before.Next(), "its place is behind theirs")
	require.Equal(t, StepSend, other.Next(), "it has no place")
	require.False(t, name.resting)
	require.Equal(t, StepRest, try.Next())
	require.Equal(t, StepRest, behind.Next(), "it does not overtake the Try")
	require.False(t, name.LeaveEnded(), "the other is on its way")
	require.Equal(t, StepRest, try.Next())
	require.True(t, before.LeaveEnded())
	require.Equal(t, StepSend, try.Next())
	require.Equal(t, StepSend, behind.Next())
	name.LeaveBegun()
	require.False(t, name.LeaveEnded(), "nobody rested")
}

func TestMachineAcquireIsForgottenOnlyWhenItIsSettled(t *testing.T) {
	first := opFor(lockTraits)
	first.attempt.field, first.attempt.placed, first.attempt.retry = "old", true, &Asking{}
	q := queueOf(first)
	require.False(t, q.Asked())
	a := beginAsking(q)
	require.Same(t, &first.attempt, a)
	require.Equal(t, askKept, q.ask)
	require.True(t, q.Asked())
	require.False(t, q.InFlight())
	require.Empty(t, a.field, "nothing of an earlier use is left")
	require.False(t, a.placed)
	require.Nil(t, a.retry)
	a.field, a.placed = "mine", true
	q.Hinted()
	require.True(t, q.hinted)
	q.overtaken = true
	q.Sent()
	require.Equal(t, askInFlight, q.ask)
	require.True(t, q.InFlight())
	require.False(t, q.hinted, "what was heard before is older than its answer")
	require.False(t, q.overtaken)
	q.Landed()
	require.Same(t, a, q.Attempt(), "it is the one that is sent again")
	require.Same(t, a, beginAsking(q))
	require.Equal(t, "mine", a.field, "the next sending keeps its owner id")
	require.Equal(t, askKept, q.ask)
	q.Resend()
	require.False(t, q.ResendDue(&testAttempt{}))
	require.Equal(t, askResend, q.ask)
	require.True(t, q.ResendDue(a))
	require.Equal(t, askKept, q.ask)
	require.False(t, q.ResendDue(a), "once")
	q.Settled()
	require.Nil(t, q.Attempt())
	require.Equal(t, askNot, q.ask)
	q.Overtake()
	require.False(t, q.overtaken, "nothing is on its way")
	q.ask = askInFlight
	q.Overtake()
	require.True(t, q.overtaken)
}

func TestMachineNewcomerIsToldThatNothingCanBeSent(t *testing.T) {
	q := queueOf(opFor(lockTraits))
	require.Equal(t, StepTidy, q.Refused())
	require.Equal(t, waitNot, q.wait)
	require.True(t, q.head.TellBusy())
	require.False(t, q.head.TellBusy(), "that is no news")
	require.False(t, (*Waiter)(nil).TellBusy())
	require.Equal(t, StepPark, q.Refused())
	require.Equal(t, waitParked, q.wait)
	for _, pause := range []waitState{waitTenure, waitYield} {
		q.wait = pause
		require.Equal(t, StepPark, q.park())
		require.Equal(t, pause, q.wait, "a pause goes on")
	}
}

func TestMachineGrantGoesToTheFirstWhoAskedForIt(t *testing.T) {
	lock := termsOf(lockTraits)
	for name, c := range map[string]struct {
		spoil func(*testQueue)
		first *testOp
		seen  int
		want  bool
	}{
		"so":              {nil, opFor(lockTraits), 0, true},
		"another lease":   {nil, newOp(&Terms{Lease: lock.Lease + 1}), 0, false},
		"another family":  {nil, newOp(&Terms{Lease: lock.Lease, Family: spinTraits}), 0, false},
		"more replicas":   {nil, newOp(&Terms{Lease: lock.Lease, Ack: &Ack{Replicas: 2}}), 1, false},
		"enough replicas": {nil, newOp(&Terms{Lease: lock.Lease, Ack: &Ack{Replicas: 2}}), 2, true},
		"overtaken":       {func(q *testQueue) { q.overtaken = true }, opFor(lockTraits), 0, false},
		"to be taken":     {func(q *testQueue) { q.ensureExtra().forceReleases = 1 }, opFor(lockTraits), 0, false},
		"of its name":     {func(q *testQueue) { q.ensureExtra().name = &testQueue{extra: &rare[*testAttempt]{forceReleases: 1}} }, opFor(lockTraits), 0, false},
	} {
		second := opFor(lockTraits)
		q := asked(gone(opFor(lockTraits)), c.first, second)
		q.late = 2
		if c.spoil != nil {
			c.spoil(q)
		}
		op := whose(q.Granted(lockTraits, lock.Lease, c.seen))
		require.Nil(t, q.attempt, name)
		require.Zero(t, q.late, name)
		if !c.want {
			require.Nil(t, op, name)
			require.Contains(t, inLine(t, q), c.first, name)
			continue
		}
		require.Same(t, c.first, op, name)
		require.Equal(t, []*testOp{second}, inLine(t, q), name)
	}
	require.Nil(t, (&testQueue{}).Granted(lockTraits, lock.Lease, 0))
}

func TestMachineGrantThatTooFewHaveSeenIsToldToWhoAskedForThat(t *testing.T) {
	first, second := acked(2), acked(2)
	q := queueOf(gone(acked(1)), first, second)
	require.Nil(t, q.GrantedUnseen(Ack{Replicas: 2, Timeout: time.Minute}, lockTraits), "it waits longer")
	require.Nil(t, q.GrantedUnseen(Ack{Replicas: 1, Timeout: time.Second}, lockTraits))
	require.Nil(t, q.GrantedUnseen(Ack{Replicas: 2, Timeout: time.Second}, fencedTraits))
	require.Same(t, first, whose(q.GrantedUnseen(Ack{Replicas: 2, Timeout: time.Second}, lockTraits)))
	require.Equal(t, []*testOp{second}, inLine(t, q))
	require.Nil(t, queueOf(opFor(lockTraits)).GrantedUnseen(Ack{}, lockTraits))
	require.Nil(t, (&testQueue{}).GrantedUnseen(Ack{}, lockTraits))
}

func TestMachineGrantThatCameTooLateIsToldToATryAtOnce(t *testing.T) {
	try := tryFor(lockTraits)
	q := asked(gone(opFor(lockTraits)), try)
	q.late = 1
	require.Same(t, try, whose(q.GrantedLate()))
	require.Zero(t, q.late, "the next has tries of its own")
	require.Empty(t, inLine(t, q))
	require.Nil(t, q.attempt)
	require.Nil(t, q.GrantedLate(), "nobody is left")
}

func TestMachineBusyEndsTheTurn(t *testing.T) {
	for _, keep := range []bool{false, true} {
		q := asked(opFor(lockTraits))
		q.tenureUntil = machineNow
		q.Landed()
		q.Busy(machineNow+5, keep)
		require.Equal(t, keep, q.attempt != nil)
		require.Equal(t, keep, q.ask == askKept)
		require.Equal(t, waitWoken, q.wait)
		require.Equal(t, machineNow+5, q.seldom().busyUntil)
		require.Zero(t, q.tenureUntil)
		q.wait = waitTenure
		q.Busy(0, keep)
		require.Equal(t, waitTenure, q.wait)
	}
}

func TestMachineAnswerIsMeantForOneKind(t *testing.T) {
	require.False(t, (&testQueue{}).Meant(lockTraits))
	require.True(t, queueOf(opFor(lockTraits)).Meant(spinTraits))
	require.False(t, queueOf(opFor(lockTraits)).Meant(fencedTraits))
}

func TestMachineAcquireForReplicasSuitsWhoWaitsForTheVerySame(t *testing.T) {
	suits := func(first *Terms) bool {
		q := asked(acked(2))
		terms, a := q.First().Of.Terms(), beginAsking(q)
		a.ack, a.lease, a.family = &Ack{Replicas: 2, Timeout: time.Second}, terms.Lease, terms.Family
		q.Unlink(q.head)
		if first != nil {
			q.Push(&newOp(first).Waiter)
		}
		return q.AcksSuit()
	}
	require.True(t, suits(nil), "nobody is first")
	require.True(t, suits(acked(2).terms))
	require.False(t, suits(acked(1).terms))
	require.False(t, suits(termsOf(lockTraits)), "it waits for none")
	other := *acked(2).terms
	other.Lease++
	require.False(t, suits(&other))
	other = *acked(2).terms
	other.Family = fencedTraits
	require.False(t, suits(&other))

	require.True(t, queueOf(acked(1)).AcksSuit(), "nothing is on its way")
	require.True(t, asked(acked(1)).AcksSuit(), "it is to be seen by nobody")
}

func TestMachineQueueGoesOnAfterBusy(t *testing.T) {
	lock, fair := lockTraits, fairTraits
	require.Equal(t, StepTidy, (&testQueue{}).AfterBusy(lock))
	for name, c := range map[string]struct {
		head  *Traits
		spoil func(*testQueue)
		want  Step
		wait  waitState
	}{
		"it is believed":         {lock, func(*testQueue) {}, StepPark, waitParked},
		"an older answer":        {lock, func(q *testQueue) { q.Hinted() }, StepSend, waitWoken},
		"of another kind":        {fencedTraits, func(*testQueue) {}, StepSend, waitNot},
		"and it was told before": {fencedTraits, func(q *testQueue) { q.head.told = true }, StepSend, waitWoken},
		"and there is a pause":   {fencedTraits, func(q *testQueue) { q.wait = waitTenure }, StepRest, waitTenure},
	} {
		q := asked(opFor(c.head))
		q.Landed()
		q.Busy(machineNow, false)
		c.spoil(q)
		require.Equal(t, c.want, q.AfterBusy(lock), name)
		require.Equal(t, c.wait, q.wait, name)
		require.Equal(t, c.wait == waitNot, q.seldom().busyUntil == 0, name)
	}
	for _, placed := range []bool{false, true} {
		q := asked(opFor(fair))
		q.Landed()
		q.Busy(machineNow, placed)
		require.Equal(t, placed, q.AfterBusy(fair) == StepPark, "it has a place to park in, or has none yet")
	}
}

func TestMachineQueueWasToldBusyUntilItIsTrueNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		q    testQueue
		want bool
	}{
		"never":               {testQueue{}, false},
		"parked":              {testQueue{wait: waitParked}, true},
		"in its turn":         {testQueue{wait: waitTenure}, true},
		"in a yield pause":    {testQueue{wait: waitYield}, false},
		"a poll":              {testQueue{wait: waitWoken, by: WakePoll, extra: &rare[*testAttempt]{busyUntil: machineNow + 1}}, true},
		"a poll at the end":   {testQueue{wait: waitWoken, by: WakePoll, extra: &rare[*testAttempt]{busyUntil: machineNow}}, false},
		"a message":           {testQueue{wait: waitWoken, by: WakeMessage, extra: &rare[*testAttempt]{busyUntil: machineNow + 1}}, false},
		"nothing, but a poll": {testQueue{by: WakePoll, extra: &rare[*testAttempt]{busyUntil: machineNow + 1}}, false},
	} {
		require.Equal(t, c.want, c.q.ToldBusy(machineNow), name)
	}
	q := queueOf(opFor(lockTraits))
	require.False(t, q.ToldBusy(machineNow))
	q.head.told = true
	require.True(t, q.ToldBusy(machineNow))
}

func TestMachineEveryTryTakesTheAnswer(t *testing.T) {
	lock := lockTraits
	a, b, left, c := tryFor(lock), tryFor(lock), gone(tryFor(lock)), tryFor(lock)
	waits, more := opFor(lock), opFor(lock)
	q := queueOf(a, waits, b, left, more, c)
	tries := q.TakeTries(lock, false)
	require.Equal(t, []*testOp{waits, more}, inLine(t, q))
	require.Equal(t, []*Waiter{&b.Waiter, &c.Waiter, nil}, []*Waiter{a.next, b.next, c.next})
	require.Equal(t, []*testOp{a, b, c}, taken(tries))
	none := queueOf(opFor(lock)).TakeTries(lock, false)
	require.True(t, none.Empty())
}

func TestMachineWakingCountsWhatGoesBy(t *testing.T) {
	for kind, c := range map[WakeKind]struct {
		hinted bool
		heard  uint8
	}{WakeMessage: {true, 1}, WakeLeft: {true, 1}, WakeLook: {true, 0}, WakePoll: {false, 0}, WakePause: {false, 0}} {
		q := queueOf(opFor(lockTraits))
		s, _, _ := q.Wake(kind)
		require.Equal(t, StepRest, s, "it was never told busy")
		require.Equal(t, waitNot, q.wait)
		require.Equal(t, c.hinted, q.hinted, "%d", kind)
		require.Equal(t, c.heard, q.missedReleases, "%d", kind)
		require.Equal(t, WakeNone, q.WokenBy())
	}
	q := queueOf(opFor(lockTraits))
	for range 5 {
		q.Wake(WakeMessage)
	}
	require.EqualValues(t, mostMissed, q.missedReleases)
	require.True(t, q.hinted)
}

func TestMachineWakingKeepsItsOrderByWhatWasHeard(t *testing.T) {
	for _, c := range []struct {
		kind  WakeKind
		heard int
		want  Step
		pause time.Duration
		by    WakeKind
	}{
		{WakeMessage, 0, StepPause, 600 * time.Microsecond, WakeMessage},
		{WakeMessage, 1, StepPause, 250 * time.Microsecond, WakeMessage},
		{WakeMessage, 2, StepSend, 0, WakeMessage},
		{WakeMessage, 3, StepSend, 0, WakeMessage},
		{WakeLook, 1, StepSend, 0, WakeLook},
		{WakePoll, 1, StepSend, 0, WakePoll},
		{WakeLeft, 3, StepPause, LeftFor, WakeMessage},
	} {
		q := parkedQueue(c.heard)
		s, pause, moved := q.Wake(c.kind)
		require.True(t, moved, "%+v", c)
		require.Equal(t, c.want, s, "%+v", c)
		require.Equal(t, c.pause, pause, "%+v", c)
		require.Equal(t, c.by, q.by, "%+v", c)
		require.Equal(t, c.want == StepPause, q.wait == waitTenure, "%+v", c)
		require.Equal(t, c.want == StepPause, q.Paused(), "%+v", c)
		if s != StepPause {
			continue
		}
		for _, other := range []WakeKind{WakeMessage, WakeLook, WakePoll, WakeLeft} {
			s, pause, moved = q.Wake(other)
			require.False(t, moved)
			require.Equal(t, StepRest, s, "nothing cuts it short")
			require.Zero(t, pause)
			require.Equal(t, c.by, q.by)
		}
		s, _, _ = q.Wake(WakePause)
		require.Equal(t, StepSend, s)
		require.Equal(t, waitWoken, q.wait)
		require.Equal(t, c.by, q.by, "that is the second half of the message")
	}
	q := parkedQueue(mostMissed)
	q.Wake(WakeMessage)
	q.releaseInFlight = true
	s, _, _ := q.Wake(WakeMessage)
	require.Equal(t, StepRest, s, "it has been woken, and goes when the release is answered")
}

func TestMachinePollComesJustBehindTheLeaseOfTheHolder(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		until         clock.Instant
		least, spread time.Duration
	}{
		"nobody knows":    {0, 800 * ms, 400 * ms},
		"far away":        {machineNow.Add(time.Hour), 800 * ms, 400 * ms},
		"half a second":   {machineNow.Add(499 * ms), 500 * ms, 100 * ms},
		"it is over":      {machineNow.Add(-time.Second), ms, 4 * ms},
		"soon":            {machineNow.Add(9 * ms), 10 * ms, 4 * ms},
		"just within":     {machineNow.Add(998 * ms), 999 * ms, 999 * ms / 5},
		"as long as that": {machineNow.Add(999 * ms), 800 * ms, 400 * ms},
		"at 20 ms":        {machineNow.Add(24 * ms), 25 * ms, 5 * ms},
	} {
		q := queueOf(opFor(lockTraits))
		q.ensureExtra().busyUntil = c.until
		least, spread := q.PollSpan(machineNow)
		require.Equal(t, [2]time.Duration{c.least, c.spread}, [2]time.Duration{least, spread}, name)
		require.Zero(t, q.spins, name)
	}
}

func TestMachineSpinLockPollsEverMoreSeldom(t *testing.T) {
	q := queueOf(newOp(&Terms{Family: spinTraits, Spin: &Spin{time.Millisecond, 4 * time.Millisecond}}))
	for i, d := range []time.Duration{1, 2, 4, 4} {
		least, spread := q.PollSpan(machineNow)
		want := [2]time.Duration{d * time.Millisecond * 3 / 4, d*time.Millisecond/2 + 1}
		require.Equal(t, want, [2]time.Duration{least, spread})
		require.EqualValues(t, i+1, q.spins)
	}
	q.spins = spinsMost - 1
	q.PollSpan(machineNow)
	q.PollSpan(machineNow)
	require.EqualValues(t, spinsMost, q.spins)
}

func TestMachineOthersWaitIfMoreHeardThanAreHere(t *testing.T) {
	waits := queueOf(opFor(lockTraits))
	for _, c := range []struct {
		q         *testQueue
		counted   bool
		heard, us int64
		want      bool
	}{
		{waits, true, 1, 1, false},
		{waits, true, 2, 1, true},
		{waits, true, 0, 0, false},
		{&testQueue{}, true, 1, 0, true},
		{waits, false, 0, 0, true},
		{&testQueue{}, false, 5, 0, false},
	} {
		require.Equal(t, c.want, c.q.OthersWait(c.counted, c.heard, c.us), "%+v", c)
	}
}

func TestMachineTurnLastsFromItsFirstGrant(t *testing.T) {
	q := queueOf(opFor(lockTraits))
	q.tenureSize = 9
	require.False(t, q.TenureOpen(0), "there is none")
	require.Equal(t, machineNow, q.Tenure(machineNow))
	require.EqualValues(t, 1, q.tenureSize)
	require.Equal(t, machineNow, q.Tenure(machineNow+5), "it goes on")
	q.Passed()
	require.EqualValues(t, 3, q.tenureSize)
	require.True(t, q.TenureOpen(machineNow-1))
	require.False(t, q.TenureOpen(machineNow))
	q.tenureSize = tenureGrants - 1
	require.True(t, q.TenureOpen(machineNow-1))
	q.Passed()
	require.False(t, q.TenureOpen(machineNow-1))
	q.tenureSize = 1
	q.Unlink(q.head)
	require.False(t, q.TenureOpen(machineNow-1), "nobody waits")

	q.ensureExtra().busyUntil = machineNow
	q.Yield()
	require.Equal(t, waitYield, q.wait)
	require.Zero(t, q.tenureUntil)
	require.Zero(t, q.seldom().busyUntil)
	require.False(t, q.Deserted(), "a yield pause outlives those who wait")
	q.StopAdmitting()
	require.Equal(t, waitWoken, q.wait)
	require.True(t, q.Deserted())
	q.wait = waitParked
	q.StopAdmitting()
	require.Equal(t, waitParked, q.wait)
	q.Push(&opFor(lockTraits).Waiter)
	require.False(t, q.Deserted())
}

func TestMachineNobodyElseIsLeftAHeadStart(t *testing.T) {
	for _, wait := range []waitState{waitNot, waitWoken, waitParked, waitTenure, waitYield} {
		for _, told := range []bool{false, true} {
			q := queueOf(opFor(lockTraits))
			q.tenureUntil, q.wait = machineNow, wait
			woken := told && (wait == waitParked || wait == waitTenure)
			require.Equal(t, woken, q.EndTenure(told), "%d %v", wait, told)
			require.Zero(t, q.tenureUntil)
			if woken {
				require.Equal(t, waitWoken, q.wait)
				require.Equal(t, WakeMessage, q.by)
			} else {
				require.Equal(t, wait, q.wait)
				require.Equal(t, WakeNone, q.by)
			}
		}
	}
}

func TestMachineQueueForgetsItsWaiting(t *testing.T) {
	q := testQueue{wait: waitTenure, extra: &rare[*testAttempt]{busyUntil: 1}, missedReleases: 2, by: WakePoll}
	q.Unpark()
	require.Equal(t, testQueue{extra: &rare[*testAttempt]{}}, q)
	for name, q := range map[string]*testQueue{
		"somebody waits": queueOf(opFor(lockTraits)), "an acquire": {attempt: &testAttempt{}},
		"a hold": {closed: closedHeld}, "a hold that is lost": {closed: closedLost},
		"a release": {releases: 1}, "a force-release": {extra: &rare[*testAttempt]{forceReleases: 1}},
	} {
		require.False(t, q.Empty(), name)
	}
	require.True(t, (&testQueue{wait: waitYield}).Empty())
}

func TestMachineHandOverTakesTheFirstWhoAsksForTheSame(t *testing.T) {
	terms := &Terms{Family: lockTraits, Lease: time.Second, Watchdog: true, Ack: &Ack{Replicas: 2}}
	g := &Grant{}
	g.Begin(terms, 0, 2, nil)
	equal, more, longer := *terms, *terms, *terms
	more.Ack, longer.Lease = &Ack{Replicas: 3}, time.Minute
	for name, c := range map[string]struct {
		first *Terms
		takes bool
	}{
		"its own": {terms, true}, "an equal one": {&equal, true},
		"more replicas": {&more, false}, "a longer lease": {&longer, false},
	} {
		first, second := newOp(c.first), newOp(terms)
		q := queueOf(gone(newOp(terms)), first, second)
		op := whose(q.TakeCompatible(g.Terms(), g.SeenBy()))
		require.Equal(t, c.takes, op == first, name)
		require.Equal(t, c.takes, op != nil, name)
		require.Equal(t, !c.takes, first.Queued(), name)
		require.True(t, second.Queued(), name)
	}
	require.Nil(t, queueOf(newOp(terms)).TakeCompatible(terms, 1), "its field was not seen by as many")
	require.Nil(t, (&testQueue{}).TakeCompatible(terms, 1))
}

func TestMachineThoseWhoWaitGoWhenTheReleaseIsAnswered(t *testing.T) {
	name := &testQueue{}
	q := queueOf(opFor(lockTraits))
	q.ensureExtra().name = name
	q.ReleaseSent()
	q.ReleaseSent()
	require.True(t, q.releaseInFlight)
	require.EqualValues(t, [2]int32{2, 2}, [2]int32{q.releases, name.releases})
	require.False(t, name.releaseInFlight, "nobody waits there")
	name.resting = true
	require.False(t, q.ReleaseAnswered())
	require.True(t, q.releaseInFlight, "another is on its way")
	require.True(t, q.ReleaseAnswered(), "a child has rested until now")
	require.False(t, q.releaseInFlight)
	require.False(t, name.resting)
	require.EqualValues(t, [2]int32{0, 0}, [2]int32{q.releases, name.releases})

	q.ReleaseSent()
	q.SendBehindRelease()
	require.False(t, q.releaseInFlight)
	require.Equal(t, StepSend, q.Next(), "right behind the release")
	require.False(t, q.ReleaseAnswered())

	alone := queueOf(opFor(lockTraits))
	alone.ReleaseSent()
	alone.resting = true
	require.True(t, alone.ReleaseAnswered())
	require.False(t, alone.resting)
	empty := &testQueue{}
	empty.ReleaseSent()
	require.False(t, empty.releaseInFlight, "nobody waits")
	require.False(t, empty.ReleaseAnswered())

	child := &testQueue{extra: &rare[*testAttempt]{name: &testQueue{releases: 1}}, resting: true}
	child.ReleaseSent()
	require.False(t, child.ReleaseAnswered(), "one of the name's is on its way")
}

// A give-back that was refused is not on its way until it is sent again: nobody waits for it, and its name stays.
func TestMachineNobodyWaitsForARefusedGiveBack(t *testing.T) {
	name := &testQueue{}
	q := queueOf(opFor(lockTraits))
	q.ensureExtra().name = name
	q.ReleaseSent()
	require.True(t, q.UnderWay())
	name.resting = true
	require.True(t, q.GivenBackLater(), "a child has rested until now")
	require.False(t, q.UnderWay())
	require.False(t, name.UnderWay())
	require.False(t, q.releaseInFlight)
	require.False(t, name.resting)
	require.False(t, name.Empty())
	q.GivenBackAgain()
	require.True(t, q.UnderWay())
	require.True(t, name.UnderWay())

	name.GivenBack()
	name.resting = true
	require.False(t, name.GivenBackLater(), "another is on its way")
	require.True(t, q.ReleaseAnswered(), "that was the last on its way")
	require.False(t, name.UnderWay())
	name.GivenBackAgain()
	require.False(t, name.ReleaseAnswered(), "nobody rests")
	require.True(t, name.Empty())
	require.EqualValues(t, [2]int32{0, 0}, [2]int32{name.releases, name.seldom().failing})
}
