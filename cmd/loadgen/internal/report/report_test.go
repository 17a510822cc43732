package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// What is wrong and nothing else, so that no other failure covers it.
func TestEachThingThatIsWrongIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		what   func(t *testing.T, r *Report)
		status int
		says   string
	}{
		"Nothing":    {func(*testing.T, *Report) {}, StatusOK, ""},
		"LostLeases": {func(_ *testing.T, r *Report) { r.Lost = 1 }, StatusFailed, "1 leases were lost"},
		"Errors": {func(_ *testing.T, r *Report) {
			rec := meter.NewRecorder()
			rec.Acquired(1)
			rec.Freed(1)
			rec.Failed(errors.New("something"))
			r.AddRounds(&config.Config{CheckServer: "off"}, []Round{{Rec: rec, Cost: meter.Cost{Wall: time.Second}}})
		}, StatusFailed, "1 operations failed"},
		"ARateThatWasNotReached": {func(_ *testing.T, r *Report) {
			r.AddRounds(openLoop(11))
		}, StatusFailed, "--rate asks for 500 pairs a second and 495 a second were begun: 11 starts (1.10 %) were due and not made"},
		"ARateThatWasAlmostReached": {func(_ *testing.T, r *Report) { r.AddRounds(openLoop(10)) }, StatusOK, ""},
		"ARateBelowTheDisturbed": {func(_ *testing.T, r *Report) {
			cfg, rounds := openLoop(500)
			cfg.Chaos = []string{config.ChaosPause}
			r.AddRounds(cfg, rounds)
		}, StatusOK, ""},
		"LostInAFailoverOfSentinels": {func(_ *testing.T, r *Report) {
			r.AddRounds(losing(&config.Config{Sentinel: true, Chaos: []string{config.ChaosFailover}}))
		}, StatusOK, ""},
		"LostInAFailoverOfACluster": {func(_ *testing.T, r *Report) {
			r.AddRounds(losing(&config.Config{Chaos: []string{config.ChaosFailover}}))
		}, StatusFailed, "1 leases were lost"},
		"Leftover": {func(_ *testing.T, r *Report) { r.AddLeft(1) }, StatusFailed, "1 locks are still on the server"},
		"NotOnePair": {func(_ *testing.T, r *Report) {
			r.AddRounds(&config.Config{CheckServer: "off"}, []Round{{Rec: meter.NewRecorder(), Cost: meter.Cost{Wall: time.Second}}})
		}, StatusFailed, "not one pair"},
		"InterruptedTooSoon": {func(_ *testing.T, r *Report) {
			r.Interrupted = true
			r.AddRounds(&config.Config{CheckServer: "off"}, []Round{{Rec: meter.NewRecorder(), Cost: meter.Cost{Wall: time.Second}}})
		}, StatusInterrupted, "interrupted before one pair"},
		"InterruptedTooSoonAndWrong": {func(_ *testing.T, r *Report) {
			r.Interrupted = true
			r.AddRounds(&config.Config{CheckServer: "off"}, []Round{{Rec: meter.NewRecorder(), Cost: meter.Cost{Wall: time.Second}}})
			r.AddLeft(1)
		}, StatusFailed, "1 locks are still on the server"},
		"LostOnMastersThatLived": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2, LostElsewhere: 1}).AddTo(r)
			r.Lost = 3
		}, StatusFailed, "1 leases were lost"},
		"LostOnTheMasterThatDied": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2}).AddTo(r)
			r.Lost = 2
		}, StatusOK, ""},
		"LostForTheyLastedTooShort": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 3.3, Locks: 5, Lost: 2}).AddTo(r)
			r.Lost, r.lease = 2, 3*time.Second
		}, StatusFailed, "2 leases were lost: they last 3s, of which a third may be over when the master dies, and it was replaced after 3.3 s"},
		"LostThoughTheyLastedLongEnough": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 3.3, Locks: 5, Lost: 2}).AddTo(r)
			r.Lost, r.lease = 2, 6*time.Second
		}, StatusOK, ""},
		"ToldLate": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 1, Locks: 5, ToldLate: 1}).AddTo(r)
		}, StatusFailed, "believed in beyond their deadline"},
		"NotRelocked": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", ReplacedAfter: 1, Locks: 5, NotRelocked: 1, Problem: errors.New("no")}).AddTo(r)
		}, StatusFailed, "no"},
		"NobodyTookOver": {func(_ *testing.T, r *Report) {
			(&Failover{Master: "m", Locks: 5}).AddTo(r)
		}, StatusFailed, "nobody took over"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{Errors: map[string]int64{}, Failures: []string{}}
			c.what(t, r)
			r.Settle()
			require.Equal(t, c.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), c.says)
		})
	}
}

