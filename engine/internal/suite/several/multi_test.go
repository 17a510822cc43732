package several_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("name:%05d", i)
	}
	return names
}

func TestMultiLockTakesAllAndGivesAllBack(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	m := e.MultiLock("c", "a", "b")
	require.NoError(t, m.Err())
	ls, err := m.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, []string{"c", "a", "b"}, ls.Names())
	require.False(t, ls.Lost())
	require.NoError(t, ls.Context().Err())
	for i, view := range ls.Leases() {
		require.Equal(t, m.Names()[i], view.Name())
		require.Equal(t, "1", s.Do(t, "HGET", view.Name(), view.OwnerID()))
		// Each Deadline reads two clocks, one after the other, so two of the same instant differ by a little.
		require.False(t, ls.Deadline().After(view.Deadline().Add(time.Second)))
	}
	ctx := ls.Context()
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.ErrorIs(t, context.Cause(ctx), engine.ErrReleased)
	require.Empty(t, s.Keys(t))
	err = ls.Release(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotHeld)
	require.EqualError(t, err, `holdfast: locks "a", "b", "c": lease is not held`)
	require.False(t, ls.Lost())
}

func TestMultiLockRefusesBadNamesAndOptionsAndSendsNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())
	testkit.ResetCalls(t, s)
	rw := e.RWLock("rw")
	for what, c := range map[string]struct {
		lock *engine.MultiLock
		is   error
		says string
	}{
		"no name":        {e.MultiLock(), engine.ErrName, "none was named"},
		"nil":            {engine.Multi(e.Lock("a"), nil), engine.ErrName, "lock 2 of 2 is nil"},
		"twice":          {e.MultiLock("a", "twice", "b", "twice"), engine.ErrName, `"twice" refused: it is named twice`},
		"two kinds":      {engine.Multi(e.Lock("a"), e.FencedLock("a").Lock), engine.ErrName, `"a" refused: it is named twice`},
		"two halves":     {engine.Multi(rw.ReadLock(), rw.WriteLock()), engine.ErrName, `"rw" refused: it is named twice`},
		"one server":     {engine.Multi(e.Lock("a"), other.Lock("a")), engine.ErrName, `"a": name refused: two engines with the same addresses`},
		"a bad name":     {e.MultiLock("a", ""), engine.ErrName, "empty"},
		"a bad option":   {e.MultiLock("a", "b").With(engine.FixedLease(time.Millisecond)), engine.ErrLease, `"a"`},
		"a bad option 2": {engine.Multi(e.Lock("a"), e.Lock("b", engine.MaxWait(-1))), engine.ErrLease, `"b"`},
	} {
		t.Run(what, func(t *testing.T) {
			require.ErrorIs(t, c.lock.Err(), c.is)
			require.ErrorContains(t, c.lock.Err(), c.says)
			_, err := c.lock.Acquire(testkit.Limited(t))
			require.Equal(t, c.lock.Err(), err)
			require.Equal(t, c.lock.Err(), testkit.GetError(t, c.lock.TryAcquireAsync(context.Background())))
			require.Equal(t, c.lock.Err(), c.lock.Do(testkit.Limited(t), nil))
			require.Equal(t, err, c.lock.With(engine.MaxHold(time.Second)).Err())
		})
	}
	second := testkit.Open(t, s.Addr(), func(cfg *engine.Config) { cfg.DB = 1 })
	require.NoError(t, engine.Multi(e.Lock("a"), second.Lock("a")).Err(), "another database has other locks")
	require.NoError(t, testkit.Close(second))
	require.Zero(t, testkit.CallsOf(t, s, "evalsha"))
}

