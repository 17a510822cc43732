package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
)

const hdrEncoding = hdrhistogram.V2CompressedEncodingCookieBase

// report is the JSON document.
type report struct {
	Procs     int     `json:"procs"`
	Callers   int     `json:"callers"` // of each process
	HoldS     float64 `json:"hold_s"`
	DurationS float64 `json:"duration_s"` // of a turn
	Impls     []*impl `json:"impls"`
}

// impl is what one implementation reached.
type impl struct {
	Name       string    `json:"name"`
	GrantsPerS float64   `json:"grants_per_s"` // the median round, all processes together
	Rounds     []float64 `json:"rounds"`
	Grants     int64     `json:"grants"`
	Wait       wait      `json:"wait_us"` // of all rounds
	Callers    share     `json:"fairness"`
	Processes  *share    `json:"fairness_processes"` // the least fair round; null for one process
	Errors     int64     `json:"errors"`
	Stuck      int64     `json:"stuck"` // callers still waiting ten seconds after a turn
	Violations int64     `json:"violations"`
	Failures   []string  `json:"failures"`

	// Beside each other implementation: grants/s and p99 of the wait, this over that.
	Ratio    map[string]float64 `json:"ratio_to"`
	P99Ratio map[string]float64 `json:"p99_ratio_to"`

	waits  *hdrhistogram.Histogram
	served []int64 // by caller, all rounds
}

type wait struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// share is the grants of the least and of the most served.
type share struct {
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Ratio float64 `json:"ratio"`
}

func newReport(cfg config) *report {
	r := &report{Procs: cfg.procs, Callers: cfg.callers, HoldS: cfg.hold.Seconds(), DurationS: cfg.duration.Seconds()}
	for _, name := range cfg.impls {
		r.Impls = append(r.Impls, &impl{
			Name: name, Rounds: []float64{}, Failures: []string{},
			Ratio: map[string]float64{}, P99Ratio: map[string]float64{}, waits: hot.NewWaits(),
		})
	}
	return r
}

// add adds one round.
func (m *impl) add(answers []answer) error {
	var rate float64
	var served, byProcess []int64
	for _, a := range answers {
		waits, err := hdrhistogram.Decode(a.Waits)
		if err != nil {
			return err
		}
		m.waits.Merge(waits)
		m.Grants += a.Grants
		m.Errors += a.Errors
		m.Stuck += a.Stuck
		m.Violations += a.Violations
		if a.Wall > 0 {
			rate += float64(a.Grants) / a.Wall.Seconds()
		}
		served, byProcess = append(served, a.Served...), append(byProcess, a.Grants)
		if a.First != "" {
			m.Failures = append(m.Failures, a.First)
		}
		if a.Violations > 0 {
			m.Failures = append(m.Failures, a.Told...)
		}
	}
	m.Rounds = append(m.Rounds, rate)
	if m.served == nil {
		m.served = make([]int64, len(served))
	}
	for i, n := range served {
		m.served[i] += n
	}
	if s := shareOf(byProcess); len(byProcess) > 1 && (m.Processes == nil || s.Ratio < m.Processes.Ratio) {
		m.Processes = &s
	}
	return nil
}

func shareOf(served []int64) share {
	s := share{Min: float64(slices.Min(served)), Max: float64(slices.Max(served)), Ratio: 1}
	if s.Max > 0 {
		s.Ratio = s.Min / s.Max
	}
	return s
}

// settle works out the medians and ratios, when all rounds are in.
func (r *report) settle() {
	for _, m := range r.Impls {
		m.GrantsPerS = hot.Median(m.Rounds)
		m.Wait = wait{
			P50: float64(m.waits.ValueAtPercentile(50)) / 1e3,
			P99: float64(m.waits.ValueAtPercentile(99)) / 1e3,
			Max: float64(m.waits.Max()) / 1e3,
		}
		if m.served != nil {
			m.Callers = shareOf(m.served)
		}
	}
	for _, a := range r.Impls {
		for _, b := range r.Impls {
			if a != b && b.GrantsPerS > 0 && b.Wait.P99 > 0 {
				a.Ratio[b.Name] = a.GrantsPerS / b.GrantsPerS
				a.P99Ratio[b.Name] = a.Wait.P99 / b.Wait.P99
			}
		}
	}
}

// table is the report for a reader. Everybody is set beside redislock, or the last.
func (r *report) table() string {
	beside := r.Impls[len(r.Impls)-1].Name
	for _, m := range r.Impls {
		if m.Name == "redislock" {
			beside = m.Name
		}
	}
	text := new(strings.Builder)
	fmt.Fprintf(text, "one lock, %d × %d callers, held %g ms, medians of %d rounds of %g s\n\n",
		r.Procs, r.Callers, r.HoldS*1e3, len(r.Impls[0].Rounds), r.DurationS)
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	row("", "grants/s", "least", "most", "/"+beside, "wait p50 ms", "p99 ms", "longest ms", "p99/"+beside, "callers", "processes", "violations", "errors", "stuck")
	for _, m := range r.Impls {
		processes := "–"
		if m.Processes != nil {
			processes = fmt.Sprintf("%.2f", m.Processes.Ratio)
		}
		least, most := 0.0, 0.0
		if len(m.Rounds) > 0 {
			least, most = slices.Min(m.Rounds), slices.Max(m.Rounds)
		}
		row(m.Name, whole(m.GrantsPerS), whole(least), whole(most), ratioText(m.Ratio, beside),
			fmt.Sprintf("%.3f", m.Wait.P50/1e3), fmt.Sprintf("%.3f", m.Wait.P99/1e3), fmt.Sprintf("%.1f", m.Wait.Max/1e3),
			ratioText(m.P99Ratio, beside), fmt.Sprintf("%.2f", m.Callers.Ratio), processes,
			fmt.Sprint(m.Violations), fmt.Sprint(m.Errors), fmt.Sprint(m.Stuck))
	}
	_ = w.Flush() // into memory
	fmt.Fprintln(text, "\ncallers, processes: grants of the least served over those of the most; processes: in the least fair round")
	for _, m := range r.Impls {
		for _, f := range m.Failures {
			fmt.Fprintf(text, "%s: %s\n", m.Name, f)
		}
	}
	return text.String()
}

func whole(v float64) string { return fmt.Sprintf("%.0f", math.Round(v)) }

func ratioText(of map[string]float64, name string) string {
	v, ok := of[name]
	switch {
	case !ok:
		return "–"
	case v < 0.1:
		return fmt.Sprintf("%.4f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
