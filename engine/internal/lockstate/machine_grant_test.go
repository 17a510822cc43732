package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// What the models reach by chance is here for certain: each decision of a hold, at its boundaries.

// The faults that the engine makes of the classes of errors: attempt.go, faultOf.
//
//nolint:gochecknoglobals // constants in all but name
var (
	faultUnknown     = Fault{Transient: true}
	faultUnreachable = Fault{Definite: true, Transient: true}
	faultPartly      = Fault{Partly: true}
	faultWrongType   = Fault{Definite: true}
	faultNoPerm      = Fault{Definite: true}
	faultOOM         = Fault{Definite: true, Passes: true}
	faultMisconf     = Fault{Definite: true, Passes: true}
	faultNoReplicas  = Fault{Definite: true, Passes: true}
	faultTryAgain    = Fault{Definite: true, Transient: true, Moving: true}
)

func entering(lease time.Duration) Change {
	return Change{Enter: newOp(&Terms{Lease: lease, Watchdog: true})}
}

func leftBehind() Change {
	c := entering(time.Second)
	c.Enter.Claim()
	return c
}

func givingBack() Change { return Change{Leave: &leaver{}, Handle: &leaver{}} }
func extending() Change  { return Change{Extend: &testExtension{}} }
func settling() Change   { return Change{Settles: true} }

// A testExtension is somebody's Extend.
type testExtension struct{ state uint32 }

func (x *testExtension) Told() bool { return x.state == opDone }

// heldOf is a hold with so many handles, all of them confirmed.
func heldOf(handles int32, waiting ...Change) *Grant {
	w := &Grant{}
	w.Begin(&Terms{Family: lockTraits, Lease: time.Second, Watchdog: true}, machineNow, 0, nil)
	w.Counting(&Changes{})
	w.count, w.onWire = handles, handles
	w.Changes().queue = waiting
	return w
}

func TestMachineHoldBeginsWithOneHandleAndOneGrant(t *testing.T) {
	terms := &Terms{Lease: time.Second}
	var w Grant
	w.Begin(terms, machineNow, 7, nil)
	require.Same(t, terms, w.Terms())
	require.Equal(t, machineNow, w.tenureUntil)
	require.EqualValues(t, [4]int32{1, 1, 1, 1}, [4]int32{int32(w.grants), w.Handles(), w.Count(), w.onWire})
	require.Equal(t, 7, w.SeenBy())
	require.Equal(t, Indeterminate{}, w.Indeterminate(), "none was sent but the one that was answered")
	copies := &Indeterminate{Until: machineNow}
	w.Begin(terms, machineNow, 1<<20, copies)
	require.Equal(t, 1000, w.SeenBy(), "as many as can be asked for")
	require.Equal(t, *copies, w.Indeterminate())
	next := &Terms{Lease: time.Minute}
	require.True(t, w.LeakFound())
	require.False(t, w.LeakFound(), "that is no news")
	w.Passed(next)
	require.Same(t, next, w.Terms())
	require.EqualValues(t, 2, w.grants)
	require.True(t, w.LeakFound(), "of the next holder it is")
}

func TestMachineHoldEndsOnce(t *testing.T) {
	for _, as := range []Status{Released, Lost} {
		var w Grant
		require.True(t, w.Held())
		require.True(t, w.End(as))
		require.False(t, w.Held())
		require.False(t, w.End(Lost), "who comes second does nothing")
		require.Equal(t, as, w.Status())
	}
}

func TestMachineAskingCountsFailuresFromTheFirstOn(t *testing.T) {
	var a Asking
	a.Failed(true, Sending{machineNow, attemptLimit, time.Second}, machineNow.Add(1))
	require.Equal(t, Asking{tries: 1, since: machineNow.Add(1)}, a, "a definite error leaves no doubt")
	a.Failed(false, Sending{machineNow.Add(2), attemptLimit, time.Minute}, machineNow.Add(3))
	want := Asking{unknown: true, tries: 2, since: machineNow.Add(1)}
	want.Open = Indeterminate{Until: machineNow.Add(2 + attemptLimit + ClockSlack), Lease: time.Minute}
	require.Equal(t, want, a)
	require.Equal(t, 2, a.Tries())
	require.Equal(t, machineNow.Add(1), a.Since())
	require.True(t, a.Unknown())
	a.Answered()
	want.tries, want.since = 0, 0
	require.Equal(t, want, a, "what was sent before may still run")
}

