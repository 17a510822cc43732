package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A callback that never returns is all that runs when Close gives up: nobody ticks any more, and whoever stands behind it
// is called all the same.
func TestCallbacksBehindOneThatIsStuckAreCalledThoughCloseGaveUp(t *testing.T) {
	t.Parallel()
	c, err := newCallbacks(nil, nil)
	require.NoError(t, err)
	stuck, gate := make(chan struct{}), make(chan struct{})
	c.add(func() { close(stuck); <-gate })
	<-stuck
	var others sync.WaitGroup
	for range 20 {
		others.Add(1)
		c.add(others.Done)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Contains(t, c.close(ended), "1 callbacks have not returned")
	called := make(chan struct{})
	go func() { others.Wait(); close(called) }()
	select {
	case <-called:
	case <-time.After(30 * time.Second):
		require.Fail(t, "nobody calls them")
	}
	close(gate)
}
