package samples

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// A sample is a piece of Go code that a document shows. Its module is the folder of the go.mod that has what it imports.
type sample struct{ where, module, code string }

// body reports whether it is what stands in a function.
func (s sample) body() bool {
	return !strings.HasPrefix(s.code, "package ") && !strings.HasPrefix(s.code, "func Test")
}

// foreign is what tells the code of another library, which the migration notes show for comparison.
var foreign = regexp.MustCompile(`redsync\.|redislock\.|locker\.|semaphore\.NewWeighted|rs\.NewMutex`)

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// inDocuments finds the fenced Go code of the README and of docs/.
func inDocuments(t *testing.T) (out []sample) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, at := range fence.FindAllSubmatchIndex(text, -1) {
			line := 1 + strings.Count(string(text[:at[2]]), "\n")
			code, module := string(text[at[2]:at[3]]), root
			if foreign.MatchString(code) {
				module = filepath.Join(root, "bench") // which compares with those libraries
			}
			out = append(out, sample{fmt.Sprintf("%s:%d", filepath.Base(file), line), module, code})
		}
	}
	return out
}

// inPackagePages finds the indented code of the package comments: what go doc shows first.
func inPackagePages(t *testing.T) (out []sample) {
	t.Helper()
	for pattern, ownModule := range map[string]bool{"engine/doc.go": false, "engine/*/doc.go": false, "adapters/*/doc.go": true} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			require.NoError(t, err)
			rel, err := filepath.Rel(root, file)
			require.NoError(t, err)
			module := root
			if ownModule {
				module = filepath.Dir(file)
			}
			for i, code := range indented(parsed.Doc) {
				out = append(out, sample{fmt.Sprintf("%s#%d", filepath.ToSlash(rel), i+1), module, code})
			}
		}
	}
	return out
}

// indented are the pieces of a comment that go doc shows as code.
func indented(doc *ast.CommentGroup) (out []string) {
	var piece []string
	flush := func() {
		if len(piece) > 0 {
			out = append(out, strings.Join(piece, "\n")+"\n")
		}
		piece = nil
	}
	for line := range strings.Lines(doc.Text()) {
		line = strings.TrimRight(line, "\n")
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			piece = append(piece, code)
		} else {
			flush()
		}
	}
	flush()
	return out
}

// looksLikeGo tells code from tables and commands, which comments indent as well.
var looksLikeGo = regexp.MustCompile(`:=|func\(|\.Acquire|return |MustRegister`)

// all are the samples, those of one module beside each other.
func all(t *testing.T) (out []sample) {
	t.Helper()
	for _, s := range slices.Concat(inDocuments(t), inPackagePages(t)) {
		if looksLikeGo.MatchString(s.code) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b sample) int { return strings.Compare(a.module, b.module) })
	return out
}
