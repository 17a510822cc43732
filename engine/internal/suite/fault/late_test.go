package fault_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A cutter is a client whose connections a test can close at its own end, while what was written
// stays on its way: a half-open connection.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

// client makes the client of an engine. The engine does not close it.
func (c *cutter) client(tb testing.TB, addr string) rueidis.Client {
	tb.Helper()
	option := engine.ClientOption(engine.Config{Addrs: []string{addr}})
	dial := option.DialCtxFn
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, config)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conns = append(c.conns, conn)
		}
		return conn, err
	}
	client, err := rueidis.NewClient(option)
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

// cut closes every connection.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// late is an acquire whose bytes the proxy keeps, while its client may do what it likes.
type late struct {
	s     *redistest.Server
	p     *faultproxy.Proxy
	e     *engine.Engine
	cut   func()
	sent  time.Time // before the acquire
	heldC <-chan []string
}

func holdAcquire(t *testing.T) *late {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	c := &cutter{}
	client := c.client(t, p.Addr())
	e := testkit.Open(t, "", func(cfg *engine.Config) { cfg.Addrs, cfg.Client = nil, client })
	return &late{s: s, p: p, e: e, cut: c.cut, heldC: p.Hold(testkit.ScriptCall("acquire"), 1).C(), sent: time.Now()}
}

// deliver lets the late copy go and returns when the server has answered it.
func (l *late) deliver(t *testing.T) {
	t.Helper()
	require.Positive(t, l.p.ReleaseCommands(), "nothing was held")
	require.NoError(t, l.p.Idle(testkit.Limited(t)))
}

// requireGoneInTime waits for the end of the ghost and checks P4's bound.
func (l *late) requireGoneInTime(t *testing.T) {
	t.Helper()
	for testkit.Exists(t, l.s, "a") {
		require.Less(t, time.Since(l.sent), testkit.AttemptLimit+testkit.LimitSlack, "the ghost outlived its attempt")
		testkit.LastUntil(time.Now().Add(5 * time.Millisecond))
	}
}

