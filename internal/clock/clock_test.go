package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clocks are the real ones; on Linux the portable clock is tested as well.
func clocks() map[string]Clock {
	return map[string]Clock{"system": System(), "monotonic": monotonic{}}
}

// await fails the test if nothing comes out of c for a long time.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nothing happened")
		panic("unreachable")
	}
}

func TestInstant(t *testing.T) {
	a := Instant(1000)
	b := a.Add(time.Microsecond)
	require.Equal(t, time.Microsecond, b.Sub(a))
	require.True(t, a.Before(b) && b.After(a))
	require.False(t, a.Before(a) || a.After(a))
}

func TestNow(t *testing.T) {
	for name, c := range clocks() {
		t.Run(name+"/IsPositiveAndNeverGoesBack", func(t *testing.T) {
			last := c.Now()
			require.Positive(t, last)
			for range 10_000 {
				now := c.Now()
				require.False(t, now.Before(last))
				last = now
			}
		})
		t.Run(name+"/RunsAtTheRateOfTheRuntimeClock", func(t *testing.T) {
			began, from := time.Now(), c.Now()
			<-time.After(20 * time.Millisecond)
			inner := c.Now().Sub(from)
			require.LessOrEqual(t, inner, time.Since(began)+time.Millisecond)
			require.GreaterOrEqual(t, inner, 19*time.Millisecond)
		})
		t.Run(name+"/DoesNotAllocate", func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, func() { c.Now() }))
		})
	}
}

func TestWall(t *testing.T) {
	for name, c := range clocks() {
		t.Run(name, func(t *testing.T) {
			require.WithinDuration(t, time.Now().Add(time.Hour), c.Wall(c.Now().Add(time.Hour)), time.Second)
			require.True(t, c.Wall(0).IsZero())
		})
	}
}

func TestAlarm(t *testing.T) {
	for name, c := range clocks() {
		t.Run(name, func(t *testing.T) { testAlarm(t, c) })
	}
}

func testAlarm(t *testing.T, c Clock) {
	newAlarm := func(t *testing.T) (Alarm, chan Instant) {
		fired := make(chan Instant, 100)
		a, err := c.NewAlarm(func() { fired <- c.Now() })
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.Close()) })
		return a, fired
	}
	t.Run("FiresOnceAndNotBeforeItsInstant", func(t *testing.T) {
		a, fired := newAlarm(t)
		for range 20 {
			at := c.Now().Add(2 * time.Millisecond)
			a.Arm(at)
			require.False(t, await(t, fired).Before(at))
		}
		require.NoError(t, a.Close())
		require.Empty(t, fired)
	})
	t.Run("FiresAtOnceWhenTheInstantHasPassed", func(t *testing.T) {
		a, fired := newAlarm(t)
		for _, at := range []Instant{c.Now() - 1, 1, 0, -5} {
			a.Arm(at)
			await(t, fired)
		}
	})
	t.Run("TheLastArmingCounts", func(t *testing.T) {
		a, fired := newAlarm(t)
		a.Arm(c.Now().Add(time.Hour))
		at := c.Now().Add(time.Millisecond)
		a.Arm(at)
		require.False(t, await(t, fired).Before(at))
		for range 200 { // a later arming races with an expiry
			a.Arm(c.Now().Add(50 * time.Microsecond))
			late := c.Now().Add(100 * time.Microsecond)
			a.Arm(late)
			for await(t, fired).Before(late) {
			}
		}
	})
	t.Run("DisarmedItIsSilent", func(t *testing.T) {
		a, fired := newAlarm(t)
		other, otherFired := newAlarm(t)
		now := c.Now()
		a.Arm(now.Add(5 * time.Millisecond))
		a.Disarm()
		other.Arm(now.Add(10 * time.Millisecond))
		await(t, otherFired)
		require.Empty(t, fired)
	})
	t.Run("CloseWaitsForTheFunctionAndMayBeRepeated", func(t *testing.T) {
		began, end := make(chan struct{}), make(chan struct{})
		ended := false
		a, err := c.NewAlarm(func() { close(began); <-end; ended = true })
		require.NoError(t, err)
		a.Arm(1)
		await(t, began)
		closed := make(chan error, 2)
		go func() { closed <- a.Close() }()
		go func() { closed <- a.Close() }()
		a.Arm(1) // neither of these may block or crash, before or after Close
		a.Disarm()
		close(end)
		require.NoError(t, await(t, closed))
		require.NoError(t, await(t, closed))
		require.True(t, ended)
		a.Arm(1)
		a.Disarm()
	})
	t.Run("ArmAndCloseRace", func(t *testing.T) {
		for range 100 {
			a, err := c.NewAlarm(func() {})
			require.NoError(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 50 {
					a.Arm(c.Now())
				}
			}()
			require.NoError(t, a.Close())
			await(t, done)
		}
	})
}

func BenchmarkNow(b *testing.B) {
	for name, c := range clocks() {
		b.Run("clock="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Now()
			}
		})
	}
	b.Run("clock=time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
}

func BenchmarkAlarmArm(b *testing.B) {
	for name, c := range clocks() {
		b.Run("clock="+name, func(b *testing.B) {
			a, err := c.NewAlarm(func() {})
			require.NoError(b, err)
			defer a.Close()
			at := c.Now().Add(time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				a.Arm(at)
			}
		})
	}
}

func BenchmarkAlarmLateness(b *testing.B) {
	c := System()
	fired := make(chan Instant)
	a, err := c.NewAlarm(func() { fired <- c.Now() })
	require.NoError(b, err)
	defer a.Close()
	var late time.Duration
	for b.Loop() {
		at := c.Now().Add(time.Millisecond)
		a.Arm(at)
		late += (<-fired).Sub(at)
	}
	b.ReportMetric(float64(late.Nanoseconds())/float64(b.N), "late-ns/op")
}