// Each outcome by one reason alone.
func TestMachineVerdictHasOneReason(t *testing.T) {
	known, unknown := Asking{}, Asking{unknown: true}
	for _, c := range []struct {
		a                Asking
		fault            Fault
		parked, try, out bool
		want             Verdict
	}{
		{known, faultMisconf, true, false, true, KeepWaiting},
		{known, faultNoReplicas, true, false, true, KeepWaiting},
		{known, faultWrongType, true, false, false, FailServer},
		{known, faultMisconf, false, false, false, FailServer},
		{known, faultUnknown, false, false, false, KeepWaiting},
		{known, faultPartly, false, false, false, FailServer},
		{known, faultTryAgain, false, false, false, KeepWaiting},
		{unknown, faultUnknown, false, true, false, KeepWaiting},
		{unknown, faultUnknown, false, true, true, FailUnknown},
		{unknown, faultPartly, false, false, true, FailUnknown},
		{unknown, faultTryAgain, false, true, true, FailUnknown},
		{unknown, faultOOM, true, false, true, KeepWaiting},
		{unknown, faultWrongType, true, true, false, FailUnknown},
	} {
		require.Equal(t, c.want, c.a.Judge(c.fault, c.parked, c.try, c.out), "%+v", c)
	}
}

func TestMachineLastHandleFreesTheLock(t *testing.T) {
	require.True(t, (&Grant{count: 1}).LastHandle())
	require.False(t, (&Grant{count: 2}).LastHandle())
	require.True(t, heldOf(1).LastHandle())
	require.False(t, heldOf(2).LastHandle())
	require.True(t, heldOf(1, settling()).LastHandle(), "nobody waits for that")
	require.False(t, heldOf(1, settling(), entering(time.Second)).LastHandle())
	for _, c := range []Change{entering(time.Second), givingBack(), extending(), settling()} {
		w := heldOf(1)
		w.Changes().cur, w.Changes().busy = c, true
		require.Equal(t, c.Settles, w.LastHandle(), "%+v", c)
	}
}

func TestMachineHandlesThatAreGivenBackAreNotOut(t *testing.T) {
	require.EqualValues(t, 3, (&Grant{count: 3}).Out())
	w := heldOf(5, givingBack(), entering(time.Second), extending(), settling(), Change{})
	require.EqualValues(t, 3, w.Out(), "two are given back, one of them by nobody")
	w.Changes().cur = givingBack()
	require.EqualValues(t, 3, w.Out(), "it is not on its way any more")
	w.Changes().busy = true
	require.EqualValues(t, 2, w.Out())
	w.Changes().cur = entering(time.Second)
	require.EqualValues(t, 3, w.Out())
}

func TestMachineCountIsSureWhenNothingCanChangeIt(t *testing.T) {
	require.True(t, (&Grant{}).Quiet(), "it never changed")
	const later = machineNow + 5
	for name, c := range map[string]struct {
		Changes
		quiet, settling bool
		settleAt        clock.Instant
	}{
		"nothing":         {Changes{}, true, true, 0},
		"waits":           {Changes{queue: []Change{{}}, rest: machineNow}, false, false, 0},
		"on its way":      {Changes{busy: true, rest: machineNow}, false, false, 0},
		"settles":         {Changes{busy: true, cur: settling()}, false, true, 0},
		"settles, more":   {Changes{busy: true, cur: settling(), queue: []Change{{}}}, false, false, 0},
		"will settle":     {Changes{queue: []Change{settling()}}, false, true, 0},
		"will do more":    {Changes{queue: []Change{settling(), {}}}, false, false, 0},
		"a copy":          {Changes{late: Indeterminate{Until: machineNow}}, true, true, machineNow},
		"refused":         {Changes{rest: machineNow}, true, true, machineNow},
		"copy, refused":   {Changes{rest: later, late: Indeterminate{Until: machineNow}}, true, true, later},
		"copy that lasts": {Changes{rest: machineNow, late: Indeterminate{Until: later}}, true, true, later},
	} {
		w := &Grant{extra: &grantExtra{changes: &c.Changes}}
		require.Equal(t, c.quiet, w.Quiet(), name)
		require.Equal(t, c.quiet, w.Changes().Quiet(), name)
		require.Equal(t, c.settling, w.Changes().settling(), name)
		require.Equal(t, c.settleAt, w.Changes().SettleAt(), name)
		require.Equal(t, name == "nothing", w.Changes().settled(), name)
	}
}

