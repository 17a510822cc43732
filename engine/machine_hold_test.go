package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// What the models reach by chance is here for certain: each decision of a hold, at its boundaries.

// machineNow is when a test of a machine begins.
const machineNow = clock.Instant(time.Hour)

func entering(lease time.Duration) change {
	return change{acquire: &acquireOp{set: &settings{lease: lease, watchdog: true}}}
}

func leftBehind() change {
	c := entering(time.Second)
	c.acquire.claim()
	return c
}

func givingBack() change { return change{release: &releaseOp{}, lease: &Lease{}} }
func extending() change  { return change{extend: &singleOp[struct{}]{}} }
func settling() change   { return change{settles: true} }

// heldOf is a hold with so many handles, all of them confirmed.
func heldOf(handles int32, waiting ...change) *wirehold {
	w := &wirehold{reentry: &reentry{}}
	w.begin(&settings{lease: time.Second, watchdog: true}, machineNow, 0)
	w.count, w.onWire = handles, handles
	w.reentry.queue = waiting
	return w
}

func TestMachineHoldBeginsWithOneHandleAndOneGrant(t *testing.T) {
	set := &settings{lease: time.Second}
	var w wirehold
	w.begin(set, machineNow, 7)
	require.Same(t, set, w.set)
	require.Equal(t, machineNow, w.tenureUntil)
	require.EqualValues(t, [5]int{1, 1, 1, 1, 7}, [5]int{int(w.grants), int(w.handles), int(w.count), int(w.onWire), int(w.seen)})
	w.begin(set, machineNow, 1<<20)
	require.EqualValues(t, maxReplicas, w.seen)
	next := &settings{lease: time.Minute}
	w.passed(next)
	require.Same(t, next, w.set)
	require.EqualValues(t, 2, w.grants)
}

func TestMachineHoldEndsOnce(t *testing.T) {
	for _, as := range []uint32{holdReleased, holdLost} {
		var w wirehold
		require.True(t, w.end(as))
		require.False(t, w.end(holdLost), "who comes second does nothing")
		require.Equal(t, as, w.status.Load())
	}
}

func TestMachineAskingCountsFailuresFromTheFirstOn(t *testing.T) {
	var a asking
	a.failed(true, sending{machineNow, attemptLimit, time.Second}, machineNow.Add(1))
	require.Equal(t, asking{tries: 1, since: machineNow.Add(1)}, a, "a definite error leaves no doubt")
	a.failed(false, sending{machineNow.Add(2), attemptLimit, time.Minute}, machineNow.Add(3))
	want := asking{unknown: true, tries: 2, since: machineNow.Add(1)}
	want.indeterminate = indeterminate{until: machineNow.Add(2 + attemptLimit + clockSlack), lease: time.Minute}
	require.Equal(t, want, a)
	a.answered()
	want.tries, want.since = 0, 0
	require.Equal(t, want, a, "what was sent before may still run")
}

// Each outcome by one reason alone.
func TestMachineVerdictHasOneReason(t *testing.T) {
	known, unknown := asking{}, asking{unknown: true}
	for _, c := range []struct {
		a                asking
		class            resp.Class
		parked, try, out bool
		want             verdict
	}{
		{known, resp.ClassMisconf, true, false, true, keepWaiting},
		{known, resp.ClassNoReplicas, true, false, true, keepWaiting},
		{known, resp.ClassWrongType, true, false, false, failServer},
		{known, resp.ClassMisconf, false, false, false, failServer},
		{known, resp.ClassUnknown, false, false, false, keepWaiting},
		{known, resp.ClassPartly, false, false, false, failServer},
		{known, resp.ClassTryAgain, false, false, false, keepWaiting},
		{unknown, resp.ClassUnknown, false, true, false, keepWaiting},
		{unknown, resp.ClassUnknown, false, true, true, failUnknown},
		{unknown, resp.ClassPartly, false, false, true, failUnknown},
		{unknown, resp.ClassTryAgain, false, true, true, failUnknown},
		{unknown, resp.ClassOOM, true, false, true, keepWaiting},
		{unknown, resp.ClassWrongType, true, true, false, failUnknown},
	} {
		require.Equal(t, c.want, c.a.verdict(c.class, c.parked, c.try, c.out), "%+v", c)
	}
}

