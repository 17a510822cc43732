package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// BenchmarkHot is one lock that so many blocking callers of one client want: one op is one
// grant. cmd/hot runs the same in turns, and in several processes.
func BenchmarkHot(b *testing.B) {
	for _, impl := range hot.Impls() {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("impl=%s/callers=%d", impl.Name, callers), func(b *testing.B) {
				hotLock(b, impl, callers)
			})
		}
	}
}

// hotLimit bounds one measurement, should an implementation come to a stop.
const hotLimit = time.Minute

func hotLock(b *testing.B, impl hot.Impl, callers int) {
	client, err := impl.Open(b.Context(), redistest.Run(b, redistest.Options{}).Addr(), callers)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := client.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	ctx, cancel := context.WithTimeout(b.Context(), hotLimit)
	defer cancel()
	r := hot.Drive(ctx, client, hot.Load{Name: "bench:hot", Callers: callers, Grants: int64(b.N)})
	b.StopTimer()
	if r.Errors+r.Stuck > 0 {
		b.Fatalf("%d errors, %d callers still waiting, such as: %v", r.Errors, r.Stuck, r.First)
	}
	b.ReportMetric(r.Rate(), "grants/s")
	b.ReportMetric(float64(r.Waits.ValueAtPercentile(99))/1e6, "p99-wait-ms")
	b.ReportMetric(float64(r.Waits.Max())/1e6, "max-wait-ms")
}
