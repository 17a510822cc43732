package engine_test

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
)

// attemptLimit is how late a copy of an acquire may run: P4's bound on a ghost. What comes on top of
// it is the slack for clock rates, the wheel's tick and a busy machine.
const (
	attemptLimit = 2500 * time.Millisecond
	limitSlack   = 400 * time.Millisecond
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
	e := openEngine(t, "", func(cfg *engine.Config) { cfg.Addrs, cfg.Client = nil, client })
	return &late{s: s, p: p, e: e, cut: c.cut, heldC: p.Hold(scriptCall("acquire"), 1).C(), sent: time.Now()}
}

// deliver lets the late copy go and returns when the server has answered it.
func (l *late) deliver(t *testing.T) {
	t.Helper()
	require.Positive(t, l.p.ReleaseCommands(), "nothing was held")
	require.NoError(t, l.p.Idle(limited(t)))
}

// requireGoneInTime waits for the end of the ghost and checks P4's bound.
func (l *late) requireGoneInTime(t *testing.T) {
	t.Helper()
	for exists(t, l.s, "a") {
		require.Less(t, time.Since(l.sent), attemptLimit+limitSlack, "the ghost outlived its attempt")
		lastUntil(time.Now().Add(5 * time.Millisecond))
	}
}

// calls counts how often the server has run a command.
func calls(t *testing.T, s *redistest.Server, command string) int64 {
	t.Helper()
	stats, err := s.CommandStats()
	require.NoError(t, err)
	return stats[command]
}

// TestFault_C029_LateCopyOfAnAcquire: the bytes of an acquire reach the server after its caller has
// given up.
func TestFault_C029_LateCopyOfAnAcquire(t *testing.T) {
	t.Parallel()
	giveUp := func(t *testing.T, l *late) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		f := l.e.Lock("a").AcquireAsync(ctx) // 30 s
		await(t, l.heldC, "the acquire is held")
		cancel()
		begun := time.Now()
		_, err := f.Await(limited(t))
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(begun), 600*time.Millisecond)
	}
	t.Run("AfterItsNotAfterItDoesNothing", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		// Every release of the engine is done when its second one (behind the doubt) is.
		releases := watchCommands(l.p, scriptCall("release"))
		giveUp(t, l)
		l.cut()
		await(t, releases, "the first release")
		await(t, releases, "the release behind the doubt")
		require.Greater(t, time.Since(l.sent), attemptLimit)
		require.NoError(t, l.e.Close(limited(t)))
		before := calls(t, l.s, "evalsha")
		l.deliver(t)
		require.Equal(t, before+1, calls(t, l.s, "evalsha"), "the copy ran")
		require.Empty(t, l.s.Keys(t))
	})
	t.Run("BeforeItTheGhostLivesNoLongerThanTheAttempt", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		releases := watchCommands(l.p, scriptCall("release"))
		giveUp(t, l)
		l.cut()
		await(t, releases, "the first release")
		eventually(t, "it was answered", func() bool { return calls(t, l.s, "evalsha") == 1 })
		l.deliver(t)
		require.True(t, exists(t, l.s, "a"), "the copy ran")
		require.Empty(t, l.s.ImmortalKeys(t))
		l.requireGoneInTime(t)
		require.Greater(t, time.Since(l.sent), attemptLimit, "until then another copy could come")
		eventually(t, "it is counted", func() bool { return l.e.Stats().Ghosts == 1 })
		finish(t, l.s, l.e)
	})
	t.Run("OnALivingConnectionItIsReleasedWithItsAnswer", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		giveUp(t, l)
		gone := watchCommands(l.p, scriptCall("release"))
		delivered := time.Now()
		l.p.ReleaseCommands()
		await(t, gone, "the grant nobody wants is given back")
		eventually(t, "it is free", func() bool { return !exists(t, l.s, "a") })
		require.Less(t, time.Since(delivered), 700*time.Millisecond)
		finish(t, l.s, l.e)
	})
	t.Run("WhileItsRetryIsHeldItDoesNothing", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(limited(t))
		await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		end := expiry(t, l.s, "a")
		l.deliver(t)
		requireHeldOnce(t, l.s, ls)
		require.Equal(t, end, expiry(t, l.s, "a"))
		release(t, ls)
		require.False(t, exists(t, l.s, "a"))
		finish(t, l.s, l.e)
	})
	t.Run("AfterItsRetryWasGrantedAndReleased", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(limited(t))
		await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
		require.False(t, exists(t, l.s, "a"))
		// The next holder is not disturbed by the copy, nor by what ends it.
		next := acquire(t, l.e.Lock("b"))
		l.deliver(t)
		require.True(t, exists(t, l.s, "a"), "the copy ran")
		require.Equal(t, ls.OwnerID()+"\n1", l.s.Do(t, "HGETALL", "a"))
		// A caller that comes now waits for the ghost's end, not for its lease.
		later := acquire(t, l.e.Lock("a"))
		require.Less(t, time.Since(l.sent), attemptLimit+limitSlack)
		require.NotEqual(t, ls.OwnerID(), later.OwnerID())
		requireHeldOnce(t, l.s, later)
		requireHeldOnce(t, l.s, next)
		release(t, next)
		release(t, later)
		finish(t, l.s, l.e)
	})
	busy := func(t *testing.T, l *late, ctx context.Context) (*engine.Lease, *engine.Future[*engine.Lease]) {
		t.Helper()
		other := openEngine(t, l.s.Addr())
		theirs := acquire(t, other.Lock("a"))
		f := l.e.Lock("a").AcquireAsync(ctx)
		await(t, l.heldC, "the acquire is held")
		l.cut()
		eventually(t, "its retry was told busy", func() bool { return l.e.Stats().WokenBySubscribe > 0 })
		l.p.DropMessages(func(string) bool { return true }) // so that the copy comes before the next try
		return theirs, f
	}
	t.Run("WhileItsRetryWaitsItIsFoundAsOurs", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		theirs, f := busy(t, l, limited(t))
		release(t, theirs)
		l.deliver(t)
		require.Regexp(t, "^"+l.e.ID()+":", l.s.Do(t, "HGETALL", "a"), "the copy ran")
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		require.Less(t, time.Since(l.sent), attemptLimit, "the next poll")
		requireHeldOnce(t, l.s, ls)
		require.EqualValues(t, 2, calls(t, l.s, "hset"), "theirs and the copy")
		release(t, ls)
		finish(t, l.s, l.e)
	})
	t.Run("WhileItsRetryWaitsAndLeaves", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		ctx, cancel := context.WithCancel(context.Background())
		theirs, f := busy(t, l, ctx)
		cancel()
		_, err := f.Await(limited(t))
		require.ErrorIs(t, err, context.Canceled)
		eventually(t, "the first release was answered", func() bool { return calls(t, l.s, "hdel") == 1 })
		release(t, theirs)
		l.deliver(t)
		require.Regexp(t, "^"+l.e.ID()+":", l.s.Do(t, "HGETALL", "a"), "the copy ran")
		l.requireGoneInTime(t)
		finish(t, l.s, l.e)
	})
	t.Run("AfterItsRetryWasLostToADeletion", func(t *testing.T) {
		t.Parallel()
		l := holdAcquire(t)
		f := l.e.Lock("a").AcquireAsync(limited(t))
		await(t, l.heldC, "the acquire is held")
		l.cut()
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		forced, err := l.e.Lock("a").ForceRelease(limited(t))
		require.NoError(t, err)
		require.True(t, forced)
		require.True(t, ls.Lost())
		l.deliver(t)
		require.True(t, exists(t, l.s, "a"), "the copy ran")
		l.requireGoneInTime(t)
		finish(t, l.s, l.e)
	})
}

