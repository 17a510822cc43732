package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatOfALatchIsJudged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		seen   Latch
		status int
		says   string
	}{
		{"All", Latch{Last: 1.9, Bound: 2, Judged: true}, StatusOK, ""},
		{"Early", Latch{Early: 2, Judged: true}, StatusViolation, "2 callers were let in before the last count was begun"},
		{"Late", Latch{Late: 3, Bound: 2, Judged: true}, StatusFailed, "3 callers still waited 2 s after their latch was opened"},
		{"ACountIsMissing", Latch{KilledMissing: 1, Judged: true}, StatusFailed, "1 counts of the client that was killed are missing"},
		{"ACountTooMany", Latch{KilledMissing: -2, Judged: true}, StatusFailed, "counted down 2 times too often"},
		{"AReplicaTookOver", Latch{Early: 2, Late: 3, KilledMissing: 1, Bound: 2}, StatusOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &Report{Contend: &Contend{}}
			tc.seen.AddTo(r)
			r.Settle()
			require.Equal(t, tc.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), tc.says)
		})
	}
}
