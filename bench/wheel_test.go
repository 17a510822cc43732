package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

const cohort = 50 * time.Millisecond

// BenchmarkWheel is what time costs a lock: being scheduled, as at every grant and every
// renewal, and being delivered with its cohort. One op is one lock, among so many.
func BenchmarkWheel(b *testing.B) {
	for _, locks := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("do=move/locks=%d", locks), func(b *testing.B) { move(b, locks) })
		b.Run(fmt.Sprintf("do=deliver/locks=%d", locks), func(b *testing.B) { deliver(b, locks) })
	}
}

// move schedules locks again that are scheduled, ten seconds ahead, while time goes on
// slowly enough that nothing becomes due.
func move(b *testing.B, locks int) {
	now := clock.Instant(time.Hour)
	set := newSet(b, clock.NewFake(now), func(clock.Instant, []*wheel.Item) { b.Error("something fired") })
	items := make([]wheel.Item, locks)
	at := func(i int) clock.Instant { return now.Add(10*time.Second + time.Duration(i)*time.Microsecond) }
	for i := range items {
		set.Schedule(&items[i], at(i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		set.Schedule(&items[i%locks], at(locks+i))
		i++
	}
	b.ReportMetric(float64(set.Len()), "scheduled")
}

// deliver lets so many locks in one cohort become due at a time, and schedules each
// again from the function that got it, as a renewal does.
func deliver(b *testing.B, locks int) {
	fake := clock.NewFake(clock.Instant(time.Hour))
	w := newWheel(b, fake)
	delivered := 0
	var set *wheel.Set
	set = w.NewSet(cohort, func(now clock.Instant, due []*wheel.Item) {
		delivered += len(due)
		for _, it := range due {
			set.Schedule(it, now.Add(10*time.Second))
		}
	})
	items := make([]wheel.Item, locks)
	for i := range items {
		set.Schedule(&items[i], fake.Now().Add(10*time.Second))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for delivered < b.N { // only written inside Settle and Advance
		fake.Advance(10*time.Second + 2*cohort)
		w.Settle()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(delivered), "ns/lock")
}

func newWheel(b *testing.B, c clock.Clock) *wheel.Wheel {
	b.Helper()
	// Without its alarm and timing wheel, so that time moves by the fake clock alone.
	w, err := wheel.New(wheel.Config{Clock: c, NoAlarm: true, NoTimingWheel: true, Ticks: make(chan time.Time)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	return w
}

func newSet(b *testing.B, c clock.Clock, fire func(clock.Instant, []*wheel.Item)) *wheel.Set {
	b.Helper()
	return newWheel(b, c).NewSet(cohort, fire)
}
