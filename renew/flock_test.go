package renew

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Those of one flock come in one call, one behind the other, each time.
func TestThoseGrantedTogetherAreRenewedTogetherForEver(t *testing.T) {
	const lease, n = 30 * time.Second, 5 * flockMost
	r := newRig(t)
	for i := range n {
		r.watch(fmt.Sprintf("%04d", i), lease)
	}
	for round := range 10 {
		seen := make(map[string]bool, n)
		for len(seen) < n {
			c := r.next(lease)
			keys := c.keys()
			for some := range slices.Chunk(keys, flockMost) {
				require.Len(t, some, flockMost, "round %d", round)
				require.True(t, slices.IsSorted(some), "round %d: %v", round, some)
				require.Zero(t, flockOf(t, some[0])-flockOf(t, some[flockMost-1]))
			}
			for _, key := range keys {
				require.False(t, seen[key], "round %d: %s comes twice", round, key)
				seen[key] = true
			}
			r.renewed(c)
		}
	}
	require.Empty(t, r.heard("jeopardy"))
}

// flockOf says of which flock a key is, in the order of their watching.
func flockOf(t *testing.T, key string) int {
	t.Helper()
	var i int
	_, err := fmt.Sscanf(key, "%d", &i)
	require.NoError(t, err)
	return i / flockMost
}

func TestAFlockHasOneLease(t *testing.T) {
	var f flock
	require.False(t, f.joins(start, time.Second))
	require.True(t, f.joins(start, time.Second))
	require.False(t, f.joins(start, 2*time.Second))
	require.False(t, f.joins(start+1, 2*time.Second))
}
