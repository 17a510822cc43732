package callback

import (
	"testing"

	"go.uber.org/goleak"
)

// ants starts a pool of its own when it is imported.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }
