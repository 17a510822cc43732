package report

import (
	"fmt"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
)

// Permits is what became of the permits. It is part of the report of the scenarios semaphore and permits.
type Permits struct {
	Permits int   `json:"permits"`
	Take    int   `json:"take"`    // the most of one turn
	Most    int64 `json:"most"`    // held at once by this process
	Told    bool  `json:"told"`    // the server has said how many are free; else free and missing say nothing
	Free    int64 `json:"free"`    // on the server, when everybody had released
	Missing int64 `json:"missing"` // of those that should have been free; below 0: too many
	Gone    bool  `json:"gone"`    // the server knew of no semaphore any more
	Judged  bool  `json:"judged"`  // a replica that took over may not know of the last ones

	Leased bool  `json:"leased"`
	Lost   int64 `json:"lost_held"` // leases that were over while their holder had not given them back

	// Nobody gives back what a client had that was killed: it is not expected to be free, unless it was leased.
	KilledHeld      int64 `json:"killed_held"`
	KilledUnsettled int64 `json:"killed_unsettled"` // that it was about to get or to give back: they may be either

	Idle  float64 `json:"idle_s"` // the longest that enough were free and a caller waited all the same
	Bound float64 `json:"idle_bound_s"`
}

// AddOverdrawn adds what the count of permits caught.
func (r *Report) AddOverdrawn(p *meter.Permits) {
	n := p.Violations.Load()
	r.Violations += n
	if n > 0 {
		r.Fail("more permits were held than there are, %d times", n)
		r.Failures = append(r.Failures, p.Told()...)
	}
}

// AddTo adds p to r, with what of it is a failure: the server has said how many are free.
func (p *Permits) AddTo(r *Report, free int64) {
	p.Told, p.Free = true, free
	want, least := p.expected()
	switch {
	case p.Free > want:
		p.Missing = want - p.Free
	case p.Free < least:
		p.Missing = least - p.Free
	}
	if !p.Judged {
		return
	}
	switch {
	case p.Missing > 0 && p.Gone:
		r.Fail("%d of %d permits are missing: the server knows of no semaphore; it has lost its data, or somebody has deleted it",
			p.Missing, p.Permits)
	case p.Missing > 0:
		r.Fail("%d of %d permits are missing: %d are free, and killed clients had %d", p.Missing, p.Permits, p.Free, p.KilledHeld)
	case p.Missing < 0:
		r.Fail("%d permits too many: %d of %d are free, and killed clients had %d", -p.Missing, p.Free, p.Permits, p.KilledHeld)
	}
	if p.Lost > 0 {
		r.Fail("%d leases of permits were over while they were held", p.Lost)
	}
	if p.Idle > p.Bound {
		r.Fail("permits were free for %.2f s while a caller waited: more than %g s", p.Idle, p.Bound)
	}
}

// expected is how many are to be free at the end: so many, and no fewer than least.
func (p *Permits) expected() (want, least int64) {
	want = int64(p.Permits)
	if p.Leased {
		return want, want
	}
	want -= p.KilledHeld
	return want, want - p.KilledUnsettled
}

func (p *Permits) rows() [][2]string {
	if p == nil {
		return nil
	}
	free := "unknown"
	if p.Told {
		free = fmt.Sprintf("%s, missing %s", count(p.Free), count(p.Missing))
	}
	rows := [][2]string{
		{"permits", fmt.Sprintf("%s, up to %s a turn; at most %s held at once here", count(int64(p.Permits)), count(int64(p.Take)), count(p.Most))},
		{"free at the end", free},
		{"free beside a waiter", fmt.Sprintf("%.2f s at most, may be %g s", p.Idle, p.Bound)},
	}
	if p.Leased {
		rows = append(rows, [2]string{"lost while held", count(p.Lost)})
	}
	if p.KilledHeld+p.KilledUnsettled > 0 {
		rows = append(rows, [2]string{"killed client", fmt.Sprintf("it had %s, and up to %s more", count(p.KilledHeld), count(p.KilledUnsettled))})
	}
	return rows
}
