package engine_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind. The two goroutines of ants' package-
// wide default pool, started when ants is imported, are the only ones that may stay: those of an
// engine's own pool have the same function names and must go, so what is there now is excused
// instead of the names.
//
// As the child of a test it is the worker that the test stops and continues.
func TestMain(m *testing.M) {
	if addr := os.Getenv(workerEnv); addr != "" {
		os.Exit(runWorker(addr))
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen { // tests that run in parallel mostly wait for a lease or a limit to pass
		_ = flag.Set("test.parallel", "8")
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
