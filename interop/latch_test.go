package interop

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// latchKind says where those who wait for a latch listen. A latch is no lock of the matrix: it has no holder.
var latchKind = kind{
	name: "latch", channel: func(name, _ string) string { return slot.LatchChannel(name) },
}

// A javaLatch is a latch as a thread of Java sees it.
type javaLatch struct {
	th   *javaThread
	name string
}

func (l javaLatch) start(op string, args ...string) *call {
	return javaLock{th: l.th, name: l.name}.send("latch", append([]string{"op", op}, args...)...)
}

func (l javaLatch) do(t *testing.T, op string, args ...string) string {
	t.Helper()
	return l.start(op, args...).ok(t).value()
}

// A latchPlay is a latch in a deployment, as both sides see it.
type latchPlay struct {
	play
	name  string
	e     *engine.Engine
	latch *engine.CountDownLatch
	java  javaLatch
}

// eachLatch runs fn with a latch that has this count, in every deployment; 0: it has none. Its name has no hash tag: in
// a cluster Redisson cannot use one that has.
func eachLatch(t *testing.T, count int, fn func(t *testing.T, p latchPlay)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		p := latchPlay{play: play{d, latchKind}, name: "latch", e: d.openGo(t)}
		p.latch = p.e.CountDownLatch(p.name)
		p.java = javaLatch{d.java.thread(t, t.Name()), p.name}
		if count > 0 {
			p.set(t, count)
		}
		fn(t, p)
	})
}

func (p latchPlay) set(t *testing.T, n int) {
	t.Helper()
	set, err := p.latch.TrySetCount(testkit.Limited(t), n)
	require.NoError(t, err)
	require.True(t, set)
}

func (p latchPlay) countDown(t *testing.T, n int) {
	t.Helper()
	for range n {
		require.NoError(t, p.latch.CountDown(testkit.Limited(t)))
	}
}

// waitsInJava begins n awaits in Java, each in its own thread, and waits until all of them wait for a message.
func (p latchPlay) waitsInJava(t *testing.T, n int) []*call {
	t.Helper()
	calls := make([]*call, n)
	for i := range calls {
		th := p.deployment.java.thread(t, fmt.Sprintf("%s/%d", t.Name(), clientNumber()))
		calls[i] = javaLatch{th, p.name}.start("await")
		p.waits(t, th, p.name)
	}
	return calls
}

// waitsInGo begins n awaits of an engine, and waits until all of them were told that the latch is closed and so many
// clients listen, of both sides.
func (p latchPlay) waitsInGo(t *testing.T, e *engine.Engine, n, listeners int) []*engine.Future[struct{}] {
	t.Helper()
	before := e.Stats().Waits
	futures := make([]*engine.Future[struct{}], n)
	for i := range futures {
		futures[i] = e.CountDownLatch(p.name).AwaitAsync(testkit.Limited(t))
	}
	testkit.Eventually(t, "they wait", func() bool { return e.Stats().Waits >= before+int64(n) })
	p.listening(t, p.name, "", listeners)
	return futures
}

func requireWaiting(t *testing.T, java []*call, golang []*engine.Future[struct{}]) {
	t.Helper()
	for _, c := range java {
		require.False(t, c.answered(), "let in by a latch that is closed")
	}
	for _, f := range golang {
		testkit.Pending(t, f)
	}
}

// requireLetIn checks that all go on, woken by a message.
func (p latchPlay) requireLetIn(t *testing.T, opened time.Time, java []*call, golang []*engine.Future[struct{}]) {
	t.Helper()
	for _, c := range java {
		require.Less(t, c.ok(t).at.Sub(opened), soon, "Redisson never asks by itself: no message woke it")
	}
	for _, f := range golang {
		testkit.Get(t, f)
	}
	require.Less(t, time.Since(opened), soon)
}

// requireCount checks the number on the server, and that both sides read it. A latch that is open leaves no key.
func (p latchPlay) requireCount(t *testing.T, n int) {
	t.Helper()
	key := strconv.Itoa(n)
	if n == 0 {
		key = "(nil)"
	}
	require.Equal(t, key, p.do(t, "GET", p.name))
	require.Equal(t, strconv.Itoa(n), p.java.do(t, "getCount"))
	count, err := p.latch.Count(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, n, count)
}

