package fault_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// TestC036_ScriptFlushAtAKilohertz: the server forgets its scripts a thousand times a second. No
// operation fails, held locks are renewed, and the scripts are put back once for all that miss them.
func TestC036_ScriptFlushAtAKilohertz(t *testing.T) {
	for _, how := range []struct {
		name            string
		latency         time.Duration // each way: longer than a millisecond, no script survives a round trip
		workers, rounds int           // three operations each
	}{
		{"NextDoor", 0, 64, 100},
		{"FarAway", time.Millisecond, 128, 10},
	} {
		t.Run(how.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			p.Delay(how.latency, how.latency)
			held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(2*time.Second)))
			flushes := flushScripts(t, s)
			begun := time.Now()
			failures := flushedLoad(t, e, how.workers, how.rounds)
			took := testkit.Ran(begun)
			first := held.Deadline()
			testkit.Eventually(t, "renewals go on", func() bool { return held.Deadline().After(first.Add(500 * time.Millisecond)) })
			n := flushes()
			stats := e.Stats()
			t.Logf("%d operations in %v, %d flushes, %d reloads, %d batches", how.workers*how.rounds*3, took.Round(time.Millisecond), n,
				stats.Nodes[0].ScriptReloads, stats.Nodes[0].Batches)
			require.Zero(t, failures)
			require.Greater(t, n, int(took.Milliseconds()/4), "the scripts were hardly flushed")
			require.Greater(t, stats.Nodes[0].ScriptReloads, int64(10))
			testkit.RequireHeldOnce(t, s, held)
			testkit.Release(t, held)
			testkit.Finish(t, s, e)
		})
	}
}

// flushScripts flushes the server's scripts each millisecond, until the function it returns is called;
// that says how often.
func flushScripts(t *testing.T, s *redistest.Server) (end func() int) {
	t.Helper()
	admin, err := s.Dial(testkit.Limited(t))
	require.NoError(t, err)
	stop, flushed := make(chan struct{}), make(chan int)
	go func() {
		defer admin.Close()
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				flushed <- n
				return
			case <-ticker.C:
				if _, err := admin.Do(context.Background(), "SCRIPT", "FLUSH", "SYNC"); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	n := 0
	var once sync.Once
	end = func() int {
		once.Do(func() {
			close(stop)
			n = <-flushed
		})
		return n
	}
	t.Cleanup(func() { end() })
	return end
}

// flushedLoad acquires, inspects and releases, each worker its own lock, and counts failures.
func flushedLoad(t *testing.T, e *engine.Engine, workers, rounds int) int64 {
	t.Helper()
	ctx := testkit.Limited(t)
	failures := atomic.Int64{}
	run := func(what string, w int, op func() error) {
		if err := op(); err != nil && failures.Add(1) < 10 {
			t.Errorf("%s of worker %d: %v", what, w, err)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			l := e.Lock(testkit.Numbered("a", w))
			take := l.Acquire
			if w%2 == 0 {
				take = l.TryAcquire
			}
			for range rounds {
				var ls *engine.Lease
				run("acquire", w, func() (err error) {
					ls, err = take(ctx)
					return err
				})
				if ls == nil {
					continue
				}
				run("inspect", w, func() error {
					info, err := l.Inspect(ctx)
					if err == nil && (!info.Mine || info.OwnerID != ls.OwnerID() || info.Holds != 1) {
						err = fmt.Errorf("wrong: %+v", info)
					}
					return err
				})
				run("release", w, func() error { return ls.Release(ctx) })
			}
		})
	}
	wg.Wait()
	return failures.Load()
}

