package witness

import (
	"math"
	"time"
)

// FairWindow is the stretch of time over which processes are to be served alike.
const FairWindow = 5 * time.Second

// Summary is what the processes of a run did together, as far as they have said so.
type Summary struct {
	Processes []Process
	Fairness  *Fairness // nil: fewer than two processes measured at the same time
}

// Process is what one process did.
type Process struct {
	PID        int
	Gone       bool // ended without leaving
	Grants     int64
	Violations int64
	Abandoned  int64     // marks of the gone that it took over
	Rates      []float64 // grants a second, by round
	Wait       Wait
}

// Wait is the distribution of how long callers waited, in microseconds.
type Wait struct{ P50, P99, Longest float64 }

// Fairness is the least fair window: the grants of the least and of the most served process
// in it.
type Fairness struct {
	Min, Max float64
	Ratio    float64 // Min / Max; 1 where nobody was served
	Window   time.Duration
	Windows  int // how many were compared
}

// PutWait publishes how long this process's callers waited.
func (w *Witness) PutWait(v Wait) {
	w.me.p50.Store(math.Float64bits(v.P50))
	w.me.p99.Store(math.Float64bits(v.P99))
	w.me.longest.Store(math.Float64bits(v.Longest))
}

// PutRival publishes what the measure beside the run reached in its n-th round.
func (w *Witness) PutRival(n int, rate float64) {
	if n < MaxRounds {
		w.header.rival[n].Store(math.Float64bits(rate))
	}
}

// Rival returns the published rates of the first n rounds.
func (w *Witness) Rival(n int) []float64 {
	rates := make([]float64, min(n, MaxRounds))
	for i := range rates {
		rates[i] = math.Float64frombits(w.header.rival[i].Load())
	}
	return rates
}

// Summary reads what all processes did. After a last [Witness.Await] it is the same for each.
func (w *Witness) Summary() Summary {
	var s Summary
	for i := range w.processes {
		p := &w.processes[i]
		if p.state.Load() == stateFree {
			continue
		}
		one := Process{
			PID: int(p.pid), Gone: p.gone(),
			Grants: p.grants.Load(), Violations: p.violations.Load(), Abandoned: p.abandoned.Load(),
			Wait: Wait{
				P50:     math.Float64frombits(p.p50.Load()),
				P99:     math.Float64frombits(p.p99.Load()),
				Longest: math.Float64frombits(p.longest.Load()),
			},
		}
		for n := range p.rounds {
			if p.rounds[n].to.Load() != 0 {
				one.Rates = append(one.Rates, math.Float64frombits(p.rounds[n].rate.Load()))
			}
		}
		s.Processes = append(s.Processes, one)
	}
	s.Fairness = w.fairness()
	return s
}

// fairness looks at every window that lies in one round of every process that measured. The
// bins at either end of a round are left out: they are not full.
func (w *Witness) fairness() *Fairness {
	var worst *Fairness
	for n := range MaxRounds {
		in, first, end := w.common(n)
		length := min(end-first, int64(FairWindow/BinWidth))
		if len(in) < 2 || length < 1 {
			continue
		}
		for at := first; at+length <= end; at++ {
			one := window(in, at, at+length)
			windows := 1
			if worst != nil {
				windows += worst.Windows
			}
			if worst == nil || one.Ratio < worst.Ratio {
				worst = &one
			}
			worst.Windows = windows
		}
	}
	return worst
}

// common returns the processes that measured round n, and the whole bins that lie in the
// round of each.
func (w *Witness) common(n int) (in []*process, first, end int64) {
	first, end = 0, bins
	for i := range w.processes {
		p := &w.processes[i]
		from, to := p.rounds[n].from.Load(), p.rounds[n].to.Load()
		if p.state.Load() == stateFree || to == 0 {
			continue
		}
		in = append(in, p)
		first = max(first, (from+int64(BinWidth)-1)/int64(BinWidth))
		end = min(end, to/int64(BinWidth))
	}
	return in, first, end
}

// window compares the grants of processes in the bins from first to before end.
func window(in []*process, first, end int64) Fairness {
	f := Fairness{Min: math.Inf(1), Ratio: 1, Window: time.Duration(end-first) * BinWidth}
	for _, p := range in {
		var sum float64
		for bin := first; bin < end; bin++ {
			sum += float64(p.bins[bin].Load())
		}
		f.Min, f.Max = min(f.Min, sum), max(f.Max, sum)
	}
	if f.Max > 0 {
		f.Ratio = f.Min / f.Max
	}
	return f
}
