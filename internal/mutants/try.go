package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/mutants/schema"
)

// A subject is a mutant by what its files hold.
type subject struct {
	mutant
	number int
	files  map[string]string
}

// A verdict is nil for a mutant that was killed.
type verdict struct {
	subject
	err  error
	took time.Duration
}

// A bout is one run over many mutants.
type bout struct {
	*lab
	out      io.Writer
	workers  int
	many     string // the tree with all the mutants that can be chosen
	shared   map[string]binary
	plain    map[string]binary
	healthy  map[string]time.Duration // what the tests take that find nothing, by package and name
	verdicts []verdict
	mu       sync.Mutex // over healthy and verdicts

	compiling sync.Mutex // over plain
}

func (l *lab) bout(out io.Writer, workers int) *bout {
	return &bout{
		lab: l, out: out, workers: workers,
		shared: map[string]binary{}, plain: map[string]binary{}, healthy: map[string]time.Duration{},
	}
}

// try lets every mutant fail its tests, once these have passed on what is not changed.
func (l *lab) try(ctx context.Context, out io.Writer, chosen []mutant, workers int) error {
	begun := time.Now()
	b := l.bout(out, workers)
	subjects := b.subjects(chosen)
	together, alone, err := b.plant(ctx, subjects)
	if err != nil {
		return err
	}
	together, alone, err = b.pass(ctx, together, alone)
	if err != nil {
		return err
	}
	say(out, "%d mutants in %d builds, %d built alone, ready after %.0f s\n", len(together), len(b.shared), len(alone), time.Since(begun).Seconds())
	var survivors []subject
	var wg sync.WaitGroup
	wg.Go(func() { b.tryAlone(ctx, alone) })
	wg.Go(func() { survivors = b.tryTogether(ctx, together) })
	wg.Wait()
	// A test may read the sources, where the one that is on is one of many.
	b.tryAlone(ctx, survivors)
	if err := ctx.Err(); err != nil {
		return err
	}
	bad := 0
	for _, v := range b.verdicts {
		if v.err != nil {
			bad++
		}
	}
	say(out, "%d mutants, %d killed, %.0f s\n", len(b.verdicts), len(b.verdicts)-bad, time.Since(begun).Seconds())
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants were not killed", bad, len(b.verdicts))
	}
	return nil
}

// subjects applies the mutants to what the tree holds. Those that do not apply have their verdict.
func (b *bout) subjects(chosen []mutant) []subject {
	var all []subject
	for i, m := range chosen {
		s := subject{m, i + 1, map[string]string{}}
		if err := b.changes(s); err != nil {
			b.report(verdict{subject: s, err: err})
			continue
		}
		all = append(all, s)
	}
	return all
}

func (l *lab) changes(s subject) error {
	for _, e := range s.edits {
		if _, ok := s.files[e.file]; !ok {
			text, err := os.ReadFile(filepath.Join(l.tree, filepath.FromSlash(e.file)))
			if err != nil {
				return err
			}
			s.files[e.file] = string(text)
		}
		changed, err := e.apply(s.files[e.file])
		if err != nil {
			return err
		}
		s.files[e.file] = changed
	}
	return nil
}

// compileError is where the compiler stopped.
var compileError = regexp.MustCompile(`(?m)^(?:vet: )?(\S+\.go):(\d+):\d+: (.*)$`)

// plant builds one tree with all the mutants that can be chosen at run time, and says which cannot. What does not
// compile is among these.
func (b *bout) plant(ctx context.Context, subjects []subject) (together, alone []subject, err error) {
	b.many = filepath.Join(b.dir, "shared")
	together = subjects
	for {
		_ = os.RemoveAll(b.many)
		if err := copyTree(ctx, b.lab.tree, b.many); err != nil {
			return nil, nil, err
		}
		var planted []schema.Mutant
		for _, s := range together {
			planted = append(planted, schema.Mutant{Number: s.number, Files: s.files})
		}
		numbers, err := schema.Plant(b.many, planted)
		if err != nil {
			return nil, nil, err
		}
		together, alone = part(together, alone, numbers)
		broken, err := b.compileShared(ctx, together)
		if err != nil {
			return nil, nil, err
		}
		if len(broken) == 0 {
			return together, alone, nil
		}
		together, alone = part(together, alone, broken)
	}
}

