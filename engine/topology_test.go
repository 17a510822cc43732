package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func TestATopologyIsPrintedByItsName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[TopologyAuto TopologySingle TopologyCluster TopologySentinel Topology(4)]", fmt.Sprint([]engine.Topology{
		engine.TopologyAuto, engine.TopologySingle, engine.TopologyCluster, engine.TopologySentinel, 4,
	}))
}
