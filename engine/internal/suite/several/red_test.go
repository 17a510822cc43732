package several_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// redServers starts independent servers, with an engine each.
func redServers(t *testing.T, n int) (servers []*redistest.Server, engines []*engine.Engine) {
	t.Helper()
	for range n {
		s := redistest.Run(t, redistest.Options{})
		servers, engines = append(servers, s), append(engines, testkit.Open(t, s.Addr()))
	}
	t.Cleanup(func() {
		for _, e := range engines {
			_ = testkit.Close(e)
		}
	})
	return servers, engines
}

// redProxied is redServers with a proxy before each.
func redProxied(t *testing.T, n int) (servers []*redistest.Server, proxies []*faultproxy.Proxy, engines []*engine.Engine) {
	t.Helper()
	for range n {
		s := redistest.Run(t, redistest.Options{})
		p := faultproxy.Run(t, s.Addr())
		servers, proxies, engines = append(servers, s), append(proxies, p), append(engines, testkit.Open(t, p.Addr()))
	}
	t.Cleanup(func() {
		for _, e := range engines {
			_ = testkit.Close(e)
		}
	})
	return servers, proxies, engines
}

func red(engines []*engine.Engine, name string, opts ...engine.Option) *engine.RedLock {
	locks := make([]*engine.Lock, len(engines))
	for i, e := range engines {
		locks[i] = e.Lock(name, opts...)
	}
	return engine.Red(locks...)
}

func allFree(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
	}
}

func TestRedLockIsHeldOnEveryServerThatAnswers(t *testing.T) {
	servers, engines := redServers(t, 3)
	r := red(engines, "a")
	require.NoError(t, r.Err())
	ls, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Eventually(t, "all three have it", func() bool { return ls.Held() == 3 })
	require.False(t, ls.Lost())
	require.NoError(t, ls.Context().Err())
	require.Len(t, ls.Leases(), 3)
	// A lease of 30 s, less 1 % and 1 % and 2 ms.
	require.InDelta(t, 29.398, time.Until(ls.Deadline()).Seconds(), 0.3)
	_, err = r.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	ctx := ls.Context()
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.ErrorIs(t, context.Cause(ctx), engine.ErrReleased)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	require.Zero(t, ls.Held())
	allFree(t, servers)
}

func TestRedLockRefusesTooFewAndTwoOfOneEngine(t *testing.T) {
	_, engines := redServers(t, 3)
	require.ErrorIs(t, red(engines[:2], "a").Err(), engine.ErrName)
	twice := engine.Red(engines[0].Lock("a"), engines[1].Lock("a"), engines[0].Lock("b"))
	require.ErrorIs(t, twice.Err(), engine.ErrName)
	require.ErrorContains(t, twice.Err(), "one engine")
	_, err := twice.Acquire(testkit.Limited(t))
	require.Equal(t, twice.Err(), err)
	require.ErrorIs(t, red(engines, "a").With(engine.FixedLease(1)).Err(), engine.ErrLease)
}

func TestRedLockNeedsAMajorityOnly(t *testing.T) {
	servers, engines := redServers(t, 3)
	foreign := testkit.NewForeign(t, servers[0])
	foreign.Lock("a", time.Minute)
	r := red(engines, "a")
	ls, err := r.TryAcquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, 2, ls.Held())
	require.NoError(t, ls.Release(testkit.Limited(t)))
	second := testkit.NewForeign(t, servers[1])
	second.Lock("a", time.Minute)
	_, err = r.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	allFree(t, servers[2:])
	began := time.Now()
	_, err = r.With(engine.MaxWait(100 * time.Millisecond)).Acquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.Less(t, testkit.Ran(began), 2*time.Second)
	f := r.AcquireAsync(context.Background())
	testkit.Pending(t, f)
	second.Unlock("a")
	ls = testkit.Get(t, f)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	foreign.Unlock("a")
	allFree(t, servers)
}

func TestRedLockOutlivesAMinorityAndNotTheMajority(t *testing.T) {
	servers, engines := redServers(t, 3)
	r := red(engines, "a", engine.WatchdogLease(time.Second))
	ls, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Eventually(t, "all three have it", func() bool { return ls.Held() == 3 })
	ctx := ls.Context()
	servers[0].Do(t, "FLUSHALL")
	testkit.Eventually(t, "one is gone", func() bool { return ls.Held() == 2 })
	require.False(t, ls.Lost())
	require.NoError(t, ctx.Err())
	servers[1].Do(t, "FLUSHALL")
	testkit.Await(t, ctx.Done(), "the majority is gone")
	require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
	require.True(t, ls.Lost())
	require.EqualError(t, ls.Release(testkit.Limited(t)), `holdfast: locks "a", "a", "a": lease is lost: the server says it is not ours`)
	allFree(t, servers)
}

