package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// What is wrong and nothing else, so that no other failure covers it.
func TestEachThingThatIsWrongIsEnough(t *testing.T) {
	empty := func() *report { return &report{Errors: map[string]int64{}, Failures: []string{}} }
	hold := func(change func(s *holdScenario)) func(*testing.T, *report) {
		return func(t *testing.T, r *report) {
			t.Helper()
			s := &holdScenario{stage: stage{cfg: &config{locks: 3}}, rec: newRecorder()}
			s.held = newHeldLocks(s.cfg, nil)
			change(s)
			require.NoError(t, s.finish(t.Context(), r))
		}
	}
	for name, c := range map[string]struct {
		what   func(t *testing.T, r *report)
		status int
		says   string
	}{
		"Nothing":    {func(*testing.T, *report) {}, statusOK, ""},
		"LostLeases": {func(_ *testing.T, r *report) { r.Lost = 1 }, statusFailed, "1 leases were lost"},
		"Errors": {func(_ *testing.T, r *report) {
			rec := newRecorder()
			rec.acquired(1)
			rec.freed(1)
			rec.failed(errors.New("something"))
			r.addRounds(&config{checkServer: "off"}, []round{{rec: rec, cost: cost{wall: time.Second}}})
		}, statusFailed, "1 operations failed"},
		"NotOnePair": {func(_ *testing.T, r *report) {
			r.addRounds(&config{checkServer: "off"}, []round{{rec: newRecorder(), cost: cost{wall: time.Second}}})
		}, statusFailed, "not one pair"},
		"FailedDisturbance": {func(_ *testing.T, r *report) {
			c := &chaos{cfg: &config{}, done: map[string]int64{"slots": 1}, failed: []string{"slots: no"}}
			c.addTo(r, nil)
		}, statusFailed, "chaos slots: no"},
		"NothingDisturbed": {func(_ *testing.T, r *report) {
			(&chaos{cfg: &config{}, done: map[string]int64{}}).addTo(r, nil)
		}, statusFailed, "nothing was disturbed"},
		"LostOnMastersThatLived": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2, LostElsewhere: 1}).addTo(r)
			r.Lost = 3
		}, statusFailed, "1 leases were lost"},
		"LostOnTheMasterThatDied": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2}).addTo(r)
			r.Lost = 2
		}, statusOK, ""},
		"ToldLate": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, ToldLate: 1}).addTo(r)
		}, statusFailed, "believed in beyond their deadline"},
		"NotRelocked": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, NotRelocked: 1, problem: errors.New("no")}).addTo(r)
		}, statusFailed, "no"},
		"NobodyTookOver": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", Locks: 5}).addTo(r)
		}, statusFailed, "nobody took over"},
		"HoldMismatch": {hold(func(s *holdScenario) { s.beliefs.mismatches, s.beliefs.told = 1, []string{"so"} }), statusFailed, "1 of 3 locks are not"},
		"HoldLeftover": {hold(func(s *holdScenario) { s.left = 1 }), statusFailed, "1 locks are still on the server"},
		"HoldViolation": {hold(func(s *holdScenario) {
			s.held.ledger.take(0, 1)
			s.held.ledger.take(0, 2)
		}), statusViolation, "exclusion was violated 1 times"},
		"HoldLost": {hold(func(s *holdScenario) { s.beliefs.lost = 1 }), statusFailed, "1 leases were lost"},
		"ContendViolation": {func(t *testing.T, r *report) {
			s := newContendScenario(stage{cfg: &config{keys: 1, clients: 1, chaos: []string{chaosPause}}}).(*contendScenario)
			s.engines, s.contest = make([]*engine.Engine, 1), newContest(s.cfg, make([]lock, 1), func(int) string { return "k" })
			s.served = []int64{0}
			s.contest.ledger.take(0, 1)
			s.contest.ledger.take(0, 2)
			require.NoError(t, s.finish(t.Context(), r))
		}, statusViolation, "exclusion was violated 1 times"},
	} {
		t.Run(name, func(t *testing.T) {
			r := empty()
			c.what(t, r)
			r.settle()
			require.Equal(t, c.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), c.says)
		})
	}
}

// A violation that another process saw is one of this run, too, and so is a process that died.
func TestWhatIsWrongElsewhereIsWrongHere(t *testing.T) {
	w, err := witness.Open(filepath.Join(t.TempDir(), "w"), witness.Options{Keys: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Leave()) })
	for _, c := range []struct {
		of     witnessProcess
		kills  []string
		status int
	}{
		{witnessProcess{}, nil, statusOK},
		{witnessProcess{Violations: 1}, nil, statusViolation},
		{witnessProcess{Gone: true}, nil, statusFailed},
		{witnessProcess{Gone: true}, []string{"client"}, statusOK},
	} {
		b := &bystander{cfg: &config{chaos: c.kills}, w: w}
		r, out := &report{Errors: map[string]int64{}}, &witnessReport{}
		out.add(c.of)
		b.blame(r, out)
		r.settle()
		require.Equal(t, c.status, r.Status, "%+v: %v", c, r.Failures)
	}
}

// A holder is told late if its deadline has passed and its lease does not say so.
func TestNoteLate(t *testing.T) {
	past, coming := time.Now().Add(-time.Second), time.Now().Add(time.Minute)
	for _, c := range []struct {
		lease believerOf
		late  bool
	}{
		{believerOf{coming, false}, false},
		{believerOf{past, true}, false},
		{believerOf{past, false}, true},
	} {
		late := make(map[int]bool)
		noteLate(late, 7, c.lease)
		require.Equal(t, c.late, late[7], c)
	}
}

type believerOf struct {
	deadline time.Time
	lost     bool
}

func (believerOf) OwnerID() string       { return "me" }
func (b believerOf) Deadline() time.Time { return b.deadline }
func (b believerOf) Lost() bool          { return b.lost }
