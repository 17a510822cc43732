package wheel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms    = time.Millisecond
	width = 50 * ms
	start = clock.Instant(1_000_000 * ms) // a multiple of width
)

// await fails the test if nothing comes out of c for a long time.
func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing happened")
		panic("unreachable")
	}
}

// thing is what is scheduled here.
type thing struct {
	item Item[*thing]
	id   int
}

func (it *thing) Scheduled() *Item[*thing] { return &it.item }

// requireItems compares which items they are; require.Equal would compare what is in them.
func requireItems(t testing.TB, want, got []*thing) {
	t.Helper()
	require.True(t, slices.Equal(want, got), "want %p, got %p", want, got)
}

// rig is a wheel on a fake clock, none of whose sources of time acts by itself.
type rig struct {
	*Wheel
	clock *clock.Fake
	ticks chan time.Time
	timer chan func() // what the timing wheel was asked to call
	ahead chan time.Duration
}

type noStop struct{}

func (noStop) Stop() bool { return false }

// newRig makes a rig: the parts that cfg does not leave out are in the test's hands.
func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	r := &rig{
		clock: clock.NewFake(start), ticks: make(chan time.Time),
		timer: make(chan func(), 1000), ahead: make(chan time.Duration, 1000),
	}
	cfg.Clock, cfg.Ticks = r.clock, r.ticks
	if !cfg.NoTimingWheel && cfg.After == nil {
		cfg.After = func(d time.Duration, f func()) Stopper {
			r.timer <- f
			r.ahead <- d
			return noStop{}
		}
	}
	w, err := New(cfg)
	require.NoError(t, err)
	r.Wheel = w
	t.Cleanup(w.Stop)
	return r
}

// delivery is one call of a set's function.
type delivery struct {
	now   clock.Instant
	items []*thing
}

// newSetOf makes a set that reports its deliveries.
func newSetOf(r *rig) (*Set[*thing], chan delivery) {
	out := make(chan delivery, 10_000)
	return NewSet(r.Wheel, width, func(now clock.Instant, due []*thing) {
		out <- delivery{now, slices.Clone(due)}
	}), out
}

func TestItemIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Item[*thing]{}), uintptr(16))
}

func TestTheZeroConfigWillDoAndASetNeedsAWidthAndAFunction(t *testing.T) {
	w, err := New(Config{})
	require.NoError(t, err)
	w.Stop()
	require.Panics(t, func() { NewSet(w, 0, func(clock.Instant, []*thing) {}) })
	require.Panics(t, func() { NewSet[*thing](w, width, nil) })
}

