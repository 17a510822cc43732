package samples

import (
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

// Every piece of code of the documents and the package pages compiles, and runs without an error on a server; what other
// libraries have instead compiles.
func TestWhatTheDocumentsShowRuns(t *testing.T) {
	byModule, count := map[string][]sample{}, 0
	for _, s := range all(t) {
		if s.body() {
			byModule[s.module] = append(byModule[s.module], s)
			count++
		}
	}
	require.GreaterOrEqual(t, count, 20, "the search has found them")
	for module, samples := range byModule {
		name, err := filepath.Rel(root, module)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary, wrong := build(t, module, samples)
			require.NoError(t, wrong)
			for _, s := range samples {
				t.Run(s.where, func(t *testing.T) {
					if foreign.MatchString(s.code) {
						return
					}
					server := redistest.Run(t, redistest.Options{})
					require.Equal(t, "done\n", said(t, binary, server.Addr(), s.where), "%s", s.code)
					for _, key := range server.Keys(t) {
						require.Regexp(t, `^(downloads$|\{?downloads|redisson_lock_token:|balance:42$)`, key, "what is kept")
					}
				})
			}
		})
	}
}

// The compiler and the server are asked: a sample with an error would be told, with its document.
func TestASampleThatIsWrongIsTold(t *testing.T) {
	t.Parallel()
	_, wrong := build(t, root, []sample{{"PAGE.md:7", root, "eng.Lock(\"name\")\neng.Lick(\"name\")\n"}})
	require.ErrorContains(t, wrong, "PAGE.md:8:5: eng.Lick undefined")
	fails := sample{"PAGE.md:7", root, "lease, err := eng.Lock(\"name\", engine.FixedLease(-1)).Acquire(ctx)\n"}
	binary, wrong := build(t, root, []sample{fails})
	require.NoError(t, wrong)
	s := redistest.Run(t, redistest.Options{})
	said, err := exec.CommandContext(testkit.Limited(t), binary, s.Addr(), fails.where).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "FixedLease(-1ns)")
}

// The README's program runs, and says what a reader should see.
func TestTheProgramOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(all(t), func(s sample) bool { return strings.HasPrefix(s.code, "package main") })
	require.GreaterOrEqual(t, i, 0)
	code := all(t)[i].code
	require.LessOrEqual(t, strings.Count(code, "\n"), 30, "the README says thirty lines")
	require.Contains(t, code, `"127.0.0.1:6379"`)
	s := redistest.Run(t, redistest.Options{})
	code = strings.ReplaceAll(code, "127.0.0.1:6379", s.Addr())
	binary, err := compile(t, "build", root, map[string]string{"main.go": code})
	require.NoError(t, err)
	require.Equal(t, "nobody else works on invoice 42, in Go or in Java\ndo: <nil>\nseat 7 released: <nil>\n", said(t, binary))
	testkit.NoKeys(t, s)
}

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
	ctx    = context.Background()
	report reporter
)

type reporter struct{}

func (reporter) Run(ctx context.Context, eng *engine.Engine) error {
	return eng.Lock("nightly-report").Do(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

`

// So does the test that package enginetest shows.
func TestTheTestsOfTheDocumentsRun(t *testing.T) {
	t.Parallel()
	found := 0
	for _, s := range all(t) {
		if strings.HasPrefix(s.code, "func Test") {
			found++
			name := regexp.MustCompile(`Test\w+`).FindString(s.code)
			binary, err := compile(t, "test", root, map[string]string{"main_test.go": aroundTest + s.code})
			require.NoError(t, err)
			require.Contains(t, said(t, binary, "-test.v"), "--- PASS: "+name)
		}
	}
	require.Positive(t, found)
}

// mainOfExamples begins a program that runs the examples of a package, each with what it waits for.
const mainOfExamples = `package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// held waits until somebody has the lock.
func held(name string) {
	for {
		info, err := eng.Lock(name).Inspect(context.Background())
		must(err)
		if info.Locked {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func lose(name string) {
	held(name)
	_, err := eng.Lock(name).ForceRelease(context.Background())
	must(err)
}

func stopped() {
	held("scheduler")
	self, err := os.FindProcess(os.Getpid())
	must(err)
	must(self.Signal(syscall.SIGTERM))
}

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	var err error
	eng, err = engine.Open(context.Background(), engine.Config{
		Addrs: []string{os.Args[1]}, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
`

// What the examples of a page say, in their order. Those that are not here say nothing.
var examplesSay = map[string]map[string]string{
	"engine/example_test.go": {
		"Example":            "<nil>\n",
		"ExampleAnyLease":    "printing on printer:1\n",
		"ExampleRed":         "held on 3 of 3 servers\n",
		"ExampleLease_Lost":  "holdfast: lease is lost\n",
		"ExampleSafeToRetry": "<nil>\n",
	},
	"engine/election/example_test.go": {"ExampleElection_Run": "ended: context canceled\n"},
}

// before is what an example waits for.
var before = map[string]string{
	"ExampleLease_Lost":   "\tgo lose(\"leader\")\n",
	"ExampleElection_Run": "\tgo stopped()\n",
}

// The examples of package engine and package election stand on their pages, and have no server that go test could run
// them on: here they have one.
func TestTheExamplesOfThePagesRun(t *testing.T) {
	t.Parallel()
	for file, say := range examplesSay {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			require.NoError(t, err)
			code := regexp.MustCompile(`package \w+_test`).ReplaceAllString(string(text), "package main")
			for _, address := range []string{"127.0.0.1:6379", "10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
				code = strings.ReplaceAll(code, address, redistest.Run(t, redistest.Options{}).Addr())
			}
			main, expected := strings.Builder{}, strings.Builder{}
			main.WriteString(mainOfExamples)
			for _, found := range regexp.MustCompile(`(?m)^func (Example\w*)\(\) \{`).FindAllStringSubmatch(code, -1) {
				name := found[1]
				main.WriteString(before[name] + "\tlog.Print(\"" + name + "\")\n\t" + name + "()\n")
				expected.WriteString(name + "\n" + say[name])
			}
			main.WriteString("\tmust(eng.Close(context.Background()))\n}\n")
			binary, err := compile(t, "build", root, map[string]string{"examples.go": code, "main.go": main.String()})
			require.NoError(t, err)
			s := redistest.Run(t, redistest.Options{})
			require.Equal(t, expected.String(), said(t, binary, s.Addr()))
			for _, key := range s.Keys(t) {
				require.Contains(t, key, "redisson_lock_token:", "what is kept")
			}
		})
	}
}
