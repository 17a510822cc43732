package redistest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheServerOfATestEndsWithIt(t *testing.T) {
	var s *Server
	t.Run("ATest", func(t *testing.T) {
		s = Run(t, Options{})
		require.Equal(t, "PONG", s.Do(t, "PING"))
	})
	if s == nil {
		t.Skip("skipped as that one was")
	}
	_, err := s.Command(t.Context(), "PING")
	require.Error(t, err)
}