// openLoop is two seconds at 500 a second of which so many starts were skipped.
func openLoop(skipped int64) (*config.Config, []Round) {
	rec := meter.NewRecorder()
	rec.Acquired(1)
	rec.Freed(1)
	cfg := &config.Config{CheckServer: "off", Rate: 500, Duration: 2 * time.Second}
	return cfg, []Round{{Rec: rec, Cost: meter.Cost{Wall: cfg.Duration}, Skipped: skipped}}
}

// losing is a round in which one lease is lost.
func losing(cfg *config.Config) (*config.Config, []Round) {
	_, rounds := openLoop(0)
	rounds[0].Rec.Failed(engine.ErrLost)
	cfg.CheckServer = "off"
	return cfg, rounds
}

func TestJudge(t *testing.T) {
	pairs := func(n int64) *meter.Recorder {
		rec := meter.NewRecorder()
		rec.Granted, rec.Released = n, n
		return rec
	}
	failing := pairs(10)
	failing.Failed(errors.New("something"))
	did := func(hset, copies, hdel, publish int64) topology.Snapshot {
		return topology.Snapshot{Known: true, Alone: true, Commands: topology.Commands{HSet: hset, Copy: copies, HDel: hdel, Publish: publish}}
	}
	before := topology.Snapshot{Known: true, Alone: true}
	for _, tc := range []struct {
		name     string
		mode     string
		after    topology.Snapshot
		rec      *meter.Recorder
		failures int
		ghosts   int
		note     string
		handed   int64
	}{
		{"Agrees", "auto", did(3, 7, 10, 10), pairs(10), 0, 0, "agrees", 0},
		{"AGrantWithoutACommandIsAGhost", "auto", did(3, 6, 10, 10), pairs(10), 0, 1, "", 0},
		{"OneAcquireTooMany", "auto", did(4, 7, 10, 10), pairs(10), 1, 0, "", 0},
		{"AReleaseMissing", "auto", did(3, 7, 9, 9), pairs(10), 2, 0, "", 0},
		{"AMessageMissing", "on", did(3, 7, 10, 9), pairs(10), 1, 0, "", 0},
		{"MoreIsAllowedAfterErrors", "auto", did(5, 7, 12, 11), failing, 0, 0, "repeats allowed for", 0},
		{"LessIsNotEvenAfterErrors", "auto", did(1, 7, 9, 10), failing, 1, 1, "", 0},
		{"NoCounters", "on", topology.Snapshot{}, pairs(10), 0, 0, "not available", 0},
		{"Off", "off", did(0, 0, 0, 0), pairs(10), 0, 0, "off", 0},
		{"SomebodyElseIsConnected", "auto", topology.Snapshot{Known: true}, pairs(10), 0, 0, "shared server", 0},
		{"SomebodyElseButAskedFor", "on", topology.Snapshot{Known: true}, pairs(10), 2, 1, "", 0},
		{"WhatWasHandedOverTheServerDidNotSee", "auto", did(1, 2, 3, 3), pairs(10), 0, 0, "not handed over", 7},
		{"AGhostBesideHandOffs", "auto", did(1, 1, 3, 3), pairs(10), 0, 1, "", 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := judge(tc.mode, Round{Before: before, After: tc.after, Rec: tc.rec, HandedOver: tc.handed})
			require.Len(t, v.failures, tc.failures, v.failures)
			require.Len(t, v.ghosts, tc.ghosts, v.ghosts)
			require.Contains(t, v.note, tc.note)
		})
	}
}

