package redisson_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// apiField is Redisson's field: the client's UUID, a colon, a positive long in decimal.
//
//nolint:gochecknoglobals // a constant in all but name
var apiField = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[1-9][0-9]{0,18}$`)

// apiWire checks the bytes of a lock on the server: a hash with one field, value "1", and the lease
// as its TTL.
func apiWire(t testing.TB, s *redistest.Server, e *engine.Engine, key string, ls *engine.Lease, lease time.Duration) {
	t.Helper()
	require.Equal(t, "hash", s.Do(t, "TYPE", key))
	require.Equal(t, []string{ls.OwnerID(), "1"}, strings.Split(s.Do(t, "HGETALL", key), "\n"))
	require.Regexp(t, apiField, ls.OwnerID())
	uuid, thread, _ := strings.Cut(ls.OwnerID(), ":")
	require.Equal(t, e.ID(), uuid)
	id, err := strconv.ParseInt(thread, 10, 64)
	require.NoError(t, err, "Java reads a long")
	require.Positive(t, id)
	left := time.Duration(testkit.Int(t, s, "PTTL", key)) * time.Millisecond
	require.LessOrEqual(t, left, lease)
	require.Greater(t, left, lease-5*time.Second)
}

func TestWireOfALockTakenAloneIsRedissons(t *testing.T) {
	for _, c := range []struct{ name, channel string }{
		{"orders", "redisson_lock__channel:{orders}"},
		{"a{tag}", "redisson_lock__channel:a{tag}"},
		{"a{b", "redisson_lock__channel:a{b"}, // a cluster could not hold it; a single server can
		{"a}b", "redisson_lock__channel:{a}b}"},
		{"x{}y", "redisson_lock__channel:x{}y"},
		{"späße und 锁", "redisson_lock__channel:{späße und 锁}"},
		{"with spaces 'and' \"quotes\"", "redisson_lock__channel:{with spaces 'and' \"quotes\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.OpenChecked(t, s.Addr())
			exact, pattern := testkit.NewForeign(t, s), testkit.NewForeign(t, s)
			ctx := testkit.Limited(t)
			exact.Do("SUBSCRIBE", c.channel)
			pattern.Do("PSUBSCRIBE", "*")
			testkit.ResetCalls(t, s)

			ls := testkit.Acquire(t, e.Lock(c.name))
			require.Equal(t, []string{c.name}, s.Keys(t), "nothing but the key")
			apiWire(t, s, e, c.name, ls, engine.DefaultLease)
			calls := testkit.Calls(t, s)
			require.EqualValues(t, 1, calls["evalsha"])
			require.EqualValues(t, 1, calls["hset"], "a lock alone is not copied")
			require.Zero(t, calls["copy"])
			require.Zero(t, calls["publish"])

			testkit.Release(t, ls)
			require.Empty(t, s.Keys(t))
			require.EqualValues(t, 1, testkit.Calls(t, s)["publish"], "one message")
			msg, err := exact.Conn.Receive(ctx)
			require.NoError(t, err)
			require.Equal(t, []any{"message", c.channel, "0"}, msg)
			msg, err = pattern.Conn.Receive(ctx)
			require.NoError(t, err)
			require.Equal(t, []any{"pmessage", "*", c.channel, "0"}, msg)
			require.EqualValues(t, 1, testkit.Calls(t, s)["hdel"])
		})
	}
}

func TestWireOfLocksTakenByCopyIsTheSameAndTheKeysAreIndependent(t *testing.T) {
	const n = 400
	lease := 20 * time.Second
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	testkit.ResetCalls(t, s)
	p.Hold(faultproxy.Command("EVALSHA"), -1) // while one command is out the others collect
	var futures []*engine.Future[*engine.Lease]
	key := func(i int) string { return fmt.Sprintf("name:%d", i) }
	for i := range n {
		futures = append(futures, e.Lock(key(i), engine.FixedLease(lease)).AcquireAsync(context.Background()))
	}
	p.ReleaseCommands()
	var leases []*engine.Lease
	fields := make(map[string]int)
	for _, f := range futures {
		ls := testkit.Get(t, f)
		leases = append(leases, ls)
		fields[ls.OwnerID()]++
	}
	calls := testkit.Calls(t, s)
	require.Greater(t, calls["copy"], int64(n/2), "most were copied")
	require.NotZero(t, calls["hset"], "the first of each batch is not")
	require.EqualValues(t, n, calls["hset"]+calls["copy"], "one or the other for each key")
	require.Equal(t, calls["hset"], calls["pexpire"], "a copy brings its expiry")
	require.EqualValues(t, len(fields), calls["evalsha"], "an owner id belongs to one batch")
	for i, ls := range leases {
		apiWire(t, s, e, key(i), ls, lease)
	}

	// The largest batch: release one of its keys, the others stay.
	var shared string
	for field, keys := range fields {
		if keys > fields[shared] {
			shared = field
		}
	}
	require.Greater(t, fields[shared], 10)
	require.LessOrEqual(t, fields[shared], 256)
	one := slices.IndexFunc(leases, func(ls *engine.Lease) bool { return ls.OwnerID() == shared })
	testkit.Release(t, leases[one])
	require.Equal(t, "0", s.Do(t, "EXISTS", key(one)))
	require.Len(t, s.Keys(t), n-1)
	for i, ls := range leases {
		if i != one {
			require.False(t, ls.Lost())
			require.Equal(t, "1", s.Do(t, "HGET", key(i), ls.OwnerID()))
		}
	}

	// Whoever takes the released key next has a field of its own: a late release of the old holder
	// cannot touch it.
	again := testkit.Acquire(t, e.Lock(key(one)))
	require.NotEqual(t, shared, again.OwnerID())
	require.ErrorIs(t, leases[one].Release(testkit.Limited(t)), engine.ErrNotHeld)
	require.Equal(t, again.OwnerID()+"\n1", s.Do(t, "HGETALL", key(one)))

	var releases []*engine.Future[struct{}]
	for i, ls := range leases {
		if i != one {
			releases = append(releases, ls.ReleaseAsync())
		}
	}
	for _, f := range releases {
		testkit.Get(t, f)
	}
	require.Equal(t, []string{key(one)}, s.Keys(t))
}

// A batch in which some keys are taken: those are busy, the rest is granted, by COPY too, and no
// foreign key is touched.
func TestWireOfABatchWithBusyKeysLeavesThemAlone(t *testing.T) {
	const n = 90
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	foreign := testkit.NewForeign(t, s)
	for i := 0; i < n; i += 3 {
		foreign.Lock(fmt.Sprint("name:", i), 40*time.Second)
	}
	testkit.ResetCalls(t, s)
	p.Hold(faultproxy.Command("EVALSHA"), -1)
	var futures []*engine.Future[*engine.Lease]
	for i := range n {
		futures = append(futures, e.Lock(fmt.Sprint("name:", i)).TryAcquireAsync(context.Background()))
	}
	p.ReleaseCommands()
	for i, f := range futures {
		ls, err := f.Await(testkit.Limited(t))
		if i%3 != 0 {
			require.NoError(t, err)
			apiWire(t, s, e, fmt.Sprint("name:", i), ls, engine.DefaultLease)
			continue
		}
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.InDelta(t, 40, held.Remaining.Seconds(), 5)
		require.Equal(t, foreign.Field+"\n1", s.Do(t, "HGETALL", fmt.Sprint("name:", i)))
	}
	require.NotZero(t, testkit.Calls(t, s)["copy"])
}

func TestWireOfForceReleaseIsAMessageAndNoKey(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign, ear := testkit.NewForeign(t, s), testkit.NewForeign(t, s)
	ctx := testkit.Limited(t)
	ear.Do("SUBSCRIBE", testkit.Channel("name"))

	was, err := e.Lock("name").ForceRelease(ctx)
	require.NoError(t, err)
	require.False(t, was, "there was none")

	foreign.Lock("name", time.Minute)
	was, err = e.Lock("name").ForceRelease(ctx)
	require.NoError(t, err)
	require.True(t, was)
	require.Empty(t, s.Keys(t))
	msg, err := ear.Conn.Receive(ctx)
	require.NoError(t, err)
	require.Equal(t, []any{"message", testkit.Channel("name"), "0"}, msg)

	// Another kind of lock under the name is not ours to delete.
	s.Do(t, "HSET", "rw", "mode", "write", "somebody:1:write", "1")
	_, err = e.Lock("rw").ForceRelease(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind)
	s.Do(t, "SET", "text", "value")
	_, err = e.Lock("text").ForceRelease(ctx)
	require.ErrorIs(t, err, engine.ErrWrongKind)
	require.Equal(t, []string{"rw", "text"}, s.Keys(t))
}

// The watchdog and Extend may only ever raise a TTL: a foreign hand that made it longer is respected.
func TestWireTTLIsNeverShortened(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name", engine.WatchdogLease(time.Second)))
	s.Do(t, "PEXPIRE", "name", "60000")
	sent := e.Stats().Renewals.Sent
	testkit.Eventually(t, "two renewals", func() bool { return e.Stats().Renewals.Sent >= sent+2 })
	require.Greater(t, testkit.Int(t, s, "PTTL", "name"), int64(50_000))

	s.Do(t, "PERSIST", "name") // a key without TTL gets one again
	sent = e.Stats().Renewals.Sent
	testkit.Eventually(t, "two renewals", func() bool { return e.Stats().Renewals.Sent >= sent+2 })
	left := testkit.Int(t, s, "PTTL", "name")
	require.Positive(t, left)
	require.LessOrEqual(t, left, int64(1000))
	testkit.Release(t, ls)
}
