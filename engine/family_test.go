package engine

import (
	"testing"
	"time"

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

// A service makes a handle for each name, all with the same options: what it holds keeps one set of them.
func TestHandlesMadeAlikeShareTheirSettings(t *testing.T) {
	o := NewOwner()
	of := func(family resp.Family, opts ...Option) *settings { return settingsOf(family, opts) }
	first := of(resp.FamilyLock, WatchdogLease(5*time.Second), MaxWait(time.Second))
	require.Same(t, first, of(resp.FamilyLock, MaxWait(time.Second), WatchdogLease(5*time.Second)))
	fenced := of(resp.FamilyFenced, WatchdogLease(5*time.Second), MaxWait(time.Second))
	require.NotSame(t, first, fenced)
	require.Equal(t, resp.FamilyFenced, fenced.family)
	for name, other := range map[string][]Option{
		"another lease": {WatchdogLease(6 * time.Second), MaxWait(time.Second)},
		"a fixed lease": {FixedLease(5 * time.Second), MaxWait(time.Second)},
		"a limit":       {WatchdogLease(5 * time.Second), MaxWait(time.Second), MaxHold(time.Minute)},
		"an owner":      {WatchdogLease(5 * time.Second), MaxWait(time.Second), As(o)},
		"an error":      {WatchdogLease(5 * time.Second), MaxWait(time.Second), WatchdogLease(-1)},
	} {
		require.Equal(t, defaults[0].with(other), of(resp.FamilyLock, other...), name)
		require.Same(t, defaults[0], of(resp.FamilyLock), name)
	}
	require.Nil(t, lately[resp.FamilyLock].Load().owner, "an owner would be kept for ever")
}