// A Client does not say which server it is: two processes could take one name in other orders.
func TestMultiRefusesOneNameOfTwoEnginesWithAClientEach(t *testing.T) {
	open := func(cfg engine.Config) *engine.Engine {
		client, err := rueidis.NewClient(engine.ClientOption(engine.Config{Addrs: cfg.Addrs}))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		e, err := engine.Open(testkit.Limited(t), engine.Config{Client: client, Prefix: cfg.Prefix})
		require.NoError(t, err)
		t.Cleanup(func() { _ = testkit.Close(e) })
		return e
	}
	var of []*engine.Engine
	var locks []*engine.Lock
	for range 3 {
		s := redistest.Run(t, redistest.Options{})
		e := open(engine.Config{Addrs: []string{s.Addr()}})
		of, locks = append(of, e), append(locks, e.Lock("a"))
		if len(of) == 3 {
			apart := open(engine.Config{Addrs: []string{s.Addr()}, Prefix: "z:"})
			require.NoError(t, engine.Multi(locks[0], apart.Lock("a")).Err(), "the prefix tells them apart")
		}
	}
	m := engine.Multi(locks...)
	require.ErrorIs(t, m.Err(), engine.ErrName)
	require.ErrorContains(t, m.Err(), `"a": name refused: two engines with a given Client`)
	_, err := m.Acquire(testkit.Limited(t))
	require.Equal(t, m.Err(), err)
	require.ErrorIs(t, m.With(engine.MaxWait(time.Second)).Err(), engine.ErrName)
	require.NoError(t, engine.Multi(of[0].Lock("a"), of[1].Lock("b")).Err(), "other names have an order")
	r := engine.Red(locks...)
	require.NoError(t, r.Err(), "it waits for none of them while it holds others")
	ls, err := r.With(engine.MaxWait(time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Release(testkit.Limited(t)))
}

func TestMultiTryLeavesNothingBehind(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name:00500", time.Minute)
	_, err := e.MultiLock(numbered(1000)...).TryAcquire(testkit.Limited(t))
	var held *engine.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "name:00500", held.Name)
	require.Greater(t, held.Remaining, 50*time.Second)
	require.Equal(t, []string{"name:00500"}, s.Keys(t), "at once")
	foreign.Unlock("name:00500")
	ls, err := e.MultiLock(numbered(1000)...).TryAcquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, s.Keys(t), 1000)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func TestMultiKeepsOnlyWhatComesBeforeTheLockItWaitsFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("c", time.Minute)
	f := e.MultiLock("e", "a", "c", "d", "b").AcquireAsync(context.Background())
	testkit.Parked(t, s, "c", 1, 1, e)
	testkit.Eventually(t, "what comes behind is given back", func() bool { return len(s.Keys(t)) == 3 })
	require.Equal(t, []string{"a", "b", "c"}, s.Keys(t))
	foreign.Lock("e", time.Minute)
	foreign.Unlock("c")
	testkit.Parked(t, s, "e", 1, 1, e)
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, s.Keys(t))
	testkit.Pending(t, f)
	foreign.Unlock("e")
	ls := testkit.Get(t, f)
	require.Len(t, s.Keys(t), 5)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func TestC139_MultiGivesEverythingBackHoweverItEnds(t *testing.T) {
	for what, c := range map[string]struct {
		option engine.Option
		end    func(f *engine.Future[*engine.MultiLease], cancel func(), s *redistest.Server, t *testing.T)
		is     error
	}{
		"cancelled": {engine.As(nil), func(f *engine.Future[*engine.MultiLease], _ func(), _ *redistest.Server, t *testing.T) {
			require.True(t, f.Cancel())
			require.False(t, f.Cancel())
		}, engine.ErrCancelled},
		"its ctx ends": {engine.As(nil), func(_ *engine.Future[*engine.MultiLease], cancel func(), _ *redistest.Server, _ *testing.T) {
			cancel()
		}, context.Canceled},
		"MaxWait": {engine.MaxWait(50 * time.Millisecond), func(*engine.Future[*engine.MultiLease], func(), *redistest.Server, *testing.T) {}, engine.ErrHeld},
		"another kind": {engine.As(nil), func(_ *engine.Future[*engine.MultiLease], _ func(), s *redistest.Server, t *testing.T) {
			s.Do(t, "DEL", "d")
			s.Do(t, "SET", "d", "text")
			s.Do(t, "DEL", "c")
			s.Do(t, "PUBLISH", testkit.Channel("c"), "0")
		}, engine.ErrWrongKind},
	} {
		t.Run(what, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.OpenChecked(t, s.Addr())
			foreign := testkit.NewForeign(t, s)
			foreign.Lock("c", time.Minute)
			ctx, cancel := context.WithCancel(testkit.Limited(t))
			defer cancel()
			f := e.MultiLock("a", "b", "c", "d").With(c.option).AcquireAsync(ctx)
			testkit.Parked(t, s, "c", 1, 1, e)
			c.end(f, cancel, s, t)
			err := testkit.GetError(t, f)
			require.ErrorIs(t, err, c.is)
			if errors.Is(c.is, engine.ErrWrongKind) {
				require.ErrorContains(t, err, `"d"`)
			}
			testkit.Eventually(t, "everything is given back", func() bool { return len(s.Keys(t)) <= 1 })
			testkit.Idle(t, e)
			require.Zero(t, len(e.Held()))
		})
	}
}

