package testkit

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// SeedEnv names the environment variable that repeats what was drawn.
const SeedEnv = "HOLDFAST_SEED"

// Main runs a package's tests, and fails it if a test leaves a goroutine behind. The two goroutines of ants' package-
// wide default pool, started when ants is imported, are the only ones that may stay: those of an
// engine's own pool have the same function names and must go, so what is there now is excused
// instead of the names.
//
// What engines say to the default logger is dropped: a test that is about it has a logger, and [Open] tells of a test that
// failed what its engines said.
//
// Tests that run in parallel mostly wait for a lease or a limit to pass: eight at once, unless somebody says otherwise.
func Main(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // engines lose locks here all the time
	watchStalls()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "8")
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
