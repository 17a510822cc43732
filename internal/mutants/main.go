package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// How long the tests of a mutant may take. Whoever hangs as long has failed.
const (
	testLimit = 90 * time.Second
	hangLimit = 10 * time.Second // where they are expected to hang
)

func main() {
	pattern := flag.String("run", "", "only mutants whose id matches")
	list := flag.Bool("list", false, "list the mutants and end")
	root := flag.String("root", ".", "the tree to copy")
	sim := flag.Bool("sim", false, "let the simulation find them, not their tests")
	limit := flag.Duration("time", time.Minute, "with -sim: how long to look for each")
	asTable := flag.Bool("table", false, "with -sim: print a table")
	flag.Parse()
	var j *jury
	if *sim {
		j = &jury{limit: *limit, table: *asTable}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, task{os.Stdout, *root, *pattern, *list, j})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A task is what was asked for.
type task struct {
	out           io.Writer
	root, pattern string
	list          bool
	sim           *jury // nil: the mutants' tests are to find them
}

func run(ctx context.Context, t task) error {
	want, err := regexp.Compile(t.pattern)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range table() {
		if want.MatchString(m.id) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's id matches %q", t.pattern)
	}
	if t.list {
		for _, m := range chosen {
			say(t.out, "%-36s %s\n%36s %s %s\n", m.id, m.why, "", m.pkg, m.tests)
		}
		return nil
	}
	lab, err := newLab(ctx, t.root)
	if err != nil {
		return err
	}
	defer lab.close()
	if t.sim != nil {
		return lab.simulate(ctx, t.out, chosen, t.sim)
	}
	return lab.try(ctx, t.out, chosen)
}

// say reports. Nobody can act on what a terminal does with it.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// A lab is a copy of the tree, in which one mutant lives at a time.
type lab struct{ dir, tree, bin string }

// newLab copies the tree: the files of the root module, without what is hidden or built.
func newLab(ctx context.Context, root string) (*lab, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, tree: filepath.Join(dir, "tree"), bin: filepath.Join(dir, "bin")}
	if err := errors.Join(os.Mkdir(l.bin, 0o700), copyTree(ctx, root, l.tree)); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
}

// try lets the named tests pass once on what is not changed, and then every mutant fail.
func (l *lab) try(ctx context.Context, out io.Writer, chosen []mutant) error {
	begun := time.Now()
	if err := l.healthy(ctx, out, chosen); err != nil {
		return err
	}
	bad := 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for b := range l.builds(ctx, chosen) {
		at := time.Now()
		err := b.err
		if err == nil {
			err = l.judge(ctx, b)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "killed"
		if err != nil {
			verdict = "NOT KILLED"
			bad++
		}
		say(out, "%-10s  %-36s %4.1f s  %s\n", verdict, b.id, time.Since(at).Seconds(), b.pkg)
		if err != nil {
			say(out, "            %s\n            %v\n", b.why, err)
		}
	}
	say(out, "%d mutants, %d killed, %.0f s\n", len(chosen), len(chosen)-bad, time.Since(begun).Seconds())
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants were not killed", bad, len(chosen))
	}
	return nil
}

// A built is a mutant whose tests can run.
type built struct {
	mutant
	binary string
	err    error
}

