package security_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// writeHuge runs a command with 9 MB in place of each HUGE, made on the server.
func writeHuge(t *testing.T, s *redistest.Server, command ...string) {
	t.Helper()
	s.Do(t, append([]string{"EVAL", `
for i = 1, #ARGV do
  if ARGV[i] == 'HUGE' then
    ARGV[i] = string.rep('x', 9437184)
  end
end
return redis.call(unpack(ARGV)) and 1`, "0"}, command...)...)
}

// Whoever may write to a lock's key can put more there than a connection carries in one reply. Who looks at it is told
// so: the connection, and what everybody else has on it, goes on.
func TestLookingAtAHugeKeyEndsNoConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, e.Lock("held"))
	writeHuge(t, s, "HSET", "field", "HUGE", "1")
	writeHuge(t, s, "HSET", "count", "x:1", "HUGE")
	writeHuge(t, s, "HSET", "mode", "mode", "HUGE", "x:1", "1")
	writeHuge(t, s, "HSET", "reader", "mode", "read", "HUGE", "1")
	writeHuge(t, s, "HSET", "writer", "mode", "write", "HUGE:write", "1", "HUGE", "1")
	writeHuge(t, s, "RPUSH", slot.FairQueue("q"), "first:1", "HUGE", "last:1")
	for _, name := range []string{"field", "count", "mode", "reader", "writer"} {
		for _, l := range []*engine.Lock{e.Lock(name), e.RWLock(name).ReadLock(), e.RWLock(name).WriteLock()} {
			info, err := l.Inspect(testkit.Limited(t))
			if err != nil {
				require.ErrorIs(t, err, engine.ErrWrongKind, name)
				continue
			}
			require.Positive(t, info.Fields, name)
			require.Less(t, len(info.Mode)+len(info.OwnerID), 100, name)
		}
	}
	info, err := e.RWLock("reader").ReadLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, engine.Info{Locked: true, Mode: "read", Fields: 2, Remaining: -1}, info)
	places, err := e.FairLock("q").Queue(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, []engine.Place{{OwnerID: "first:1"}}, places)
	require.Zero(t, e.Stats().ConnectionsRefused)
	require.False(t, held.Lost())
	testkit.Release(t, held)
	s.Do(t, "FLUSHDB")
	testkit.Finish(t, s, e)
}

// Up to a megabyte a hash is shown whole, and a queue.
func TestLookingAtALargeKeyShowsItWhole(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	s.Do(t, "EVAL", `
redis.call('HSET', KEYS[1], 'mode', 'read')
for i = 1, 9999 do
  local reader = string.format('%099d', i)
  redis.call('HSET', KEYS[1], reader, 1)
  redis.call('RPUSH', KEYS[2], reader)
end`, "2", "readers", slot.FairQueue("q"))
	info, err := e.RWLock("readers").ReadLock().Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, 9999, info.Holds)
	require.Zero(t, info.Fields)
	places, err := e.FairLock("q").Queue(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, places, 9999)
	s.Do(t, "FLUSHDB")
}
