package several_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// redCallers are callers of one RedLock, each in a process of its own as far as the servers can tell.
type redCallers struct {
	inside  atomic.Int32
	granted []atomic.Int64
	lost    atomic.Int64 // releases of what was lost
	stop    chan struct{}
	ended   chan error
}

func runRedCallers(t *testing.T, servers []*redistest.Server, n int) *redCallers {
	t.Helper()
	c := &redCallers{granted: make([]atomic.Int64, n), stop: make(chan struct{}), ended: make(chan error, n)}
	for i := range n {
		engines := make([]*engine.Engine, len(servers))
		for at, s := range servers {
			engines[at] = testkit.Open(t, s.Addr())
			t.Cleanup(func() { _ = testkit.Close(engines[at]) })
		}
		r := red(engines, "a", engine.WatchdogLease(30*time.Second))
		go func() { c.ended <- c.run(r, i) }()
	}
	return c
}

// run takes the lock again and again.
func (c *redCallers) run(r *engine.RedLock, i int) error {
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		ls, err := r.Acquire(ctx)
		if err == nil {
			c.granted[i].Add(1)
			if c.inside.Add(1) != 1 {
				err = errors.New("two are inside")
			}
			if ls.Lost() {
				err = errors.Join(err, errors.New("a majority was there all the time, and it is lost"))
			}
			c.inside.Add(-1)
			// Nobody waits for the answer: where those that are stopped now are of its majority, it comes when they go on.
			ls.ReleaseAsync().OnComplete(func(_ struct{}, err error) {
				if errors.Is(err, engine.ErrLost) {
					c.lost.Add(1)
				}
			})
		}
		cancel()
		if err != nil {
			return err
		}
		select { // it has something else to do
		case <-c.stop:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Processes of servers are stopped, never more than a minority at once: nobody notices but by the time it takes.
func TestRedLockBesideSuspendedServers(t *testing.T) {
	servers, engines := redServers(t, 5)
	callers := runRedCallers(t, servers, 3)
	for round := range 5 {
		stopped := []*redistest.Server{servers[round], servers[(round+2)%5]}
		for _, s := range stopped {
			s.Pause()
		}
		for i := range callers.granted {
			before := callers.granted[i].Load()
			testkit.Eventually(t, "each caller goes on", func() bool { return callers.granted[i].Load() > before+1 || len(callers.ended) > 0 })
		}
		for _, s := range stopped {
			s.Resume()
		}
	}
	close(callers.stop)
	for range callers.granted {
		require.NoError(t, <-callers.ended)
	}
	allFree(t, servers)
	require.Zero(t, callers.lost.Load())
	// A majority is stopped while somebody has the lock.
	r := red(engines, "a", engine.WatchdogLease(2*time.Second))
	ls, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := ls.Context()
	for _, s := range servers[2:] {
		s.Pause()
	}
	testkit.Await(t, ctx.Done(), "the majority is gone")
	require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
	require.True(t, ls.Lost())
	_, err = r.TryAcquire(testkit.Limited(t))
	require.Error(t, err)
	for _, s := range servers[2:] {
		s.Resume()
	}
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	again, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, again.Release(testkit.Limited(t)))
	allFree(t, servers)
}

// A server that is far away counts where it has to: one of three is held by somebody else, and of the other two one is
// 80 ms behind.
func TestRedLockCountsAServerThatIsFarAway(t *testing.T) {
	t.Parallel()
	servers, engines := redServers(t, 3)
	p := faultproxy.Run(t, servers[2].Addr())
	far := testkit.Open(t, p.Addr())
	other := testkit.Acquire(t, engines[0].Lock("a"))
	p.Delay(40*time.Millisecond, 40*time.Millisecond)
	r := red([]*engine.Engine{engines[0], engines[1], far}, "a", engine.WatchdogLease(30*time.Second))
	ls, err := r.TryAcquire(testkit.Limited(t))
	require.NoError(t, err, "a try has one round, and waits in it")
	require.NoError(t, ls.Release(testkit.Limited(t)))
	ls, err = r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.Release(t, other)
	p.Delay(0, 0)
	require.NoError(t, testkit.Close(far))
}
