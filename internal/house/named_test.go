package house

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A named is a test that a command names.
type named struct{ pkg, test, kind, tag string } // kind: Test or Fuzz; tag: what -tags says, or ""

// exactly is a pattern that matches the tests it names and nothing else.
var exactly = regexp.MustCompile(`^\^(?:(\w+)|\((\w+(?:\|\w+)*)\))\$$`)

// commandEnd is where one command of a shell ends and the next begins.
var commandEnd = regexp.MustCompile(`&&|\|\||;`)

// namedTests lists the tests that the commands of a makefile or a script name with -run and -fuzz. The go command
// exits with 0 where such a name matches nothing, so each has to be there to be looked up: as a word, not as a pattern.
func namedTests(text string) (all []named, err error) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	text = strings.ReplaceAll(text, "$$", "$")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		in := ""
		for _, command := range commandEnd.Split(line, -1) {
			fields := strings.Fields(command)
			if len(fields) > 1 && strings.TrimPrefix(fields[0], "@") == "cd" {
				in = fields[1]
				continue
			}
			some, err := namedBy(fields, in)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", strings.TrimSpace(command), err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// namedBy lists the tests that one command names, which runs in a folder if that is not "".
func namedBy(fields []string, in string) (all []named, err error) {
	pkg, tag := in, ""
	for i, field := range fields {
		if i > 0 && fields[i-1] == "-tags" {
			tag = field
		}
		if i > 0 && fields[i-1] == "run" && strings.HasPrefix(field, "./") {
			return nil, nil // go run: the flags are those of a program of ours
		}
		if rest, ok := strings.CutPrefix(field, "./"); ok {
			pkg = path.Clean(rest)
		}
	}
	for i, field := range fields {
		flag, value, given := strings.Cut(field, "=")
		kind := map[string]string{"-run": "Test", "-test.run": "Test", "-fuzz": "Fuzz", "-test.fuzz": "Fuzz"}[flag]
		if kind == "" {
			continue
		}
		if !given && i+1 < len(fields) {
			value = fields[i+1]
		}
		value = strings.Trim(value, `'"`)
		if value == "^$" {
			continue
		}
		m := exactly.FindStringSubmatch(value)
		if m == nil {
			return nil, fmt.Errorf("%[1]s matches whatever there is: write %[2]s '^%[3]sOne$' or '^(%[3]sOne|%[3]sOther)$'", value, flag, kind)
		}
		for name := range strings.SplitSeq(m[1]+m[2], "|") {
			all = append(all, named{pkg, name, kind, tag})
		}
	}
	if len(all) > 0 && pkg == "" {
		return nil, errors.New("it names tests, and not the package that has them")
	}
	return all, nil
}

// check says what is wrong with a name; nil if the go command would run that test.
func (n named) check(t *testing.T) error {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(n.pkg), "*_test.go"))
	require.NoError(t, err)
	tagged := build.Default
	tagged.BuildTags = append(slices.Clone(tagged.BuildTags), n.tag)
	for _, file := range files {
		if ok, err := tagged.MatchFile(filepath.Dir(file), filepath.Base(file)); err != nil || !ok {
			continue
		}
		rel, err := filepath.Rel(root, file)
		require.NoError(t, err)
		for _, d := range parse(t, filepath.ToSlash(rel), parser.SkipObjectResolution).Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == n.test && strings.HasPrefix(n.test, n.kind) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s has no %s function %s: the command would run nothing, and pass", n.pkg, n.kind, n.test)
}

// make sim, soak and fuzz, and all else that chooses tests by name, would pass if the name were gone.
func TestCommandsNameTestsThatExist(t *testing.T) {
	files := []string{filepath.Join(root, "Makefile"), filepath.Join(root, ".ci", "run")}
	scripts, err := filepath.Glob(filepath.Join(root, "tools", "*.sh"))
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, file := range append(files, scripts...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all, err := namedTests(string(text))
		require.NoError(t, err, file)
		for _, n := range all {
			require.NoError(t, n.check(t), file)
		}
	}
}

