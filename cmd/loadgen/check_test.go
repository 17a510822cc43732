package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/embedded"
)

func TestLedger(t *testing.T) {
	name := func(int) string { return "k" }
	t.Run("TakeAndGive", func(t *testing.T) {
		l := newLedger(2, name)
		l.take(0, 1)
		l.take(1, 2)
		l.give(0, 1)
		l.take(0, 3)
		require.Zero(t, l.violations.Load())
	})
	t.Run("ASecondHolderIsCaught", func(t *testing.T) {
		l := newLedger(1, name)
		l.take(0, 1)
		l.take(0, 2)
		require.EqualValues(t, 1, l.violations.Load())
		require.Equal(t, []string{`"k" was granted to holder 2 while holder 1 has it`}, l.told())
	})
	t.Run("AReleaseOfAnothersLockIsCaught", func(t *testing.T) {
		l := newLedger(1, name)
		l.take(0, 1)
		l.give(0, 2)
		require.EqualValues(t, 1, l.violations.Load())
	})
}

// The violation is planted in the ledger, where another holder has the lock that the
// engine rightly grants; from there on all is the real driver.
func TestAPlantedViolationEndsInStatus4(t *testing.T) {
	withoutServer(t)
	own, err := embedded.Start(t.Context())
	require.NoError(t, err)
	defer own.Stop()
	eng, err := engine.Open(t.Context(), engine.Config{Addrs: []string{own.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, eng.Close(context.Background())) }()

	cfg := &config{inflight: 1, clients: 1, keys: 1, api: "async", prefix: "planted", lease: 30 * time.Second, checkServer: "off"}
	l := newLoad(cfg, []*engine.Engine{eng}, homes{})
	l.ledger.take(0, 99) // somebody else's, who never lets go
	rec, _ := l.drive(t.Context(), 50*time.Millisecond)
	require.Positive(t, rec.released)
	require.Positive(t, l.ledger.violations.Load())

	r := &report{Errors: map[string]int64{}}
	r.addRounds(cfg, []round{{rec: rec, cost: cost{wall: time.Second}}})
	r.addViolations(l.ledger)
	r.settle()
	require.Equal(t, statusViolation, r.Status)
	require.Contains(t, r.Failures[len(r.Failures)-1], "holder 99")
}

func TestJudge(t *testing.T) {
	pairs := func(n int64) *recorder {
		rec := newRecorder()
		rec.granted, rec.released = n, n
		return rec
	}
	failing := pairs(10)
	failing.failed(errors.New("something"))
	did := func(hset, copies, hdel, publish int64) snapshot {
		return snapshot{known: true, alone: true, commands: serverCommands{HSet: hset, Copy: copies, HDel: hdel, Publish: publish}}
	}
	before := snapshot{known: true, alone: true}
	for _, tc := range []struct {
		name     string
		mode     string
		after    snapshot
		rec      *recorder
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
		{"NoCounters", "on", snapshot{}, pairs(10), 0, 0, "not available", 0},
		{"Off", "off", did(0, 0, 0, 0), pairs(10), 0, 0, "off", 0},
		{"SomebodyElseIsConnected", "auto", snapshot{known: true}, pairs(10), 0, 0, "shared server", 0},
		{"SomebodyElseButAskedFor", "on", snapshot{known: true}, pairs(10), 2, 1, "", 0},
		{"WhatWasHandedOverTheServerDidNotSee", "auto", did(1, 2, 3, 3), pairs(10), 0, 0, "not handed over", 7},
		{"AGhostBesideHandOffs", "auto", did(1, 1, 3, 3), pairs(10), 0, 1, "", 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := judge(tc.mode, round{before: before, after: tc.after, rec: tc.rec, handedOver: tc.handed})
			require.Len(t, v.failures, tc.failures, v.failures)
			require.Len(t, v.ghosts, tc.ghosts, v.ghosts)
			require.Contains(t, v.note, tc.note)
		})
	}
}

// Sentinels greet each other over the master: three of them, twice in three seconds at most.
func TestGreetingsOfSentinelsAreNoReleases(t *testing.T) {
	rec := newRecorder()
	rec.granted, rec.released = 10, 10
	began := time.Now()
	for greeted, failures := range map[int64]int{-1: 1, 0: 0, 6: 0, 7: 1} {
		before := snapshot{known: true, alone: true, at: began, greeters: 3}
		after := snapshot{known: true, alone: true, at: began.Add(3 * time.Second), greeters: 3}
		after.commands = serverCommands{HSet: 10, HDel: 10, Publish: 10 + greeted}
		require.Len(t, judge("auto", round{before: before, after: after, rec: rec}).failures, failures, "%d", greeted)
	}
}