func TestMachineUndoComesFirst(t *testing.T) {
	n := &Changes{}
	n.Want(settling())
	n.Want(extending())
	n.Undo()
	require.Len(t, n.queue, 3)
	require.Equal(t, Change{}, n.queue[0])
	require.True(t, n.queue[1].Settles)
	require.NotNil(t, n.queue[2].Extend)
}

func TestMachineEntriesThatLeftAreTakenOutAtHalf(t *testing.T) {
	n := &Changes{}
	for _, c := range []Change{leftBehind(), leftBehind(), entering(1), givingBack(), settling()} {
		n.Want(c)
	}
	n.GaveUp()
	require.Equal(t, 1, n.gone)
	n.GaveUp()
	require.Len(t, n.queue, 5, "two of five are no half")
	n.queue = n.queue[:4]
	n.gone = 1
	n.GaveUp()
	require.Len(t, n.queue, 2)
	require.Zero(t, n.gone)
	require.NotNil(t, n.queue[0].Enter)
	require.NotNil(t, n.queue[1].Leave)
}

func TestMachineOverdueTellsWhoWaitedForLonger(t *testing.T) {
	const most = time.Second
	since := func(c Change, ago time.Duration) Change {
		c.Since = machineNow.Add(-ago)
		return c
	}
	n := &Changes{busy: true, cur: since(givingBack(), most)}
	n.Want(since(entering(1), most))
	require.Empty(t, n.Overdue(machineNow, most), "not longer")
	require.Len(t, n.queue, 1)
	require.NotNil(t, n.cur.Leave)

	gone := since(extending(), 0)
	gone.Extend.(*testExtension).state = opDone
	claimed := since(extending(), 0)
	claimed.Extend.(*testExtension).state = opClaimed
	n = &Changes{busy: true, cur: since(givingBack(), most+1)}
	release := n.cur.Leave
	n.queue = []Change{
		since(entering(1), most+1), since(givingBack(), most+1), gone, since(extending(), most+1), claimed,
		since(givingBack(), 1), since(entering(1), 0),
	}
	back := n.queue
	told := n.Overdue(machineNow, most)
	require.Len(t, told, 5)
	require.Same(t, release, told[0].Leave)
	require.NotNil(t, told[1].Enter)
	require.NotNil(t, told[2].Leave)
	require.Same(t, gone.Extend, told[3].Extend)
	require.NotNil(t, told[4].Extend)
	require.True(t, n.busy, "the present change goes on")
	require.Nil(t, n.cur.Leave, "without its caller")
	require.Len(t, n.queue, 4)
	require.Nil(t, n.queue[0].Leave, "the handle is taken off all the same")
	require.EqualValues(t, 1, n.queue[0].givesBack())
	require.Same(t, claimed.Extend, n.queue[1].Extend)
	require.NotNil(t, n.queue[2].Leave, "it has not waited for long")
	require.NotNil(t, n.queue[3].Enter)
	for _, c := range back[4:] {
		require.Equal(t, Change{}, c, "nothing is kept alive")
	}

	n = &Changes{cur: since(givingBack(), most+1)}
	require.Empty(t, n.Overdue(machineNow, most), "nothing is on its way")
}

// What raises the key's expiry waits for copies of what lowers it.
func TestMachineRaisingWaitsForCopiesThatLower(t *testing.T) {
	const lease = time.Second
	until := machineNow.Add(lease)
	for name, c := range map[string]struct {
		Changes
		now  clock.Instant
		want clock.Instant
		left int
	}{
		"an Extend":               {Changes{queue: []Change{extending()}}, until - 1, until, 1},
		"the copy is harmless":    {Changes{queue: []Change{extending()}}, until, 0, 1},
		"one is on its way":       {Changes{busy: true, queue: []Change{extending()}}, until - 1, 0, 1},
		"nobody waits":            {Changes{}, until - 1, 0, 0},
		"a longer lease":          {Changes{queue: []Change{entering(lease + 1)}}, until - 1, until, 1},
		"the same lease":          {Changes{queue: []Change{entering(lease)}}, until - 1, 0, 1},
		"a handle is given back":  {Changes{queue: []Change{givingBack()}}, until - 1, 0, 1},
		"it settles":              {Changes{queue: []Change{settling()}}, until - 1, 0, 1},
		"who left does not count": {Changes{queue: []Change{leftBehind(), leftBehind(), extending()}}, until - 1, until, 1},
		"all have left":           {Changes{queue: []Change{leftBehind()}}, until - 1, 0, 0},
		"behind what lowers":      {Changes{queue: []Change{givingBack(), extending()}}, until - 1, 0, 2},
	} {
		n := c.Changes
		n.lowers = Indeterminate{Until: until, Lease: lease}
		require.Equal(t, c.want, n.HeldBack(c.now), name)
		require.Len(t, n.queue, c.left, name)
		require.Equal(t, c.now.Before(until) || c.busy || c.left > 0, n.Lowering(c.now), name)
	}
}

