package engine

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestADurationIsCountedByTheSmallestBoundThatIsNoShorter(t *testing.T) {
	bounds := HistogramBounds()
	require.Equal(t, 250*time.Microsecond, bounds[0])
	for i, bound := range bounds {
		if i > 0 {
			require.Equal(t, 2*bounds[i-1], bound)
		}
		require.Equal(t, i, bucketOf(bound))
		require.Equal(t, i+1, bucketOf(bound+1))
	}
	require.Zero(t, bucketOf(0))
	require.Equal(t, len(bounds), bucketOf(MaxLease))

	var h Histogram
	h.add(time.Millisecond)
	h.add(time.Hour)
	sum := h
	sum.merge(&h)
	require.Equal(t, int64(4), sum.Count)
	require.Equal(t, 2*(time.Hour+time.Millisecond), sum.Sum)
	require.Equal(t, int64(2), sum.Buckets[2])
	require.Equal(t, int64(2), sum.Buckets[len(bounds)])
}

func TestAStampCountsOnWhereItWrapsAround(t *testing.T) {
	const unit = 1 << stampBits
	for _, start := range []clock.Instant{1, unit, unit<<32 - unit, unit << 33} {
		s := stampOf(start)
		require.NotZero(t, s)
		require.InDelta(t, float64(time.Hour), float64(s.until(start.Add(time.Hour))), 2*unit)
		require.InDelta(t, float64(12*24*time.Hour), float64(s.until(start.Add(12*24*time.Hour))), 2*unit)
	}
	require.Zero(t, stampOf(clock.Instant(time.Hour)).until(clock.Instant(time.Hour-time.Second)))
}

// about is what a histogram of so many durations that are about as long would be.
func about(t *testing.T, h Histogram, count int64, each time.Duration) {
	t.Helper()
	require.Equal(t, count, h.Count)
	require.InDelta(t, float64(each), float64(h.Sum)/float64(max(count, 1)), float64(time.Millisecond))
	var all int64
	for _, n := range h.Buckets {
		all += n
	}
	require.Equal(t, count, all)
}

func TestWaitsBehindAHolderHereAndHoldsAreMeasured(t *testing.T) {
	for _, off := range []bool{false, true} { // passed on, and released and acquired anew
		play(t, func(sc *scene) {
			sc.e.cfg.NoHandOff = off
			first := sc.acquire(sc.e.Lock("a"))
			about(t, sc.e.Stats().Wait, 1, 0)
			f := sc.e.Lock("a").AcquireAsync(context.Background())
			sc.w.Sleep(10 * time.Millisecond) // less than a tenure
			sc.release(first)
			second, err := result(sc, f)
			sc.wants(nil, err, "the first has released")
			sc.w.Sleep(300 * time.Millisecond)
			sc.release(second)
			st := sc.e.Stats()
			require.Equal(t, int64(1), st.WaitsLocal)
			about(t, st.Wait, 2, 5*time.Millisecond)
			about(t, st.Hold, 2, 155*time.Millisecond)
			require.Equal(t, !off, st.GrantsByHandOff == 1)
		})
	}
}

func TestAWaitForAnotherClientIsMeasuredFromTheFirstCommand(t *testing.T) {
	play(t, func(sc *scene) {
		sc.server.twin.Do([]string{"HSET", "a", "another:1", "1"})
		f := sc.e.Lock("a").AcquireAsync(context.Background())
		sc.w.Sleep(10 * time.Millisecond)
		require.Zero(t, sc.e.Stats().WaitsLocal)
		sc.w.Sleep(4 * time.Second)
		sc.server.twin.Delete("a") // nobody says so: a poll finds it
		ls, err := result(sc, f)
		sc.wants(nil, err, "it is free")
		st := sc.e.Stats()
		require.Equal(t, int64(1), st.Wait.Count)
		require.Greater(t, st.Wait.Sum, 4*time.Second)
		require.Less(t, st.Wait.Sum, 8*time.Second)
		sc.release(ls)
	})
}

func TestWaitsThatAreGivenUpAreToldApart(t *testing.T) {
	play(t, func(sc *scene) {
		held := sc.acquire(sc.e.Lock("a"))
		_, err := result(sc, sc.e.Lock("a", MaxWait(time.Second)).AcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "MaxWait is over")
		require.Equal(t, int64(1), sc.e.Stats().EndedByMaxWait)

		ctx, cancel := sc.w.WithTimeout(context.Background(), time.Second)
		_, err = result(sc, sc.e.Lock("a").AcquireAsync(ctx))
		cancel()
		sc.wants(context.DeadlineExceeded, err, "its ctx is over")
		require.Equal(t, int64(1), sc.e.Stats().EndedByContext)

		f := sc.e.Lock("a").AcquireAsync(context.Background())
		require.True(t, f.Cancel())
		st := sc.e.Stats()
		require.Equal(t, []int64{1, 1, 1}, []int64{st.EndedByMaxWait, st.EndedByContext, st.EndedByCancel})
		require.Equal(t, int64(3), st.WaitsLocal)
		require.Equal(t, int64(1), st.Wait.Count, "who gave up has waited in vain")
		sc.release(held)
	})
}