// TestC053_MemoryIsFull: new locks are refused and change nothing; what is held is renewed, can be
// released, and a waiter waits until there is memory again (P8).
func TestC053_MemoryIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, p.Addr())
	ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(3*time.Second)))
	dying := testkit.Acquire(t, e.Lock("dying", engine.FixedLease(800*time.Millisecond)))
	waiting := []*engine.Future[*engine.Lease]{
		other.Lock("a").AcquireAsync(testkit.Limited(t)), other.Lock("dying").AcquireAsync(testkit.Limited(t)),
	}
	testkit.Eventually(t, "both wait", func() bool { return other.Stats().Nodes[0].Subscriptions.Confirmed == 2 })

	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	for _, form := range faultForms {
		_, err := form.take(e.Lock("new"), testkit.Limited(t))
		require.Equal(t, engine.ClassOOM, testkit.ServerClass(err), "%s: %v", form.name, err)
		require.True(t, engine.SafeToRetry(err))
	}
	futures := make([]*engine.Future[*engine.Lease], 50) // the same for a batch
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("new", i)).AcquireAsync(testkit.Limited(t))
	}
	for _, f := range futures {
		_, err := f.Await(testkit.Limited(t))
		require.Equal(t, engine.ClassOOM, testkit.ServerClass(err), "%v", err)
	}
	for _, key := range s.Keys(t) {
		require.Contains(t, []string{"a", "dying"}, key)
	}
	first := ls.Deadline()
	testkit.Eventually(t, "renewals go on", func() bool { return ls.Deadline().After(first.Add(1200 * time.Millisecond)) })
	require.True(t, dying.Lost())
	asked := testkit.WatchCommands(p, testkit.ScriptCall("acquire", "reacquire"))
	testkit.Release(t, ls)
	require.Empty(t, s.Keys(t))
	for range 4 {
		testkit.Await(t, asked, "waiters ask and are refused")
	}
	require.NoError(t, p.Idle(testkit.Limited(t)))
	for _, f := range waiting {
		_, err, done := f.Result()
		require.False(t, done, "%v", err)
	}
	require.Empty(t, s.Keys(t))

	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	back := time.Now()
	for _, f := range waiting {
		got, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Less(t, testkit.Ran(back), 1500*time.Millisecond)
		testkit.RequireHeldOnce(t, s, got)
		testkit.Release(t, got)
	}
	testkit.Finish(t, s, e, other)
}

// TestC059_ServerRestartsAndLoads: a waiter waits through a restart during which the server first
// cannot be reached and then refuses everything because it loads its data.
func TestC059_ServerRestartsAndLoads(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := redistest.Run(t, redistest.Options{Args: []string{
		"--dir", data, "--key-load-delay", "600", "--loading-process-events-interval-bytes", "1024",
	}})
	s.Do(t, "EVAL", `for i = 1, 3000 do redis.call('set', 'filler:' .. i, string.rep('x', 64), 'px', 3600000) end`, "0")
	e := testkit.Open(t, s.Addr())
	foreign := "2f1f1f66-0000-4000-8000-000000000000:77"
	s.Do(t, "HSET", "a", foreign, "1")
	s.Do(t, "PEXPIRE", "a", "60000")
	waiter := e.Lock("a").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
	s.Do(t, "SAVE")
	restarted := make(chan error, 1)
	go func() { restarted <- s.Restart(testkit.Limited(t)) }()
	testkit.Eventually(t, "it is loading", func() bool {
		_, err := s.Command(testkit.Limited(t), "EXISTS", "a")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	fresh := e.Lock("b").AcquireAsync(testkit.Limited(t))
	late := testkit.Open(t, s.Addr())
	_, err := late.Lock("b").TryAcquire(testkit.Limited(t))
	require.Equal(t, engine.ClassLoading, testkit.ServerClass(err), "%v", err)
	require.True(t, engine.SafeToRetry(err), "%v", err)
	_, err, done := waiter.Result()
	require.False(t, done, "%v", err)
	require.NoError(t, testkit.Await(t, restarted, "the server is back"))
	ls, err := fresh.Await(testkit.Limited(t))
	require.NoError(t, err, "an acquire waits for the load")
	testkit.Release(t, ls)
	require.Equal(t, foreign+"\n1", s.Do(t, "HGETALL", "a"), "the data is back")
	_, err, done = waiter.Result()
	require.False(t, done, "%v", err)
	testkit.Eventually(t, "it hears messages again", func() bool { return e.Stats().WokenByReconnect > 0 })
	s.Do(t, "DEL", "a")
	s.Do(t, "PUBLISH", "redisson_lock__channel:{a}", "0")
	freed := time.Now()
	ls, err = waiter.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(freed), 1500*time.Millisecond) // its next try may be a second away
	testkit.RequireHeldOnce(t, s, ls)
	testkit.Release(t, ls)
	require.NoError(t, late.Close(testkit.Limited(t)))
	require.Empty(t, s.ImmortalKeys(t))
	s.Do(t, "FLUSHALL")
	testkit.Finish(t, s, e)
}

// TestC067_SomethingElseUnderTheName: a value that is no lock, or another kind of lock, stands
// under the name. Every operation says so, touches nothing, and harms no other lock of its batch.
func TestC067_SomethingElseUnderTheName(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	makers := map[string][]string{
		"string":             {"SET", "string", "value"},
		"zset":               {"ZADD", "zset", "1", "member"},
		"stream":             {"XADD", "stream", "1-1", "f", "v"},
		"list":               {"RPUSH", "list", "x"},
		"set":                {"SADD", "set", "x"},
		"C068_readwritelock": {"HSET", "C068_readwritelock", "mode", "write", "6e3814a1-e847-452b-a982-45baf93a1df2:1:write", "1"},
	}
	dumps := make(map[string]string)
	for name, cmd := range makers {
		s.Do(t, cmd...)
		s.Do(t, "PEXPIRE", name, "3600000")
		dumps[name] = s.Do(t, "DUMP", name)
	}
	for name := range makers {
		t.Run(name, func(t *testing.T) {
			l := e.Lock(name)
			for _, form := range faultForms {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				ls, err := form.take(l, ctx)
				cancel()
				require.ErrorIs(t, err, engine.ErrWrongKind, form.name)
				require.Nil(t, ls)
				require.False(t, engine.SafeToRetry(err))
			}
			_, err := l.Inspect(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind, "Inspect")
			_, err = l.ForceRelease(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind, "ForceRelease")
		})
	}
	if t.Failed() {
		return
	}
	t.Run("InABatchWithOthers", func(t *testing.T) {
		var good, bad []*engine.Future[*engine.Lease]
		for i := range 120 {
			good = append(good, e.Lock(testkit.Numbered("good", i)).AcquireAsync(testkit.Limited(t)))
			if i%20 == 0 {
				for name := range makers {
					bad = append(bad, e.Lock(name).AcquireAsync(testkit.Limited(t)))
				}
			}
		}
		for _, f := range bad {
			_, err := f.Await(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrWrongKind)
		}
		for _, f := range good {
			ls, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
			testkit.RequireHeldOnce(t, s, ls)
			testkit.Release(t, ls)
		}
	})
	t.Run("ComesWhileOthersWait", func(t *testing.T) {
		foreign := "2f1f1f66-0000-4000-8000-000000000000:77"
		s.Do(t, "HSET", "late", foreign, "1")
		s.Do(t, "PEXPIRE", "late", "60000")
		f := e.Lock("late").AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "it waits", func() bool { return e.Stats().WokenBySubscribe > 0 })
		s.Do(t, "SET", "late", "value", "PX", "60000")
		_, err := f.Await(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrWrongKind)
		s.Do(t, "DEL", "late")
	})
	for name, dump := range dumps {
		require.Equal(t, dump, s.Do(t, "DUMP", name))
		require.Greater(t, time.Until(testkit.Expiry(t, s, name)), 59*time.Minute)
		s.Do(t, "DEL", name)
	}
	testkit.Finish(t, s, e)
}

