package house

import (
	"fmt"
	"go/parser"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A faultCase is one row of docs/FAULTS.md.
type faultCase struct {
	id, proof string
	tests     []string // without their subtests
}

var (
	faultRow    = regexp.MustCompile(`(?m)^\| (C\d{3}) \| [^|]+ \| ([^|]+) \|$`)
	faultTest   = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/[A-Za-z0-9_]+)?`")
	faultNumber = regexp.MustCompile(`C\d{3}`)
	faultCounts = regexp.MustCompile(`(?m)^\d+ cases: .*$`)
)

// faultTable reads docs/FAULTS.md.
func faultTable(t *testing.T) (text string, cases []faultCase) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "FAULTS.md"))
	require.NoError(t, err)
	for _, row := range faultRow.FindAllStringSubmatch(string(b), -1) {
		c := faultCase{id: row[1], proof: row[2]}
		for _, m := range faultTest.FindAllStringSubmatch(c.proof, -1) {
			c.tests = append(c.tests, m[1])
		}
		cases = append(cases, c)
	}
	require.NotEmpty(t, cases)
	require.Equal(t, strings.Count(string(b), "\n| C"), len(cases), "a row that cannot be read")
	return string(b), cases
}

// testFunctions lists every test of the root module, and where it is.
func testFunctions(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, name := range declared(parse(t, f, parser.SkipObjectResolution)) {
			if strings.HasPrefix(name, "Test") {
				tests[name] = path.Dir(f)
			}
		}
	}
	return tests
}

func TestEveryFaultNamesTestsThatExistOrSaysWhyNot(t *testing.T) {
	have := testFunctions(t)
	_, cases := faultTable(t)
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.id] {
			t.Errorf("docs/FAULTS.md has %s twice", c.id)
		}
		seen[c.id] = true
		reason := strings.HasPrefix(c.proof, "open: ") || strings.HasPrefix(c.proof, "does not apply: ")
		if reason == (len(c.tests) > 0) {
			t.Errorf("%s: either tests, or \"open: \" or \"does not apply: \" and the reason: %s", c.id, c.proof)
		}
		for _, name := range c.tests {
			if have[name] == "" {
				t.Errorf("%s: no test is called %s", c.id, name)
			}
		}
	}
}

func TestEveryTestWithANumberIsInTheTableOfFaults(t *testing.T) {
	_, cases := faultTable(t)
	table := map[string][]string{}
	for _, c := range cases {
		table[c.id] = c.tests
	}
	tests := testFunctions(t)
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		for _, id := range faultNumber.FindAllString(name, -1) {
			if !slices.Contains(table[id], name) {
				t.Errorf("docs/FAULTS.md: %s does not name %s of %s", id, name, tests[name])
			}
		}
	}
}

// numberedTest is how a test of a case is called: TestC021_WhatItShows, TestC016C017_WhatBothShow.
var numberedTest = regexp.MustCompile(`^Test(C\d{3})+_[A-Z]`)

func TestNumbersStandInFrontOfWhatATestShows(t *testing.T) {
	for name, dir := range testFunctions(t) {
		if faultNumber.MatchString(name) != numberedTest.MatchString(name) {
			t.Errorf("%s: %s is to be called TestC021_WhatItShows", dir, name)
		}
	}
}

func TestCountsOfFaultsAreRight(t *testing.T) {
	text, cases := faultTable(t)
	tested, none, open := 0, 0, 0
	for _, c := range cases {
		switch {
		case strings.HasPrefix(c.proof, "open: "):
			open++
		case strings.HasPrefix(c.proof, "does not apply: "):
			none++
		default:
			tested++
		}
	}
	want := fmt.Sprintf("%d cases: %d tested, %d do not apply, %d open.", len(cases), tested, none, open)
	require.Equal(t, []string{want}, faultCounts.FindAllString(text, -1))
}
