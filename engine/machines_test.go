package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// What the tests of the machines asked of code that stayed in the engine when the machines moved.

// The watchdog may be late, when the process was not scheduled: Lost is exact all the same.
func TestLostLooksAtTheClock(t *testing.T) {
	const lease = 10 * time.Second
	now := clock.NewFake(clock.Instant(time.Hour))
	h := &hold{ent: &entry{eng: &Engine{clock: now}}}
	h.Extended(now.Now(), lease, -1) // it was trusted until 0 before
	ls := &Lease{hold: h}
	require.False(t, ls.Lost())
	now.Advance(h.Deadline().Sub(now.Now()) - 1)
	require.False(t, ls.Lost(), "the last moment")
	now.Advance(1)
	require.True(t, h.Held(), "nobody has told it")
	require.True(t, ls.Lost())
}

// Only the hold that closed a queue opens it.
func TestAnOlderHoldOpensNoQueue(t *testing.T) {
	ent := &entry{}
	h := ent.newHold()
	ent.held(h)
	require.False(t, ent.freed(&hold{}))
	require.Same(t, h, ent.standing())
	require.True(t, ent.freed(h))
	require.Nil(t, ent.standing())
}

// Nothing of an op's earlier use is left in what it asks by; what is sent again keeps its owner id.
func TestAnAttemptBeginsWithNothingOfItsEarlierUse(t *testing.T) {
	ent := &entry{}
	op := &acquireOp{set: defaults[resp.FamilyLock]}
	op.Of = op
	op.att.op.Field, op.att.op.Placed, op.att.retry = "old", true, &retryState{}
	ent.Push(&op.Waiter)
	a := ent.beginAsking()
	require.Same(t, &op.att, a)
	require.Empty(t, a.op.Field)
	require.False(t, a.op.Placed)
	require.Nil(t, a.retry)
	a.op.Field = "mine"
	require.Same(t, a, ent.beginAsking())
	require.Equal(t, "mine", a.op.Field)
}

func TestAnAcquireForReplicasSuitsWhoWaitsForTheVerySame(t *testing.T) {
	lock := lockstate.Terms{
		Family: &traits(resp.FamilyLock).Traits, Lease: time.Second,
		Ack: &lockstate.Ack{Replicas: 2, Timeout: time.Second},
	}
	a := &attempt{}
	a.op.Family, a.op.LeaseMs = resp.FamilyLock, lock.Lease.Milliseconds()
	require.True(t, a.Suits(&lockstate.Terms{Family: lock.Family}), "it is to be seen by nobody")
	a.op.Ack = &resp.Ack{Replicas: 2, Timeout: time.Second}
	require.True(t, a.Suits(&lock))
	for _, spoil := range []func(*lockstate.Terms){
		func(t *lockstate.Terms) { t.Ack = &lockstate.Ack{Replicas: 1, Timeout: time.Second} },
		func(t *lockstate.Terms) { t.Ack = nil },
		func(t *lockstate.Terms) { t.Lease += time.Millisecond },
		func(t *lockstate.Terms) { t.Family = &traits(resp.FamilyFenced).Traits },
	} {
		other := lock
		spoil(&other)
		require.False(t, a.Suits(&other))
	}
}

func TestLossesAsTheMachinesSeeThem(t *testing.T) {
	for cause, want := range map[renew.Cause]lockstate.Loss{
		renew.CauseDeadline:  lockstate.LossDeadline,
		renew.CauseNotOurs:   lockstate.LossTaken,
		renew.CauseWrongType: lockstate.LossTaken,
		renew.CauseForced:    lockstate.LossTaken,
		renew.CauseClosed:    lockstate.LossKept,
	} {
		require.Equal(t, want, lossOf(cause, traits(resp.FamilyLock)), "cause %d", cause)
		if cause == renew.CauseNotOurs { // one of several values may be
			want = lockstate.LossDeadline
		}
		require.Equal(t, want, lossOf(cause, traits(resp.FamilyGroup)), "cause %d, of values", cause)
	}
}

func TestFaultsAsTheMachinesSeeThem(t *testing.T) {
	for class, want := range map[resp.Class]lockstate.Fault{
		resp.ClassOOM:        {Passes: true},
		resp.ClassMisconf:    {Passes: true},
		resp.ClassNoReplicas: {Passes: true},
		resp.ClassPartly:     {Partly: true},
		resp.ClassTryAgain:   {Moving: true},
		resp.ClassNoPerm:     {},
	} {
		got := faultOf(&resp.Result{Err: &resp.ServerError{Class: class}}, resp.FamilyLock)
		require.Equal(t, class.Definite(), got.Definite, "class %v", class)
		require.Equal(t, class.Transient(), got.Transient, "class %v", class)
		require.Equal(t, [3]bool{want.Passes, want.Partly, want.Moving}, [3]bool{got.Passes, got.Partly, got.Moving}, "class %v", class)
		require.False(t, got.Once, "every lock may be asked for again under its owner id")
	}
}

// A grant to nobody's owner looks for nobody in the queue: it is as long as callers wait.
func TestAGrantWithoutAnOwnerDoesNotGoThroughTheQueue(t *testing.T) {
	ent := &entry{}
	h := ent.newHold()
	h.ensureReentry() // an owner had it before, and entered again
	ent.Push(&lockstate.Waiter{})
	sc := section{}
	require.NotPanics(t, func() { sc.admitSameOwner(h) }, "who waits is looked at, and is nobody's")
}
