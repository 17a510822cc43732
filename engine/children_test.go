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
			switch before := listed(); {
			case len(came) < 2 || r.IntN(4) == 0:
				came = append(came, root.newChild())
			case r.IntN(6) == 0:
				at := r.IntN(len(came))
				came[at].detach()
				came = slices.Delete(came, at, at+1)
			default:
				child := came[r.IntN(len(came))]
				since := int64(r.IntN(8))*1000 + int64(slices.Index(came, child)) // nobody came at the same time
				if slices.ContainsFunc(came, func(o *entry) bool { return o.children().since == since }) {
					since = 0
				}
				known := child.children().since
				moved := child.standsInLine(since)
				require.Equal(t, !slices.Equal(before, listed()), moved)
				if since == 0 {
					require.Equal(t, known, child.children().since, "what was known stays")
				} else {
					require.Equal(t, since, child.children().since)
				}
			}
			var told []int64
			var head, last *entry
			at := 0
			for _, child := range listed() {
				if child.children().since != 0 {
					told, last = append(told, child.children().since), child
					if head == nil {
						head = child
					}
					continue
				}
				next := at + slices.Index(came[at:], child)
				require.GreaterOrEqual(t, next, at, "who has not been told is overtaken by none that was not")
				at = next
			}
			require.True(t, slices.IsSorted(told), "seed %d: %v", seed, told)
			require.Same(t, head, root.children().head)
			require.Same(t, last, root.children().tail)
		}
		require.Len(t, listed(), len(came))
	}
}
