package engine

import (
	"testing"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// BenchmarkMeasure is what a pair pays for the two histograms: its bookkeeping, without the mutex that is held anyway.
func BenchmarkMeasure(b *testing.B) {
	e := &Engine{}
	l, h := &Lock{eng: e}, &hold{ent: &entry{eng: e}}
	at := clock.Instant(time.Hour)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sc := section{eng: e, sh: &e.shards[i%shardCount]}
		op, ls := acquireOp{lock: l}, Lease{hold: h, since: stampOf(at)}
		at += 1000
		sc.waited(&op, at-300_000, at)
		sc.gaveBack(&ls, at)
	}
}
