package wheel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// noAlarmClock is a clock whose system has no alarm left.
type noAlarmClock struct {
	*clock.Fake
	err error
}

func (c noAlarmClock) NewAlarm(func()) (clock.Alarm, error) { return nil, c.err }

func TestAnAlarmThatTheSystemRefusesIsTheAnswer(t *testing.T) {
	c := noAlarmClock{clock.NewFake(start), errors.New("too many open files")}
	_, err := New(Config{Clock: c})
	require.ErrorIs(t, err, c.err)
	require.EqualError(t, err, "wheel: too many open files")
	w, err := New(Config{Clock: c, NoAlarm: true})
	require.NoError(t, err)
	w.Stop()
}

// closedAlarm notes that it was closed.
type closedAlarm struct {
	clock.Alarm
	closed *bool
}

func (a closedAlarm) Close() error { *a.closed = true; return a.Alarm.Close() }

type closingClock struct {
	*clock.Fake
	closed *bool
}

func (c closingClock) NewAlarm(fire func()) (clock.Alarm, error) {
	a, err := c.Fake.NewAlarm(fire)
	return closedAlarm{a, c.closed}, err
}

func TestStopClosesTheAlarm(t *testing.T) {
	closed := false
	w, err := New(Config{Clock: closingClock{clock.NewFake(start), &closed}, NoTimingWheel: true, Ticks: make(chan time.Time)})
	require.NoError(t, err)
	require.False(t, closed)
	w.Stop()
	require.True(t, closed)
	require.Nil(t, w.timers)
	require.Zero(t, w.Stuck(), "there is no timing wheel")
}

// A source is armed to the earliest instant it was ever asked for, until it goes off.
func TestASourceIsArmedToTheEarliest(t *testing.T) {
	var set []clock.Instant
	s := source{set: func(at clock.Instant) { set = append(set, at) }}
	require.Zero(t, s.spent())
	for _, at := range []clock.Instant{never, 5, 7, 5, 3, never, 4} {
		s.arm(at)
	}
	require.Equal(t, []clock.Instant{5, 3}, set)
	require.EqualValues(t, 3, s.aim())
	require.EqualValues(t, 3, s.spent())
	require.Zero(t, s.aim())
	require.Zero(t, s.spent())
	s.arm(9)
	require.EqualValues(t, 9, s.aim())
	none := source{}
	none.arm(5)
	require.Zero(t, none.aim())
}

// What a set keeps for the next time is bounded.
func TestWhatASetKeepsIsBounded(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, _ := newSetOf(r)
	s.keep(make([]*thing, 1, keepBatch))
	require.Equal(t, keepBatch, cap(s.batch))
	require.Empty(t, s.batch)
	s.keep(make([]*thing, 1, keepBatch+1))
	require.Nil(t, s.batch)

	s.mu.Lock()
	for range keepFree + 1 {
		s.recycleLocked(&bucket[*thing]{set: s})
	}
	for range keepPages + 1 {
		s.dropPageLocked(&page[*thing]{items: new([pageSize]*thing)})
	}
	require.Len(t, s.pages, keepPages)
	lastPage := s.pages[keepPages-1]
	require.Same(t, lastPage, s.newPageLocked())
	require.Len(t, s.pages, keepPages-1)
	require.Len(t, s.free, keepFree)
	last := s.free[keepFree-1]
	require.Same(t, last, s.newBucketLocked())
	require.Len(t, s.free, keepFree-1)
	s.mu.Unlock()
	s.close()
	s.mu.Lock()
	s.recycleLocked(&bucket[*thing]{set: s})
	s.dropPageLocked(&page[*thing]{items: new([pageSize]*thing)})
	require.Empty(t, s.free, "nothing comes after the end")
	require.Empty(t, s.pages)
	s.mu.Unlock()
}

