package redisson_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// Redis knows expiries that no time.Duration can hold. They mean "not in this life", not "now".
func TestAForeignExpiryOfCenturiesIsNeitherOverNorPolledFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	const century = 100 * 365 * 24 * time.Hour
	foreign := "12345678-1234-1234-1234-123456789012:1"
	// The second overflows to a time that is over, the last to one of some months.
	for i, ms := range []int64{int64(century/time.Millisecond) + 1, 9_300_000_000_000, 128_849_018_820_000, 185_542_587_100_800_000} {
		plain, rw := testkit.Numbered("plain", i), testkit.Numbered("rw", i)
		s.Do(t, "HSET", plain, foreign, "1")
		s.Do(t, "HSET", rw, "mode", "write", foreign+":write", "1")
		s.Do(t, "PEXPIRE", plain, strconv.FormatInt(ms, 10))
		s.Do(t, "PEXPIRE", rw, strconv.FormatInt(ms, 10))
		for _, l := range []*engine.Lock{e.Lock(plain), e.FairLock(plain).Lock, e.FencedLock(plain).Lock, e.RWLock(rw).WriteLock(), e.RWLock(rw).ReadLock()} {
			_, err := l.TryAcquire(testkit.Limited(t))
			var held *engine.HeldError
			require.ErrorAs(t, err, &held)
			require.InDelta(t, century, held.Remaining, float64(time.Hour), "%d ms", ms)
		}
		for _, l := range []*engine.Lock{e.Lock(plain), e.RWLock(rw).WriteLock()} {
			info, err := l.Inspect(testkit.Limited(t))
			require.NoError(t, err)
			require.InDelta(t, century, info.Remaining, float64(time.Hour), "%d ms", ms)
		}
		polls := e.Stats().WokenByPoll
		_, err := e.Lock(plain, engine.MaxWait(300*time.Millisecond)).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrHeld)
		require.LessOrEqual(t, e.Stats().WokenByPoll, polls+1, "a hot loop")
	}

	s.Do(t, "RPUSH", slot.FairQueue("fair"), foreign, foreign+"2")
	s.Do(t, "ZADD", slot.FairTimeouts("fair"), strconv.FormatInt(math.MaxInt64/2, 10), foreign, "+inf", foreign+"2")
	places, err := e.FairLock("fair").Queue(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, places, 2)
	for _, p := range places {
		require.Equal(t, century, p.Kept)
	}
	s.Do(t, "FLUSHALL")
	testkit.Finish(t, s, e)
}
