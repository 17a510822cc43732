package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFake(t *testing.T) {
	t.Run("AdvanceStopsAtEachAlarmInOrder", func(t *testing.T) {
		f := NewFake(100)
		var seen []Instant
		note := func() { seen = append(seen, f.Now()) }
		a, _ := f.NewAlarm(note)
		b, _ := f.NewAlarm(note)
		a.Arm(130)
		b.Arm(120)
		f.Advance(10)
		require.Empty(t, seen)
		f.Advance(90)
		require.Equal(t, []Instant{120, 130}, seen)
		require.EqualValues(t, 200, f.Now())
	})
	t.Run("AnAlarmThatArmsItselfFiresAsOftenAsItWouldHave", func(t *testing.T) {
		f := NewFake(1)
		var a Alarm
		n := 0
		a, _ = f.NewAlarm(func() { n++; a.Arm(f.Now().Add(10)) })
		a.Arm(11)
		f.Advance(100)
		require.Equal(t, 10, n)
	})
	t.Run("SetJumpsInOneStep", func(t *testing.T) {
		f := NewFake(1)
		var seen []Instant
		a, _ := f.NewAlarm(func() { seen = append(seen, f.Now()) })
		a.Arm(50)
		f.Set(1000)
		require.Equal(t, []Instant{1000}, seen)
	})
	t.Run("APassedInstantFiresFromItsOwnGoroutine", func(t *testing.T) {
		f := NewFake(100)
		fired := make(chan struct{}) // unbuffered: in the caller it would hang
		a, _ := f.NewAlarm(func() { fired <- struct{}{} })
		a.Arm(50)
		await(t, fired)
		a.Arm(0)
		await(t, fired)
		require.NoError(t, a.Close())
	})
	t.Run("DisarmedOrClosedItIsSilent", func(t *testing.T) {
		f := NewFake(0)
		require.EqualValues(t, 1, f.Now())
		a, _ := f.NewAlarm(func() { t.Error("fired") })
		a.Arm(10)
		a.Disarm()
		f.Advance(20)
		a.Arm(50)
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		a.Arm(60)
		f.Advance(time.Hour)
	})
	t.Run("CloseWaitsForTheFunction", func(t *testing.T) {
		f := NewFake(1)
		began, end := make(chan struct{}), make(chan struct{})
		ended := false
		a, _ := f.NewAlarm(func() { close(began); <-end; ended = true })
		a.Arm(1)
		await(t, began)
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		close(end)
		require.NoError(t, await(t, closed))
		require.True(t, ended)
	})
	t.Run("WallIsFixed", func(t *testing.T) {
		f := NewFake(1)
		require.Equal(t, 2000, f.Wall(5).Year())
		require.True(t, f.Wall(0).IsZero())
	})
}