func TestMultiIsLostAsAWhole(t *testing.T) {
	for what, lose := range map[string]func(t *testing.T, s *redistest.Server, e *engine.Engine){
		"force-released": func(t *testing.T, _ *redistest.Server, e *engine.Engine) {
			freed, err := e.Lock("b").ForceRelease(testkit.Limited(t))
			require.NoError(t, err)
			require.True(t, freed)
		},
		"FLUSHALL":     func(t *testing.T, s *redistest.Server, _ *engine.Engine) { s.Do(t, "FLUSHALL") },
		"one is taken": func(t *testing.T, s *redistest.Server, _ *engine.Engine) { s.Do(t, "DEL", "c") },
	} {
		t.Run(what, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e := testkit.OpenChecked(t, s.Addr())
			ls, err := e.MultiLock("a", "b", "c", "d").With(engine.WatchdogLease(time.Second)).Acquire(testkit.Limited(t))
			require.NoError(t, err)
			ctx := ls.Context()
			lose(t, s, e)
			testkit.Await(t, ctx.Done(), "the context ends")
			require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
			require.True(t, ls.Lost())
			err = ls.Release(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrLost)
			require.NotErrorIs(t, err, engine.ErrNotHeld)
			require.True(t, ls.Lost())
			require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
			testkit.NoKeys(t, s)
		})
	}
}

func TestMultiWhoseLeaseRunsOutIsLostByTheClock(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := engine.Multi(e.Lock("a"), e.Lock("b", engine.FixedLease(500*time.Millisecond))).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := ls.Context()
	testkit.Await(t, ctx.Done(), "the context ends")
	require.ErrorIs(t, context.Cause(ctx), engine.ErrLost)
	testkit.Eventually(t, "it is lost", ls.Lost)
	err = ls.Release(testkit.Limited(t))
	require.EqualError(t, err, `holdfast: "b": lease is lost: its lease ran out unrenewed`)
	testkit.NoKeys(t, s)
}

// A loss that is found by giving back was one before.
func TestMultiIsLostWhereItsReleaseSaysSo(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := e.MultiLock("a", "b").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	s.Do(t, "DEL", "a")
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
	require.True(t, ls.Lost())
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	testkit.NoKeys(t, s)
}

func TestMultiSaysWhyItWasLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	for _, c := range []struct {
		name string
		lose func()
		want string
	}{
		{
			"OneOfAnotherType", func() { s.Do(t, "SET", "a", "text") },
			`"a": lease is lost: the name holds another kind of object: WRONGTYPE Operation against a key holding the wrong kind of value`,
		},
		{"BothForTheSame", func() { s.Do(t, "DEL", "a", "b") }, `locks "a", "b": lease is lost: the server says it is not ours`},
		{"EachForAnother", func() { s.Do(t, "DEL", "a"); s.Do(t, "SET", "b", "text") }, `locks "a", "b": lease is lost`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ls, err := e.MultiLock("a", "b").Acquire(testkit.Limited(t))
			require.NoError(t, err)
			c.lose()
			err = ls.Release(testkit.Limited(t))
			require.EqualError(t, err, "holdfast: "+c.want)
			s.Do(t, "DEL", "a", "b")
		})
	}
}

