package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// TestACL_OneForbiddenNameInABatch: the server refuses a whole command for one key. The engine
// splits it until the guilty key stands alone, for acquires, renewals and releases.
func TestACL_OneForbiddenNameInABatch(t *testing.T) {
	t.Parallel()
	const n, lease = 200, 1500 * time.Millisecond
	s := testkit.ACLServer(t, "resetkeys", "~ok:*")
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), testkit.AsApp)
	p.Delay(0, 30*time.Millisecond) // while the first commands are on their way the others collect
	before := p.Count("EVALSHA")
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		name := testkit.Numbered("ok", i)
		if i == 111 {
			name = "forbidden"
		}
		futures[i] = e.Lock(name, engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
	}
	var leases []*engine.Lease
	for i, f := range futures {
		ls, err := f.Await(testkit.Limited(t))
		if i == 111 {
			require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "%v", err)
			require.NotErrorIs(t, err, engine.ErrUnknown)
			continue
		}
		require.NoError(t, err)
		leases = append(leases, ls)
	}
	require.Less(t, p.Count("EVALSHA")-before, n/4, "the others went in batches")
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
	}
	p.Delay(0, 0)

	// From now on one held key is forbidden: it alone is not renewed, it alone is not released.
	guilty := leases[42]
	ended := guilty.Context().Done()
	testkit.ACLRules(t, s, "resetkeys", "~ok:?", "~ok:1*", "~ok:2*", "~ok:3*", "~ok:5*", "~ok:6*", "~ok:7*", "~ok:8*", "~ok:9*",
		"~ok:40", "~ok:41", "~ok:43", "~ok:44", "~ok:45", "~ok:46", "~ok:47", "~ok:48", "~ok:49")
	require.Equal(t, "ok:42", guilty.Name())
	first, end := guilty.Deadline(), testkit.Expiry(t, s, "ok:42")
	err := guilty.Release(testkit.Limited(t))
	require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "%v", err)
	testkit.Await(t, ended, "it is over")
	testkit.Eventually(t, "the others are renewed", func() bool { return leases[0].Deadline().After(first.Add(lease)) })
	for _, ls := range leases {
		if ls != guilty {
			testkit.RequireHeldOnce(t, s, ls)
		}
	}
	require.Zero(t, e.Stats().Lost)
	for _, ls := range leases {
		if ls != guilty {
			testkit.Release(t, ls)
		}
	}
	testkit.Eventually(t, "the guilty key has expired", func() bool { return len(s.Keys(t)) == 0 || time.Now().After(end.Add(time.Second)) })
	require.Empty(t, s.Keys(t), "it was renewed")
	testkit.Finish(t, s, e)
}

// TestACL_OneForbiddenNameAmongRenewals: a key that may not be renewed any more is lost at its
// deadline; those of its batch are renewed.
func TestACL_OneForbiddenNameAmongRenewals(t *testing.T) {
	t.Parallel()
	const n, lease = 100, 1500 * time.Millisecond
	s := testkit.ACLServer(t)
	e := testkit.Open(t, s.Addr(), testkit.AsApp)
	guilty := testkit.Acquire(t, e.Lock("guilty", engine.WatchdogLease(lease)))
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("ok", i), engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
	}
	leases, err := engine.AllLeases(futures...).Await(testkit.Limited(t))
	require.NoError(t, err)
	ended := guilty.Context().Done()
	testkit.ACLRules(t, s, "resetkeys", "~ok:*")
	deadline := guilty.Deadline()
	stalled := testkit.WatchScheduler(t)
	testkit.Await(t, ended, "it is lost")
	require.LessOrEqual(t, time.Since(guilty.Deadline()), stalled(), "told after the deadline")
	require.WithinDuration(t, deadline, guilty.Deadline(), 5*time.Millisecond)
	testkit.Eventually(t, "the others are renewed", func() bool { return leases[0].Deadline().After(deadline.Add(lease)) })
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
		testkit.Release(t, ls)
	}
	require.EqualValues(t, 1, e.Stats().Lost)
	testkit.Finish(t, s, e)
}

// aclHundred takes a hundred locks at once, checks them, sees them renewed and gives them back.
func aclHundred(t *testing.T, s *redistest.Server, e *engine.Engine) {
	t.Helper()
	const n, lease = 100, 3 * time.Second
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("a", i), engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
	}
	leases, err := engine.AllLeases(futures...).Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Empty(t, s.ImmortalKeys(t))
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
		require.LessOrEqual(t, time.Until(testkit.Expiry(t, s, ls.Name())), lease)
	}
	first := leases[n-1].Deadline()
	testkit.Eventually(t, "they are renewed", func() bool { return leases[n-1].Deadline().After(first.Add(lease / 2)) })
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
	}
	releases := make([]*engine.Future[struct{}], n)
	for i, ls := range leases {
		releases[i] = ls.ReleaseAsync()
	}
	_, err = engine.All(releases...).Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, e.Stats().Lost)
}

