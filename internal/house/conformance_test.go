package house

import (
	"os"
	"path/filepath"
	"regexp"
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
	conformClass = regexp.MustCompile(`(?m)^\*\*(\w+)\*\*, asserted by ((?:` + "`" + `\w+` + "`" + `(?:, )?)+):\n((?:test\w+(?:,\s|\.\n))+)(?:Different: ([\w, ]+)\.\n)?`)
	conformCount = regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|$`)
	conformTest  = regexp.MustCompile(`test\w+`)
)

// TestConformanceTableIsTrue: docs/REDISSON.md names only tests that exist in the engine's suite, names each
// once, and counts right; the README counts the same.
func TestConformanceTableIsTrue(t *testing.T) {
	text := page(t, "docs/REDISSON.md")
	_, text, found := strings.Cut(text, "## Conformance\n")
	require.True(t, found)
	suite := ""
	files, err := filepath.Glob(filepath.Join(root, "engine", "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		suite += string(b)
	}

	counts := map[string][3]int{}
	for _, row := range conformCount.FindAllStringSubmatch(text, -1) {
		var n [3]int
		for i := range n {
			n[i], err = strconv.Atoi(row[i+2])
			require.NoError(t, err)
		}
		counts[row[1]] = n
	}
	all, asserted, different := 0, 0, 0
	for _, class := range conformClass.FindAllStringSubmatch(text, -1) {
		for _, by := range regexp.MustCompile(`\w+`).FindAllString(class[2], -1) {
			require.Contains(t, suite, "func "+by+"(", "%s", class[1])
		}
		names := conformTest.FindAllString(class[3], -1)
		seen := map[string]bool{}
		for _, name := range names {
			require.False(t, seen[name], "%s names %s twice", class[1], name)
			seen[name] = true
			require.Contains(t, suite, name+`"`, "%s: no test of this name", class[1])
		}
		others := conformTest.FindAllString(class[4], -1)
		for _, name := range others {
			require.False(t, seen[name])
			require.Contains(t, text, "*"+name+"*", "the reason why it is different")
		}
		require.Equal(t, [3]int{len(names) + len(others), len(names), len(others)}, counts[class[1]], "the count of %s", class[1])
		delete(counts, class[1])
		all, asserted, different = all+len(names)+len(others), asserted+len(names), different+len(others)
	}
	require.Empty(t, counts, "counted and not listed")
	require.Positive(t, all)
	sum := "| **all** | **" + strconv.Itoa(all) + "** | **" + strconv.Itoa(asserted) + "** | **" + strconv.Itoa(different) + "** |"
	require.Contains(t, text, sum)
	require.Contains(t, page(t, "README.md"), strconv.Itoa(asserted)+" of Redisson's "+strconv.Itoa(all)+" lock tests", "the README counts the same")
}
