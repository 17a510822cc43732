package report

import (
	"fmt"
	"slices"
)

// FairnessOf is the least and the most of how often each was served; nil for nobody.
func FairnessOf(served []int64) *Fairness {
	if len(served) == 0 {
		return nil
	}
	return &Fairness{Min: float64(slices.Min(served)), Max: float64(slices.Max(served))}
}

// Fairness is how often the least and the most served was; for scenarios in which holders
// compete.
type Fairness struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Contend is what only the scenario contend has to say. It lies flat in the report.
type Contend struct {
	HoldS       float64 `json:"hold_s"`
	Grants      int64   `json:"grants"`
	GrantsPerS  float64 `json:"grants_per_s"` // the median round
	LongestWait float64 `json:"longest_wait_us"`

	// What brought the grants, by the engines' own count. A wake-up that found the lock taken
	// again is among the messages and polls all the same.
	ByHandOff   int64 `json:"grants_by_handoff"`
	ByMessage   int64 `json:"grants_by_message"`
	ByPoll      int64 `json:"grants_by_poll"`
	BySubscribe int64 `json:"grants_by_subscribe"`
	ByReconnect int64 `json:"grants_by_reconnect"`

	FairnessEngines *Fairness `json:"fairness_engines"`

	Tokens *Tokens `json:"tokens"` // scenario fenced
	Order  *Order  `json:"order"`  // scenario fair
	RW     *RW     `json:"rw"`     // scenario rw
	Multi  *Multi  `json:"multi"`  // scenario multi

	Permits *Permits `json:"permits"` // scenarios semaphore, permits

	Latch *Latch `json:"latch"` // scenario latch

	Mutex        *Mutex   `json:"mutex"` // --mutex
	RatioToMutex *float64 `json:"ratio_to_mutex"`

	Witness           *Witness           `json:"witness"` // --witness
	FairnessProcesses *ProcessesFairness `json:"fairness_processes"`
}

// handedOff says of what hand-offs are, where they are not of grants.
func (c *Contend) handedOff() string {
	if c.Multi != nil {
		return " of single locks"
	}
	return ""
}

// rows are the lines of the table.
func (c *Contend) rows(f *Fairness) [][2]string {
	rows := [][2]string{
		{"grants/s", number(c.GrantsPerS)},
		{"grants", fmt.Sprintf("%s: hand-off %s%s; wake-ups by message %s, by poll %s",
			count(c.Grants), count(c.ByHandOff), c.handedOff(), count(c.ByMessage), count(c.ByPoll))},
		{"longest wait", number(c.LongestWait/1e3) + " ms"},
	}
	rows = append(rows, c.Tokens.rows()...)
	rows = append(rows, c.Order.rows()...)
	rows = append(rows, c.RW.rows()...)
	rows = append(rows, c.Permits.rows()...)
	rows = append(rows, c.Multi.rows()...)
	rows = append(rows, c.Latch.rows()...)
	if f != nil {
		rows = append(rows, [2]string{"grants a caller", f.text()})
	}
	if e := c.FairnessEngines; e != nil && e.Min != e.Max {
		rows = append(rows, [2]string{"grants an engine", e.text()})
	}
	if c.RatioToMutex != nil {
		rows = append(rows, [2]string{"beside a mutex", fmt.Sprintf("%.3f of its %s grants/s", *c.RatioToMutex, number(c.Mutex.GrantsPerS))})
	}
	if w := c.Witness; w != nil {
		rows = append(rows, w.rows(c.FairnessProcesses)...)
	}
	return rows
}

func (f *Fairness) text() string {
	return fmt.Sprintf("%s to %s", number(f.Min), number(f.Max))
}

// Order is how far the order was kept. It is part of the report of the scenario fair.
type Order struct {
	Looks      int64 `json:"looks"`        // at the server's queues
	Followed   int64 `json:"followed"`     // grants of callers that were seen there
	OutOfOrder int64 `json:"out_of_order"` // of those, after one who stood behind them
	LostPlace  int64 `json:"lost_place"`   // seen behind somebody they stood before

	Overtaken  float64 `json:"overtaken_us"` // the most that somebody asked earlier than one served before
	Bound      float64 `json:"overtaken_bound_us"`
	AskedLater int64   `json:"overtaken_beyond"` // grants that were overtaken by more than the bound
	Judged     string  `json:"judged"`           // what of all this is a failure
}

func (o *Order) rows() [][2]string {
	if o == nil {
		return nil
	}
	return [][2]string{
		{"order in the queue", fmt.Sprintf("%s grants followed in %s looks: %s out of order, %s lost their place",
			count(o.Followed), count(o.Looks), count(o.OutOfOrder), count(o.LostPlace))},
		{"order of asking", fmt.Sprintf("at most %s ms overtaken, %s by more than %g s", number(o.Overtaken/1e3), count(o.AskedLater), o.Bound/1e6)},
		{"of the order is judged", o.Judged},
	}
}

// Tokens is what the tokens showed. It is part of the report of the scenario fenced.
type Tokens struct {
	Checked   int64 `json:"checked"`
	NotRising int64 `json:"not_rising"`
}

func (t *Tokens) rows() [][2]string {
	if t == nil {
		return nil
	}
	return [][2]string{{"tokens", fmt.Sprintf("%s, the warm-up's too, each compared with the one before of its name: %s did not rise", count(t.Checked), count(t.NotRising))}}
}

// Multi is what callers had that take several locks at once. It is part of the report of the scenario multi.
type Multi struct {
	Names  int   `json:"names"`  // of each turn
	Grants int64 `json:"grants"` // of all of them
	Torn   int64 `json:"torn"`   // not of all of them
}

func (m *Multi) rows() [][2]string {
	if m == nil {
		return nil
	}
	return [][2]string{{"locks at once", fmt.Sprintf("%d a turn, %s grants: %s were not of all of them", m.Names, count(m.Grants), count(m.Torn))}}
}

// RW is what readers and writers had. It is part of the report of the scenario rw.
type RW struct {
	ReadShare   float64  `json:"read_share"` // of the turns, as asked for
	Reads       int64    `json:"reads"`
	Writes      int64    `json:"writes"`
	ReadsPerS   float64  `json:"reads_per_s"`
	WritesPerS  float64  `json:"writes_per_s"`
	ReadWait    *Latency `json:"read_wait_us"`
	WriteWait   *Latency `json:"write_wait_us"`
	MostReaders int64    `json:"most_readers"` // of one name at once
}

func (w *RW) rows() [][2]string {
	if w == nil {
		return nil
	}
	longest := func(l *Latency) string {
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
