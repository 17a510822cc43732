package fault_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A server that is started anew has read an old copy of its data: what was given back since is held again. Who gave it
// back says so once more, though it does nothing else, and whoever waits in another process has it long before the lease
// of 30 s ends.
func TestAServerThatForgotTheLastReleasesIsToldThemAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--dir", t.TempDir()}})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	kinds := []string{"Lock", "Spin", "Fenced", "Fair", "Read", "Write"}
	held := make(map[string]*engine.Lease)
	for _, kind := range kinds {
		held[kind] = testkit.Acquire(t, testkit.Family(a, kind)[kind])
	}
	group, err := a.GroupLock("Group", engine.PlainStrings("one", "two")).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	held["Group"] = group
	s.Do(t, "SAVE")
	for _, ls := range held {
		testkit.Release(t, ls)
	}
	for _, kind := range kinds {
		require.False(t, testkit.Exists(t, s, kind))
	}
	require.NoError(t, s.Restart(testkit.Limited(t)))
	back := time.Now()
	waiting := make(map[string]*engine.Future[*engine.Lease])
	for _, kind := range kinds {
		wants := testkit.Family(b, kind)[kind]
		if kind == "Read" { // another reader would be let in
			wants = testkit.Family(b, kind)["Write"]
		}
		waiting[kind] = wants.AcquireAsync(testkit.Limited(t))
	}
	for kind, f := range waiting {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err, kind)
		require.Less(t, testkit.Ran(back), 15*time.Second, kind)
		testkit.Release(t, ls)
	}
	group, err = b.GroupLock("Group", engine.PlainStrings("two")).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(back), 15*time.Second)
	testkit.Release(t, group)
	require.EqualValues(t, len(held), a.Stats().Nodes[0].Revived)
	require.Zero(t, b.Stats().Nodes[0].Revived)
	testkit.Idle(t, a, b)
	s.Do(t, "DEL", "redisson_lock_token:{Fenced}")
	testkit.Finish(t, s, a, b)
}
