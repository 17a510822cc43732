package yardstick

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial starts a server for the test and connects to it as the yardstick does.
func dial(t *testing.T) (client rueidis.Client, addr string) {
	t.Helper()
	addr = redistest.Run(t, redistest.Options{}).Addr()
	client, err := rueidis.NewClient(ClientOption(addr))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, addr
}

func keysLeft(t *testing.T, client rueidis.Client) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	return n
}

func TestPipeline(t *testing.T) {
	client, _ := dial(t)

	t.Run("DoesExactlySoManyPairsAndLeavesNoKey", func(t *testing.T) {
		r, err := Pipeline(t.Context(), One(client), Options{Pairs: 5000, Prefix: "yard:"})
		require.NoError(t, err)
		require.Equal(t, int64(5000), r.Pairs)
		require.Zero(t, r.Errors)
		require.Positive(t, r.PairsPerSecond())
		require.Zero(t, keysLeft(t, client))
	})

	t.Run("EndsWithItsDuration", func(t *testing.T) {
		r, err := Pipeline(t.Context(), One(client), Options{Duration: 50 * time.Millisecond, Names: 1000})
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Elapsed, 50*time.Millisecond)
		require.Positive(t, r.Pairs)
		require.Zero(t, keysLeft(t, client))
	})

	t.Run("EndsWithItsContextAndLeavesNoKey", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Pipeline(ctx, One(client), Options{Duration: time.Hour})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, keysLeft(t, client))
	})

	t.Run("ABusyAnswerIsAnError", func(t *testing.T) {
		s := Redisson()
		s.Acquire = `return 7`
		r, err := Pipeline(t.Context(), One(client), Options{Pairs: 8, Goroutines: 1, Window: 8, Scripts: s})
		require.ErrorContains(t, err, "busy for 7 ms")
		require.Equal(t, int64(16), r.Errors, "eight busy, eight not ours")
		require.Zero(t, r.Pairs)
	})

	t.Run("AReleaseOfNothingIsAnErrorAndItsKeysAreRemoved", func(t *testing.T) {
		s := Redisson()
		s.Release = `return nil`
		r, err := Pipeline(t.Context(), One(client), Options{Pairs: 2000, Scripts: s})
		require.ErrorIs(t, err, errNotOurs)
		require.Positive(t, r.Errors)
		require.Zero(t, keysLeft(t, client))
	})

	t.Run("AScriptThatDoesNotCompileIsAnError", func(t *testing.T) {
		s := Redisson()
		s.Acquire = `return (`
		_, err := Pipeline(t.Context(), One(client), Options{Pairs: 1, Scripts: s})
		require.ErrorContains(t, err, "load script")
	})
}

func TestSingle(t *testing.T) {
	client, _ := dial(t)

	t.Run("DoesExactlySoManyPairsAndLeavesNoKey", func(t *testing.T) {
		r, err := Single(t.Context(), One(client), Options{Pairs: 200})
		require.NoError(t, err)
		require.Equal(t, int64(200), r.Pairs)
		require.Zero(t, keysLeft(t, client))
	})

	t.Run("SpeaksToOtherScripts", func(t *testing.T) {
		freed := Redisson().Freed
		r, err := Single(t.Context(), One(client), Options{Pairs: 10, Scripts: Scripts{
			Acquire: `return redis.call('hset', KEYS[1], ARGV[1], 1)`,
			Release: `return redis.call('hdel', KEYS[1], ARGV[1])`,
			AcquireArgs: func(args []string, n Name) []string {
				return append(args, "1", n.Key, n.Field)
			},
			ReleaseArgs: func(args []string, n Name) []string {
				return append(args, "1", n.Key, n.Field)
			},
			Granted: freed,
			Freed:   freed,
		}})
		require.NoError(t, err)
		require.Equal(t, int64(10), r.Pairs)
		require.Zero(t, keysLeft(t, client))
	})
}