func TestACopyThatFoundItsKeyTakenIsNoGrant(t *testing.T) {
	rec := newRecorder()
	rec.granted, rec.released = 10, 10
	after := snapshot{known: true, alone: true, commands: serverCommands{HSet: 8, Copy: 4, HDel: 10, Publish: 10}}
	r := round{before: snapshot{known: true, alone: true}, after: after, rec: rec, contended: true}
	require.Empty(t, judge("auto", r).failures)
	r.contended = false
	require.Len(t, judge("auto", r).failures, 1)
}

func TestGhostsAreAViolation(t *testing.T) {
	r := &report{Errors: map[string]int64{}}
	r.addVerdict(verdict{ghosts: []string{"one"}}, round{})
	r.settle()
	require.Equal(t, statusViolation, r.Status)
}

func TestParseCommands(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_hset:calls=12,usec=3,usec_per_call=0.25\r\n" +
		"cmdstat_copy:calls=7,usec=1\r\ncmdstat_hdel:usec=1,calls=19\r\n" +
		"cmdstat_publish:calls=4,usec=1\r\ncmdstat_spublish:calls=5,usec=1\r\ncmdstat_client|list:calls=9,usec=1\r\n"
	require.Equal(t, serverCommands{HSet: 12, Copy: 7, HDel: 19, Publish: 9}, parseCommands(text))
}

func TestIsForeign(t *testing.T) {
	require.False(t, isForeign("id=3 addr=127.0.0.1:1 name=loadgen-1 flags=N db=0", "loadgen-1"))
	require.True(t, isForeign("id=3 addr=127.0.0.1:1 name=loadgen-12 flags=N db=0", "loadgen-1"))
	require.True(t, isForeign("id=4 addr=127.0.0.1:1 name= flags=P db=0", "loadgen-1"))
	require.False(t, isForeign("id=5 addr=127.0.0.1:1 name= flags=S db=0", "loadgen-1"))
}

func TestDisagreement(t *testing.T) {
	now := time.Now()
	want := belief{owner: "me", deadline: now.Add(time.Second)}
	for _, tc := range []struct {
		name   string
		fields map[string]string
		pttl   int64
		says   string
	}{
		{"Agrees", map[string]string{"me": "1"}, 1010, ""},
		{"Gone", nil, -2, "not on the server"},
		{"AnothersLock", map[string]string{"you": "1"}, 1010, "held by"},
		{"HeldTwice", map[string]string{"me": "2"}, 1010, "held 2 times"},
		{"Immortal", map[string]string{"me": "1"}, -1, "no expiry"},
		{"TrustedTooLong", map[string]string{"me": "1"}, 900, "beyond its expiry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := disagreement(want, tc.fields, tc.pttl, now)
			require.Contains(t, got, tc.says)
			require.Equal(t, tc.says == "", got == "")
		})
	}
}

func TestErrorClass(t *testing.T) {
	for err, class := range map[error]string{
		engine.ErrHeld:                              "held",
		fmt.Errorf("so: %w", engine.ErrLost):        "lost",
		context.DeadlineExceeded:                    "unanswered",
		errors.New("x"):                             "other",
		&engine.ServerError{Class: engine.ClassOOM}: "server:" + engine.ClassOOM.String(),
	} {
		require.Equal(t, class, errorClass(err))
	}
}

func TestServePprof(t *testing.T) {
	var said bytes.Buffer
	stop, err := servePprof("127.0.0.1:0", &said)
	require.NoError(t, err)
	defer stop()
	url := strings.Fields(said.String())
	reply, err := http.Get(url[len(url)-1])
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusOK, reply.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

func TestNumbers(t *testing.T) {
	require.Equal(t, "1,234,567", count(1234567))
	require.Equal(t, "-123", count(-123))
	require.Equal(t, "0.50", number(0.5))
	require.Equal(t, "12.3", number(12.34))
	require.Equal(t, "1,235", number(1234.6))
	require.Nil(t, median(nil))
	require.InDelta(t, 2.5, *median([]float64{4, 1, 3, 2}), 0)
}

// A server that stands still must show in the latency of everyone who was due meanwhile,
// not only of the one who was being served.
func TestPacerCountsFromTheIntendedStart(t *testing.T) {
	p := newPhase(100 * time.Millisecond)
	pace := startPacer(p, 1000)
	var last time.Duration
	n := 0
	for at := range pace.starts {
		if n == 0 {
			for p.elapsed() < 50*time.Millisecond { // the first takes half the time
				nap(time.Millisecond)
			}
		}
		require.InDelta(t, float64(n)*1e6, float64(at), 1e3)
		last, n = at, n+1
	}
	require.Equal(t, 100, n+int(pace.skipped))
	require.Less(t, last, 100*time.Millisecond)
}
