package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestC009_SilenceEndsTheLeaseInTime: nothing comes from the server any more while a lock is
// held. The holder's context ends, and nobody else is granted the lock before its deadline: one clock measures both.
// That the context has ended by then is timed in TestC009_SilenceIsToldBeforeTheServerLetsGo.
func TestC009_SilenceEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name    string
		silence func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy)
		end     func(t *testing.T, s *redistest.Server, p *faultproxy.Proxy)
		healthy bool // for the other engine
	}{
		{
			name:    "ServerStopped",
			silence: func(_ *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { s.Pause() },
			end:     func(_ *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { s.Resume() },
		},
		{
			name:    "BlackHole",
			silence: func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) { p.Pause() },
			end:     func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) { p.Resume() },
			healthy: true,
		},
		{
			name: "NetworkGone",
			silence: func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) {
				p.RefuseNew(true)
				p.CutAll()
			},
			end:     func(_ *testing.T, _ *redistest.Server, p *faultproxy.Proxy) { p.RefuseNew(false) },
			healthy: true,
		},
		{
			name: "C071_ClientPauseWrite",
			silence: func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy) {
				s.Do(t, "CLIENT", "PAUSE", "60000", "WRITE")
			},
			end: func(t *testing.T, s *redistest.Server, _ *faultproxy.Proxy) { s.Do(t, "CLIENT", "UNPAUSE") },
		},
	} {
		for _, lease := range []struct {
			name string
			opt  engine.Option
			d    time.Duration
		}{
			{"Watched", engine.WatchdogLease(2 * time.Second), 2 * time.Second},
			{"Fixed", engine.FixedLease(2 * time.Second), 2 * time.Second},
		} {
			t.Run(how.name+"/"+lease.name, func(t *testing.T) {
				t.Parallel()
				s := redistest.Run(t, redistest.Options{})
				p := faultproxy.Run(t, s.Addr())
				e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
				ls := testkit.Acquire(t, e.Lock("a", lease.opt))
				child, cancel := context.WithCancel(ls.Context())
				defer cancel()
				theirs := other.Lock("a").AcquireAsync(testkit.Limited(t))
				testkit.Eventually(t, "the other engine waits", func() bool { return other.Stats().Waits == 1 })
				if lease.name == "Watched" { // not from the first third of the first lease on
					first := ls.Deadline()
					testkit.Eventually(t, "it is renewed", func() bool { return ls.Deadline().After(first.Add(lease.d / 4)) })
				}
				how.silence(t, s, p)
				silent := time.Now()

				testkit.Await(t, ls.Context().Done(), "the lease's context ends")
				deadline := ls.Deadline()
				require.False(t, deadline.After(silent.Add(lease.d)), "trusted beyond the last answer's lease")
				require.True(t, ls.Lost())
				require.Error(t, ls.Context().Err())
				require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
				testkit.Await(t, child.Done(), "a child's context ends")
				require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)

				if !how.healthy {
					testkit.LastUntil(deadline.Add(300 * time.Millisecond))
					how.end(t, s, p)
				}
				got, err := theirs.Await(testkit.Limited(t))
				grantedAt := time.Now()
				require.NoError(t, err)
				require.True(t, grantedAt.After(deadline), "two holders")
				if how.healthy {
					how.end(t, s, p) // what the first engine had sent arrives now
				}
				// It works again, and nothing of it touches the new holder.
				testkit.Release(t, testkit.Acquire(t, e.Lock("b")))
				testkit.RequireHeldOnce(t, s, got)
				require.True(t, ls.Lost())
				testkit.Release(t, got)
				testkit.Finish(t, s, e, other)
				require.EqualValues(t, 1, e.Stats().Lost)
				require.Zero(t, other.Stats().Lost)
			})
		}
	}
}

