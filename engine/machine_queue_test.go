package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

func opOf(f resp.Family) *acquireOp { return &acquireOp{set: defaults[f]} }

func tryOf(f resp.Family) *acquireOp { return &acquireOp{set: defaults[f], try: true} }

func acked(n int) *acquireOp {
	return &acquireOp{set: &settings{lease: time.Second, watchdog: true, ack: &resp.Ack{Replicas: n, Timeout: time.Second}}}
}

func gone(op *acquireOp) *acquireOp {
	op.claim()
	return op
}

// queueOf is a queue of some ops, in order.
func queueOf(ops ...*acquireOp) *queue {
	q := &queue{}
	for _, op := range ops {
		q.push(op)
	}
	return q
}

// inLine lists who is in the queue, and sees to it that its links lead back.
func inLine(t *testing.T, q *queue) (ops []*acquireOp) {
	t.Helper()
	var before *acquireOp
	for op := q.head; op != nil; before, op = op, op.next {
		require.Same(t, before, op.prev)
		require.True(t, op.queued)
		ops = append(ops, op)
	}
	require.Same(t, before, q.tail)
	return ops
}

// asked is a queue whose acquire is on its way.
func asked(ops ...*acquireOp) *queue {
	q := queueOf(ops...)
	q.asking(nil)
	q.sent()
	return q
}

func TestMachineQueueUnlinksAnybody(t *testing.T) {
	a, b, c := opOf(0), opOf(0), opOf(0)
	q := queueOf(a, b, c)
	q.spins = 5
	q.unlink(b)
	require.Equal(t, []*acquireOp{a, c}, inLine(t, q))
	require.EqualValues(t, 5, q.spins, "the first goes on with its pauses")
	q.unlink(b)
	q.unlink(c)
	require.Equal(t, []*acquireOp{a}, inLine(t, q))
	require.EqualValues(t, 5, q.spins)
	q.unlink(a)
	require.Empty(t, inLine(t, q))
	require.Zero(t, q.spins, "the next begins with its first pause")
	require.False(t, a.queued)
}

func TestMachineQueueParksAnewForAFirstThatWaitsOtherwise(t *testing.T) {
	lock, read, spin := resp.FamilyLock, resp.FamilyRead, &acquireOp{set: &settings{spin: &spinning{1, 1}}}
	for name, c := range map[string]struct {
		ops  []*acquireOp
		who  int
		wait waitState
		want step
	}{
		"the last":         {[]*acquireOp{opOf(lock)}, 0, waitParked, stepTidy},
		"the next is so":   {[]*acquireOp{opOf(lock), opOf(lock)}, 0, waitParked, stepRest},
		"the next is not":  {[]*acquireOp{opOf(lock), opOf(read)}, 0, waitParked, stepPark},
		"the next spins":   {[]*acquireOp{opOf(lock), spin}, 0, waitParked, stepPark},
		"it is not parked": {[]*acquireOp{opOf(lock), opOf(read)}, 0, waitWoken, stepRest},
		"it is in a pause": {[]*acquireOp{opOf(lock), opOf(read)}, 0, waitTenure, stepRest},
		"not the first":    {[]*acquireOp{opOf(lock), opOf(read)}, 1, waitParked, stepRest},
	} {
		q := queueOf(c.ops...)
		q.wait = c.wait
		require.Equal(t, c.want, q.leave(c.ops[c.who]), name)
		require.NotContains(t, inLine(t, q), c.ops[c.who], name)
		for _, op := range inLine(t, q) {
			q.unlink(op)
		}
	}
}

func TestMachineQueueKnowsWhetherAWriterIsNext(t *testing.T) {
	const read, write = resp.FamilyRead, resp.FamilyWrite
	require.False(t, (&queue{}).writerNext())
	require.True(t, queueOf(opOf(write)).writerNext())
	require.False(t, queueOf(opOf(read), opOf(write)).writerNext())
	require.False(t, queueOf(tryOf(write)).writerNext())
	q := queueOf(gone(opOf(read)), opOf(write))
	require.True(t, q.writerNext())
	require.Len(t, inLine(t, q), 1, "who has left is taken out")
}

