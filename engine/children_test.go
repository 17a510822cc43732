package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Children come and leave, and are told since when they stand in a fair lock's queue, in any order, and more than once. Those that
// have been told stand in that order, the others in the order in which they came.
func TestWhoIsToldSinceWhenStandsInThatOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		root := newParent(nil, "g", 0, 0)
		var came []*entry
		listed := func() (all []*entry) {
			var behind *entry
			for child := root.firstChild(); child != nil; child = child.nextChild() {
				require.Same(t, behind, child.children().prev)
				all, behind = append(all, child), child
			}
			if root.children() != nil {
				require.Same(t, behind, root.children().last)
			}
			return all
		}
		for range 100 {
			before := listed()
			switch {
			case len(came) < 2 || r.IntN(4) == 0:
				came = append(came, root.newChild())
			case r.IntN(6) == 0:
				at := r.IntN(len(came))
				came[at].detach()
				came = slices.Delete(came, at, at+1)
			default:
				child := came[r.IntN(len(came))]
				// Two may have come at the same time, where the place of one of them is gone by now.
				since := int64(r.IntN(12))
				known := child.children().since
				moved := child.standsInLine(since)
				require.Equal(t, since, child.children().since)
				if since == 0 {
					require.Equal(t, before, listed(), "who is forgotten stands where it stood")
					require.Equal(t, known != 0, moved, "another may be first now")
				} else {
					require.Equal(t, !slices.Equal(before, listed()), moved)
				}
			}
			var told []int64
			var head, last *entry
			for _, child := range listed() {
				if child.children().since != 0 {
					told, last = append(told, child.children().since), child
					if head == nil {
						head = child
					}
				}
			}
			overtaken := func(all []*entry) []*entry {
				return slices.DeleteFunc(append([]*entry{}, all...), func(child *entry) bool {
					return child.children().since != 0 || !slices.Contains(came, child) || !slices.Contains(before, child)
				})
			}
			require.Equal(t, overtaken(before), overtaken(listed()), "who has not been told is overtaken by none that was not")
			require.True(t, slices.IsSorted(told), "seed %d: %v", seed, told)
			require.Same(t, head, root.children().head)
			require.Same(t, last, root.children().tail)
		}
		require.Len(t, listed(), len(came))
	}
}
