package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/seed-786ebc8c/holdfast"

// core lists, for every package the engine is made of, all that its code may import
// besides the standard library: packages of ours by their folder, others by their path.
// Tests are free. A package not listed is a helper beside the core: it may import
// what it likes, and the core may not import it.
var core = map[string][]string{
	"internal/clock": {"golang.org/x/sys"},
	"internal/world": {"internal/clock"},
	"internal/callback": {
		"internal/clock", "internal/world",
		"github.com/panjf2000/ants/v2",
	},
	"slot": {},
	"wheel": {
		"internal/clock", "internal/world",
		"github.com/RussellLuo/timingwheel",
	},
	"resp/pubsub": {"internal/clock", "internal/world", "github.com/redis/rueidis"}, // world: the profiler's labels
	"resp": {
		"resp/pubsub", "slot", "internal/clock", "internal/world",
		"github.com/redis/rueidis", "github.com/cespare/xxhash/v2", "golang.org/x/sys",
	},
	"renew": {
		"wheel", "resp", "slot", "internal/clock", "internal/world",
		"github.com/redis/rueidis", "github.com/cespare/xxhash/v2", "golang.org/x/sys",
	},
	"engine/internal/lockstate": {"internal/clock"},
	"engine": {
		"engine/internal/lockstate", "renew", "resp", "resp/pubsub", "wheel", "slot", "internal/callback", "internal/clock", "internal/world",
		"github.com/redis/rueidis",
		"github.com/cespare/xxhash/v2", "github.com/google/uuid", "github.com/minio/highwayhash", "golang.org/x/sys",
	},
}

func TestImports(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		dir := path.Dir(f)
		allowed, listed := core[dir]
		for _, imp := range parse(t, f, parser.ImportsOnly).Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			switch {
			case listed && !isStd(p) && !mayImport(allowed, p):
				t.Errorf("%s imports %q, which %s may not", f, p, dir)
			case !strings.HasPrefix(dir, "cmd/") && strings.HasPrefix(p, module+"/cmd/"):
				t.Errorf("%s imports the command %q", f, p)
			}
		}
	}
}

// mayImport reports whether p is one of allowed, or lies inside one that is not ours.
func mayImport(allowed []string, p string) bool {
	if ours, ok := strings.CutPrefix(p, module+"/"); ok {
		return slices.Contains(allowed, ours)
	}
	return slices.ContainsFunc(allowed, func(a string) bool {
		return p == a || strings.HasPrefix(p, a+"/")
	})
}

// isStd reports whether p is in the standard library: its first part has no dot.
func isStd(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

func TestMayImport(t *testing.T) {
	for _, tc := range []struct {
		dir, path string
		want      bool
	}{
		{"slot", module + "/resp", false},
		{"resp", module + "/slot", true},
		{"resp", module + "/engine", false},
		{"wheel", module + "/internal/clock", true},
		{"wheel", module + "/internal/clock/secret", false},
		{"engine", module + "/internal/redistest", false},
		{"engine", "github.com/redis/rueidis/internal/cmds", true},
		{"engine", "github.com/redis/rueidismock", false},
		{"engine", "github.com/RussellLuo/timingwheel", false},
		{"engine", "golang.org/x/sys/unix", true},
		{"engine", "golang.org/x/sync/errgroup", false},
	} {
		require.Equal(t, tc.want, mayImport(core[tc.dir], tc.path), "%s imports %s", tc.dir, tc.path)
	}
	require.True(t, isStd("crypto/rand"))
	require.False(t, isStd("golang.org/x/sys"))
}

// What is built stays out of the repository: a megabyte of text is more than any file here has.
func TestNoFileIsABinary(t *testing.T) {
	built := []string{".git", "bin", "loadgen", "cmd/loadgen/loadgen"} // as .gitignore has it
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if slices.Contains(built, filepath.ToSlash(name)) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() && info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		return err
	})
	require.NoError(t, err)
}