// Empty buckets are kept, for schedule and cancel come back to them, as long as they are few or the lesser half.
func TestEmptyBucketsAreDroppedWhenTheyAreManyAndMost(t *testing.T) {
	for _, c := range []struct{ full, leave int }{
		{0, 100}, {0, 4 * keepEmpty}, {keepEmpty, 4 * keepEmpty}, {keepEmpty + 1, 4 * keepEmpty}, {3 * keepEmpty, 4 * keepEmpty},
	} {
		full := c.full
		t.Run(fmt.Sprint(full, " of ", full+c.leave), func(t *testing.T) {
			r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
			s, _ := newSetOf(r)
			stay, leave := make([]thing, full), make([]thing, c.leave)
			for i := range stay {
				s.Schedule(&stay[i], start.Add(time.Duration(2*i+1)*width))
			}
			for i := range leave {
				s.Schedule(&leave[i], start.Add(time.Duration(2*i+2)*width))
			}
			most := max(keepEmpty, (full+len(leave))/2)
			for i := range leave {
				require.True(t, s.Cancel(&leave[i].item))
				if i < most {
					require.Equal(t, i+1, s.empty)
					require.Len(t, s.order, full+len(leave))
					require.Len(t, s.buckets, len(s.order))
				}
				if i == most {
					require.Zero(t, s.empty)
					require.Len(t, s.order, full+len(leave)-most-1)
					require.Len(t, s.buckets, len(s.order))
					require.Len(t, s.free, min(most+1, keepFree))
					for _, b := range s.order[len(s.order) : full+len(leave)] {
						require.Nil(t, b, "it does not hold on to what it dropped")
					}
					break
				}
			}
			if full > 0 {
				require.Equal(t, start.Add(width), s.earliest())
			} else {
				require.Equal(t, leave[most+1].item.bucket.end(), s.earliest())
			}
			for i := range stay {
				require.True(t, s.Cancel(&stay[i].item))
			}
		})
	}
}

func TestTheEarliestBucketIsKnown(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, _ := newSetOf(r)
	require.Equal(t, never, s.earliest())
	var a, b thing
	s.Schedule(&a, start.Add(5*width))
	require.Equal(t, start.Add(5*width), s.earliest())
	s.Schedule(&b, start.Add(2*width))
	require.Equal(t, start.Add(2*width), s.earliest())
	r.clock.Advance(2 * width)
	r.Settle()
	require.Equal(t, start.Add(5*width), s.earliest())
	require.Equal(t, []*thing{&a}, s.Drain())
	require.Nil(t, a.item.bucket)
	r.clock.Advance(3 * width)
	r.Settle()
	require.Equal(t, never, s.earliest(), "an empty bucket is dropped when its end has come")
	require.Empty(t, s.order)
	require.Empty(t, s.buckets)
	require.Zero(t, s.empty)
	require.Len(t, s.free, 2, "the one that was delivered, and the empty one")
}

func TestABucketIsEmptyWithoutItsLastItem(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, out := newSetOf(r)
	items := make([]thing, 2)
	for i := range items {
		s.Schedule(&items[i], start.Add(width))
	}
	require.True(t, s.Cancel(&items[0].item))
	require.Zero(t, s.empty)
	require.True(t, s.Cancel(&items[1].item))
	require.Equal(t, 1, s.empty)

	many := make([]thing, chunk+1)
	for i := range many {
		s.Schedule(&many[i], start.Add(width))
	}
	r.clock.Advance(width)
	r.Settle()
	require.Len(t, await(t, out).items, chunk+1, "the last one, too")

	b := &bucket[*thing]{set: s}
	s.pushLocked(b, &items[0], &items[0].item)
	s.pushLocked(b, &items[1], &items[1].item)
	s.clearLocked(b)
	require.Zero(t, b.count)
	require.Nil(t, items[0].item.bucket)
	require.Empty(t, b.pages)
}

