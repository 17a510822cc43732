package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// Table is the report for a reader, of at most so many columns; 0: of as many as it needs.
func (r *Report) Table(columns int) string {
	w := &page{columns: columns}
	w.say("", fmt.Sprintf("%s on %s, %s", r.what(), r.serverText(), r.loadText()))
	w.rows(r.rows())
	if r.Acquire != nil {
		r.writeLatency(w)
	}
	if r.Yardstick != nil {
		r.writeYardstick(w)
	}
	if r.Status == StatusOK {
		w.say("", r.ok())
		return w.String()
	}
	w.say("", map[int]string{StatusFailed: "FAILED", StatusViolation: "EXCLUSION VIOLATED"}[r.Status])
	for _, f := range r.Failures {
		w.say("  ", f)
	}
	return w.String()
}

// page is a text of so many columns.
type page struct {
	strings.Builder
	columns int // 0: as many as it needs
}

// say writes a paragraph, indented.
func (w *page) say(indent, paragraph string) {
	if w.columns > 0 {
		paragraph = text.WrapSoft(paragraph, w.columns-len(indent))
	}
	for line := range strings.SplitSeq(paragraph, "\n") {
		w.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
}

// borders are the columns of a table of n columns that hold no text.
func borders(n int) int { return 3*n + 1 }

// rows writes names and values. A value that does not fit goes on in the next line.
func (w *page) rows(rows [][2]string) {
	t := newTable()
	names := 0
	for _, row := range rows {
		t.AppendRow(table.Row{row[0], row[1]})
		names = max(names, text.StringWidthWithoutEscSequences(row[0]))
	}
	if w.columns > 0 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: w.columns - borders(2) - names, WidthMaxEnforcer: text.WrapSoft}})
	}
	w.WriteString(t.Render() + "\n")
}

// figures writes the table that make fills, or where it is too wide the one that narrow fills.
func (w *page) figures(fill, narrow func(t table.Writer)) {
	t := newTable()
	fill(t)
	whole := t.Render()
	if w.columns > 0 && text.LongestLineLen(whole) > w.columns {
		t = newTable()
		narrow(t)
		whole = t.Render()
	}
	w.WriteString(whole + "\n")
}

// what names the scenario, and the locks where they are not plain ones.
func (r *Report) what() string {
	if r.Kind == config.KindLock || r.Kind == r.Scenario {
		return r.Scenario
	}
	return fmt.Sprintf("%s (%s locks)", r.Scenario, r.Kind)
}

func (r *Report) serverText() string {
	s := r.Server
	if r.Embedded {
		s += " of its own"
	}
	if r.Topology != "single" {
		s += " (" + topology.Describe(r.Topology, topology.Shape{Masters: r.Masters, Replicas: r.Replicas}) + ")"
	}
	return s
}

func (r *Report) loadText() string {
	if c := r.Contend; c != nil {
		return fmt.Sprintf("%s, callers %d, engines %d, keys %d, held %g ms each", r.API, r.Clients, r.Engines, r.Keys, c.HoldS*1e3) + r.endText()
	}
	s := fmt.Sprintf("%s, %d in flight, clients %d, engines %d, keys %d", r.API, r.Inflight, r.Clients, r.Engines, r.Keys)
	if r.Scenario == "hold" {
		s = fmt.Sprintf("%s locks kept %.1f s under a lease of %g s", count(int64(r.Locks)), r.KeptS, r.LeaseS)
	} else if r.Rate > 0 {
		s += fmt.Sprintf(", open loop at %s pairs/s", number(r.Rate))
	}
	return s + r.endText()
}

// endText ends the line of conditions.
func (r *Report) endText() string {
	text := ""
	if r.Processors != r.OfAll {
		text = fmt.Sprintf(", on %d of %s", r.Processors, format.Plural(r.OfAll, "processor"))
	}
	if r.Listen > 0 {
		text += fmt.Sprintf(", %s listened to", format.Plural(r.Listen, "channel"))
	}
	if r.Interrupted {
		text += ", interrupted"
	}
	return text
}

// measured is for how long, and why that is longer than was asked for. Rates are counted over all of it.
func (r *Report) measured() string {
	text := fmt.Sprintf("%.2f s", r.DurationS)
	if more := r.DurationS - r.asked.Seconds(); r.asked > 0 && more > 0.02*r.asked.Seconds() {
		text += fmt.Sprintf(": %.2f s more than asked for, until all that was begun was over", more)
	}
	return text
}

// unit is what costs are told of: those who wait for latches give nothing back.
func (r *Report) unit() string {
	if r.Contend != nil && r.Contend.Latch != nil {
		return "count"
	}
	return "pair"
}

// ok is the last line of a report in which nothing is wrong.
func (r *Report) ok() string {
	if r.Interrupted {
		return "ok as far as it went: it was interrupted"
	}
	return "ok"
}

