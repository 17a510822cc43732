package samples

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const root = "../.."

// A sample is a piece of Go code that a document shows.
type sample struct{ where, code string }

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
			out = append(out, sample{fmt.Sprintf("%s:%d", filepath.Base(file), line), string(text[at[2]:at[3]])})
		}
	}
	return out
}

// inPackagePages finds the indented code of the package comments: what go doc shows first.
func inPackagePages(t *testing.T) (out []sample) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "engine", "*", "doc.go"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(root, "engine", "doc.go")) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		for i, code := range indented(parsed.Doc) {
			rel, err := filepath.Rel(root, file)
			require.NoError(t, err)
			out = append(out, sample{fmt.Sprintf("%s, sample %d", rel, i+1), code})
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
		} else if line != "" || len(piece) == 0 {
			flush()
		}
	}
	flush()
	return out
}

// looksLikeGo tells code from tables and commands, which comments indent as well.
var looksLikeGo = regexp.MustCompile(`:=|func\(|\.Acquire|return `)

// around is what a reader has around a piece of code: the names that the documents use.
const around = `package main

import (
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/election"
)

var (
	_ = pprof.Do
	_ = strings.Cut
	_ = errors.Is
	_ = time.Second
	_ = election.New
)

type writer interface{ Write(context.Context, string, int64) error }

func use(context.Context) {}

func sample(store writer, value string, cfg engine.Config, orders *engine.Lock, ctx context.Context, eng *engine.Engine, lock *engine.Lock, work func(context.Context) error,
	schedule func(context.Context, int64) error) error {
%s
	return nil
}

func main() {}
`

// aroundTest is what a test that a document shows has around it.
const aroundTest = `package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
)

var (
	ctx    context.Context
	report struct{ Run func(context.Context, *engine.Engine) error }
)

%s

func main() {}
`

// dots puts code where a document leaves it out.
var dots = strings.NewReplacer("{ ... }", "{ panic(0) }", "\n...\n", "\n")

// apart puts each piece that declares a name again into a block of its own.
func apart(code string) string {
	var out []string
	for _, part := range strings.Split(code, "\n\n") {
		out = append(out, "{\n"+part+"\n}")
	}
	return strings.Join(out, "\n")
}

// unused is what a compiler says of a sample that is not a program.
var unused = regexp.MustCompile(`declared and not used|imported and not used|no new variables on left side|^#|too many errors`)

// program writes the code where it finds what this module requires, and no pattern finds it.
func program(t *testing.T, code string) (dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll("testdata", 0o700))
	dir, err := os.MkdirTemp("testdata", "tmp-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o600))
	return "./" + dir
}

// compiled says what is wrong with the code.
func compiled(t *testing.T, code string) (wrong []string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-o", os.DevNull, program(t, code)).CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(said)) {
		if !unused.MatchString(line) {
			wrong = append(wrong, strings.TrimSpace(line))
		}
	}
	return wrong
}

func TestWhatTheDocumentsShowCompiles(t *testing.T) {
	var all []sample
	for _, s := range slices.Concat(inDocuments(t), inPackagePages(t)) {
		if !foreign.MatchString(s.code) && looksLikeGo.MatchString(s.code) {
			all = append(all, s)
		}
	}
	require.Greater(t, len(all), 10, "the search has found them")
	for _, s := range all {
		t.Run(s.where, func(t *testing.T) {
			t.Parallel()
			code := s.code
			switch {
			case strings.HasPrefix(code, "package "):
			case strings.HasPrefix(code, "func Test"):
				code = fmt.Sprintf(aroundTest, code)
			default:
				code = fmt.Sprintf(around, apart(dots.Replace(code)))
			}
			require.Empty(t, compiled(t, code), "%s", s.code)
		})
	}
}

// The compiler is asked: a sample with an error would be told.
func TestASampleThatIsWrongIsTold(t *testing.T) {
	require.NotEmpty(t, compiled(t, fmt.Sprintf(around, "eng.Lick(\"name\")")))
}

// The README's program runs, and says what a reader should see.
func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	i := slices.IndexFunc(inDocuments(t), func(s sample) bool { return strings.HasPrefix(s.code, "package main") })
	require.GreaterOrEqual(t, i, 0)
	code := inDocuments(t)[i].code
	require.Contains(t, code, `"127.0.0.1:6379"`)
	code = strings.ReplaceAll(code, "127.0.0.1:6379", s.Addr())

	said, err := exec.CommandContext(testkit.Limited(t), "go", "run", program(t, code)).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Equal(t, "nobody else works on invoice 42, in Go or in Java\ndo: <nil>\nlost: false\nreleased: <nil>\n", string(said))
	testkit.NoKeys(t, s)
}
