package report

import "fmt"

// Latch is what became of those who waited for latches. It is part of the report of the scenario latch.
type Latch struct {
	Count  int     `json:"count"`
	Rounds int64   `json:"rounds"`  // openings
	Early  int64   `json:"early"`   // callers that were let in before the last count was begun
	Late   int64   `json:"late"`    // that were not let in within the bound
	Last   float64 `json:"last_s"`  // the longest from an opening until the last caller was in
	Bound  float64 `json:"bound_s"` // for that
	// A client that was killed counted down a latch of its own. Missing: of its counts, as far as it knew of them;
	// negative: so many more than it asked for.
	KilledCounted int64 `json:"killed_counted"`
	KilledMissing int64 `json:"killed_missing"`

	Judged bool `json:"judged"` // a replica that took over may not know of the last counts
}

// AddTo adds l to r, with what of it is a failure.
func (l *Latch) AddTo(r *Report) {
	r.Latch = l
	if !l.Judged {
		return
	}
	if l.Early > 0 {
		r.Violations += l.Early
		r.Fail("%d callers were let in before the last count was begun", l.Early)
	}
	if l.Late > 0 {
		r.Fail("%d callers still waited %g s after their latch was opened", l.Late, l.Bound)
	}
	switch {
	case l.KilledMissing > 0:
		r.Fail("%d counts of the client that was killed are missing", l.KilledMissing)
	case l.KilledMissing < 0:
		r.Fail("the latch of the client that was killed was counted down %d times too often", -l.KilledMissing)
	}
}

func (l *Latch) killedRows() [][2]string {
	if l.KilledCounted == 0 {
		return nil
	}
	return [][2]string{{"counts of the killed", fmt.Sprintf("%s, missing %d", count(l.KilledCounted), l.KilledMissing)}}
}

func (l *Latch) rows() [][2]string {
	if l == nil {
		return nil
	}
	rows := [][2]string{
		{"latches", fmt.Sprintf("%s opened by %d counts each", count(l.Rounds), l.Count)},
		{"let in early, late", fmt.Sprintf("%s, %s", count(l.Early), count(l.Late))},
		{"in after the opening", fmt.Sprintf("%.3f s at most, may be %g s", l.Last, l.Bound)},
	}
	return append(rows, l.killedRows()...)
}
