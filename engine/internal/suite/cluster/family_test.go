package cluster_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestClusterEveryFamilyOnEverySlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	for kind := range testkit.Family(a, "x") {
		t.Run(kind, func(t *testing.T) {
			const names = 300
			var fs []*engine.Future[*engine.Lease]
			for i := range names {
				fs = append(fs, testkit.Family(a, kind+":"+strconv.Itoa(i))[kind].AcquireAsync(t.Context()))
			}
			leases, err := engine.All(fs...).Await(testkit.Limited(t))
			require.NoError(t, err)
			for _, ls := range leases {
				ls.ReleaseAsync()
			}
			for _, name := range []string{"a{" + kind + "}", "{" + kind + "}b", kind + "{x}{y}"} {
				ls := testkit.Acquire(t, testkit.Family(a, name)[kind])
				again := testkit.Family(b, name)[kind].AcquireAsync(testkit.Limited(t))
				testkit.Release(t, ls)
				other, err := again.Await(testkit.Limited(t))
				require.NoError(t, err)
				testkit.Release(t, other)
			}
		})
	}
	testkit.DropTokens(t, c)
	testkit.FinishCluster(t, c, a, b)
}

func TestC151_FamilyNamesThatWouldBeSplitAreRefused(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	for _, name := range []string{"a{b", "x{}y", "", "redisson_x"} {
		for kind, l := range testkit.Family(e, name) {
			require.ErrorIs(t, l.Err(), engine.ErrName, "%s %q", kind, name)
			_, err := l.Acquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrName)
		}
	}
	testkit.FinishCluster(t, c, e)
}

// Holders and waiters of every family while their slot moves there and back: nobody is lost, nobody is
// refused, everybody is served.
func TestClusterEveryFamilyFollowsItsSlot(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	a, b := testkit.OpenCluster(t, c), testkit.OpenCluster(t, c)
	lease := engine.WatchdogLease(6 * time.Second) // long: what is asked is that its renewals find it
	held := make(map[string]*engine.Lease)
	waiters := make(map[string][]*engine.Future[*engine.Lease])
	for kind := range testkit.Family(a, "x") {
		name := "moves:" + kind
		held[kind] = testkit.Acquire(t, testkit.Family(a, name)[kind].With(lease))
		wanted := kind
		if kind == "Read" {
			wanted = "Write" // readers do not wait for each other
		}
		for range 3 {
			waiters[kind] = append(waiters[kind], testkit.Family(b, name)[wanted].With(lease).AcquireAsync(t.Context()))
		}
	}
	testkit.Eventually(t, "they wait", func() bool { return b.Stats().Waiting == int64(3*len(held)) })
	t.Run("kinds", func(t *testing.T) {
		for kind, held := range held {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				at := slot.Of(held.Name())
				home, err := c.Owner(t.Context(), at)
				require.NoError(t, err)
				away := testkit.AnotherMaster(t, c, at)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for _, to := range []*redistest.Server{away, home, away} {
					require.NoError(t, c.MoveSlot(ctx, at, to))
					expires := testkit.Expiry(t, to, held.Name())
					testkit.Eventually(t, "it is renewed there", func() bool {
						return testkit.Expiry(t, to, held.Name()).After(expires)
					})
					require.False(t, held.Lost())
				}
				testkit.Release(t, held)
				for _, f := range waiters[kind] {
					ls, err := f.Await(testkit.Limited(t))
					require.NoError(t, err)
					testkit.Release(t, ls)
				}
			})
		}
	})
	testkit.Eventually(t, "nothing goes on", func() bool { return a.Stats().Names+b.Stats().Names == 0 })
	testkit.DropTokens(t, c)
	testkit.FinishCluster(t, c, a, b)
}

// Slots move under load of every family: no error reaches a caller, tokens go on rising.
func TestClusterSlotsThatMoveUnderEveryFamily(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
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
			require.NoError(t, c.MoveSlot(ctx, at, testkit.AnotherMaster(t, c, at)))
		}
	}
	close(stop)
	for range 24 {
		require.NoError(t, testkit.Await(t, done, "a caller"))
	}
	require.Positive(t, e.Stats().Slots.TableChanges)
	testkit.DropTokens(t, c)
	testkit.FinishCluster(t, c, e)
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
		ls, err := testkit.Family(e, name)[kind].Acquire(ctx)
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
