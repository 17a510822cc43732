package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

func TestRedissonRedisFailed(t *testing.T) {
	for _, kind := range []string{"Lock", "Spin"} {
		t.Run(kind+"/testRedisFailed", func(t *testing.T) {
			t.Parallel()
			s := redistest.Run(t, redistest.Options{})
			e := openEngine(t, s.Addr())
			s.Kill()
			_, err := family(e, "lock")[kind].With(engine.MaxWait(5*time.Second), engine.FixedLease(10*time.Second)).Acquire(limited(t))
			require.Error(t, err)
			_, err = family(e, "lock")[kind].TryAcquire(limited(t))
			require.Error(t, err)
		})
	}
}

func TestRedissonInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0)
	e := openCluster(t, c)
	for kind, l := range family(e, "lock") {
		t.Run(kind+"/testInCluster", func(t *testing.T) {
			for range 3 {
				ls := acquire(t, l)
				info, err := l.Inspect(limited(t))
				require.NoError(t, err)
				require.True(t, info.Locked)
				release(t, ls)
			}
		})
	}
	t.Run("Lock/testLockFailoverInCluster", func(t *testing.T) {
		for i := range 30 {
			ls, err := e.Lock(numbered("lock", i)).TryAcquire(limited(t))
			require.NoError(t, err)
			release(t, ls)
		}
	})
	dropTokens(t, c)
	finishCluster(t, c, e)
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
			e := openEngine(t, s.Addr())
			l := family(e, "lock")[kind].With(engine.WatchdogLease(time.Second))
			for range 2 {
				ls := acquire(t, l)
				s.Do(t, "FLUSHALL")
				await(t, ls.Context().Done(), "it is told")
				require.ErrorIs(t, ls.Release(limited(t)), engine.ErrLost)

				ls = acquire(t, l)
				sent := e.Stats().Renewals.Sent
				eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent >= sent+6 })
				require.False(t, ls.Lost())
				release(t, ls)
			}
			finish(t, s, e)
		})
	}
	t.Run("testLockReentrantRenew", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{})
		e := openEngine(t, s.Addr())
		l := e.Lock("lock", engine.WatchdogLease(time.Second))
		ctx := engine.WithOwner(limited(t), engine.NewOwner())
		one, err := l.Acquire(ctx)
		require.NoError(t, err)
		two, err := l.Acquire(ctx)
		require.NoError(t, err)
		release(t, one)
		release(t, two)
		ls := acquire(t, l)
		sent := e.Stats().Renewals.Sent
		eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent >= sent+9 })
		require.True(t, exists(t, s, "lock"))
		release(t, ls)
		finish(t, s, e)
	})
}
