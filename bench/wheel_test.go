package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/wheel"
)

const cohort = 50 * time.Millisecond

// held is what a lock has of the wheel.
type held struct{ item wheel.Item[*held] }

func (h *held) Scheduled() *wheel.Item[*held] { return &h.item }

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
	set := newSet(b, clock.NewFake(now), func(clock.Instant, []*held) { b.Error("something fired") })
	items := make([]held, locks)
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
	var set *wheel.Set[*held]
	set = wheel.NewSet(w, cohort, func(now clock.Instant, due []*held) {
		delivered += len(due)
		for _, h := range due {
			set.Schedule(h, now.Add(10*time.Second))
		}
	})
	items := make([]held, locks)
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

func newSet(b *testing.B, c clock.Clock, fire func(clock.Instant, []*held)) *wheel.Set[*held] {
	b.Helper()
	return wheel.NewSet(newWheel(b, c), cohort, fire)
}
