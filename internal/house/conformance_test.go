package house

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// page reads a file of the repository.
func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(b)
}

var (
	conformClass = regexp.MustCompile(`(?m)^\*\*(\w+)\*\*, asserted by ((?:` + "`" + `\w+` + "`" + `(?:, )?)+):\n((?:test\w*(?:,\s|\.\n))+)(?:Different: ([\w, ]+)\.\n)?`)
	conformCount = regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$`)
	conformTest  = regexp.MustCompile(`test\w*`)
)

// TestConformanceTableIsTrue: docs/REDISSON.md names only tests that exist in the suite, under the
// functions that are said to assert them, names each once, and counts right; the README counts the same.
func TestConformanceTableIsTrue(t *testing.T) {
	_, text, found := strings.Cut(page(t, "docs/REDISSON.md"), "## Conformance\n")
	require.True(t, found)
	suite := subtests{}
	for _, f := range goFiles(t) {
		if dir := path.Dir(f); strings.HasSuffix(f, "_test.go") && (dir == "engine/internal/lockstate" || dir == "engine/internal/suite/redisson") {
			suite.read(parse(t, f, parser.SkipObjectResolution))
		}
	}
	all, asserted, err := suite.conform(text)
	require.NoError(t, err)
	require.Positive(t, all)
	require.Contains(t, page(t, "README.md"), fmt.Sprintf("%d of Redisson's %d lock tests", asserted, all), "the README counts the same")
}

// subtests maps each function of a package's tests to what it runs.
type subtests map[string]*runs

// runs are the names of subtests that stand in a function, as keys of a table or as arguments of Run, and the functions
// that it calls.
type runs struct{ names, calls []string }

func (s subtests) read(f *ast.File) {
	for _, decl := range f.Decls {
		fn, is := decl.(*ast.FuncDecl)
		if !is || fn.Recv != nil || fn.Body == nil {
			continue
		}
		r := &runs{}
		s[fn.Name.Name] = r
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				r.literals(n.Key)
			case *ast.CallExpr:
				switch called := n.Fun.(type) {
				case *ast.Ident:
					r.calls = append(r.calls, called.Name)
				case *ast.SelectorExpr:
					if called.Sel.Name == "Run" && len(n.Args) == 2 {
						r.literals(n.Args[0])
					}
				}
			}
			return true
		})
	}
}

// literals notes the texts in an expression that names a subtest: of "Kind/testName" the last part.
func (r *runs) literals(e ast.Expr) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				r.names = append(r.names, text[strings.LastIndex(text, "/")+1:])
			}
		}
		return true
	})
}

// runs reports whether a function runs a subtest of this name, itself or through what it calls.
func (s subtests) runs(function, name string, seen map[string]bool) bool {
	r := s[function]
	if r == nil || seen[function] {
		return false
	}
	seen[function] = true
	return slices.Contains(r.names, name) || slices.ContainsFunc(r.calls, func(called string) bool { return s.runs(called, name, seen) })
}

// conform says what is wrong with a conformance table, and how many tests it has and says are asserted.
func (s subtests) conform(text string) (all, asserted int, err error) {
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	counts := map[string]string{}
	for _, row := range conformCount.FindAllStringSubmatch(text, -1) {
		counts[row[1]] = strings.Join(row[2:], " ")
	}
	for _, class := range conformClass.FindAllStringSubmatch(text, -1) {
		by := regexp.MustCompile(`\w+`).FindAllString(class[2], -1)
		for _, function := range by {
			if s[function] == nil || !strings.HasPrefix(function, "Test") {
				wrong("%s: there is no test %s", class[1], function)
			}
		}
		names, others := conformTest.FindAllString(class[3], -1), conformTest.FindAllString(class[4], -1)
		seen := map[string]bool{}
		for _, name := range append(slices.Clone(names), others...) {
			if seen[name] {
				wrong("%s names %s twice", class[1], name)
			}
			seen[name] = true
		}
		for _, name := range names {
			if !slices.ContainsFunc(by, func(function string) bool { return s.runs(function, name, map[string]bool{}) }) {
				wrong("%s: none of %v runs %s", class[1], by, name)
			}
		}
		for _, name := range others {
			if !strings.Contains(text, "*"+name+"*") {
				wrong("%s: no reason why %s is different", class[1], name)
			}
		}
		if is := fmt.Sprint(len(names)+len(others), len(names), len(others)); counts[class[1]] != is {
			wrong("%s has %s tests, and the table says %q", class[1], is, counts[class[1]])
		}
		delete(counts, class[1])
		all, asserted = all+len(names)+len(others), asserted+len(names)
	}
	for class := range counts {
		wrong("%s is counted and not listed", class)
	}
	sum := fmt.Sprintf("| **all** | **%d** | **%d** | **%d** |", all, asserted, all-asserted)
	if !strings.Contains(text, sum) {
		wrong("the sum is not %s", sum)
	}
	return all, asserted, err
}

// A table that is not true is refused, whatever is wrong with it.
func TestAFalseConformanceTableIsRefused(t *testing.T) {
	const code = `package engine_test
func TestLock(t *testing.T) { conform(t, shared()) }
func TestOther(t *testing.T) {
	t.Run(kind+"/testApart", nil)
	note("testNoted") // "testRemarked"
}
func shared() map[string]func() { return map[string]func(){"testLock": nil} }
func conform(t *testing.T, tests map[string]func()) {}
`
	const table = `| Redisson | tests | asserted | different |
|---|---|---|---|
| LockTest | 2 | 2 | 0 |
| OtherTest | 2 | 1 | 1 |
| **all** | **4** | **3** | **1** |

**LockTest**, asserted by ` + "`TestLock`, `TestOther`" + `:
testLock, testApart.

**OtherTest**, asserted by ` + "`TestOther`" + `:
testApart.
Different: testWeird.

*testWeird*: the reason.
`
	f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", code, parser.SkipObjectResolution)
	require.NoError(t, err)
	suite := subtests{}
	suite.read(f)
	all, asserted, err := suite.conform(table)
	require.NoError(t, err)
	require.Equal(t, []int{4, 3}, []int{all, asserted})
	for what, edit := range map[string][2]string{
		"runs testLock":              {"`TestOther`:\ntestApart.", "`TestOther`:\ntestLock."}, // another function runs it
		"runs testNoted":             {"testLock, testApart.", "testLock, testNoted."},        // a text, and no subtest
		"runs testRemarked":          {"testLock, testApart.", "testLock, testRemarked."},
		"no test TestGone":           {"`TestLock`, ", "`TestLock`, `TestGone`, "},
		"no test shared":             {"`TestLock`, ", "`TestLock`, `shared`, "},
		"twice":                      {"testLock, testApart.", "testLock, testLock."},
		"no reason":                  {"*testWeird*", "testWeird"},
		`says "3 2 0"`:               {"| LockTest | 2 | 2 | 0 |", "| LockTest | 3 | 2 | 0 |"},
		"the sum is not":             {"**4**", "**5**"},
		"MoreTest is counted":        {"| LockTest |", "| MoreTest | 1 | 1 | 0 |\n| LockTest |"},
		"OtherTest has 1 1 0 tests,": {"Different: testWeird.\n", ""},
	} {
		require.Equal(t, 1, strings.Count(table, edit[0]), "%s: the edit", what)
		_, _, err := suite.conform(strings.Replace(table, edit[0], edit[1], 1))
		require.ErrorContains(t, err, what)
	}
}
