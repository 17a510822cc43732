package cluster_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// demote makes b the master of a.
func demote(tb testing.TB, a, b *redistest.Server) {
	tb.Helper()
	b.Do(tb, "REPLICAOF", "NO", "ONE")
	a.Do(tb, "REPLICAOF", "127.0.0.1", strconv.Itoa(b.Port()))
}

// Behind one address, as a load balancer's or a name's, the master is demoted and keeps its connections; new ones lead
// to the new master. The engine leaves the old one: what is held is renewed there, who waits is woken there.
func TestAMasterThatIsDemotedBehindItsAddressIsLeft(t *testing.T) {
	t.Parallel()
	a, b := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	b.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(a.Port()))
	front := faultproxy.Run(t, a.Addr())
	e, other := testkit.Open(t, front.Addr()), testkit.Open(t, front.Addr())
	held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(3*time.Second)))
	waiter := other.Lock("held").AcquireAsync(t.Context())
	testkit.Eventually(t, "it listens", func() bool { return other.Stats().Nodes[0].Subscriptions.Confirmed == 1 })
	testkit.Eventually(t, "it is replicated", func() bool { return b.Do(t, "EXISTS", "held") == "1" })
	front.Redirect(b.Addr())
	demote(t, a, b)
	began := time.Now()
	fresh := testkit.Acquire(t, e.Lock("fresh"))
	require.Less(t, testkit.Ran(began), 2*time.Second, "the first refusal has the connection left")
	testkit.Eventually(t, "it is renewed there", func() bool { return time.Since(began) > 3*time.Second && testkit.Int(t, b, "PTTL", "held") > 2000 })
	require.False(t, held.Lost())
	testkit.Release(t, held)
	got, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "1", b.Do(t, "EXISTS", "held"), "at the new master")
	testkit.Release(t, got)
	testkit.Release(t, fresh)
	testkit.Finish(t, b, e, other)
}

// An address that leads to a replica for good is not dialled all the time.
func TestAnAddressThatLeadsToAReplicaIsDialledWithAPause(t *testing.T) {
	t.Parallel()
	a, b := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
	front := faultproxy.Run(t, a.Addr())
	e := testkit.Open(t, front.Addr())
	testkit.Release(t, testkit.Acquire(t, e.Lock("before")))
	a.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(b.Port()))
	before := front.Stats().Accepted
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	asked := make([]*engine.Future[*engine.Lease], 200) // many who ask again and again
	for i := range asked {
		asked[i] = e.Lock(fmt.Sprint("name:", i)).AcquireAsync(ctx)
	}
	for _, f := range asked {
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	dialled := front.Stats().Accepted - before
	require.GreaterOrEqual(t, dialled, 2, "it is looked for")
	require.LessOrEqual(t, dialled, 16, "0, 0.1, 0.3, 0.7, 1.5 s: five of the commands', and as many of the subscriptions'")
	a.Do(t, "REPLICAOF", "NO", "ONE")
	testkit.Release(t, testkit.Acquire(t, e.Lock("after")))
	testkit.Finish(t, a, e)
}