// builds compiles one mutant after the other, the next one while the tests of the last run: the tests
// mostly wait, the compiler never does.
func (l *lab) builds(ctx context.Context, chosen []mutant) <-chan built {
	next := make(chan built)
	go func() {
		defer close(next)
		for i, m := range chosen {
			b := built{mutant: m, binary: filepath.Join(l.bin, strconv.Itoa(i)+".test")}
			b.err = l.breed(ctx, m, b.binary)
			select {
			case next <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	return next
}

// healthy runs the tests of all mutants on the copy as it is.
func (l *lab) healthy(ctx context.Context, out io.Writer, chosen []mutant) error {
	patterns := map[string][]string{}
	var folders []string
	for _, m := range chosen {
		if patterns[m.pkg] == nil {
			folders = append(folders, m.pkg)
		}
		patterns[m.pkg] = append(patterns[m.pkg], strings.Split(m.tests, "|")...)
	}
	for _, pkg := range folders {
		at := time.Now()
		binary := filepath.Join(l.bin, strings.ReplaceAll(pkg, "/", "-")+".test")
		if text, err := l.build(ctx, pkg, binary); err != nil {
			return fmt.Errorf("%s does not compile as it is: %w\n%s", pkg, err, text)
		}
		for _, part := range together(patterns[pkg]) {
			text, err := l.test(ctx, pkg, binary, part, 3*testLimit)
			if err != nil {
				return fmt.Errorf("%s fails as it is: %w\n%s", pkg, err, text)
			}
			if bytes.Contains(text, []byte("no tests to run")) {
				return fmt.Errorf("%s has no test %s", pkg, part)
			}
			if bytes.Contains(text, []byte("--- SKIP")) {
				return fmt.Errorf("a test of %s is skipped here, and proves nothing:\n%s", pkg, text)
			}
		}
		say(out, "as it is: %s passes, %.1f s\n", pkg, time.Since(at).Seconds())
	}
	return nil
}

// together joins the names of whole tests to one pattern; those of subtests stand alone.
func together(names []string) []string {
	var parts, whole []string
	seen := map[string]bool{}
	for _, n := range names {
		switch {
		case seen[n]:
		case strings.Contains(n, "/"):
			parts = append(parts, n)
		default:
			whole = append(whole, n)
		}
		seen[n] = true
	}
	if len(whole) > 0 {
		parts = append(parts, strings.Join(whole, "|"))
	}
	return parts
}

// breed applies a mutant, compiles it and takes it back.
func (l *lab) breed(ctx context.Context, m mutant, binary string) (err error) {
	undo, err := l.apply(m.edits)
	defer func() { err = errors.Join(err, undo()) }()
	if err != nil {
		return err
	}
	if text, err := l.build(ctx, m.pkg, binary); err != nil {
		return fmt.Errorf("it does not compile: %w\n%s", err, text)
	}
	return nil
}

// judge runs a mutant's tests. It answers nil if they failed.
func (l *lab) judge(ctx context.Context, b built) error {
	defer func() { _ = os.Remove(b.binary) }()
	limit := testLimit
	if b.hangs {
		limit = hangLimit
	}
	text, err := l.test(ctx, b.pkg, b.binary, b.tests, limit)
	switch {
	case err == nil:
		return fmt.Errorf("it survives %s", b.tests)
	case !failed(text):
		return fmt.Errorf("the tests did not run: %w\n%s", err, text)
	default:
		return nil
	}
}

// failed reports whether the output of a test binary is that of a test that failed, hung or panicked.
func failed(text []byte) bool {
	return bytes.Contains(text, []byte("--- FAIL: ")) || bytes.Contains(text, []byte("panic: ")) ||
		bytes.Contains(text, []byte("fatal error: "))
}

// apply changes the copy. undo puts back what was there, also when only part of it was done.
func (l *lab) apply(edits []edit) (undo func() error, err error) {
	before := map[string][]byte{}
	undo = func() error {
		var errs []error
		for file, text := range before {
			errs = append(errs, os.WriteFile(file, text, 0o600))
		}
		return errors.Join(errs...)
	}
	for _, e := range edits {
		file := filepath.Join(l.tree, filepath.FromSlash(e.file))
		text, err := os.ReadFile(file)
		if err != nil {
			return undo, err
		}
		changed, err := e.apply(string(text))
		if err != nil {
			return undo, err
		}
		if before[file] == nil {
			before[file] = text
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// apply makes the change in a file's text.
func (e edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("it does not apply: %s has %d times %q", e.file, n, e.old)
	}
	if e.old == e.new {
		return "", fmt.Errorf("it changes nothing in %s", e.file)
	}
	return strings.Replace(text, e.old, e.new, 1), nil
}

// build compiles the tests of a package. Without the place of the copy in it the build cache serves the
// next run, too.
func (l *lab) build(ctx context.Context, pkg, binary string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", binary, "./"+pkg)
	cmd.Dir = l.tree
	return cmd.CombinedOutput()
}

func (l *lab) test(ctx context.Context, pkg, binary, tests string, limit time.Duration) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.run", anchored(tests), "-test.failfast",
		"-test.v", "-test.timeout", limit.String())
	cmd.Dir = filepath.Join(l.tree, filepath.FromSlash(pkg))
	return cmd.CombinedOutput()
}

// anchored makes names of tests a pattern that matches nothing else.
func anchored(tests string) string {
	name, sub, ok := strings.Cut(tests, "/")
	if ok {
		return "^(" + name + ")$/^(" + sub + ")$"
	}
	return "^(" + tests + ")$"
}
