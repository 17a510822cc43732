package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/internal/mutants/schema"
)

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
	return compile(ctx, l.tree, pkg, binary)
}

func compile(ctx context.Context, tree, pkg, binary string, more ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", binary}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = tree
	return cmd.CombinedOutput()
}

// A binary is the compiled tests of a package, and where they run.
type binary struct {
	file, dir string
	rapid     bool   // its tests would note what failed where the next run reads it
	skip      string // tests not to run, as a pattern
}

func (l *lab) binary(tree, pkg, file string) binary {
	b := binary{file: file, dir: filepath.Join(tree, filepath.FromSlash(pkg))}
	tests, _ := filepath.Glob(filepath.Join(b.dir, "*_test.go"))
	for _, name := range tests {
		text, err := os.ReadFile(name)
		b.rapid = b.rapid || err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	}
	return b
}

// test runs tests with a mutant that is on; 0: none of those in the binary.
func (b binary) test(ctx context.Context, on int, tests string, limit time.Duration) ([]byte, error) {
	return b.run(ctx, on, tests, limit, "-test.failfast")
}

// all runs tests with no mutant on, also those behind one that fails.
func (b binary) all(ctx context.Context, tests string) ([]byte, error) {
	return b.run(ctx, 0, tests, 3*testLimit)
}

// memory is what the tests of a mutant may take, in KiB: a loop without an end may well make something each time.
const memory = 6 << 20

func (b binary) run(ctx context.Context, on int, tests string, limit time.Duration, more ...string) ([]byte, error) {
	args := append([]string{"-test.run", anchored(tests), "-test.v", "-test.timeout", limit.String()}, more...)
	if b.rapid {
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms") // that it fails is enough
	}
	if b.skip != "" {
		args = append(args, "-test.skip", anchored(b.skip))
	}
	limited := fmt.Sprintf(`ulimit -v %d 2>/dev/null; exec "$0" "$@"`, memory)
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", limited, b.file}, args...)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), schema.Env+"="+strconv.Itoa(on))
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
