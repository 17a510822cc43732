package interop

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A javaLeased is a semaphore with leased permits as a thread of Java sees it.
type javaLeased struct {
	th   *javaThread
	name string
}

func (s javaLeased) start(op string, args ...string) *call {
	return javaLock{th: s.th, name: s.name}.send("leased", append([]string{"op", op}, args...)...)
}

func (s javaLeased) do(t *testing.T, op string, args ...string) string {
	t.Helper()
	return s.start(op, args...).ok(t).value()
}

// acquire takes n permits and returns their ids. A lease of 0: they have no end.
func (s javaLeased) acquire(t *testing.T, n int, lease time.Duration) []string {
	t.Helper()
	args := []string{"n", strconv.Itoa(n)}
	if lease > 0 {
		args = append(args, "leaseMs", strconv.FormatInt(lease.Milliseconds(), 10))
	}
	ids := strings.Split(s.do(t, "acquire", args...), ",")
	require.Len(t, ids, n)
	return ids
}

// number asks for a number.
func (s javaLeased) number(t *testing.T, op string, args ...string) int {
	t.Helper()
	n, err := strconv.Atoi(s.do(t, op, args...))
	require.NoError(t, err)
	return n
}

// requireRefused checks that Redisson knows no such permit.
func (s javaLeased) requireRefused(t *testing.T, op, id string) {
	t.Helper()
	var thrown *javaError
	require.ErrorAs(t, s.start(op, "ids", id).wait(t).err, &thrown)
	require.Equal(t, "IllegalArgumentException", thrown.Type)
}

// A leasedPlay is a semaphore with leased permits in a deployment, as both sides see it.
type leasedPlay struct {
	play
	name string
	all  int // permits
	e    *engine.Engine
	sem  *engine.PermitSemaphore
	java javaLeased
}

// eachLeased runs fn with a semaphore that has so many permits, in every deployment; 0: nobody has given it any.
func eachLeased(t *testing.T, permits int, fn func(t *testing.T, p leasedPlay)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		fn(t, d.leased(t, permits))
	})
}

func (d *deployment) leased(t *testing.T, permits int) leasedPlay {
	t.Helper()
	p := leasedPlay{play: play{d, semaphoreKind}, name: "leased", all: permits, e: d.openGo(t)}
	p.sem = p.e.PermitSemaphore(p.name, engine.FixedLease(time.Minute))
	p.java = javaLeased{d.java.thread(t, t.Name()), p.name}
	if permits > 0 {
		set, err := p.sem.TrySetPermits(testkit.Limited(t), permits)
		require.NoError(t, err)
		require.True(t, set)
	}
	return p
}

func (p leasedPlay) acquire(t *testing.T, n int, opts ...engine.Option) *engine.Permit {
	t.Helper()
	permit, err := p.sem.With(opts...).Acquire(testkit.Limited(t), n)
	require.NoError(t, err)
	return permit
}

func (p leasedPlay) requireNoneFor(t *testing.T, n int) {
	t.Helper()
	_, err := p.sem.TryAcquire(testkit.Limited(t), n)
	require.ErrorIs(t, err, engine.ErrNoPermits)
	require.Empty(t, p.java.do(t, "tryAcquire", "n", strconv.Itoa(n)))
}

// requireFree checks how many are free, and how many are not, on both sides.
func (p leasedPlay) requireFree(t *testing.T, n int) {
	t.Helper()
	ctx := testkit.Limited(t)
	for java, golang := range map[string]func() (int, error){
		"availablePermits": func() (int, error) { return p.sem.AvailablePermits(ctx) },
		"acquiredPermits":  func() (int, error) { return p.sem.AcquiredPermits(ctx) },
		"getPermits":       func() (int, error) { return p.sem.Permits(ctx) },
	} {
		want := map[string]int{"availablePermits": n, "acquiredPermits": p.all - n, "getPermits": p.all}[java]
		got, err := golang()
		require.NoError(t, err)
		require.Equal(t, want, got, java)
		require.Equal(t, want, p.java.number(t, java), java)
	}
}

// waitsInJava begins an acquire in Java and waits until its thread waits for a message.
func (p leasedPlay) waitsInJava(t *testing.T, n int) *call {
	t.Helper()
	c := p.java.start("acquire", "n", strconv.Itoa(n), "leaseMs", "60000")
	p.waits(t, p.java.th, p.name)
	require.False(t, c.answered(), "granted though too few are free")
	return c
}

// waitsInGo begins an acquire in Go and waits until its engine listens.
func (p leasedPlay) waitsInGo(t *testing.T, n int) *engine.Future[*engine.Permit] {
	t.Helper()
	f := p.sem.AcquireAsync(testkit.Limited(t), n)
	p.listening(t, p.name, "", 1)
	testkit.Pending(t, f)
	return f
}

// requireGranted checks that what is about to be released wakes a waiter of Go, by its message.
func (p leasedPlay) requireGranted(t *testing.T, f *engine.Future[*engine.Permit], since time.Time) *engine.Permit {
	t.Helper()
	permit := testkit.Get(t, f)
	require.Less(t, time.Since(since), soon)
	p.requireWokenByMessage(t, p.e)
	return permit
}