func TestSchedule(t *testing.T) {
	t.Run("ABucketIsDeliveredTogetherInOrderAtItsEnd", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		items := make([]thing, 4)
		s.Schedule(&items[0], start.Add(width+1))
		s.Schedule(&items[1], start.Add(2*width))
		s.Schedule(&items[2], start.Add(2*width+1)) // the next bucket
		s.Schedule(&items[3], start.Add(width+width/2))
		require.Equal(t, 4, s.Len())
		r.clock.Advance(2*width - 1)
		r.Settle()
		require.Empty(t, out)
		r.clock.Advance(1)
		r.Settle()
		got := await(t, out)
		require.Equal(t, start.Add(2*width), got.now)
		requireItems(t, []*thing{&items[0], &items[1], &items[3]}, got.items)
		require.Nil(t, items[0].item.bucket)
		require.Equal(t, start.Add(3*width), items[2].item.bucket.end())
		require.Equal(t, 1, s.Len())
	})
	t.Run("ManyAtOnce", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		s.Schedule(&thing{}, start.Add(10*width))
		items := make([]thing, 2*chunk+1) // the earliest in the last chunk
		plans := make([]Plan[*thing], len(items))
		for i := range items {
			plans[i] = Plan[*thing]{&items[i], start.Add(3 * width)}
		}
		last := len(items) - 1
		plans[last].Due = start.Add(width)
		s.ScheduleAll(plans)
		require.Equal(t, len(items)+1, s.Len())
		require.Equal(t, start.Add(width), r.timed.aim(), "who tells the time is to come for the first of them")
		r.clock.Advance(width)
		r.Settle()
		requireItems(t, []*thing{&items[last]}, await(t, out).items)
		r.clock.Advance(2 * width)
		r.Settle()
		require.Len(t, await(t, out).items, last)
		s.ScheduleAll(nil)
		r.Stop()
		s.ScheduleAll(plans)
		require.Zero(t, s.Len(), "after Stop it does nothing")
	})
	t.Run("MovesEarlierAndLater", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		var a, b thing
		s.Schedule(&a, start.Add(10*width))
		s.Schedule(&b, start.Add(2*width))
		s.Schedule(&a, start.Add(width))
		s.Schedule(&b, start.Add(20*width))
		s.Schedule(&b, start.Add(20*width-1)) // within its bucket
		require.Equal(t, start.Add(20*width), b.item.bucket.end())
		require.Equal(t, 2, s.Len())
		r.clock.Advance(width)
		r.Settle()
		requireItems(t, []*thing{&a}, await(t, out).items)
		r.clock.Advance(18 * width)
		r.Settle()
		require.Empty(t, out)
		r.clock.Advance(width)
		r.Settle()
		requireItems(t, []*thing{&b}, await(t, out).items)
		require.Zero(t, s.Len())
	})
	t.Run("WhatIsPreciseIsATenthOfTheWidthLate", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		items := make([]thing, 3)
		s.Schedule(&items[0], start.Add(width+1))
		s.SchedulePrecisely(&items[1], start.Add(width+1))
		s.SchedulePrecisely(&items[2], start.Add(2*width)) // with the others of that width
		r.clock.Advance(width + width/finer - 1)
		r.Settle()
		require.Empty(t, out)
		r.clock.Advance(1)
		r.Settle()
		requireItems(t, []*thing{&items[1]}, await(t, out).items)
		r.clock.Advance(width - width/finer)
		r.Settle()
		requireItems(t, []*thing{&items[0], &items[2]}, await(t, out).items)
	})
	t.Run("ThePastIsDeliveredFromAnotherGoroutineWithoutASource", func(t *testing.T) {
		r := newRig(t, Config{NoAlarm: true, NoTimingWheel: true})
		out := make(chan clock.Instant) // unbuffered: in the caller it would hang
		set := NewSet(r.Wheel, width, func(now clock.Instant, _ []*thing) { out <- now })
		for _, due := range []clock.Instant{start, start - 1, 1, 0, -7} {
			var it thing
			set.Schedule(&it, due)
			require.Equal(t, start, await(t, out))
		}
	})
	t.Run("TheFarFutureIsNotSoon", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		items := make([]thing, 4)
		for i, due := range []clock.Instant{never, never - 1, never.Add(-width), start.Add(1000 * time.Hour)} {
			s.Schedule(&items[i], due)
		}
		require.LessOrEqual(t, await(t, r.ahead), horizon+tick, "the timing wheel is asked to look now and then")
		r.clock.Set(start.Add(1000*time.Hour - 1))
		r.Settle()
		require.Empty(t, out)
		r.clock.Set(start.Add(1000 * time.Hour))
		requireItems(t, []*thing{&items[3]}, await(t, out).items)
		require.Equal(t, 3, s.Len())
	})
	t.Run("AnItemOfAnotherSetPanicsAndCorruptsNothing", func(t *testing.T) {
		r := newRig(t, Config{})
		a, _ := newSetOf(r)
		b, _ := newSetOf(r)
		var it thing
		a.Schedule(&it, start.Add(width))
		require.Panics(t, func() { b.Schedule(&it, start.Add(width)) })
		require.Panics(t, func() { b.Cancel(&it.item) })
		require.Zero(t, b.Len())
		require.True(t, a.Cancel(&it.item))
		b.Schedule(&it, start.Add(width))
		require.True(t, b.Cancel(&it.item))
	})
}

