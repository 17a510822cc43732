package resp

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestOpIsTakenBackBeforeItIsSentOnly(t *testing.T) {
	for _, c := range []struct {
		state uint32
		ack   *Ack
		taken bool
		after uint32
	}{
		{opIdle, nil, false, opIdle},
		{opQueued, nil, true, opCancelled},
		{opQueued, &Ack{}, true, opCancelled},
		{opSent, nil, false, opSent},
		{opSent, &Ack{}, false, opUnwanted},
		{opCancelled, &Ack{}, false, opCancelled},
	} {
		op := &Op{Ack: c.ack}
		op.state.Store(c.state)
		require.Equal(t, c.taken, op.Cancel(), "%+v", c)
		require.Equal(t, c.after, op.state.Load(), "%+v", c)
	}
}

func TestOpForgetsHowItTravelled(t *testing.T) {
	op := &Op{alone: true, asking: true, among: true, hops: 3}
	op.resetRoute()
	require.False(t, op.alone || op.asking || op.among)
	require.Zero(t, op.hops)
}

func TestResultIsDefiniteUnlessItsErrorIsNot(t *testing.T) {
	require.True(t, (&Result{}).Definite())
	require.True(t, (&Result{Err: &ServerError{Class: ClassOOM}}).Definite())
	require.False(t, (&Result{Err: &ServerError{Class: ClassUnknown}}).Definite())
	require.True(t, (&Result{AckErr: errUnwanted}).Unwanted())
	require.False(t, (&Result{}).Unwanted())
}

func TestFamiliesNameTheirFieldsAndMessages(t *testing.T) {
	require.Regexp(t, `^e:[1-9][0-9]*$`, FamilyLock.newField(nil, "e"))
	require.Regexp(t, `^e:[1-9][0-9]*$`, FamilyRead.newField(nil, "e"))
	require.Regexp(t, `^e:[1-9][0-9]*:write$`, FamilyWrite.newField(nil, "e"))
	largest := int64(0)
	for range 200 {
		field := FamilyFair.newField(nil, "e")
		require.Regexp(t, `^e:0[1-9][0-9]{0,15}$`, field)
		number, err := strconv.ParseInt(field[len("e:0"):], 10, 64)
		require.NoError(t, err)
		require.EqualValues(t, 1, number%2, "never 0")
		largest = max(largest, number)
	}
	require.Less(t, largest, int64(1)<<52, "Lua's numbers are exact up to 53 bits")
	require.Greater(t, largest, int64(1)<<48, "and as many as that allows")
	require.Equal(t, "e:012", FairField("e", 12))
	for message, left := range map[string]bool{"0": false, "1": false, "00": true, "01": true, "10": false, "": false} {
		require.Equal(t, left, Left(message), "%q", message)
	}
	for f := FamilyLock; f < familyEnd; f++ {
		require.Equal(t, f == FamilyFenced || f == FamilySemaphore, f.row().tokens)
	}
	require.Same(t, scriptQueue, scriptOf(OpQueue, FamilyFair))
	require.Same(t, scriptReadRenew, scriptOf(OpExtend, FamilyRead))
	require.Same(t, scriptForce, scriptOf(OpForce, FamilyRead))
	require.Same(t, scriptInspect, scriptOf(OpInspect, FamilyRead))
	require.Same(t, scriptReacquire, scriptOf(OpLeave, FamilyWrite))
	require.Same(t, scriptSemaphore, scriptOf(OpReacquire, FamilySemaphore))
	require.Same(t, scriptSemaphoreRelease, scriptOf(OpRelease, FamilySemaphore))
	require.Same(t, scriptSemaphoreSet, scriptOf(OpCall, FamilySemaphore))
	require.Same(t, scriptLatch, scriptOf(OpReacquire, FamilyLatch))
	require.Same(t, scriptLatchDown, scriptOf(OpRelease, FamilyLatch))
	require.Same(t, scriptLatchSet, scriptOf(OpCall, FamilyLatch))
	require.Same(t, scriptBarrier, scriptOf(OpReacquire, FamilyBarrier))
	require.Same(t, scriptBarrierLeave, scriptOf(OpRelease, FamilyBarrier))
	require.Same(t, scriptBarrierSet, scriptOf(OpCall, FamilyBarrier))
}

func TestResendsShareTheNodesBucket(t *testing.T) {
	n := &Node{}
	now := clock.Instant(time.Hour)
	for range resendBurst + 1 {
		require.Equal(t, now, n.Resend(now))
	}
	require.Equal(t, now.Add(50*time.Microsecond), n.Resend(now))
	require.Equal(t, now.Add(time.Second), n.Resend(now.Add(time.Second)), "it is full again")
}

func TestEstimateCountsFromTheReply(t *testing.T) {
	var e estimate
	require.EqualValues(t, 3, e.notAfter(clock.Instant(time.Millisecond), 2*time.Millisecond), "nothing is known")
	e.learn(1000, clock.Instant(400*time.Millisecond))
	require.EqualValues(t, 1102, e.notAfter(clock.Instant(500*time.Millisecond), 2*time.Millisecond))
	e.learn(-5, 0)
	require.Zero(t, e.offset.Load())
}
