package family_test

import (
	"context"
	"encoding/hex"
	"math"
	"strconv"
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
	"github.com/seed-786ebc8c/holdfast/slot"
)

// forEver is the score of a permit that Redisson leases without an end.
const forEver = "922337203685477"

// permitsOf opens an engine and a semaphore with so many permits.
func permitsOf(t *testing.T, s *redistest.Server, n int, opts ...engine.Option) (*engine.Engine, *engine.PermitSemaphore) {
	t.Helper()
	e := testkit.Open(t, s.Addr())
	sem := e.PermitSemaphore("s", opts...)
	set, err := sem.TrySetPermits(testkit.Limited(t), n)
	require.NoError(t, err)
	require.True(t, set)
	return e, sem
}

func take(t *testing.T, sem *engine.PermitSemaphore, n int) *engine.Permit {
	t.Helper()
	p, err := sem.Acquire(testkit.Limited(t), n)
	require.NoError(t, err)
	return p
}

// requirePermits looks at what is free, leased and there in all.
func requirePermits(t *testing.T, sem *engine.PermitSemaphore, free, leased, total int) {
	t.Helper()
	ctx := testkit.Limited(t)
	got := [3]int{}
	for i, read := range []func(context.Context) (int, error){sem.AvailablePermits, sem.AcquiredPermits, sem.Permits} {
		n, err := read(ctx)
		require.NoError(t, err)
		got[i] = n
	}
	require.Equal(t, [3]int{free, leased, total}, got, "free, leased, in all")
}

func permitsAreOver(t *testing.T, s *redistest.Server, engines ...*engine.Engine) {
	t.Helper()
	s.Do(t, "DEL", "s", "{s}:timeout")
	testkit.Finish(t, s, engines...)
}

func TestPermitsAreLeasedOnTheWireOfRedisson(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem := e.PermitSemaphore("s", engine.FixedLease(10*time.Second))
	requirePermits(t, sem, 0, 0, 0)
	_, err := sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, engine.ErrNoPermits, "nobody has given it any")
	set, err := sem.TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	require.True(t, set)
	set, err = sem.TrySetPermits(t.Context(), 9)
	require.NoError(t, err)
	require.False(t, set, "it has permits already")

	two, one := take(t, sem, 2), take(t, sem, 1)
	require.Equal(t, "2", s.Do(t, "GET", "s"))
	require.Equal(t, int64(3), testkit.Int(t, s, "ZCARD", "{s}:timeout"))
	require.Equal(t, int64(-1), testkit.Int(t, s, "PTTL", "{s}:timeout"))
	now := time.Now().UnixMilli()
	for _, id := range append(two.IDs(), one.IDs()...) {
		require.Len(t, id, 32)
		raw, err := hex.DecodeString(id)
		require.NoError(t, err)
		until, err := strconv.ParseFloat(s.Do(t, "ZSCORE", "{s}:timeout", string(raw)), 64)
		require.NoError(t, err)
		require.InDelta(t, now+10000, until, 2000)
	}
	requirePermits(t, sem, 2, 3, 5)
	_, err = sem.TryAcquire(t.Context(), 3)
	var none *engine.NoPermitsError
	require.ErrorAs(t, err, &none)
	require.Equal(t, engine.NoPermitsError{Name: "s", Wanted: 3}, *none)
	require.ErrorContains(t, err, `semaphore "s"`)

	require.NoError(t, two.Release(t.Context()))
	require.ErrorIs(t, two.Release(t.Context()), engine.ErrNotHeld)
	require.False(t, two.Lost())
	require.ErrorIs(t, context.Cause(two.Context()), engine.ErrReleased)
	requirePermits(t, sem, 4, 1, 5)
	require.NoError(t, one.Context().Err())
	require.NoError(t, one.Release(t.Context()))
	require.Equal(t, "5", s.Do(t, "GET", "s"))
	require.False(t, testkit.Exists(t, s, "{s}:timeout"))
	permitsAreOver(t, s, e)
}

