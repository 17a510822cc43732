package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
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
	e := apiOpen(t, s.Addr())
	leases := apiGet(t, engine.AllLeases(apiFutures(e, "a", "b", "c")...))
	require.Len(t, leases, 3)
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, leases[i].Name())
		require.Equal(t, "1", s.Do(t, "HGET", name, leases[i].OwnerID()))
	}
	for _, ls := range leases {
		apiRelease(t, ls)
	}
	require.Empty(t, s.Keys(t))
}

func TestAllLeasesGivesEverythingBackWhenOneFails(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("held", time.Minute)
	s.Do(t, "SET", "text", "value")
	fs := apiFutures(e, "a", "b", "held")
	for _, f := range fs[:2] {
		apiGet(t, f) // granted before
	}
	apiParked(t, s, "held", 1, 1, e)
	bad := e.Lock("text").AcquireAsync(context.Background())
	late := e.Lock("c").AcquireAsync(context.Background()) // granted at about the same time
	all := engine.AllLeases(append(fs, bad, late)...)
	require.ErrorIs(t, apiErr(t, all), engine.ErrWrongKind)
	require.ErrorIs(t, apiErr(t, fs[2]), engine.ErrCancelled, "the one that waited")
	apiIdle(t, e) // no acquire is on its way any more
	apiUntil(t, "what was granted is given back", func() bool { return s.Do(t, "DBSIZE") == "2" })
	require.Equal(t, []string{"held", "text"}, s.Keys(t))
	require.Equal(t, foreign.field+"\n1", s.Do(t, "HGETALL", "held"), "a foreign lock is untouched")
	foreign.unlock("held") // nobody waits for it any more
	require.Equal(t, []string{"text"}, s.Keys(t))
	for _, f := range fs[:2] {
		ls := apiGet(t, f)
		require.ErrorIs(t, ls.Release(apiCtx(t)), engine.ErrNotHeld)
	}
}

func TestAllLeasesGivesEverythingBackWhenItIsCancelled(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	apiNewForeign(t, s).lock("held", time.Minute)
	for i := range 20 { // cancelled at any moment of the grants
		all := engine.AllLeases(apiFutures(e, "a", "b", "held", "c")...)
		<-time.After(time.Duration(i) * 50 * time.Microsecond)
		require.True(t, all.Cancel())
		require.ErrorIs(t, apiErr(t, all), engine.ErrCancelled)
	}
	apiIdle(t, e)
	apiUntil(t, "what was granted is given back", func() bool { return s.Do(t, "DBSIZE") == "1" })
	require.Equal(t, []string{"held"}, s.Keys(t))
}

func TestAnyLeaseKeepsTheFirstAndGivesTheOthersBack(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	foreign.lock("held", time.Minute)
	for range 20 {
		names := []string{"held", "a", "b", "c"}
		fs := apiFutures(e, names...)
		ls := apiGet(t, engine.AnyLease(fs...))
		require.NotEqual(t, "held", ls.Name())
		apiUntil(t, "one lock of ours is left", func() bool { return s.Do(t, "DBSIZE") == "2" })
		require.Equal(t, "1", s.Do(t, "HGET", ls.Name(), ls.OwnerID()))
		require.False(t, ls.Lost())
		require.ErrorIs(t, apiErr(t, fs[0]), engine.ErrCancelled)
		apiRelease(t, ls)
		apiUntil(t, "nothing is left", func() bool { return e.Stats().Names == 0 && s.Do(t, "DBSIZE") == "1" })
	}
}

func TestAnyLeaseOfWaitersIsTheFirstThatComesFree(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	foreign := apiNewForeign(t, s)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		foreign.lock(name, time.Minute)
	}
	first := engine.AnyLease(apiFutures(e, names...)...)
	apiParked(t, s, "b", 1, 3, e)
	apiPending(t, first)
	foreign.unlock("b")
	ls := apiGet(t, first)
	require.Equal(t, "b", ls.Name())
	apiUntil(t, "nobody waits for the others", func() bool { return e.Stats().Waiting == 0 })
	foreign.unlock("a")
	foreign.unlock("c")
	require.Equal(t, []string{"b"}, s.Keys(t))
}

func TestAnyLeaseFailsWithAllErrorsWhenEveryOneFailed(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	s.Do(t, "SET", "text", "value")
	apiNewForeign(t, s).lock("held", time.Minute)
	_, err := engine.AnyLease(
		e.Lock("text").AcquireAsync(context.Background()),
		e.Lock("held").TryAcquireAsync(context.Background()),
		e.Lock("").AcquireAsync(context.Background()),
	).Await(apiCtx(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	require.ErrorIs(t, err, engine.ErrHeld)
	require.ErrorIs(t, err, engine.ErrName)
}

func TestAnyLeaseGivesEverythingBackWhenItIsCancelled(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
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
			apiRelease(t, apiGet(t, first))
		}
	}
	t.Logf("%d of 40 were granted before their cancel", kept)
	apiUntil(t, "nothing is left", func() bool { return e.Stats().Names == 0 && s.Do(t, "DBSIZE") == "0" })
}

// All and Any leave their parts alone: what they do not return is still the caller's.
func TestAllAndAnyOfLeasesLeaveThemAlone(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := apiOpen(t, s.Addr())
	fs := apiFutures(e, "a", "b")
	i := apiGet(t, engine.Any(fs...))
	require.Contains(t, []int{0, 1}, i)
	for _, f := range fs {
		apiGet(t, f)
	}
	require.Equal(t, []string{"a", "b"}, s.Keys(t))
	require.ErrorIs(t, apiErr(t, engine.All(append(fs, e.Lock("").AcquireAsync(context.Background()))...)), engine.ErrName)
	require.Equal(t, []string{"a", "b"}, s.Keys(t))
}