// part moves subjects from those together to those alone.
func part(together, alone []subject, numbers []int) (a, b []subject) {
	for _, s := range together {
		if slices.Contains(numbers, s.number) {
			alone = append(alone, s)
		} else {
			a = append(a, s)
		}
	}
	return a, alone
}

// compileShared builds the tests of each package once. It answers the mutants that stand in the way.
func (b *bout) compileShared(ctx context.Context, subjects []subject) (broken []int, err error) {
	for _, pkg := range packages(subjects) {
		file := filepath.Join(b.bin, strings.ReplaceAll(pkg, "/", "-")+".shared")
		text, err := compile(ctx, b.many, pkg, file, "-gcflags=./...=-e")
		if err == nil {
			b.shared[pkg] = b.binary(b.many, pkg, file)
			continue
		}
		found := false
		for _, m := range compileError.FindAllStringSubmatch(string(text), -1) {
			line, _ := strconv.Atoi(m[2])
			if n := schema.At(b.many, m[1], line); n > 0 {
				broken, found = append(broken, n), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s does not compile with all its mutants: %w\n%s", pkg, err, text)
		}
	}
	return broken, nil
}

func packages(subjects []subject) []string {
	var all []string
	for _, s := range subjects {
		if !slices.Contains(all, s.pkg) {
			all = append(all, s.pkg)
		}
	}
	return all
}

// pass runs the tests of all mutants on what is not changed: in the build that has them all, with none of them on.
// Tests that fail only there, because they count allocations for example, are tried alone.
func (b *bout) pass(ctx context.Context, together, alone []subject) (t, a []subject, err error) {
	var mu sync.Mutex
	var errs []string
	var apart []int
	b.each(ctx, byTests(together), func(group []subject) {
		if b.healthyWith(ctx, b.shared[group[0].pkg], group[0]) == nil {
			return
		}
		err := b.healthyAsItIs(ctx, group[0])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err.Error())
		}
		for _, s := range group {
			apart = append(apart, s.number)
		}
	})
	b.each(ctx, byTests(alone), func(group []subject) {
		if err := b.healthyAsItIs(ctx, group[0]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err.Error())
		}
	})
	if len(errs) > 0 {
		return nil, nil, fmt.Errorf("%s", strings.Join(errs, "\n"))
	}
	t, a = part(together, alone, apart)
	return t, a, ctx.Err()
}

// byTests are the subjects in groups with the same tests.
func byTests(subjects []subject) [][]subject {
	var all [][]subject
	at := map[string]int{}
	for _, s := range subjects {
		key := s.pkg + " " + s.tests
		if _, ok := at[key]; !ok {
			at[key] = len(all)
			all = append(all, nil)
		}
		all[at[key]] = append(all[at[key]], s)
	}
	return all
}

// each works on many things, on as many at once as there are workers.
func (b *bout) each(ctx context.Context, groups [][]subject, do func([]subject)) {
	var wg sync.WaitGroup
	next := make(chan []subject)
	for range b.workers {
		wg.Go(func() {
			for g := range next {
				do(g)
			}
		})
	}
	for _, g := range groups {
		if ctx.Err() != nil {
			break
		}
		next <- g
	}
	close(next)
	wg.Wait()
}