func TestLatchThatJavaCountsDownLetsGoIn(t *testing.T) {
	eachLatch(t, 3, func(t *testing.T, p latchPlay) {
		waiting := p.waitsInGo(t, p.e, 3, 1)
		p.java.do(t, "countDown", "n", "2")
		p.requireCount(t, 1)
		requireWaiting(t, nil, waiting)
		opened := time.Now()
		p.java.do(t, "countDown")
		p.requireLetIn(t, opened, nil, waiting)
		p.requireWokenByMessage(t, p.e)
		p.requireCount(t, 0)
		require.NoError(t, p.latch.Await(testkit.Limited(t)), "an open one lets in at once")
	})
}

func TestLatchThatGoCountsDownLetsJavaIn(t *testing.T) {
	eachLatch(t, 3, func(t *testing.T, p latchPlay) {
		waiting := p.waitsInJava(t, 3)
		p.countDown(t, 2)
		p.requireCount(t, 1)
		requireWaiting(t, waiting, nil)
		require.Equal(t, "false", p.java.do(t, "await", "waitMs", "100"))
		opened := time.Now()
		p.countDown(t, 1)
		p.requireLetIn(t, opened, waiting, nil)
		p.requireCount(t, 0)
		require.Equal(t, "true", p.java.do(t, "await"), "an open one lets in at once")
	})
}

func TestCountThatOneSideSetsOrDeletesIsSeenByTheOther(t *testing.T) {
	eachLatch(t, 0, func(t *testing.T, p latchPlay) {
		ctx := testkit.Limited(t)
		p.requireCount(t, 0)
		p.set(t, 5)
		require.Equal(t, "false", p.java.do(t, "trySetCount", "n", "9"))
		p.requireCount(t, 5)
		p.java.do(t, "countDown", "n", "2")
		p.countDown(t, 1)
		p.requireCount(t, 2)
		require.Equal(t, "true", p.java.do(t, "delete"))
		p.requireCount(t, 0)
		gone, err := p.latch.Delete(ctx)
		require.NoError(t, err)
		require.False(t, gone)

		require.Equal(t, "true", p.java.do(t, "trySetCount", "n", "4"))
		set, err := p.latch.TrySetCount(ctx, 9)
		require.NoError(t, err)
		require.False(t, set)
		p.requireCount(t, 4)
		gone, err = p.latch.Delete(ctx)
		require.NoError(t, err)
		require.True(t, gone)
		require.Equal(t, "false", p.java.do(t, "delete"))
		p.requireCount(t, 0)
	})
}

func TestCountingDownAnOpenLatchKeepsItOpen(t *testing.T) {
	eachLatch(t, 0, func(t *testing.T, p latchPlay) {
		down := map[string]func(){
			"Java": func() { p.java.do(t, "countDown", "n", "3") },
			"Go":   func() { p.countDown(t, 3) },
		}
		for _, one := range []string{"Java", "Go"} {
			down[one]()
			p.requireCount(t, 0)
			for _, other := range []string{"Java", "Go"} { // what was too much before does not count afterwards
				p.set(t, 2)
				p.requireCount(t, 2)
				down[other]()
				p.requireCount(t, 0)
			}
		}
		testkit.Get(t, p.latch.CountDownAsync(7))
		p.requireCount(t, 0)
	})
}

// TestOneOpeningLetsInTheWaitersOfBothSides: one side opens, then the other, and each time everybody is let in. Who waits
// for longer than a second may find it by the poll, which can meet the opening: TestLatchThatJavaCountsDownLetsGoIn
// checks the message.
func TestOneOpeningLetsInTheWaitersOfBothSides(t *testing.T) {
	const threads, callers = 8, 50
	eachLatch(t, 0, func(t *testing.T, p latchPlay) {
		other := p.openGo(t)
		for _, opens := range []string{"Java", "Go"} {
			p.set(t, 2)
			java := p.waitsInJava(t, threads)
			golang := append(p.waitsInGo(t, p.e, callers, 2), p.waitsInGo(t, other, callers, 3)...)
			var opened time.Time
			if opens == "Java" {
				p.countDown(t, 1)
				requireWaiting(t, java, golang)
				opened = time.Now()
				p.java.do(t, "countDown")
			} else {
				p.java.do(t, "countDown")
				requireWaiting(t, java, golang)
				opened = time.Now()
				p.countDown(t, 1)
			}
			p.requireLetIn(t, opened, java, golang)
			p.requireCount(t, 0)
		}
	})
}