func TestMachineLastHandleFreesTheLock(t *testing.T) {
	require.True(t, (&wirehold{count: 1}).lastHandle())
	require.False(t, (&wirehold{count: 2}).lastHandle())
	require.True(t, heldOf(1).lastHandle())
	require.False(t, heldOf(2).lastHandle())
	require.True(t, heldOf(1, settling()).lastHandle(), "nobody waits for that")
	require.False(t, heldOf(1, settling(), entering(time.Second)).lastHandle())
	for _, c := range []change{entering(time.Second), givingBack(), extending(), settling()} {
		w := heldOf(1)
		w.reentry.cur, w.reentry.busy = c, true
		require.Equal(t, c.settles, w.lastHandle(), "%+v", c)
	}
}

func TestMachineHandlesThatAreGivenBackAreNotOut(t *testing.T) {
	require.EqualValues(t, 3, (&wirehold{count: 3}).out())
	w := heldOf(5, givingBack(), entering(time.Second), extending(), settling(), change{})
	require.EqualValues(t, 3, w.out(), "two are given back, one of them by nobody")
	w.reentry.cur = givingBack()
	require.EqualValues(t, 3, w.out(), "it is not on its way any more")
	w.reentry.busy = true
	require.EqualValues(t, 2, w.out())
	w.reentry.cur = entering(time.Second)
	require.EqualValues(t, 3, w.out())
}

func TestMachineCountIsSureWhenNothingCanChangeIt(t *testing.T) {
	require.True(t, (&wirehold{}).quiet(), "it never changed")
	for name, c := range map[string]struct {
		reentryCount
		quiet, settling bool
		settleAt        clock.Instant
	}{
		"nothing":         {reentryCount{}, true, true, 0},
		"waits":           {reentryCount{queue: []change{{}}, rest: machineNow}, false, false, 0},
		"on its way":      {reentryCount{busy: true, rest: machineNow}, false, false, 0},
		"settles":         {reentryCount{busy: true, cur: settling()}, false, true, 0},
		"settles, more":   {reentryCount{busy: true, cur: settling(), queue: []change{{}}}, false, false, 0},
		"will settle":     {reentryCount{queue: []change{settling()}}, false, true, 0},
		"will do more":    {reentryCount{queue: []change{settling(), {}}}, false, false, 0},
		"a copy":          {reentryCount{late: indeterminate{until: machineNow}}, true, true, machineNow},
		"refused":         {reentryCount{rest: machineNow}, true, true, machineNow},
		"copy, refused":   {reentryCount{rest: machineNow + 5, late: indeterminate{until: machineNow}}, true, true, machineNow + 5},
		"copy that lasts": {reentryCount{rest: machineNow, late: indeterminate{until: machineNow + 5}}, true, true, machineNow + 5},
	} {
		w := &wirehold{reentry: &reentry{reentryCount: c.reentryCount}}
		require.Equal(t, c.quiet, w.quiet(), name)
		require.Equal(t, c.quiet, w.reentry.quiet(), name)
		require.Equal(t, c.settling, w.reentry.settling(), name)
		require.Equal(t, c.settleAt, w.reentry.settleAt(), name)
		require.Equal(t, name == "nothing", w.reentry.settled(), name)
	}
}

func TestMachineUndoComesFirst(t *testing.T) {
	n := &reentryCount{}
	n.want(settling())
	n.want(extending())
	n.undo()
	require.Len(t, n.queue, 3)
	require.Equal(t, change{}, n.queue[0])
	require.True(t, n.queue[1].settles)
	require.NotNil(t, n.queue[2].extend)
}