func TestMachineQueueIsClosedByAHold(t *testing.T) {
	lost := &hold{}
	lost.end(holdLost)
	released := &hold{}
	released.end(holdReleased)
	for _, c := range []struct {
		h      *hold
		stands bool
	}{{nil, false}, {&hold{}, true}, {released, true}, {lost, false}} {
		q := &queue{}
		if c.h != nil {
			q.held(c.h)
		}
		require.Equal(t, c.stands, q.standing() != nil)
		require.Equal(t, c.stands, q.refusesTry())
		q.push(opOf(0))
		require.Equal(t, c.h != nil, q.next() == stepRest, "one that is lost keeps it closed until its holder is told")
		require.False(t, q.freed(&hold{}))
		require.Equal(t, c.h != nil, q.hold != nil)
		require.Equal(t, c.h != nil, q.freed(c.h) && q.hold == nil && c.h != nil)
	}
}

func TestMachineTryIsRefusedBehindThoseWhoWait(t *testing.T) {
	require.False(t, (&queue{}).refusesTry())
	require.True(t, queueOf(opOf(0)).refusesTry())
	q := asked(opOf(0))
	require.False(t, q.refusesTry(), "it takes the answer of the acquire that is on its way")
	q.wait = waitWoken
	require.True(t, q.refusesTry())
}

func TestMachineQueueAsksUnlessSomethingStandsAgainstIt(t *testing.T) {
	require.Equal(t, stepTidy, (&queue{}).next())
	for name, c := range map[string]struct {
		q    queue
		want step
	}{
		"nothing":           {queue{}, stepSend},
		"woken":             {queue{wait: waitWoken}, stepSend},
		"kept":              {queue{ask: askKept}, stepSend},
		"on its way":        {queue{ask: askInFlight}, stepRest},
		"to be sent again":  {queue{ask: askResend}, stepRest},
		"parked":            {queue{wait: waitParked}, stepRest},
		"a pause":           {queue{wait: waitTenure}, stepRest},
		"a yield pause":     {queue{wait: waitYield}, stepRest},
		"a hold":            {queue{hold: &hold{}}, stepRest},
		"a release":         {queue{releaseInFlight: true}, stepRest},
		"releases of it":    {queue{releases: 1}, stepSend},
		"a force-release":   {queue{forceReleases: 1}, stepRest},
		"one of the name's": {queue{name: &queue{forceReleases: 1}}, stepRest},
	} {
		c.q.push(opOf(0))
		require.Equal(t, c.want, c.q.next(), name)
		require.False(t, c.q.resting, name)
	}
	for _, name := range []*queue{nil, {}} {
		q := queueOf(acked(1))
		q.name = name
		require.Equal(t, stepSend, q.next())
		q.whole().releases = 1
		require.Equal(t, stepRest, q.next(), "it travels on another connection, and might overtake the release")
		require.True(t, q.whole().resting)
	}
	name := &queue{}
	require.Same(t, name, (&queue{name: name}).whole())
	require.Same(t, name, name.whole())
}

func TestMachineAcquireIsForgottenOnlyWhenItIsSettled(t *testing.T) {
	first := opOf(0)
	first.att.op.Field, first.att.op.Placed, first.att.retry = "old", true, &retryState{}
	q := queueOf(first)
	a := q.asking(nil)
	require.Same(t, &first.att, a)
	require.Equal(t, askKept, q.ask)
	require.Empty(t, a.op.Field, "nothing of an earlier use is left")
	require.False(t, a.op.Placed)
	require.Nil(t, a.retry)
	a.op.Field, a.op.Placed = "mine", true
	q.epoch = 7
	q.overtaken = true
	q.sent()
	require.Equal(t, askInFlight, q.ask)
	require.EqualValues(t, 7, q.askEpoch)
	require.False(t, q.overtaken)
	q.landed()
	require.Same(t, a, q.asking(nil))
	require.Equal(t, "mine", a.op.Field, "the next sending keeps its owner id")
	require.Equal(t, askKept, q.ask)
	q.resend()
	require.False(t, q.resendDue(&attempt{}))
	require.Equal(t, askResend, q.ask)
	require.True(t, q.resendDue(a))
	require.Equal(t, askKept, q.ask)
	require.False(t, q.resendDue(a), "once")
	q.settled()
	require.Nil(t, q.att)
	require.Equal(t, askNot, q.ask)
	q.overtake()
	require.False(t, q.overtaken, "nothing is on its way")
	q.ask = askInFlight
	q.overtake()
	require.True(t, q.overtaken)
}