func TestEveryPackageHasADocGo(t *testing.T) {
	packages := make(map[string]bool) // folder: has its doc.go a package comment?
	for _, f := range goFiles(t) {
		dir := path.Dir(f)
		packages[dir] = packages[dir] ||
			path.Base(f) == "doc.go" && parse(t, f, parser.PackageClauseOnly|parser.ParseComments).Doc != nil
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !packages[dir] {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

// reference is how ARCHITECTURE.md names code: `dir/file.go`, `dir/file.go:Func`,
// `dir/file.go:Type` or `dir/file.go:Type.Method`, in backticks.
var reference = regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)(?::([A-Za-z_][A-Za-z0-9_]*(?:\\.[A-Za-z_][A-Za-z0-9_]*)?))?`")

func TestArchitectureNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	refs := reference.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, refs, "ARCHITECTURE.md names no code")
	for _, ref := range refs {
		file, name := ref[1], ref[2]
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			t.Errorf("%s: no such file", ref[0])
			continue
		}
		if name != "" && !slices.Contains(declared(parse(t, file, parser.SkipObjectResolution)), name) {
			t.Errorf("%s: %s declares no %s", ref[0], file, name)
		}
	}
}

// testName is how ARCHITECTURE.md names the test of a promise.
var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

func TestArchitectureNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	have := testFunctions(t)
	refs := testName.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, refs, "ARCHITECTURE.md names no tests")
	for _, ref := range refs {
		if have[ref[1]] == "" {
			t.Errorf("%s: no such test", ref[0])
		}
	}
}

// declared lists what a reference may name in f: functions, types, and the methods of
// types and interfaces as Type.Method.
func declared(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					names = append(names, ts.Name.Name)
					names = append(names, interfaceMethods(ts)...)
				}
			}
		}
	}
	return names
}

// receiver returns "Type." for a method, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr: // Type[T]
			e = x.X
		case *ast.IndexListExpr: // Type[K, V]
			e = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

func interfaceMethods(ts *ast.TypeSpec) []string {
	it, ok := ts.Type.(*ast.InterfaceType)
	if !ok {
		return nil
	}
	var names []string
	for _, m := range it.Methods.List {
		for _, n := range m.Names {
			names = append(names, ts.Name.Name+"."+n.Name)
		}
	}
	return names
}

func TestDeclared(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
type Future[T any] struct{}
func (f *Future[T]) Await() {}
type pair[K, V any] struct{}
func (pair[K, V]) get() {}
type Sender interface { Send(); comparable }
func Open() {}
const c = 1
`, parser.SkipObjectResolution)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"Future", "Future.Await", "pair", "pair.get", "Sender", "Sender.Send", "Open",
	}, declared(f))
}

// root is the top of the repository, seen from this package.
var root = filepath.Join("..", "..")

// goFiles lists the Go files of the root module, with slashes and seen from root.
// Modules inside it (bench, tools, interop), hidden folders and testdata are not of it.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		if d.IsDir() {
			return skipped(p, d.Name())
		}
		if filepath.Ext(p) == ".go" {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// skipped returns fs.SkipDir for a folder whose files are not of the root module.
func skipped(dir, name string) error {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	nested := err == nil
	if nested || name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	return nil
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(file)), nil, mode)
	require.NoError(t, err)
	return f
}