func TestThePermitsOfASemaphoreMayBeSetAndAdded(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.PermitSemaphore("s"), testkit.Limited(t)
	set, err := sem.SetPermits(ctx, 4)
	require.NoError(t, err)
	require.False(t, set, "there is none")
	free, err := sem.AddPermits(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 10, free)
	p := take(t, sem, 3)
	for total, left := range map[int]int{7: 4, 2: -1, 12: 9} {
		set, err = sem.SetPermits(ctx, total)
		require.NoError(t, err)
		require.True(t, set)
		requirePermits(t, sem, left, 3, total)
	}
	free, err = sem.AddPermits(ctx, -17)
	require.NoError(t, err)
	for ; free > -5; free-- {
		_, err = sem.AddPermits(ctx, -1)
		require.NoError(t, err)
	}
	_, err = sem.AddPermits(ctx, -5-free)
	require.NoError(t, err)
	requirePermits(t, sem, -5, 3, -2)
	_, err = sem.TryAcquire(ctx, 1)
	require.ErrorIs(t, err, engine.ErrNoPermits)
	require.NoError(t, p.Release(ctx))
	requirePermits(t, sem, -2, 0, -2)
	gone, err := sem.Delete(ctx)
	require.NoError(t, err)
	require.True(t, gone)
	gone, err = sem.Delete(ctx)
	require.NoError(t, err)
	require.False(t, gone)
	requirePermits(t, sem, 0, 0, 0)
	testkit.Finish(t, s, e)
}

func TestPermitsRefuseWhatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	sem, ctx := e.PermitSemaphore("s"), testkit.Limited(t)
	for _, n := range []int{-1, 0, engine.MaxPermits + 1} {
		_, err := sem.Acquire(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
		_, err = sem.TryAcquire(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
		require.ErrorIs(t, testkit.GetError(t, sem.AcquireAsync(ctx, n)), engine.ErrLease)
	}
	for _, n := range []int{-1, math.MaxInt32 + 1} {
		_, err := sem.TrySetPermits(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
		_, err = sem.SetPermits(ctx, n)
		require.ErrorIs(t, err, engine.ErrLease)
	}
	for what, opt := range map[string]engine.Option{
		"owner": engine.As(engine.NewOwner()), "once": engine.NonReentrant(), "nil": nil, "lease": engine.FixedLease(1),
	} {
		require.ErrorIs(t, e.PermitSemaphore("s", opt).Err(), engine.ErrLease, what)
		require.ErrorIs(t, sem.With(opt).Err(), engine.ErrLease, what)
		_, err := sem.With(opt).Acquire(ctx, 1)
		require.ErrorIs(t, err, engine.ErrLease, what)
	}
	require.ErrorIs(t, e.PermitSemaphore("s", engine.Spin(time.Millisecond, time.Second)).Err(), engine.ErrLease)
	require.ErrorIs(t, e.PermitSemaphore("").Err(), engine.ErrName)
	for _, id := range []string{"1234", "", strings.Repeat("x", 32), strings.Repeat("0", 34)} {
		require.ErrorIs(t, sem.Release(ctx, id), engine.ErrNotHeld, id)
		_, err := sem.LeaseTime(ctx, id)
		require.ErrorIs(t, err, engine.ErrNotHeld, id)
	}
	require.ErrorIs(t, sem.Release(ctx), engine.ErrLease)
	require.ErrorIs(t, sem.Release(ctx, make([]string, engine.MaxPermits+1)...), engine.ErrLease)
	_, err := sem.UpdateLease(ctx, strings.Repeat("0", 32), time.Millisecond)
	require.ErrorIs(t, err, engine.ErrLease)
	require.Empty(t, s.Do(t, "KEYS", "*"))

	for _, make := range [][]string{
		{"HSET", "s", "a", "1"}, {"SET", "s", "text"}, {"RPUSH", "s", "1"}, {"SET", "{s}:timeout", "1"},
	} {
		s.Do(t, make...)
		if make[1] != "s" {
			s.Do(t, "SET", "s", "3")
		}
		_, err := sem.TryAcquire(ctx, 1)
		require.ErrorIs(t, err, engine.ErrWrongKind, make)
		_, err = sem.Permits(ctx)
		require.ErrorIs(t, err, engine.ErrWrongKind, make)
		s.Do(t, "DEL", "s", "{s}:timeout")
	}
	testkit.Finish(t, s, e)
}

// What has expired is free: a waiter of another engine gets it just then, and who had it has lost it.
func TestPermitsExpireAndAreFreeThen(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 2, engine.FixedLease(2*time.Second))
	other := testkit.Open(t, s.Addr())
	began := time.Now()
	id := "0123456789abcdef"
	until := strconv.FormatInt(began.Add(2*time.Second).UnixMilli(), 10)
	s.Do(t, "ZADD", "{s}:timeout", until, id, until, "fedcba9876543210") // of somebody who has died
	s.Do(t, "SET", "s", "0")
	requirePermits(t, sem, 0, 2, 2)
	p := take(t, other.PermitSemaphore("s"), 2)
	waited := time.Since(began)
	require.GreaterOrEqual(t, waited, 2*time.Second-time.Millisecond, "the leases of the dead last so long")
	require.Less(t, testkit.Ran(began), 2*time.Second+testkit.TooLong/10)
	requirePermits(t, sem, 0, 2, 2)
	gone := hex.EncodeToString([]byte(id))
	require.ErrorIs(t, sem.Release(t.Context(), gone), engine.ErrNotHeld)
	renewed, err := sem.UpdateLease(t.Context(), gone, time.Second)
	require.NoError(t, err)
	require.False(t, renewed)
	require.NoError(t, p.Release(t.Context()))
	requirePermits(t, sem, 2, 0, 2)

	mine := take(t, sem, 1)
	testkit.Within(t, mine.Context().Done(), 5*time.Second, "its lease is over")
	require.True(t, mine.Lost())
	require.ErrorIs(t, mine.Release(t.Context()), engine.ErrLost)
	testkit.Eventually(t, "it is given back", func() bool { return s.Do(t, "GET", "s") == "2" })
	permitsAreOver(t, s, e, other)
}

// Who waits looks when a lease ends, not with its next poll, which comes about a second later.
func TestWhoWaitsForPermitsLooksWhenTheyExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 1)
	began := time.Now()
	for range 5 {
		s.Do(t, "ZADD", "{s}:timeout", strconv.FormatInt(time.Now().Add(300*time.Millisecond).UnixMilli(), 10), "0123456789abcdef")
		s.Do(t, "SET", "s", "0")
		require.NoError(t, take(t, sem, 1).Release(t.Context()))
	}
	took := time.Since(began)
	require.GreaterOrEqual(t, took, 5*299*time.Millisecond)
	require.Less(t, testkit.Ran(began), 3500*time.Millisecond)
	permitsAreOver(t, s, e)
}

func TestTenThousandPermitsThatExpiredAtOnceAreGivenBackInPieces(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 0)
	const dead = 10000
	for i := 0; i < dead; i += 500 {
		args := []string{"ZADD", "{s}:timeout"}
		for j := range 500 {
			args = append(args, "1000", "dead of "+strconv.Itoa(10000000+i+j))
		}
		s.Do(t, args...)
	}
	requirePermits(t, sem, dead, 0, dead)
	p, err := sem.TryAcquire(t.Context(), 1)
	require.NoError(t, err, "the first hundred are enough")
	require.Equal(t, "99", s.Do(t, "GET", "s"))
	require.Equal(t, int64(dead-100+1), testkit.Int(t, s, "ZCARD", "{s}:timeout"))
	began := time.Now()
	many := take(t, sem, engine.MaxPermits)
	t.Logf("%d permits after %v", engine.MaxPermits, time.Since(began))
	rest := make([]*engine.Permit, 0, dead/engine.MaxPermits)
	for range dead/engine.MaxPermits - 2 {
		rest = append(rest, take(t, sem, engine.MaxPermits))
	}
	requirePermits(t, sem, engine.MaxPermits-1, dead-engine.MaxPermits+1, dead)
	for _, p := range append(rest, p, many) {
		require.NoError(t, p.Release(t.Context()))
	}
	requirePermits(t, sem, dead, 0, dead)
	permitsAreOver(t, s, e)
}