func TestMachineNewcomerIsToldThatNothingCanBeSent(t *testing.T) {
	q := queueOf(opOf(0))
	require.Equal(t, stepTidy, q.refused())
	require.Equal(t, waitNot, q.wait)
	require.True(t, q.head.tellBusy())
	require.False(t, q.head.tellBusy(), "that is no news")
	require.False(t, (*acquireOp)(nil).tellBusy())
	require.Equal(t, stepPark, q.refused())
	require.Equal(t, waitParked, q.wait)
	for _, pause := range []waitState{waitTenure, waitYield} {
		q.wait = pause
		require.Equal(t, stepPark, q.park())
		require.Equal(t, pause, q.wait, "a pause goes on")
	}
}

func TestMachineGrantGoesToTheFirstWhoAskedForIt(t *testing.T) {
	lock := defaults[resp.FamilyLock]
	for name, c := range map[string]struct {
		spoil func(*queue)
		first *acquireOp
		seen  int
		want  bool
	}{
		"so":              {nil, opOf(0), 0, true},
		"another lease":   {nil, &acquireOp{set: &settings{lease: lock.lease + 1}}, 0, false},
		"another family":  {nil, &acquireOp{set: &settings{lease: lock.lease, family: resp.FamilySpin}}, 0, false},
		"more replicas":   {nil, &acquireOp{set: &settings{lease: lock.lease, ack: &resp.Ack{Replicas: 2}}}, 1, false},
		"enough replicas": {nil, &acquireOp{set: &settings{lease: lock.lease, ack: &resp.Ack{Replicas: 2}}}, 2, true},
		"overtaken":       {func(q *queue) { q.overtaken = true }, opOf(0), 0, false},
		"to be taken":     {func(q *queue) { q.forceReleases = 1 }, opOf(0), 0, false},
		"of its name":     {func(q *queue) { q.name = &queue{forceReleases: 1} }, opOf(0), 0, false},
	} {
		second := opOf(0)
		q := asked(gone(opOf(0)), c.first, second)
		q.late = 2
		if c.spoil != nil {
			c.spoil(q)
		}
		op := q.granted(lock.lease, resp.FamilyLock, c.seen)
		require.Nil(t, q.att, name)
		require.Zero(t, q.late, name)
		if !c.want {
			require.Nil(t, op, name)
			require.Contains(t, inLine(t, q), c.first, name)
			continue
		}
		require.Same(t, c.first, op, name)
		require.Equal(t, []*acquireOp{second}, inLine(t, q), name)
	}
	require.Nil(t, (&queue{}).granted(lock.lease, resp.FamilyLock, 0))
}

func TestMachineGrantThatTooFewHaveSeenIsToldToWhoAskedForThat(t *testing.T) {
	first, second := acked(2), acked(2)
	q := queueOf(gone(acked(1)), first, second)
	require.Nil(t, q.grantedUnseen(&resp.Ack{Replicas: 2, Timeout: time.Minute}, resp.FamilyLock), "it waits longer")
	require.Nil(t, q.grantedUnseen(&resp.Ack{Replicas: 1, Timeout: time.Second}, resp.FamilyLock))
	require.Nil(t, q.grantedUnseen(&resp.Ack{Replicas: 2, Timeout: time.Second}, resp.FamilyFenced))
	require.Same(t, first, q.grantedUnseen(&resp.Ack{Replicas: 2, Timeout: time.Second}, resp.FamilyLock))
	require.Equal(t, []*acquireOp{second}, inLine(t, q))
	require.Nil(t, queueOf(opOf(0)).grantedUnseen(&resp.Ack{}, resp.FamilyLock))
	require.Nil(t, (&queue{}).grantedUnseen(&resp.Ack{}, resp.FamilyLock))
}

