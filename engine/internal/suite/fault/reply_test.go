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
	"github.com/seed-786ebc8c/holdfast/resp"
)

// faultForms are the ways to ask for a lock.
//
//nolint:gochecknoglobals // a table of the tests
var faultForms = []struct {
	name string
	take func(l *engine.Lock, ctx context.Context) (*engine.Lease, error)
}{
	{"Acquire", (*engine.Lock).Acquire},
	{"TryAcquire", (*engine.Lock).TryAcquire},
	{"AcquireAsync", func(l *engine.Lock, ctx context.Context) (*engine.Lease, error) {
		return l.AcquireAsync(ctx).Await(context.Background())
	}},
}

// TestC021_AcquireReplyLost: the script ran and its answer is lost. The lock is held once,
// trusted no longer than the server keeps it, and one release frees it.
func TestC021_AcquireReplyLost(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		times int
		after faultproxy.After
	}{
		{"ConnectionCut", 1, faultproxy.Cut},
		{"CutFiveTimesInARow", 5, faultproxy.Cut},
		{"ConnectionHangsUntilTheAttemptLimit", 1, faultproxy.Hang},
	} {
		for _, form := range faultForms {
			t.Run(how.name+"/"+form.name, func(t *testing.T) {
				t.Parallel()
				s := redistest.Run(t, redistest.Options{})
				p := faultproxy.Run(t, s.Addr())
				e := testkit.Open(t, p.Addr())
				lost := p.DropReply(testkit.ScriptCall("acquire", "reacquire"), how.times, how.after)
				begun := time.Now()
				ls, err := form.take(e.Lock("a"), testkit.Limited(t))
				require.NoError(t, err)
				require.Less(t, testkit.Ran(begun), 5*time.Second)
				require.Equal(t, how.times, lost.Hits())
				testkit.RequireHeldOnce(t, s, ls)
				testkit.Release(t, ls)
				require.False(t, testkit.Exists(t, s, "a"), "one release frees it")
				testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
				testkit.Finish(t, s, e)
			})
		}
	}
}

// TestC021_RepliesLostInABatch: hundreds of locks were granted by scripts whose answers were
// lost; each is found again under its own owner id.
func TestC021_RepliesLostInABatch(t *testing.T) {
	t.Parallel()
	const n = 300
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	lost := p.DropReply(testkit.ScriptCall("acquire"), 4)
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("a", i)).AcquireAsync(testkit.Limited(t))
	}
	leases, err := engine.AllLeases(futures...).Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Positive(t, lost.Hits())
	for _, ls := range leases {
		testkit.RequireHeldOnce(t, s, ls)
	}
	p.DropReply(testkit.ScriptCall("release"), 4)
	for _, ls := range leases {
		testkit.Release(t, ls)
	}
	require.Empty(t, s.Keys(t))
	testkit.Finish(t, s, e)
}

// TestC023_ServerGoneAfterTheLostReply: the answer is lost and the server never comes back for
// this engine. The caller learns it when its ctx ends (how soon, TestC023_AnAcquireWithoutAServerEndsOnTime times);
// the ghost is not renewed and dies with its lease, or is released as soon as the server can be reached (P3).
func TestC023_ServerGoneAfterTheLostReply(t *testing.T) {
	t.Parallel()
	const lease, limit = 3 * time.Second, 500 * time.Millisecond
	strand := func(t *testing.T) (*redistest.Server, *faultproxy.Proxy, *engine.Engine, *faultproxy.Rule) {
		t.Helper()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		p.RefuseNew(true) // the connections there are stay
		return s, p, e, p.DropReply(testkit.ScriptCall("acquire"), 1)
	}
	for _, form := range faultForms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			s, _, e, lost := strand(t)
			begun := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			ls, err := form.take(e.Lock("a", engine.WatchdogLease(lease)), ctx)
			took := time.Since(begun)
			require.Nil(t, ls)
			testkit.Await(t, lost.C(), "the reply was dropped")
			end := testkit.Expiry(t, s, "a") // the script ran
			require.Empty(t, s.ImmortalKeys(t))
			require.NotErrorIs(t, err, engine.ErrHeld)
			if form.name != "TryAcquire" {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.GreaterOrEqual(t, took, limit)
			} else if !errors.Is(err, context.DeadlineExceeded) {
				// One that does not wait for the server may answer at once, but it must not say that
				// nothing was sent.
				require.ErrorIs(t, err, engine.ErrUnknown)
				var unknown *engine.UnknownError
				require.ErrorAs(t, err, &unknown)
				require.False(t, unknown.FreeBy.Before(end), "free by %v, it lives until %v", unknown.FreeBy, end)
			}
			for {
				asked := time.Now()
				left := testkit.ExpireTime(t, s, "a")
				if left == "-2" {
					break
				}
				require.WithinDuration(t, end, testkit.ExpiryOf(t, left), 2*time.Millisecond, "it was renewed")
				require.True(t, asked.Before(end.Add(100*time.Millisecond)), "it outlived its lease")
			}
			ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			require.Error(t, e.Close(ctx), "the ghost's release was never answered")
			require.Empty(t, s.Keys(t))
		})
	}
	t.Run("ReleasedAsSoonAsTheServerIsBack", func(t *testing.T) {
		t.Parallel()
		s, p, e, lost := strand(t)
		ctx, cancel := context.WithCancel(context.Background())
		f := e.Lock("a").AcquireAsync(ctx) // 30 s
		testkit.Await(t, lost.C(), "the reply was dropped")
		cancel()
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, testkit.Exists(t, s, "a"))
		p.RefuseNew(false)
		testkit.Eventually(t, "the ghost is released", func() bool { return !testkit.Exists(t, s, "a") })
		testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
		testkit.Finish(t, s, e)
	})
}

