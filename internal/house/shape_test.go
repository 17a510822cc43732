package house

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// layers are the files of the engine, from what a caller sees down to what everybody knows. A file that uses a name of one
// above it is an arrow upward.
var layers = []string{
	"doc.go", "group.go", "groupvalues.go", "permits.go", "barrier.go", "latch.go", "semaphore.go", "redlock.go", "redlease.go",
	"multi.go", "gather.go", "multilease.go", "fair.go", "force.go",
	"counted.go", "attempt.go", "meeting.go", "release.go", "engine.go", "wait.go", "loss.go",
	"acquire.go", "trace.go", "joint.go", "lease.go", "inspect.go", "readwrite.go", "cleanup.go", "reentry.go", "stats.go", "family.go",
	"request.go", "lock.go", "children.go", "core.go", "contention.go", "wish.go", "config.go", "borrowed.go", "options.go", "future.go", "errors.go",
}

// What was reached. A change may lower them.
const (
	mostArrows = 301
	mostUpward = 42
)

// TestArrowsBetweenTheFilesOfTheEngine counts pairs of files of which one uses a name that the other declares: a type, a
// function, a method, a variable, a constant; no field. -v lists them with the names.
func TestArrowsBetweenTheFilesOfTheEngine(t *testing.T) {
	arrows, files := arrowsOf(t, "./engine")
	at := make(map[string]int)
	for i, name := range layers {
		at[name] = i
	}
	require.ElementsMatch(t, layers, files, "each file has its layer")
	upward := 0
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int {
		return at[a.from]*len(layers) + at[a.to] - at[b.from]*len(layers) - at[b.to]
	}) {
		direction := " "
		if at[a.to] < at[a.from] {
			upward++
			direction = "^"
		}
		t.Log(direction, a.from, "->", a.to, slices.Sorted(maps.Keys(arrows[a])))
	}
	t.Logf("%d files, %d arrows, %d upward", len(files), len(arrows), upward)
	require.LessOrEqual(t, len(arrows), mostArrows)
	require.LessOrEqual(t, upward, mostUpward)
	require.Greater(t, len(arrows), mostArrows*3/4, "the bound is to be lowered")
}

// An arrow is a file that uses names of another one.
type arrow struct{ from, to string }

// arrowsOf finds the arrows of a package, with the names that make each.
func arrowsOf(t *testing.T, pkg string) (arrows map[arrow]map[string]bool, files []string) {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if !built(t, path) {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed, files = append(parsed, f), append(files, filepath.Base(path))
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", exported(t, pkg))}
	checked, err := conf.Check(pkg, fset, parsed, info)
	require.NoError(t, err)
	arrows = make(map[arrow]map[string]bool)
	for id, used := range info.Uses {
		if used.Pkg() != checked || !common(used, checked.Scope()) {
			continue
		}
		a := arrow{base(fset, id.Pos()), base(fset, used.Pos())}
		if a.from == a.to {
			continue
		}
		if arrows[a] == nil {
			arrows[a] = make(map[string]bool)
		}
		arrows[a][used.Name()] = true
	}
	return arrows, files
}

// built reports whether a file is part of its package: it is no test, and no tag has to be given for it.
func built(t *testing.T, path string) bool {
	t.Helper()
	dir, name := filepath.Split(path)
	matches, err := build.Default.MatchFile(dir, name)
	require.NoError(t, err)
	return matches && !strings.HasSuffix(name, "_test.go")
}

func base(fset *token.FileSet, at token.Pos) string { return filepath.Base(fset.Position(at).Filename) }

// common reports whether a name can be used by other files: it is the package's, or a method.
func common(used types.Object, scope *types.Scope) bool {
	if fn, ok := used.(*types.Func); ok && fn.Signature().Recv() != nil {
		return true
	}
	return used.Parent() == scope
}

// exported finds what the compiler has written of the packages that one imports.
func exported(t *testing.T, pkg string) func(path string) (io.ReadCloser, error) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", pkg)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	at := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct{ ImportPath, Export string }
		require.NoError(t, dec.Decode(&p))
		at[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(at[path]) }
}

// formed is what the rules of form are for.
var formed = []string{"engine", "engine/internal/lockstate", "resp", "resp/pubsub", "renew", "wheel", "slot", "internal/callback"}

// sources lists the files of a package that are no tests.
func sources(t *testing.T, pkg string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	require.NoError(t, err)
	paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	require.NotEmpty(t, paths, pkg)
	return paths
}

// TestFunctionsAreShort: no function of the core has more than 70 lines or more than four parameters.
func TestFunctionsAreShort(t *testing.T) {
	for _, pkg := range formed {
		for _, path := range sources(t, pkg) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
				if lines > 70 {
					t.Errorf("%s: %s has %d lines", path, fn.Name.Name, lines)
				}
				if n := fn.Type.Params.NumFields(); n > 4 {
					t.Errorf("%s: %s has %d parameters", path, fn.Name.Name, n)
				}
			}
		}
	}
}

// TestFunctionsSayWhy counts the lines of comments inside functions: at least 2.5 for 100 lines, in each package of the
// core. It cannot tell whether they say more than the code; a reviewer can.
func TestFunctionsSayWhy(t *testing.T) {
	for _, pkg := range formed {
		lines, comments := 0, 0
		for _, path := range sources(t, pkg) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
			require.NoError(t, err)
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				lines += fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
				for _, group := range f.Comments {
					if group.Pos() < fn.Body.Pos() || group.End() > fn.Body.End() {
						continue
					}
					for _, c := range group.List {
						if !strings.HasPrefix(c.Text, "//nolint") {
							comments++
						}
					}
				}
			}
		}
		t.Logf("%s: %d comments in %d lines", pkg, comments, lines)
		require.GreaterOrEqual(t, 200*comments, 5*lines, pkg)
	}
}

// TestLinesAreShort: no line of the core has more than 120 characters; a tab is one.
func TestLinesAreShort(t *testing.T) {
	for _, pkg := range formed {
		for _, path := range sources(t, pkg) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			for i, line := range strings.Split(string(text), "\n") {
				if n := utf8.RuneCountInString(line); n > 120 {
					t.Errorf("%s:%d has %d characters", path, i+1, n)
				}
			}
		}
	}
}

// TestTheWalkIsShort counts the stops of the path of one acquire, each of which is one function.
func TestTheWalkIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	_, walk, found := strings.Cut(string(text), "\n## The path of one acquire\n")
	require.True(t, found)
	walk, _, _ = strings.Cut(walk, "\n## ")
	stops := regexp.MustCompile("(?m)^\\| ([0-9]+) \\| `([a-z/]+\\.go:[A-Za-z.]+)` \\| ").FindAllStringSubmatch(walk, -1)
	require.Equal(t, strings.Count(walk, "\n| ")-1, len(stops), "each row names one function") // but for the heading
	require.Less(t, 8, len(stops))
	require.LessOrEqual(t, len(stops), 12)
	for i, stop := range stops {
		require.Equal(t, strconv.Itoa(i+1), stop[1])
	}
}