// TestALatchThatIsSetAgainAtOnce: the engine's note lets in who waited in Go. A thread of Java looks at the count when it
// wakes, and may have to wait for the next opening; so may a waiter of Go where Java did both.
func TestALatchThatIsSetAgainAtOnce(t *testing.T) {
	eachLatch(t, 1, func(t *testing.T, p latchPlay) {
		java, golang := p.waitsInJava(t, 1), p.waitsInGo(t, p.e, 8, 2)
		opened := time.Now()
		down, set := p.latch.CountDownAsync(1), p.latch.TrySetCountAsync(testkit.Limited(t), 2)
		testkit.Get(t, down)
		require.True(t, testkit.Get(t, set))
		p.requireLetIn(t, opened, nil, golang)
		p.requireCount(t, 2)
		later := p.waitsInGo(t, p.e, 4, 1)
		requireWaiting(t, nil, later)
		opened = time.Now()
		p.java.do(t, "countDown", "n", "2")
		p.requireLetIn(t, opened, java, later)

		p.set(t, 1)
		java, golang = p.waitsInJava(t, 1), p.waitsInGo(t, p.e, 8, 2)
		p.java.do(t, "countDown")
		require.Equal(t, "true", p.java.do(t, "trySetCount", "n", "1"))
		p.requireCount(t, 1)
		opened = time.Now()
		p.countDown(t, 1)
		p.requireLetIn(t, opened, java, golang)
		p.requireCount(t, 0)
	})
}

// TestWaitersOfALatchThatIsDeleted: in Go they are told. In Java the message lets nobody in: one that waits for a bounded
// time finds at its end that there is no count, and one that waits without a bound goes on waiting for the next opening.
func TestWaitersOfALatchThatIsDeleted(t *testing.T) {
	eachLatch(t, 0, func(t *testing.T, p latchPlay) {
		for _, deletes := range []string{"Java", "Go"} {
			p.set(t, 1)
			java, golang := p.waitsInJava(t, 1), p.waitsInGo(t, p.e, 4, 2)
			bounded := p.deployment.java.thread(t, fmt.Sprintf("%s/bounded %d", t.Name(), clientNumber()))
			ends := javaLatch{bounded, p.name}.start("await", "waitMs", "1000")
			p.waits(t, bounded, p.name)
			if deletes == "Java" {
				require.Equal(t, "true", p.java.do(t, "delete"))
			} else {
				gone, err := p.latch.Delete(testkit.Limited(t))
				require.NoError(t, err)
				require.True(t, gone)
			}
			for _, f := range golang {
				require.ErrorIs(t, testkit.GetError(t, f), engine.ErrLatchGone, "%s deletes", deletes)
			}
			require.Equal(t, "true", ends.ok(t).value(), "it looks again when its time is over")
			requireWaiting(t, java, nil)
			p.set(t, 1)
			opened := time.Now()
			p.countDown(t, 1)
			p.requireLetIn(t, opened, java, nil)
		}
	})
}

// TestCountsOfBothSidesAddUp: threads of Java and callers of Go count down one latch, and it opens with the last one.
func TestCountsOfBothSidesAddUp(t *testing.T) {
	const threads, callers, each = 4, 8, 50
	eachLatch(t, (threads+callers)*each+1, func(t *testing.T, p latchPlay) {
		java, golang := p.waitsInJava(t, 2), p.waitsInGo(t, p.e, 8, 2)
		engines := []*engine.Engine{p.openGo(t), p.openGo(t)}
		var calls []*call
		for i := range threads {
			th := p.deployment.java.thread(t, fmt.Sprintf("%s/counts %d", t.Name(), i))
			calls = append(calls, javaLatch{th, p.name}.start("countDown", "n", strconv.Itoa(each)))
		}
		var downs []*engine.Future[struct{}]
		for i := range callers * each {
			downs = append(downs, engines[i%2].CountDownLatch(p.name).CountDownAsync(1))
		}
		for _, f := range downs {
			testkit.Get(t, f)
		}
		for _, c := range calls {
			c.ok(t)
		}
		p.requireCount(t, 1)
		requireWaiting(t, java, golang)
		opened := time.Now()
		p.countDown(t, 1)
		p.requireLetIn(t, opened, java, golang)
		p.requireCount(t, 0)
	})
}
