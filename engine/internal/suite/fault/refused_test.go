package fault_test

import (
	"context"
	"os"
	"path/filepath"
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

// TestC056C057_WritesAreRefused: the server answers, and refuses to write, because it cannot save
// or has too few replicas. Holders are told by their deadline, a new acquire at once, a waiter waits,
// and everything goes on when the server is well again.
func TestC056C057_WritesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class        engine.Class
		broken, well func(t *testing.T, s *redistest.Server)
	}{
		"C056_Misconf": {engine.ClassMisconf, func(t *testing.T, s *redistest.Server) {
			t.Helper()
			require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700)) // where the file is to be
			s.Do(t, "CONFIG", "SET", "save", "3600 1000000")
			saved(t, s, "err")
		}, func(t *testing.T, s *redistest.Server) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(s.Dir(), "dump.rdb")))
			saved(t, s, "ok")
		}},
		"C057_NoReplicas": {engine.ClassNoReplicas, func(t *testing.T, s *redistest.Server) {
			t.Helper()
			s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
		}, func(t *testing.T, s *redistest.Server) {
			t.Helper()
			s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			logger, log := testkit.Logger()
			e := testkit.Open(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
			other := testkit.Open(t, s.Addr())
			ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(time.Second)))
			waiter := other.Lock("a").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it waits", func() bool { return other.Stats().Waits == 1 })
			c.broken(t, s)
			stalled := testkit.WatchScheduler(t)
			testkit.Await(t, ls.Context().Done(), "the holder is told")
			require.LessOrEqual(t, time.Since(ls.Deadline()), stalled(), "told after the deadline")
			testkit.Eventually(t, "jeopardy is logged", func() bool { return len(log.With("jeopardy")) > 0 })
			_, err := e.Lock("new").TryAcquire(testkit.Limited(t))
			require.Equal(t, c.class, testkit.ServerClass(err), "%v", err)
			_, _, done := waiter.Result()
			require.False(t, done, "the waiter waits for better days")
			c.well(t, s)
			got, err := waiter.Await(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, got)
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
			testkit.Release(t, testkit.Acquire(t, e.Lock("new")))
			testkit.Finish(t, s, e, other)
		})
	}
}

// saved saves until it ends as wanted.
func saved(t *testing.T, s *redistest.Server, status string) {
	t.Helper()
	testkit.Eventually(t, "a save that ends with "+status, func() bool {
		_, _ = s.Command(testkit.Limited(t), "BGSAVE") // refused while one is running
		got, err := s.InfoField("persistence", "rdb_last_bgsave_status")
		return err == nil && got == status
	})
}

// TestC061_PasswordIsChanged: connections that stand go on. When they break, no new one can be made:
// the holder is told by its deadline, the error has its class, and nobody hammers at the door.
func TestC061_PasswordIsChanged(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t)
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), testkit.AsApp)
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(time.Second)))
	first := ls.Deadline()
	testkit.Eventually(t, "the connection for renewals stands", func() bool { return ls.Deadline().After(first.Add(100 * time.Millisecond)) })
	testkit.ACLRules(t, s, "resetpass", ">another")
	first = ls.Deadline()
	testkit.Eventually(t, "it is renewed over the connection that stands", func() bool { return ls.Deadline().After(first.Add(time.Second)) })
	require.False(t, ls.Lost())
	testkit.Release(t, testkit.Acquire(t, e.Lock("b")))

	before := connections(t, s)
	p.CutAll()
	testkit.Await(t, ls.Context().Done(), "the holder is told")
	_, err := e.Lock("b").TryAcquire(testkit.Limited(t))
	require.Equal(t, engine.ClassNoAuth, testkit.ServerClass(err), "%v", err)
	require.Less(t, connections(t, s)-before, 200, "a tight loop")
	testkit.ACLRules(t, s, "resetpass", ">secret")
	testkit.Eventually(t, "it works again", func() bool {
		ls, err := e.Lock("b").TryAcquire(testkit.Limited(t))
		return err == nil && ls.Release(testkit.Limited(t)) == nil
	})
	testkit.Finish(t, s, e)
}

// connections counts those the server has taken.
func connections(t *testing.T, s *redistest.Server) int {
	t.Helper()
	text, err := s.InfoField("stats", "total_connections_received")
	require.NoError(t, err)
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestC063_NoMoreClientsAreTaken: who is connected goes on, waiters poll, who comes is told.
func TestC063_NoMoreClientsAreTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	admin, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	defer admin.Close()
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(time.Second)))
	deadline := ls.Deadline()
	testkit.Eventually(t, "the connection for renewals stands", func() bool { return ls.Deadline().After(deadline.Add(100 * time.Millisecond)) })
	_, err = admin.Do(testkit.Limited(t), "CONFIG", "SET", "maxclients", "1")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(testkit.Limited(t), 5*time.Second)
	defer cancel()
	_, err = engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	// The server says why and closes at once: the reset may overtake what it said.
	require.Contains(t, []engine.Class{engine.ClassMaxClients, engine.ClassUnreachable}, testkit.ServerClass(err), "%v", err)
	require.True(t, engine.SafeToRetry(err))
	deadline = ls.Deadline()
	testkit.Eventually(t, "renewed", func() bool { return ls.Deadline().After(deadline.Add(500 * time.Millisecond)) })
	require.False(t, ls.Lost())
	// The connection for subscriptions cannot be made: this waiter is served by its poll.
	_, err = admin.Do(testkit.Limited(t), "HSET", "b", "another:1", "1")
	require.NoError(t, err)
	_, err = admin.Do(testkit.Limited(t), "PEXPIRE", "b", "60000")
	require.NoError(t, err)
	waiter := e.Lock("b").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().Waits == 1 })
	_, err = admin.Do(testkit.Limited(t), "DEL", "b")
	require.NoError(t, err)
	got, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.NotZero(t, e.Stats().GrantsByPoll)
	testkit.Release(t, got)
	testkit.Release(t, ls)
	_, err = admin.Do(testkit.Limited(t), "CONFIG", "SET", "maxclients", "10000")
	require.NoError(t, err)
	testkit.Finish(t, s, e)
}

// TestC076_ServerWithoutRESP3: a proxy or an old server that does not know HELLO. Locks work, and
// waiters poll; one that refuses EVALSHA is refused in clear words.
func TestC076_ServerWithoutRESP3(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--rename-command", "HELLO", ""}})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(time.Second)))
	waiter := other.Lock("a").AcquireAsync(testkit.Limited(t))
	deadline := ls.Deadline()
	testkit.Eventually(t, "renewed", func() bool { return ls.Deadline().After(deadline.Add(500 * time.Millisecond)) })
	testkit.Release(t, ls)
	got, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, got)
	testkit.Finish(t, s, e, other)

	mute := redistest.Run(t, redistest.Options{Args: []string{"--rename-command", "EVALSHA", ""}})
	e = testkit.Open(t, mute.Addr())
	_, err = e.Lock("a").TryAcquire(testkit.Limited(t))
	require.ErrorContains(t, err, "EVALSHA")
	require.True(t, strings.HasPrefix(err.Error(), "holdfast: "), "%v", err)
	require.NoError(t, e.Close(testkit.Limited(t)))
}