func TestMachineTheLeastLeaseOfOpenCopiesCounts(t *testing.T) {
	n := &Changes{}
	n.Lowered(machineNow, machineNow, attemptLimit, time.Minute)
	until := machineNow.Add(attemptLimit + ClockSlack)
	require.Equal(t, Indeterminate{Until: until, Lease: time.Minute}, n.lowers)
	n.Lowered(machineNow.Add(1), machineNow.Add(1), attemptLimit, time.Hour)
	require.Equal(t, Indeterminate{Until: until + 1, Lease: time.Minute}, n.lowers, "the copy before may still run")
	n.Lowered(machineNow.Add(2), machineNow.Add(2), attemptLimit, time.Second)
	require.Equal(t, Indeterminate{Until: until + 2, Lease: time.Second}, n.lowers)
	n.Lowered(until+2, until+2, attemptLimit, time.Hour)
	require.Equal(t, time.Hour, n.lowers.Lease, "it is harmless by now")
}

func TestMachineNextChangeIsTheCountThatIsWanted(t *testing.T) {
	for name, c := range map[string]struct {
		handles int32
		waiting Change
		step    CountStep
		target  int32
	}{
		"enters":         {2, entering(1), CountSend, 3},
		"gives back":     {2, givingBack(), CountSend, 1},
		"takes back":     {3, Change{}, CountSend, 2},
		"settles":        {2, settling(), CountSend, 2},
		"the last":       {1, givingBack(), CountReleaseLast, 0},
		"extends":        {2, extending(), CountExtend, 0},
		"left":           {2, leftBehind(), CountRest, 0},
		"settles, alone": {1, settling(), CountSend, 1},
	} {
		w := heldOf(c.handles, c.waiting, givingBack())
		w.Changes().unknown, w.Changes().tries = true, 5
		if c.step == CountRest {
			w.Changes().queue = w.Changes().queue[:1]
		}
		got, step := w.NextChange()
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.target, w.Changes().target, name)
		require.Equal(t, step == CountSend, w.Changes().busy, name)
		if step == CountRest {
			require.Empty(t, w.Changes().queue, name)
			continue
		}
		require.Equal(t, c.waiting, got, name)
		require.Len(t, w.Changes().queue, 1, name)
		if step == CountSend {
			require.Equal(t, c.waiting, w.Changes().cur, name)
			require.False(t, w.Changes().unknown, name)
			require.Zero(t, w.Changes().tries, name)
			_, again := w.NextChange()
			require.Equal(t, CountRest, again, "one at a time")
		}
	}
	w := heldOf(2, leftBehind(), leftBehind(), givingBack())
	_, step := w.NextChange()
	require.Equal(t, CountSend, step, "whoever has left is passed over")
	require.EqualValues(t, 1, w.Changes().target)
}

func TestMachineAHoldLeavesWhenItsLastHandleIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		handles int32
		cur     *Change
		waiting []Change
		leaving bool
	}{
		"nothing changes":          {handles: 1},
		"the last":                 {1, nil, []Change{givingBack()}, true},
		"one of two":               {2, nil, []Change{givingBack()}, false},
		"one of two, on its way":   {2, &Change{Leave: "x"}, nil, false},
		"both":                     {2, &Change{Leave: "x"}, []Change{givingBack()}, true},
		"entered before":           {1, nil, []Change{entering(1), givingBack()}, false},
		"entering":                 {1, &Change{Enter: entering(1).Enter}, []Change{givingBack()}, false},
		"entered afterwards":       {1, nil, []Change{givingBack(), entering(1)}, true},
		"entered before, and left": {1, nil, []Change{leftBehind(), givingBack()}, true},
		"extends and settles":      {2, &Change{Leave: "x"}, []Change{extending(), settling(), givingBack()}, true},
	} {
		w := heldOf(c.handles, c.waiting...)
		if c.cur != nil {
			w.Changes().cur, w.Changes().busy = *c.cur, true
		}
		require.Equal(t, c.leaving, w.Leaving(), name)
	}
	require.False(t, new(Grant).Leaving(), "it never changed")
}

