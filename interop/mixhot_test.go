package interop

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// BenchmarkShared has 8 threads of Java and 64 callers of Go want one lock, beside as many callers of Java alone. It
// reports grants a second, Java's part of them, and the longest waits of both.
func BenchmarkShared(b *testing.B) {
	for _, k := range []string{"fair", "fenced", "lock", "write", "spin"} {
		b.Run(fmt.Sprintf("impl=redisson/kind=%s/java=%d/go=0", k, mixJava+mixGo), func(b *testing.B) {
			for b.Loop() {
				sharedHot(b, mix{kind: k, java: mixJava + mixGo})
			}
		})
		for _, engines := range []int{1, 4} {
			b.Run(fmt.Sprintf("impl=both/kind=%s/java=%d/go=%d/engines=%d", k, mixJava, mixGo, engines), func(b *testing.B) {
				for b.Loop() {
					sharedHot(b, mix{kind: k, java: mixJava, callers: mixGo, engines: engines})
				}
			})
		}
	}
}

func sharedHot(b *testing.B, m mix) {
	d := &deployment{}
	s := redistest.Run(b, redistest.Options{})
	d.addrs, d.servers = []string{s.Addr()}, []*redistest.Server{s}
	java := openJava(b, s.Addr(), "connections", "64", "watchdogMs", strconv.FormatInt(mixLease.Milliseconds(), 10))
	var engines []*engine.Engine
	for range m.engines {
		engines = append(engines, d.openGo(b))
	}
	m.warmup, m.counted = hotWarmup, time.Duration(hotSeconds(b))*time.Second
	javaShare, goShare, free := m.play(b, d, java, engines)
	all := javaShare.rate + goShare.rate
	b.ReportMetric(all, "grants/s")
	b.ReportMetric(100*javaShare.rate/max(all, 1), "java-%")
	b.ReportMetric(javaShare.rate, "java/s")
	b.ReportMetric(javaShare.p50.Seconds()*1000, "java-p50-ms")
	b.ReportMetric(javaShare.longest.Seconds(), "java-longest-s")
	b.ReportMetric(goShare.longest.Seconds(), "go-longest-s")
	b.ReportMetric(free.Seconds(), "free-s")
}
