package format

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	require.Equal(t, "1,234,567", Count(1234567))
	require.Equal(t, "-123", Count(-123))
	require.Equal(t, "0.50", Number(0.5))
	require.Equal(t, "12.3", Number(12.34))
	require.Equal(t, "1,235", Number(1234.6))
}
