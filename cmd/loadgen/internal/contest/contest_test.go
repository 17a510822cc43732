package contest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHoldFor(t *testing.T) {
	for _, hold := range []time.Duration{20 * time.Microsecond, 2 * time.Millisecond} {
		began := time.Now()
		holdFor(hold)
		require.GreaterOrEqual(t, time.Since(began), hold)
	}
}