// TestC026_ReleaseReplyLost: the release ran, its answer is lost. It is success, and a waiter
// elsewhere was told by the first sending.
func TestC026_ReleaseReplyLost(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name  string
		times int
		after faultproxy.After
		most  time.Duration
	}{
		{"ConnectionCut", 1, faultproxy.Cut, time.Second},
		{"CutThreeTimes", 3, faultproxy.Cut, 2 * time.Second},
		{"ConnectionHangsUntilTheAttemptLimit", 1, faultproxy.Hang, 4 * time.Second},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
			ls := testkit.Acquire(t, e.Lock("a"))
			waiter := other.Lock("a").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "the waiter is subscribed", func() bool { return other.Stats().WokenBySubscribe > 0 })
			lost := p.DropReply(testkit.ScriptCall("release"), how.times, how.after)
			begun := time.Now()
			released := ls.ReleaseAsync()
			theirs, err := waiter.Await(testkit.Limited(t))
			require.NoError(t, err)
			require.Less(t, testkit.Ran(begun), 700*time.Millisecond, "the first sending told the waiter")
			_, err = released.Await(testkit.Limited(t))
			require.NoError(t, err)
			require.Less(t, testkit.Ran(begun), how.most)
			require.Equal(t, how.times, lost.Hits())
			testkit.RequireHeldOnce(t, s, theirs)
			require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
			require.False(t, ls.Lost())
			testkit.RequireHeldOnce(t, s, theirs)
			testkit.Release(t, theirs)
			testkit.Finish(t, s, e, other)
		})
	}
}

// TestC026_ReleaseOfUnknownOutcome: the server cannot be reached any more. The engine does not renew the lock and
// releases it when it can. What Release says, in the end, TestC026_AReleaseWithoutAServerIsOfUnknownOutcome looks at.
func TestC026_ReleaseOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		drop func(p *faultproxy.Proxy) *faultproxy.Rule
	}{
		{"ItRan", func(p *faultproxy.Proxy) *faultproxy.Rule { return p.DropReply(testkit.ScriptCall("release"), 1) }},
		{"ItNeverArrived", func(p *faultproxy.Proxy) *faultproxy.Rule { return p.DropCommand(testkit.ScriptCall("release"), 1) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			ls := testkit.Acquire(t, e.Lock("a"))
			end := testkit.Expiry(t, s, "a")
			p.RefuseNew(true)
			rule := how.drop(p)
			released := ls.ReleaseAsync()
			testkit.Await(t, rule.C(), "the release was lost")
			require.Equal(t, how.name == "ItNeverArrived", testkit.Exists(t, s, "a"))

			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := released.Await(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded, "the wait ends, the release goes on")

			if how.name == "ItNeverArrived" {
				require.Equal(t, end, testkit.Expiry(t, s, "a"), "it was renewed")
			}
			p.RefuseNew(false)
			testkit.Eventually(t, "the engine goes on releasing", func() bool { return !testkit.Exists(t, s, "a") })
			testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
			testkit.Finish(t, s, e)
		})
	}
}