// TestC029_LateCopyOfAnAcquire: the bytes of an acquire reach the server after its caller has
// given up.
func TestC029_LateCopyOfAnAcquire(t *testing.T) {
	t.Parallel()
	giveUp := func(t *testing.T, l *late) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		f := l.e.Lock("a").AcquireAsync(ctx) // 30 s
		testkit.Await(t, l.heldC, "the acquire is held")
		cancel()
		begun := time.Now()
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, testkit.Ran(begun), 600*time.Millisecond)
	}
	t.Run("AfterItsNotAfterItDoesNothing", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		// Every release of the engine is done when its second one (behind the doubt) is.
		releases := testkit.WatchCommands(l.p, testkit.ScriptCall("release"))
		giveUp(t, l)
		l.cut()
		testkit.Await(t, releases, "the first release")
		testkit.Await(t, releases, "the release behind the doubt")
		require.Greater(t, time.Since(l.sent), testkit.AttemptLimit)
		require.NoError(t, l.e.Close(testkit.Limited(t)))
		before := testkit.CallsOf(t, l.s, "evalsha")
		l.deliver(t)
		require.Equal(t, before+1, testkit.CallsOf(t, l.s, "evalsha"), "the copy ran")
		require.Empty(t, l.s.Keys(t))
	})
	t.Run("BeforeItTheGhostLivesNoLongerThanTheAttempt", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		releases := testkit.WatchCommands(l.p, testkit.ScriptCall("release"))
		giveUp(t, l)
		l.cut()
		testkit.Await(t, releases, "the first release")
		testkit.Eventually(t, "it was answered", func() bool { return testkit.CallsOf(t, l.s, "evalsha") == 1 })
		l.deliver(t)
		require.True(t, testkit.Exists(t, l.s, "a"), "the copy ran")
		require.Empty(t, l.s.ImmortalKeys(t))
		l.requireGoneInTime(t)
		require.Greater(t, time.Since(l.sent), testkit.AttemptLimit, "until then another copy could come")
		testkit.Eventually(t, "it is counted", func() bool { return l.e.Stats().Ghosts == 1 })
		testkit.Finish(t, l.s, l.e)
	})
	t.Run("OnALivingConnectionItIsReleasedWithItsAnswer", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		giveUp(t, l)
		gone := testkit.WatchCommands(l.p, testkit.ScriptCall("release"))
		delivered := time.Now()
		l.p.ReleaseCommands()
		testkit.Await(t, gone, "the grant nobody wants is given back")
		testkit.Eventually(t, "it is free", func() bool { return !testkit.Exists(t, l.s, "a") })
		require.Less(t, testkit.Ran(delivered), 700*time.Millisecond)
		testkit.Finish(t, l.s, l.e)
	})
	t.Run("WhileItsRetryIsHeldItDoesNothing", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
		testkit.Await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		end := testkit.Expiry(t, l.s, "a")
		l.deliver(t)
		testkit.RequireHeldOnce(t, l.s, ls)
		require.Equal(t, end, testkit.Expiry(t, l.s, "a"))
		testkit.Release(t, ls)
		require.False(t, testkit.Exists(t, l.s, "a"))
		testkit.Finish(t, l.s, l.e)
	})
	t.Run("AfterItsRetryWasGrantedAndReleased", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
		testkit.Await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
		require.False(t, testkit.Exists(t, l.s, "a"))
		// The next holder is not disturbed by the copy, nor by what ends it.
		next := testkit.Acquire(t, l.e.Lock("b"))
		l.deliver(t)
		require.True(t, testkit.Exists(t, l.s, "a"), "the copy ran")
		require.Equal(t, ls.OwnerID()+"\n1", l.s.Do(t, "HGETALL", "a"))
		// A caller that comes now waits for the ghost's end, not for its lease.
		later := testkit.Acquire(t, l.e.Lock("a"))
		require.Less(t, time.Since(l.sent), testkit.AttemptLimit+testkit.LimitSlack)
		require.NotEqual(t, ls.OwnerID(), later.OwnerID())
		testkit.RequireHeldOnce(t, l.s, later)
		testkit.RequireHeldOnce(t, l.s, next)
		testkit.Release(t, next)
		testkit.Release(t, later)
		testkit.Finish(t, l.s, l.e)
	})
	busy := func(t *testing.T, l *late, ctx context.Context) (*engine.Lease, *engine.Future[*engine.Lease]) {
		t.Helper()
		other := testkit.Open(t, l.s.Addr())
		theirs := testkit.Acquire(t, other.Lock("a"))
		f := l.e.Lock("a").AcquireAsync(ctx)
		testkit.Await(t, l.heldC, "the acquire is held")
		l.cut()
		testkit.Eventually(t, "its retry was told busy", func() bool { return l.e.Stats().WokenBySubscribe > 0 })
		l.p.DropMessages(func(string) bool { return true }) // so that the copy comes before the next try
		return theirs, f
	}
	t.Run("WhileItsRetryWaitsItIsFoundAsOurs", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		theirs, f := busy(t, l, testkit.Limited(t))
		testkit.Release(t, theirs)
		l.deliver(t)
		require.Regexp(t, "^"+l.e.ID()+":", l.s.Do(t, "HGETALL", "a"), "the copy ran")
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(l.sent), testkit.AttemptLimit, "the next poll")
		testkit.RequireHeldOnce(t, l.s, ls)
		require.EqualValues(t, 2, testkit.CallsOf(t, l.s, "hset"), "theirs and the copy")
		testkit.Release(t, ls)
		testkit.Finish(t, l.s, l.e)
	})
	t.Run("WhileItsRetryWaitsAndLeaves", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		ctx, cancel := context.WithCancel(context.Background())
		theirs, f := busy(t, l, ctx)
		cancel()
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.Canceled)
		testkit.Eventually(t, "the first release was answered", func() bool { return testkit.CallsOf(t, l.s, "hdel") == 1 })
		testkit.Release(t, theirs)
		l.deliver(t)
		require.Regexp(t, "^"+l.e.ID()+":", l.s.Do(t, "HGETALL", "a"), "the copy ran")
		l.requireGoneInTime(t)
		testkit.Finish(t, l.s, l.e)
	})
	t.Run("AfterItsRetryWasLostToADeletion", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
		testkit.Await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		forced, err := l.e.Lock("a").ForceRelease(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, forced)
		require.True(t, ls.Lost())
		l.deliver(t)
		require.True(t, testkit.Exists(t, l.s, "a"), "the copy ran")
		l.requireGoneInTime(t)
		testkit.Finish(t, l.s, l.e)
	})
}

