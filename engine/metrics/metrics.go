package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// ContentType is what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// A Source has counters: an *engine.Engine.
type Source interface {
	ID() string
	Stats() engine.Stats
}

// Handler answers every GET and HEAD with the present counters of the engines. An engine may be
// closed before the handler is: its counters stay as they were.
func Handler(engines ...Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics are read with GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", ContentType)
		_ = Write(w, engines...) // the reader has left
	})
}

// Write writes the present counters of the engines. Blocks: for each engine's Stats, and for w.
// Errors: w's.
func Write(w io.Writer, engines ...Source) error {
	all := make([]sample, 0, len(engines))
	for _, e := range engines {
		all = append(all, sample{labels: `engine="` + escape(e.ID()) + `"`, stats: e.Stats()})
	}
	out := bufio.NewWriter(w)
	for i := range families {
		families[i].write(out, all)
	}
	return out.Flush()
}

// A sample is what one engine says of itself.
type sample struct {
	labels string
	stats  engine.Stats
}

// A family is one metric: its name without the prefix, and how its series are read.
type family struct {
	name, help string
	engine     func(*engine.Stats) []series
	node       func(*resp.NodeStats) []series
}

// A series is one line: further labels, and the value.
type series struct {
	labels string
	value  int64
}

// write writes a metric. What goes wrong the writer remembers: Flush says it.
func (f *family) write(out *bufio.Writer, all []sample) {
	kind := "gauge"
	if strings.HasSuffix(f.name, "_total") {
		kind = "counter"
	}
	_, _ = fmt.Fprintf(out, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", f.name, f.help, f.name, kind)
	for i := range all {
		s := &all[i]
		if f.engine != nil {
			f.lines(out, s.labels, f.engine(&s.stats))
			continue
		}
		for j := range s.stats.Nodes {
			n := &s.stats.Nodes[j]
			f.lines(out, s.labels+`,node="`+escape(n.Addr)+`"`, f.node(n))
		}
	}
}

func (f *family) lines(out *bufio.Writer, labels string, all []series) {
	for _, s := range all {
		if s.labels != "" {
			s.labels = "," + s.labels
		}
		_, _ = fmt.Fprintf(out, "holdfast_%s{%s%s} %d\n", f.name, labels, s.labels, s.value)
	}
}

// escape makes a text safe inside a label's quotes.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}
