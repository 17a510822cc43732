package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/embedded"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart(t *testing.T) {
	t.Run("ARealServerIfThereIsOne", func(t *testing.T) {
		if _, err := redistest.Binary(); err != nil || testing.Short() {
			t.Skip("needs a server on PATH")
		}
		s := start(t)
		require.NotEqual(t, "miniredis", s.Kind)
		require.False(t, s.InProcess)
	})
	t.Run("MiniredisOtherwiseAndItsLeasesEnd", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		t.Setenv(redistest.BinaryEnv, "")
		s := start(t)
		require.Equal(t, "miniredis", s.Kind)
		require.True(t, s.InProcess)

		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true,
		})
		require.NoError(t, err)
		defer client.Close()
		ctx := context.Background()
		set := client.B().Set().Key("k").Value("v").Px(300 * time.Millisecond).Build()
		require.NoError(t, client.Do(ctx, set).Error())
		require.Eventually(t, func() bool {
			n, err := client.Do(ctx, client.B().Exists().Key("k").Build()).AsInt64()
			return err == nil && n == 0
		}, 5*time.Second, 20*time.Millisecond)
	})
}

func start(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	require.NotEmpty(t, s.Addr())
	return s
}
