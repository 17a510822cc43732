package main

import "fmt"

// newRWScenario is contend on read-write locks: each turn of a caller reads or writes, by chance. The
// ledger lets readers share a name and catches a writer beside anybody.
func newRWScenario(s stage) scenario {
	return &contendScenario{stage: s, waits: newRecorder(), rw: &rwTally{
		share: s.cfg.readShare, reads: newRecorder(), writes: newRecorder(),
	}}
}

// rwTally adds up what readers and writers saw, round by round.
type rwTally struct {
	reads      *recorder
	share      float64
	writes     *recorder
	readRates  []float64
	writeRates []float64
}

// add takes both parts of a round; nil has none.
func (t *rwTally) add(reads, writes *recorder, one round) {
	if t == nil {
		return
	}
	t.reads.merge(reads)
	t.writes.merge(writes)
	wall := one.cost.wall.Seconds()
	t.readRates = append(t.readRates, float64(reads.granted)/wall)
	t.writeRates = append(t.writeRates, float64(writes.granted)/wall)
}

// rwReport is what readers and writers had. It is part of the report of the scenario rw.
type rwReport struct {
	ReadShare   float64  `json:"read_share"` // of the turns, as asked for
	Reads       int64    `json:"reads"`
	Writes      int64    `json:"writes"`
	ReadsPerS   float64  `json:"reads_per_s"`
	WritesPerS  float64  `json:"writes_per_s"`
	ReadWait    *latency `json:"read_wait_us"`
	WriteWait   *latency `json:"write_wait_us"`
	MostReaders int64    `json:"most_readers"` // of one name at once
}

func (t *rwTally) addTo(r *report, l *ledger) {
	if t == nil {
		return
	}
	out := &rwReport{ReadShare: t.share, MostReaders: l.together.Load()}
	if len(t.readRates) > 0 {
		out.Reads, out.Writes = t.reads.granted, t.writes.granted
		out.ReadsPerS, out.WritesPerS = *median(t.readRates), *median(t.writeRates)
		out.ReadWait, out.WriteWait = newLatency(t.reads.acquires), newLatency(t.writes.acquires)
	}
	r.RW = out
}

func (w *rwReport) rows() [][2]string {
	if w == nil {
		return nil
	}
	longest := func(l *latency) string {
		if l == nil {
			return "nobody waited"
		}
		return fmt.Sprintf("longest wait %s ms, p99 %s ms", number(l.Max/1e3), number(l.P99/1e3))
	}
	return [][2]string{
		{"reads/s", fmt.Sprintf("%s; %s; up to %s readers at once", number(w.ReadsPerS), longest(w.ReadWait), count(w.MostReaders))},
		{"writes/s", fmt.Sprintf("%s; %s", number(w.WritesPerS), longest(w.WriteWait))},
	}
}
