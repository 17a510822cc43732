package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// soon is by when a release has woken a waiter on any machine, and far below the 30 s after which a
// waiter of Redisson asks by itself.
const soon = 5 * time.Second

func TestJavaHoldsGoWaitsAndIsWokenByTheRelease(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		e := p.openGo(t)
		name := "java-holds:" + p.name
		th := p.java.thread(t, t.Name())
		java := th.lock(p.name, name)
		java.do(t, "lock")

		_, err := p.open(e, name).TryAcquire(testkit.Limited(t))
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.Greater(t, held.Remaining, 20*time.Second)
		f := p.open(e, name).AcquireAsync(testkit.Limited(t))
		p.listening(t, name, "", 1)
		_, _, done := f.Result()
		require.False(t, done, "granted while Java holds it")

		released := java.start("unlock").ok(t).at
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(released), soon)
		p.requireWokenByMessage(t, e)
		p.requireHeld(t, name, ls.OwnerID(), 1)
		testkit.Release(t, ls)
		require.Equal(t, "0", p.do(t, "EXISTS", name))
	})
}

func TestGoHoldsJavaWaitsAndIsWokenByTheRelease(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		e := p.openGo(t)
		name := "go-holds:" + p.name
		ls := testkit.Acquire(t, p.open(e, name))
		th := p.java.thread(t, t.Name())
		java := th.lock(p.name, name)
		require.Equal(t, "true", java.do(t, "isLocked"))
		require.Equal(t, "false", java.do(t, "isHeldByCurrentThread"))
		require.Equal(t, "false", java.do(t, "tryLock"))

		waiter := java.start("lock")
		p.waits(t, th, name)
		require.False(t, waiter.answered(), "granted while Go holds it")
		released := time.Now()
		testkit.Release(t, ls)
		require.Less(t, waiter.ok(t).at.Sub(released), soon, "Redisson asks by itself after 30 s: no message woke it")
		p.requireHeld(t, name, p.field(th.owner), 1)
		java.do(t, "unlock")
		require.Equal(t, "0", p.do(t, "EXISTS", name))
	})
}

func TestWaitsThatEndLeaveTheOtherSidesHoldAlone(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		e := p.openGo(t)
		th := p.java.thread(t, t.Name())

		name := "java-gives-up:" + p.name
		ls := testkit.Acquire(t, p.open(e, name))
		require.Equal(t, "false", th.lock(p.name, name).do(t, "tryLock", "waitMs", "500"))
		p.requireHeld(t, name, ls.OwnerID(), 1)
		testkit.Release(t, ls)

		name = "go-gives-up:" + p.name
		java := th.lock(p.name, name)
		java.do(t, "lock")
		_, err := p.open(e, name, engine.MaxWait(200*time.Millisecond)).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		p.requireHeld(t, name, p.field(th.owner), 1)
		java.do(t, "unlock")
	})
}

func TestHoldCountsAreSeenFromBothSides(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		if p.once {
			t.Skip("no second hold")
		}
		e := p.openGo(t)
		th := p.java.thread(t, t.Name())
		name := "counts:" + p.name
		java, golang := th.lock(p.name, name), p.open(e, name, engine.As(engine.NewOwner()))

		java.do(t, "lock")
		java.do(t, "lock")
		info, err := golang.Inspect(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, 2, info.Holds)
		require.Equal(t, p.field(th.owner), info.OwnerID)
		require.True(t, info.Locked)
		require.False(t, info.Mine)
		java.do(t, "unlock")
		info, err = golang.Inspect(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, 1, info.Holds)
		_, err = golang.TryAcquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		java.do(t, "unlock")

		first := testkit.Acquire(t, golang)
		second := testkit.Acquire(t, golang)
		p.requireHeld(t, name, first.OwnerID(), 2)
		require.Equal(t, "0", java.do(t, "getHoldCount"), "that thread has none")
		require.Equal(t, "true", java.do(t, "isLocked"))
		testkit.Release(t, first)
		require.Equal(t, "true", java.do(t, "isLocked"))
		require.Equal(t, "false", java.do(t, "tryLock"))
		testkit.Release(t, second)
		require.Equal(t, "false", java.do(t, "isLocked"))
	})
}

func TestUnlockOfWhatTheOtherSideHoldsIsRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		e := p.openGo(t)
		name := "not-mine:" + p.name
		ls := testkit.Acquire(t, p.open(e, name))
		var thrown *javaError
		require.ErrorAs(t, p.java.thread(t, t.Name()).lock(p.name, name).start("unlock").wait(t).err, &thrown)
		require.Equal(t, "IllegalMonitorStateException", thrown.Type)
		p.requireHeld(t, name, ls.OwnerID(), 1)
		testkit.Release(t, ls)
	})
}

func TestForceReleaseByGoIsSeenByJava(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		e := p.openGo(t)
		name := "go-forces:" + p.name
		holder, waiter := p.java.thread(t, t.Name()+"/holds"), p.java.thread(t, t.Name()+"/waits")
		holder.lock(p.name, name).do(t, "lock")
		waiting := waiter.lock(p.name, name).start("lock")
		p.waits(t, waiter, name)

		forced := time.Now()
		was, err := p.open(e, name).ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, was)
		require.Less(t, waiting.ok(t).at.Sub(forced), soon, "no message woke the waiter")
		require.Equal(t, "false", holder.lock(p.name, name).do(t, "isHeldByCurrentThread"))
		var thrown *javaError
		require.ErrorAs(t, holder.lock(p.name, name).start("unlock").wait(t).err, &thrown)
		require.Equal(t, "IllegalMonitorStateException", thrown.Type)
		p.requireHeld(t, name, p.field(waiter.owner), 1)
		waiter.lock(p.name, name).do(t, "unlock")
	})
}

func TestForceUnlockByJavaIsSeenByGo(t *testing.T) {
	eachKind(t, func(t *testing.T, p play) {
		holder, waiter := p.openGo(t), p.openGo(t)
		name := "java-forces:" + p.name
		held := testkit.Acquire(t, p.open(holder, name, engine.WatchdogLease(3*time.Second)))
		f := p.open(waiter, name).AcquireAsync(testkit.Limited(t))
		p.listening(t, name, "", 1)

		forced := time.Now()
		require.Equal(t, "true", p.java.thread(t, t.Name()).lock(p.name, name).do(t, "forceUnlock"))
		next, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(forced), soon)
		p.requireWokenByMessage(t, waiter)
		testkit.Eventually(t, "the holder learns it by its next renewal", held.Lost)
		require.ErrorIs(t, held.Release(testkit.Limited(t)), engine.ErrLost)
		p.requireHeld(t, name, next.OwnerID(), 1, "the late release hit the next holder")
		testkit.Release(t, next)
	})
}