// TestP4StoppedServerCompletesAnAcquireLate: the copy lies in the socket of a stopped server
// when its retry was long granted and released; the server runs it when it goes on.
func TestP4StoppedServerCompletesAnAcquireLate(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		at   time.Duration // when the server goes on
	}{
		{"InTimeAGhostOfTheAttemptLimit", 2 * time.Second},
		{"TooLateNothing", testkit.AttemptLimit + 200*time.Millisecond},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			l := holdAcquire(t)
			f := l.e.Lock("a").AcquireAsync(testkit.Limited(t))
			testkit.Await(t, l.heldC, "the acquire is held")
			l.cut()
			ls, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, ls)
			require.EqualValues(t, 1, testkit.CallsOf(t, l.s, "hset"), "the retry")
			l.s.Pause()
			require.Positive(t, l.p.ReleaseCommands())
			testkit.LastUntil(l.sent.Add(how.at))
			l.s.Resume()
			require.NoError(t, l.p.Idle(testkit.Limited(t)))
			if how.at < testkit.AttemptLimit {
				require.True(t, testkit.Exists(t, l.s, "a"), "the copy ran")
				require.EqualValues(t, 2, testkit.CallsOf(t, l.s, "hset"))
			} else {
				require.EqualValues(t, 1, testkit.CallsOf(t, l.s, "hset"), "the copy changed something")
			}
			l.requireGoneInTime(t)
			testkit.Finish(t, l.s, l.e)
		})
	}
}

// TestC030_LateCopyOfAReentry: the bytes of a re-entry (count 2) arrive when the count is 1 again, or
// when the lock was given back: the last release frees it all the same, and nothing comes back.
func TestC030_LateCopyOfAReentry(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		after bool // the last release
	}{{"BeforeTheLastRelease", false}, {"AfterTheLastRelease", true}} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			l := holdAcquire(t)
			l.p.ReleaseCommands() // only the re-entry is held
			ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
			first, err := l.e.Lock("a").Acquire(ctx)
			require.NoError(t, err)
			held := l.p.Hold(testkit.ScriptCall("reacquire"), 1)
			f := l.e.Lock("a").AcquireAsync(ctx)
			testkit.Await(t, held.C(), "the re-entry is held")
			l.cut()
			second, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
			require.Equal(t, first.OwnerID()+"\n2", l.s.Do(t, "HGETALL", "a"))
			testkit.Release(t, second)
			testkit.RequireHeldOnce(t, l.s, first)
			if !how.after {
				l.deliver(t)
				require.Equal(t, first.OwnerID()+"\n2", l.s.Do(t, "HGETALL", "a"), "the copy ran: it counts for nobody")
			}
			testkit.Release(t, first)
			require.False(t, testkit.Exists(t, l.s, "a"))
			if how.after {
				before := testkit.CallsOf(t, l.s, "evalsha")
				l.deliver(t)
				require.Equal(t, before+1, testkit.CallsOf(t, l.s, "evalsha"), "the copy ran")
				require.False(t, testkit.Exists(t, l.s, "a"))
			}
			testkit.Finish(t, l.s, l.e)
		})
	}
}
