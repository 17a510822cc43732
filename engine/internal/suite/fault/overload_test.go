package fault_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A waiter that was told "busy" outlasts a full lane, although the lock was held by this engine in between.
func TestWaiterOutlastsAFullLaneAfterAHoldOfItsOwnEngine(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	other := testkit.Open(t, s.Addr())
	e := testkit.Open(t, p.Addr(), func(c *engine.Config) { c.QueueMax = 1 })
	theirs := testkit.Acquire(t, other.Lock("a"))
	first := e.Lock("a", engine.FixedLease(2*time.Second)).AcquireAsync(testkit.Limited(t))
	second := e.Lock("a").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "both were told busy", func() bool { return e.Stats().Waits == 2 })
	testkit.Release(t, theirs)
	ls, err := first.Await(testkit.Limited(t))
	require.NoError(t, err)

	// No lane gets an answer, and each is full.
	p.Hold(testkit.ScriptCall("acquire"), -1)
	var flood []*engine.Future[*engine.Lease]
	name := 0
	testkit.Eventually(t, "every lane is full", func() bool {
		queued := 0
		for range 64 {
			name++
			f := e.Lock(testkit.Numbered("flood", name)).AcquireAsync(testkit.Limited(t))
			if _, err, done := f.Result(); done && errors.Is(err, engine.ErrOverloaded) {
				continue
			}
			flood = append(flood, f)
			queued++
		}
		return queued == 0
	})
	full := e.Stats().Nodes[0].Overloaded
	require.False(t, ls.Lost(), "the lanes are full before the waiter has its turn")
	<-ls.Context().Done()
	testkit.Eventually(t, "the waiter's acquire finds no place", func() bool { return e.Stats().Nodes[0].Overloaded > full })
	_, err, done := second.Result()
	require.False(t, done, "the waiter was told %v", err)

	p.ReleaseCommands()
	for _, f := range flood {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	ls, err = second.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, other, e)
}
