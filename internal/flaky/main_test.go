package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tooLong is how long a test waits for what must happen.
const tooLong = 20 * time.Second

func TestFailuresAreReadFromTheOutputOfGoTest(t *testing.T) {
	require.Equal(t, []string{
		"example.org/built",
		"example.org/lock TestAlone",
		"example.org/lock TestTable/Second",
		"example.org/slow TestHangs",
	}, failuresOf([]byte(`ok  	example.org/fine	0.004s
--- FAIL: TestTable (0.01s)
    --- FAIL: TestTable/Second (0.00s)
        x_test.go:9: no
--- FAIL: TestAlone (0.00s)
FAIL
FAIL	example.org/lock	0.011s
panic: test timed out after 1s
	running tests:
		TestHangs (1s)

FAIL	example.org/slow	1.004s
FAIL	example.org/built [build failed]
FAIL
`)))
	require.Empty(t, failuresOf([]byte("ok  \texample.org/fine\t(cached)\n")))
}

func TestWhatFailedIsCountedByRuns(t *testing.T) {
	found := finds{}
	require.Equal(t, "nothing failed\n", found.table())
	found.add(1, []string{"p TestB"})
	found.add(3, []string{"p TestA", "p TestB"})
	require.Equal(t, "  2 times  p TestB  (runs 1 3)\n  1 times  p TestA  (runs 3)\n", found.table())
}

func TestEachRunHasItsOutputAndAFailureIsTold(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "sometimes.sh")
	// Fails in its second run only, without a word of go test's.
	require.NoError(t, os.WriteFile(script, []byte("echo ran >>\"$1\"\n[ \"$(wc -l <\"$1\")\" != 2 ]\n"), 0o600))
	failures, err := once(t.Context(), []string{"sh", script, filepath.Join(dir, "count")}, filepath.Join(dir, "1"), stalls{})
	require.NoError(t, err)
	require.Empty(t, failures)
	failures, err = once(t.Context(), []string{"sh", script, filepath.Join(dir, "count")}, filepath.Join(dir, "2"), stalls{})
	require.NoError(t, err)
	require.Equal(t, []string{"the command itself: exit status 1"}, failures)
	require.FileExists(t, filepath.Join(dir, "2"))

	_, err = once(t.Context(), []string{filepath.Join(dir, "nothing")}, filepath.Join(dir, "3"), stalls{})
	require.Error(t, err)
	_, err = run(t.Context(), 0, dir, stalls{}, []string{"true"})
	require.Error(t, err)
}

func TestAnInterruptEndsTheCommandAndItsChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "out")
	ended := make(chan error, 1)
	go func() {
		child := "trap 'echo the child has ended; exit' TERM; echo begun; while :; do sleep 0.05; done"
		_, err := once(ctx, []string{"sh", "-c", `sh -c "$0" & wait`, child}, file, stalls{})
		ended <- err
	}()
	says := func(what string) func() bool {
		return func() bool {
			b, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(b), what)
		}
	}
	require.Eventually(t, says("begun"), tooLong, time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(tooLong):
		require.FailNow(t, "it goes on")
	}
	require.Eventually(t, says("the child has ended"), tooLong, time.Millisecond)
}

// A command stands still as a whole, and what it has stopped itself is not set going.
func TestACommandStandsStillNowAndThen(t *testing.T) {
	if !canStandStill {
		require.ErrorContains(t, stalls{time.Second, time.Second}.check(), "needs Linux")
		return
	}
	file := filepath.Join(t.TempDir(), "out")
	still := stalls{lasts: 300 * time.Millisecond, every: 100 * time.Millisecond}
	require.NoError(t, still.check())
	script := `(while :; do date +%s%N; sleep 0.01; done) & ticks=$!
sleep 60 & stopped=$!
kill -STOP $stopped
sleep 1.5
echo state $(cut -d' ' -f3 /proc/$stopped/stat)
kill -KILL $stopped $ticks`
	failures, err := once(t.Context(), []string{"sh", "-c", script}, file, still)
	require.NoError(t, err)
	require.Empty(t, failures)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "state T\n")
	gaps, last := 0, int64(0)
	for line := range strings.Lines(string(text)) {
		at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue
		}
		if last != 0 && at-last >= still.lasts.Nanoseconds() {
			gaps++
		}
		last = at
	}
	require.GreaterOrEqual(t, gaps, 2, "of 1.5 s")
}

func TestStallsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, s := range []stalls{{lasts: -1, every: 1}, {lasts: 1}, {lasts: 1, every: -1}} {
		require.ErrorContains(t, s.check(), "longer than nothing")
	}
	require.NoError(t, stalls{}.check())
	_, err := run(t.Context(), 1, t.TempDir(), stalls{lasts: 1}, []string{"true"})
	require.Error(t, err)
}
