package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestALockIsLeftToOthersNowAndThenIfThereAreSome(t *testing.T) {
	now := clock.Instant(time.Hour)
	q := testQueue{others: 1}
	require.False(t, q.LeavesToOthers(now), "one other has the yield pause to itself")
	q.others = leaveTo
	require.True(t, q.LeavesToOthers(now))
	require.False(t, q.LeavesToOthers(now.Add(leaveEvery-1)), "so soon again")
	require.True(t, q.LeavesToOthers(now.Add(leaveEvery)))
	now = now.Add(2 * leaveEvery)
	q.Push(&opFor(fencedTraits).Waiter)
	q.Tenure(now.Add(time.Millisecond))
	require.False(t, q.LeavesToOthers(now), "the turn goes on")
	require.True(t, q.LeavesToOthers(now.Add(time.Millisecond)))
}

// parkedQueue is a queue that was told busy, and has asked again after messages since.
func parkedQueue(messages int) *testQueue {
	var q testQueue
	q.Push(&opFor(lockTraits).Waiter)
	beginAsking(&q)
	q.Sent()
	q.Landed()
	q.Busy(0, false)
	q.AfterBusy(lockTraits)
	q.missedReleases = uint8(messages)
	return &q
}

func TestWhoHearsThatALockIsLeftWaitsHoweverLongItHas(t *testing.T) {
	for messages := range mostMissed + 1 {
		q := parkedQueue(messages)
		s, pause, _ := q.Wake(WakeLeft)
		require.Equal(t, StepPause, s)
		require.Equal(t, LeftFor, pause)
		s, _, _ = q.Wake(WakeMessage)
		require.Equal(t, StepRest, s, "nothing cuts it short")
		s, _, _ = q.Wake(WakePause)
		require.Equal(t, StepSend, s)
	}
}

// An engine that is just asking when it hears that would be told "busy" by the holder before, and would ask again at
// once, because the answer is older than the message.
func TestWhoAsksWhenALockIsLeftDoesNotAskAgainAtOnce(t *testing.T) {
	q := parkedQueue(mostMissed)
	s, _, _ := q.Wake(WakeMessage)
	require.Equal(t, StepSend, s)
	beginAsking(q)
	q.Sent()
	s, pause, _ := q.Wake(WakeLeft)
	require.Equal(t, StepPause, s)
	require.Equal(t, LeftFor, pause)
	q.Landed()
	q.Busy(0, false)
	require.Equal(t, StepRest, q.AfterBusy(lockTraits))
	s, _, _ = q.Wake(WakePause)
	require.Equal(t, StepSend, s)
}

func TestASpinLockHasRivalsForAWhileAfterSomebodyElseHadIt(t *testing.T) {
	now := clock.Instant(time.Hour)
	var q testQueue
	require.False(t, q.Rivals(now), "nobody else was ever seen")
	require.False(t, q.Rivals(1), "not either by a clock that has just begun")
	q.ensureExtra().leftAt = now
	require.True(t, q.Rivals(now.Add(rivalsFor-1)))
	require.False(t, q.Rivals(now.Add(rivalsFor)))
}
