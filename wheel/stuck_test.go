package wheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stuckTimer is a timer that cannot be taken back.
type stuckTimer struct{ called, open chan struct{} }

func (s stuckTimer) Stop() bool {
	s.called <- struct{}{}
	<-s.open
	return false
}

// The timing wheel can lock itself up: then each call of it may wait for ever, with whatever it holds.
func TestATimingWheelThatIsStuckHoldsNobodyUp(t *testing.T) {
	for _, where := range []string{"AfterFunc", "Stop"} {
		t.Run("In"+where, func(t *testing.T) {
			t.Parallel()
			open := make(chan struct{})
			aimed, called := make(chan struct{}, 1000), make(chan struct{}, 1000)
			r := newRig(t, Config{NoAlarm: true, After: func(time.Duration, func()) Stopper {
				aimed <- struct{}{}
				if where == "AfterFunc" {
					<-open
				}
				return stuckTimer{called, open}
			}})
			t.Cleanup(func() { // before the rig's, whose wheel has stopped by now
				close(open)
				<-r.timers.ended
			})
			a, outA := newSetOf(r)
			b, outB := newSetOf(r)
			items := make([]thing, 100)
			a.Schedule(&items[0], start.Add(100*width))
			await(t, aimed)
			done := make(chan struct{})
			go func() { // every call returns, whatever the buckets
				defer close(done)
				for i := range items {
					a.Schedule(&items[i], start.Add(time.Duration(len(items)-i)*width))
				}
				for i := range items[1:] {
					require.True(t, a.Cancel(&items[i+1].item))
				}
				b.Schedule(&items[1], start.Add(width))
				b.Schedule(&items[1], start.Add(2*width))
			}()
			await(t, done)
			if where == "Stop" {
				await(t, called)
			}
			r.clock.Advance(2 * width)
			r.ticks <- time.Time{}
			requireItems(t, []*thing{&items[1]}, await(t, outB).items)
			r.clock.Advance(98 * width)
			r.ticks <- time.Time{}
			requireItems(t, []*thing{&items[0]}, await(t, outA).items)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				r.Stop()
			}()
			await(t, stopped)
		})
	}
}

func TestWithAStuckTimingWheelEverythingIsAtMostATickLate(t *testing.T) {
	open := make(chan struct{})
	w, err := New(Config{NoAlarm: true, After: func(time.Duration, func()) Stopper { <-open; return noStop{} }})
	require.NoError(t, err)
	s, out := newSetOf(&rig{Wheel: w})
	items := make([]thing, 10)
	began := w.clock.Now()
	for i := range items {
		s.Schedule(&items[i], began.Add(time.Duration(i+1)*width))
	}
	var worst time.Duration
	for got := 0; got < len(items); {
		d := await(t, out)
		for range d.items {
			got++
			worst = max(worst, d.now.Sub(began.Add(time.Duration(got)*width)))
		}
	}
	t.Logf("at most %v late", worst)
	require.Less(t, worst, width+every+200*ms, "a bucket and a tick, on a busy machine")
	close(open)
	w.Stop()
}

// A timing wheel that is stuck is noticed: in a call of it, and where its timer does not come.
func TestATimingWheelThatIsStuckIsCounted(t *testing.T) {
	for name, hangs := range map[string]bool{"ACallHangs": true, "NoTimerComes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := make(chan struct{})
			aimed := make(chan struct{}, 1000)
			r := newRig(t, Config{NoAlarm: true, After: func(time.Duration, func()) Stopper {
				aimed <- struct{}{}
				if hangs {
					<-open
				}
				return noStop{}
			}})
			t.Cleanup(func() { // before the rig's
				close(open)
				r.Stop()
				<-r.timers.ended
			})
			s, _ := newSetOf(r)
			var item thing
			for range 2 * stuckTicks {
				r.ticks <- time.Time{}
			}
			require.Zero(t, r.Stuck(), "nothing is asked of it")
			s.Schedule(&item, start.Add(1))
			await(t, aimed)
			if !hangs {
				awaitPast(t, r)
			}
			for range stuckTicks - 1 {
				r.ticks <- time.Time{}
			}
			require.Zero(t, r.Stuck(), "it may be slow")
			for range 100 {
				r.ticks <- time.Time{}
			}
			require.EqualValues(t, 1, r.Stuck(), "once, however long it lasts")
		})
	}
}

// awaitPast waits until a timer should have come.
func awaitPast(t *testing.T, r *rig) {
	t.Helper()
	for began := time.Now(); ; {
		if due := r.timers.due.Load(); due != nil && time.Now().UnixMilli() > due.UnixMilli() {
			return
		}
		require.Less(t, time.Since(began), 20*time.Second)
	}
}

// What is only slow, or was asked for something else meanwhile, is not stuck.
func TestATimingWheelThatComesIsNotStuck(t *testing.T) {
	r := newRig(t, Config{NoAlarm: true})
	s, out := newSetOf(r)
	var item thing
	for i := range 3 * stuckTicks {
		s.Schedule(&item, start.Add(time.Duration(i+1)*width))
		await(t, r.ahead)
		r.clock.Advance(width)
		(<-r.timer)()
		await(t, out)
		r.ticks <- time.Time{}
	}
	require.Zero(t, r.Stuck())
}
