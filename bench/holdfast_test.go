package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// window drives pairs through futures from one goroutine: as many in flight as there are locks,
// looked at in the order they were started.
func window(ctx context.Context, b *testing.B, locks []*engine.Lock, n int) {
	acquires := make([]*engine.Future[*engine.Lease], len(locks))
	releases := make([]*engine.Future[struct{}], len(locks))
	started, done := 0, 0
	for i := 0; done < n; i = (i + 1) % len(locks) {
		switch {
		case acquires[i] != nil:
			lease, err := acquires[i].Await(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			acquires[i], releases[i] = nil, lease.ReleaseAsync()
		case releases[i] != nil:
			if _, err := releases[i].Await(ctx); err != nil {
				b.Error(err)
				return
			}
			releases[i] = nil
			done++
		case started < n:
			acquires[i] = locks[i].AcquireAsync(ctx)
			started++
		}
	}
}

func open(b *testing.B) *engine.Engine {
	b.Helper()
	e, err := engine.Open(b.Context(), engine.Config{Addrs: []string{redistest.Run(b, redistest.Options{}).Addr()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return e
}

func locksOf(e *engine.Engine, n int) []*engine.Lock {
	locks := make([]*engine.Lock, n)
	for i := range locks {
		locks[i] = e.Lock("bench:lock:" + strconv.Itoa(100000+i))
	}
	return locks
}

// holdfastPairs is BenchmarkPair with lanes, futures, queue, watchdog and all.
func holdfastPairs(b *testing.B) {
	for _, inflight := range []int{1, 1024, 4096} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) {
			e := open(b)
			locks := locksOf(e, inflight)
			b.ReportAllocs()
			b.ResetTimer()
			window(b.Context(), b, locks, b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// BenchmarkHeld is the uncontended pair while others are held under the watchdog.
func BenchmarkHeld(b *testing.B) {
	for _, held := range []int{0, 10000} {
		b.Run(fmt.Sprintf("held=%d/inflight=1024", held), func(b *testing.B) {
			e := open(b)
			futures := make([]*engine.Future[*engine.Lease], held)
			for i := range futures {
				futures[i] = e.Lock("bench:held:"+strconv.Itoa(i), engine.WatchdogLease(3*time.Second)).AcquireAsync(b.Context())
			}
			if _, err := engine.AllLeases(futures...).Await(b.Context()); err != nil {
				b.Fatal(err)
			}
			locks := locksOf(e, 1024)
			b.ResetTimer()
			window(b.Context(), b, locks, b.N)
		})
	}
}

// BenchmarkFuture is what looking at a lease and its future costs without a server in the way.
func BenchmarkFuture(b *testing.B) {
	e := open(b)
	f := e.Lock("bench:future").AcquireAsync(b.Context())
	lease, err := f.Await(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("do=result", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = f.Result()
		}
	})
	b.Run("do=await", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = f.Await(b.Context())
		}
	})
	b.Run("do=lost", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if lease.Lost() {
				b.Fatal("lost")
			}
		}
	})
	b.Run("do=try-held-here", func(b *testing.B) {
		l := e.Lock("bench:future")
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.TryAcquire(b.Context()); err == nil {
				b.Fatal("granted")
			}
		}
	})
}
