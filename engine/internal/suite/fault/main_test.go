package fault_test

import (
	"os"
	"testing"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// As the child of a test it is the worker that the test stops and continues.
func TestMain(m *testing.M) {
	if addr := os.Getenv(workerEnv); addr != "" {
		os.Exit(runWorker(addr))
	}
	testkit.Main(m)
}