func TestTheWatchdogKeepsPermitsForAsLongAsTheyAreHeld(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 200, engine.WatchdogLease(2*time.Second))
	var held []*engine.Permit
	for i := range 60 { // several commands' work
		held = append(held, take(t, sem, 1+i%5))
	}
	fixed := take(t, sem.With(engine.FixedLease(time.Second)), 1)
	ends := take(t, sem.With(engine.MaxHold(time.Second)), 1)
	stopped := take(t, sem, 1)
	stopped.StopRenewing()
	for _, p := range []*engine.Permit{fixed, ends, stopped} {
		testkit.Within(t, p.Context().Done(), 5*time.Second, "it is not renewed")
	}
	began := time.Now()
	for _, p := range held {
		require.False(t, p.Lost())
	}
	testkit.Eventually(t, "more than a lease has passed", func() bool { return time.Since(began) > 3*time.Second })
	require.Equal(t, int64(180), testkit.Int(t, s, "ZCARD", "{s}:timeout"))
	for _, p := range held {
		require.NoError(t, p.Release(t.Context()))
	}
	requirePermits(t, sem, 200, 0, 200)
	permitsAreOver(t, s, e)
}

func TestALeaseOfPermitsIsExtendedAndReadAndChanged(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 5)
	ctx := testkit.Limited(t)
	p := take(t, sem.With(engine.FixedLease(10*time.Second)), 2)
	require.NoError(t, p.Extend(ctx, time.Minute))
	require.NoError(t, p.Extend(ctx, 5*time.Second), "it shortens nothing")
	for _, id := range p.IDs() {
		left, err := sem.LeaseTime(ctx, id)
		require.NoError(t, err)
		require.InDelta(t, time.Minute.Seconds(), left.Seconds(), 5)
	}
	require.Greater(t, time.Until(p.Deadline()), 50*time.Second)
	watched := take(t, sem.With(engine.WatchdogLease(time.Minute)), 1)
	require.ErrorIs(t, watched.Extend(ctx, time.Minute), engine.ErrLease)

	s.Do(t, "ZADD", "{s}:timeout", forEver, "redisson's permit")
	s.Do(t, "ZADD", "{s}:timeout", forEver, "another client s")
	foreign := hex.EncodeToString([]byte("another client s"))
	left, err := sem.LeaseTime(ctx, foreign)
	require.NoError(t, err)
	require.Negative(t, left, "it has no end")
	for _, d := range []time.Duration{time.Minute, 2 * time.Second} {
		changed, err := sem.UpdateLease(ctx, foreign, d)
		require.NoError(t, err)
		require.True(t, changed)
		left, err = sem.LeaseTime(ctx, foreign)
		require.NoError(t, err)
		require.Greater(t, left, d-time.Second)
		require.LessOrEqual(t, left, d)
	}
	holders, err := sem.Holders(ctx)
	require.NoError(t, err)
	require.Len(t, holders, 5)
	require.Equal(t, engine.Holder{ID: foreign, Remaining: holders[0].Remaining}, holders[0], "it expires first")
	mine := 0
	for _, h := range holders {
		if h.Mine {
			mine++
		}
	}
	require.Equal(t, 3, mine)
	require.Negative(t, holders[4].Remaining)
	require.False(t, holders[4].Mine)

	// A permit without an end is nobody's next chance: who waits relies on messages.
	s.Do(t, "DEL", "{s}:timeout")
	require.ErrorIs(t, p.Extend(ctx, time.Minute), engine.ErrLost)
	require.True(t, p.Lost())
	require.ErrorIs(t, watched.Release(ctx), engine.ErrLost)
	permitsAreOver(t, s, e)
}

func TestPermitsAreNotRenewedUnlessAsked(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 5)
	ctx := testkit.Limited(t)
	p := take(t, sem, 1)
	require.InDelta(t, engine.DefaultLease.Seconds(), time.Until(p.Deadline()).Seconds(), 5)
	require.NoError(t, p.Extend(ctx, time.Minute), "what is renewed cannot be extended")
	require.NoError(t, p.Release(ctx))
	permitsAreOver(t, s, e)
}