// Whoever writes a command in a way that is not understood must not slip through.
func TestCommandsOfTheMakefileAreUnderstood(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	for target, least := range map[string]int{"sim": 1, "soak": 1, "fuzz": 4} {
		recipe := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(string(text))
		require.NotNil(t, recipe, target)
		all, err := namedTests(recipe[1])
		require.NoError(t, err, target)
		require.GreaterOrEqual(t, len(all), least, "make %s names its tests", target)
	}
}

func TestNamedTests(t *testing.T) {
	for text, want := range map[string][]named{
		"\t$(GO) test ./engine -run '^TestA$$' -count=1\n":                       {{"engine", "TestA", "Test", ""}},
		"\tX=1 go test -run='^(TestA|TestB)$$' ./resp/pubsub":                    {{"resp/pubsub", "TestA", "Test", ""}, {"resp/pubsub", "TestB", "Test", ""}},
		"\t@cd engine && ../bin/x.test -test.run '^TestA$$' \\\n\t\t-test.v; ls": {{"engine", "TestA", "Test", ""}},
		"\t@set -e; go test ./resp -run '^$$' -fuzz \"^FuzzA$$\" -fuzztime 10x":  {{"resp", "FuzzA", "Fuzz", ""}},
		"\tgo test ./a -run '^TestA$$'; \\\n\tgo test ./b -run '^TestA$$'":       {{"a", "TestA", "Test", ""}, {"b", "TestA", "Test", ""}},
		"\tgo test -tags some ./a -run '^TestA$$'":                               {{"a", "TestA", "Test", "some"}},
		"\tgo run ./internal/mutants -run '$(RUN)'":                              nil,
		"\tgo test ./resp -run '^$$' -bench . -count 1":                          nil,
		"# go test ./resp -run 'Test'\n":                                         nil,
		"step make sim TIME=60s":                                                 nil,
	} {
		got, err := namedTests(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"go test ./engine -run 'TestHistory'",         // its beginning: another test may have it
		"go test ./engine -run 'TestSim$'",            // its end
		"go test ./engine -run '^Test.*$'",            // whatever there is
		"go test ./engine -fuzz \"^${target%:*}\\$\"", // only the shell knows
		"cd engine && go vet\ngo test -run '^TestA$'", // in which package?
		"go test -run '^TestA$'",                      // in which package?
	} {
		_, err := namedTests(text)
		require.Error(t, err, text)
	}
	for n, wrong := range map[named]bool{
		{"internal/house", "TestNamedTests", "Test", ""}:                                                  false,
		{"internal/house", "TestNamedTest", "Test", ""}:                                                   true, // renamed
		{"internal/house", "exactly", "Test", ""}:                                                         true,
		{"internal/house", "TestNamedTests", "Fuzz", ""}:                                                  true,
		{"internal/mutants", "TestNamedTests", "Test", ""}:                                                true, // moved
		{"engine/internal/suite/family", "TestAFamilyThatIsAddedIsALock", "Test", ""}:                     true, // no tag
		{"engine/internal/suite/family", "TestAFamilyThatIsAddedIsALock", "Test", "holdfast_family_demo"}: false,
		{"resp", "FuzzReplyGuard", "Fuzz", ""}:                                                            false,
	} {
		require.Equal(t, wrong, n.check(t) != nil, n)
	}
}

// TestMutantsAreMadeOfFilesThatExist: each alternative of a FILES= in docs/TESTING.md matches a file.
func TestMutantsAreMadeOfFilesThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "TESTING.md"))
	require.NoError(t, err)
	var files []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
		return err
	}))
	looked := 0
	for _, m := range regexp.MustCompile(`FILES='([^']*)'`).FindAllStringSubmatch(string(text), -1) {
		pattern := strings.NewReplacer(`\|`, `|`, `$$`, `$`).Replace(m[1])
		before, rest, _ := strings.Cut(pattern, "(")
		group, after, grouped := strings.Cut(rest, ")")
		if !grouped {
			before, group, after = pattern, "", ""
		}
		for _, one := range strings.Split(group, "|") {
			looked++
			matches := regexp.MustCompile(before + one + after).MatchString
			require.True(t, slices.ContainsFunc(files, matches), "FILES='%s': no file for %q", m[1], one)
		}
	}
	require.Greater(t, looked, 10)
}
