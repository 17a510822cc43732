package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// What each two families are to each other: one owner's, several owners', and to a ForceRelease.
func TestWhatTwoFamiliesAreToEachOther(t *testing.T) {
	const lock, spin, fenced, read, write, fair = resp.FamilyLock, resp.FamilySpin, resp.FamilyFenced, resp.FamilyRead, resp.FamilyWrite, resp.FamilyFair
	type pair [2]resp.Family
	plain := func(f resp.Family) bool { return f != read && f != write }
	again := map[pair]bool{{lock, spin}: true, {spin, lock}: true}
	all := []resp.Family{lock, spin, fenced, read, write, fair}
	for _, a := range all {
		require.Equal(t, a, defaults[a].family)
		require.Same(t, defaults[a], defaults[a].with(nil), "handles without options share their settings")
		for _, b := range all {
			p := pair{a, b}
			require.Equal(t, a == b || again[p], entersAs(a, b), "%v", p)
			require.Equal(t, plain(a) != plain(b), otherKind(a, b), "%v", p)
			require.Equal(t, p == pair{read, read}, together(a, b), "%v", p)
			require.Equal(t, p == pair{read, read} || p == pair{write, read}, beside(a, b), "%v", p)
			require.Equal(t, p == pair{read, write}, upgrades(a, b), "%v", p)
			require.Equal(t, a == b || plain(a) && plain(b), forces(a, b), "%v", p)
		}
	}
}