func TestCancel(t *testing.T) {
	r := newRig(t, Config{})
	s, out := newSetOf(r)
	var it, other thing
	require.False(t, s.Cancel(&it.item))
	s.Schedule(&it, start.Add(width))
	s.Schedule(&other, start.Add(width))
	require.True(t, s.Cancel(&it.item))
	require.False(t, s.Cancel(&it.item))
	require.Nil(t, it.item.bucket)
	r.clock.Advance(width)
	r.Settle()
	requireItems(t, []*thing{&other}, await(t, out).items)
	require.False(t, s.Cancel(&other.item))
	require.Empty(t, out)
}

func TestEmptyBucketsAreBounded(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true})
	s, out := newSetOf(r)
	var stays thing
	s.Schedule(&stays, start.Add(5000*width))
	for i := range 10_000 {
		var it thing
		s.Schedule(&it, start.Add(time.Duration(i+1)*width))
		require.True(t, s.Cancel(&it.item))
		require.LessOrEqual(t, len(s.order), keepEmpty+3)
		require.Len(t, s.buckets, len(s.order))
	}
	require.LessOrEqual(t, len(s.free), keepFree)
	r.clock.Advance(5000 * width)
	requireItems(t, []*thing{&stays}, await(t, out).items)
	require.Empty(t, out)
}

func TestDroppingEmptyBucketsKeepsTheOrder(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true})
	s, out := newSetOf(r)
	const n = 5000
	items := make([]thing, n)
	for _, i := range rand.Perm(n) {
		s.Schedule(&items[i], start.Add(time.Duration(i+1)*width))
	}
	for _, i := range rand.Perm(n) {
		if i%10 != 0 {
			require.True(t, s.Cancel(&items[i].item))
		}
	}
	require.Less(t, len(s.order), n/2)
	r.clock.Set(start.Add(n * width))
	for i := 0; i < n; i += 10 {
		requireItems(t, []*thing{&items[i]}, await(t, out).items)
	}
	require.Zero(t, s.Len())
}

