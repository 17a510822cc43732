package chaos

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/witness"
	sharedfile "github.com/seed-786ebc8c/holdfast/internal/witness"
)

// Killed while it asks or gives back, it would leave nobody sure of what is missing.
func TestAClientThatIsNotSureOfItsPermitsHasNone(t *testing.T) {
	cfg := &config.Config{Scenario: config.KindSemaphore, Keys: 1, Witness: filepath.Join(t.TempDir(), "w")}
	mine, err := witness.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, mine.Leave()) }()
	other, err := sharedfile.Open(cfg.Witness, sharedfile.Options{Keys: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Leave()) }()
	c := &Chaos{cfg: cfg, witness: mine}
	held := func() int64 {
		n, err := c.heldByOthers(t.Context())
		require.NoError(t, err)
		return n
	}
	mine.File().Enter(1, 8, 0)
	require.Zero(t, held(), "they are ours")
	other.Ask(2)
	other.Enter(2, 8, 0)
	require.Zero(t, held(), "it does not know yet that it has them")
	other.Settled(2)
	require.EqualValues(t, 2, held())
	other.Ask(2)
	require.Zero(t, held(), "it is about to give them back")
}
