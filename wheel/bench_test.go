package wheel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/RussellLuo/timingwheel"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// benchSet is a set on a fake clock that stands still, so that only the call is timed.
func benchSet(b *testing.B, cfg Config, fire func(clock.Instant, []*thing)) (*Wheel, *clock.Fake, *Set[*thing]) {
	fake := clock.NewFake(start)
	cfg.Clock = fake
	w, err := New(cfg)
	require.NoError(b, err)
	b.Cleanup(w.Stop)
	return w, fake, NewSet(w, width, fire)
}

// BenchmarkSchedule moves the next of many scheduled items to a bucket that exists: what
// a renewal does. With op=random the order is one that no cache foresees.
func BenchmarkSchedule(b *testing.B) {
	for _, items := range []int{1, 1000, 1_000_000} {
		for _, op := range []string{"inorder", "random"} {
			b.Run(fmt.Sprintf("items=%d/op=%s", items, op), func(b *testing.B) { benchSchedule(b, items, op == "random") })
		}
	}
}

func benchSchedule(b *testing.B, items int, random bool) {
	_, _, s := benchSet(b, Config{}, func(clock.Instant, []*thing) {})
	const buckets = 200 // 10 s of them
	all := make([]thing, items)
	anchors := make([]thing, buckets) // keep every bucket open
	for i := range anchors {
		s.Schedule(&anchors[i], start.Add(time.Duration(i+1)*width))
	}
	for i := range all {
		s.Schedule(&all[i], start.Add(time.Duration(i%buckets+1)*width))
	}
	order := make([]int32, items)
	for i, j := range rand.Perm(items) {
		order[i] = int32(i)
		if random {
			order[i] = int32(j)
		}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		due := start.Add(time.Duration(n/(items/8+1)%buckets+1) * width)
		s.Schedule(&all[order[n%items]], due)
		n++
	}
}

// BenchmarkScheduleCancel is what an operation with a limit costs that ends before it.
func BenchmarkScheduleCancel(b *testing.B) {
	for _, limits := range []int{1, 2} { // with two, in turn, each opens a bucket
		b.Run(fmt.Sprintf("limits=%d", limits), func(b *testing.B) {
			_, _, s := benchSet(b, Config{}, func(clock.Instant, []*thing) {})
			var it thing
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				s.Schedule(&it, start.Add(time.Duration(1+n%limits)*time.Second))
				s.Cancel(&it.item)
				n++
			}
		})
	}
}

// BenchmarkOpenBucket is the rest of a bucket's life: timer, alarm, delivery of one item.
func BenchmarkOpenBucket(b *testing.B) {
	for _, name := range []string{"alarm+wheel", "alarm"} {
		b.Run("by="+name, func(b *testing.B) {
			w, fake, s := benchSet(b, Config{NoTimingWheel: name == "alarm"}, func(clock.Instant, []*thing) {})
			var it thing
			b.ReportAllocs()
			for b.Loop() {
				s.Schedule(&it, fake.Now().Add(width))
				fake.Advance(width)
				w.Settle()
			}
		})
	}
}

// BenchmarkFire delivers one bucket of that many items, from the look to the function.
func BenchmarkFire(b *testing.B) {
	for _, items := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) { benchFire(b, items) })
	}
}

func benchFire(b *testing.B, items int) {
	got := 0
	w, fake, s := benchSet(b, Config{NoAlarm: true}, func(_ clock.Instant, due []*thing) { got += len(due) })
	all := make([]thing, items)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		for i := range all {
			s.Schedule(&all[i], fake.Now().Add(width))
		}
		fake.Advance(width)
		b.StartTimer()
		w.Settle()
	}
	require.Equal(b, items*b.N, got)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(got), "ns/item")
}

// BenchmarkScheduleWhileFiring reports how long Schedule takes while a bucket of that
// many items is being delivered: what the delivery's hold of the mutex costs others.
func BenchmarkScheduleWhileFiring(b *testing.B) {
	const items = 100_000
	fired := make(chan struct{}, 1)
	_, fake, s := benchSet(b, Config{NoAlarm: true}, func(_ clock.Instant, due []*thing) {
		if len(due) > 1 {
			fired <- struct{}{}
		}
	})
	all := make([]thing, items)
	var other thing
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		for i := range all {
			s.Schedule(&all[i], fake.Now().Add(width))
		}
		fake.Advance(width)
		s.kick()
		b.StartTimer()
		for done := false; !done; {
			began := time.Now()
			s.Schedule(&other, fake.Now().Add(time.Hour))
			took = append(took, time.Since(began))
			select {
			case <-fired:
				done = true
			default:
			}
		}
	}
	slices.Sort(took)
	for _, p := range []float64{0.5, 0.99, 0.999, 1} {
		b.ReportMetric(float64(took[int(p*float64(len(took)-1))].Nanoseconds())/1e3, fmt.Sprintf("p%v-µs", 100*p))
	}
}

// BenchmarkStop is the life of a wheel with nothing in it.
func BenchmarkStop(b *testing.B) {
	for b.Loop() {
		w, err := New(Config{})
		require.NoError(b, err)
		w.Stop()
	}
}

// BenchmarkLateness reports how long after the end of its bucket an item is delivered by
// the real clock, by each source alone.
func BenchmarkLateness(b *testing.B) {
	for name, cfg := range map[string]Config{
		"alarm":  {NoTimingWheel: true},
		"wheel":  {NoAlarm: true, Ticks: make(chan time.Time)},
		"ticker": {NoAlarm: true, NoTimingWheel: true},
	} {
		b.Run("by="+name, func(b *testing.B) {
			w, err := New(cfg)
			require.NoError(b, err)
			defer w.Stop()
			fired := make(chan clock.Instant)
			s := NewSet(w, time.Millisecond, func(now clock.Instant, _ []*thing) { fired <- now })
			var it thing
			var late time.Duration
			for b.Loop() {
				due := (w.clock.Now()/1e6 + 7) * 1e6
				s.Schedule(&it, due)
				late += (<-fired).Sub(due)
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "late-µs/op")
		})
	}
}

// BenchmarkTimingWheel is what the package comment compares with: a timer of the timing wheel for each item.
func BenchmarkTimingWheel(b *testing.B) {
	newWheel := func(b *testing.B) *timingwheel.TimingWheel {
		tw := timingwheel.NewTimingWheel(tick, wheelSize)
		tw.Start()
		b.Cleanup(tw.Stop)
		return tw
	}
	const items, buckets = 1000, 200
	b.Run("op=move", func(b *testing.B) {
		tw := newWheel(b)
		all := make([]*timingwheel.Timer, items)
		due := func(n int) time.Duration { return time.Hour + time.Duration(n%buckets)*width }
		for i := range all {
			all[i] = tw.AfterFunc(due(i), func() {})
		}
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			all[n%items].Stop()
			all[n%items] = tw.AfterFunc(due(n), func() {})
			n++
		}
	})
	b.Run("op=fire", func(b *testing.B) {
		tw := newWheel(b)
		const items = 100_000
		var took time.Duration
		for range b.N {
			var fired sync.WaitGroup
			var began sync.Once
			var first time.Time
			fired.Add(items)
			at := time.Now().Add(400 * time.Millisecond)
			for range items {
				tw.AfterFunc(time.Until(at), func() { began.Do(func() { first = time.Now() }); fired.Done() })
			}
			fired.Wait()
			took += time.Since(first)
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*items), "ns/item")
	})
}