func TestMachineGrantThatCameTooLateIsToldToATryAtOnce(t *testing.T) {
	try := tryOf(0)
	q := asked(gone(opOf(0)), try)
	q.late = 1
	require.Same(t, try, q.grantedLate())
	require.Zero(t, q.late, "the next has tries of its own")
	require.Empty(t, inLine(t, q))
	require.Nil(t, q.att)
	require.Nil(t, q.grantedLate(), "nobody is left")
}

func TestMachineBusyEndsTheTurn(t *testing.T) {
	for _, keep := range []bool{false, true} {
		q := asked(opOf(0))
		q.tenureUntil = machineNow
		q.landed()
		q.busy(machineNow+5, keep)
		require.Equal(t, keep, q.att != nil)
		require.Equal(t, keep, q.ask == askKept)
		require.Equal(t, waitWoken, q.wait)
		require.Equal(t, machineNow+5, q.busyUntil)
		require.Zero(t, q.tenureUntil)
		q.wait = waitTenure
		q.busy(0, keep)
		require.Equal(t, waitTenure, q.wait)
	}
}

func TestMachineAnswerIsMeantForOneKind(t *testing.T) {
	require.False(t, (&queue{}).meant(resp.FamilyLock))
	require.True(t, queueOf(opOf(resp.FamilyLock)).meant(resp.FamilySpin))
	require.False(t, queueOf(opOf(resp.FamilyLock)).meant(resp.FamilyFenced))
}

func TestMachineAcquireForReplicasSuitsWhoWaitsForTheVerySame(t *testing.T) {
	suits := func(first *settings) bool {
		q := asked(acked(2))
		set := q.head.set
		q.att.op.Ack, q.att.lease, q.att.op.Family = &resp.Ack{Replicas: 2, Timeout: time.Second}, set.lease, set.family
		q.unlink(q.head)
		if first != nil {
			q.push(&acquireOp{set: first})
		}
		return q.acksSuit()
	}
	require.True(t, suits(nil), "nobody is first")
	require.True(t, suits(acked(2).set))
	require.False(t, suits(acked(1).set))
	require.False(t, suits(defaults[resp.FamilyLock]), "it waits for none")
	other := *acked(2).set
	other.lease++
	require.False(t, suits(&other))
	other = *acked(2).set
	other.family = resp.FamilyFenced
	require.False(t, suits(&other))

	require.True(t, queueOf(acked(1)).acksSuit(), "nothing is on its way")
	require.True(t, asked(acked(1)).acksSuit(), "it is to be seen by nobody")
}

func TestMachineQueueGoesOnAfterBusy(t *testing.T) {
	const lock, fair = resp.FamilyLock, resp.FamilyFair
	require.Equal(t, stepTidy, (&queue{}).afterBusy(lock))
	for name, c := range map[string]struct {
		head  resp.Family
		spoil func(*queue)
		want  step
		wait  waitState
	}{
		"it is believed":         {lock, func(*queue) {}, stepPark, waitParked},
		"an older answer":        {lock, func(q *queue) { q.epoch++ }, stepSend, waitWoken},
		"of another kind":        {resp.FamilyFenced, func(*queue) {}, stepSend, waitNot},
		"and it was told before": {resp.FamilyFenced, func(q *queue) { q.head.told = true }, stepSend, waitWoken},
		"and there is a pause":   {resp.FamilyFenced, func(q *queue) { q.wait = waitTenure }, stepRest, waitTenure},
	} {
		q := asked(opOf(c.head))
		q.landed()
		q.busy(machineNow, false)
		c.spoil(q)
		require.Equal(t, c.want, q.afterBusy(lock), name)
		require.Equal(t, c.wait, q.wait, name)
		require.Equal(t, c.wait == waitNot, q.busyUntil == 0, name)
	}
	for _, placed := range []bool{false, true} {
		q := asked(opOf(fair))
		q.landed()
		q.busy(machineNow, placed)
		require.Equal(t, placed, q.afterBusy(fair) == stepPark, "it has a place to park in, or has none yet")
	}
}

