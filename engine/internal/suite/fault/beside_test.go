package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// beside is an owner that writes and reads, and a copy of the reading that is still on its way.
type beside struct {
	*late
	ctx  context.Context
	lock *engine.RWLock
	w, r *engine.Lease
}

func readBeside(t *testing.T) *beside {
	t.Helper()
	b := &beside{late: holdAcquire(t), ctx: engine.WithOwner(testkit.Limited(t), engine.NewOwner())}
	b.p.ReleaseCommands() // only the reading is held
	b.lock = b.e.RWLock("a")
	var err error
	b.w, err = b.lock.WriteLock().Acquire(b.ctx)
	require.NoError(t, err)
	held := b.p.Hold(testkit.ScriptCall("read"), 1)
	b.sent = time.Now()
	f := b.lock.ReadLock().AcquireAsync(b.ctx)
	testkit.Await(t, held.C(), "the reading is held")
	b.cut()
	b.r, err = f.Await(testkit.Limited(t))
	require.NoError(t, err)
	return b
}

// TestC029_LateCopyOfAReadingBesideAWrite: the bytes of a read acquire, by one who writes, reach the
// server when its retry was granted and given back.
func TestC029_LateCopyOfAReadingBesideAWrite(t *testing.T) {
	t.Parallel()
	t.Run("WhenBothAreGivenBack", func(t *testing.T) {
		t.Parallel()
		b := readBeside(t)
		testkit.Release(t, b.r)
		testkit.Release(t, b.w)
		require.False(t, testkit.Exists(t, b.s, "a"))
		b.deliver(t)
		require.Equal(t, "1", b.s.Do(t, "HGET", "a", b.r.OwnerID()), "the copy ran")
		b.requireGoneInTime(t)
		testkit.Finish(t, b.s, b.e)
	})
	t.Run("WhileTheWriteGoesOn", func(t *testing.T) {
		t.Parallel()
		b := readBeside(t)
		testkit.Release(t, b.r)
		b.deliver(t)
		require.Equal(t, "1", b.s.Do(t, "HGET", "a", b.r.OwnerID()), "the copy ran")
		testkit.Release(t, b.w)
		b.requireGoneInTime(t)
		testkit.Finish(t, b.s, b.e)
	})
	t.Run("WhatEndsItLeavesALaterReadingAlone", func(t *testing.T) {
		t.Parallel()
		b := readBeside(t)
		testkit.Release(t, b.r)
		r, err := b.lock.ReadLock().Acquire(b.ctx)
		require.NoError(t, err)
		require.NotEqual(t, b.r.OwnerID(), r.OwnerID(), "an owner id is used once")
		testkit.LastUntil(b.sent.Add(testkit.AttemptLimit + testkit.LimitSlack))
		require.Equal(t, "1", b.s.Do(t, "HGET", "a", r.OwnerID()))
		before := testkit.CallsOf(t, b.s, "evalsha")
		b.deliver(t)
		require.Equal(t, before+1, testkit.CallsOf(t, b.s, "evalsha"), "the copy ran")
		testkit.Release(t, r)
		testkit.Release(t, b.w)
		testkit.Finish(t, b.s, b.e)
	})
	t.Run("ALaterReadingIsInDoubtToo", func(t *testing.T) {
		t.Parallel()
		b := readBeside(t)
		testkit.Release(t, b.r)
		r, err := b.lock.ReadLock().Acquire(b.ctx)
		require.NoError(t, err)
		testkit.Release(t, r)
		testkit.Release(t, b.w)
		b.deliver(t)
		require.Equal(t, "1", b.s.Do(t, "HGET", "a", b.r.OwnerID()), "the copy ran")
		b.requireGoneInTime(t)
		testkit.Finish(t, b.s, b.e)
	})
}

// TestC026_ReadingAgainBesideAnUnansweredRelease: a release that is sent again takes nothing that was
// acquired meanwhile.
func TestC026_ReadingAgainBesideAnUnansweredRelease(t *testing.T) {
	t.Parallel()
	b := readBeside(t)
	lost := b.p.DropReply(testkit.ScriptCall("readrelease"), 1, faultproxy.Hang)
	released := b.r.ReleaseAsync()
	testkit.Await(t, lost.C(), "the release ran, and nobody knows")
	again := b.lock.ReadLock().AcquireAsync(b.ctx)
	_, err := released.Await(testkit.Limited(t))
	require.NoError(t, err)
	r, err := again.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NotEqual(t, b.r.OwnerID(), r.OwnerID())
	require.Equal(t, "1", b.s.Do(t, "HGET", "a", r.OwnerID()))
	b.p.ReleaseCommands()
	require.NoError(t, b.w.Release(testkit.Limited(t)))
	testkit.Release(t, r)
	testkit.Finish(t, b.s, b.e)
}
