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
			r := newRig(t, Config{NoAlarm: true, after: func(time.Duration, func()) stopper {
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
			items := make([]Item, 100)
			a.Schedule(&items[0], start.Add(100*width))
			await(t, aimed)
			done := make(chan struct{})
			go func() { // every call returns, whatever the buckets
				defer close(done)
				for i := range items {
					a.Schedule(&items[i], start.Add(time.Duration(len(items)-i)*width))
				}
				for i := range items[1:] {
					require.True(t, a.Cancel(&items[i+1]))
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
			requireItems(t, []*Item{&items[1]}, await(t, outB).items)
			r.clock.Advance(98 * width)
			r.ticks <- time.Time{}
			requireItems(t, []*Item{&items[0]}, await(t, outA).items)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				a.Close()
				r.Stop()
			}()
			await(t, stopped)
		})
	}
}

func TestWithAStuckTimingWheelEverythingIsAtMostATickLate(t *testing.T) {
	open := make(chan struct{})
	w, err := New(Config{NoAlarm: true, after: func(time.Duration, func()) stopper { <-open; return noStop{} }})
	require.NoError(t, err)
	s, out := newSetOf(&rig{Wheel: w})
	items := make([]Item, 10)
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
	require.Less(t, worst, width+defaultEvery+200*ms, "a bucket and a tick, on a busy machine")
	close(open)
	w.Stop()
}