func TestMachineQueueWasToldBusyUntilItIsTrueNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		q    queue
		want bool
	}{
		"never":               {queue{}, false},
		"parked":              {queue{wait: waitParked}, true},
		"in its turn":         {queue{wait: waitTenure}, true},
		"in a yield pause":    {queue{wait: waitYield}, false},
		"a poll":              {queue{wait: waitWoken, by: wakePoll, busyUntil: machineNow + 1}, true},
		"a poll at the end":   {queue{wait: waitWoken, by: wakePoll, busyUntil: machineNow}, false},
		"a message":           {queue{wait: waitWoken, by: wakeMessage, busyUntil: machineNow + 1}, false},
		"nothing, but a poll": {queue{by: wakePoll, busyUntil: machineNow + 1}, false},
	} {
		require.Equal(t, c.want, c.q.toldBusy(machineNow), name)
	}
	q := queueOf(opOf(0))
	require.False(t, q.toldBusy(machineNow))
	q.head.told = true
	require.True(t, q.toldBusy(machineNow))
}

func TestMachineEveryTryTakesTheAnswer(t *testing.T) {
	const lock = resp.FamilyLock
	a, b, left, c := tryOf(lock), tryOf(lock), gone(tryOf(lock)), tryOf(lock)
	waits, more := opOf(lock), opOf(lock)
	q := queueOf(a, waits, b, left, more, c)
	require.Same(t, a, q.takeTries(lock, false))
	require.Equal(t, []*acquireOp{waits, more}, inLine(t, q))
	require.Same(t, b, a.next)
	require.Same(t, c, b.next)
	require.Nil(t, c.next)
	require.Nil(t, queueOf(opOf(lock)).takeTries(lock, false))
}

func TestMachineWakingCountsWhatGoesBy(t *testing.T) {
	for kind, c := range map[wakeKind]struct {
		epoch uint32
		heard uint8
	}{wakeMessage: {1, 1}, wakeLeft: {1, 1}, wakeLook: {1, 0}, wakePoll: {0, 0}, wakePause: {0, 0}} {
		q := queueOf(opOf(0))
		s, _ := q.wake(kind)
		require.Equal(t, stepRest, s, "it was never told busy")
		require.Equal(t, waitNot, q.wait)
		require.Equal(t, c.epoch, q.epoch, "%d", kind)
		require.Equal(t, c.heard, q.missedReleases, "%d", kind)
		require.Equal(t, wakeNone, q.by)
	}
	q := queueOf(opOf(0))
	for range 5 {
		q.wake(wakeMessage)
	}
	require.EqualValues(t, mostMissed, q.missedReleases)
	require.EqualValues(t, 5, q.epoch)
}

func TestMachineWakingKeepsItsOrderByWhatWasHeard(t *testing.T) {
	for _, c := range []struct {
		kind  wakeKind
		heard int
		want  step
		pause time.Duration
		by    wakeKind
	}{
		{wakeMessage, 0, stepPause, 600 * time.Microsecond, wakeMessage},
		{wakeMessage, 1, stepPause, 250 * time.Microsecond, wakeMessage},
		{wakeMessage, 2, stepSend, 0, wakeMessage},
		{wakeMessage, 3, stepSend, 0, wakeMessage},
		{wakeLook, 1, stepSend, 0, wakeLook},
		{wakePoll, 1, stepSend, 0, wakePoll},
		{wakeLeft, 3, stepPause, leftFor, wakeMessage},
	} {
		q := parkedQueue(c.heard)
		s, pause := q.wake(c.kind)
		require.Equal(t, c.want, s, "%+v", c)
		require.Equal(t, c.pause, pause, "%+v", c)
		require.Equal(t, c.by, q.by, "%+v", c)
		require.Equal(t, c.want == stepPause, q.wait == waitTenure, "%+v", c)
		if s != stepPause {
			continue
		}
		for _, other := range []wakeKind{wakeMessage, wakeLook, wakePoll, wakeLeft} {
			s, pause = q.wake(other)
			require.Equal(t, stepRest, s, "nothing cuts it short")
			require.Zero(t, pause)
			require.Equal(t, c.by, q.by)
		}
		s, _ = q.wake(wakePause)
		require.Equal(t, stepSend, s)
		require.Equal(t, waitWoken, q.wait)
		require.Equal(t, c.by, q.by, "that is the second half of the message")
	}
	q := parkedQueue(mostMissed)
	q.wake(wakeMessage)
	q.releaseInFlight = true
	s, _ := q.wake(wakeMessage)
	require.Equal(t, stepRest, s, "it has been woken, and goes when the release is answered")
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
		q := queueOf(opOf(0))
		q.busyUntil = c.until
		least, spread := q.pollSpan(machineNow)
		require.Equal(t, [2]time.Duration{c.least, c.spread}, [2]time.Duration{least, spread}, name)
		require.Zero(t, q.spins, name)
	}
}

