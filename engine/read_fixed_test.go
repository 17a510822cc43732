package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Readers with fixed leases wait together and are let in together. Each keeps its own end, whatever another extends: they
// share no hold.
func TestReadersWithFixedLeasesKeepTheirOwnEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	w := acquire(t, other.RWLock("rw").WriteLock())
	l := e.RWLock("rw").ReadLock().With(engine.FixedLease(5 * time.Second))
	var readers []*engine.Future[*engine.Lease]
	for range 3 {
		readers = append(readers, l.AcquireAsync(limited(t)))
	}
	eventually(t, "they wait", func() bool { return e.Stats().Waits == 3 })
	release(t, w)
	ls, err := engine.AllLeases(readers...).Await(limited(t))
	require.NoError(t, err, "nobody who reads waits for another")
	a, b, c := ls[0], ls[1], ls[2]
	require.False(t, engine.SameHold(a, b) || engine.SameHold(b, c) || engine.SameHold(c, a))
	require.NoError(t, a.Extend(limited(t), time.Hour))
	release(t, a)
	require.LessOrEqual(t, time.Until(b.Deadline()), 5*time.Second)
	require.LessOrEqual(t, time.Until(expiry(t, s, "rw")), 5*time.Second)
	release(t, b)
	release(t, c)
	finish(t, s, e, other)
}
