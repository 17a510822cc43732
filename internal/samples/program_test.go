package samples

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// surroundings are what a reader of a document has around a piece of code, by module: imports, and the names that the documents
// use. Each sample is a function of a program, which runs the one that its arguments name.
var surroundings = map[string]struct{ imports, names string }{
	root: {
		`"errors"; "runtime/pprof"; "strings"; "github.com/redis/rueidis"; "github.com/seed-786ebc8c/holdfast/engine/election"
		"github.com/seed-786ebc8c/holdfast/engine/fence"`,
		`
var (
	_, _, _, _ = errors.Is, pprof.Do, strings.Cut, fence.ErrStale
	cfg     engine.Config
	lock, orders = eng.Lock("name"), eng.Lock("orders")
	client  = redis()
)

func redis() rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	must(err)
	return c
}

func use(ctx context.Context)               { must(ctx.Err()) }
func work(ctx context.Context) error        { return ctx.Err() }
func schedule(ctx context.Context, token int64) error {
	if token <= 0 {
		return errors.New("no token")
	}
	return election.Stop(ctx.Err()) // or it would go on for ever
}
`,
	},
	filepath.Join(root, "adapters", "goredis"): {
		`"crypto/tls"; "github.com/redis/go-redis/v9"; "github.com/seed-786ebc8c/holdfast/adapters/goredis"`,
		`
var (
	addrs = []string{addr}
	user, password string
	tlsConfig *tls.Config
)
`,
	},
	filepath.Join(root, "adapters", "otel"): {
		`"go.opentelemetry.io/otel"; "github.com/seed-786ebc8c/holdfast/adapters/otel"`,
		"var addrs = []string{addr}",
	},
	filepath.Join(root, "adapters", "prometheus"): {
		`"github.com/prometheus/client_golang/prometheus"; "github.com/seed-786ebc8c/holdfast/adapters/prometheus"`,
		"",
	},
	filepath.Join(root, "bench"): { // other libraries: compiled only
		`"errors"; "github.com/bsm/redislock"; "github.com/go-redsync/redsync/v4"; "github.com/redis/rueidis/rueidislock"
		"golang.org/x/sync/semaphore"`,
		`
var (
	_, _ = errors.Is, semaphore.NewWeighted
	rs *redsync.Redsync
	locker struct {
		*redislock.Client
		rueidislock.Locker
	}
)

func keepExtending(*redsync.Mutex) {}
`,
	},
}

const program = `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
	%s
)

var (
	_    = time.Second
	ctx  = context.Background()
	addr = os.Args[1]
	eng  = open()
	samples = map[string]func() error{}
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func open() *engine.Engine {
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{addr}})
	must(err)
	return e
}
%s
func main() {
	must(samples[os.Args[2]]())
	must(eng.Close(ctx))
	fmt.Println("done")
}
`

// compile makes a binary of files of a package main that a module would have. They are an overlay: nothing is written into the
// repository, which other tests look through. tool is "build", or "test" for a file of tests.
func compile(t *testing.T, tool, module string, files map[string]string) (binary string, err error) {
	t.Helper()
	dir := t.TempDir()
	binary = filepath.Join(dir, "samples")
	at, err := filepath.Abs(module)
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, code := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
		overlay.Replace[filepath.Join(at, "samples", name)] = file
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, text, 0o600))
	args := []string{tool, "-overlay", list, "-gcflags=-e", "-o", binary}
	if tool == "test" {
		args = append(args, "-c", "-vet=off") // vet has no overlay
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./samples")...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return binary, nil
}

// said is what a binary says, which must end well.
func said(t *testing.T, binary string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(testkit.Limited(t), binary, args...)
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return string(text)
}

// build makes a program of samples of one module, and says what is wrong with them.
func build(t *testing.T, module string, samples []sample) (binary string, err error) {
	t.Helper()
	around, known := surroundings[module]
	require.True(t, known, "%s: no surroundings", module)
	var code strings.Builder
	fmt.Fprintf(&code, program, around.imports, around.names)
	for i, s := range samples {
		body, err := checked(s)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.where, err)
		}
		fmt.Fprintf(&code, "\nfunc init() { samples[%q] = sample%d }\n\nfunc sample%d() error {\n%s\treturn nil\n}\n",
			s.where, i, i, body)
	}
	return compile(t, "build", module, map[string]string{"main.go": code.String()})
}

// dots puts code where a document leaves it out, and takes out what would not be true here.
var dots = strings.NewReplacer(
	"error { ... }", "error { return ctx.Err() }", "{ ... }", "{ return err }", "\n...\n", "\n",
	`"127.0.0.1:6379"`, "addr", // the server of the test
)

// checked is a sample of which every error fails the program, every lease is given back, and whose names are used.
func checked(s sample) (string, error) {
	const head = "package p\nfunc _() error {\n"
	code := head + dots.Replace(s.code) + "}\n"
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, s.where, code, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	behind := map[int]string{} // what comes behind an offset
	ast.Inspect(parsed, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		for _, stmt := range block.List {
			if assigns, ok := stmt.(*ast.AssignStmt); ok {
				behind[fset.Position(stmt.End()).Offset] = after(assigns)
			}
		}
		return true
	})
	var out strings.Builder
	fmt.Fprintf(&out, "//line %s:1\n", s.where)
	at := len(head)
	for _, next := range slices.Sorted(maps.Keys(behind)) {
		out.WriteString(code[at:next] + behind[next])
		at = next
	}
	out.WriteString(code[at : len(code)-len("}\n")])
	return out.String(), nil
}

// after is what a program does with what a statement has assigned.
func after(assigns *ast.AssignStmt) string {
	first, then := "", ""
	for _, to := range assigns.Lhs {
		name, ok := to.(*ast.Ident)
		switch {
		case !ok || name.Name == "_":
		case name.Name == "err":
			first = "; must(err)"
		case assigns.Tok != token.DEFINE:
		case name.Name == "lease" || name.Name == "leases":
			then += "; defer " + name.Name + ".Release(context.Background())"
		default:
			then += "; _ = " + name.Name
		}
	}
	return first + then
}
