package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
)

// Chaos is what was done to the servers, and what it cost the client in script calls.
type Chaos struct {
	Done   map[string]int64 `json:"done"`
	Failed []string         `json:"failed"` // disturbances that did not succeed
	EveryS float64          `json:"every_s"`
	Seed   uint64           `json:"seed"`

	Client *Client `json:"client"` // one was killed

	Quiet *Quiet   `json:"quiet"` // the same load undisturbed, just before
	Calls *float64 `json:"script_calls_to_quiet"`
}

// Quiet is the same load undisturbed.
type Quiet struct {
	PairsPerS   float64 `json:"pairs_per_s"`
	ScriptCalls float64 `json:"script_calls_per_pair"`
}

func (c *Chaos) rows() [][2]string {
	parts := make([]string, 0, len(c.Done))
	for _, kind := range slices.Sorted(maps.Keys(c.Done)) {
		parts = append(parts, fmt.Sprintf("%s %s", kind, count(c.Done[kind])))
	}
	rows := append([][2]string{{"chaos", strings.Join(parts, ", ")}}, c.Client.rows()...)
	if q := c.Quiet; q != nil {
		text := number(q.PairsPerS) + " pairs/s"
		if c.Calls != nil {
			text += fmt.Sprintf(", %.4f script calls a pair; with chaos %.2f times that", q.ScriptCalls, *c.Calls)
		}
		rows = append(rows, [2]string{"undisturbed before", text})
	}
	return rows
}

// Client says what the death of a client did to the others. It is part of the report of --chaos.
type Client struct {
	Killed int64   `json:"killed"`
	Held   int64   `json:"held"` // locks, or permits, that it had when it died
	Gap    float64 `json:"longest_gap_s"`
	Bound  float64 `json:"gap_bound_s"`
	What   string  `json:"-"`
	Judged bool    `json:"judged"` // a longer gap is a failure; not so if servers are disturbed as well
}

func (c *Client) rows() [][2]string {
	if c == nil {
		return nil
	}
	return [][2]string{
		{"client killed", "it had " + format.Plural(int(c.Held), c.What)},
		{"longest gap", fmt.Sprintf("%.2f s without a grant, may be %g s", c.Gap, c.Bound)},
	}
}

// Failover is what became of the locks of the master that --chaos kill killed, in the scenario
// hold. Redis replicates asynchronously, so the replica may not know of some of them: these may be
// lost, if their holders are told in time. All others may not.
type Failover struct {
	Master        string  `json:"master"`
	Locks         int64   `json:"locks"` // held there when it died
	ReplacedAfter float64 `json:"replaced_after_s"`
	Lost          int64   `json:"lost"`           // of them
	LostElsewhere int64   `json:"lost_elsewhere"` // on masters that lived
	ToldLate      int64   `json:"told_late"`      // believed in beyond their deadline
	Relocked      int64   `json:"relocked"`       // of all its names, taken again at the end
	NotRelocked   int64   `json:"not_relocked"`

	Problem error `json:"-"` // of the first that could not be locked again
}

// AddTo adds f to r, with what of it is a failure; nil: no master died.
func (f *Failover) AddTo(r *Report) {
	if f == nil {
		return
	}
	r.Failover = f
	if f.ReplacedAfter == 0 {
		r.Fail("nobody took over from %s", f.Master)
	}
	if f.ToldLate > 0 {
		r.Fail("%d locks of %s were believed in beyond their deadline", f.ToldLate, f.Master)
	}
	if f.NotRelocked > 0 {
		r.Fail("%d names of %s could not be locked again: %v", f.NotRelocked, f.Master, f.Problem)
	}
}

func (f *Failover) rows() [][2]string {
	return [][2]string{
		{"killed", fmt.Sprintf("%s with %s locks, replaced after %.1f s", f.Master, count(f.Locks), f.ReplacedAfter)},
		{"lost with it", fmt.Sprintf("%s, told late %s; on others %s", count(f.Lost), count(f.ToldLate), count(f.LostElsewhere))},
		{"its names", fmt.Sprintf("%s locked again, %s not", count(f.Relocked), count(f.NotRelocked))},
	}
}

// AddLeft notes that n locks have a key though everybody has released them.
func (r *Report) AddLeft(n int64) {
	if n > 0 {
		r.Fail("%d locks are still on the server after their release", n)
	}
}
