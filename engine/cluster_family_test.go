package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// family lists a lock of each family on a name.
func family(e *engine.Engine, name string) map[string]*engine.Lock {
	return map[string]*engine.Lock{
		"Lock": e.Lock(name), "Spin": e.Lock(name, engine.Spin(time.Millisecond, 64*time.Millisecond)),
		"Fenced": e.FencedLock(name).Lock, "Fair": e.FairLock(name).Lock,
		"Read": e.RWLock(name).ReadLock(), "Write": e.RWLock(name).WriteLock(),
	}
}

// dropTokens removes what has no expiry by its nature.
func dropTokens(tb testing.TB, c *redistest.Cluster) {
	tb.Helper()
	for _, m := range c.Masters {
		for _, key := range m.Keys(tb) {
			if len(key) > 19 && key[:19] == "redisson_lock_token" {
				m.Do(tb, "DEL", key)
			}
		}
	}
}

func TestClusterEveryFamilyOnEverySlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := openCluster(t, c), openCluster(t, c)
	for kind := range family(a, "x") {
		t.Run(kind, func(t *testing.T) {
			const names = 300
			var fs []*engine.Future[*engine.Lease]
			for i := range names {
				fs = append(fs, family(a, kind+":"+strconv.Itoa(i))[kind].AcquireAsync(t.Context()))
			}
			leases, err := engine.All(fs...).Await(limited(t))
			require.NoError(t, err)
			for _, ls := range leases {
				ls.ReleaseAsync()
			}
			for _, name := range []string{"a{" + kind + "}", "{" + kind + "}b", kind + "{x}{y}"} {
				ls := acquire(t, family(a, name)[kind])
				again := family(b, name)[kind].AcquireAsync(limited(t))
				release(t, ls)
				other, err := again.Await(limited(t))
				require.NoError(t, err)
				release(t, other)
			}
		})
	}
	dropTokens(t, c)
	finishCluster(t, c, a, b)
}

func TestClusterC151FamilyNamesThatWouldBeSplitAreRefused(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := openCluster(t, c)
	for _, name := range []string{"a{b", "x{}y", "", "redisson_x"} {
		for kind, l := range family(e, name) {
			require.ErrorIs(t, l.Err(), engine.ErrName, "%s %q", kind, name)
			_, err := l.Acquire(limited(t))
			require.ErrorIs(t, err, engine.ErrName)
		}
	}
	finishCluster(t, c, e)
}

// Holders and waiters of every family while their slot moves there and back: nobody is lost, nobody is
// refused, everybody is served.
func TestClusterEveryFamilyFollowsItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := openCluster(t, c), openCluster(t, c)
	for kind := range family(a, "x") {
		t.Run(kind, func(t *testing.T) {
			name := "moves:" + kind
			at := slot.Of(name)
			lease := engine.WatchdogLease(2 * time.Second)
			held := acquire(t, family(a, name)[kind].With(lease))
			wanted := kind
			if kind == "Read" {
				wanted = "Write" // readers do not wait for each other
			}
			var waiters []*engine.Future[*engine.Lease]
			for range 3 {
				waiters = append(waiters, family(b, name)[wanted].With(lease).AcquireAsync(t.Context()))
			}
			eventually(t, "they wait", func() bool { return b.Stats().Waiting == 3 })
			home, err := c.Owner(t.Context(), at)
			require.NoError(t, err)
			away := other(t, c, at)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for _, to := range []*redistest.Server{away, home, away} {
				require.NoError(t, c.MoveSlot(ctx, at, to))
				sent := a.Stats().Renewals.Sent
				// The first may have been on its way when the slot moved, and the next one goes when it is answered.
				eventually(t, "it is renewed there", func() bool { return a.Stats().Renewals.Sent >= sent+2 })
				require.False(t, held.Lost())
			}
			release(t, held)
			for _, f := range waiters {
				ls, err := f.Await(limited(t))
				require.NoError(t, err)
				release(t, ls)
			}
			eventually(t, "nothing goes on", func() bool { return a.Stats().Names+b.Stats().Names == 0 })
		})
	}
	dropTokens(t, c)
	finishCluster(t, c, a, b)
}

// Slots move under load of every family: no error reaches a caller, tokens go on rising.
func TestClusterSlotsThatMoveUnderEveryFamily(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := openCluster(t, c)
	stop, done := make(chan struct{}), make(chan error, 24)
	kinds := []string{"Lock", "Spin", "Fenced", "Fair", "Read", "Write"}
	for i := range 24 {
		kind := kinds[i%len(kinds)]
		go func() { done <- lockUntil(t.Context(), stop, e, kind, 2) }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	for n := range 2 {
		for _, kind := range kinds {
			at := slot.Of(fmt.Sprint(kind, ":", n))
			require.NoError(t, c.MoveSlot(ctx, at, other(t, c, at)))
		}
	}
	close(stop)
	for range 24 {
		require.NoError(t, await(t, done, "a caller"))
	}
	require.Positive(t, e.Stats().Slots.TableChanges)
	dropTokens(t, c)
	finishCluster(t, c, e)
}

// lockUntil takes and gives back locks of one kind until it is stopped.
func lockUntil(ctx context.Context, stop <-chan struct{}, e *engine.Engine, kind string, names int) error {
	tokens := make(map[string]int64)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		name := fmt.Sprint(kind, ":", i%names)
		ls, err := family(e, name)[kind].Acquire(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if token := ls.Token(); kind == "Fenced" {
			if token <= tokens[name] {
				return fmt.Errorf("%s: token %d after %d", name, token, tokens[name])
			}
			tokens[name] = token
		}
		if err := ls.Release(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}
