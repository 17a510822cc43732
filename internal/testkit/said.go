package testkit

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	saidAtMost = 200                    // lines of a test's engines that are kept
	stallTick  = 20 * time.Millisecond  // how often the process looks whether it runs
	stallLeast = 300 * time.Millisecond // what it calls a stall: less than that no lease of a test is too short for
	stallsKept = 100
)

// stalls are when this process, and most likely the whole machine, stood still.
var stalls struct {
	sync.Mutex
	at []stall
}

type stall struct {
	end  time.Time
	took time.Duration
}

// watchStalls notes when this process does not get to run. A lease of a second that is lost beside a stall of a second
// says something about the machine, one that is lost without says something about the engine.
func watchStalls() {
	last := time.Now()
	for range time.Tick(stallTick) {
		now := time.Now() // what the ticker sent may be old
		if took := now.Sub(last); took >= stallLeast {
			stalls.Lock()
			if len(stalls.at) == stallsKept {
				stalls.at = stalls.at[1:]
			}
			stalls.at = append(stalls.at, stall{now, took})
			stalls.Unlock()
		}
		last = now
	}
}

// stallsSince tells of the stalls since began.
func stallsSince(began time.Time) (lines []string) {
	stalls.Lock()
	defer stalls.Unlock()
	for _, s := range stalls.at {
		if s.end.After(began) {
			lines = append(lines, fmt.Sprintf("%7.3fs the process had not run for %s", s.end.Sub(began).Seconds(),
				s.took.Round(time.Millisecond)))
		}
	}
	return lines
}

// onFailure returns a logger for an engine of a test that has none of its own: if the test fails, it tells what the
// engine said, when, and when the process did not get to run.
func onFailure(tb testing.TB) *slog.Logger {
	tb.Helper()
	log, began := &Log{}, time.Now()
	log.began, log.most = began, saidAtMost
	tb.Cleanup(func() {
		if !tb.Failed() {
			return
		}
		lines := append(log.With(), stallsSince(began)...)
		if len(lines) > 0 {
			tb.Logf("an engine of this test said, since it was opened:\n%s", strings.Join(lines, "\n"))
		}
	})
	return slog.New(log)
}
