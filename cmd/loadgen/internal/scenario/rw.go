package scenario

import (
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// newRWScenario is contend on read-write locks: each turn of a caller reads or writes, by chance. The
// ledger lets readers share a name and catches a writer beside anybody.
func newRWScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder(), rw: &rwTally{
		share: s.Cfg.ReadShare, reads: meter.NewRecorder(), writes: meter.NewRecorder(),
	}}
}

// rwTally adds up what readers and writers saw, round by round.
type rwTally struct {
	reads      *meter.Recorder
	share      float64
	writes     *meter.Recorder
	readRates  []float64
	writeRates []float64
}

// add takes both parts of a round; nil has none.
func (t *rwTally) add(reads, writes *meter.Recorder, one report.Round) {
	if t == nil {
		return
	}
	t.reads.Merge(reads)
	t.writes.Merge(writes)
	wall := one.Cost.Wall.Seconds()
	t.readRates = append(t.readRates, float64(reads.Granted)/wall)
	t.writeRates = append(t.writeRates, float64(writes.Granted)/wall)
}

func (t *rwTally) addTo(r *report.Report, l *meter.Ledger) {
	if t == nil {
		return
	}
	out := &report.RW{ReadShare: t.share, MostReaders: l.Together.Load()}
	if len(t.readRates) > 0 {
		out.Reads, out.Writes = t.reads.Granted, t.writes.Granted
		out.ReadsPerS, out.WritesPerS = *report.Median(t.readRates), *report.Median(t.writeRates)
		out.ReadWait, out.WriteWait = report.NewLatency(t.reads.Acquires), report.NewLatency(t.writes.Acquires)
	}
	r.RW = out
}