func TestMachineEntriesThatLeftAreTakenOutAtHalf(t *testing.T) {
	n := &reentryCount{}
	for _, c := range []change{leftBehind(), leftBehind(), entering(1), givingBack(), settling()} {
		n.want(c)
	}
	n.leaves()
	require.Equal(t, 1, n.gone)
	n.leaves()
	require.Len(t, n.queue, 5, "two of five are no half")
	n.queue = n.queue[:4]
	n.gone = 1
	n.leaves()
	require.Len(t, n.queue, 2)
	require.Zero(t, n.gone)
	require.NotNil(t, n.queue[0].acquire)
	require.NotNil(t, n.queue[1].release)
}

func TestMachineOverdueTellsWhoWaitedForLonger(t *testing.T) {
	const most = time.Second
	since := func(c change, ago time.Duration) change {
		c.since = machineNow.Add(-ago)
		return c
	}
	n := &reentryCount{busy: true, cur: since(givingBack(), most)}
	n.want(since(entering(1), most))
	require.Empty(t, n.overdue(machineNow, most), "not longer")
	require.Len(t, n.queue, 1)
	require.NotNil(t, n.cur.release)

	gone := since(extending(), 0)
	gone.extend.state.Store(futureDone)
	claimed := since(extending(), 0)
	claimed.extend.state.Store(futureClaimed)
	n = &reentryCount{busy: true, cur: since(givingBack(), most+1)}
	release := n.cur.release
	n.queue = []change{
		since(entering(1), most+1), since(givingBack(), most+1), gone, since(extending(), most+1), claimed,
		since(givingBack(), 1), since(entering(1), 0),
	}
	back := n.queue
	told := n.overdue(machineNow, most)
	require.Len(t, told, 5)
	require.Same(t, release, told[0].release)
	require.NotNil(t, told[1].acquire)
	require.NotNil(t, told[2].release)
	require.Same(t, gone.extend, told[3].extend)
	require.NotNil(t, told[4].extend)
	require.True(t, n.busy, "the present change goes on")
	require.Nil(t, n.cur.release, "without its caller")
	require.Len(t, n.queue, 4)
	require.Nil(t, n.queue[0].release, "the handle is taken off all the same")
	require.EqualValues(t, 1, n.queue[0].givesBack())
	require.Same(t, claimed.extend, n.queue[1].extend)
	require.NotNil(t, n.queue[2].release, "it has not waited for long")
	require.NotNil(t, n.queue[3].acquire)
	for _, c := range back[4:] {
		require.Equal(t, change{}, c, "nothing is kept alive")
	}

	n = &reentryCount{cur: since(givingBack(), most+1)}
	require.Empty(t, n.overdue(machineNow, most), "nothing is on its way")
}

// What raises the key's expiry waits for copies of what lowers it.
func TestMachineRaisingWaitsForCopiesThatLower(t *testing.T) {
	const lease = time.Second
	until := machineNow.Add(lease)
	for name, c := range map[string]struct {
		reentryCount
		now  clock.Instant
		want clock.Instant
		left int
	}{
		"an Extend":               {reentryCount{queue: []change{extending()}}, until - 1, until, 1},
		"the copy is harmless":    {reentryCount{queue: []change{extending()}}, until, 0, 1},
		"one is on its way":       {reentryCount{busy: true, queue: []change{extending()}}, until - 1, 0, 1},
		"nobody waits":            {reentryCount{}, until - 1, 0, 0},
		"a longer lease":          {reentryCount{queue: []change{entering(lease + 1)}}, until - 1, until, 1},
		"the same lease":          {reentryCount{queue: []change{entering(lease)}}, until - 1, 0, 1},
		"a handle is given back":  {reentryCount{queue: []change{givingBack()}}, until - 1, 0, 1},
		"it settles":              {reentryCount{queue: []change{settling()}}, until - 1, 0, 1},
		"who left does not count": {reentryCount{queue: []change{leftBehind(), leftBehind(), extending()}}, until - 1, until, 1},
		"all have left":           {reentryCount{queue: []change{leftBehind()}}, until - 1, 0, 0},
		"behind what lowers":      {reentryCount{queue: []change{givingBack(), extending()}}, until - 1, 0, 2},
	} {
		n := c.reentryCount
		n.lowers = indeterminate{until: until, lease: lease}
		require.Equal(t, c.want, n.heldBack(c.now), name)
		require.Len(t, n.queue, c.left, name)
		require.Equal(t, c.now.Before(until) || c.busy || c.left > 0, n.lowering(c.now), name)
	}
}