func TestAWriterBehindReadersHereWaitsBehindAHolderHere(t *testing.T) {
	play(t, func(sc *scene) {
		rw := sc.e.RWLock("a")
		one, two := sc.acquire(rw.ReadLock()), sc.acquire(rw.ReadLock())
		require.Zero(t, sc.e.Stats().WaitsLocal, "readers share")
		f := rw.WriteLock().AcquireAsync(context.Background())
		sc.w.Sleep(100 * time.Millisecond)
		sc.release(one)
		sc.w.Sleep(100 * time.Millisecond)
		sc.release(two)
		ls, err := result(sc, f)
		sc.wants(nil, err, "nobody reads")
		st := sc.e.Stats()
		require.Equal(t, int64(1), st.WaitsLocal)
		require.Equal(t, int64(3), st.Wait.Count)
		require.InDelta(t, float64(200*time.Millisecond), float64(st.Wait.Sum), float64(10*time.Millisecond))
		require.Equal(t, int64(2), st.Hold.Count)
		require.InDelta(t, float64(300*time.Millisecond), float64(st.Hold.Sum), float64(10*time.Millisecond))
		sc.release(ls)
	})
}

func TestEachGrantOfEveryKindIsCountedAsAWait(t *testing.T) {
	play(t, func(sc *scene) {
		owner := As(NewOwner())
		held := []*Lease{
			sc.acquire(sc.e.Lock("a", owner)), sc.acquire(sc.e.Lock("a", owner)), // entered again
			sc.acquire(sc.e.FencedLock("b").Lock), sc.acquire(sc.e.FairLock("c").Lock),
			sc.acquire(sc.e.RWLock("d").WriteLock()),
		}
		sc.w.Sleep(time.Second)
		for _, ls := range held {
			sc.release(ls)
		}
		st := sc.e.Stats()
		require.Equal(t, st.Grants, st.Wait.Count)
		require.Equal(t, st.Releases, st.Hold.Count)
		about(t, st.Hold, 5, time.Second)
	})
}

// Many that come at once are stamped with what is known of the time: at the last tick it was right.
func TestTheStampsOfManyAreRightToWithinATick(t *testing.T) {
	play(t, func(sc *scene) {
		held := sc.acquire(sc.e.Lock("a"))
		off := time.Duration(0)
		for i := range 10 * exactReads {
			if i == 5*exactReads { // nothing was read or answered for long
				sc.w.Sleep(time.Minute)
			}
			f := sc.e.Lock("a").AcquireAsync(context.Background())
			late := f.op.(*acquireOp).asked.until(sc.w.Now())
			off = max(off, late)
			f.Cancel()
			sc.w.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, off, tickEvery+timerWidth)
		require.Greater(t, off, 10*time.Millisecond, "the clock is not read for each of them")
		sc.release(held)
	})
}

func TestNamesAreCountedByTheirClass(t *testing.T) {
	play(t, func(sc *scene) {
		sc.e.cfg.Prefix = "app:"
		sc.e.cfg.Class = func(name string) string {
			class, _, _ := strings.Cut(name, ":")
			return strings.TrimPrefix(class, "none")
		}
		a := sc.acquire(sc.e.Lock("order:1"))
		_, err := result(sc, sc.e.Lock("order:1").TryAcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "it is held")
		_, err = result(sc, sc.e.Lock("order:1", MaxWait(time.Second)).AcquireAsync(context.Background()))
		sc.wants(ErrHeld, err, "it is held")
		b := sc.acquire(sc.e.Lock("job:1", WatchdogLease(time.Second)))
		c := sc.acquire(sc.e.Lock("none:1"))
		sc.server.twin.Delete("app:job:1")
		sc.w.Sleep(time.Second) // a renewal finds that out
		require.True(t, b.Lost())
		sc.release(a)
		sc.release(c)
		all := sc.e.Stats().Classes
		require.Len(t, all, 2)
		order, job := all[0], all[1]
		require.Equal(t, "order", order.Class)
		require.Equal(t, []int64{1, 1, 0}, []int64{order.Refused, order.GaveUp, order.Lost})
		about(t, order.Wait, 1, 0)
		require.Equal(t, int64(1), order.Hold.Count)
		require.Equal(t, "job", job.Class)
		require.Equal(t, []int64{0, 0, 1}, []int64{job.Refused, job.GaveUp, job.Lost})
		about(t, job.Wait, 1, 0)
		about(t, job.Hold, 0, 0)
	})
}

func TestClassesBeyondTheLastAreOneOther(t *testing.T) {
	e := &Engine{}
	same := func(name string) string { return name }
	for i := range 3 * MaxClasses {
		n := e.classes.numberOf(same, strconv.Itoa(i))
		require.Equal(t, n, e.classes.numberOf(same, strconv.Itoa(i)), "the same name has the same class")
		want := strconv.Itoa(i)
		if i >= MaxClasses {
			want = OtherClass
		}
		require.Equal(t, want, e.classes.of(n).name)
	}
	all := e.classes.stats()
	require.Len(t, all, MaxClasses+1)
	require.Equal(t, OtherClass, all[MaxClasses].Class)
	require.Nil(t, e.classes.of(0))
}