// TestC007_TheKeyIsTakenAway: an administrator deletes the key or the field, or somebody else's
// hold stands in its place. The holder is told within a period, and no renewal makes the key again.
func TestC007_TheKeyIsTakenAway(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	const theirs = "2f1f1f66-0000-4000-8000-000000000000:77"
	for _, how := range []struct {
		name string
		do   func(t *testing.T, s *redistest.Server, field string)
		left string
	}{
		{"C007_DEL", func(t *testing.T, s *redistest.Server, _ string) { s.Do(t, "DEL", "a") }, ""},
		{"C008_HDEL", func(t *testing.T, s *redistest.Server, field string) { s.Do(t, "HDEL", "a", field) }, ""},
		{"C066_FLUSHALL", func(t *testing.T, s *redistest.Server, _ string) { s.Do(t, "FLUSHALL") }, ""},
		{"C008_AnotherOwner", func(t *testing.T, s *redistest.Server, _ string) {
			s.Do(t, "EVAL", `redis.call('del', 'a') redis.call('hset', 'a', ARGV[1], 1) redis.call('pexpire', 'a', 20000)`, "0", theirs)
		}, theirs + "\n1"},
		{"C008_AnotherKind", func(t *testing.T, s *redistest.Server, _ string) { s.Do(t, "SET", "a", "x", "PX", "20000") }, "x"},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			renewals := testkit.WatchCommands(p, testkit.ScriptCall("renew"))
			ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(lease)))
			control := testkit.Acquire(t, e.Lock("control", engine.WatchdogLease(lease)))
			ended := ls.Context().Done()
			how.do(t, s, ls.OwnerID())
			if how.name == "C066_FLUSHALL" {
				control = testkit.Acquire(t, e.Lock("control2", engine.WatchdogLease(lease)))
			}
			taken := time.Now()
			testkit.Await(t, ended, "the holder is told")
			require.Less(t, testkit.Ran(taken), lease/3+250*time.Millisecond, "within a period")
			require.True(t, ls.Lost())
			require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
			// Two more renewals of the other lock: none is of this one.
			for len(renewals) > 0 {
				<-renewals
			}
			for range 2 {
				cmd := testkit.Await(t, renewals, "a renewal of another lock")
				require.NotContains(t, cmd, "a")
			}
			read := "HGETALL"
			if how.name == "C008_AnotherKind" {
				read = "GET"
			}
			require.Equal(t, how.left, s.Do(t, read, "a"))
			if how.left != "" {
				require.Less(t, time.Until(testkit.Expiry(t, s, "a")), 20*time.Second)
				require.Greater(t, time.Until(testkit.Expiry(t, s, "a")), 15*time.Second)
				s.Do(t, "DEL", "a")
			}
			testkit.RequireHeldOnce(t, s, control)
			testkit.Release(t, control)
			testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
			testkit.Finish(t, s, e)
		})
	}
}

// TestC064_ServerComesBackEmpty: the server is killed and starts again on its port without its
// data while a lock is held. The holder is told by its next renewal, others may take the lock, and
// every engine recovers by itself.
func TestC064_ServerComesBackEmpty(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(lease)))
	ended := ls.Context().Done()
	waiter := other.Lock("a").AcquireAsync(testkit.Limited(t)) // waits through the restart
	testkit.Eventually(t, "it waits", func() bool { return other.Stats().WokenBySubscribe > 0 })
	s.Kill()
	killed := time.Now()
	require.NoError(t, s.Restart(testkit.Limited(t)))
	back := time.Now()
	require.Less(t, back.Sub(killed), time.Second, "the lease must not be over by then")
	theirs, err := waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(back), 1500*time.Millisecond)
	testkit.Await(t, ended, "the holder is told")
	require.Less(t, testkit.Ran(back), lease/3+lease/12+250*time.Millisecond, "within a period and one retry")
	require.True(t, ls.Lost())
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.RequireHeldOnce(t, s, theirs)
	again := e.Lock("a").AcquireAsync(testkit.Limited(t)) // and is woken by a message again
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().Waiting == 1 && e.Stats().WokenBySubscribe > 0 })
	testkit.Release(t, theirs)
	begun := time.Now()
	mine, err := again.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(begun), 500*time.Millisecond)
	testkit.Release(t, mine)
	testkit.Finish(t, s, e, other)
}

// TestC180_TheDeadlineCountsFromTheSending: the answers travel long. What a grant or a renewal earns
// counts from before it was sent, so the server never lets go while the lease is trusted.
func TestC180_TheDeadlineCountsFromTheSending(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	const lease = 4 * time.Second // a renewal may take a sixth of it
	p.Delay(0, 250*time.Millisecond)
	for _, form := range faultForms {
		ls, err := form.take(e.Lock("a", engine.FixedLease(lease)), testkit.Limited(t))
		require.NoError(t, err)
		testkit.RequireHeldOnce(t, s, ls)
		testkit.Release(t, ls)
	}
	ls := testkit.Acquire(t, e.Lock("b", engine.WatchdogLease(lease)))
	fixed := testkit.Acquire(t, e.Lock("c", engine.FixedLease(lease)))
	testkit.RequireHeldOnce(t, s, ls)
	first := ls.Deadline()
	testkit.Eventually(t, "it is renewed", func() bool { return ls.Deadline().After(first.Add(100 * time.Millisecond)) })
	testkit.RequireHeldOnce(t, s, ls)
	require.NoError(t, fixed.Extend(testkit.Limited(t), 2*lease))
	testkit.RequireHeldOnce(t, s, fixed)
	p.Delay(0, 0)
	testkit.Release(t, ls)
	testkit.Release(t, fixed)
	testkit.Finish(t, s, e)
}