func TestMachineTheLeastLeaseOfOpenCopiesCounts(t *testing.T) {
	n := &reentryCount{}
	n.lowered(machineNow, machineNow, attemptLimit, time.Minute)
	until := machineNow.Add(attemptLimit + clockSlack)
	require.Equal(t, indeterminate{until: until, lease: time.Minute}, n.lowers)
	n.lowered(machineNow.Add(1), machineNow.Add(1), attemptLimit, time.Hour)
	require.Equal(t, indeterminate{until: until + 1, lease: time.Minute}, n.lowers, "the copy before may still run")
	n.lowered(machineNow.Add(2), machineNow.Add(2), attemptLimit, time.Second)
	require.Equal(t, indeterminate{until: until + 2, lease: time.Second}, n.lowers)
	n.lowered(until+2, until+2, attemptLimit, time.Hour)
	require.Equal(t, time.Hour, n.lowers.lease, "it is harmless by now")
}

func TestMachineNextChangeIsTheCountThatIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		handles int32
		waiting change
		step    countStep
		target  int32
	}{
		"enters":         {2, entering(1), countSend, 3},
		"gives back":     {2, givingBack(), countSend, 1},
		"takes back":     {3, change{}, countSend, 2},
		"settles":        {2, settling(), countSend, 2},
		"the last":       {1, givingBack(), countReleaseLast, 0},
		"extends":        {2, extending(), countExtend, 0},
		"left":           {2, leftBehind(), countRest, 0},
		"settles, alone": {1, settling(), countSend, 1},
	} {
		w := heldOf(c.handles, c.waiting, givingBack())
		w.reentry.unknown, w.reentry.tries = true, 5
		if c.step == countRest {
			w.reentry.queue = w.reentry.queue[:1]
		}
		got, step := w.nextChange()
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.target, w.reentry.target, name)
		require.Equal(t, step == countSend, w.reentry.busy, name)
		if step == countRest {
			require.Empty(t, w.reentry.queue, name)
			continue
		}
		require.Equal(t, c.waiting, got, name)
		require.Len(t, w.reentry.queue, 1, name)
		if step == countSend {
			require.Equal(t, c.waiting, w.reentry.cur, name)
			require.False(t, w.reentry.unknown, name)
			require.Zero(t, w.reentry.tries, name)
			_, again := w.nextChange()
			require.Equal(t, countRest, again, "one at a time")
		}
	}
	w := heldOf(2, leftBehind(), leftBehind(), givingBack())
	_, step := w.nextChange()
	require.Equal(t, countSend, step, "whoever has left is passed over")
	require.EqualValues(t, 1, w.reentry.target)
}