func TestMachineConfirmedForgetsOnlyWhatCannotRun(t *testing.T) {
	sent := machineNow.Add(time.Second)
	for name, c := range map[string]struct {
		cur          Change
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
		n := w.Changes()
		n.cur, n.busy, n.target, n.rest = c.cur, true, 7, machineNow
		n.late, n.lowers = Indeterminate{Until: c.late, Lease: 1}, Indeterminate{Until: c.lowers, Lease: 1}
		if c.copies != 0 {
			w.ensureExtra().copies = &Indeterminate{Until: c.copies}
		}
		require.Equal(t, c.cur, w.Confirmed(sent, 3), name)
		require.Equal(t, 3, w.SeenBy(), name)
		require.EqualValues(t, [2]int32{7, 7}, [2]int32{w.count, w.onWire}, name)
		require.Equal(t, c.wantLate, n.late.Until, name)
		require.Equal(t, c.wantRest, n.rest, name)
		require.False(t, n.busy, name)
		require.Equal(t, Change{}, n.cur, name)
		if c.lowers <= sent {
			require.Equal(t, Indeterminate{}, n.lowers, name)
		} else {
			require.Equal(t, Indeterminate{Until: c.lowers, Lease: 1}, n.lowers, name)
		}
	}
}

func TestMachineRefusedChangeIsSettledLater(t *testing.T) {
	for _, c := range []Change{givingBack(), entering(1), settling(), extending(), {}} {
		w := heldOf(3)
		w.Changes().cur, w.Changes().busy = c, true
		require.Equal(t, c, w.Refused(machineNow))
		require.Equal(t, 3-c.givesBack(), w.count)
		require.EqualValues(t, 3, w.onWire)
		require.Equal(t, machineNow.Add(time.Second), w.Changes().rest)
		require.False(t, w.Changes().busy)
	}
}

func TestMachineFailedChangeIsSentAgainUntilItIsDefinite(t *testing.T) {
	for _, c := range []struct{ unknown, definite, transient, again bool }{
		{false, true, false, false},
		{false, true, true, true},
		{false, false, false, true},
		{true, true, false, true}, // it may have run before
	} {
		n := &Changes{busy: true, unknown: c.unknown, queue: []Change{{}, {Since: machineNow - 5}}}
		sending := Sending{machineNow - 1, attemptLimit, time.Minute}
		require.Equal(t, c.again, n.Failed(c.definite, c.transient, sending, machineNow), "%+v", c)
		require.Equal(t, 1, n.tries)
		require.Equal(t, c.unknown || !c.definite, n.unknown)
		require.Equal(t, machineNow, n.cur.Since)
		require.Equal(t, machineNow, n.queue[0].Since)
		require.Equal(t, machineNow-5, n.queue[1].Since, "its first failure counts")
		want := Indeterminate{}
		if !c.definite {
			want = Indeterminate{Until: machineNow.Add(attemptLimit + ClockSlack - 1), Lease: time.Minute}
		}
		require.Equal(t, want, n.late)
	}
}

func TestMachineDrainedHoldCountsWhatIsStillOut(t *testing.T) {
	require.Nil(t, (&Grant{count: 1}).Drain())
	w := heldOf(4, givingBack(), entering(1), settling())
	w.Changes().cur, w.Changes().busy = givingBack(), true
	all := w.Drain()
	require.Len(t, all, 4)
	require.EqualValues(t, 2, w.count)
	require.NotNil(t, all[0].Leave, "what was on its way comes first")
	require.NotNil(t, all[2].Enter)
	require.Empty(t, w.Changes().queue)
	require.Equal(t, Change{}, w.Changes().cur)
	w = heldOf(4, givingBack())
	w.Changes().cur = givingBack()
	require.Len(t, w.Drain(), 1, "nothing was on its way")
	require.EqualValues(t, 3, w.count)
}
