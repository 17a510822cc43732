package main

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// cost is what this process has used so far, or between two readings.
type cost struct {
	wall     time.Duration
	cpu      time.Duration
	cpuKnown bool
	allocs   uint64 // heap objects, tiny ones included
}

// costMeter reads what the process uses. One goroutine at a time.
type costMeter struct {
	began   time.Time
	samples []metrics.Sample
}

func newCostMeter() *costMeter {
	return &costMeter{began: time.Now(), samples: []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"},
	}}
}

func (m *costMeter) read() cost {
	metrics.Read(m.samples)
	c := cost{allocs: m.samples[0].Value.Uint64() + m.samples[1].Value.Uint64()}
	c.cpu, c.cpuKnown = cpuTime()
	c.wall = time.Since(m.began)
	return c
}

func (c cost) minus(b cost) cost {
	return cost{
		wall:     c.wall - b.wall,
		cpu:      c.cpu - b.cpu,
		cpuKnown: c.cpuKnown && b.cpuKnown,
		allocs:   c.allocs - b.allocs,
	}
}

func (c cost) plus(b cost) cost {
	return cost{
		wall:     c.wall + b.wall,
		cpu:      c.cpu + b.cpu,
		cpuKnown: c.cpuKnown && b.cpuKnown,
		allocs:   c.allocs + b.allocs,
	}
}

// heapInUse is the heap after two collections: the first ends what is garbage, the second
// empties the pools.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// crowd watches how many goroutines the process has.
type crowd struct {
	most atomic.Int64
	quit chan struct{}
	gone chan struct{}
}

// watchCrowd begins to count, every hundredth of a second, until stop.
func watchCrowd() *crowd {
	c := &crowd{quit: make(chan struct{}), gone: make(chan struct{})}
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

func (c *crowd) stop() int64 {
	close(c.quit)
	<-c.gone
	return c.most.Load()
}