func TestRedLockWithASilentServer(t *testing.T) {
	servers, engines := redServers(t, 3)
	servers[2].Pause()
	r := red(engines, "a", engine.WatchdogLease(2*time.Second))
	began := time.Now()
	ls, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(began), time.Second, "nobody waits for it")
	require.Equal(t, 2, ls.Held())
	servers[2].Resume()
	testkit.Eventually(t, "it joins", func() bool { return ls.Held() == 3 })
	require.NoError(t, ls.Release(testkit.Limited(t)))
	allFree(t, servers)
	// Two that are silent are a majority: nothing is held, and what they grant later is given back.
	servers[1].Pause()
	servers[2].Pause()
	began = time.Now()
	_, err = r.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrUnknown)
	require.Less(t, testkit.Ran(began), 2*time.Second)
	servers[1].Resume()
	servers[2].Resume()
	allFree(t, servers)
}

func TestRedDoEntersAgainWhatJoinedLater(t *testing.T) {
	servers, proxies, engines := redProxied(t, 3)
	r := red(engines, "a", engine.WatchdogLease(2*time.Second))
	proxies[2].Pause()
	require.NoError(t, r.Do(testkit.Limited(t), func(ctx context.Context) error {
		proxies[2].Resume()
		testkit.Eventually(t, "all three are entered", func() bool {
			inner, err := r.TryAcquire(ctx)
			require.NoError(t, err)
			held := inner.Held()
			require.NoError(t, inner.Release(ctx))
			return held == 3
		})
		return nil
	}))
	allFree(t, servers)
}

// What was lost is free already: with one more that answers, a majority is.
func TestRedLockIsFreeThoughOnePartWasLostAndOneServerIsSilent(t *testing.T) {
	servers, proxies, engines := redProxied(t, 3)
	ls, err := red(engines, "a").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Eventually(t, "all three have it", func() bool { return ls.Held() == 3 })
	forced, err := engines[0].Lock("a").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, forced)
	testkit.Eventually(t, "one is lost", func() bool { return ls.Held() == 2 })
	proxies[1].Pause()
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Equal(t, 1, len(servers[1].Keys(t)), "the silent server was not waited for")
	require.False(t, ls.Lost())
	proxies[1].Resume()
	allFree(t, servers)
}

func TestRedLockOfAFixedLeaseEndsByTheClock(t *testing.T) {
	servers, engines := redServers(t, 3)
	r := red(engines, "a", engine.FixedLease(500*time.Millisecond))
	ls, err := r.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Extend(testkit.Limited(t), time.Second))
	require.Greater(t, time.Until(ls.Deadline()), 600*time.Millisecond)
	ctx := ls.Context()
	testkit.Await(t, ctx.Done(), "its end")
	require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	require.ErrorIs(t, ls.Extend(testkit.Limited(t), time.Second), engine.ErrNotHeld)
	allFree(t, servers)
}

func TestRedLockExcludes(t *testing.T) {
	servers, engines := redServers(t, 3)
	others := make([]*engine.Engine, len(servers))
	for i, s := range servers {
		others[i] = testkit.Open(t, s.Addr())
	}
	var inside atomic.Int32
	var all sync.WaitGroup
	for c := range 8 {
		r := red([][]*engine.Engine{engines, others}[c%2], "a")
		all.Go(func() {
			for range 5 {
				err := r.Do(testkit.Limited(t), func(context.Context) error {
					if inside.Add(1) != 1 {
						t.Error("two are inside")
					}
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	allFree(t, servers)
	for _, e := range others {
		require.NoError(t, testkit.Close(e))
	}
}

func TestCloseEndsARedLockThatWaits(t *testing.T) {
	servers, engines := redServers(t, 3)
	for _, s := range servers[:2] {
		testkit.NewForeign(t, s).Lock("a", time.Minute)
	}
	f := red(engines, "a").AcquireAsync(context.Background())
	testkit.Pending(t, f)
	require.NoError(t, testkit.Close(engines[2]))
	_, err, told := f.Result()
	require.True(t, told, "before Close returns")
	require.ErrorIs(t, err, engine.ErrClosed)
	cancelled := red(append(engines[:2:2], testkit.Open(t, servers[2].Addr())), "a").AcquireAsync(context.Background())
	testkit.Pending(t, cancelled)
	require.True(t, cancelled.Cancel())
	require.ErrorIs(t, testkit.GetError(t, cancelled), engine.ErrCancelled)
	allFree(t, servers[2:])
}

// Servers that lose what they have while nobody looks: the holder learns of it when it gives back, as of any lock.
func TestARedLockWhoseServersForgotItSaysSo(t *testing.T) {
	servers, engines := redServers(t, 3)
	others := make([]*engine.Engine, len(servers))
	for i, s := range servers {
		others[i] = testkit.Open(t, s.Addr())
	}
	for _, forget := range [][]int{{0}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}} {
		err := red(engines, "a").Do(testkit.Limited(t), func(ctx context.Context) error {
			for _, i := range forget {
				servers[i].Do(t, "DEL", "a")
			}
			ls, err := red(others, "a").TryAcquire(ctx)
			if len(forget) == 1 {
				require.ErrorIs(t, err, engine.ErrHeld)
				return nil
			}
			require.NoError(t, err, "nobody has a majority")
			return ls.Release(ctx)
		})
		if len(forget) == 1 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, engine.ErrLost, "%d have forgotten it", forget)
	}
	allFree(t, servers)
}