func TestMachineSpinLockPollsEverMoreSeldom(t *testing.T) {
	q := queueOf(&acquireOp{set: &settings{spin: &spinning{time.Millisecond, 4 * time.Millisecond}}})
	for i, d := range []time.Duration{1, 2, 4, 4} {
		least, spread := q.pollSpan(machineNow)
		require.Equal(t, [2]time.Duration{d * time.Millisecond * 3 / 4, d*time.Millisecond/2 + 1}, [2]time.Duration{least, spread})
		require.EqualValues(t, i+1, q.spins)
	}
	q.spins = spinsMost - 1
	q.pollSpan(machineNow)
	q.pollSpan(machineNow)
	require.EqualValues(t, spinsMost, q.spins)
}

func TestMachineOthersWaitIfMoreHeardThanAreHere(t *testing.T) {
	waits := queueOf(opOf(0))
	for _, c := range []struct {
		q         *queue
		counted   bool
		heard, us int64
		want      bool
	}{
		{waits, true, 1, 1, false},
		{waits, true, 2, 1, true},
		{waits, true, 0, 0, false},
		{&queue{}, true, 1, 0, true},
		{waits, false, 0, 0, true},
		{&queue{}, false, 5, 0, false},
	} {
		require.Equal(t, c.want, c.q.othersWait(c.counted, c.heard, c.us), "%+v", c)
	}
}

func TestMachineTurnLastsFromItsFirstGrant(t *testing.T) {
	q := queueOf(opOf(0))
	q.tenureSize = 9
	require.False(t, q.tenureOpen(0), "there is none")
	require.Equal(t, machineNow, q.tenure(machineNow))
	require.EqualValues(t, 1, q.tenureSize)
	require.Equal(t, machineNow, q.tenure(machineNow+5), "it goes on")
	q.passed()
	require.EqualValues(t, 3, q.tenureSize)
	require.True(t, q.tenureOpen(machineNow-1))
	require.False(t, q.tenureOpen(machineNow))
	q.tenureSize = tenureGrants - 1
	require.True(t, q.tenureOpen(machineNow-1))
	q.passed()
	require.False(t, q.tenureOpen(machineNow-1))
	q.tenureSize = 1
	q.unlink(q.head)
	require.False(t, q.tenureOpen(machineNow-1), "nobody waits")

	q.busyUntil = machineNow
	q.yield()
	require.Equal(t, waitYield, q.wait)
	require.Zero(t, q.tenureUntil)
	require.Zero(t, q.busyUntil)
	require.False(t, q.deserted(), "a yield pause outlives those who wait")
	q.stopAdmitting()
	require.Equal(t, waitWoken, q.wait)
	require.True(t, q.deserted())
	q.wait = waitParked
	q.stopAdmitting()
	require.Equal(t, waitParked, q.wait)
	q.push(opOf(0))
	require.False(t, q.deserted())
}