// TestFault_P4_StoppedServerCompletesAnAcquireLate: the copy lies in the socket of a stopped server
// when its retry was long granted and released; the server runs it when it goes on.
func TestFault_P4_StoppedServerCompletesAnAcquireLate(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		at   time.Duration // when the server goes on
	}{
		{"InTimeAGhostOfTheAttemptLimit", 2 * time.Second},
		{"TooLateNothing", attemptLimit + 200*time.Millisecond},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			l := holdAcquire(t)
			f := l.e.Lock("a").AcquireAsync(limited(t))
			await(t, l.heldC, "the acquire is held")
			l.cut()
			ls, err := f.Await(limited(t))
			require.NoError(t, err)
			release(t, ls)
			require.EqualValues(t, 1, calls(t, l.s, "hset"), "the retry")
			l.s.Pause()
			require.Positive(t, l.p.ReleaseCommands())
			lastUntil(l.sent.Add(how.at))
			l.s.Resume()
			require.NoError(t, l.p.Idle(limited(t)))
			if how.at < attemptLimit {
				require.True(t, exists(t, l.s, "a"), "the copy ran")
				require.EqualValues(t, 2, calls(t, l.s, "hset"))
			} else {
				require.EqualValues(t, 1, calls(t, l.s, "hset"), "the copy changed something")
			}
			l.requireGoneInTime(t)
			finish(t, l.s, l.e)
		})
	}
}

// TestFault_C030_LateCopyOfAReentry: the bytes of a re-entry (count 2) arrive when the count is 1 again, or
// when the lock was given back: the last release frees it all the same, and nothing comes back.
func TestFault_C030_LateCopyOfAReentry(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		after bool // the last release
	}{{"BeforeTheLastRelease", false}, {"AfterTheLastRelease", true}} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			l := holdAcquire(t)
			l.p.ReleaseCommands() // only the re-entry is held
			ctx := engine.WithOwner(limited(t), engine.NewOwner())
			first, err := l.e.Lock("a").Acquire(ctx)
			require.NoError(t, err)
			held := l.p.Hold(scriptCall("reacquire"), 1)
			f := l.e.Lock("a").AcquireAsync(ctx)
			await(t, held.C(), "the re-entry is held")
			l.cut()
			second, err := f.Await(limited(t))
			require.NoError(t, err)
			require.Equal(t, first.OwnerID()+"\n2", l.s.Do(t, "HGETALL", "a"))
			release(t, second)
			requireHeldOnce(t, l.s, first)
			if !how.after {
				l.deliver(t)
				require.Equal(t, first.OwnerID()+"\n2", l.s.Do(t, "HGETALL", "a"), "the copy ran: it counts for nobody")
			}
			release(t, first)
			require.False(t, exists(t, l.s, "a"))
			if how.after {
				before := calls(t, l.s, "evalsha")
				l.deliver(t)
				require.Equal(t, before+1, calls(t, l.s, "evalsha"), "the copy ran")
				require.False(t, exists(t, l.s, "a"))
			}
			finish(t, l.s, l.e)
		})
	}
}