// By their ids, permits are given back all or none, whoever has them.
func TestPermitsAreReleasedByTheirIDs(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 4)
	other := testkit.Open(t, s.Addr())
	ctx := testkit.Limited(t)
	p := take(t, other.PermitSemaphore("s"), 4)
	waits := sem.AcquireAsync(ctx, 2)
	testkit.Parked(t, s, "s", 0, 1, e)
	ids := p.IDs()
	unknown := strings.Repeat("0", 32)
	require.ErrorIs(t, sem.Release(ctx, ids[0], unknown), engine.ErrNotHeld)
	requirePermits(t, sem, 0, 4, 4)
	began := time.Now()
	require.NoError(t, sem.Release(ctx, ids[0], ids[1], ids[0]))
	two := testkit.Get(t, waits)
	require.Less(t, testkit.Ran(began), 500*time.Millisecond, "it was told")
	require.ErrorIs(t, sem.Release(ctx, ids[0]), engine.ErrNotHeld)
	require.NotContains(t, ids, two.IDs()[0])
	requirePermits(t, sem, 0, 4, 4)
	require.ErrorIs(t, p.Release(ctx), engine.ErrLost, "two of its four were given back by somebody else")
	requirePermits(t, sem, 2, 2, 4)
	require.NoError(t, two.Release(ctx))
	requirePermits(t, sem, 4, 0, 4)
	permitsAreOver(t, s, e, other)
}

func TestPermitsThatSomebodyTookAwayAreLost(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(t *testing.T, s *redistest.Server, ids []string){
		"all data":  func(t *testing.T, s *redistest.Server, _ []string) { s.Do(t, "FLUSHALL") },
		"the ids":   func(t *testing.T, s *redistest.Server, _ []string) { s.Do(t, "DEL", "{s}:timeout") },
		"one of it": func(t *testing.T, s *redistest.Server, ids []string) { s.Do(t, "ZREM", "{s}:timeout", ids[1]) },
	} {
		t.Run(what, func(t *testing.T) {
			s := redistest.Run(t, redistest.Options{})
			e, sem := permitsOf(t, s, 5, engine.WatchdogLease(time.Second))
			p, err := sem.Acquire(t.Context(), 3)
			require.NoError(t, err)
			var raw []string
			for _, id := range p.IDs() {
				bytes, err := hex.DecodeString(id)
				require.NoError(t, err)
				raw = append(raw, string(bytes))
			}
			take(t, s, raw)
			testkit.Within(t, p.Context().Done(), 5*time.Second, "the next renewal says so")
			require.ErrorIs(t, context.Cause(p.Context()), engine.ErrLost)
			testkit.Eventually(t, "what was left is given back", func() bool { return !testkit.Exists(t, s, "{s}:timeout") })
			require.ErrorIs(t, p.Release(t.Context()), engine.ErrLost)
			permitsAreOver(t, s, e)
		})
	}
}

func TestWhoWaitsForPermitsIsServedInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 4)
	ctx := testkit.Limited(t)
	a, b := take(t, sem, 2), take(t, sem, 2)
	many := sem.AcquireAsync(ctx, 3)
	one := sem.AcquireAsync(ctx, 1)
	cancelled := sem.AcquireAsync(ctx, 1)
	testkit.Parked(t, s, "s", 0, 3, e)
	_, err := sem.TryAcquire(ctx, 1)
	require.ErrorIs(t, err, engine.ErrNoPermits, "others wait")
	began := time.Now()
	_, err = sem.With(engine.MaxWait(200*time.Millisecond)).Acquire(ctx, 1)
	require.ErrorIs(t, err, engine.ErrNoPermits)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.True(t, cancelled.Cancel())
	require.NoError(t, a.Release(ctx))
	requirePermits(t, sem, 2, 2, 4)
	testkit.Pending(t, many)
	testkit.Pending(t, one)
	require.NoError(t, b.Release(ctx))
	require.NoError(t, testkit.Get(t, many).Release(ctx))
	require.NoError(t, testkit.Get(t, one).Release(ctx))
	requirePermits(t, sem, 4, 0, 4)
	permitsAreOver(t, s, e)
}