func TestMultiThatCloseHasGivenBackIsToldInOneLine(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls, err := e.MultiLock("a", "b", "c", "d", "e").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	ctx := ls.Context()
	require.NoError(t, testkit.Close(e))
	require.EqualError(t, context.Cause(ctx), "holdfast: lease was released: engine is closed")
	err = ls.Release(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotHeld)
	require.EqualError(t, err, `holdfast: locks "a", "b", "c" and 2 more: lease is not held`)
	testkit.NoKeys(t, s)
}

func TestMultiNamesTheFirstOfManyLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := e.MultiLock(numbered(1000)...).With(engine.FixedLease(10 * time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	s.Do(t, "FLUSHALL")
	err = ls.Release(testkit.Limited(t))
	require.EqualError(t, err, `holdfast: locks "name:00000", "name:00001", "name:00002" and 997 more: lease is lost: the server says it is not ours`)
}

func TestMultiExtendsFixedLeases(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := e.MultiLock("a", "b").With(engine.FixedLease(10 * time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Extend(testkit.Limited(t), time.Minute))
	for _, name := range ls.Names() {
		require.Greater(t, testkit.Int(t, s, "PTTL", name), int64(50_000))
	}
	require.Greater(t, time.Until(ls.Deadline()), 50*time.Second)
	require.ErrorIs(t, ls.Extend(testkit.Limited(t), time.Millisecond), engine.ErrLease)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.ErrorIs(t, ls.Extend(testkit.Limited(t), time.Minute), engine.ErrNotHeld)
	watched, err := e.MultiLock("a", "b").Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.ErrorIs(t, watched.Extend(testkit.Limited(t), time.Minute), engine.ErrLease)
	require.NoError(t, watched.Release(testkit.Limited(t)))
}

func TestMultiHasNearlyAllOfAFixedLeaseHoweverLongItWaited(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("c", time.Minute)
	const lease = 400 * time.Millisecond
	f := e.MultiLock("a", "b", "c").With(engine.FixedLease(lease)).AcquireAsync(context.Background())
	testkit.Parked(t, s, "c", 1, 1, e)
	first := testkit.ExpiryOf(t, testkit.ExpireTime(t, s, "a"))
	testkit.Eventually(t, "it outlives its lease", func() bool {
		return testkit.ExpiryOf(t, testkit.ExpireTime(t, s, "a")).Sub(first) > 2*lease
	})
	foreign.Unlock("c")
	ls := testkit.Get(t, f)
	require.Greater(t, time.Until(ls.Deadline()), lease/2, "less what this test takes")
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func TestMultiDoEntersAgainWhatItHolds(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	limited := testkit.Limited(t)
	err := e.MultiLock("b", "c").Do(limited, func(ctx context.Context) error {
		return e.MultiLock("c", "a", "b").Do(ctx, func(ctx context.Context) error {
			require.Equal(t, []string{"a", "b", "c"}, s.Keys(t))
			again, err := e.Lock("a").TryAcquire(ctx)
			require.NoError(t, err)
			require.NoError(t, again.Release(limited))
			_, err = e.Lock("a").TryAcquire(limited)
			require.ErrorIs(t, err, engine.ErrHeld)
			return nil
		})
	})
	require.NoError(t, err)
	testkit.NoKeys(t, s)
	o := engine.NewOwner()
	first, err := e.MultiLock("a", "b").With(engine.As(o)).Acquire(limited)
	require.NoError(t, err)
	second, err := e.MultiLock("b", "c").TryAcquire(engine.WithOwner(limited, o))
	require.NoError(t, err)
	require.NoError(t, first.Release(limited))
	require.Equal(t, []string{"b", "c"}, s.Keys(t))
	require.NoError(t, second.Release(limited))
	testkit.NoKeys(t, s)
}

func TestMultiOfEveryKind(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	rw := e.RWLock("rw")
	m := engine.Multi(e.Lock("plain"), e.FencedLock("fenced").Lock, e.FairLock("fair").Lock, rw.ReadLock(),
		e.RWLock("other").WriteLock(), e.Lock("spin", engine.Spin(time.Millisecond, 8*time.Millisecond)))
	ls, err := m.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Positive(t, ls.Leases()[1].Token())
	reader, err := rw.ReadLock().TryAcquire(testkit.Limited(t))
	require.NoError(t, err)
	_, err = rw.WriteLock().TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	next := m.AcquireAsync(context.Background())
	testkit.Pending(t, next)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	ls = testkit.Get(t, next)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.NoError(t, reader.Release(testkit.Limited(t)))
	testkit.Eventually(t, "nothing is left but what a fenced lock counts", func() bool {
		return strings.HasPrefix(strings.Join(s.Keys(t), " "), "redisson_lock_token") && len(s.Keys(t)) == 1
	})
}

func TestCallersOfTwoEnginesInOtherOrdersNeverWaitForEachOther(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.OpenChecked(t, s.Addr()), testkit.OpenChecked(t, s.Addr())}
	const callers, rounds = 64, 15
	names := numbered(6)
	var inside [6]atomic.Int32
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for range rounds {
				order := r.Perm(len(names))[:2+r.IntN(3)]
				mine := make([]string, len(order))
				for i, at := range order {
					mine[i] = names[at]
				}
				err := engines[c%2].MultiLock(mine...).Do(testkit.Limited(t), func(context.Context) error {
					for _, at := range order {
						if inside[at].Add(1) != 1 {
							t.Error("two are inside of", names[at])
						}
					}
					for _, at := range order {
						inside[at].Add(-1)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	testkit.NoKeys(t, s)
}

func TestTwoProcessesWithTwoServersEach(t *testing.T) {
	servers := []*redistest.Server{redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})}
	var all sync.WaitGroup
	for process := range 4 { // each with engines of its own: ids in any order
		one, two := testkit.OpenChecked(t, servers[0].Addr()), testkit.OpenChecked(t, servers[1].Addr())
		locks := []*engine.Lock{one.Lock("a"), two.Lock("b"), one.Lock("c"), two.Lock("c")}
		for range 4 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(process), 2))
				for range 20 {
					var mine []*engine.Lock
					for _, at := range r.Perm(len(locks))[:2+r.IntN(3)] {
						mine = append(mine, locks[at])
					}
					if err := engine.Multi(mine...).Do(testkit.Limited(t), func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	testkit.NoKeys(t, servers[0])
	testkit.NoKeys(t, servers[1])
}

func TestC138_MultiLocksInThreeOrders(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	var all sync.WaitGroup
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}, {"c", "a", "b"}} {
		all.Go(func() {
			for range 1000 {
				ls, err := e.MultiLock(names...).Acquire(testkit.Limited(t))
				if err == nil {
					err = ls.Release(testkit.Limited(t))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	testkit.NoKeys(t, s)
}

func TestCloseEndsAMultiThatWaits(t *testing.T) {
	for closed := range 2 {
		t.Run(fmt.Sprint("engine ", closed), func(t *testing.T) {
			s, elsewhere := redistest.Run(t, redistest.Options{}), redistest.Run(t, redistest.Options{})
			engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, elsewhere.Addr())}
			foreign := testkit.NewForeign(t, s)
			foreign.Lock("held", time.Minute)
			f := engine.Multi(engines[0].Lock("held"), engines[0].Lock("a"), engines[1].Lock("a")).AcquireAsync(context.Background())
			testkit.Parked(t, s, "held", 1, 1, engines[0])
			require.NoError(t, testkit.Close(engines[closed]))
			_, err, told := f.Result()
			require.True(t, told, "before Close returns")
			require.ErrorIs(t, err, engine.ErrClosed)
			testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t))+len(elsewhere.Keys(t)) == 1 })
			_, err = engine.Multi(engines[0].Lock("b"), engines[1].Lock("c")).Acquire(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrClosed)
			require.NoError(t, testkit.Close(engines[1-closed]))
		})
	}
}

func TestMultiOutlivesKilledConnections(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("b", time.Minute)
	f := e.MultiLock("a", "b", "c").AcquireAsync(context.Background())
	testkit.Parked(t, s, "b", 1, 1, e)
	s.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	s.Do(t, "DEL", "b")
	ls := testkit.Get(t, f)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func TestTenThousandNamesAtOnce(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	m := e.MultiLock(numbered(10_000)...)
	ls, err := m.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, "10000", s.Do(t, "DBSIZE"))
	// Another waits for all of them, and has them all as soon as they are released: not one after the other.
	next := m.AcquireAsync(context.Background())
	testkit.Pending(t, next)
	testkit.ResetCalls(t, s)
	began := time.Now()
	require.NoError(t, ls.Release(testkit.Limited(t)))
	ls = testkit.Get(t, next)
	t.Log("released and acquired by another in", time.Since(began))
	require.Less(t, testkit.CallsOf(t, s, "evalsha"), int64(1000), "they travel together")
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Equal(t, "0", s.Do(t, "DBSIZE"))
}

func TestTenThousandNamesThroughASmallQueue(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr(), func(c *engine.Config) { c.QueueMax = 64 })
	ls, err := e.MultiLock(numbered(1000)...).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func BenchmarkMultiLock(b *testing.B) {
	for _, n := range []int{1, 4, 100, 10_000} {
		b.Run(fmt.Sprint("names=", n), func(b *testing.B) {
			s := redistest.Run(b, redistest.Options{})
			e := testkit.Open(b, s.Addr())
			defer func() { require.NoError(b, testkit.Close(e)) }()
			m := e.MultiLock(numbered(n)...)
			b.ReportAllocs()
			for b.Loop() {
				ls, err := m.Acquire(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if err := ls.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestMultiLostAllocatesNothing(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := e.MultiLock(numbered(1000)...).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = ls.Lost() }))
	require.NoError(t, ls.Release(testkit.Limited(t)))
}

func TestMultiWithTooFewReplicasNamesTheLock(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	_, err := engine.Multi(e.Lock("a"), e.Lock("b", engine.WaitReplicas(1, 10*time.Millisecond))).Acquire(testkit.Limited(t))
	var few *engine.NotReplicatedError
	require.ErrorAs(t, err, &few)
	require.Equal(t, "b", few.Name)
	testkit.Eventually(t, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
}

// A thousand locks are renewed in as few commands as those of as many callers.
func TestMultiIsRenewedInBatches(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls, err := e.MultiLock(numbered(10_000)...).With(engine.WatchdogLease(9 * time.Second)).Acquire(testkit.Limited(t))
	require.NoError(t, err)
	testkit.ResetCalls(t, s)
	testkit.Eventually(t, "each is renewed", func() bool { return e.Stats().Renewals.Sent >= 10_000 })
	require.Less(t, testkit.CallsOf(t, s, "evalsha"), int64(1000))
	t.Log(testkit.CallsOf(t, s, "evalsha"), "commands for", e.Stats().Renewals.Sent, "renewals")
	require.False(t, ls.Lost())
	require.NoError(t, ls.Release(testkit.Limited(t)))
	testkit.NoKeys(t, s)
}

func BenchmarkMultiLeaseLost(b *testing.B) {
	s := redistest.Run(b, redistest.Options{})
	e := testkit.Open(b, s.Addr())
	defer func() { require.NoError(b, testkit.Close(e)) }()
	ls, err := e.MultiLock(numbered(10_000)...).Acquire(context.Background())
	require.NoError(b, err)
	ctx := ls.Context()
	b.Run("Lost", func(b *testing.B) {
		for b.Loop() {
			_ = ls.Lost()
		}
	})
	b.Run("Err", func(b *testing.B) {
		for b.Loop() {
			_ = ctx.Err()
		}
	})
	require.NoError(b, ls.Release(context.Background()))
}
