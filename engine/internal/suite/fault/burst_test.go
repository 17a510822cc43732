package fault_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// slowed lets a server run for a thirtieth of the time only, until the function that is returned is called.
func slowed(t *testing.T, s *redistest.Server) (over func()) {
	t.Helper()
	ends, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer s.Resume()
		for {
			for _, phase := range []struct {
				begin func()
				takes time.Duration
			}{{s.Pause, 150 * time.Millisecond}, {s.Resume, 5 * time.Millisecond}} {
				phase.begin()
				select {
				case <-time.After(phase.takes):
				case <-ends:
					return
				}
			}
		}
	}()
	over = sync.OnceFunc(func() {
		close(ends)
		<-ended
	})
	t.Cleanup(over)
	return over
}

// A burst takes a slow server longer than an attempt may take. Each lane sends what can be answered in time, so that no
// acquire ends unknown; what waits meanwhile can be taken back; and locks that are held beside it are renewed.
func TestABurstOnASlowServerIsGrantedAndCostsNoLock(t *testing.T) {
	if !redisproc.CanPause {
		t.Skip("this system cannot stop a process for a while")
	}
	const burst, cancelled = 40_000, 1000
	// Longer than testkit.Limited: on a machine that does much else the server gets less than its share.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	var asked []*engine.Future[*engine.Lease]
	for i := range 300 {
		asked = append(asked, e.Lock(testkit.Numbered("held", i), engine.WatchdogLease(12*time.Second)).AcquireAsync(ctx))
	}
	held, err := engine.AllLeases(asked...).Await(ctx)
	require.NoError(t, err)
	over := slowed(t, s)
	asked = nil
	for i := range burst {
		asked = append(asked, e.Lock(testkit.Numbered("burst", i), engine.FixedLease(5*time.Minute)).AcquireAsync(ctx))
	}
	for _, f := range asked[burst-cancelled:] {
		require.True(t, f.Cancel())
	}
	leases, err := engine.AllLeases(asked[:burst-cancelled]...).Await(ctx)
	require.NoError(t, err, "each is granted")
	stats := e.Stats()
	require.Zero(t, testkit.LostOf(held))
	require.Zero(t, stats.Lost)
	require.Less(t, stats.Ghosts, int64(cancelled), "some of those that were taken back were never sent")
	over()
	for _, ls := range append(leases, held...) {
		ls.ReleaseAsync()
	}
	testkit.Finish(t, s, e)
}
