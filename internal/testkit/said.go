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
	saidAtMost = 200 // lines of a test's engines that are kept
	stallTick  = 20 * time.Millisecond
	stallLeast = 3 * stallTick // a gap between two looks that is called a stall
	stallsKept = 1000
)

// stalls are when this process, and most likely the whole machine, stood still.
var stalls struct {
	sync.Mutex
	at   []stall
	last time.Time // the last look; zero: nobody looks
}

type stall struct{ began, end time.Time }

// watchStalls notes when this process does not get to run. A lease of a second that is lost beside a stall of a second
// says something about the machine, one that is lost without says something about the engine.
func watchStalls() {
	stalls.last = time.Now()
	go func() {
		for range time.Tick(stallTick) {
			lookForStall()
		}
	}()
}

// lookForStall notes what has passed since the last look, if that is a stall. Where nobody looks regularly, no gap is one.
func lookForStall() {
	stalls.Lock()
	defer stalls.Unlock()
	if stalls.last.IsZero() {
		return
	}
	now := time.Now() // what the ticker sent may be old
	if now.Sub(stalls.last) >= stallLeast {
		if len(stalls.at) == stallsKept {
			stalls.at = stalls.at[1:]
		}
		stalls.at = append(stalls.at, stall{stalls.last.Add(stallTick), now})
	}
	stalls.last = now
}

// Ran is [time.Since] less the time in which this process did not get to run: what an upper bound is asked of on a
// machine that others use, too. In a package whose tests [Main] does not run it is time.Since: nobody looks for stalls.
func Ran(since time.Time) time.Duration {
	lookForStall() // one that has just ended
	ran := time.Since(since)
	stalls.Lock()
	defer stalls.Unlock()
	for _, s := range stalls.at {
		if s.end.After(since) {
			ran -= s.end.Sub(later(s.began, since))
		}
	}
	return ran
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stallsSince tells of the long stalls since began.
func stallsSince(began time.Time) (lines []string) {
	const least = 300 * time.Millisecond // less than that no lease of a test is too short for
	stalls.Lock()
	defer stalls.Unlock()
	for _, s := range stalls.at {
		if took := s.end.Sub(s.began); s.end.After(began) && took >= least {
			lines = append(lines, fmt.Sprintf("%7.3fs the process had not run for %s", s.end.Sub(began).Seconds(),
				took.Round(time.Millisecond)))
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