// TestACL_FallBacks: commands that make things faster are refused, or the server does not say
// what it can. The plain path writes the same bytes.
func TestACL_FallBacks(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		rules []string
		copy  bool
	}{
		{"Everything", nil, true},
		{"CopyRefused", []string{"-copy"}, false},
		{"VersionUnknown", []string{"-info"}, false}, // as of a server without COPY and PEXPIRE GT
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := testkit.ACLServer(t, how.rules...)
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr(), testkit.AsApp)
			p.Delay(0, 20*time.Millisecond) // for batches
			aclHundred(t, s, e)
			p.Delay(0, 0)
			stats, err := s.CommandStats()
			require.NoError(t, err)
			if how.copy {
				require.Positive(t, stats["copy"])
				require.Less(t, stats["hset"], int64(50))
			} else {
				require.EqualValues(t, 100, stats["hset"])
			}
			if how.name == "VersionUnknown" {
				require.Zero(t, stats["copy"], "not even tried")
				require.Empty(t, e.Stats().Nodes[0].Version)
			}
			testkit.Finish(t, s, e)
		})
	}
}

// TestACL_PexpireRefused: a key that cannot be given an expiry does not stay (P6).
func TestACL_PexpireRefused(t *testing.T) {
	t.Parallel()
	s := testkit.ACLServer(t, "-pexpire")
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr(), testkit.AsApp)
	for _, form := range faultForms {
		_, err := form.take(e.Lock("a"), testkit.Limited(t))
		require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "%s: %v", form.name, err)
		require.Empty(t, s.Keys(t))
	}
	t.Run("AfterALostReply", func(t *testing.T) { // the other script
		p.DropCommand(testkit.ScriptCall("acquire"), 1)
		_, err := e.Lock("b").Acquire(testkit.Limited(t))
		require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "%v", err)
		require.Empty(t, s.Keys(t))
	})
	t.Run("NorCanItBeUndone", func(t *testing.T) {
		testkit.ACLRules(t, s, "-hdel")
		for _, name := range []string{"c", "d"} {
			_, err := e.Lock(name).TryAcquire(testkit.Limited(t))
			require.ErrorContains(t, err, "delete it by hand: "+name)
			require.Equal(t, []string{name}, s.ImmortalKeys(t), "the one case without a remedy")
			s.Do(t, "DEL", name)
			p.DropCommand(testkit.ScriptCall("acquire"), 1) // for the second one it is the other script
		}
		testkit.ACLRules(t, s, "+hdel")
	})
	testkit.ACLRules(t, s, "+pexpire")
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, s, e)
}

// TestACL_PubSubRefused: without messages a release still frees (P8), and a waiter is served by
// its poll.
func TestACL_PubSubRefused(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name            string
		holder, waiter  bool // has the restricted user
		rules           []string
		most            time.Duration
		byPoll, refused bool
	}{
		{"PublishRefused", true, false, []string{"-publish"}, 1500 * time.Millisecond, true, false},
		{"ChannelRefusedToTheHolder", true, false, []string{"resetchannels"}, 1500 * time.Millisecond, true, false},
		{"SubscribeRefused", false, true, []string{"-subscribe"}, 1500 * time.Millisecond, true, true},
		{"ChannelRefusedToTheWaiter", false, true, []string{"resetchannels"}, 1500 * time.Millisecond, true, true},
		{"Nothing", true, true, nil, 500 * time.Millisecond, false, false},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := testkit.ACLServer(t, how.rules...)
			open := func(restricted bool) *engine.Engine {
				if restricted {
					return testkit.Open(t, s.Addr(), testkit.AsApp)
				}
				return testkit.Open(t, s.Addr())
			}
			e, other := open(how.holder), open(how.waiter)
			ls := testkit.Acquire(t, e.Lock("a"))
			waiter := other.Lock("a").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it waits, with a subscription or without", func() bool {
				stats := other.Stats()
				if how.refused {
					return stats.Nodes[0].Subscriptions.Refused > 0
				}
				// The holder's acquire, the waiter's first, and the one after its subscription.
				return stats.WokenBySubscribe > 0 && testkit.CallsOf(t, s, "evalsha") == 3
			})
			begun := time.Now()
			testkit.Release(t, ls)
			require.EqualValues(t, 1, testkit.CallsOf(t, s, "hdel"), "one sending was enough")
			got, err := waiter.Await(testkit.Limited(t))
			require.NoError(t, err)
			require.Less(t, testkit.Ran(begun), how.most)
			stats := other.Stats()
			require.Equal(t, how.byPoll, stats.WokenByPoll > 0 && stats.WokenByMessage == 0)
			testkit.RequireHeldOnce(t, s, got)
			testkit.Release(t, got)
			require.Empty(t, s.Keys(t))
			testkit.Finish(t, s, e, other)
		})
	}
}

// TestACL_ScriptsRefused: a user who may not run scripts is told so by Open or by the operation,
// and nothing is left.
func TestACL_ScriptsRefused(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"-evalsha", "-time", "-script"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s := testkit.ACLServer(t, rule)
			cfg := engine.Config{Addrs: []string{s.Addr()}}
			testkit.AsApp(&cfg)
			e, err := engine.Open(testkit.Limited(t), cfg)
			if err == nil {
				defer func() { _ = e.Close(context.Background()) }()
				_, err = e.Lock("a").TryAcquire(testkit.Limited(t))
			}
			require.Equal(t, engine.ClassNoPerm, testkit.ServerClass(err), "%v", err)
			require.False(t, errors.Is(err, engine.ErrUnknown))
			require.Empty(t, s.Keys(t))
		})
	}
}