// A bucket that items come to and leave keeps the order of the others, and gives back the pages that nobody is on.
func TestABucketThatItemsLeaveKeepsTheOrder(t *testing.T) {
	for name, takes := range map[string]int{"open": 0, "half delivered": 100} {
		random, all := rand.New(rand.NewPCG(7, uint64(takes))), make([]thing, 5000)
		s, b := &Set[*thing]{}, &bucket[*thing]{}
		var stay []*thing
		for i := range all {
			s.pushLocked(b, &all[i], &all[i].item)
			stay = append(stay, &all[i])
			if i < 300 {
				continue
			}
			if i == 300 {
				requireItems(t, stay[:takes], s.takeLocked(b, nil, takes))
				stay = stay[takes:]
			}
			for len(stay) > 3 && random.IntN(10) < 6 { // more leave than come, as long as there are some
				at := random.IntN(len(stay))
				if random.IntN(3) > 0 {
					at = len(stay) - 1 - random.IntN(3)
				}
				s.removeLocked(b, &stay[at].item)
				require.Nil(t, stay[at].item.bucket)
				stay = slices.Delete(stay, at, at+1)
			}
			require.Equal(t, len(stay), b.count, name)
			requireItems(t, stay, appendItems(nil, b))
			inUse := 0
			for _, p := range b.pages {
				if p.items != nil {
					inUse++
				}
			}
			require.LessOrEqual(t, inUse, len(stay)+takes/pageSize+2, name)
			for _, it := range stay {
				require.Same(t, it, b.pages[it.item.at/pageSize].items[it.item.at%pageSize])
			}
		}
		requireItems(t, stay, s.takeLocked(b, nil, len(all)))
		require.Zero(t, b.count)
		s.emptyLocked(b)
		require.NotEmpty(t, s.pages)
		for _, p := range s.pages {
			require.Equal(t, [pageSize]*thing{}, *p, "%s: it holds on to what has left", name)
		}
	}
}

// A bucket that is due never takes what comes and goes for as long as the program runs.
func TestABucketOfManyComingsAndGoingsStaysSmall(t *testing.T) {
	s, b := &Set[*thing]{}, &bucket[*thing]{}
	stay, all := make([]thing, 3), make([]thing, 2)
	for i := range stay {
		s.pushLocked(b, &stay[i], &stay[i].item)
	}
	for i := range 5 * compactFrom {
		s.pushLocked(b, &all[i%2], &all[i%2].item)
		if i > 0 {
			s.removeLocked(b, &all[(i+1)%2].item) // never the last
		}
	}
	require.LessOrEqual(t, b.size, compactFrom)
	require.LessOrEqual(t, cap(b.pages), 2*compactFrom/pageSize)
	requireItems(t, []*thing{&stay[0], &stay[1], &stay[2], &all[1]}, appendItems(nil, b))
	requireItems(t, []*thing{&stay[0], &stay[1], &stay[2], &all[1]}, s.takeLocked(b, nil, 9))
}

// A million locks are given back in the order of their taking, or in the reverse.
func TestABucketShrinksInWhicheverOrderItemsLeave(t *testing.T) {
	const many = 100 * pageSize
	for _, reverse := range []bool{false, true} {
		s, b := &Set[*thing]{}, &bucket[*thing]{}
		all := make([]thing, many)
		for i := range all {
			s.pushLocked(b, &all[i], &all[i].item)
		}
		stays := &all[many-1]
		if reverse {
			stays = &all[0]
		}
		for i := range all {
			if reverse {
				i = many - 1 - i
			}
			if &all[i] != stays {
				s.removeLocked(b, &all[i].item)
			}
		}
		inUse := 0
		for _, p := range b.pages {
			if p.items != nil {
				inUse++
			}
		}
		require.LessOrEqual(t, inUse, 2, "reverse: %v", reverse)
		another := thing{}
		s.pushLocked(b, &another, &another.item)
		requireItems(t, []*thing{stays, &another}, s.takeLocked(b, nil, many))
		require.Zero(t, b.count)
	}
}

func TestAClosedSetHoldsOnToNothingAndStartsNothing(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, _ := newSetOf(r)
	items := make([]thing, 3)
	for i := range items {
		s.Schedule(&items[i], start.Add(time.Duration(i+1)*width))
	}
	require.True(t, s.Cancel(&items[0].item))
	s.close()
	require.Empty(t, s.buckets)
	require.Empty(t, s.order)
	require.Zero(t, s.empty)
	require.Equal(t, never, s.earliest())
	s.mu.Lock()
	s.kickLocked()
	require.False(t, s.running)
	s.mu.Unlock()
	r.Stop()
	late, _ := newSetOf(r)
	require.Empty(t, r.snapshot())
	require.True(t, late.closed)

	_, half, _, _, b, due := halfDrained(t)
	half.close()
	due, _ = half.drain(b, due)
	for _, it := range due[:chunk] {
		require.Nil(t, it, "what was taken out is not delivered")
	}
}

