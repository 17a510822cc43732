package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/mutants/generate"
)

var root = filepath.Join("..", "..")

// A mutant that no longer applies proves nothing, and nobody would notice before the next full run.
func TestEveryMutantAppliesToTheTreeAndNamesTestsThatExist(t *testing.T) {
	seen := map[string]bool{}
	tests := map[string]map[string]bool{}
	for _, m := range table() {
		require.False(t, seen[m.id], "two mutants are called %s", m.id)
		seen[m.id] = true
		require.NotEmpty(t, m.why, m.id)
		require.NotEmpty(t, m.edits, m.id)
		texts := map[string]string{}
		for _, e := range m.edits {
			if _, ok := texts[e.file]; !ok {
				text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
				require.NoError(t, err, m.id)
				texts[e.file] = string(text)
			}
			changed, err := e.apply(texts[e.file])
			if !assert.NoError(t, err, m.id) { // all of them at once: a text that is moved has many
				break
			}
			texts[e.file] = changed
		}
		if tests[m.pkg] == nil {
			tests[m.pkg] = testsOf(t, m.pkg)
		}
		for name := range strings.SplitSeq(m.tests, "|") {
			name, _, _ = strings.Cut(name, "/")
			require.True(t, tests[m.pkg][name], "%s: %s has no %s", m.id, m.pkg, name)
		}
	}
	require.GreaterOrEqual(t, len(seen), 20)
}

// A reason is given for a text: where that has changed, it has to be given anew.
func TestEveryEquivalentMutantIsOneThatWouldBeMade(t *testing.T) {
	made := map[string]map[string]bool{}
	for id, why := range equivalents() {
		require.NotEmpty(t, why, id)
		file, _, _ := strings.Cut(id, ": ")
		if made[file] == nil {
			made[file] = map[string]bool{}
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			require.NoError(t, err, id)
			all, err := generate.Of(file, string(text))
			require.NoError(t, err, id)
			for _, c := range all {
				made[file][c.ID()] = true
			}
		}
		assert.True(t, made[file][id], "nothing makes %q any more", id)
	}
}

func TestEveryFormForTheSimulationApplies(t *testing.T) {
	ids := map[string]bool{}
	for _, m := range table() {
		ids[m.id] = true
		texts := map[string]string{}
		for _, e := range m.simulatedEdits() {
			if _, ok := texts[e.file]; !ok {
				text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
				require.NoError(t, err, m.id)
				texts[e.file] = string(text)
			}
			changed, err := e.apply(texts[e.file])
			if !assert.NoError(t, err, m.id) { // all of them at once: a text that is moved has many
				break
			}
			texts[e.file] = changed
		}
	}
	for id := range simulatedForms() {
		require.True(t, ids[id], "no mutant is called %s", id)
		require.Empty(t, beyondTheSimulation()[id], "%s can be found, or cannot", id)
	}
	for id := range beyondTheSimulation() {
		require.True(t, ids[id], "no mutant is called %s", id)
	}
}

func TestWhatTheSimulationSaysIsUnderstood(t *testing.T) {
	m := simFailure.FindStringSubmatch(`    sim_run_test.go:58: seed 101: fair order: "g": one was served before another`)
	require.Equal(t, []string{"101", "fair order"}, []string{m[1], ruleIn(m[2])})
	require.Equal(t, "873", simEnd.FindStringSubmatch("sim: seeds 873, ops 328534, faults 21423")[1])
	require.Equal(t, "hangs", crashIn("panic: test timed out after 1m20s"))
	require.Equal(t, "panic: x", crashIn("panic: x"))
	require.Empty(t, crashIn("ok"))
}

func TestASampleIsTheSameForEverybodyAndAnotherOneEachDay(t *testing.T) {
	all := table()
	today := drawn(all, 20, "2026-11-22")
	require.Len(t, today, 20)
	require.Equal(t, table()[0].id, all[0].id, "the table stays in its order")
	backwards := table()
	slices.Reverse(backwards)
	ids := func(some []mutant) (all []string) {
		for _, m := range some {
			all = append(all, m.id)
		}
		return all
	}
	require.Equal(t, ids(today), ids(drawn(backwards, 20, "2026-11-22")))
	require.NotEqual(t, ids(today), ids(drawn(all, 20, "2026-11-23")))
	require.Len(t, drawn(all, len(all)+1, "x"), len(all))
}

func testsOf(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

func TestEditAppliesExactlyOnce(t *testing.T) {
	got, err := edit{"f", "b", "x"}.apply("abc")
	require.NoError(t, err)
	require.Equal(t, "axc", got)
	for text, e := range map[string]edit{
		"ac":  {"f", "b", "x"},
		"bab": {"f", "b", "x"},
		"abc": {"f", "b", "b"},
	} {
		_, err := e.apply(text)
		require.Error(t, err, text)
	}
}

// A small module stands for the tree.
func TestVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	tree := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module m\n\ngo 1.25\n",
		"p/p.go":        "package p\n\nconst base = 0\n\nfunc Double(n int) int { return base + n + n }\n",
		"p/p_test.go":   "package p\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(3) != 6 {\n\t\tt.Fatal()\n\t}\n}\nfunc TestNothing(t *testing.T) {}\nfunc TestBroken(t *testing.T) { t.Fatal() }\n",
		".git/HEAD":     "not copied",
		"bin/something": "nor this",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(tree, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(tree, name), []byte(text), 0o600))
	}
	l, err := newLab(t.Context(), tree)
	require.NoError(t, err)
	defer l.close()
	require.NoDirExists(t, filepath.Join(l.tree, ".git"))
	require.NoDirExists(t, filepath.Join(l.tree, "bin"))
	change := func(old, text string) []edit { return []edit{{"p/p.go", old, text}} }
	killed := mutant{"killed", "", change("n + n", "n * n"), "p", "TestDouble", false}
	alone := mutant{"alone", "", change("base = 0", "base = 1"), "p", "TestDouble", false}
	again := mutant{"again", "", change("n + n", "n - n"), "p", "TestDouble", false}
	var out strings.Builder
	require.NoError(t, l.try(t.Context(), &out, []mutant{killed, alone, again}, 2), out.String())
	require.Contains(t, out.String(), "3 mutants, 3 killed")
	require.Contains(t, out.String(), "2 mutants in 1 builds, 1 built alone")
	for text, m := range map[string]mutant{
		"survives":           {"bad", "", change("n + n", "n * n"), "p", "TestNothing", false},
		"it does not apply":  {"bad", "", change("n / n", "n * n"), "p", "TestDouble", false},
		"it changes nothing": {"bad", "", change("n + n", "n + n"), "p", "TestDouble", false},
		"does not compile":   {"bad", "", change("n + n", "m + n"), "p", "TestDouble", false},
	} {
		out.Reset()
		require.ErrorContains(t, l.try(t.Context(), &out, []mutant{killed, m, alone}, 2), "1 of 3", text)
		require.Contains(t, out.String(), text)
		require.Regexp(t, "NOT KILLED +bad", out.String(), text)
	}
	absent := mutant{"absent", "", change("n + n", "n * n"), "p", "TestAbsent", false}
	require.ErrorContains(t, l.try(t.Context(), &out, []mutant{absent}, 2), "no test")
	broken := mutant{"broken", "", change("n + n", "n * n"), "p", "TestBroken", false}
	require.ErrorContains(t, l.try(t.Context(), &out, []mutant{broken}, 2), "fails as it is")
	got, err := os.ReadFile(filepath.Join(tree, "p", "p.go"))
	require.NoError(t, err)
	require.Contains(t, string(got), "n + n", "the tree itself is never touched")
}
