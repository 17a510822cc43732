package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// One who was told "busy" outlasts a full lane, although the lock was held by this engine in between.
func TestFault_WaiterOutlastsAFullLaneAfterAHoldOfItsOwnEngine(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	other := openEngine(t, s.Addr())
	e := openEngine(t, p.Addr(), func(c *engine.Config) { c.QueueMax = 1 })
	theirs := acquire(t, other.Lock("a"))
	first := e.Lock("a", engine.FixedLease(2*time.Second)).AcquireAsync(limited(t))
	second := e.Lock("a").AcquireAsync(limited(t))
	eventually(t, "both were told busy", func() bool { return e.Stats().Waits == 2 })
	release(t, theirs)
	ls, err := first.Await(limited(t))
	require.NoError(t, err)

	// No lane gets an answer, and each is full.
	p.Hold(scriptCall("acquire"), -1)
	var flood []*engine.Future[*engine.Lease]
	name := 0
	eventually(t, "every lane is full", func() bool {
		queued := 0
		for range 64 {
			name++
			f := e.Lock(numbered("flood", name)).AcquireAsync(limited(t))
			if _, err, done := f.Result(); done && errors.Is(err, engine.ErrOverloaded) {
				continue
			}
			flood = append(flood, f)
			queued++
		}
		return queued == 0
	})
	require.False(t, ls.Lost(), "the lanes are full before the waiter has its turn")
	full := e.Stats().Nodes[0].Overloaded
	<-ls.Context().Done()
	eventually(t, "the waiter's acquire finds no place", func() bool { return e.Stats().Nodes[0].Overloaded > full })
	_, err, done := second.Result()
	require.False(t, done, "the waiter was told %v", err)

	p.ReleaseCommands()
	for _, f := range flood {
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	ls, err = second.Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, other, e)
}
