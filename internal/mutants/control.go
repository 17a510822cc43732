package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// How many runs have no mutant on: one for so many that have, and some in any case.
const (
	mutantsAControl = 20
	leastControls   = 3
)

// A finding is how the tests of one run ended.
type finding struct {
	number int      // of the mutant; 0: a control, in which none is on
	failed []string // the tests, or how the run ended without naming one; none: they passed
}

// Ends of a run that name no test.
const (
	timedOut = "(timed out)"
	crashed  = "(crashed)"
)

// withControls puts the controls among mutants, evenly: whatever makes the machine slow meets both.
func withControls(mutants []int) []int {
	n := max(leastControls, (len(mutants)+mutantsAControl-1)/mutantsAControl)
	var all []int
	for i := range n {
		all = append(all, mutants[i*len(mutants)/n:(i+1)*len(mutants)/n]...)
		all = append(all, 0)
	}
	return all
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// blame names what failed in the output of a run.
func blame(text []byte, err error) []string {
	if err == nil {
		return nil
	}
	var names []string
	for _, m := range failedTest.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	switch {
	case strings.Contains(string(text), "panic: test timed out"):
		return append(names, timedOut)
	case len(names) == 0:
		return []string{crashed}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A catch is what a hunt came to.
type catch struct {
	killed    map[int][]string // by number of the mutant: by which tests
	survivors []int
	doubtful  map[int][]string // failed only by what failed in a control, too
	controls  []finding
}

// unreliable counts the controls in which each test failed.
func (c *catch) unreliable() map[string]int {
	times := map[string]int{}
	for _, f := range c.controls {
		for _, name := range f.failed {
			times[name]++
		}
	}
	return times
}

// sort puts each finding where it belongs, and answers those that failed by nothing but what failed without them, too.
func (c *catch) sort(findings []finding) (doubtful []int) {
	for _, f := range findings {
		if f.number == 0 {
			c.controls = append(c.controls, f)
		}
	}
	flaky := c.unreliable()
	for _, f := range findings {
		reliable := slices.DeleteFunc(slices.Clone(f.failed), func(name string) bool { return flaky[name] > 0 })
		switch {
		case f.number == 0:
		case len(f.failed) == 0:
			c.survivors = append(c.survivors, f.number)
		case len(reliable) > 0:
			c.killed[f.number] = reliable
		default:
			c.doubtful[f.number] = f.failed
			doubtful = append(doubtful, f.number)
		}
	}
	return doubtful
}

// again takes the findings of those that were run again, without the tests that fail by themselves. Who was noticed
// this time is killed. Of the others nobody can say.
func (c *catch) again(findings []finding) {
	flaky := c.unreliable()
	for _, f := range findings {
		reliable := slices.DeleteFunc(slices.Clone(f.failed), func(name string) bool { return flaky[name] > 0 })
		if len(reliable) > 0 {
			delete(c.doubtful, f.number)
			c.killed[f.number] = reliable
		}
	}
}

// controlsText says how often the tests failed with no mutant on.
func (c *catch) controlsText() string {
	bad, times := 0, c.unreliable()
	for _, f := range c.controls {
		if len(f.failed) > 0 {
			bad++
		}
	}
	text := fmt.Sprintf("controls: %d of %d runs without a mutant failed (%.1f %%)", bad, len(c.controls), 100*float64(bad)/float64(max(len(c.controls), 1)))
	for i, name := range slices.Sorted(maps.Keys(times)) {
		text += fmt.Sprintf("%s %s %d", map[bool]string{true: ":", false: ","}[i == 0], name, times[name])
	}
	return text
}

// lookFor runs the tests with one mutant after the other, and with none in between.
func (b *bout) lookFor(ctx context.Context, subjects []subject) *catch {
	limit := hangLimit/2 + 5*b.usual(subjects[0].mutant)
	with, tests := b.shared[subjects[0].pkg], subjects[0].tests
	var numbers []int
	for _, s := range subjects {
		numbers = append(numbers, s.number)
	}
	c := &catch{killed: map[int][]string{}, doubtful: map[int][]string{}}
	doubtful := c.sort(b.runs(ctx, with, withControls(numbers), tests, limit))
	var skip []string
	if with.skip != "" {
		skip = []string{with.skip}
	}
	for name := range c.unreliable() {
		if name != timedOut && name != crashed {
			skip = append(skip, name)
		}
	}
	with.skip = strings.Join(skip, "|")
	c.again(b.runs(ctx, with, doubtful, tests, limit))
	return c
}

// runs runs tests with each of some mutants on. A control is run to its end, so that all are seen that fail by
// themselves.
func (b *bout) runs(ctx context.Context, with binary, numbers []int, tests string, limit time.Duration) (all []finding) {
	var groups [][]subject
	for _, n := range numbers {
		groups = append(groups, []subject{{number: n}})
	}
	var mu sync.Mutex
	b.each(ctx, groups, func(group []subject) {
		n, run := group[0].number, with.test
		if n == 0 {
			run = func(ctx context.Context, on int, tests string, limit time.Duration) ([]byte, error) {
				return with.run(ctx, on, tests, limit)
			}
		}
		failed := blame(run(ctx, n, tests, limit))
		mu.Lock()
		defer mu.Unlock()
		all = append(all, finding{n, failed})
	})
	return all
}
