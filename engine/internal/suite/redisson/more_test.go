package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestRedissonRedisFailed(t *testing.T) {
	for _, kind := range []string{"Lock", "Spin"} {
		t.Run(kind+"/testRedisFailed", func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr())
			s.Kill()
			_, err := testkit.Family(e, "lock")[kind].With(engine.MaxWait(5*time.Second), engine.FixedLease(10*time.Second)).Acquire(testkit.Limited(t))
			require.Error(t, err)
			_, err = testkit.Family(e, "lock")[kind].TryAcquire(testkit.Limited(t))
			require.Error(t, err)
		})
	}
}

func TestRedissonInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := testkit.OpenCluster(t, c)
	for kind, l := range testkit.Family(e, "lock") {
		t.Run(kind+"/testInCluster", func(t *testing.T) {
			for range 3 {
				ls := testkit.Acquire(t, l)
				info, err := l.Inspect(testkit.Limited(t))
				require.NoError(t, err)
				require.True(t, info.Locked)
				testkit.Release(t, ls)
			}
		})
	}
	t.Run("Lock/testLockFailoverInCluster", func(t *testing.T) {
		for i := range 30 {
			ls, err := e.Lock(testkit.Numbered("lock", i)).TryAcquire(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, ls)
		}
	})
	testkit.DropTokens(t, c)
	testkit.FinishCluster(t, c, e)
}

// RedissonLockExpirationRenewalTest: the server loses everything while a lock is held; the next one is
// renewed and given back as if nothing had been.
func TestRedissonLockExpirationRenewal(t *testing.T) {
	for name, kind := range map[string]string{
		"testLockAfterTimeout": "Lock", "testReadLockAfterTimeout": "Read", "testWriteLockAfterTimeout": "Write",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := testkit.Open(t, s.Addr())
			l := testkit.Family(e, "lock")[kind].With(engine.WatchdogLease(2 * time.Second))
			for range 2 {
				ls := testkit.Acquire(t, l)
				s.Do(t, "FLUSHALL")
				testkit.Await(t, ls.Context().Done(), "it is told")
				require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)

				ls = testkit.Acquire(t, l)
				sent := e.Stats().Renewals.Sent
				testkit.Eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent >= sent+4 })
				require.False(t, ls.Lost())
				testkit.Release(t, ls)
			}
			testkit.Finish(t, s, e)
		})
	}
	t.Run("testLockReentrantRenew", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := testkit.Open(t, s.Addr())
		l := e.Lock("lock", engine.WatchdogLease(2*time.Second))
		ctx := engine.WithOwner(testkit.Limited(t), engine.NewOwner())
		one, err := l.Acquire(ctx)
		require.NoError(t, err)
		two, err := l.Acquire(ctx)
		require.NoError(t, err)
		testkit.Release(t, one)
		testkit.Release(t, two)
		ls := testkit.Acquire(t, l)
		sent := e.Stats().Renewals.Sent
		testkit.Eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent >= sent+4 })
		require.True(t, testkit.Exists(t, s, "lock"))
		testkit.Release(t, ls)
		testkit.Finish(t, s, e)
	})
}
