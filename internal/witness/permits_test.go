package witness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPermitsAreCountedAcrossProcesses(t *testing.T) {
	path := newPath(t)
	open := func() *Witness {
		w, err := Open(path, Options{Keys: 1})
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Leave() })
		return w
	}
	one, two := open(), open()
	one.Ask(2)
	one.Enter(2, 3, 7)
	held, unsettled := two.Permits(false)
	require.Equal(t, []int64{2, 2}, []int64{held, unsettled}, "granted, and not settled yet")
	one.Settled(2)
	two.Enter(1, 3, 7)
	n, _ := two.Violations()
	require.Zero(t, n, "as many as there are")
	two.Enter(1, 3, 8)
	n, told := two.Violations()
	require.EqualValues(t, 1, n)
	require.Contains(t, told[0], "was granted 1 permits: 4 of 3 are held")
	two.Exit(2)
	held, unsettled = one.Permits(false)
	require.Equal(t, []int64{0, 0}, []int64{held, unsettled})
	held, unsettled = two.Permits(false)
	require.Equal(t, []int64{2, 0}, []int64{held, unsettled})
	held, _ = two.Permits(true)
	require.Zero(t, held, "it lives")
	one.me.pid, one.me.started = 1<<30, 0 // no process has this id
	one.Ask(1)
	held, unsettled = two.Permits(true)
	require.Equal(t, []int64{2, 1}, []int64{held, unsettled}, "it is gone")
	two.Enter(2, 3, 9)
	n, _ = two.Violations()
	require.EqualValues(t, 2, n, "what it had is held for good")
}

func TestLeasedPermitsOfTheDeadAreNobodys(t *testing.T) {
	path := newPath(t)
	open := func() *Witness {
		w, err := Open(path, Options{Keys: 1})
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Leave() })
		return w
	}
	one, two := open(), open()
	one.EnterLeased(2, 3, 7)
	two.EnterLeased(1, 3, 7)
	two.EnterLeased(1, 3, 8)
	n, told := two.Violations()
	require.EqualValues(t, 1, n, "the other one lives")
	require.Contains(t, told[0], "was granted 1 permits: 4 of 3 are held")
	one.me.pid, one.me.started = 1<<30, 0 // no process has this id
	two.EnterLeased(1, 3, 9)
	n, _ = two.Violations()
	require.EqualValues(t, 1, n, "as many as there are without those of the dead")
	two.EnterLeased(1, 3, 9)
	n, told = two.Violations()
	require.EqualValues(t, 2, n)
	require.Contains(t, told[1], "4 of 3 are held")
}