// healthyWith runs the tests of a mutant without it.
func (b *bout) healthyWith(ctx context.Context, with binary, s subject) error {
	at := time.Now()
	text, err := with.test(ctx, 0, s.tests, 3*testLimit)
	switch {
	case err != nil:
		return fmt.Errorf("%s fails as it is: %s: %w\n%s", s.pkg, s.tests, err, text)
	case bytes.Contains(text, []byte("no tests to run")):
		return fmt.Errorf("%s has no test %s", s.pkg, s.tests)
	case bytes.Contains(text, []byte("--- SKIP")):
		return fmt.Errorf("a test of %s is skipped here, and proves nothing:\n%s", s.pkg, text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.healthy[s.pkg+" "+s.tests] = time.Since(at)
	return nil
}

func (b *bout) healthyAsItIs(ctx context.Context, s subject) error {
	with, err := b.asItIs(ctx, s.pkg)
	if err != nil {
		return err
	}
	return b.healthyWith(ctx, with, s)
}

// asItIs is the binary of a package without any mutants.
func (b *bout) asItIs(ctx context.Context, pkg string) (binary, error) {
	b.compiling.Lock()
	defer b.compiling.Unlock()
	if with, ok := b.plain[pkg]; ok {
		return with, nil
	}
	file := filepath.Join(b.bin, strings.ReplaceAll(pkg, "/", "-")+".test")
	if text, err := b.build(ctx, pkg, file); err != nil {
		return binary{}, fmt.Errorf("%s does not compile as it is: %w\n%s", pkg, err, text)
	}
	b.plain[pkg] = b.binary(b.lab.tree, pkg, file)
	return b.plain[pkg], nil
}

// tryTogether turns one mutant after the other on, and answers those that were not killed.
func (b *bout) tryTogether(ctx context.Context, subjects []subject) (survivors []subject) {
	var groups [][]subject
	for _, s := range subjects {
		groups = append(groups, []subject{s})
	}
	b.each(ctx, groups, func(group []subject) {
		s, at := group[0], time.Now()
		if err := b.judge(ctx, b.shared[s.pkg], s.number, s.mutant); err == nil {
			b.report(verdict{s, nil, time.Since(at)})
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		survivors = append(survivors, s)
	})
	return survivors
}

// tryAlone compiles one mutant after the other, the next one while the tests of the last run: the tests mostly wait,
// the compiler never does.
func (b *bout) tryAlone(ctx context.Context, subjects []subject) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, b.workers)
	for _, s := range subjects {
		if ctx.Err() != nil {
			return
		}
		at := time.Now()
		file := filepath.Join(b.bin, strconv.Itoa(s.number)+".test")
		if err := b.breed(ctx, s.mutant, file); err != nil {
			b.report(verdict{s, err, time.Since(at)})
			continue
		}
		free <- struct{}{}
		wg.Go(func() {
			err := b.judge(ctx, b.binary(b.lab.tree, s.pkg, file), 0, s.mutant)
			_ = os.Remove(file)
			b.report(verdict{s, err, time.Since(at)})
			<-free
		})
	}
}

// judge runs a mutant's tests. It answers nil if they failed.
func (b *bout) judge(ctx context.Context, with binary, on int, m mutant) error {
	limit := testLimit
	if m.hangs {
		limit = max(hangLimit, 4*b.usual(m))
	}
	text, err := with.test(ctx, on, m.tests, limit)
	switch {
	case err == nil:
		return fmt.Errorf("it survives %s", m.tests)
	case !failed(text):
		return fmt.Errorf("the tests did not run: %w\n%s", err, text)
	default:
		return nil
	}
}

// usual is what the tests of a mutant take without it.
func (b *bout) usual(m mutant) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.healthy[m.pkg+" "+m.tests]
}

// report notes and prints a verdict.
func (b *bout) report(v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verdicts = append(b.verdicts, v)
	word := "killed"
	if v.err != nil {
		word = "NOT KILLED"
	}
	say(b.out, "%-10s  %-36s %4.1f s  %s\n", word, v.id, v.took.Seconds(), v.pkg)
	if v.err != nil {
		say(b.out, "            %s\n            %v\n", v.why, v.err)
	}
}
