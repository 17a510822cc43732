package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/mutants/generate"
)

func TestControlsAreSpreadAmongTheMutants(t *testing.T) {
	for n, want := range map[int]int{1: 3, 5: 3, 60: 3, 61: 4, 400: 20} {
		var mutants []int
		for i := range n {
			mutants = append(mutants, i+1)
		}
		all := withControls(mutants)
		gap, longest, controls := 0, 0, 0
		for _, one := range all {
			if gap++; one == 0 {
				longest, gap = max(longest, gap-1), 0
				controls++
			}
		}
		require.Equal(t, want, controls, n)
		require.LessOrEqual(t, longest, mutantsAControl, n)
		require.Zero(t, gap, "the last run is a control")
		require.Equal(t, mutants, slices.DeleteFunc(all, func(one int) bool { return one == 0 }), "each mutant once, in order")
	}
}

func TestBlame(t *testing.T) {
	failed := errors.New("exit status 2")
	for text, want := range map[string][]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/sub (0.00s)\nFAIL":      {"TestA"},
		"--- FAIL: TestB (1s)\n--- FAIL: TestA (0.00s)\n--- FAIL: TestB (1s)": {"TestA", "TestB"},
		"panic: test timed out after 5s\n\trunning tests:\n\t\tTestA (5s)":    {timedOut},
		"--- FAIL: TestA (0.00s)\npanic: test timed out after 5s\n":           {"TestA", timedOut},
		"fatal error: out of memory":                                          {crashed},
		"":                                                                    {crashed},
	} {
		require.Equal(t, want, blame([]byte(text), failed), text)
	}
	require.Empty(t, blame([]byte("--- FAIL: TestA: is what a test prints that passes"), nil))
}

func TestAKillByATestThatFailsByItselfIsDoubtful(t *testing.T) {
	c := &catch{killed: map[int][]string{}, doubtful: map[int][]string{}}
	doubtful := c.sort([]finding{
		{1, []string{"TestReliable"}},
		{2, nil},
		{3, []string{"TestFlaky"}}, // before the control that shows it
		{0, []string{"TestFlaky"}},
		{0, nil},
		{4, []string{"TestFlaky", "TestReliable"}},
		{5, []string{timedOut}},
		{0, []string{"TestFlaky", timedOut}},
		{6, []string{"TestFlaky"}},
		{7, []string{crashed}},
	})
	require.Equal(t, []int{3, 5, 6}, doubtful)
	require.Equal(t, map[int][]string{1: {"TestReliable"}, 4: {"TestReliable"}, 7: {crashed}}, c.killed)
	require.Equal(t, []int{2}, c.survivors)
	require.Equal(t, map[string]int{"TestFlaky": 2, timedOut: 1}, c.unreliable())
	require.Equal(t, "controls: 2 of 3 runs without a mutant failed (66.7 %): (timed out) 1, TestFlaky 2", c.controlsText())

	c.again([]finding{{3, []string{"TestReliable"}}, {5, []string{timedOut}}, {6, nil}})
	require.Equal(t, map[int][]string{5: {timedOut}, 6: {"TestFlaky"}}, c.doubtful)
	require.Contains(t, c.killed, 3)
	require.Len(t, c.killed, 4)
}

// What is doubtful was not killed, and who is called equivalent and is killed is told.
func TestConclude(t *testing.T) {
	all, err := generate.Of("p/p.go", "package p\n\nfunc f(a, b int) bool { return a < b && a != 0 && b > 5 }\n")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 5)
	h := hunt{pkg: "p", least: 50, known: map[string]string{all[3].ID(): "so", all[4].ID(): "so"}}
	caught := &catch{
		killed: map[int][]string{1: {"TestA"}, 5: {"TestB"}}, survivors: []int{2, 4},
		doubtful: map[int][]string{3: {"TestFlaky"}}, controls: []finding{{0, []string{"TestFlaky"}}, {0, nil}},
	}
	var out strings.Builder
	require.NoError(t, h.conclude(&out, all, caught, 7, time.Now()))
	for _, line := range []string{
		"SURVIVED  p/p.go:3", "DOUBTFUL  TestFlaky  p/p.go:3",
		"equivalent but killed, by TestB: " + all[4].ID() + "\n",
		"controls: 1 of 2 runs without a mutant failed (50.0 %): TestFlaky 1\n",
		"5 mutants, 2 killed (50.0 % of those that change something), 2 not killed, of these 1 doubtful; 1 change nothing; 7 did not compile",
	} {
		require.Contains(t, out.String(), line)
	}
	require.Equal(t, 1, strings.Count(out.String(), "SURVIVED"), "the other one changes nothing")
	h.least = 51
	require.ErrorContains(t, h.conclude(&out, all, caught, 7, time.Now()), "50.0 % is less than 51 %")
}

// A small module stands for the tree. Its flaky test passes the first two times, while the tests are looked at as they
// are, and fails from then on; it is the first to run, so that it hides the other.
func TestAFlakyTestKillsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	tree, times := t.TempDir(), filepath.Join(t.TempDir(), "times")
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"p/p.go": "package p\n\nfunc Less(a, b int) bool { return a < b }\n\nfunc Unseen(a, b int) bool { return a < b }\n",
		"p/p_test.go": `package p

import (
	"os"
	"testing"
)

func TestFlaky(t *testing.T) {
	f, err := os.OpenFile("` + times + `", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write([]byte("x"))
	if info, err := f.Stat(); err != nil || info.Size() > 2 {
		t.Fatal(info, err)
	}
}

func TestLess(t *testing.T) {
	if Less(1, 1) || !Less(1, 2) {
		t.Fatal()
	}
}
`,
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(tree, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(tree, name), []byte(text), 0o600))
	}
	l, err := newLab(t.Context(), tree)
	require.NoError(t, err)
	defer l.close()
	h := hunt{pkg: "p", in: "p", files: `\.go$`, tests: ".*", least: 0}
	var out strings.Builder
	require.NoError(t, l.mutate(t.Context(), &out, h, 2))
	require.Contains(t, out.String(), "controls: 3 of 3 runs without a mutant failed (100.0 %): TestFlaky 3\n")
	require.Regexp(t, `DOUBTFUL  TestFlaky  p/p\.go:5`, out.String(), "nobody but the flaky test fails")
	require.NotRegexp(t, `(SURVIVED|DOUBTFUL).*p/p\.go:3`, out.String(), "the other one notices, once it is asked")
	require.Regexp(t, `[1-9]\d* killed \(50\.0 % .*, of these [1-9]`, out.String())
	runs, err := os.ReadFile(times)
	require.NoError(t, err)
	require.Greater(t, len(runs), 5, "it was run with the mutants, and without")
}
