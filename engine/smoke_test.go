package engine_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redis/rueidis"
	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
)

func TestSmoke(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	l := e.Lock("a")
	ls, err := l.Acquire(ctx)
	require.NoError(t, err)
	fmt.Println(l.Inspect(ctx))
	_, err = l.TryAcquire(ctx)
	fmt.Println(err)
	go func() { time.Sleep(100 * time.Millisecond); fmt.Println(ls.Release(ctx)) }()
	ls2, err := l.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, ls2.Release(ctx))
	fmt.Printf("%+v\n", e.Stats())
	require.NoError(t, e.Close(ctx))
}

func BenchmarkQuick(b *testing.B) {
	s := redistest.Run(b, redistest.Options{})
	ctx := context.Background()
	c, err := rueidis.NewClient(yardstick.ClientOption(s.Addr()))
	require.NoError(b, err)
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(b, err)
	const inflight = 4096
	const drivers = 2
	round := func(d time.Duration) float64 {
		end := time.Now().Add(d)
		done := make(chan int, drivers)
		for g := range drivers {
			go func() {
				n := inflight / drivers
				locks := make([]*engine.Lock, n)
				for i := range locks {
					locks[i] = e.Lock(fmt.Sprintf("lock:%d:%d", g, i))
				}
				acq := make([]*engine.Future[*engine.Lease], n)
				rel := make([]*engine.Future[struct{}], n)
				pairs := 0
				for i := range n {
					acq[i] = locks[i].AcquireAsync(ctx)
				}
				for time.Now().Before(end) {
					for i := range n {
						if acq[i] != nil {
							ls, err := acq[i].Await(ctx)
							if err != nil {
								panic(err)
							}
							acq[i] = nil
							rel[i] = ls.ReleaseAsync()
						} else {
							if _, err := rel[i].Await(ctx); err != nil {
								panic(err)
							}
							pairs++
							rel[i] = nil
							acq[i] = locks[i].AcquireAsync(ctx)
						}
					}
				}
				for i := range n {
					if acq[i] != nil {
						ls, err := acq[i].Await(ctx)
						if err != nil {
							panic(err)
						}
						ls.ReleaseAsync().Await(ctx)
					} else {
						rel[i].Await(ctx)
					}
				}
				done <- pairs
			}()
		}
		total := 0
		for range drivers {
			total += <-done
		}
		return float64(total) / d.Seconds()
	}
	if p := os.Getenv("CPUPROF"); p != "" {
		f, _ := os.Create(p)
		pprof.StartCPUProfile(f)
		round(8 * time.Second)
		pprof.StopCPUProfile()
	}
	cpu := func() (srv, cli float64) {
		for _, f := range []string{"used_cpu_user", "used_cpu_sys"} {
			v, err := s.InfoField("cpu", f)
			require.NoError(b, err)
			x, _ := strconv.ParseFloat(v, 64)
			srv += x
		}
		var ru syscall.Rusage
		syscall.Getrusage(0, &ru)
		return srv, float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9
	}
	for range 4 {
		s0, c0 := cpu()
		y, err := yardstick.Pipeline(ctx, c, yardstick.Options{Duration: 2 * time.Second})
		require.NoError(b, err)
		s1, c1 := cpu()
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		r := round(2 * time.Second)
		runtime.ReadMemStats(&m1)
		s2, c2 := cpu()
		n1, n2 := float64(y.Pairs), r*2
		fmt.Printf("server us/pair %.2f vs %.2f (%.2f)  client %.2f vs %.2f (%.2f) allocs %.2f bytes %.0f\n", (s1-s0)/n1*1e6, (s2-s1)/n2*1e6, (s1-s0)/n1/((s2-s1)/n2),
			(c1-c0)/n1*1e6, (c2-c1)/n2*1e6, (c2-c1)/n2/((c1-c0)/n1), float64(m1.Mallocs-m0.Mallocs)/n2, float64(m1.TotalAlloc-m0.TotalAlloc)/n2)
		fmt.Printf("yard %.0f ours %.0f ratio %.2f\n", y.PairsPerSecond(), r, r/y.PairsPerSecond())
	}
	require.NoError(b, e.Close(ctx))
}

func BenchmarkOne(b *testing.B) {
	s := redistest.Run(b, redistest.Options{})
	ctx := context.Background()
	c, err := rueidis.NewClient(yardstick.ClientOption(s.Addr()))
	require.NoError(b, err)
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	require.NoError(b, err)
	l := e.Lock("one")
	for range 6 {
		y, err := yardstick.Single(ctx, c, yardstick.Options{Duration: time.Second})
		require.NoError(b, err)
		n := 0
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		for end := time.Now().Add(time.Second); time.Now().Before(end); n++ {
			ls, err := l.AcquireAsync(ctx).Await(ctx)
			require.NoError(b, err)
			_, err = ls.ReleaseAsync().Await(ctx)
			require.NoError(b, err)
		}
		runtime.ReadMemStats(&m1)
		fmt.Printf("single: bare %.0f ours %d ratio %.2f allocs %.1f bytes %.0f\n", y.PairsPerSecond(), n, float64(n)/y.PairsPerSecond(), float64(m1.Mallocs-m0.Mallocs)/float64(n), float64(m1.TotalAlloc-m0.TotalAlloc)/float64(n))
	}
	require.NoError(b, e.Close(ctx))
}
