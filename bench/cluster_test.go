package bench

import (
	"context"
	"testing"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// BenchmarkClusterPair is BenchmarkPair on a cluster of three masters. The yardstick has a pipeline
// for each, with keys that this master serves, one an EVALSHA.
func BenchmarkClusterPair(b *testing.B) {
	const inflight = 4096
	b.Run("impl=yardstick/inflight=4096", func(b *testing.B) {
		c := redistest.RunCluster(b, 3, 0)
		nodes, err := yardstick.Masters(b.Context(), yardstick.ClientOption(c.Addrs()[0]))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { yardstick.CloseAll(nodes) })
		measure(b, yardstick.Pipeline, nodes, yardstick.Options{Publish: "SPUBLISH"})
	})
	b.Run("impl=holdfast/inflight=4096", func(b *testing.B) {
		e, err := engine.Open(b.Context(), engine.Config{Addrs: redistest.RunCluster(b, 3, 0).Addrs()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := e.Close(context.Background()); err != nil {
				b.Error(err)
			}
		})
		locks := locksOf(e, inflight)
		b.ReportAllocs()
		b.ResetTimer()
		window(b.Context(), b, locks, b.N)
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	})
}