func TestMachineConfirmedForgetsOnlyWhatCannotRun(t *testing.T) {
	sent := machineNow.Add(time.Second)
	for name, c := range map[string]struct {
		cur          change
		late, lowers clock.Instant
		copies       clock.Instant
		wantLate     clock.Instant
		wantRest     clock.Instant
	}{
		"all is old":                 {givingBack(), sent, sent, 0, 0, 0},
		"a copy may run":             {givingBack(), sent + 1, sent + 1, 0, sent + 1, 0},
		"an entry is no settlement":  {entering(1), 0, 0, 0, 0, machineNow},
		"of the acquire":             {givingBack(), 0, 0, sent + 5, sent + 5, 0},
		"of the acquire, harmless":   {givingBack(), 0, 0, sent, 0, 0},
		"of the acquire, and others": {givingBack(), sent + 7, sent + 7, sent + 5, sent + 7, 0},
	} {
		w := heldOf(2)
		n := w.reentry
		n.cur, n.busy, n.target, n.rest = c.cur, true, 7, machineNow
		n.late, n.lowers = indeterminate{until: c.late, lease: 1}, indeterminate{until: c.lowers, lease: 1}
		if c.copies != 0 {
			w.copies = &indeterminate{until: c.copies}
		}
		require.Equal(t, c.cur, w.confirmed(sent), name)
		require.EqualValues(t, [2]int32{7, 7}, [2]int32{w.count, w.onWire}, name)
		require.Equal(t, c.wantLate, n.late.until, name)
		require.Equal(t, c.wantRest, n.rest, name)
		require.False(t, n.busy, name)
		require.Equal(t, change{}, n.cur, name)
		if c.lowers <= sent {
			require.Equal(t, indeterminate{}, n.lowers, name)
		} else {
			require.Equal(t, indeterminate{until: c.lowers, lease: 1}, n.lowers, name)
		}
	}
}

func TestMachineRefusedChangeIsSettledLater(t *testing.T) {
	for _, c := range []change{givingBack(), entering(1), settling(), extending(), {}} {
		w := heldOf(3)
		w.reentry.cur, w.reentry.busy = c, true
		require.Equal(t, c, w.refused(machineNow))
		require.Equal(t, 3-c.givesBack(), w.count)
		require.EqualValues(t, 3, w.onWire)
		require.Equal(t, machineNow.Add(time.Second), w.reentry.rest)
		require.False(t, w.reentry.busy)
	}
}

func TestMachineFailedChangeIsSentAgainUntilItIsDefinite(t *testing.T) {
	for _, c := range []struct{ unknown, definite, transient, again bool }{
		{false, true, false, false},
		{false, true, true, true},
		{false, false, false, true},
		{true, true, false, true}, // it may have run before
	} {
		n := &reentryCount{busy: true, unknown: c.unknown, queue: []change{{}, {since: machineNow - 5}}}
		require.Equal(t, c.again, n.failed(c.definite, c.transient, sending{machineNow - 1, attemptLimit, time.Minute}, machineNow), "%+v", c)
		require.Equal(t, 1, n.tries)
		require.Equal(t, c.unknown || !c.definite, n.unknown)
		require.Equal(t, machineNow, n.cur.since)
		require.Equal(t, machineNow, n.queue[0].since)
		require.Equal(t, machineNow-5, n.queue[1].since, "its first failure counts")
		want := indeterminate{}
		if !c.definite {
			want = indeterminate{until: machineNow.Add(attemptLimit + clockSlack - 1), lease: time.Minute}
		}
		require.Equal(t, want, n.late)
	}
}

func TestMachineDrainedHoldCountsWhatIsStillOut(t *testing.T) {
	require.Nil(t, (&wirehold{count: 1}).drain())
	w := heldOf(4, givingBack(), entering(1), settling())
	w.reentry.cur, w.reentry.busy = givingBack(), true
	all := w.drain()
	require.Len(t, all, 4)
	require.EqualValues(t, 2, w.count)
	require.NotNil(t, all[0].release, "what was on its way comes first")
	require.NotNil(t, all[2].acquire)
	require.Empty(t, w.reentry.queue)
	require.Equal(t, change{}, w.reentry.cur)
	w = heldOf(4, givingBack())
	w.reentry.cur = givingBack()
	require.Len(t, w.drain(), 1, "nothing was on its way")
	require.EqualValues(t, 3, w.count)
}
