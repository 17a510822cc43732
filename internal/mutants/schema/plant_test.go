package schema

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const program = `package main

import (
	_ "embed"
	"fmt"
	"os"
)

//go:embed word.txt
var word string

const limit = 3

// shout is made of the word before anything runs.
var shout = word + "!"

type pair[T any] struct{ a, b T }

func (p pair[T]) swapped() (x, y T) { return p.b, p.a }

func first[T any](all ...T) T { return all[0] }

func ignores(_ int, _, n int) int { return n }

func (pair[T]) name(string) string { return "pair" }

func add(sum *int, n int) { *sum += n }

func saved() (out string) {
	defer func() {
		if recover() != nil {
			out = "saved"
		}
	}()
	defer catch()
	panic("x")
}

func catch() { _ = recover() }

func main() {
	p := pair[int]{1, 2}
	a, b := p.swapped()
	sum := 0
	add(&sum, limit)
	fmt.Print(shout, a, b, first(7, 8), ignores(1, 2, 3), p.name(""), sum, saved())
	os.Exit(0)
}
`

// One build answers as each of its mutants would.
func TestOneBuildIsEachOfItsMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	tree := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module m\n\ngo 1.25\n", "p/main.go": program, "p/word.txt": "hey"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(tree, name), []byte(content), 0o600))
	}
	change := func(old, text string) map[string]string {
		require.Equal(t, 1, strings.Count(program, old), old)
		return map[string]string{"p/main.go": strings.Replace(program, old, text, 1)}
	}
	const asItIs = "hey!2 1 7 3pair3"
	cases := []struct {
		files map[string]string
		want  string // "": it has to be built alone
	}{
		{change("return p.b, p.a", "return p.a, p.b"), "hey!1 2 7 3pair3"},
		{change("return all[0]", "return all[1]"), "hey!2 1 8 3pair3"},
		{change("{ return n }", "{ return -n }"), "hey!2 1 7 -3pair3"},
		{change(`return "pair"`, `return "pear"`), "hey!2 1 7 3pear3"},
		{change("*sum += n", "*sum -= n"), "hey!2 1 7 3pair-3"},
		{change("*sum += n", "*sum += n + 1"), "hey!2 1 7 3pair4"},
		{map[string]string{"p/word.txt": "ho"}, "ho!2 1 7 3pair3"},
		{change("limit = 3", "limit = 4"), ""},
		{change("{ _ = recover() }", "{ r := recover(); _ = r }"), ""},
		{change("p := pair[int]{1, 2}", "p := pair[int]{5, 2}"), ""},
		{change("func add(sum *int, n int)", "func add(sum *int, n int,)"), ""},
		{map[string]string{"go.mod": "module m\n"}, ""},
		{change("return n }", "return } }"), ""},
	}
	var mutants []Mutant
	var alone []int
	for i, c := range cases {
		mutants = append(mutants, Mutant{i + 1, c.files})
		if c.want == "" {
			alone = append(alone, i+1)
		}
	}
	got, err := Plant(tree, mutants)
	require.NoError(t, err)
	require.Equal(t, alone, got)
	binary := filepath.Join(tree, "it")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./p")
	build.Dir = tree
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	run := func(on string) string {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), Env+"="+on)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, string(text))
		return string(text)
	}
	require.Equal(t, asItIs, run(""))
	require.Equal(t, asItIs, run("99"))
	for i, c := range cases {
		if c.want != "" {
			require.Equal(t, c.want, run(strconv.Itoa(i+1)), "mutant %d", i+1)
		}
	}
}

func TestTheMutantAtALineIsFound(t *testing.T) {
	tree := t.TempDir()
	before := "package p\n\nfunc f() int {\n\treturn 1\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(tree, "p.go"), []byte(before), 0o600))
	alone, err := Plant(tree, []Mutant{{4, map[string]string{"p.go": strings.Replace(before, "1", "wrong", 1)}}})
	require.NoError(t, err)
	require.Empty(t, alone)
	text, err := os.ReadFile(filepath.Join(tree, "p.go"))
	require.NoError(t, err)
	line := strings.Count(string(text[:strings.Index(string(text), "wrong")]), "\n") + 1
	require.Equal(t, 4, At(tree, "p.go", line))
	require.Zero(t, At(tree, "p.go", 4))
	require.Zero(t, At(tree, "absent.go", 4))
}