func TestLeasedPermitsThatJavaHasKeepGoOut(t *testing.T) {
	eachLeased(t, 3, func(t *testing.T, p leasedPlay) {
		ids := p.java.acquire(t, 2, time.Minute)
		mine := p.acquire(t, 1)
		p.requireNoneFor(t, 1)
		holders, err := p.sem.Holders(testkit.Limited(t))
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, h := range holders {
			seen[h.ID] = h.Mine
			require.Greater(t, h.Remaining, 30*time.Second)
			require.LessOrEqual(t, h.Remaining, time.Minute)
		}
		require.Equal(t, map[string]bool{ids[0]: false, ids[1]: false, mine.IDs()[0]: true}, seen)

		f := p.waitsInGo(t, 2)
		released := time.Now()
		p.java.do(t, "release", "ids", strings.Join(ids, ","))
		next := p.requireGranted(t, f, released)
		p.requireFree(t, 0)
		require.NoError(t, next.Release(testkit.Limited(t)))
		require.NoError(t, mine.Release(testkit.Limited(t)))
		p.requireFree(t, 3)
	})
}

func TestLeasedPermitsThatGoHasKeepJavaOut(t *testing.T) {
	eachLeased(t, 3, func(t *testing.T, p leasedPlay) {
		mine := p.acquire(t, 2, engine.WatchdogLease(time.Minute))
		one := p.java.do(t, "tryAcquire", "leaseMs", "60000")
		require.Len(t, one, 32, "one was left")
		p.requireNoneFor(t, 1)
		require.Empty(t, p.java.do(t, "tryAcquire", "waitMs", "300", "leaseMs", "60000"))
		require.Equal(t, "true", p.java.do(t, "tryRelease", "ids", one))

		c := p.waitsInJava(t, 3)
		released := time.Now()
		require.NoError(t, mine.Release(testkit.Limited(t)))
		r := c.ok(t)
		require.Less(t, r.at.Sub(released), soon, "it would have asked after a minute: no message woke it")
		p.requireFree(t, 0)
		p.java.do(t, "release", "ids", r.value())
		p.requireFree(t, 3)
	})
}

// TestPermitsAreReleasedByTheirIdsFromTheOtherSide: of several that are released at once all or none, on both sides.
func TestPermitsAreReleasedByTheirIdsFromTheOtherSide(t *testing.T) {
	const lease = 3 * time.Second
	eachLeased(t, 4, func(t *testing.T, p leasedPlay) {
		ctx := testkit.Limited(t)
		ids := p.java.acquire(t, 3, 0)
		require.NoError(t, p.sem.Release(ctx, ids[0]))
		p.requireFree(t, 2)
		require.ErrorIs(t, p.sem.Release(ctx, ids...), engine.ErrNotHeld)
		p.requireFree(t, 2)
		require.Equal(t, "false", p.java.do(t, "tryRelease", "ids", ids[0]))
		p.java.requireRefused(t, "release", strings.Join(ids, ","))
		p.requireFree(t, 2)
		require.NoError(t, p.sem.Release(ctx, ids[1:]...))
		p.requireFree(t, 4)

		watched := p.acquire(t, 2, engine.WatchdogLease(lease))
		of := watched.IDs()
		require.Equal(t, "true", p.java.do(t, "tryRelease", "ids", of[0]))
		p.requireFree(t, 3)
		testkit.Eventually(t, "the next renewal finds that one is gone", watched.Lost)
		testkit.Eventually(t, "the other is given back", func() bool { return p.do(t, "EXISTS", slot.PermitTimeouts(p.name)) == "0" })
		require.ErrorIs(t, watched.Release(ctx), engine.ErrLost)
		p.requireFree(t, 4)
		p.java.requireRefused(t, "release", of[1])
		p.requireFree(t, 4)

		fixed := p.acquire(t, 2)
		p.java.do(t, "release", "ids", strings.Join(fixed.IDs(), ","))
		p.requireFree(t, 4)
		require.ErrorIs(t, fixed.Release(ctx), engine.ErrLost)
		p.requireFree(t, 4)
	})
}