// A server that was started anew, or whose counters were reset, counts from 0: that says nothing of any grant.
func TestCountersThatBeginAgainAreNotCompared(t *testing.T) {
	rec := meter.NewRecorder()
	rec.Granted, rec.Released = 10, 10
	had := topology.Snapshot{Known: true, Alone: true, Runs: "a b", Commands: topology.Commands{HSet: 20, HDel: 20, Publish: 20}, Marks: 2, Readings: 2}
	good := had
	good.Commands, good.Marks = topology.Commands{HSet: 30, HDel: 30, Publish: 30}, 4
	require.Equal(t, "agrees", judge("auto", Round{Before: had, After: good, Rec: rec}).note[:6])
	for _, c := range []struct {
		why    string
		change func(before, after *topology.Snapshot)
	}{
		{"started anew", func(_, after *topology.Snapshot) { after.Runs = "a c" }},
		{"reset", func(before, after *topology.Snapshot) { // it may not be asked for what would mark the reading
			before.Marks, after.Marks = 0, 0
			after.Commands = topology.Commands{HSet: 25, HDel: 19, Publish: 25}
		}},
		{"reset", func(_, after *topology.Snapshot) { after.Marks = 3 }}, // of one of them, and it has counted more since
	} {
		why, had, after := c.why, had, good
		c.change(&had, &after)
		v := judge("auto", Round{Before: had, After: after, Rec: rec})
		require.Empty(t, v.failures)
		require.Empty(t, v.ghosts)
		require.Contains(t, v.note, why)
		v = judge("on", Round{Before: had, After: after, Rec: rec})
		require.Len(t, v.failures, 1, "it was asked for")
		require.Contains(t, v.failures[0], why)
		require.Empty(t, v.ghosts)
		// Nor do they say what a pair took.
		var r Report
		r.AddRounds(&config.Config{CheckServer: "auto", Duration: time.Second}, []Round{{Before: had, After: after, Rec: rec, Cost: meter.Cost{Wall: time.Second}}})
		require.Nil(t, r.Commands)
		require.Nil(t, r.ScriptCalls)
	}
}

// A server that is gone has no figures: "unknown" stands where else would be a 0.
func TestAServerThatIsGoneHasNoFigures(t *testing.T) {
	rec := meter.NewRecorder()
	v := judge("auto", Round{Before: topology.Snapshot{Known: true, Alone: true}, After: topology.Snapshot{Silent: true}, Rec: rec})
	require.Equal(t, "not available (the server gave no answers any more)", v.note)
	r := Report{Scenario: "hold", Locks: 10, Unknown: true, Contend: &Contend{Permits: &Permits{Permits: 8}}}
	rows := fmt.Sprint(r.rows())
	for _, row := range []string{"[locks held unknown]", "[not as the server has it unknown]", "[free at the end unknown]"} {
		require.Contains(t, rows, row)
	}
	r.Unknown = false
	r.Contend.Permits.AddTo(&r, 8)
	rows = fmt.Sprint(r.rows())
	for _, row := range []string{"[locks held 0]", "[not as the server has it 0]", "[free at the end 8, missing 0]"} {
		require.Contains(t, rows, row)
	}
}

