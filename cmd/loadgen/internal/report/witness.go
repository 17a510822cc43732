package report

import (
	"fmt"
)

// Witness is what the processes of one run did together.
type Witness struct {
	File       string    `json:"file"`
	Processes  []Process `json:"processes"`
	Grants     int64     `json:"grants"`       // together, in the measured rounds
	GrantsPerS float64   `json:"grants_per_s"` // together, the median round
	P99        float64   `json:"p99_us"`       // of the worst process
	Longest    float64   `json:"longest_wait_us"`
	Violations int64     `json:"violations"` // found by all
	Abandoned  int64     `json:"abandoned"`  // marks of processes that ended while they held, taken over
	Leftover   int       `json:"leftover"`   // the same, from the run before
	Gone       int       `json:"gone"`       // processes that ended without leaving
}

// Process is what one of the processes did.
type Process struct {
	PID        int     `json:"pid"`
	Gone       bool    `json:"gone"`
	Grants     int64   `json:"grants"`
	GrantsPerS float64 `json:"grants_per_s"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Longest    float64 `json:"longest_wait_us"`
	Violations int64   `json:"violations"`
	Abandoned  int64   `json:"abandoned"`
}

// ProcessesFairness is the least fair window: the grants of the least and of the most
// served process in it.
type ProcessesFairness struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Ratio   float64 `json:"ratio"`
	WindowS float64 `json:"window_s"`
	Windows int     `json:"windows"` // how many were looked at
}

// Add adds what a process did to what all did.
func (w *Witness) Add(p Process) {
	w.Processes = append(w.Processes, p)
	w.Grants += p.Grants
	w.Violations += p.Violations
	w.Abandoned += p.Abandoned
	w.P99, w.Longest = max(w.P99, p.P99), max(w.Longest, p.Longest)
	if p.Gone {
		w.Gone++
	}
}

func (w *Witness) rows(f *ProcessesFairness) [][2]string {
	rows := [][2]string{{"together", fmt.Sprintf("%d processes, %s grants/s, p99 of the worst %s ms, longest wait %s ms, violations %s",
		len(w.Processes), number(w.GrantsPerS), number(w.P99/1e3), number(w.Longest/1e3), count(w.Violations))}}
	if f != nil {
		rows = append(rows, [2]string{"grants a process", fmt.Sprintf("%s to %s, ratio %.2f, in the least fair of %d windows of %g s",
			number(f.Min), number(f.Max), f.Ratio, f.Windows, f.WindowS)})
	}
	if n := w.Abandoned + int64(w.Leftover); n > 0 {
		rows = append(rows, [2]string{"marks of the gone", count(n)})
	}
	return rows
}
