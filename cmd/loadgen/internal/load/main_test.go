package load

import (
	"testing"

	"go.uber.org/goleak"
)

// The goroutines there are already belong to the callback pool's package, for good.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