// TestTheMutexOfAShardIsTheSections keeps everybody else from taking it: what needs it is a method of the section.
func TestTheMutexOfAShardIsTheSections(t *testing.T) {
	mutexes := map[string][]string{
		"engine/core.go":  {"sh", "sc.at"},
		"engine/stats.go": {"s", "e.renewals"}, "engine/lock.go": {"o"}, "engine/joint.go": {"js", "e.joints"}, "engine/multilease.go": {"ml"},
		"engine/redlease.go": {"rl", "v"}, "engine/contention.go": {"all"}, "engine/loss.go": {"r"},
	}
	files, err := filepath.Glob(filepath.Join(root, "engine", "*.go"))
	require.NoError(t, err)
	methods, engines := 0, 0
	for _, path := range files {
		name := "engine/" + filepath.Base(path)
		if !built(t, path) {
			continue
		}
		for _, decl := range parse(t, name, parser.SkipObjectResolution).Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			require.False(t, strings.HasSuffix(fn.Name.Name, "Locked"), "%s: %s is to be a method of the section", name, fn.Name.Name)
			switch {
			case fn.Recv != nil && receiver(fn) == "section.":
				methods++
			case fn.Recv != nil && receiver(fn) == "Engine.":
				engines++
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "mu" {
					of := types.ExprString(sel.X)
					require.Contains(t, mutexes[name], of, "%s: %s: %s.mu is none of those that are known here", name, fn.Name.Name, of)
				}
				return true
			})
		}
	}
	require.Greater(t, methods, 80, "the section's methods are found")
	require.LessOrEqual(t, engines, 36, "the engine is a list of what it offers, and of what it is made of; the rest has a subject")
}

// Who uses the engine meets no type of the packages below it, but by a name that the engine gives it and documents.
func TestTheEngineExportsNoTypeFromBelow(t *testing.T) {
	below := []string{"resp", "renew", "wheel", "pubsub"}
	files, err := filepath.Glob(filepath.Join(root, "engine", "*.go"))
	require.NoError(t, err)
	looked, aliases := 0, 0
	for _, path := range files {
		name := "engine/" + filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		clean := func(what string, n ast.Node) {
			looked++
			ast.Inspect(n, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := sel.X.(*ast.Ident); ok && slices.Contains(below, of.Name) {
						t.Errorf("%s: %s shows %s.%s", name, what, of.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
		for _, decl := range parse(t, name, parser.SkipObjectResolution|parser.ParseComments).Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if of := receiver(d); d.Name.IsExported() && (of == "" || ast.IsExported(of)) {
					clean(of+d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok || !s.Name.IsExported() {
						continue
					}
					if s.Assign.IsValid() {
						aliases++
						require.NotNil(t, d.Doc, "%s: %s", name, s.Name.Name)
						continue
					}
					if fields, ok := s.Type.(*ast.StructType); ok {
						for _, f := range fields.Fields.List {
							if len(f.Names) > 0 && f.Names[0].IsExported() {
								clean(s.Name.Name+"."+f.Names[0].Name, f.Type)
							}
						}
						continue
					}
					clean(s.Name.Name, s.Type)
				}
			}
		}
	}
	require.Greater(t, looked, 80, "what is exported is found")
	require.Greater(t, aliases, 3)
}

// TestMachinesArePure keeps the machines that decide about a lock free of what they are told from
// outside: the time, mutexes, timers, commands, goroutines.
func TestMachinesArePure(t *testing.T) {
	impure := []string{"Now", "Since", "Sleep", "Submit", "Schedule", "Cancel", "Lock", "Unlock", "Watch", "N", "IntN"}
	machines := []string{"engine/wish.go"}
	for _, f := range goFiles(t) {
		if path.Dir(f) == "engine/internal/lockstate" && !strings.HasSuffix(f, "_test.go") {
			machines = append(machines, f)
		}
	}
	require.Greater(t, len(machines), 7)
	for _, f := range machines {
		file := parse(t, f, parser.SkipObjectResolution)
		for _, imp := range file.Imports {
			require.NotContains(t, []string{`"sync"`, `"context"`, `"math/rand/v2"`, `"` + module + `/wheel"`}, imp.Path.Value, f)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s: a machine runs nothing and waits for nothing", f)
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(impure, sel.Sel.Name) {
					t.Errorf("%s: a machine does not call %s", f, sel.Sel.Name)
				}
			}
			return true
		})
	}
}