// Each source alone must deliver, none of them early.
func TestSources(t *testing.T) {
	t.Run("TheTickerAloneDelivers/WallClockSteppedBack", func(t *testing.T) {
		r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
		s, out := newSetOf(r)
		var it thing
		s.Schedule(&it, start.Add(width))
		r.clock.Advance(width - 1)
		r.ticks <- time.Time{}
		r.ticks <- time.Time{} // taken only when the first has been dealt with
		require.Equal(t, 1, s.Len())
		require.False(t, s.running)
		r.clock.Advance(1)
		r.ticks <- time.Time{}
		require.Equal(t, start.Add(width), await(t, out).now)
	})
	t.Run("TheRealTickerDelivers/WallClockSteppedBack", func(t *testing.T) {
		w, err := New(Config{NoTimingWheel: true, NoAlarm: true})
		require.NoError(t, err)
		defer w.Stop()
		out := make(chan clock.Instant, 1)
		s := NewSet(w, ms, func(now clock.Instant, _ []*thing) { out <- now })
		var it thing
		due := w.clock.Now().Add(20 * ms)
		s.Schedule(&it, due)
		require.False(t, await(t, out).Before(due))
	})
	t.Run("TheTimingWheelMayFireEarly/WallClockSteppedForward", func(t *testing.T) {
		r := newRig(t, Config{NoAlarm: true})
		s, out := newSetOf(r)
		var it thing
		s.Schedule(&it, start.Add(width))
		early := await(t, r.timer)
		early()
		r.clock.Advance(width - 1)
		early()
		require.False(t, s.running)
		require.Equal(t, 1, s.Len())
		r.clock.Advance(1)
		r.ticks <- time.Time{}
		require.Equal(t, start.Add(width), await(t, out).now)
		early() // late: nothing left
		r.Settle()
		require.Empty(t, out)
	})
	t.Run("TheTimingWheelAloneDelivers", func(t *testing.T) {
		r := newRig(t, Config{NoAlarm: true})
		s, out := newSetOf(r)
		items := make([]thing, 100)
		for i := range items {
			s.Schedule(&items[i], start.Add(width/2))
		}
		later := thing{}
		s.Schedule(&later, start.Add(2*width))
		require.Equal(t, width+tick, await(t, r.ahead))
		r.clock.Advance(width)
		await(t, r.timer)()
		require.Len(t, await(t, out).items, len(items))
		require.Equal(t, width+tick, await(t, r.ahead), "one timer at a time, for the earliest bucket")
		r.clock.Advance(width)
		await(t, r.timer)()
		requireItems(t, []*thing{&later}, await(t, out).items)
		require.Empty(t, r.timer)
	})
	t.Run("ATimingWheelThatIsAlwaysEarlyIsNotAskedAgainAtOnce/WallClockSteppedBack", func(t *testing.T) {
		r := newRig(t, Config{NoAlarm: true})
		s, out := newSetOf(r)
		var it thing
		s.Schedule(&it, start.Add(10*width))
		look := await(t, r.timer)
		for range 3 {
			look()
			require.Zero(t, r.timed.aim())
			r.ticks <- time.Time{} // it is asked again with the next tick
			look = await(t, r.timer)
		}
		r.clock.Advance(10 * width)
		look()
		requireItems(t, []*thing{&it}, await(t, out).items)
	})
	t.Run("TheRealTimingWheelDelivers", func(t *testing.T) {
		w, err := New(Config{NoAlarm: true, Ticks: make(chan time.Time)})
		require.NoError(t, err)
		defer w.Stop()
		out := make(chan clock.Instant, 1)
		s := NewSet(w, ms, func(now clock.Instant, _ []*thing) { out <- now })
		var it thing
		for range 10 {
			due := w.clock.Now().Add(10 * ms)
			s.Schedule(&it, due)
			require.False(t, await(t, out).Before(due))
		}
	})
	t.Run("TheAlarmAloneDelivers/EvenAfterSuspend", func(t *testing.T) {
		r := newRig(t, Config{NoTimingWheel: true})
		a, outA := newSetOf(r)
		b, outB := newSetOf(r)
		items := make([]thing, 4)
		a.Schedule(&items[0], start.Add(3*width))
		a.Schedule(&items[1], start.Add(9*width))
		b.Schedule(&items[2], start.Add(2*width))
		b.Schedule(&items[3], start.Add(time.Hour))
		r.clock.Advance(2 * width)
		require.Equal(t, start.Add(2*width), await(t, outB).now)
		r.clock.Advance(width)
		require.Equal(t, start.Add(3*width), await(t, outA).now)
		r.clock.Set(start.Add(time.Hour))
		require.Equal(t, start.Add(time.Hour), await(t, outA).now)
		require.Equal(t, start.Add(time.Hour), await(t, outB).now)
	})
}

// countingClock counts how often its alarms are armed.
type countingClock struct {
	*clock.Fake
	armed atomic.Int64
}

type countingAlarm struct {
	clock.Alarm
	armed *atomic.Int64
}

func (c *countingClock) NewAlarm(fire func()) (clock.Alarm, error) {
	a, err := c.Fake.NewAlarm(fire)
	return countingAlarm{a, &c.armed}, err
}

func (a countingAlarm) Arm(at clock.Instant) {
	a.armed.Add(1)
	a.Alarm.Arm(at)
}

