package interop

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// semaphoreKind says where those who want permits listen. A semaphore is no lock of the matrix: it has no holder.
var semaphoreKind = kind{
	name: "semaphore", channel: func(name, _ string) string { return slot.SemaphoreChannel(name) },
}

// A javaSemaphore is a semaphore as a thread of Java sees it.
type javaSemaphore struct {
	th   *javaThread
	name string
}

func (s javaSemaphore) start(op string, args ...string) *call {
	return javaLock{th: s.th, name: s.name}.send("permits", append([]string{"op", op}, args...)...)
}

func (s javaSemaphore) do(t *testing.T, op string, args ...string) string {
	t.Helper()
	return s.start(op, args...).ok(t).value()
}

// A permitsPlay is a semaphore in a deployment, as both sides see it.
type permitsPlay struct {
	play
	name string
	e    *engine.Engine
	sem  *engine.Semaphore
	java javaSemaphore
}

// eachSemaphore runs fn with a semaphore that has so many permits, in every deployment; 0: nobody has given it any.
func eachSemaphore(t *testing.T, permits int, fn func(t *testing.T, p permitsPlay)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := permitsPlay{play: play{d, semaphoreKind}, name: "permits", e: d.openGo(t)}
		p.sem = p.e.Semaphore(p.name)
		p.java = javaSemaphore{d.java.thread(t, t.Name()), p.name}
		if permits > 0 {
			p.do(t, "SET", p.name, strconv.Itoa(permits))
		}
		fn(t, p)
	})
}

// waitsInJava begins an acquire in Java and waits until its thread waits for a message.
func (p permitsPlay) waitsInJava(t *testing.T, n int) *call {
	t.Helper()
	c := p.java.start("acquire", "n", strconv.Itoa(n))
	p.waits(t, p.java.th, p.name)
	require.False(t, c.answered(), "granted though too few are free")
	return c
}

// waitsInGo begins an acquire in Go and waits until its engine listens.
func (p permitsPlay) waitsInGo(t *testing.T, n int) *engine.Future[struct{}] {
	t.Helper()
	f := p.sem.AcquireAsync(testkit.Limited(t), n)
	p.listening(t, p.name, "", 1)
	_, _, done := f.Result()
	require.False(t, done, "granted though too few are free")
	return f
}

// requireGranted checks that what is about to be released wakes a waiter of Go, by its message.
func (p permitsPlay) requireGranted(t *testing.T, f *engine.Future[struct{}], since time.Time) {
	t.Helper()
	_, err := f.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, time.Since(since), soon)
	p.requireWokenByMessage(t, p.e)
}

// requireFree checks the number on the server, and that both sides read it.
func (p permitsPlay) requireFree(t *testing.T, n int) {
	t.Helper()
	require.Equal(t, strconv.Itoa(n), p.do(t, "GET", p.name))
	require.Equal(t, strconv.Itoa(n), p.java.do(t, "availablePermits"))
	free, err := p.sem.AvailablePermits(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, n, free)
}

func TestPermitsThatJavaHasKeepGoOut(t *testing.T) {
	eachSemaphore(t, 3, func(t *testing.T, p permitsPlay) {
		p.java.do(t, "acquire", "n", "2")
		require.NoError(t, p.sem.TryAcquire(testkit.Limited(t), 1), "one was left")
		require.ErrorIs(t, p.sem.TryAcquire(testkit.Limited(t), 1), engine.ErrNoPermits)
		require.NoError(t, p.sem.Release(testkit.Limited(t), 1))
		f := p.waitsInGo(t, 2)
		released := time.Now()
		p.java.do(t, "release")
		p.requireGranted(t, f, released)
		p.requireFree(t, 0)
		require.NoError(t, p.sem.Release(testkit.Limited(t), 2))
		p.java.do(t, "release")
		p.requireFree(t, 3)
	})
}

func TestPermitsThatGoHasKeepJavaOut(t *testing.T) {
	eachSemaphore(t, 3, func(t *testing.T, p permitsPlay) {
		require.NoError(t, p.sem.Acquire(testkit.Limited(t), 2))
		require.Equal(t, "true", p.java.do(t, "tryAcquire"), "one was left")
		require.Equal(t, "false", p.java.do(t, "tryAcquire"))
		p.java.do(t, "release")
		c := p.waitsInJava(t, 2)
		released := time.Now()
		require.NoError(t, p.sem.Release(testkit.Limited(t), 1))
		require.Less(t, c.ok(t).at.Sub(released), soon, "Redisson never asks by itself: no message woke it")
		p.requireFree(t, 0)
		p.java.do(t, "release", "n", "2")
		require.NoError(t, p.sem.Release(testkit.Limited(t), 1))
		p.requireFree(t, 3)
	})
}