// What had no answer is sent again over a new connection, and may run twice.
func TestRepeatsAreAllowedForAfterAReconnect(t *testing.T) {
	rec := meter.NewRecorder()
	rec.Granted, rec.Released = 10, 10
	before := topology.Snapshot{Known: true, Alone: true}
	after := before
	after.Commands = topology.Commands{HSet: 11, HDel: 12, Publish: 11}
	require.Len(t, judge("auto", Round{Before: before, After: after, Rec: rec}).failures, 3)
	v := judge("auto", Round{Before: before, After: after, Rec: rec, Reconnected: true})
	require.Empty(t, v.failures)
	require.Contains(t, v.note, "repeats allowed for")
	after.Commands.HSet = 9
	require.Len(t, judge("auto", Round{Before: before, After: after, Rec: rec, Reconnected: true}).ghosts, 1, "less is never right")
}

// Sentinels greet each other over the master: three of them, and where it answers late 61 times in three seconds at most.
func TestGreetingsOfSentinelsAreNoReleases(t *testing.T) {
	rec := meter.NewRecorder()
	rec.Granted, rec.Released = 10, 10
	began := time.Now()
	for greeted, failures := range map[int64]int{-1: 1, 0: 0, 183: 0, 184: 1} {
		before := topology.Snapshot{Known: true, Alone: true, Began: began, Ended: began.Add(time.Second), Greeters: 3}
		after := topology.Snapshot{Known: true, Alone: true, Began: began.Add(time.Second), Ended: began.Add(3 * time.Second), Greeters: 3}
		after.Commands = topology.Commands{HSet: 10, HDel: 10, Publish: 10 + greeted}
		require.Len(t, judge("auto", Round{Before: before, After: after, Rec: rec}).failures, failures, "%d", greeted)
	}
}

// Of plain and fenced locks those are published that somebody listens to: none, or all; of others all.
func TestReleasesThatNobodyHearsNeedNoMessage(t *testing.T) {
	rec := meter.NewRecorder()
	rec.Granted, rec.Released = 10, 10
	for kind, failures := range map[string][3]int{"lock": {0, 0, 1}, "fenced": {0, 0, 1}, "read": {1, 0, 1}, "write": {1, 0, 1}, "spin": {0, 1, 1}} {
		for i, published := range []int64{0, 10, 11} {
			after := topology.Snapshot{Known: true, Alone: true, Commands: topology.Commands{HSet: 10, HDel: 10, Publish: published}}
			v := judge("auto", Round{Before: topology.Snapshot{Known: true, Alone: true}, After: after, Rec: rec, Kind: kind})
			require.Len(t, v.failures, failures[i], "%s, %d", kind, published)
		}
	}
}

func TestACopyThatFoundItsKeyTakenIsNoGrant(t *testing.T) {
	rec := meter.NewRecorder()
	rec.Granted, rec.Released = 10, 10
	after := topology.Snapshot{Known: true, Alone: true, Commands: topology.Commands{HSet: 8, Copy: 4, HDel: 10, Publish: 10}}
	r := Round{Before: topology.Snapshot{Known: true, Alone: true}, After: after, Rec: rec, Contended: true}
	require.Empty(t, judge("auto", r).failures)
	r.Contended = false
	require.Len(t, judge("auto", r).failures, 1)
}

func TestGhostsAreAViolation(t *testing.T) {
	r := &Report{Errors: map[string]int64{}}
	r.addVerdict(verdict{ghosts: []string{"one"}}, Round{})
	r.Settle()
	require.Equal(t, StatusViolation, r.Status)
}

func TestMedian(t *testing.T) {
	require.Nil(t, Median(nil))
	require.InDelta(t, 2.5, *Median([]float64{4, 1, 3, 2}), 0)
}

func TestWhatWasMeasuredForLongerThanAskedForSaysWhy(t *testing.T) {
	for asked, want := range map[time.Duration]string{
		3 * time.Second: "23.50 s: 20.50 s more than asked for, until all that was begun was over", 23400 * time.Millisecond: "23.50 s", 0: "23.50 s",
	} {
		require.Equal(t, want, (&Report{DurationS: 23.5, asked: asked}).measured())
	}
}