func TestAlarmIsArmedPerBucketNotPerItem(t *testing.T) {
	c := &countingClock{Fake: clock.NewFake(start)}
	w, err := New(Config{Clock: c, NoTimingWheel: true, Ticks: make(chan time.Time)})
	require.NoError(t, err)
	defer w.Stop()
	s := NewSet(w, width, func(clock.Instant, []*thing) {})
	items := make([]thing, 1000)
	for i := range items {
		s.Schedule(&items[i], start.Add(width).Add(time.Duration(i%10)*width))
	}
	require.EqualValues(t, 1, c.armed.Load())
	c.Advance(20 * width)
	w.Settle()
	require.Zero(t, s.Len())
	require.LessOrEqual(t, c.armed.Load(), int64(2*10+1))
}

func TestFire(t *testing.T) {
	t.Run("MayScheduleItsOwnItemsAgain", func(t *testing.T) {
		r := newRig(t, Config{})
		var s *Set[*thing]
		n := 0
		s = NewSet(r.Wheel, width, func(now clock.Instant, due []*thing) {
			for _, it := range due {
				n++
				s.Schedule(it, now.Add(3*width))
			}
		})
		items := make([]thing, 10)
		for i := range items {
			s.Schedule(&items[i], start.Add(width))
		}
		for range 10 {
			r.clock.Advance(3 * width)
			r.Settle()
		}
		require.Equal(t, 100, n)
		require.Equal(t, 10, s.Len())
	})
	t.Run("MayScheduleInThePastAndIsNotReentered", func(t *testing.T) {
		r := newRig(t, Config{})
		var s *Set[*thing]
		n, inside := 0, false
		s = NewSet(r.Wheel, width, func(_ clock.Instant, due []*thing) {
			require.False(t, inside)
			inside = true
			if n++; n < 100 {
				s.Schedule(due[0], 1)
			}
			inside = false
		})
		var it thing
		s.Schedule(&it, 1)
		r.Settle()
		require.Equal(t, 100, n)
	})
	t.Run("MayUseOtherSetsBothWays", func(t *testing.T) {
		r := newRig(t, Config{})
		var a, b *Set[*thing]
		var itA, itB thing
		n := 0
		a = NewSet(r.Wheel, width, func(now clock.Instant, _ []*thing) {
			b.Cancel(&itB.item)
			b.Schedule(&itB, now)
		})
		b = NewSet(r.Wheel, width, func(now clock.Instant, _ []*thing) {
			if n++; n < 50 {
				a.Cancel(&itA.item)
				a.Schedule(&itA, now)
			}
		})
		a.Schedule(&itA, start)
		r.Settle()
		require.Equal(t, 50, n)
	})
	t.Run("ASetThatHangsDelaysNoOther", func(t *testing.T) {
		r := newRig(t, Config{})
		began, end := make(chan struct{}), make(chan struct{})
		stuck := NewSet(r.Wheel, width, func(clock.Instant, []*thing) { began <- struct{}{}; <-end })
		s, out := newSetOf(r)
		var a, b, c thing
		stuck.Schedule(&a, start.Add(width))
		r.clock.Advance(width)
		await(t, began)
		stuck.Schedule(&a, start.Add(2*width)) // waits its turn
		s.Schedule(&b, start.Add(3*width))
		r.clock.Advance(2 * width)
		require.Equal(t, start.Add(3*width), await(t, out).now)
		s.Schedule(&c, start.Add(4*width))
		r.clock.Advance(width)
		require.Equal(t, start.Add(4*width), await(t, out).now)
		close(end)
		await(t, began)
		r.Settle()
	})
	t.Run("WhatIsInDeliveryMayBeScheduledAgain", func(t *testing.T) {
		r := newRig(t, Config{})
		began, end := make(chan []*thing), make(chan struct{})
		s := NewSet(r.Wheel, width, func(_ clock.Instant, due []*thing) { began <- slices.Clone(due); <-end })
		var it thing
		s.Schedule(&it, start.Add(width))
		r.clock.Advance(width)
		requireItems(t, []*thing{&it}, await(t, began))
		require.False(t, s.Cancel(&it.item))
		s.Schedule(&it, start.Add(2*width))
		require.True(t, s.Cancel(&it.item))
		s.Schedule(&it, start.Add(2*width))
		r.clock.Advance(width)
		close(end)
		requireItems(t, []*thing{&it}, await(t, began))
	})
	t.Run("AHugeBucketComesWholeAndHoldsNobodyUp", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		items := make([]thing, 100_000)
		for i := range items {
			s.Schedule(&items[i], start.Add(width))
		}
		r.clock.Advance(width)
		require.Len(t, await(t, out).items, len(items))
		require.Zero(t, s.Len())
	})
	t.Run("DoesNotHoldOnToWhatItDelivered", func(t *testing.T) {
		r := newRig(t, Config{})
		s := NewSet(r.Wheel, width, func(clock.Instant, []*thing) {})
		items := make([]thing, 10)
		for i := range items {
			s.Schedule(&items[i], start.Add(width))
		}
		r.clock.Advance(width)
		r.Settle()
		kept := s.batch[:cap(s.batch)]
		require.NotEmpty(t, kept)
		for _, it := range kept {
			require.Nil(t, it)
		}
	})
}