// TestHandOff: a lock passes from one caller of an engine to the next without a command, while
// something is wrong. Passing it on earns nothing: the new lease has the old one's deadline, and its
// holder is told as the old one would have been.
func TestHandOff(t *testing.T) {
	t.Parallel()
	// start lets two callers of an engine follow each other; between does what goes wrong in the turn.
	start := func(t *testing.T, lease time.Duration, between func(s *redistest.Server, p *faultproxy.Proxy)) (*redistest.Server, *faultproxy.Proxy, *engine.Engine, *engine.Lease) {
		t.Helper()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		p.Delay(0, 30*time.Millisecond) // the longer the way, the longer the turn: 200 ms
		first := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(lease)))
		ended := first.Context()
		next := e.Lock("a", engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
		between(s, p)
		testkit.Release(t, first)
		ls, err := next.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.EqualValues(t, 1, e.Stats().GrantsByHandOff)
		require.Equal(t, first.OwnerID(), ls.OwnerID())
		require.ErrorIs(t, context.Cause(ended), engine.ErrReleased)
		require.False(t, first.Lost())
		require.False(t, ls.Lost())
		require.NoError(t, ls.Context().Err())
		require.WithinDuration(t, first.Deadline(), ls.Deadline(), 5*time.Millisecond)
		require.ErrorIs(t, first.Release(testkit.Limited(t)), engine.ErrNotHeld)
		return s, p, e, ls
	}
	t.Run("C007_KeyDeleted", func(t *testing.T) {
		t.Parallel()
		const lease = 1500 * time.Millisecond
		var at time.Time
		s, p, e, ls := start(t, lease, func(s *redistest.Server, _ *faultproxy.Proxy) {
			s.Do(t, "DEL", "a")
			at = time.Now()
		})
		testkit.Await(t, ls.Context().Done(), "the second holder is told")
		require.Less(t, testkit.Ran(at), lease/3+200*time.Millisecond)
		require.True(t, ls.Lost())
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		require.False(t, testkit.Exists(t, s, "a"))
		p.Delay(0, 0)
		testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
		testkit.Finish(t, s, e)
	})
	t.Run("C009_BlackHole", func(t *testing.T) {
		t.Parallel()
		s, p, e, ls := start(t, 3*time.Second, func(_ *redistest.Server, p *faultproxy.Proxy) { p.Pause() })
		other := testkit.Open(t, s.Addr())
		theirs := other.Lock("a").AcquireAsync(testkit.Limited(t))
		third := e.Lock("a").AcquireAsync(testkit.Limited(t))
		testkit.Await(t, ls.Context().Done(), "the second holder is told")
		got, err := theirs.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.True(t, time.Now().After(ls.Deadline()))
		_, _, done := third.Result()
		require.False(t, done, "nobody here gets it without the server")
		p.Delay(0, 0)
		p.Resume()
		testkit.RequireHeldOnce(t, s, got)
		testkit.Release(t, got)
		mine, err := third.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.RequireHeldOnce(t, s, mine)
		testkit.Release(t, mine)
		testkit.Finish(t, s, e, other)
	})
	t.Run("C026_ReplyOfTheLastReleaseLost", func(t *testing.T) {
		t.Parallel()
		s, p, e, ls := start(t, 3*time.Second, func(*redistest.Server, *faultproxy.Proxy) {})
		testkit.RequireHeldOnce(t, s, ls)
		lost := p.DropReply(testkit.ScriptCall("release"), 2)
		testkit.Release(t, ls)
		require.Equal(t, 2, lost.Hits())
		require.False(t, testkit.Exists(t, s, "a"))
		p.Delay(0, 0)
		testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
		testkit.Finish(t, s, e)
	})
}