// TestRedisson holds the two scripts against what Redisson leaves on the wire.
func TestRedisson(t *testing.T) {
	client, addr := dial(t)
	ctx := t.Context()
	w, err := load(ctx, client, Redisson())
	require.NoError(t, err)
	c := caller{wire: w}
	mine := Name{
		Key:     "wire",
		Channel: "redisson_lock__channel:{wire}",
		Field:   "6e3814a1-e847-452b-a982-45baf93a1df2:57",
		Publish: "PUBLISH",
		LeaseMs: "30000",
	}
	theirs := mine
	theirs.Field = "6e3814a1-e847-452b-a982-45baf93a1df2:58"
	holds := func() map[string]string {
		m, err := client.Do(ctx, client.B().Hgetall().Key(mine.Key).Build()).AsStrMap()
		require.NoError(t, err)
		return m
	}

	// A connection of its own: a confirmed subscription cannot miss the message.
	ear, err := rueidis.NewClient(ClientOption(addr))
	require.NoError(t, err)
	defer ear.Close()
	heard := make(chan rueidis.PubSubMessage, 4)
	dedicated, cancel := ear.Dedicate()
	defer cancel()
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { heard <- m },
	})
	require.NoError(t, dedicated.Do(ctx, ear.B().Subscribe().Channel(mine.Channel).Build()).Error())

	require.NoError(t, granted(client.Do(ctx, c.acquire(mine))))
	require.Equal(t, map[string]string{mine.Field: "1"}, holds(), "one field, its count as text")
	ms, err := client.Do(ctx, client.B().Pttl().Key(mine.Key).Build()).AsInt64()
	require.NoError(t, err)
	require.InDelta(t, 30000, ms, 5000)

	require.ErrorContains(t, granted(client.Do(ctx, c.acquire(theirs))), "busy for")
	require.ErrorIs(t, freed(client.Do(ctx, c.release(theirs))), errNotOurs)

	require.NoError(t, granted(client.Do(ctx, c.acquire(mine))))
	require.Equal(t, map[string]string{mine.Field: "2"}, holds())
	require.ErrorContains(t, freed(client.Do(ctx, c.release(mine))), "answered 0")
	require.Equal(t, map[string]string{mine.Field: "1"}, holds())
	require.Empty(t, heard, "a hold remains: nobody is told")

	require.NoError(t, freed(client.Do(ctx, c.release(mine))))
	require.Empty(t, holds())
	select {
	case m := <-heard:
		require.Equal(t, mine.Channel, m.Channel)
		require.Equal(t, "0", m.Message)
	case <-time.After(10 * time.Second):
		t.Fatal("no message on the channel")
	}
}

func TestCluster(t *testing.T) {
	c := redistest.RunCluster(t, 3, 0)
	nodes, err := Masters(t.Context(), ClientOption(c.Addrs()[0]))
	require.NoError(t, err)
	require.Len(t, nodes, 3)
	t.Cleanup(func() { CloseAll(nodes) })

	r, err := Pipeline(t.Context(), nodes, Options{Pairs: 6000, Publish: "SPUBLISH"})
	require.NoError(t, err, "a key that went to the wrong node would have been refused")
	require.EqualValues(t, 6000, r.Pairs)
	for _, m := range c.Masters {
		stats, err := m.CommandStats()
		require.NoError(t, err)
		require.Positive(t, stats["del"])
		require.Equal(t, stats["del"], stats["spublish"])
		require.Equal(t, "0", m.Do(t, "DBSIZE"))
	}

	r, err = Single(t.Context(), nodes, Options{Pairs: 10})
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Pairs)
}

func TestMastersOfASingleServer(t *testing.T) {
	_, addr := dial(t)
	_, err := Masters(t.Context(), ClientOption(addr))
	require.ErrorContains(t, err, "CLUSTER SLOTS")
}

func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	o := Options{Goroutines: 3, Window: 10, Names: 50, Prefix: "p:"}.withDefaults()
	for range 2 {
		for _, of := range makeNames([]Node{{}}, o) {
			require.Len(t, of, 50)
			for _, n := range of {
				require.False(t, seen[n.Key], "%s twice", n.Key)
				seen[n.Key] = true
				require.Equal(t, "redisson_lock__channel:{"+n.Key+"}", n.Channel)
				require.Equal(t, "30000", n.LeaseMs)
				require.Equal(t, "PUBLISH", n.Publish)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	t.Run("GivesOutExactlyItsPairs", func(t *testing.T) {
		b := newBudget(Options{Pairs: 600})
		b.begin()
		require.Equal(t, []int{256, 256, 88, 0, 0}, []int{
			b.take(256), b.take(256), b.take(256), b.take(256), b.take(256),
		})
	})
	t.Run("EndsWithItsTime", func(t *testing.T) {
		b := newBudget(Options{Duration: time.Nanosecond})
		b.begin()
		require.Eventually(t, func() bool { return b.take(1) == 0 }, time.Second, time.Millisecond)
	})
}
