package several_test

import (
	"testing"

	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
