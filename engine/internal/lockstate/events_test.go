package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestAGrantKnowsTheLongestLeaseThatWasAskedFor(t *testing.T) {
	var w Grant
	w.AsksFor(2 * time.Second)
	w.AsksFor(time.Second)
	require.Equal(t, Indeterminate{Lease: 2 * time.Second}, w.Indeterminate())

	open := &Indeterminate{Until: 7, Lease: 5 * time.Second}
	var late Grant
	late.Begin(termsOf(lockTraits), 0, 0, open)
	late.AsksFor(time.Second)
	require.Equal(t, Indeterminate{Until: 7, Lease: 5 * time.Second}, late.Indeterminate())
	late.AsksFor(time.Minute)
	require.Equal(t, Indeterminate{Until: 7, Lease: time.Minute}, late.Indeterminate(), "the copies may run all the same")
}

func TestAGrantCountsItsHandles(t *testing.T) {
	var w Grant
	w.Begin(termsOf(readTraits), 0, 0, nil)
	require.EqualValues(t, 1, w.Handles())
	w.HandleJoined()
	w.HandleJoined()
	require.EqualValues(t, 3, w.Handles())
	w.HandleLeft()
	require.EqualValues(t, 2, w.Handles())
	w.OnlyHandle()
	require.EqualValues(t, 1, w.Handles())
	require.True(t, w.LeakFound(), "nobody can release it")
	require.False(t, w.LeakFound(), "told once")
	w.Passed(termsOf(readTraits))
	require.True(t, w.LeakFound(), "of the next holder nothing is known")
	w.Passed(termsOf(readTraits))
	w.ShareJoined()
	require.EqualValues(t, 2, w.Count())
	require.False(t, w.LeakFound(), "of several handles none is missed")
	w.ShareLeft()
	require.EqualValues(t, 1, w.Count())
}

func TestANameKnowsOfTheLossesOfItsChildren(t *testing.T) {
	var name, child testQueue
	child.Under(&name)
	require.False(t, name.LossUntold())
	child.LossBegun()
	name.LossBegun()
	require.True(t, name.LossUntold())
	require.True(t, child.LossUntold())
	child.LossTold()
	require.True(t, name.LossUntold(), "one more holder is to be told")
	name.LossTold()
	require.False(t, name.LossUntold())
	require.False(t, child.LossUntold())
}

func TestAQueueSaysWhereItIs(t *testing.T) {
	q := &testQueue{ask: askInFlight, wait: waitParked, closed: closedLost, releases: 7, releaseInFlight: true, extra: &rare[*testAttempt]{forceReleases: 9}}
	require.Equal(t, "ask 1 wait 2 closed 2 releases 7 in flight true forces 9", q.String())
}

func TestWhoElseHeardAReleaseIsCounted(t *testing.T) {
	for _, c := range []struct {
		counted   bool
		heard, us int64
		others    uint8
		crowded   bool
	}{
		{false, 0, 0, leaveTo, true}, // as far as anybody knows
		{true, 0, 1, 0, false},
		{true, 1, 1, 0, false},
		{true, 2, 1, 1, false},
		{true, 3, 1, leaveTo, true},
		{true, 900, 0, leaveTo, true},
	} {
		var q testQueue
		q.ReleaseHeard(c.counted, c.heard, c.us)
		require.Equal(t, c.others, q.others, "%+v", c)
		require.Equal(t, c.crowded, q.Crowded(), "%+v", c)
	}
}

func TestALossClosesNoQueueThatIsOpen(t *testing.T) {
	q := queueOf(opFor(lockTraits))
	q.Lost()
	require.Equal(t, StepSend, q.Next())
}

func TestWhoLeavesAsItIsToldOfALateGrantIsNotTold(t *testing.T) {
	op := tryFor(lockTraits)
	op.beaten = true
	q := queueOf(op)
	require.Nil(t, q.GrantedLate())
	require.False(t, op.Queued())
}

// Nobody is known to want a lock: nobody waits here, the last release was heard by nobody else, and nobody else had it when
// this engine's tenure began, or since.
func TestALockIsUnwantedUntilSomebodyIsKnownToWantIt(t *testing.T) {
	const us = 1
	for name, c := range map[string]struct {
		do   func(q *testQueue)
		want bool
	}{
		"nothing is known":           {func(*testQueue) {}, true},
		"a grant at once":            {func(q *testQueue) { q.Tenure(9) }, true},
		"nobody heard a release":     {func(q *testQueue) { q.ReleaseHeard(true, us, us); q.Tenure(9) }, true},
		"nobody could count":         {func(q *testQueue) { q.ReleaseHeard(false, 7, 0); q.Tenure(9) }, true},
		"somebody heard":             {func(q *testQueue) { q.ReleaseHeard(true, us+1, us) }, false},
		"before the tenure":          {func(q *testQueue) { q.ReleaseHeard(true, us+1, us); q.Tenure(9) }, false},
		"within it":                  {func(q *testQueue) { q.Tenure(9); q.ReleaseHeard(true, us+1, us) }, false},
		"within it, and then nobody": {func(q *testQueue) { q.Tenure(9); q.ReleaseHeard(true, 1, 0); q.Tenure(9); q.ReleaseHeard(true, 0, 0) }, false},
		"in the one before": {func(q *testQueue) {
			q.ReleaseHeard(true, 1, 0)
			q.Tenure(9)
			q.ReleaseHeard(true, 0, 0)
			q.EndTenure(false)
			q.Tenure(9)
		}, true},
		"it was waited for": {func(q *testQueue) { q.wait = waitWoken; q.Tenure(9); q.Unpark() }, false},
		"and then not":      {func(q *testQueue) { q.wait = waitWoken; q.Tenure(9); q.Unpark(); q.EndTenure(false); q.Tenure(9) }, true},
		"somebody waits":    {func(q *testQueue) { q.Push(&opFor(lockTraits).Waiter) }, false},
	} {
		var q testQueue
		c.do(&q)
		require.Equal(t, c.want, q.Unwanted(), name)
	}
}

// Whoever comes while a release is on its way that was sent for others waits for its answer.
func TestWhoComesBehindALingeringWaitsForItsRelease(t *testing.T) {
	var q testQueue
	q.ReleaseSent()
	q.Push(&opFor(lockTraits).Waiter)
	require.Equal(t, StepSend, q.Next(), "behind another release it goes at once")
	q.HoldBehindRelease()
	require.Equal(t, StepRest, q.Next())
	q.ReleaseAnswered()
	require.Equal(t, StepSend, q.Next())
}

// What lingers is nobody's, and may be passed on after the tenure, but for no more than its grants, and once.
func TestWhatLingersIsPassedOnOnceMore(t *testing.T) {
	terms := &Terms{Family: lockTraits, Lease: time.Second, Watchdog: true}
	var w Grant
	w.Begin(terms, 10, 0, nil)
	with := HandOffInput{Now: 10, Deadline: clock.Instant(time.Second), Lease: time.Second, Renewing: true}
	require.Equal(t, HandOffTenureOver, w.MayHandOff(with))
	w.Linger()
	require.True(t, w.Lingers())
	require.Zero(t, w.Handles())
	require.Equal(t, HandOffSafe, w.MayHandOff(with))
	w.Passed(terms)
	require.False(t, w.Lingers())
	require.Equal(t, HandOffTenureOver, w.MayHandOff(with))
	w.Linger()
	w.grants = tenureGrants
	require.Equal(t, HandOffTenureOver, w.MayHandOff(with))
}
