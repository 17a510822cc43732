package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestTryOfALockHeldHereAnswersErrHeldWithoutACommand(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	ls := testkit.Acquire(t, e.Lock("name", engine.FixedLease(10*time.Second)))
	testkit.ResetCalls(t, s)
	for range 100 {
		got, err := e.Lock("name").TryAcquire(testkit.Limited(t))
		require.Nil(t, got)
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, engine.ErrHeld)
		require.Equal(t, "name", held.Name)
		require.Greater(t, held.Remaining, 5*time.Second)
		require.LessOrEqual(t, held.Remaining, 10*time.Second)
	}
	require.Empty(t, testkit.Calls(t, s))
	require.EqualValues(t, 100, e.Stats().Refused)
	testkit.Release(t, ls)
	testkit.Release(t, testkit.Get(t, e.Lock("name").TryAcquireAsync(testkit.Limited(t))))
}

func TestTryNeverBargesPastThoseWhoWaitHere(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	foreign := testkit.NewForeign(t, s)
	foreign.Lock("name", time.Minute)
	f := e.Lock("name").AcquireAsync(context.Background())
	testkit.Parked(t, s, "name", 1, 1, e)
	drop := p.DropMessages(func(string) bool { return true })
	foreign.Unlock("name")
	testkit.Within(t, drop.C(), testkit.TooLong, "the waiter does not hear of it")
	sent := p.Count("EVALSHA")
	_, err, done := e.Lock("name").TryAcquireAsync(context.Background()).Result()
	if _, _, served := f.Result(); !served { // the poll may come at this very moment
		require.True(t, done, "at once, with no command")
		require.LessOrEqual(t, p.Count("EVALSHA"), sent+1)
	}
	if done {
		require.ErrorIs(t, err, engine.ErrHeld, "the lock is free, but somebody was there before")
	}
	testkit.Release(t, testkit.Get(t, f))
}

func TestTryBehindAnAcquireInFlightTakesItsAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		// between happens while the acquire is in flight.
		between func(t *testing.T, s *redistest.Server, first *engine.Future[*engine.Lease])
		// first and try are what the two futures become: nil granted, ErrHeld, ErrCancelled, or pending.
		first, try error
		pending    bool
	}{
		{name: "GrantedMeansHeld", first: nil, try: engine.ErrHeld},
		{name: "BusyMeansHeld", pending: true, try: engine.ErrHeld, between: func(t *testing.T, s *redistest.Server, _ *engine.Future[*engine.Lease]) {
			testkit.NewForeign(t, s).Lock("name", time.Minute)
		}},
		{name: "GrantedButNotWantedAnyMoreMeansGranted", first: engine.ErrCancelled, try: nil, between: func(t *testing.T, _ *redistest.Server, first *engine.Future[*engine.Lease]) {
			require.True(t, first.Cancel())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			p := faultproxy.Run(t, s.Addr())
			e := testkit.OpenChecked(t, p.Addr())
			hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
			first := e.Lock("name").AcquireAsync(context.Background())
			testkit.Within(t, hold.C(), testkit.TooLong, "the acquire is in flight")
			try := e.Lock("name").TryAcquireAsync(context.Background())
			if c.between != nil {
				c.between(t, s, first)
			}
			testkit.Pending(t, try)
			require.Equal(t, 1, p.Count("EVALSHA"), "the Try sends nothing of its own")
			p.ReleaseCommands()
			ls, err := try.Await(testkit.Limited(t))
			require.ErrorIs(t, err, c.try)
			if c.try == nil {
				require.Equal(t, "1", s.Do(t, "HGET", "name", ls.OwnerID()))
			}
			if c.pending {
				testkit.Pending(t, first)
				require.True(t, first.Cancel())
			} else {
				_, err = first.Await(testkit.Limited(t))
				require.ErrorIs(t, err, c.first)
				require.Equal(t, 1, p.Count("EVALSHA"))
			}
		})
	}
}

// Its answer was an error: the Try has an attempt of its own.
func TestTryBehindAnAcquireThatFailedSendsItsOwn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	s.Do(t, "SET", "name", "a value that is no lock")
	hold := p.Hold(faultproxy.Command("EVALSHA"), 1)
	first := e.Lock("name").AcquireAsync(context.Background())
	testkit.Within(t, hold.C(), testkit.TooLong, "the acquire is in flight")
	try := e.Lock("name").TryAcquireAsync(context.Background())
	p.ReleaseCommands()
	require.ErrorIs(t, testkit.GetError(t, first), engine.ErrWrongKind)
	require.ErrorIs(t, testkit.GetError(t, try), engine.ErrWrongKind, "the second answer is the same, in this case")
	require.Equal(t, "string", s.Do(t, "TYPE", "name"))
}

// What was granted for one lease is not passed off as another: the op behind gets what it asked for.
func TestGrantOfACancelledAcquireIsNotGivenToOneThatAsksForAnotherLease(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.OpenChecked(t, p.Addr())
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	first := e.Lock("name", engine.FixedLease(5*time.Second)).AcquireAsync(context.Background())
	testkit.Within(t, hold.C(), testkit.TooLong, "the acquire is in flight")
	ctx := context.WithValue(context.Background(), apiKey{}, "second")
	second := e.Lock("name", engine.FixedLease(50*time.Second)).AcquireAsync(ctx)
	require.True(t, first.Cancel())
	p.ReleaseCommands()
	ls := testkit.Get(t, second)
	require.Greater(t, testkit.Int(t, s, "PTTL", "name"), int64(45_000))
	require.Greater(t, time.Until(ls.Deadline()), 45*time.Second)
	require.Equal(t, "second", ls.Context().Value(apiKey{}))
	testkit.Release(t, ls)
	require.Empty(t, s.Keys(t))
}

func TestTryOfAForeignLockIsOneCommand(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.OpenChecked(t, s.Addr())
	testkit.NewForeign(t, s).Lock("name", 10*time.Second)
	testkit.ResetCalls(t, s)
	start := time.Now()
	_, err := e.Lock("name").TryAcquire(testkit.Limited(t))
	var held *engine.HeldError
	require.ErrorAs(t, err, &held)
	require.InDelta(t, 10, held.Remaining.Seconds(), 1)
	require.Less(t, testkit.Ran(start), testkit.Soon)
	calls := testkit.Calls(t, s)
	require.EqualValues(t, 1, calls["evalsha"])
	require.Zero(t, calls["subscribe"], "it does not wait")
	require.Zero(t, calls["hset"])
	testkit.Idle(t, e)
}
