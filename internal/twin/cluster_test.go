package twin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// servedBelow is the first slot that the node of a cluster under test does not serve.
const servedBelow = 8192

// TestDifferentialTwinAnswersAsANodeOfAClusterDoes is the same for a node that serves half of the slots: keys of
// others are refused by their own command in a script, and where they are declared before it runs.
func TestDifferentialTwinAnswersAsANodeOfAClusterDoes(t *testing.T) {
	server := redistest.Run(t, redistest.Options{Cluster: true, Args: []string{"--cluster-require-full-coverage", "no"}})
	server.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	require.Eventually(t, func() bool {
		_, err := server.Command(context.Background(), "SET", timeKey, "x")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	p := newPair(t, server)
	p.prepare = func(s *Server) {
		s.Mode = "cluster"
		s.Redirect = func(keys []string) string {
			if slot.Of(keys[0]) >= servedBelow {
				return "CLUSTERDOWN Hash slot not served"
			}
			for _, key := range keys {
				if slot.Of(key) != slot.Of(keys[0]) {
					return "CROSSSLOT Keys in request don't hash to the same slot"
				}
			}
			return ""
		}
		s.Elsewhere = func(keys []string) string {
			if s.Redirect(keys) != "" {
				return "ERR Script attempted to access a non local key in a cluster node"
			}
			return ""
		}
	}
	ops, seed := int(fromEnv("HOLDFAST_OPS", 60_000))/4, uint64(fromEnv("HOLDFAST_SEED", time.Now().UnixNano()%1e9))
	t.Logf("HOLDFAST_SEED=%d", seed)
	elsewhere := 0
	for done := 0; done < ops; seed++ {
		g := newGenerator(seed)
		g.inCluster()
		actions := g.sequence(sequenceLen)
		diff := p.play(t, g.start, actions, func(_ action, answer Reply) {
			for _, v := range answer.Array {
				if v.err() && errorText(v.Text) == "ERR not here" {
					elsewhere++
				}
			}
		})
		if diff != nil {
			report(t, p, seed, g.start, actions, diff)
		}
		done += len(actions)
	}
	require.Positive(t, elsewhere, "no script met a key that is elsewhere")
}
