package family_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A hash of many fields is not read: Inspect says so, and what is known all the same.
func TestInspectSaysThatAHashHasTooManyFields(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, e.RWLock("many").ReadLock())
	s.Do(t, "EVAL", `for i = 1, 10000 do redis.call('HSET', KEYS[1], 'other:' .. i, 1) end`, "1", "many")
	info, err := e.RWLock("many").ReadLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Greater(t, info.Remaining, time.Second)
	info.Remaining = 0
	require.Equal(t, engine.Info{Locked: true, Mode: "read", Fields: 10_002}, info)
	info, err = e.RWLock("many").WriteLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, engine.Info{Mode: "read", Fields: 10_002}, info)
	_, err = e.Lock("many").Inspect(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	s.Do(t, "HDEL", "many", "mode")
	_, err = e.RWLock("many").ReadLock().Inspect(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	s.Do(t, "DEL", "many")
	_ = held.Release(testkit.Limited(t))
}

// Some hundred calls' worth of dead waiters, Redisson's and ours, stands before the callers, who ask again until it is gone: in their order.
func TestAFairLockBehindManyDeadWaitersIsGranted(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	s.Do(t, "EVAL", `
for i = 1, 30000 do
  local field = i * 7919 % 1000003 .. ':' .. (i > 15000 and '0' or '') .. i
  redis.call('RPUSH', KEYS[1], field)
  redis.call('ZADD', KEYS[2], 1, field)
  if i > 15000 then
    redis.call('ZADD', KEYS[3], 1, field)
  end
end`, "3", slot.FairQueue("q"), slot.FairTimeouts("q"), slot.FairHeard("q"))
	first := e.FairLock("q").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "the first waits", func() bool { return e.Stats().Waiting == 1 })
	second := e.FairLock("q").AcquireAsync(testkit.Limited(t))
	ls, err := first.Await(testkit.Limited(t))
	require.NoError(t, err)
	select {
	case <-second.Done():
		t.Fatal("it has overtaken")
	default:
	}
	testkit.Release(t, ls)
	ls, err = second.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	s.Do(t, "DEL", slot.FairNotes("q")) // Redisson was seen: it stays a while
	testkit.Finish(t, s, e)
}