// TestC167_PoisonKey: one of many held names is overwritten by a value of another type. Only that
// one is lost; the renewals of the others go on (P7).
func TestC167_PoisonKey(t *testing.T) {
	t.Parallel()
	const n, lease = 300, 2 * time.Second
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	futures := make([]*engine.Future[*engine.Lease], n)
	for i := range futures {
		futures[i] = e.Lock(testkit.Numbered("a", i), engine.WatchdogLease(lease)).AcquireAsync(testkit.Limited(t))
	}
	leases, err := engine.AllLeases(futures...).Await(testkit.Limited(t))
	require.NoError(t, err)
	poisoned := leases[137]
	ended := poisoned.Context().Done()
	s.Do(t, "SET", poisoned.Name(), "poison", "PX", "60000")
	at := time.Now()
	testkit.Await(t, ended, "its holder is told")
	require.Less(t, testkit.Ran(at), lease/3+250*time.Millisecond, "within a period")
	require.ErrorIs(t, poisoned.Release(testkit.Limited(t)), engine.ErrLost)
	others := slices.Delete(slices.Clone(leases), 137, 138)
	goal := at.Add(3 * lease)
	testkit.Eventually(t, "two more leases pass", func() bool { return others[0].Deadline().After(goal) })
	for _, ls := range others {
		testkit.RequireHeldOnce(t, s, ls)
	}
	stats := e.Stats()
	require.EqualValues(t, 1, stats.Lost)
	require.EqualValues(t, n-1, stats.Held)
	require.Equal(t, "poison", s.Do(t, "GET", poisoned.Name()))
	s.Do(t, "DEL", poisoned.Name())
	for _, ls := range others {
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, e)
}
