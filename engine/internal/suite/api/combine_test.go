package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// apiFutures starts an acquire of each name.
func apiFutures(e *engine.Engine, names ...string) []*engine.Future[*engine.Lease] {
	var fs []*engine.Future[*engine.Lease]
	for _, name := range names {
		fs = append(fs, e.Lock(name).AcquireAsync(context.Background()))
	}
	return fs
}

func TestAllLeasesCompletesWithEveryLease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	leases := testkit.Get(t, engine.AllLeases(apiFutures(e, "a", "b", "c")...))
	require.Len(t, leases, 3)
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, leases[i].Name())
		require.Equal(t, "1", s.Do(t, "HGET", name, leases[i].OwnerID()))
	}
	for _, ls := range leases {
		testkit.Release(t, ls)
	}
	require.Empty(t, s.Keys(t))
}

func TestAllLeasesGivesEverythingBackWhenOneFails(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("held", time.Minute)
	s.Do(t, "SET", "text", "value")
	fs := apiFutures(e, "a", "b", "held")
	for _, f := range fs[:2] {
		testkit.Get(t, f) // granted before
	}
	testkit.Parked(t, s, "held", 1, 1, e)
	bad := e.Lock("text").AcquireAsync(context.Background())
	late := e.Lock("c").AcquireAsync(context.Background()) // granted at about the same time
	all := engine.AllLeases(append(fs, bad, late)...)
	require.ErrorIs(t, testkit.GetError(t, all), engine.ErrWrongKind)
	require.ErrorIs(t, testkit.GetError(t, fs[2]), engine.ErrCancelled, "the one that waited")
	testkit.Idle(t, e) // no acquire is on its way any more
	testkit.Eventually(t, "what was granted is given back", func() bool { return s.Do(t, "DBSIZE") == "2" })
	require.Equal(t, []string{"held", "text"}, s.Keys(t))
	require.Equal(t, foreign.Field+"\n1", s.Do(t, "HGETALL", "held"), "a foreign lock is untouched")
	foreign.Unlock("held") // nobody waits for it any more
	require.Equal(t, []string{"text"}, s.Keys(t))
	for _, f := range fs[:2] {
		ls := testkit.Get(t, f)
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	}
}

func TestAllLeasesGivesEverythingBackWhenItIsCancelled(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	testkit.NewForeign(t, s).Lock("held", time.Minute)
	for i := range 20 { // cancelled at any moment of the grants
		all := engine.AllLeases(apiFutures(e, "a", "b", "held", "c")...)
		<-time.After(time.Duration(i) * 50 * time.Microsecond)
		require.True(t, all.Cancel())
		require.ErrorIs(t, testkit.GetError(t, all), engine.ErrCancelled)
	}
	testkit.Idle(t, e)
	testkit.Eventually(t, "what was granted is given back", func() bool { return s.Do(t, "DBSIZE") == "1" })
	require.Equal(t, []string{"held"}, s.Keys(t))
}

func TestAnyLeaseKeepsTheFirstAndGivesTheOthersBack(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("held", time.Minute)
	for range 20 {
		names := []string{"held", "a", "b", "c"}
		fs := apiFutures(e, names...)
		ls := testkit.Get(t, engine.AnyLease(fs...))
		require.NotEqual(t, "held", ls.Name())
		testkit.Eventually(t, "one lock of ours is left", func() bool { return s.Do(t, "DBSIZE") == "2" })
		require.Equal(t, "1", s.Do(t, "HGET", ls.Name(), ls.OwnerID()))
		require.False(t, ls.Lost())
		require.ErrorIs(t, testkit.GetError(t, fs[0]), engine.ErrCancelled)
		testkit.Release(t, ls)
		testkit.Eventually(t, "nothing is left", func() bool { return e.Stats().Names == 0 && s.Do(t, "DBSIZE") == "1" })
	}
}

func TestAnyLeaseOfWaitersIsTheFirstThatComesFree(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	foreign := testkit.NewForeign(t, s)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		foreign.Lock(name, time.Minute)
	}
	first := engine.AnyLease(apiFutures(e, names...)...)
	testkit.Parked(t, s, "b", 1, 3, e)
	testkit.Pending(t, first)
	foreign.Unlock("b")
	ls := testkit.Get(t, first)
	require.Equal(t, "b", ls.Name())
	testkit.Eventually(t, "nobody waits for the others", func() bool { return e.Stats().Waiting == 0 })
	foreign.Unlock("a")
	foreign.Unlock("c")
	require.Equal(t, []string{"b"}, s.Keys(t))
}

func TestAnyLeaseFailsWithAllErrorsWhenEveryOneFailed(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	s.Do(t, "SET", "text", "value")
	testkit.NewForeign(t, s).Lock("held", time.Minute)
	_, err := engine.AnyLease(
		e.Lock("text").AcquireAsync(context.Background()),
		e.Lock("held").TryAcquireAsync(context.Background()),
		e.Lock("").AcquireAsync(context.Background()),
	).Await(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	require.ErrorIs(t, err, engine.ErrHeld)
	require.ErrorIs(t, err, engine.ErrName)
}

func TestAnyLeaseGivesEverythingBackWhenItIsCancelled(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	kept := 0
	for i := range 40 {
		var names []string
		for k := range 8 {
			names = append(names, fmt.Sprint("name:", k))
		}
		first := engine.AnyLease(apiFutures(e, names...)...)
		<-time.After(time.Duration(i) * 10 * time.Microsecond)
		if !first.Cancel() {
			kept++
			testkit.Release(t, testkit.Get(t, first))
		}
	}
	t.Logf("%d of 40 were granted before their cancel", kept)
	testkit.Eventually(t, "nothing is left", func() bool { return e.Stats().Names == 0 && s.Do(t, "DBSIZE") == "0" })
}

// All and Any leave their parts alone: what they do not return is still the caller's.
func TestAllAndAnyOfLeasesLeaveThemAlone(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	fs := apiFutures(e, "a", "b")
	i := testkit.Get(t, engine.Any(fs...))
	require.Contains(t, []int{0, 1}, i)
	for _, f := range fs {
		testkit.Get(t, f)
	}
	require.Equal(t, []string{"a", "b"}, s.Keys(t))
	require.ErrorIs(t, testkit.GetError(t, engine.All(append(fs, e.Lock("").AcquireAsync(context.Background()))...)), engine.ErrName)
	require.Equal(t, []string{"a", "b"}, s.Keys(t))
}