// halfDrained returns a set of 2*chunk items in the middle of a delivery, with the test
// in the place of the delivering goroutine.
func halfDrained(t *testing.T) (r *rig, s *Set[*thing], out chan delivery, items []thing, b *bucket[*thing], due []*thing) {
	t.Helper()
	r = newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, out = newSetOf(r)
	items = make([]thing, 2*chunk)
	for i := range items {
		s.Schedule(&items[i], start.Add(width))
	}
	r.clock.Advance(width)
	s.mu.Lock()
	s.running = true
	b, _ = s.overdueLocked()
	s.mu.Unlock()
	due, more := s.drain(b, nil)
	require.True(t, more)
	require.Len(t, due, chunk)
	t.Cleanup(func() { rest(s) })
	return r, s, out, items, b, due
}

// rest ends what halfDrained began.
func rest(s *Set[*thing]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restLocked()
}

func TestHalfDrainedBucket(t *testing.T) {
	t.Run("WhatIsStillInItCanBeCancelledAndMoved", func(t *testing.T) {
		r, s, out, items, b, due := halfDrained(t)
		require.False(t, s.Cancel(&items[0].item))
		require.True(t, s.Cancel(&items[chunk].item))
		s.Schedule(&items[chunk+1], start.Add(2*width))
		s.Schedule(&items[chunk+2], start.Add(width-1)) // same bucket: stays
		s.Schedule(&items[1], start.Add(width))         // delivered, and scheduled anew
		due, more := s.drain(b, due)
		require.False(t, more)
		require.Len(t, due, 2*chunk-2)
		require.Equal(t, 2, s.Len())
		rest(s)
		r.Settle()
		requireItems(t, []*thing{&items[1]}, await(t, out).items)
		r.clock.Advance(width)
		r.Settle()
		requireItems(t, []*thing{&items[chunk+1]}, await(t, out).items)
	})
	t.Run("AllThatIsStillInItCanBeCancelled", func(t *testing.T) {
		_, s, _, items, b, due := halfDrained(t)
		for i := range items[chunk:] {
			require.True(t, s.Cancel(&items[chunk+i].item))
		}
		require.Zero(t, s.empty, "it is not an open bucket")
		due, more := s.drain(b, due)
		require.False(t, more)
		require.Len(t, due, chunk)
		require.Zero(t, s.Len())
	})
	t.Run("DrainReturnsWhatIsStillInIt", func(t *testing.T) {
		_, s, _, items, b, due := halfDrained(t)
		later := new(thing)
		s.Schedule(later, start.Add(3*width))
		want := []*thing{later}
		for i := range items[chunk:] {
			want = append(want, &items[chunk+i])
		}
		require.ElementsMatch(t, want, s.Drain())
		require.Zero(t, s.Len())
		due, more := s.drain(b, due)
		require.False(t, more)
		require.Len(t, due, chunk, "what was taken before is delivered")
	})
	t.Run("CloseUnschedulesItAndDeliversNothing", func(t *testing.T) {
		_, s, _, items, b, due := halfDrained(t)
		s.close()
		require.Zero(t, s.Len())
		for i := range items {
			require.Nil(t, items[i].item.bucket)
			require.False(t, s.Cancel(&items[i].item))
		}
		due, more := s.drain(b, due)
		require.False(t, more)
		require.Empty(t, due)
	})
}

