package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	var name, child Queue
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
	q := &Queue{ask: askInFlight, wait: waitParked, closed: closedLost, releases: 7, releaseInFlight: true, forceReleases: 9}
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
		var q Queue
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
