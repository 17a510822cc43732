package engine

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
	var d indeterminate
	require.False(t, d.mayRunAfter(start), "nothing was left unanswered")
	d.unanswered(start, limit, time.Second)
	require.True(t, d.mayRunAfter(start.Add(limit)), "clock rates may differ")
	require.True(t, d.mayRunAfter(start.Add(limit+clockSlack-1)))
	require.False(t, d.mayRunAfter(start.Add(limit+clockSlack)))
}

func TestDoubtKeepsTheLatestCopyAndTheLongestLease(t *testing.T) {
	var d indeterminate
	d.unanswered(clock.Instant(2*time.Second), time.Second, 10*time.Second)
	d.unanswered(clock.Instant(time.Second), time.Second, time.Minute)
	d.unanswered(clock.Instant(time.Second), time.Second, time.Second)
	require.Equal(t, clock.Instant(3*time.Second+clockSlack), d.until)
	require.Equal(t, time.Minute, d.lease)
}

// The watchdog may be late, when the process was not scheduled: Lost is exact all the same.
func TestLostLooksAtTheClock(t *testing.T) {
	const lease = 10 * time.Second
	now := clock.NewFake(clock.Instant(time.Hour))
	h := &hold{}
	h.Extended(now.Now(), lease, -1) // it was trusted until 0 before
	ls := &Lease{hold: h, lock: &Lock{eng: &Engine{clock: now}}}
	require.False(t, ls.Lost())
	now.Advance(h.Deadline().Sub(now.Now()) - 1)
	require.False(t, ls.Lost(), "the last moment")
	now.Advance(1)
	require.Equal(t, holdHeld, h.status.Load(), "nobody has told it")
	require.True(t, ls.Lost())
}
