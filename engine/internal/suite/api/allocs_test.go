package api_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What a pair allocates, of those that are in flight together: one piece with its name's entry beside it, and nothing else
// that comes once for each. A closure that moves something to the heap would be one more.
// It runs alone: what others allocate would count.
func TestAPairAllocatesFewTimes(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates, too")
	}
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	const together, rounds = 512, 20
	locks := make([]*engine.Lock, together)
	for i := range locks {
		locks[i] = e.Lock(fmt.Sprint("name:", i))
	}
	acquires := make([]*engine.Future[*engine.Lease], together)
	releases := make([]*engine.Future[struct{}], together)
	ctx := testkit.Limited(t)
	round := func() {
		for i, l := range locks {
			acquires[i] = l.AcquireAsync(ctx)
		}
		for i, f := range acquires {
			ls, err := f.Await(ctx)
			require.NoError(t, err)
			releases[i] = ls.ReleaseAsync()
		}
		for _, f := range releases {
			_, err := f.Await(ctx)
			require.NoError(t, err)
		}
	}
	round()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, float64(after.Mallocs-before.Mallocs)/(together*rounds), 2.9)
}
