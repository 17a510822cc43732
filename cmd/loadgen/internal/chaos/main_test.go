package chaos

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The binary of the other client is this one: it ends as a loadgen that was asked for nonsense.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		fmt.Fprintln(os.Stderr, "loadgen: no such scenario")
		os.Exit(2)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
