package fault_test

import (
	"os"
	"testing"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// As the child of a test it is the worker that the test stops and continues, or the service that it ends.
func TestMain(m *testing.M) {
	if addr := os.Getenv(workerEnv); addr != "" {
		os.Exit(runWorker(addr))
	}
	if addr := os.Getenv(serviceEnv); addr != "" {
		os.Exit(runService(addr))
	}
	testkit.Main(m)
}
