package meter

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Cost is what this process has used so far, or between two readings.
type Cost struct {
	Wall     time.Duration
	CPU      time.Duration
	CPUKnown bool
	Allocs   uint64 // heap objects, tiny ones included
}

// CostMeter reads what the process uses. One goroutine at a time.
type CostMeter struct {
	began   time.Time
	samples []metrics.Sample
}

// NewCostMeter begins to measure.
func NewCostMeter() *CostMeter {
	return &CostMeter{began: time.Now(), samples: []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"},
	}}
}

func (m *CostMeter) Read() Cost {
	metrics.Read(m.samples)
	c := Cost{Allocs: m.samples[0].Value.Uint64() + m.samples[1].Value.Uint64()}
	c.CPU, c.CPUKnown = cpuTime()
	c.Wall = time.Since(m.began)
	return c
}

// Minus is what was used from b to c.
func (c Cost) Minus(b Cost) Cost {
	return Cost{
		Wall:     c.Wall - b.Wall,
		CPU:      c.CPU - b.CPU,
		CPUKnown: c.CPUKnown && b.CPUKnown,
		Allocs:   c.Allocs - b.Allocs,
	}
}

// Plus is what both used.
func (c Cost) Plus(b Cost) Cost {
	return Cost{
		Wall:     c.Wall + b.Wall,
		CPU:      c.CPU + b.CPU,
		CPUKnown: c.CPUKnown && b.CPUKnown,
		Allocs:   c.Allocs + b.Allocs,
	}
}

// HeapInUse is the heap after two collections: the first ends what is garbage, the second
// empties the pools.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Crowd watches how many goroutines the process has.
type Crowd struct {
	most atomic.Int64
	quit chan struct{}
	gone chan struct{}
}

// WatchCrowd begins to count, every hundredth of a second, until stop.
func WatchCrowd() *Crowd {
	c := &Crowd{quit: make(chan struct{}), gone: make(chan struct{})}
	go func() { // ends with stop
		defer close(c.gone)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			c.most.Store(max(c.most.Load(), int64(runtime.NumGoroutine())))
			select {
			case <-ticker.C:
			case <-c.quit:
				return
			}
		}
	}()
	return c
}

// Stop ends the count and returns the most there were.
func (c *Crowd) Stop() int64 {
	close(c.quit)
	<-c.gone
	return c.most.Load()
}
