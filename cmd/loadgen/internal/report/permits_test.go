package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatOfThePermitsIsJudged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		seen   Permits
		status int
		says   string
	}{
		{"All", Permits{Free: 8}, StatusOK, ""},
		{"OneMissing", Permits{Free: 7}, StatusFailed, "1 of 8 permits are missing: 7 are free, and killed clients had 0"},
		{"Gone", Permits{Gone: true}, StatusFailed, "8 of 8 permits are missing: the server knows of no semaphore"},
		{"OneTooMany", Permits{Free: 9}, StatusFailed, "1 permits too many: 9 of 8 are free"},
		{"TheDeadHadThree", Permits{Free: 5, KilledHeld: 3}, StatusOK, ""},
		{"TheDeadHadThreeAndOneIsMissing", Permits{Free: 4, KilledHeld: 3}, StatusFailed, "1 of 8 permits are missing"},
		{"WhatTheDeadHadIsFree", Permits{Free: 6, KilledHeld: 3}, StatusFailed, "1 permits too many"},
		{"TheDeadMayHaveHadTwoMore", Permits{Free: 3, KilledHeld: 3, KilledUnsettled: 2}, StatusOK, ""},
		{"TheDeadCannotHaveHadThreeMore", Permits{Free: 2, KilledHeld: 3, KilledUnsettled: 2}, StatusFailed, "1 of 8 permits are missing"},
		{"TheDeadHadThreeUnderLeases", Permits{Free: 8, KilledHeld: 3, KilledUnsettled: 1, Leased: true}, StatusOK, ""},
		{"LeasesOfTheDeadDoNotEnd", Permits{Free: 5, KilledHeld: 3, Leased: true}, StatusFailed, "3 of 8 permits are missing: 5 are free"},
		{"LostWhileHeld", Permits{Free: 8, Leased: true, Lost: 2}, StatusFailed, "2 leases of permits were over while they were held"},
		{"FreeForTooLong", Permits{Free: 8, Idle: 2.5}, StatusFailed, "permits were free for 2.50 s while a caller waited"},
		{"FreeForAWhile", Permits{Free: 8, Idle: 1.9}, StatusOK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, judged := range []bool{true, false} {
				p, r := tc.seen, &Report{}
				p.Permits, p.Bound, p.Judged = 8, 2, judged
				p.AddTo(r, tc.seen.Free)
				r.Settle()
				if !judged { // a replica took over
					require.Equal(t, StatusOK, r.Status)
					continue
				}
				require.Equal(t, tc.status, r.Status, r.Failures)
				require.Contains(t, strings.Join(r.Failures, "\n"), tc.says)
			}
		})
	}
}
