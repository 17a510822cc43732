package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// kinds are the locks that BenchmarkFamily compares.
func kinds(e *engine.Engine) map[string]func(name string) *engine.Lock {
	return map[string]func(name string) *engine.Lock{
		"lock":   func(name string) *engine.Lock { return e.Lock(name) },
		"fenced": func(name string) *engine.Lock { return e.FencedLock(name).Lock },
		"read":   func(name string) *engine.Lock { return e.RWLock(name).ReadLock() },
		"write":  func(name string) *engine.Lock { return e.RWLock(name).WriteLock() },
		"fair":   func(name string) *engine.Lock { return e.FairLock(name).Lock },
	}
}

// BenchmarkFamily is the uncontended pair of every kind of lock. Compare with
// BenchmarkPair/lib=pipeline/script=redisson, the yardstick.
func BenchmarkFamily(b *testing.B) {
	for _, kind := range []string{"lock", "fenced", "read", "write", "fair"} {
		b.Run(fmt.Sprintf("kind=%s/inflight=4096", kind), func(b *testing.B) {
			e := open(b)
			locks := make([]*engine.Lock, 4096)
			for i := range locks {
				locks[i] = kinds(e)[kind]("bench:" + kind + ":" + strconv.Itoa(i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			window(b.Context(), b, locks, b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// BenchmarkHotFamily is one name that 64 callers want, of every kind that excludes.
func BenchmarkHotFamily(b *testing.B) {
	for _, kind := range []string{"lock", "fenced", "write", "fair"} {
		b.Run(fmt.Sprintf("kind=%s/callers=64", kind), func(b *testing.B) {
			e := open(b)
			l := kinds(e)[kind]("bench:hot:" + kind)
			share := make(chan struct{}, b.N)
			for range b.N {
				share <- struct{}{}
			}
			close(share)
			var wg sync.WaitGroup
			b.ResetTimer()
			for range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range share {
						hold(b, l)
					}
				}()
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "grants/s")
		})
	}
}

// hold takes the lock and gives it back.
func hold(b *testing.B, l *engine.Lock) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	ls, err := l.Acquire(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	if err := ls.Release(ctx); err != nil {
		b.Error(err)
	}
}
