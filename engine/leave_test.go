package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

func TestALockIsLeftToOthersNowAndThenIfThereAreSome(t *testing.T) {
	now := clock.Instant(time.Hour)
	q := queue{others: 1}
	require.False(t, q.leaves(now), "one other has the yield pause to itself")
	q.others = leaveTo
	require.True(t, q.leaves(now))
	require.False(t, q.leaves(now.Add(leaveEvery-1)), "so soon again")
	require.True(t, q.leaves(now.Add(leaveEvery)))
	now = now.Add(2 * leaveEvery)
	q.push(&acquireOp{set: defaults[resp.FamilyFenced]})
	q.tenure(now.Add(time.Millisecond))
	require.False(t, q.leaves(now), "the turn goes on")
	require.True(t, q.leaves(now.Add(time.Millisecond)))
}

// parkedQueue is a queue that was told busy, and has asked again after messages since.
func parkedQueue(messages int) *queue {
	var q queue
	q.push(&acquireOp{set: defaults[resp.FamilyLock]})
	q.asking(nil)
	q.sent()
	q.landed()
	q.busy(0, false)
	q.afterBusy(resp.FamilyLock)
	q.missedReleases = uint8(messages)
	return &q
}

func TestWhoHearsThatALockIsLeftWaitsHoweverLongItHas(t *testing.T) {
	for messages := range mostMissed + 1 {
		q := parkedQueue(messages)
		s, pause := q.wake(wakeLeft)
		require.Equal(t, stepPause, s)
		require.Equal(t, leftFor, pause)
		s, _ = q.wake(wakeMessage)
		require.Equal(t, stepRest, s, "nothing cuts it short")
		s, _ = q.wake(wakePause)
		require.Equal(t, stepSend, s)
	}
}

// An engine that is just asking when it hears that would be told "busy" by the holder before, and would ask again at
// once, because the answer is older than the message.
func TestWhoAsksWhenALockIsLeftDoesNotAskAgainAtOnce(t *testing.T) {
	q := parkedQueue(mostMissed)
	s, _ := q.wake(wakeMessage)
	require.Equal(t, stepSend, s)
	q.asking(nil)
	q.sent()
	s, pause := q.wake(wakeLeft)
	require.Equal(t, stepPause, s)
	require.Equal(t, leftFor, pause)
	q.landed()
	q.busy(0, false)
	require.Equal(t, stepRest, q.afterBusy(resp.FamilyLock))
	s, _ = q.wake(wakePause)
	require.Equal(t, stepSend, s)
}

func TestASpinLockHasRivalsForAWhileAfterSomebodyElseHadIt(t *testing.T) {
	now := clock.Instant(time.Hour)
	var q queue
	require.False(t, q.rivals(now), "nobody else was ever seen")
	require.False(t, q.rivals(1), "not either by a clock that has just begun")
	q.leftAt = now
	require.True(t, q.rivals(now.Add(rivalsFor-1)))
	require.False(t, q.rivals(now.Add(rivalsFor)))
}
