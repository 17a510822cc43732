package main

import (
	"context"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/mutants/generate"
)

// A hunt is over mutants that nobody chose.
type hunt struct {
	pkg   string // where the files are
	in    string // where the tests are
	files string // which, as a pattern
	tests string // which, as a pattern
	n     int    // how many, drawn by the seed; 0: all
	seed  uint64
	least float64           // how many percent the tests have to kill
	known map[string]string // those that change nothing, by their ids
}

// mutate makes mutants of a package and lets its tests look for them.
func (l *lab) mutate(ctx context.Context, out io.Writer, h hunt, workers int) error {
	begun := time.Now()
	candidates, err := l.candidates(h)
	if err != nil {
		return err
	}
	b := l.bout(io.Discard, workers)
	var subjects []subject
	for i, c := range candidates {
		m := mutant{id: c.ID(), pkg: h.in, tests: h.tests}
		subjects = append(subjects, subject{m, i + 1, map[string]string{c.File: c.Text}})
	}
	together, alone, err := b.plant(ctx, subjects)
	if err != nil {
		return err
	}
	if len(together) == 0 {
		return fmt.Errorf("none of the %d mutants of %s compiles", len(subjects), h.pkg)
	}
	with := b.shared[h.in]
	if with.skip, err = b.unfit(ctx, together[0]); err != nil {
		return err
	}
	if with.skip != "" {
		say(out, "not asked, for they fail in a build with mutants of which none is on: %s\n", with.skip)
	}
	b.shared[h.in] = with
	if err := b.healthyWith(ctx, with, together[0]); err != nil {
		return err
	}
	say(out, "%s: %d mutants compile of %d, the tests take %.1f s, ready after %.0f s\n", h.pkg, len(together), len(subjects),
		b.usual(together[0].mutant).Seconds(), time.Since(begun).Seconds())
	caught := b.lookFor(ctx, together)
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.conclude(out, candidates, caught, len(alone), begun)
}

// conclude prints what was not killed, and how much was. What is doubtful was not.
func (h hunt) conclude(out io.Writer, all []generate.Candidate, caught *catch, broken int, begun time.Time) error {
	equal, doubtful := 0, 0
	tell := func(word string, n int, by []string) {
		c := all[n-1]
		if h.known[c.ID()] != "" {
			equal++
			return
		}
		if len(by) > 0 {
			doubtful++
			word += "  " + strings.Join(by, ", ")
		}
		say(out, "%s  %s:%d  %s\n    %s\n    %s\n", word, c.File, c.Line, c.Op+c.Times(), c.Old, c.New)
	}
	for _, n := range slices.Sorted(slices.Values(caught.survivors)) {
		tell("SURVIVED", n, nil)
	}
	for _, n := range slices.Sorted(maps.Keys(caught.doubtful)) {
		tell("DOUBTFUL", n, caught.doubtful[n])
	}
	for _, n := range slices.Sorted(maps.Keys(caught.killed)) {
		if id := all[n-1].ID(); h.known[id] != "" {
			say(out, "equivalent but killed, by %s: %s\n", strings.Join(caught.killed[n], ", "), id)
		}
	}
	say(out, "%s\n", caught.controlsText())
	killed := len(caught.killed)
	tried := killed + len(caught.survivors) + len(caught.doubtful)
	share := 100 * float64(killed) / float64(max(tried-equal, 1))
	say(out, "%s: %d mutants, %d killed (%.1f %% of those that change something), %d not killed, of these %d doubtful; "+
		"%d change nothing; %d did not compile; seed %d, %.0f s\n",
		h.pkg, tried, killed, share, tried-killed-equal, doubtful, equal, broken, h.seed, time.Since(begun).Seconds())
	if share < h.least {
		return fmt.Errorf("%.1f %% is less than %.0f %%", share, h.least)
	}
	return nil
}

// candidates draws from what can be changed.
func (l *lab) candidates(h hunt) ([]generate.Candidate, error) {
	want, err := regexp.Compile(h.files)
	if err != nil {
		return nil, err
	}
	var all []generate.Candidate
	top := filepath.Join(l.tree, filepath.FromSlash(h.pkg))
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(l.tree, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch ext := path.Ext(name); {
		case d.IsDir(), !want.MatchString(name), strings.HasSuffix(name, "_test.go"):
			return nil
		case ext == ".go" && path.Dir(name) != path.Clean(h.pkg), ext != ".go" && ext != ".lua":
			return nil
		case ext == ".go":
			if ok, err := build.Default.MatchFile(filepath.Dir(p), d.Name()); err != nil || !ok {
				return err
			}
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		some, err := generate.Of(name, string(text))
		all = append(all, some...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has nothing to change in files that match %q", h.pkg, h.files)
	}
	if h.n > 0 && h.n < len(all) {
		rng := rand.New(rand.NewPCG(h.seed, 0)) //nolint:gosec // drawn to be repeated
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:h.n]
	}
	return all, nil
}

// unfit are tests that pass on the tree and fail in the build that has the mutants, though none is on: what counts
// allocations, or reads the sources.
func (b *bout) unfit(ctx context.Context, s subject) (pattern string, err error) {
	text, err := b.shared[s.pkg].all(ctx, s.tests)
	if err == nil {
		return "", nil
	}
	var names []string
	for _, m := range failedTest.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s does not run with mutants of which none is on: %w\n%s", s.pkg, err, text)
	}
	pattern = strings.Join(names, "|")
	plain, err := b.asItIs(ctx, s.pkg)
	if err != nil {
		return "", err
	}
	if text, err := plain.all(ctx, pattern); err != nil {
		return "", fmt.Errorf("%s fails as it is: %w\n%s", s.pkg, err, text)
	}
	return pattern, nil
}
