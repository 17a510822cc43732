package generate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// firstLines are the candidates of a text as "op: new line".
func firstLines(t *testing.T, name, text string) []string {
	t.Helper()
	all, err := Of(name, text)
	require.NoError(t, err)
	var lines []string
	for _, c := range all {
		require.NotEqual(t, text, c.Text)
		lines = append(lines, c.Op+": "+c.New)
	}
	return lines
}

func TestGo(t *testing.T) {
	const head = "package p\n\nfunc f(a, b int) (bool, error) {\n\t"
	for text, want := range map[string][]string{
		"x := a < b":        {"boundary: x := a <= b"},
		"x := a == b && !c": {"negation: x := a != b && !c", "junction: x := a == b || !c", "negation: x := a == b && c"},
		"a += b":            {"arithmetic: a -= b"},
		"a++":               {"arithmetic: a--"},
		"x := a*b - 7": {
			"arithmetic: x := a/b - 7", "arithmetic: x := a*b + 7",
			"factor: x := a*b - (7 * 2)", "factor: x := a*b - (7 / 2)",
		},
		"x := 0":              {"number: x := 1"},
		"x := 1":              {"number: x := 2", "number: x := 0"},
		"g(a, b)":             {"call: _ = a; _ = b", "arguments: g(b, a)"},
		"s.g(a)":              {"call: _ = s.g; _ = a"},
		"defer s.g()":         {"call: _ = s.g"},
		"go func() { a() }()": {"call: _ = func() { a() }", "call: go func() {  }()"},
		"g(a, c...)":          {"call: _ = a; _ = c"},
		"x := max(a, b)":      nil,
		"delete(a, b)":        {"call: _ = a; _ = b"},
		"x = append(x, a, b)": {"arguments: x = append(x, b, a)"},
		"x = f(a, 'b')":       nil,
		`x = f("%d", a)`:      {`arguments: x = f(a, "%d")`},
		`x = s.Sf("%d", a)`:   nil,
		"w.Yield(a)":          nil,
		"return true, err":    {"answer: return false, err", "answer: return true, nil"},
		"for { continue }":    {"branch: for { break }"},
		"if c() { g() }":      {"branch: if (c()) && false { g() }", "branch: if (c()) || true { g() }", "call: if c() {  }"},
		"switch { case c: h = a }": {
			"branch: switch { case c: }",
		},
		"switch { case c: g() }": {"call: switch { case c:  }"},
	} {
		require.Equal(t, want, firstLines(t, "p.go", head+text+"\n}\n"), text)
	}
	require.Empty(t, firstLines(t, "p.go", "package p\n\nconst a = 1 < 2\n"), "bodies only")
	_, err := Of("p.go", "package")
	require.Error(t, err)
	_, err = Of("p.txt", "")
	require.ErrorContains(t, err, "neither")
}

func TestLua(t *testing.T) {
	for text, want := range map[string][]string{
		"if a < 2 then": {
			"boundary: if a <= 2 then", "branch: if (a < 2) and false then", "branch: if (a < 2) or true then",
			"factor: if a < (2 * 2) then", "factor: if a < (2 / 2) then",
		},
		"call('SET', k)":              {"call: "},
		"local x = a ~= 'b < 1' -- 1": {"negation: local x = a == 'b < 1' -- 1"},
		"--[[ a < 1\n b == 2 ]]":      nil,
		"return not x":                {"negation: return  x"},
		"x = a .. b":                  nil,
		"x = redis.call('GET', k)":    nil,
	} {
		got := firstLines(t, "p.lua", text)
		require.ElementsMatch(t, want, got, text)
	}
}

// Where a text moves, the id of a change stays.
func TestIDSaysWhatAndNotWhere(t *testing.T) {
	before, err := Of("p/p.go", "package p\n\nfunc f() int { return 0 }\n")
	require.NoError(t, err)
	after, err := Of("p/p.go", "package p\n\n// f.\n\nfunc f() int { return 0 }\n")
	require.NoError(t, err)
	require.Equal(t, "p/p.go: number: func f() int { return 0 } -> func f() int { return 1 }", before[0].ID())
	require.Equal(t, before[0].ID(), after[0].ID())
	require.Equal(t, []int{3, 5}, []int{before[0].Line, after[0].Line})
}

// A reason that is given for one place says nothing of another one with the same text.
func TestIDTellsEqualLinesApart(t *testing.T) {
	all, err := Of("p.go", "package p\n\nfunc f() int {\n\treturn 0\n}\n\nfunc g() int {\n\treturn 0\n}\n")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "p.go: number: return 0 -> return 1", all[0].ID())
	require.Equal(t, "p.go: number: return 0 -> return 1 (2)", all[1].ID())
}
