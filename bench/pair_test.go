package bench

import (
	"context"
	"testing"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

// BenchmarkPair is one uncontended acquire and release, with so many in flight at a time.
// Every implementation goes under this name: one op is one pair.
func BenchmarkPair(b *testing.B) {
	b.Run("impl=yardstick", func(b *testing.B) {
		b.Run("inflight=1", func(b *testing.B) {
			pairs(b, yardstick.Single, yardstick.Options{})
		})
		b.Run("inflight=1024", func(b *testing.B) {
			pairs(b, yardstick.Pipeline, yardstick.Options{Goroutines: 4, Window: 256})
		})
		b.Run("inflight=4096", func(b *testing.B) {
			pairs(b, yardstick.Pipeline, yardstick.Options{Goroutines: 4, Window: 1024})
		})
	})
	b.Run("impl=holdfast", holdfastPairs)
}

// runner is [yardstick.Pipeline] or [yardstick.Single].
type runner func(context.Context, []yardstick.Node, yardstick.Options) (yardstick.Result, error)

// pairs does b.N pairs on a server of its own and reports what they cost this process.
func pairs(b *testing.B, run runner, o yardstick.Options) {
	measure(b, run, yardstick.One(dial(b)), o)
}

func measure(b *testing.B, run runner, nodes []yardstick.Node, o yardstick.Options) {
	b.Helper()
	o.Pairs = int64(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	r, err := run(b.Context(), nodes, o)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	report(b, r)
}

// dial starts a server and connects to it as the yardstick does.
func dial(b *testing.B) rueidis.Client {
	b.Helper()
	client, err := rueidis.NewClient(yardstick.ClientOption(redistest.Run(b, redistest.Options{}).Addr()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

// report adds throughput, and the client's CPU time, which decides on shared cores.
func report(b *testing.B, r yardstick.Result) {
	b.ReportMetric(r.PairsPerSecond(), "pairs/s")
	b.ReportMetric(float64(r.CPUPerPair().Nanoseconds()), "cpu-ns/op")
}