func TestALeaseThatOneSideUpdatesIsThatOfTheOther(t *testing.T) {
	const long, short = 10 * time.Minute, time.Second
	eachLeased(t, 2, func(t *testing.T, p leasedPlay) {
		ctx := testkit.Limited(t)
		id := p.java.acquire(t, 1, time.Minute)[0]
		mine := p.acquire(t, 1)
		left := func(id string) (java, golang time.Duration) {
			golang, err := p.sem.LeaseTime(ctx, id)
			require.NoError(t, err)
			return time.Duration(p.java.number(t, "getLeaseTime", "ids", id)) * time.Millisecond, golang
		}
		requireLeft := func(id string, most time.Duration) {
			t.Helper()
			java, golang := left(id)
			for _, d := range []time.Duration{java, golang} {
				require.LessOrEqual(t, d, most)
				require.Greater(t, d, most-30*time.Second)
			}
		}
		requireLeft(id, time.Minute)
		requireLeft(mine.IDs()[0], time.Minute)
		done, err := p.sem.UpdateLease(ctx, id, long)
		require.NoError(t, err)
		require.True(t, done)
		requireLeft(id, long)
		ms := strconv.FormatInt(long.Milliseconds(), 10)
		require.Equal(t, "true", p.java.do(t, "updateLeaseTime", "ids", mine.IDs()[0], "leaseMs", ms))
		requireLeft(mine.IDs()[0], long)

		// Shorter: whoever waits gets it when the new lease is over.
		done, err = p.sem.UpdateLease(ctx, id, short)
		require.NoError(t, err)
		require.True(t, done)
		shortened := time.Now()
		first := p.acquire(t, 1)
		require.Less(t, time.Since(shortened), short+soon)
		p.java.requireRefused(t, "getLeaseTime", id)
		require.Equal(t, "false", p.java.do(t, "updateLeaseTime", "ids", id, "leaseMs", ms))
		require.Equal(t, "false", p.java.do(t, "tryRelease", "ids", id))
		p.requireFree(t, 0)

		shortMs := strconv.FormatInt(short.Milliseconds(), 10)
		require.Equal(t, "true", p.java.do(t, "updateLeaseTime", "ids", mine.IDs()[0], "leaseMs", shortMs))
		shortened = time.Now()
		second := p.java.acquire(t, 1, time.Minute)
		require.Less(t, time.Since(shortened), short+soon)
		_, err = p.sem.LeaseTime(ctx, mine.IDs()[0])
		require.ErrorIs(t, err, engine.ErrNotHeld)
		done, err = p.sem.UpdateLease(ctx, mine.IDs()[0], long)
		require.NoError(t, err)
		require.False(t, done)
		require.ErrorIs(t, mine.Release(ctx), engine.ErrLost, "its holder learns it when it gives it back")
		p.requireFree(t, 0)
		require.NoError(t, p.sem.Release(ctx, second...))
		require.NoError(t, first.Release(ctx))
		p.requireFree(t, 2)
	})
}

func TestNumberOfLeasedPermitsThatOneSideChangesIsSeenByTheOther(t *testing.T) {
	eachLeased(t, 0, func(t *testing.T, p leasedPlay) {
		ctx := testkit.Limited(t)
		require.Equal(t, "true", p.java.do(t, "trySetPermits", "n", "5"))
		set, err := p.sem.TrySetPermits(ctx, 9)
		require.NoError(t, err)
		require.False(t, set)
		p.all = 5
		p.requireFree(t, 5)
		ids := p.java.acquire(t, 2, time.Minute)
		mine := p.acquire(t, 2)

		// Fewer than are leased: fewer than none are free.
		done, err := p.sem.SetPermits(ctx, 3)
		require.NoError(t, err)
		require.True(t, done)
		p.all = 3
		p.requireFree(t, -1)
		p.requireNoneFor(t, 1)
		p.java.do(t, "release", "ids", ids[0])
		p.requireFree(t, 0)
		p.java.do(t, "setPermits", "n", "4")
		p.all = 4
		p.requireFree(t, 1)
		n, err := p.sem.AddPermits(ctx, 2)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		p.all = 6
		p.requireFree(t, 3)
		p.java.do(t, "addPermits", "n", "-3")
		p.all = 3
		p.requireFree(t, 0)

		require.NoError(t, mine.Release(ctx))
		require.NoError(t, p.sem.Release(ctx, ids[1]))
		p.requireFree(t, 3)
		left := p.acquire(t, 1)
		require.Equal(t, "true", p.java.do(t, "delete"))
		require.ErrorIs(t, left.Release(ctx), engine.ErrLost)
		gone, err := p.sem.Delete(ctx)
		require.NoError(t, err)
		require.False(t, gone)
		p.all = 0
		p.requireFree(t, 0)
	})
}

func TestMoreLeasedPermitsWakeWhoWaitsOnTheOtherSide(t *testing.T) {
	eachLeased(t, 0, func(t *testing.T, p leasedPlay) {
		ctx := testkit.Limited(t)
		golang := map[string]func() error{
			"trySetPermits": func() error { _, err := p.sem.TrySetPermits(ctx, 1); return err },
			"addPermits":    func() error { _, err := p.sem.AddPermits(ctx, 1); return err },
			"setPermits":    func() error { _, err := p.sem.SetPermits(ctx, 3); return err },
		}
		for _, op := range []string{"trySetPermits", "addPermits", "setPermits"} {
			c := p.waitsInJava(t, 1)
			gave := time.Now()
			require.NoError(t, golang[op]())
			require.Less(t, c.ok(t).at.Sub(gave), soon, op)
			p.all++
			p.requireFree(t, 0)
		}
		_, err := p.sem.Delete(ctx)
		require.NoError(t, err)
		for _, give := range [][2]string{{"trySetPermits", "1"}, {"addPermits", "1"}, {"setPermits", "3"}} {
			f := p.waitsInGo(t, 1)
			gave := time.Now()
			p.java.do(t, give[0], "n", give[1])
			p.requireGranted(t, f, gave)
		}
		p.all = 3
		p.requireFree(t, 0)
	})
}
