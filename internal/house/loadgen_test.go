package house

import (
	"go/parser"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const loadgen = "cmd/loadgen"

// parts are the packages below cmd/loadgen/internal. Each may import those before it.
var parts = []string{
	"format", "config", "meter", "pace", "topology", "report", "witness", "load", "contest", "chaos", "rival", "scenario",
}

func TestPartsOfTheLoadGeneratorImportOnlyThoseBeforeThem(t *testing.T) {
	const below = loadgen + "/internal/"
	for dir, imports := range importsOf(t) {
		part, ok := strings.CutPrefix(dir, below)
		if !ok {
			continue
		}
		at := slices.Index(parts, part)
		require.GreaterOrEqual(t, at, 0, "%s is not in the list", dir)
		for _, imp := range imports {
			other, ok := strings.CutPrefix(imp, module+"/"+below)
			require.True(t, !ok || slices.Index(parts, other) < at, "%s imports %s, which comes behind it", part, other)
		}
	}
}

// A load generator that comes with package testing would show that what starts servers needs tests again.
func TestTheLoadGeneratorComesWithoutTests(t *testing.T) {
	all, seen := importsOf(t), map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, imp := range all[dir] {
			require.NotEqual(t, "testing", imp, "%s imports it", dir)
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
				visit(ours)
			}
		}
	}
	visit(loadgen)
	require.True(t, seen["internal/redisproc"], "the walk has seen the servers")
}

// importsOf is what the code of each folder imports, tests aside.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		dir := path.Dir(f)
		for _, imp := range parse(t, f, parser.ImportsOnly).Imports {
			p, err := strconv.Unquote(imp.Path.Value)
			require.NoError(t, err)
			all[dir] = append(all[dir], p)
		}
	}
	return all
}
