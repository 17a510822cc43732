package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// Readers with fixed leases wait together and are let in together. Each keeps its own end, whatever another extends: they
// share no hold.
func TestReadersWithFixedLeasesKeepTheirOwnEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	w := testkit.Acquire(t, other.RWLock("rw").WriteLock())
	l := e.RWLock("rw").ReadLock().With(engine.FixedLease(5 * time.Second))
	var readers []*engine.Future[*engine.Lease]
	for range 3 {
		readers = append(readers, l.AcquireAsync(testkit.Limited(t)))
	}
	testkit.Eventually(t, "they wait", func() bool { return e.Stats().Waits == 3 })
	testkit.Release(t, w)
	ls, err := engine.AllLeases(readers...).Await(testkit.Limited(t))
	require.NoError(t, err, "nobody who reads waits for another")
	a, b, c := ls[0], ls[1], ls[2]
	require.Len(t, map[string]bool{a.OwnerID(): true, b.OwnerID(): true, c.OwnerID(): true}, 3, "a hold each")
	require.NoError(t, a.Extend(testkit.Limited(t), time.Hour))
	testkit.Release(t, a)
	require.LessOrEqual(t, time.Until(b.Deadline()), 5*time.Second)
	require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, "rw")), 5*time.Second)
	testkit.Release(t, b)
	testkit.Release(t, c)
	testkit.Finish(t, s, e, other)
}