func TestMachineNobodyElseIsLeftAHeadStart(t *testing.T) {
	for _, wait := range []waitState{waitNot, waitWoken, waitParked, waitTenure, waitYield} {
		for _, told := range []bool{false, true} {
			q := queueOf(opOf(0))
			q.tenureUntil, q.wait = machineNow, wait
			woken := told && (wait == waitParked || wait == waitTenure)
			require.Equal(t, woken, q.endTenure(told), "%d %v", wait, told)
			require.Zero(t, q.tenureUntil)
			if woken {
				require.Equal(t, waitWoken, q.wait)
				require.Equal(t, wakeMessage, q.by)
			} else {
				require.Equal(t, wait, q.wait)
				require.Equal(t, wakeNone, q.by)
			}
		}
	}
}

func TestMachineQueueForgetsItsWaiting(t *testing.T) {
	q := queue{wait: waitTenure, busyUntil: 1, missedReleases: 2, by: wakePoll}
	q.unpark()
	require.Equal(t, queue{}, q)
	for name, q := range map[string]*queue{
		"somebody waits": queueOf(opOf(0)), "an acquire": {att: &attempt{}}, "a hold": {hold: &hold{}},
		"a release": {releases: 1}, "a force-release": {forceReleases: 1},
	} {
		require.False(t, q.empty(), name)
	}
	require.True(t, (&queue{wait: waitYield}).empty())
}

func TestMachineHandOverTakesTheFirstWhoAsksForTheSame(t *testing.T) {
	set := &settings{lease: time.Second, watchdog: true, ack: &resp.Ack{Replicas: 2}}
	h := &hold{}
	h.begin(set, 0, 2)
	equal, more, longer := *set, *set, *set
	more.ack, longer.lease = &resp.Ack{Replicas: 3}, time.Minute
	for name, c := range map[string]struct {
		first *settings
		takes bool
	}{"its own": {set, true}, "an equal one": {&equal, true}, "more replicas": {&more, false}, "a longer lease": {&longer, false}} {
		first, second := &acquireOp{set: c.first}, &acquireOp{set: set}
		q := queueOf(gone(&acquireOp{set: set}), first, second)
		op := q.takeCompatible(h)
		require.Equal(t, c.takes, op == first, name)
		require.Equal(t, c.takes, op != nil, name)
		require.Equal(t, !c.takes, first.queued, name)
		require.True(t, second.queued, name)
	}
	h.seen = 1
	require.Nil(t, queueOf(&acquireOp{set: set}).takeCompatible(h), "its field was not seen by as many")
	require.Nil(t, (&queue{}).takeCompatible(h))
}

func TestMachineThoseWhoWaitGoWhenTheReleaseIsAnswered(t *testing.T) {
	name := &queue{}
	q := queueOf(opOf(0))
	q.name = name
	q.releaseSent()
	q.releaseSent()
	require.True(t, q.releaseInFlight)
	require.EqualValues(t, [2]int32{2, 2}, [2]int32{q.releases, name.releases})
	require.False(t, name.releaseInFlight, "nobody waits there")
	name.resting = true
	require.False(t, q.releaseAnswered())
	require.True(t, q.releaseInFlight, "another is on its way")
	require.True(t, q.releaseAnswered(), "a child has rested until now")
	require.False(t, q.releaseInFlight)
	require.False(t, name.resting)
	require.EqualValues(t, [2]int32{0, 0}, [2]int32{q.releases, name.releases})

	q.releaseSent()
	q.sendBehindRelease()
	require.False(t, q.releaseInFlight)
	require.Equal(t, stepSend, q.next(), "right behind the release")
	require.False(t, q.releaseAnswered())

	alone := queueOf(opOf(0))
	alone.releaseSent()
	alone.resting = true
	require.True(t, alone.releaseAnswered())
	require.False(t, alone.resting)
	empty := &queue{}
	empty.releaseSent()
	require.False(t, empty.releaseInFlight, "nobody waits")
	require.False(t, empty.releaseAnswered())

	child := &queue{name: &queue{releases: 1}, resting: true}
	child.releaseSent()
	require.False(t, child.releaseAnswered(), "one of the name's is on its way")
}
