package fault_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Acquires arrive at ten times what the lanes may hold while none is answered; held locks are renewed
// all the same, and who is refused hears so at once.
func TestFloodAtTenTimesCapacityIsRefusedAtOnceAndRenewalsAreOnTime(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	const capacity, flood, callers = 8192, 10 * 8192, 16
	e := testkit.Open(t, p.Addr(), func(c *engine.Config) { c.QueueMax = capacity })
	var held []*engine.Lease
	for i := range 500 {
		held = append(held, testkit.Acquire(t, e.Lock(testkit.Numbered("held", i), engine.WatchdogLease(1500*time.Millisecond))))
	}
	hold := p.Hold(testkit.ScriptCall("acquire"), -1)
	var mu sync.Mutex
	var refused []time.Duration
	var queued []*engine.Future[*engine.Lease]
	from := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			var took []time.Duration
			var waits []*engine.Future[*engine.Lease]
			for i := range flood / callers {
				lock := e.Lock(testkit.Numbered("flood", c*flood+i))
				began := time.Now()
				f := lock.AcquireAsync(t.Context())
				if _, err, ok := f.Result(); ok {
					took = append(took, time.Since(began))
					if !errors.Is(err, engine.ErrOverloaded) {
						t.Errorf("refused with %v", err)
					}
					continue
				}
				waits = append(waits, f)
			}
			mu.Lock()
			defer mu.Unlock()
			refused, queued = append(refused, took...), append(queued, waits...)
		})
	}
	wg.Wait()
	testkit.Eventually(t, "more than a lease has passed since the last acquire was answered", func() bool {
		return time.Since(from) > 2*time.Second
	})
	require.Zero(t, testkit.LostOf(held), "renewals went on")
	hold.Remove()
	p.ReleaseCommands()

	require.GreaterOrEqual(t, len(queued), capacity/2)
	require.GreaterOrEqual(t, len(refused), flood-2*capacity)
	slices.Sort(refused)
	t.Logf("%d refused: median %v, 99th percentile %v", len(refused), refused[len(refused)/2], refused[len(refused)*99/100])
	require.Less(t, refused[len(refused)/2], time.Millisecond)
	require.Equal(t, int64(len(refused)), e.Stats().Nodes[0].Overloaded, "each refusal is counted")
	leases, err := engine.AllLeases(queued...).Await(testkit.Limited(t))
	require.NoError(t, err, "what was taken in is served")
	for _, ls := range append(leases, held...) {
		ls.ReleaseAsync()
	}
	testkit.Finish(t, s, e)
}
