package several_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestC140_MultiIsLostWhenAShardDies(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	e := testkit.OpenCluster(t, c)
	var names []string
	for _, of := range testkit.NamesOf(c, 5) {
		names = append(names, of...)
	}
	ls, err := e.MultiLock(names...).With(engine.WatchdogLease(2 * time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := ls.Context()
	c.Masters[1].Pause()
	testkit.Await(t, ctx.Done(), "the context ends")
	require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
	require.True(t, ls.Lost())
	released := ls.ReleaseAsync()
	for _, m := range []int{0, 2} {
		testkit.Eventually(t, "the other shards are free", func() bool { return len(c.Masters[m].Keys(t)) == 0 })
	}
	c.Masters[1].Resume()
	require.ErrorIs(t, testkit.GetError(t, released), engine.ErrLost)
	testkit.FinishCluster(t, c, e)
}

func TestTenThousandNamesOnThreeMasters(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	m := e.MultiLock(numbered(10_000)...)
	for range 2 {
		began := time.Now()
		ls, err := m.Acquire(testkit.Limited(t))
		require.NoError(t, err)
		t.Log("acquired in", time.Since(began))
		held := 0
		for _, master := range c.Masters {
			held += int(testkit.Int(t, master, "DBSIZE"))
		}
		require.Equal(t, 10_000, held)
		began = time.Now()
		require.NoError(t, ls.Release(testkit.Limited(t)))
		t.Log("released in", time.Since(began))
	}
	testkit.FinishCluster(t, c, e)
}