// Tries that are made at once are asked for one after the other: none is refused as long as there are permits.
func TestTriesForPermitsAtOnceAreAllServed(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 50)
	var all []*engine.Future[*engine.Permit]
	for range 60 {
		all = append(all, sem.TryAcquireAsync(t.Context(), 1))
	}
	var taken []*engine.Permit
	for _, f := range all {
		if p, err := f.Await(testkit.Limited(t)); err == nil {
			taken = append(taken, p)
		} else {
			require.ErrorIs(t, err, engine.ErrNoPermits)
		}
	}
	require.Len(t, taken, 50)
	for _, p := range taken {
		require.NoError(t, p.Release(t.Context()))
	}
	requirePermits(t, sem, 50, 0, 50)
	permitsAreOver(t, s, e)
}

// A renewed permit goes to the next waiter here under its ids, unless somebody was told them.
func TestARenewedPermitIsHandedOverUnlessItsIDsWereTold(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 2, engine.WatchdogLease(10*time.Second))
	ctx := testkit.Limited(t)
	held := take(t, sem, 2)
	other := sem.AcquireAsync(ctx, 1)
	testkit.Parked(t, s, "s", 0, 1, e)
	require.NoError(t, held.Release(ctx))
	one := testkit.Get(t, other)
	require.Zero(t, e.Stats().GrantsByHandOff, "it wants fewer")
	require.NoError(t, one.Release(ctx))

	for _, told := range []bool{false, true} {
		handed := int64(0)
		for range 20 { // a tenure may end in between
			held = take(t, sem, 2)
			var ids []string
			if told {
				ids = held.IDs()
			}
			next := sem.AcquireAsync(ctx, 2)
			before := e.Stats().GrantsByHandOff
			require.NoError(t, held.Release(ctx))
			got := testkit.Get(t, next)
			handed += e.Stats().GrantsByHandOff - before
			require.False(t, got.Lost())
			require.Equal(t, int64(2), testkit.Int(t, s, "ZCARD", "{s}:timeout"))
			for _, id := range got.IDs() {
				require.NotContains(t, ids, id)
			}
			require.NoError(t, got.Release(ctx))
		}
		require.Equal(t, told, handed == 0, handed)
	}
	requirePermits(t, sem, 2, 0, 2)
	permitsAreOver(t, s, e)
}

func TestCloseGivesPermitsBackAndEndsWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 3)
	other := testkit.Open(t, s.Addr())
	a, b := take(t, sem, 2), take(t, sem, 1)
	waits := sem.AcquireAsync(t.Context(), 1)
	require.NoError(t, testkit.Close(e))
	require.ErrorIs(t, testkit.GetError(t, waits), engine.ErrClosed)
	for _, p := range []*engine.Permit{a, b} {
		require.ErrorIs(t, p.Release(t.Context()), engine.ErrNotHeld)
		require.Error(t, p.Context().Err())
	}
	requirePermits(t, other.PermitSemaphore("s"), 3, 0, 3)
	_, err := sem.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, engine.ErrClosed)
	permitsAreOver(t, s, other)
}

