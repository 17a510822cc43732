package witness

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of a process that ended may be another's by now.
func TestAProcessThatBeganAtAnotherTimeIsAnother(t *testing.T) {
	me := os.Getpid()
	began := startOf(me)
	require.NotZero(t, began)
	require.True(t, alive(me, began))
	require.True(t, alive(me, 0), "unknown")
	require.False(t, alive(me, began+1))
	require.False(t, alive(me, began-1))
}
