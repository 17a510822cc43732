package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestInspectTellsWhoHoldsTheLock(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	ctx := testkit.Limited(t)
	inspect := func(e *engine.Engine) engine.Info {
		t.Helper()
		info, err := e.Lock("name").Inspect(ctx)
		require.NoError(t, err)
		return info
	}
	require.Equal(t, engine.Info{}, inspect(e), "free")

	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(20*time.Second)))
	for i := range 3 {
		e.Lock("name").AcquireAsync(ctx)
		require.Equal(t, i+1, inspect(e).Waiters)
	}
	mine, theirs := inspect(e), inspect(other)
	require.True(t, mine.Locked)
	require.True(t, mine.Mine)
	require.Equal(t, ls.OwnerID(), mine.OwnerID)
	require.True(t, strings.HasPrefix(mine.OwnerID, e.ID()+":"))
	require.Equal(t, 1, mine.Holds)
	require.InDelta(t, 20, mine.Remaining.Seconds(), 5)
	require.True(t, theirs.Locked)
	require.False(t, theirs.Mine)
	require.Equal(t, ls.OwnerID(), theirs.OwnerID)
	require.Zero(t, theirs.Waiters, "waiters here, not there")

	// Redisson's re-entrant holder, and a key that lost its expiry.
	s.Do(t, "HSET", "foreign", "6e3814a1-e847-452b-a982-45baf93a1df2:57", "3")
	info, err := e.Lock("foreign").Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, engine.Info{Locked: true, OwnerID: "6e3814a1-e847-452b-a982-45baf93a1df2:57", Holds: 3, Remaining: -1}, info)

	s.Do(t, "HSET", "odd", "field", "not a number")
	_, err = e.Lock("odd").Inspect(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind)
}

func TestHeldListsWhatTheEngineHolds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	require.Empty(t, e.Held())
	leases := make(map[string]*engine.Lease)
	for i := range 20 {
		name := fmt.Sprint("name:", i)
		leases[name] = testkit.Acquire(t, e.Lock(name, engine.WatchdogLease(time.Duration(10+i)*time.Second)))
	}
	e.Lock("name:7").AcquireAsync(context.Background())
	held := e.Held()
	require.Len(t, held, 20)
	for _, h := range held {
		ls := leases[h.Name]
		require.NotNil(t, ls, h.Name)
		require.Equal(t, ls.OwnerID(), h.OwnerID)
		require.WithinDuration(t, ls.Deadline(), h.Deadline, time.Second)
		require.GreaterOrEqual(t, h.Lease, 10*time.Second)
		require.Equal(t, h.Name == "name:7", h.Waiters == 1)
	}
	testkit.Release(t, leases["name:3"])
	require.Len(t, e.Held(), 19)
	require.False(t, slices.ContainsFunc(e.Held(), func(h engine.HeldInfo) bool { return h.Name == "name:3" }))
}

func TestStatsCountWhatHappened(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	ctx := testkit.Limited(t)
	for i := range 10 {
		testkit.Release(t, testkit.Acquire(t, e.Lock(fmt.Sprint("name:", i))))
	}
	held := testkit.Acquire(t, e.Lock("held"))
	for range 3 {
		_, err := e.Lock("held").TryAcquire(ctx)
		require.ErrorIs(t, err, engine.ErrHeld)
		_, err = other.Lock("held").TryAcquire(ctx)
		require.ErrorIs(t, err, engine.ErrHeld)
	}
	f := other.Lock("held").AcquireAsync(ctx)
	testkit.Parked(t, s, "held", 1, 1, other)
	s.Do(t, "SET", "text", "value")
	_, err := e.Lock("text").Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind)

	stats := e.Stats()
	require.EqualValues(t, 11, stats.Grants)
	require.EqualValues(t, 10, stats.Releases)
	require.EqualValues(t, 3, stats.Refused)
	require.EqualValues(t, 1, stats.Errors)
	require.EqualValues(t, 1, stats.Held)
	require.GreaterOrEqual(t, stats.Names, int64(1))
	require.Zero(t, stats.Lost+stats.Leaked+stats.Ghosts+stats.Abandoned+stats.TooLate+stats.Waits+stats.Waiting)
	require.EqualValues(t, 1, stats.Renewals.Watched)
	require.Len(t, stats.Nodes, 1)
	require.Equal(t, s.Addr(), stats.Nodes[0].Addr)
	require.NotZero(t, stats.Nodes[0].Batches)
	require.Zero(t, stats.Nodes[0].Queued)
	require.Zero(t, stats.Nodes[0].Reconnects)
	require.Zero(t, stats.Nodes[0].ScriptReloads)
	version, err := s.InfoField("server", "redis_version")
	require.NoError(t, err)
	require.Equal(t, version, stats.Nodes[0].Version)

	theirs := other.Stats()
	require.EqualValues(t, 3, theirs.Refused)
	require.EqualValues(t, 1, theirs.Waits)
	require.EqualValues(t, 1, theirs.Waiting)
	require.EqualValues(t, 1, theirs.Nodes[0].Subscriptions.Refs)
	require.EqualValues(t, 1, theirs.Nodes[0].Subscriptions.Confirmed)
	testkit.Release(t, held)
	ls := testkit.Get(t, f)
	require.EqualValues(t, 1, e.Stats().Heard, "somebody was subscribed to that release")
	require.EqualValues(t, 1, other.Stats().Grants)
	require.Zero(t, other.Stats().Waiting)
	testkit.Release(t, ls)
	testkit.Idle(t, e, other)
}

func TestPingSaysWhetherTheServerAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	require.NoError(t, e.Ping(context.Background()))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, e.Ping(ended), context.Canceled)

	s.Pause()
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	start := time.Now()
	err := e.Ping(ctx)
	stop()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "holdfast: ping: no answer from "+s.Addr()+": context deadline exceeded")
	require.Less(t, testkit.Ran(start), 100*time.Millisecond+testkit.Soon)
	start = time.Now()
	err = e.Ping(context.Background())
	s.Resume()
	require.Error(t, err, "no answer")
	require.Less(t, testkit.Ran(start), 5*time.Second, "its own limit")
	testkit.Eventually(t, "it answers again", func() bool { return e.Ping(testkit.Limited(t)) == nil })

	s.Kill()
	require.Error(t, e.Ping(testkit.Limited(t)))
}