// The clamp keeps what would mean unscheduled, or overflow, away.
func TestClamp(t *testing.T) {
	s := &Set[*thing]{width: int64(width)}
	for due, want := range map[clock.Instant]clock.Instant{
		-5: 1, 0: 1, 1: 1, 2: 2, never: never - clock.Instant(width), never - clock.Instant(width) + 1: never - clock.Instant(width),
		never - clock.Instant(width) - 1: never - clock.Instant(width) - 1,
	} {
		require.Equal(t, want, s.clamp(due))
	}
}

// An aim of the timing wheel is a tick late, and never further than the horizon.
func TestTheTimingWheelIsAimedATickLateAndNotTooFar(t *testing.T) {
	for name, c := range map[string]struct{ due, want time.Duration }{
		"Soon": {width, width + tick}, "Far": {1000 * time.Hour, horizon + tick},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{NoAlarm: true})
			s, _ := newSetOf(r)
			var it thing
			before := time.Now()
			s.Schedule(&it, start.Add(c.due))
			require.Equal(t, c.want, await(t, r.ahead))
			require.Eventually(t, func() bool { return r.timers.calls.Load() == 2 }, 20*time.Second, ms)
			due := *r.timers.due.Load()
			require.False(t, due.Before(before.Add(c.want+tick)), "by then it is late")
			require.False(t, due.After(time.Now().Add(c.want+tick)))
		})
	}
}

// slowStop is a timer that takes a while to be taken back.
type slowStop struct{ stopped *atomic.Int64 }

func (s slowStop) Stop() bool {
	for range 2000 {
		runtime.Gosched()
	}
	s.stopped.Add(1)
	return true
}

func TestTheTimerIsTakenBackWhenTheAimChangesAndInStop(t *testing.T) {
	var stopped atomic.Int64
	aimed := make(chan struct{}, 10)
	r := newRig(t, Config{NoAlarm: true, After: func(time.Duration, func()) Stopper {
		aimed <- struct{}{}
		return slowStop{&stopped}
	}})
	s, _ := newSetOf(r)
	items := make([]thing, 2)
	s.Schedule(&items[0], start.Add(5*width))
	await(t, aimed)
	require.Zero(t, stopped.Load())
	s.Schedule(&items[1], start.Add(2*width))
	await(t, aimed)
	require.EqualValues(t, 1, stopped.Load())
	r.Stop()
	require.EqualValues(t, 2, stopped.Load())
	select {
	case <-r.timers.ended:
	default:
		require.FailNow(t, "Stop does not wait for the goroutine")
	}
}

func TestTheTimingWheelIsAskedForNothingWhereNothingIsDue(t *testing.T) {
	r := newRig(t, Config{NoAlarm: true})
	require.Nil(t, r.timers.aim(nil))
	require.Empty(t, r.ahead)
	require.Nil(t, r.timers.due.Load())
	r.timed.armed = start - 1
	require.NotNil(t, r.timers.aim(nil))
	require.Equal(t, tick, await(t, r.ahead), "at once, and a tick")
}

// The timer of one set's bucket is aimed anew at another set's.
func TestTheTimingWheelAloneServesAllSets(t *testing.T) {
	r := newRig(t, Config{NoAlarm: true})
	a, outA := newSetOf(r)
	b, outB := newSetOf(r)
	items := make([]thing, 2)
	a.Schedule(&items[0], start.Add(width))
	await(t, r.ahead)
	b.Schedule(&items[1], start.Add(3*width))
	r.clock.Advance(width)
	await(t, r.timer)()
	await(t, outA)
	require.Equal(t, 2*width+tick, await(t, r.ahead))
	r.clock.Advance(2 * width)
	await(t, r.timer)()
	requireItems(t, []*thing{&items[1]}, await(t, outB).items)
}