// TestC028_RenewalRepliesLost: a renewal without an answer earns nothing, even if it ran.
func TestC028_RenewalRepliesLost(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second // renewed after 0.8 to 1 s, retried each 0.25 s
	for _, how := range []struct {
		name  string
		times int
		after faultproxy.After
	}{
		{"OnceCut", 1, faultproxy.Cut},
		{"OnceHanging", 1, faultproxy.Hang},
		{"FourTimesCut", 4, faultproxy.Cut},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			lost := p.DropReply(testkit.ScriptCall("renew"), how.times, how.after)
			ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(lease)))
			first, end := ls.Deadline(), testkit.Expiry(t, s, "a")
			for range how.times {
				testkit.Await(t, lost.C(), "a renewal's reply was dropped")
				require.WithinDuration(t, first, ls.Deadline(), 5*time.Millisecond, "trusted on no answer")
				require.False(t, ls.Lost())
			}
			require.True(t, testkit.Expiry(t, s, "a").After(end), "the renewals ran")
			testkit.Eventually(t, "a retry gets through", func() bool { return ls.Deadline().After(first.Add(500 * time.Millisecond)) })
			testkit.RequireHeldOnce(t, s, ls)
			require.NoError(t, ls.Context().Err())
			testkit.Eventually(t, "the lost ones have failed", func() bool { return e.Stats().Renewals.Failed >= int64(how.times) })
			stats := e.Stats()
			require.Positive(t, stats.Renewals.Sent-stats.Renewals.Failed)
			require.GreaterOrEqual(t, p.Stats().Accepted, 3, "acquires, renewals and retries have connections of their own")
			testkit.Release(t, ls)
			testkit.Finish(t, s, e)
		})
	}
	t.Run("AllLost", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		e := testkit.Open(t, p.Addr())
		lost := p.DropReply(testkit.ScriptCall("renew"), -1)
		ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(lease)))
		ended := ls.Context().Done()
		deadline := ls.Deadline()
		testkit.Await(t, ended, "the lease is lost") // that this is not late, TestC009_SilenceIsToldBeforeTheServerLetsGo times
		at := time.Now()
		require.Greater(t, at, deadline.Add(-200*time.Millisecond), "told early, not too early")
		require.WithinDuration(t, deadline, ls.Deadline(), 5*time.Millisecond)
		require.True(t, ls.Lost())
		require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
		require.Greater(t, lost.Hits(), 2)
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		// The renewals that nobody was told of kept the key alive: the engine gives it back.
		testkit.Eventually(t, "what is not believed is released", func() bool { return !testkit.Exists(t, s, "a") })
		require.Less(t, testkit.Ran(at), lease*8/10, "and has not run out")
		require.EqualValues(t, 1, e.Stats().Lost)
		testkit.Finish(t, s, e)
	})
}

// TestC035_RefusedCommandsChangeNothing: the server answers, and refuses. Nothing is retried
// that cannot help, nothing is left behind, and a waiter waits on.
func TestC035_RefusedCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name      string
		on, off   []string
		class     engine.Class
		transient bool
	}{
		{"OOM", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, engine.ClassOOM, false},
		{"NoReplicas", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, engine.ClassNoReplicas, false},
		{"ReadOnly", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, engine.ClassReadOnly, true},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr())
			foreign := "7cf7e4e1-0000-4000-8000-000000000000:1"
			s.Do(t, "HSET", "waited", foreign, "1")
			s.Do(t, "PEXPIRE", "waited", "60000")
			waiter := e.Lock("waited").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
			s.Do(t, how.on...)
			_, err := e.Lock("a").TryAcquire(testkit.Limited(t))
			require.Equal(t, how.class, testkit.ServerClass(err), "%v", err)
			require.Equal(t, []string{"waited"}, s.Keys(t))
			if how.transient {
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				defer cancel()
				_, err = e.Lock("a").Acquire(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded, "it tries on")
			} else {
				_, err = e.Lock("a").Acquire(testkit.Limited(t))
				require.Equal(t, how.class, testkit.ServerClass(err), "%v", err)
			}
			_, _, done := waiter.Result()
			require.False(t, done, "a waiter waits on")
			s.Do(t, how.off...)
			s.Do(t, "DEL", "waited")
			ls, err := waiter.Await(testkit.Limited(t))
			require.NoError(t, err)
			testkit.RequireHeldOnce(t, s, ls)
			testkit.Release(t, ls)
			testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
			testkit.Finish(t, s, e)
		})
	}
	require.Equal(t, resp.ClassNone, testkit.ServerClass(nil))
}
