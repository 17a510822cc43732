package lockstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// What counts is when a command was sent. A copy of the acquire can run between the server's work on
// a later command and the arrival of its answer: an answer that comes after the not-after, to a
// command sent before it, is not the last word.
func TestDoubtIsClosedBySendingNotByAnswers(t *testing.T) {
	const limit = 2500 * time.Millisecond
	start := clock.Instant(time.Hour)
	var d Indeterminate
	require.False(t, d.MayRunAfter(start), "nothing was left unanswered")
	d.Unanswered(start, limit, time.Second)
	require.True(t, d.MayRunAfter(start.Add(limit)), "clock rates may differ")
	require.True(t, d.MayRunAfter(start.Add(limit+ClockSlack-1)))
	require.False(t, d.MayRunAfter(start.Add(limit+ClockSlack)))
}

func TestDoubtKeepsTheLatestCopyAndTheLongestLease(t *testing.T) {
	var d Indeterminate
	d.Unanswered(clock.Instant(2*time.Second), time.Second, 10*time.Second)
	d.Unanswered(clock.Instant(time.Second), time.Second, time.Minute)
	d.Unanswered(clock.Instant(time.Second), time.Second, time.Second)
	require.Equal(t, clock.Instant(3*time.Second+ClockSlack), d.Until)
	require.Equal(t, time.Minute, d.Lease)
}
