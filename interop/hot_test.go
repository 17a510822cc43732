package interop

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

const (
	hotCallers = 64
	hotWarmup  = time.Second
)

// BenchmarkHot has 64 callers want one lock, all in one client or in four: Redisson's and the engine's, every
// kind. It reports grants a second, the median and the 99th hundredth of the waits, and how often the busiest
// caller was served for each time that the least busy one was. Redisson's pools have their default sizes.
func BenchmarkHot(b *testing.B) {
	for _, k := range []string{"lock", "fair", "fenced", "write", "spin"} {
		for _, clients := range []int{1, 4} {
			b.Run(fmt.Sprintf("impl=redisson/kind=%s/callers=%d/clients=%d", k, hotCallers, clients), func(b *testing.B) {
				for b.Loop() {
					hotJava(b, k, clients)
				}
			})
		}
	}
	for _, k := range kinds {
		for _, clients := range []int{1, 4} {
			b.Run(fmt.Sprintf("impl=holdfast/kind=%s/callers=%d/clients=%d", k.name, hotCallers, clients), func(b *testing.B) {
				for b.Loop() {
					hotGo(b, k, clients)
				}
			})
		}
	}
}

// hotSeconds is how long each benchmark counts.
func hotSeconds(b *testing.B) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_INTEROP_SECONDS")); err == nil {
		return n
	}
	return 5
}

func hotJava(b *testing.B, kind string, clients int) {
	server := redistest.Run(b, redistest.Options{})
	var names []string
	for range clients {
		names = append(names, openJava(b, server.Addr(), "connections", "64", "subscriptions", "50").name)
	}
	seconds := hotSeconds(b)
	r := java(b).send("hot", url.Values{
		"clients": {strings.Join(names, ",")}, "kind": {kind}, "name": {"hot"},
		"threads": {strconv.Itoa(hotCallers)}, "seconds": {strconv.Itoa(seconds)},
		"warmupMs": {strconv.FormatInt(hotWarmup.Milliseconds(), 10)},
	}).waitFor(b, time.Duration(seconds)*time.Second+hotWarmup+3*patience)
	require.NoError(b, r.err)
	require.Equal(b, "0", r.values.Get("broken"), "two held it at once")
	number := func(key string) float64 {
		f, err := strconv.ParseFloat(r.values.Get(key), 64)
		require.NoError(b, err, key)
		return f
	}
	b.ReportMetric(number("grants")/float64(seconds), "grants/s")
	b.ReportMetric(number("p50")/1e6, "p50-ms")
	b.ReportMetric(number("p99")/1e6, "p99-ms")
	b.ReportMetric(number("most")/max(number("fewest"), 1), "most/fewest")
}

// hotGo does what Hot.java does.
func hotGo(b *testing.B, k kind, clients int) {
	server := redistest.Run(b, redistest.Options{})
	d := &deployment{addrs: []string{server.Addr()}}
	var engines []*engine.Engine
	for range clients {
		engines = append(engines, d.openGo(b))
	}
	from := time.Now().Add(hotWarmup)
	until := from.Add(time.Duration(hotSeconds(b)) * time.Second)
	waits := make([][]time.Duration, hotCallers)
	var callers sync.WaitGroup
	for i := range waits {
		callers.Go(func() { waits[i] = hotCaller(b, k.open(engines[i%clients], "hot"), from, until) })
	}
	callers.Wait()
	counts := make([]int, hotCallers)
	for i, w := range waits {
		counts[i] = len(w)
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	require.NotEmpty(b, all)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.ReportMetric(float64(len(all))/until.Sub(from).Seconds(), "grants/s")
	b.ReportMetric(ms(all[len(all)/2]), "p50-ms")
	b.ReportMetric(ms(all[len(all)*99/100]), "p99-ms")
	b.ReportMetric(float64(slices.Max(counts))/float64(max(slices.Min(counts), 1)), "most/fewest")
}

// hotCaller takes and gives back until it is time, and returns the waits that ended between from and until.
func hotCaller(b *testing.B, l *engine.Lock, from, until time.Time) []time.Duration {
	ctx := context.Background()
	var waits []time.Duration
	for began := time.Now(); began.Before(until); began = time.Now() {
		ls, err := l.Acquire(ctx)
		if err != nil {
			b.Error(err)
			return waits
		}
		if granted := time.Now(); granted.After(from) && granted.Before(until) {
			waits = append(waits, granted.Sub(began))
		}
		if err := ls.Release(ctx); err != nil {
			b.Error(err)
			return waits
		}
	}
	return waits
}