// Several engines and many callers: never more inside than there are permits, and in the end all are free.
func TestPermitsLetInNoMoreThanThereAre(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	const permits, callers, rounds = 5, 24, 30
	e, _ := permitsOf(t, s, permits)
	engines := []*engine.Engine{e, testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for i := range callers {
		opts := []engine.Option{engine.FixedLease(20 * time.Second)}
		if i%2 == 0 {
			opts = []engine.Option{engine.WatchdogLease(20 * time.Second)}
		}
		sem, n := engines[i%len(engines)].PermitSemaphore("s", opts...), int64(1+i%3)
		wg.Go(func() {
			for range rounds {
				p, err := sem.Acquire(t.Context(), int(n))
				if err != nil {
					errs <- err
					return
				}
				now := inside.Add(n)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				inside.Add(-n)
				if err := p.Release(t.Context()); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, most.Load(), int64(permits))
	require.Greater(t, most.Load(), int64(1), "several were inside")
	requirePermits(t, engines[1].PermitSemaphore("s"), permits, 0, permits)
	permitsAreOver(t, s, engines...)
}

// What is left over, because who wanted it has gone, is given back.
func TestPermitsThatNobodyWantsAnyMoreAreGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 8)
	for range 50 {
		var all []*engine.Future[*engine.Permit]
		for i := range 8 {
			all = append(all, sem.AcquireAsync(t.Context(), 1+i%2))
		}
		for i := 0; i < len(all); i += 2 {
			all[i].Cancel()
		}
		for i, f := range all {
			if p, err := f.Await(t.Context()); err == nil {
				require.Len(t, p.IDs(), 1+i%2)
				require.NoError(t, p.Release(t.Context()))
			} else {
				require.ErrorIs(t, err, engine.ErrCancelled)
			}
		}
		testkit.Eventually(t, "all are free", func() bool { return s.Do(t, "GET", "s") == "8" })
	}
	permitsAreOver(t, s, e)
}

// An answer is lost: the acquire is asked again under its ids, and counts once; so does the release.
func TestPermitsWhoseAnswersAreLostCountOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	sem := e.PermitSemaphore("s")
	_, err := sem.TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	for range 3 {
		lost := p.DropReply(testkit.ScriptCall("permits"), 1)
		held := take(t, sem, 2)
		testkit.Await(t, lost.C(), "the answer is lost")
		requirePermits(t, sem, 3, 2, 5)
		lost = p.DropReply(testkit.ScriptCall("permitsrelease"), 1)
		require.NoError(t, held.Release(testkit.Limited(t)))
		testkit.Await(t, lost.C(), "the answer is lost")
		requirePermits(t, sem, 5, 0, 5)
	}
	lost := p.DropReply(testkit.ScriptCall("permitsset"), 1)
	_, err = sem.AddPermits(testkit.Limited(t), 1)
	require.ErrorIs(t, err, engine.ErrUnknown, "it might count twice")
	testkit.Await(t, lost.C(), "the answer is lost")
	requirePermits(t, sem, 6, 0, 6)
	permitsAreOver(t, s, e)
}

// Who asked has left, and nobody knows what it was granted: who waits behind it asks for as many as it wants itself.
func TestWhoWaitsBehindAnAcquireWithoutAnAnswerGetsWhatItWants(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	sem := e.PermitSemaphore("s")
	_, err := sem.TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	for _, c := range []struct{ leaves, wants int }{{2, 3}, {6, 5}} {
		lost := p.DropReply(testkit.ScriptCall("permits"), 1, faultproxy.Hang)
		leaves, wants := sem.AcquireAsync(t.Context(), c.leaves), sem.AcquireAsync(t.Context(), c.wants)
		testkit.Await(t, lost.C(), "the answer is lost")
		require.True(t, leaves.Cancel())
		got := testkit.Get(t, wants)
		require.Len(t, got.IDs(), c.wants)
		require.Zero(t, e.Stats().Waits, "as many are free: it is not told that they are not")
		require.NoError(t, got.Release(testkit.Limited(t)))
		testkit.Eventually(t, "all are free", func() bool { return s.Do(t, "GET", "s") == "5" })
	}
	permitsAreOver(t, s, e)
}

// Another kind of lock of the same name takes nothing of the permits away.
func TestPermitsAndALockOfTheSameNameAreApart(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, sem := permitsOf(t, s, 2)
	p := take(t, sem, 1)
	_, err := e.Lock("s").TryAcquire(t.Context())
	require.ErrorIs(t, err, engine.ErrWrongKind)
	_, err = e.Lock("s").ForceRelease(t.Context())
	require.ErrorIs(t, err, engine.ErrWrongKind)
	require.False(t, p.Lost())
	require.NoError(t, p.Release(t.Context()))
	require.Equal(t, slot.PermitTimeouts("s"), "{s}:timeout")
	permitsAreOver(t, s, e)
}