func TestStop(t *testing.T) {
	t.Run("UnschedulesAndSilences", func(t *testing.T) {
		r := newRig(t, Config{})
		s, out := newSetOf(r)
		items := make([]thing, 10)
		for i := range items {
			s.Schedule(&items[i], start.Add(time.Duration(i+1)*width))
		}
		underWay := await(t, r.timer)
		r.Stop()
		r.Stop()
		r.clock.Advance(time.Hour)
		underWay()
		require.Zero(t, s.Len())
		require.Nil(t, items[3].item.bucket)
		require.False(t, s.Cancel(&items[3].item))
		s.Schedule(&items[3], start)
		require.Nil(t, items[3].item.bucket)
		r.Settle()
		require.Empty(t, out)
		late := NewSet(r.Wheel, width, func(clock.Instant, []*thing) { t.Error("fired") })
		late.Schedule(&items[0], start)
		r.Settle()
	})
	t.Run("WaitsForARunningFunctionThatGoesOnScheduling", func(t *testing.T) {
		r := newRig(t, Config{})
		began, end := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var returned atomic.Bool
		var s *Set[*thing]
		s = NewSet(r.Wheel, width, func(now clock.Instant, due []*thing) {
			once.Do(func() { close(began) })
			<-end
			for _, it := range due {
				s.Schedule(it, now)
			}
			returned.Store(true)
		})
		items := make([]thing, 3)
		for i := range items {
			s.Schedule(&items[i], start)
		}
		await(t, began)
		stopped := make(chan bool, 2)
		for range 2 {
			go func() { r.Stop(); stopped <- returned.Load() }()
		}
		require.Empty(t, stopped)
		close(end)
		require.True(t, await(t, stopped))
		require.True(t, await(t, stopped))
	})
	t.Run("WithEverythingRunning", func(t *testing.T) {
		for i := range 20 {
			t.Run(fmt.Sprint(i), func(t *testing.T) { testStopUnderLoad(t) })
		}
	})
}

// testStopUnderLoad stops a real wheel while goroutines schedule on it.
func testStopUnderLoad(t *testing.T) {
	w, err := New(Config{})
	require.NoError(t, err)
	var stopped atomic.Bool
	var calls atomic.Int64
	warm := make(chan struct{})
	var sets [3]*Set[*thing]
	for i := range sets {
		sets[i] = NewSet(w, ms, func(now clock.Instant, due []*thing) {
			if stopped.Load() {
				t.Error("fired after Stop")
			}
			if calls.Add(1) == 20 {
				close(warm)
			}
			for _, it := range due {
				sets[i].Schedule(it, now.Add(ms))
			}
		})
	}
	var wg sync.WaitGroup
	quit := make(chan struct{})
	for g := range 4 {
		wg.Go(func() {
			items := make([]thing, 100)
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				default:
				}
				it := &items[n%len(items)]
				s := sets[n%len(items)%len(sets)]
				s.Schedule(it, w.clock.Now().Add(time.Duration(g*n%7000)*time.Microsecond))
			}
		})
	}
	await(t, warm)
	w.Stop()
	stopped.Store(true)
	close(quit)
	wg.Wait()
}