func TestWaitsForPermitsThatEndLeaveTheNumberAlone(t *testing.T) {
	eachSemaphore(t, 2, func(t *testing.T, p permitsPlay) {
		require.NoError(t, p.sem.Acquire(testkit.Limited(t), 2))
		require.Equal(t, "false", p.java.do(t, "tryAcquire", "waitMs", "300"))
		require.NoError(t, p.sem.Release(testkit.Limited(t), 2))
		p.requireFree(t, 2)

		p.java.do(t, "acquire", "n", "2")
		err := p.sem.With(engine.MaxWait(200*time.Millisecond)).Acquire(testkit.Limited(t), 1)
		require.ErrorIs(t, err, engine.ErrNoPermits)
		f := p.waitsInGo(t, 1)
		require.True(t, f.Cancel())
		p.java.do(t, "release", "n", "2")
		p.requireFree(t, 2)
	})
}

func TestAllThatChangesTheNumberOfPermitsIsSeenByTheOtherSide(t *testing.T) {
	eachSemaphore(t, 0, func(t *testing.T, p permitsPlay) {
		ctx := testkit.Limited(t)
		set, err := p.sem.TrySetPermits(ctx, 5)
		require.NoError(t, err)
		require.True(t, set)
		require.Equal(t, "false", p.java.do(t, "trySetPermits", "n", "9"))
		p.requireFree(t, 5)
		p.java.do(t, "addPermits", "n", "3")
		p.requireFree(t, 8)
		p.java.do(t, "addPermits", "n", "-2")
		p.requireFree(t, 6)
		n, err := p.sem.AddPermits(ctx, -3)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		p.requireFree(t, 3)

		require.Equal(t, "3", p.java.do(t, "drainPermits"))
		p.requireFree(t, 0)
		require.ErrorIs(t, p.sem.TryAcquire(ctx, 1), engine.ErrNoPermits)
		p.java.do(t, "release", "n", "4")
		n, err = p.sem.DrainPermits(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		p.requireFree(t, 0)
		require.Equal(t, "false", p.java.do(t, "tryAcquire"))

		require.Equal(t, "true", p.java.do(t, "releaseIfExists", "n", "2"))
		p.requireFree(t, 2)
		was, err := p.sem.Delete(ctx)
		require.NoError(t, err)
		require.True(t, was)
		require.Equal(t, "false", p.java.do(t, "delete"))
		require.Equal(t, "false", p.java.do(t, "releaseIfExists"))

		require.Equal(t, "true", p.java.do(t, "trySetPermits", "n", "7", "ttlMs", "60000"))
		set, err = p.sem.TrySetPermits(ctx, 1)
		require.NoError(t, err)
		require.False(t, set)
		require.NoError(t, p.sem.Acquire(ctx, 2))
		require.NoError(t, p.sem.Release(ctx, 2))
		p.requireFree(t, 7)
		require.Greater(t, p.pttl(t, p.name), 30*time.Second, "its end is not changed by who takes and gives")
	})
}

// TestFewerThanNoPermits: Redisson's listener throws at a message below 0, and must go on with the next one.
func TestFewerThanNoPermits(t *testing.T) {
	eachSemaphore(t, 1, func(t *testing.T, p permitsPlay) {
		require.NoError(t, p.sem.Acquire(testkit.Limited(t), 1))
		c := p.waitsInJava(t, 1)
		n, err := p.sem.AddPermits(testkit.Limited(t), -2)
		require.NoError(t, err)
		require.Equal(t, -2, n)
		require.NoError(t, p.sem.Release(testkit.Limited(t), 2))
		require.False(t, c.answered(), "granted though none is free")
		released := time.Now()
		require.NoError(t, p.sem.Release(testkit.Limited(t), 1))
		require.Less(t, c.ok(t).at.Sub(released), soon)
		p.requireFree(t, 0)

		f := p.waitsInGo(t, 1)
		p.java.do(t, "addPermits", "n", "-2")
		released = time.Now()
		p.java.do(t, "release", "n", "3")
		p.requireGranted(t, f, released)
		p.requireFree(t, 0)
	})
}

func TestMorePermitsWakeWhoWaitsOnTheOtherSide(t *testing.T) {
	goGives := map[string]func(s *engine.Semaphore) error{
		"AddPermits": func(s *engine.Semaphore) error {
			_, err := s.AddPermits(t.Context(), 1)
			return err
		},
		"TrySetPermits": func(s *engine.Semaphore) error {
			_, err := s.TrySetPermits(t.Context(), 1)
			return err
		},
		"ReleaseIfExists": func(s *engine.Semaphore) error {
			_, err := s.ReleaseIfExists(t.Context(), 1)
			return err
		},
	}
	eachSemaphore(t, 0, func(t *testing.T, p permitsPlay) {
		for _, op := range []string{"TrySetPermits", "AddPermits", "ReleaseIfExists"} {
			c := p.waitsInJava(t, 1)
			gave := time.Now()
			require.NoError(t, goGives[op](p.sem))
			require.Less(t, c.ok(t).at.Sub(gave), soon, op)
			p.requireFree(t, 0)
		}
		p.do(t, "DEL", p.name)
		for _, op := range []string{"trySetPermits", "addPermits", "releaseIfExists"} {
			f := p.waitsInGo(t, 1)
			gave := time.Now()
			p.java.do(t, op, "n", "1")
			p.requireGranted(t, f, gave)
			p.requireFree(t, 0)
		}
	})
}