func TestALookCountsWhatHangsForAllOfTheTicks(t *testing.T) {
	var t1 timers
	t1.calls.Store(2) // one has come back
	for range 3 * stuckTicks {
		t1.look()
	}
	require.Zero(t, t1.stuck.Load())
	for calls := int64(3); calls < 9; calls += 2 { // each hangs for less than that
		t1.calls.Store(calls)
		for range stuckTicks {
			t1.look() // the first only learns of it
		}
		t1.calls.Add(1)
		t1.look()
		require.Zero(t, t1.stuck.Load())
	}
	t1.calls.Store(9)
	for range stuckTicks + 1 {
		t1.look()
	}
	require.EqualValues(t, 1, t1.stuck.Load())
}

// gateClock lets whoever asks for the time wait while it is closed.
type gateClock struct {
	*clock.Fake
	gate  atomic.Pointer[chan struct{}]
	asked chan struct{}
}

func (c *gateClock) Now() clock.Instant {
	if gate := c.gate.Load(); gate != nil {
		c.asked <- struct{}{}
		<-*gate
	}
	return c.Fake.Now()
}

func TestStopWaitsForTheTicker(t *testing.T) {
	c := &gateClock{Fake: clock.NewFake(start), asked: make(chan struct{}, 10)}
	ticks, gate := make(chan time.Time), make(chan struct{})
	w, err := New(Config{Clock: c, Ticks: ticks, NoTimingWheel: true, NoAlarm: true})
	require.NoError(t, err)
	c.gate.Store(&gate)
	ticks <- time.Time{}
	await(t, c.asked)
	var open atomic.Bool
	stopped := make(chan bool, 1)
	go func() {
		w.Stop()
		stopped <- open.Load()
	}()
	await(t, w.quit)
	for range 2000 { // whoever does not wait has ended by then
		runtime.Gosched()
	}
	open.Store(true)
	close(gate)
	require.True(t, await(t, stopped))
}

// In a simulated world the alarm is exact, and Stop waits in that world's time.
func TestAWheelInASimulatedWorld(t *testing.T) {
	w := world.New(1, 0)
	var wheel *Wheel
	var fired, stopped, end clock.Instant
	begun := w.Now()
	w.Go("test", func() {
		var err error
		wheel, err = New(Config{Clock: w})
		require.NoError(t, err)
		s := NewSet(wheel, width, func(now clock.Instant, _ []*thing) {
			fired = now
			w.Sleep(time.Second)
			end = w.Now()
		})
		s.Schedule(new(thing), begun.Add(3*width))
		w.Sleep(5 * width)
		wheel.Stop()
		stopped = w.Now()
	})
	require.NoError(t, w.Run(func() bool { return stopped != 0 }))
	w.Close()
	require.Nil(t, wheel.timers)
	require.GreaterOrEqual(t, fired, begun.Add(3*width))
	require.Less(t, fired, begun.Add(4*width))
	require.Equal(t, end, stopped, "the function was running")
}

// Between two chunks of a delivery the set may be closed: then nothing is delivered, not even nothing.
func TestNothingIsFiredOfASetThatIsClosedBetweenTwoChunks(t *testing.T) {
	w := world.New(1, 0)
	var s *Set[*thing]
	closed := false
	w.OnYield(func(at string) {
		if at == "Set.collect: a chunk taken | the next" {
			s.close()
			closed = true
		}
	})
	fired := 0
	due := w.Now().Add(width)
	w.Go("test", func() {
		wheel, err := New(Config{Clock: w})
		require.NoError(t, err)
		s = NewSet(wheel, width, func(clock.Instant, []*thing) { fired++ })
		items := make([]thing, chunk+1)
		for i := range items {
			s.Schedule(&items[i], due)
		}
	})
	require.NoError(t, w.Run(func() bool { return closed && !s.running }))
	w.Close()
	require.Zero(t, fired)
}

// On a single core nothing else gets to run in between unless the set makes way: 10,000 locks that are to be renewed must
// not keep a release waiting.
func TestABucketOfAnySizeHoldsNobodyUp(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, out := newSetOf(r)
	items := make([]thing, 20*chunk)
	for i := range items {
		s.Schedule(&items[i], start.Add(width))
	}
	r.clock.Advance(width)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s.kick()
	runtime.Gosched() // the set takes the first chunk out, and lets us go on
	require.True(t, s.Cancel(&items[len(items)-1].item), "the last chunk is still in the bucket")
	require.Len(t, await(t, out).items, len(items)-1)
}