// rows are what is worth a line of the table, with its value.
func (r *Report) rows() [][2]string {
	rows := [][2]string{
		{"pairs", count(r.Pairs)},
		{"pairs/s", number(r.PairsPerS)},
		{"measured", r.measured()},
	}
	if r.Contend != nil {
		rows = append(rows[2:], r.Contend.rows(r.Fairness)...)
	}
	add := func(name string, show bool, value string) {
		if show {
			rows = append(rows, [2]string{name, value})
		}
	}
	opt := func(name string, v *float64, unit string) {
		if v != nil {
			rows = append(rows, [2]string{name, number(*v) + unit})
		}
	}
	opt("client CPU a "+r.unit(), r.ClientCPU, " µs")
	opt("server CPU a "+r.unit(), r.ServerCPU, " µs")
	opt("allocations a "+r.unit(), r.Allocs, "")
	opt("heap a held lock", r.HeapPerLock, " bytes")
	opt("CPU while keeping", r.KeepingCPU, " cores")
	held, mismatches := count(r.Held), count(r.Mismatches)
	if r.Unknown {
		held, mismatches = "unknown", "unknown"
	}
	add("locks held", r.Locks > 0, held)
	lost := count(r.Lost)
	if r.Forgotten > 0 {
		lost += fmt.Sprintf(", of these %s with a master whose replica had not heard of them", count(r.Forgotten))
	}
	add("lost", r.Locks > 0 || r.Lost > 0, lost)
	add("not as the server has it", r.Scenario == "hold", mismatches)
	add("behind until renewed", r.Behind > 0, count(r.Behind))
	add("renewals", r.Renewals.Sent+r.Renewals.Failed > 0, fmt.Sprintf("%s sent, %s failed", count(r.Renewals.Sent), count(r.Renewals.Failed)))
	if lag := r.Renewals.LagP99S; lag != nil {
		add("lag when answered, 99 %", true, "at most "+time.Duration(*lag*float64(time.Second)).String())
	}
	add("skipped starts", r.Skipped > 0, count(r.Skipped))
	add("goroutines at most", true, count(r.GoroutinesMax))
	add("errors", len(r.Errors) > 0, meter.FormatErrors(r.Errors))
	add("violations", true, count(r.Violations))
	if c := r.Chaos; c != nil {
		rows = append(rows, c.rows()...)
	}
	if f := r.Failover; f != nil {
		rows = append(rows, f.rows()...)
	}
	if v := r.ScriptCalls; v != nil {
		add("script calls a "+r.unit(), true, fmt.Sprintf("%.4f", *v))
	}
	if c := r.Commands; c != nil {
		add("server commands", true, fmt.Sprintf("evalsha %s, hset %s, copy %s, restore %s, hdel %s, publish %s",
			count(c.Evalsha), count(c.HSet), count(c.Copy), count(c.Restore), count(c.HDel), count(c.Publish)))
	}
	add("server check", r.ServerCheck != "", r.ServerCheck)
	return rows
}

// writeLatency has a row for each operation, or where that is too wide a column.
func (r *Report) writeLatency(w *page) {
	columns := [][]string{{"latency, µs", "p50", "p90", "p99", "p99.9", "max"}}
	for _, of := range []struct {
		name string
		l    *Latency
	}{{"acquire", r.Acquire}, {"release", r.Release}} {
		if l := of.l; l != nil {
			columns = append(columns, []string{of.name, number(l.P50), number(l.P90), number(l.P99), number(l.P999), number(l.Max)})
		}
	}
	turned := make([][]string, len(columns[0]))
	for i := range turned {
		for _, column := range columns {
			turned[i] = append(turned[i], column[i])
		}
	}
	w.figures(matrix(columns), matrix(turned))
}

// matrix fills a table with figures: the first row and the first column are headings.
func matrix(rows [][]string) func(t table.Writer) {
	return func(t table.Writer) {
		var right []table.ColumnConfig
		for i, row := range rows {
			cells := make(table.Row, len(row))
			for j, cell := range row {
				cells[j] = cell
			}
			if i == 0 {
				t.AppendHeader(cells)
			} else {
				t.AppendRow(cells)
			}
		}
		for column := 2; column <= len(rows[0]); column++ {
			right = append(right, table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		t.SetColumnConfigs(right)
	}
}

// narrowest is how many columns a heading of the yardstick's table has at most where there are few.
const narrowest = 14

func (r *Report) writeYardstick(w *page) {
	w.figures(func(t table.Writer) { r.besideYardstick(t, 0) }, func(t table.Writer) { r.besideYardstick(t, narrowest) })
}

func (r *Report) besideYardstick(t table.Writer, most int) {
	y := r.Yardstick
	t.AppendHeader(table.Row{"pairs/s", "yardstick (" + y.Kind + ")", r.Scenario, "ratio"})
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 1, WidthMax: most, WidthMaxEnforcer: text.WrapSoft},
		{Number: 2, Align: text.AlignRight, AlignHeader: text.AlignRight, WidthMax: most, WidthMaxEnforcer: text.WrapSoft},
		{Number: 3, Align: text.AlignRight, AlignHeader: text.AlignRight},
		{Number: 4, Align: text.AlignRight, AlignHeader: text.AlignRight},
	})
	for i, one := range y.Rounds {
		t.AppendRow(table.Row{fmt.Sprintf("round %d", i+1), number(one.Yardstick), number(one.Scenario), ratioText(one.Scenario, one.Yardstick)})
	}
	t.AppendSeparator()
	t.AppendRow(table.Row{"median", number(y.PairsPerS), number(r.PairsPerS), ratioText(r.PairsPerS, y.PairsPerS)})
	if r.ClientCPU != nil {
		t.AppendRow(table.Row{"client CPU a pair, µs", number(y.ClientCPU), number(*r.ClientCPU), ratioText(*r.ClientCPU, y.ClientCPU)})
	}
	if r.ServerCPU != nil && y.ServerCPU != nil {
		t.AppendRow(table.Row{"server CPU a pair, µs", number(*y.ServerCPU), number(*r.ServerCPU), ratioText(*r.ServerCPU, *y.ServerCPU)})
	}
}

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleRounded)
	t.Style().Format.Header = text.FormatDefault
	return t
}

func ratioText(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// number and count are those of package format, which the rows are full of.
func number(v float64) string { return format.Number(v) }

func count(n int64) string { return format.Count(n) }
