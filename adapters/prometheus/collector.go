package holdfastprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// A Source has counters: an *engine.Engine.
type Source interface {
	ID() string
	Stats() engine.Stats
}

// A Collector collects the counters of engines. Register one for all engines of a process.
type Collector struct {
	sources []Source
	metrics []*metric
}

// NewCollector returns a collector of these engines. One may be closed before the collector is unregistered: its
// counters stay as they were.
func NewCollector(engines ...Source) *Collector {
	c := &Collector{sources: engines}
	for _, m := range metrics() {
		labels := append([]string{"engine"}, m.labels...)
		m.desc = prometheus.NewDesc(prefix+m.name, m.help, labels, nil)
		c.metrics = append(c.metrics, &m)
	}
	return c
}

// prefix is what all names begin with.
const prefix = "holdfast_"

// Describe sends what there is. Blocks: for who reads ch.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect sends the present values. Blocks: for each engine's Stats, and for who reads ch.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.sources {
		stats := s.Stats()
		for _, m := range c.metrics {
			out := output{m, s.ID(), ch}
			m.read(&stats, out)
		}
	}
}

// A metric is one name: what its values are, and how they are read.
type metric struct {
	name, help string
	kind       prometheus.ValueType // of a histogram: untyped
	labels     []string             // beside engine
	read       func(*engine.Stats, output)
	desc       *prometheus.Desc
}

// An output takes the values of one metric of one engine.
type output struct {
	*metric
	engine string
	ch     chan<- prometheus.Metric
}

func (o output) value(v int64, labels ...string) {
	labels = append([]string{o.engine}, labels...)
	o.ch <- prometheus.MustNewConstMetric(o.desc, o.kind, float64(v), labels...)
}

func (o output) histogram(h *engine.Histogram, labels ...string) {
	labels = append([]string{o.engine}, labels...)
	buckets, sum := make(map[float64]uint64, len(h.Buckets)), uint64(0)
	for i, bound := range engine.HistogramBounds() { // Prometheus' buckets hold those below, too
		sum += uint64(h.Buckets[i]) //nolint:gosec // a count
		buckets[bound.Seconds()] = sum
	}
	count := uint64(h.Count) //nolint:gosec // a count
	o.ch <- prometheus.MustNewConstHistogram(o.desc, count, h.Sum.Seconds(), buckets, labels...)
}
