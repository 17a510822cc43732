package engine_test

import "os"

// workerEnv makes the test binary a worker: a process of its own that a test can stop.
const workerEnv = "HOLDFAST_TEST_WORKER"

func runWorker(addr string) int {
	_ = addr
	_ = os.Stdin
	return 0
}
