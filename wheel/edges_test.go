package wheel

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

func TestConfigIsCompletedAndItsBoundsAreAllowed(t *testing.T) {
	var cfg Config
	require.NoError(t, cfg.complete())
	require.Equal(t, Config{Clock: clock.System(), Tick: 5 * ms, Every: 50 * ms}, cfg)
	for _, given := range []Config{{Tick: ms, Every: 1}, {Tick: time.Second, Every: 50 * ms}} {
		cfg := given
		require.NoError(t, cfg.complete())
		require.Equal(t, []time.Duration{given.Tick, given.Every}, []time.Duration{cfg.Tick, cfg.Every})
	}
	require.EqualError(t, (&Config{Tick: ms - 1}).complete(), "wheel: tick 999.999µs is not within 1ms and 1s")
	require.Error(t, (&Config{Tick: time.Second + 1}).complete())
	require.EqualError(t, (&Config{Every: 50*ms + 1}).complete(), "wheel: ticker period 50.000001ms is not within 0 and 50ms")
}

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
	s.keep(make([]*Item, 1, keepBatch))
	require.Equal(t, keepBatch, cap(s.batch))
	require.Empty(t, s.batch)
	s.keep(make([]*Item, 1, keepBatch+1))
	require.Nil(t, s.batch)

	s.mu.Lock()
	for range keepFree + 1 {
		s.recycleLocked(newBucket(s))
	}
	require.Len(t, s.free, keepFree)
	last := s.free[keepFree-1]
	require.Same(t, last, s.newBucketLocked())
	require.Len(t, s.free, keepFree-1)
	s.mu.Unlock()
	s.Close()
	s.mu.Lock()
	s.recycleLocked(newBucket(s))
	require.Empty(t, s.free, "nothing comes after Close")
	s.mu.Unlock()
}

// Empty buckets are kept, for schedule and cancel come back to them, as long as they are few or the lesser half.
func TestEmptyBucketsAreDroppedWhenTheyAreManyAndMost(t *testing.T) {
	for _, full := range []int{0, keepEmpty, keepEmpty + 1, 3 * keepEmpty} {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
			s, _ := newSetOf(r)
			stay, leave := make([]Item, full), make([]Item, 4*keepEmpty)
			for i := range stay {
				s.Schedule(&stay[i], start.Add(time.Duration(2*i+1)*width))
			}
			for i := range leave {
				s.Schedule(&leave[i], start.Add(time.Duration(2*i+2)*width))
			}
			most := max(keepEmpty, (full+len(leave))/2)
			for i := range leave {
				require.True(t, s.Cancel(&leave[i]))
				if i < most {
					require.Equal(t, i+1, s.empty)
					require.Len(t, s.order, full+len(leave))
					require.Len(t, s.buckets, len(s.order))
				}
				if i == most {
					require.Zero(t, s.empty)
					require.Len(t, s.order, full+len(leave)-most-1)
					require.Len(t, s.buckets, len(s.order))
					break
				}
			}
			if full > 0 {
				require.Equal(t, start.Add(width), s.earliest())
			}
			for i := range stay {
				require.True(t, s.Cancel(&stay[i]))
			}
		})
	}
}

func TestTheEarliestBucketIsKnown(t *testing.T) {
	r := newRig(t, Config{NoTimingWheel: true, NoAlarm: true})
	s, _ := newSetOf(r)
	require.Equal(t, never, s.earliest())
	var a, b Item
	s.Schedule(&a, start.Add(5*width))
	require.Equal(t, start.Add(5*width), s.earliest())
	s.Schedule(&b, start.Add(2*width))
	require.Equal(t, start.Add(2*width), s.earliest())
	r.clock.Advance(2 * width)
	r.Settle()
	require.Equal(t, start.Add(5*width), s.earliest())
	require.Equal(t, []*Item{&a}, s.Drain())
	require.Zero(t, a.Due())
	r.clock.Advance(3 * width)
	r.Settle()
	require.Equal(t, never, s.earliest(), "an empty bucket is dropped when its end has come")
	require.Empty(t, s.order)
	require.Empty(t, s.buckets)
	require.Zero(t, s.empty)
	require.NotEmpty(t, s.free)
}

// The clamp keeps what would mean unscheduled, or overflow, away.
func TestClamp(t *testing.T) {
	s := &Set{width: int64(width)}
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
		"Soon": {width, width + defaultTick}, "Far": {1000 * time.Hour, horizon + defaultTick},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{NoAlarm: true})
			s, _ := newSetOf(r)
			var it Item
			before := time.Now()
			s.Schedule(&it, start.Add(c.due))
			require.Equal(t, c.want, await(t, r.ahead))
			require.Eventually(t, func() bool { return r.timers.calls.Load() == 2 }, 20*time.Second, ms)
			due := *r.timers.due.Load()
			require.False(t, due.Before(before.Add(c.want+defaultTick)), "by then it is late")
			require.False(t, due.After(time.Now().Add(c.want+defaultTick)))
		})
	}
}
