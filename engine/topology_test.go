package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
)

func TestATopologyIsPrintedByItsName(t *testing.T) {
	t.Parallel()
	for topology, name := range map[engine.Topology]string{
		engine.TopologyAuto: "TopologyAuto", engine.TopologySingle: "TopologySingle",
		engine.TopologyCluster: "TopologyCluster", engine.TopologySentinel: "TopologySentinel", 4: "Topology(4)",
	} {
		require.Equal(t, name, fmt.Sprint(topology))
	}
}
