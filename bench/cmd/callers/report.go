package main

import (
	"context"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
)

// report is the JSON document.
type report struct {
	Rounds    int     `json:"rounds"`
	DurationS float64 `json:"duration_s"` // of a turn
	Cells     []*cell `json:"cells"`

	impls   []string
	callers []int
}

// cell is one implementation with one number of callers.
type cell struct {
	Impl    string    `json:"impl"`
	Callers int       `json:"callers"`
	PerS    float64   `json:"pairs_per_s"` // the median round
	Rounds  []float64 `json:"rounds"`
	P50     float64   `json:"p50_us"` // of a pair, all rounds
	P99     float64   `json:"p99_us"`

	open func(ctx context.Context, addr string, callers int) (hot.Client, error)
	pair *hdrhistogram.Histogram
}

func newReport(cfg config) *report {
	r := &report{Rounds: cfg.rounds, DurationS: cfg.duration.Seconds(), callers: cfg.callers}
	for _, n := range cfg.callers {
		for _, impl := range cfg.impls {
			r.Cells = append(r.Cells, &cell{Impl: impl.Name, Callers: n, open: impl.Open, pair: newPairs()})
		}
	}
	for _, impl := range cfg.impls {
		r.impls = append(r.impls, impl.Name)
	}
	return r
}

func (c *cell) add(one round) {
	c.Rounds = append(c.Rounds, one.perS)
	c.pair.Merge(one.pair)
}

// settle takes medians.
func (r *report) settle() {
	for _, c := range r.Cells {
		c.PerS = hot.Median(c.Rounds)
		c.P50 = float64(c.pair.ValueAtQuantile(50)) / 1e3
		c.P99 = float64(c.pair.ValueAtQuantile(99)) / 1e3
	}
}

func (r *report) at(impl string, callers int) *cell {
	i := slices.IndexFunc(r.Cells, func(c *cell) bool { return c.Impl == impl && c.Callers == callers })
	return r.Cells[i]
}

// table is the report for a reader: everybody's rate beside the first's.
func (r *report) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "callers\timplementation\tpairs/s\tto %s\tp50 µs\tp99 µs\t\n", r.impls[0])
	for _, c := range r.Cells {
		_, _ = fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f\t%.0f\t%.0f\t\n", c.Callers, c.Impl, c.PerS,
			c.PerS/r.at(r.impls[0], c.Callers).PerS, c.P50, c.P99)
	}
	_ = w.Flush() // to a string: it cannot fail
	return b.String()
}

// palette is told apart by those who see red and green as one.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

// draw makes a group of bars for each number of callers, a bar for each implementation.
func (r *report) draw(file string) error {
	const width = 16 // points of a bar
	p := plot.New()
	p.Y.Label.Text = "pairs/s"
	p.Y.Min = 0
	p.X.Label.Text = "blocking callers"
	p.Legend.Top, p.Legend.Left = true, true
	for i, name := range r.impls {
		values := make(plotter.Values, len(r.callers))
		for n, callers := range r.callers {
			values[n] = r.at(name, callers).PerS
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return err
		}
		bars.LineStyle.Width = 0
		bars.Color = palette[i%len(palette)]
		bars.Offset = vg.Points(width * (float64(i) - float64(len(r.impls)-1)/2))
		p.Add(bars)
		p.Legend.Add(name, bars)
	}
	labels := make([]string, len(r.callers))
	for i, n := range r.callers {
		labels[i] = strconv.Itoa(n)
	}
	p.NominalX(labels...)
	return p.Save(6*vg.Inch, 3*vg.Inch, file)
}
