package family_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// What a take took whose answer is lost is given back before others of this engine take: the server remembers one take.
func TestATakeIsGivenBackThoughOthersTakeMeanwhile(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	setPermits(t, other.Semaphore("s"), 5)
	lost := p.DropReply(testkit.ScriptCall("semaphore"), 1, faultproxy.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	waits := e.Semaphore("s").AcquireAsync(ctx, 3)
	testkit.Await(t, lost.C(), "the reply was dropped")
	requireFree(t, other.Semaphore("s"), 2)
	undone := p.DropCommand(testkit.ScriptCall("semaphorerelease"), 4)
	cancel()
	require.ErrorIs(t, testkit.GetError(t, waits), context.Canceled)
	testkit.Await(t, undone.C(), "giving back was dropped")
	require.NoError(t, e.Semaphore("s").Acquire(t.Context(), 1))
	require.NoError(t, e.Semaphore("s").Release(t.Context(), 1))
	testkit.Eventually(t, "all are free", func() bool {
		free, err := other.Semaphore("s").AvailablePermits(t.Context())
		return err == nil && free == 5
	})
	require.NoError(t, testkit.Close(e))
	semaphoreIsOver(t, s, "s", other)
}
