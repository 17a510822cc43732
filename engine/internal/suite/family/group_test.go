package family_test

import (
	"context"
	"fmt"
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
)

// What stands in Redis for some values, of StringCodec.
const (
	valueA = "qwvAS12pR0CgRitaypEjUw" // a
	valueB = "qIx8Ray65QDI9s9SyboNig" // ab
)

func takeValues(t *testing.T, g *engine.GroupLock) *engine.Lease {
	t.Helper()
	ls, err := g.Acquire(testkit.Limited(t))
	require.NoError(t, err)
	return ls
}

// requireTaken checks what stands in the hash for values: their owner, how often it has them, and for about how long.
func requireTaken(t *testing.T, s *redistest.Server, owner string, count int, lease time.Duration, values ...string) {
	t.Helper()
	for _, v := range values {
		require.Equal(t, owner, s.Do(t, "HGET", "g", v))
		require.Equal(t, strconv.Itoa(count), s.Do(t, "HGET", "g", v+":"+owner+":lock_count"))
		till, err := strconv.ParseInt(s.Do(t, "HGET", "g", v+":"+owner+":expire_time"), 10, 64)
		require.NoError(t, err)
		require.InDelta(t, time.Now().Add(lease).UnixMilli(), till, 2000)
	}
	require.Equal(t, int64(3*len(values)), testkit.Int(t, s, "HLEN", "g"))
	require.InDelta(t, lease.Milliseconds(), testkit.Int(t, s, "PTTL", "g"), 2000)
}

func TestValuesOfAGroupAreHeldOnTheWireOfRedisson(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	g := e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.FixedLease(10*time.Second))
	require.NoError(t, g.Err())
	require.Equal(t, "g", g.Name())
	ls := takeValues(t, g)
	require.Equal(t, "g", ls.Name())
	require.Len(t, strings.Split(ls.OwnerID(), ":"), 2, "%q", ls.OwnerID())
	requireTaken(t, s, ls.OwnerID(), 1, 10*time.Second, valueA, valueB)
	ear := testkit.NewForeign(t, s)
	ear.Do("SUBSCRIBE", testkit.Channel("g"))
	require.NoError(t, ls.Release(testkit.Limited(t)))
	require.Equal(t, "message\n"+testkit.Channel("g")+"\n0", ear.Do("PING"))
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	testkit.Finish(t, s, e)
}

func TestSetsOfValuesThatOverlapExcludeEachOtherAndOthersDoNot(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ab := takeValues(t, e.GroupLock("g", engine.KryoStrings("a", "b")))
	for _, from := range []*engine.Engine{e, other} {
		for _, values := range [][]string{{"a"}, {"b"}, {"b", "a"}, {"b", "c"}, {"x", "a", "y"}} {
			_, err := from.GroupLock("g", engine.KryoStrings(values...)).TryAcquire(testkit.Limited(t))
			var held *engine.HeldError
			require.ErrorAs(t, err, &held, "%v", values)
			require.Equal(t, "g", held.Name)
			require.InDelta(t, 30*time.Second, held.Remaining, float64(2*time.Second))
		}
		cd := takeValues(t, from.GroupLock("g", engine.KryoStrings("c", "d")))
		testkit.Release(t, cd)
		elsewhere := takeValues(t, from.GroupLock("another", engine.KryoStrings("a", "b")))
		testkit.Release(t, elsewhere)
		plain := takeValues(t, from.GroupLock("g", engine.PlainStrings("a", "b")))
		testkit.Release(t, plain)
	}
	testkit.Release(t, ab)
	testkit.Finish(t, s, e, other)
}

// TestWhoeverWaitsForOneOfTheValuesIsWoken: by a message, of one engine and of another.
func TestWhoeverWaitsForOneOfTheValuesIsWoken(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	ab := takeValues(t, e.GroupLock("g", engine.KryoStrings("a", "b")))
	here := e.GroupLock("g", engine.KryoStrings("b", "c")).AcquireAsync(testkit.Limited(t))
	there := other.GroupLock("g", engine.KryoStrings("x", "a")).AcquireAsync(testkit.Limited(t))
	testkit.Parked(t, s, "g", 2, 2, e, other)
	released := time.Now()
	testkit.Release(t, ab)
	bc, xa := testkit.Get(t, here), testkit.Get(t, there)
	require.Less(t, testkit.Ran(released), 500*time.Millisecond, "a poll comes 0.8 s after the try at the earliest")
	testkit.Release(t, bc)
	testkit.Release(t, xa)
	testkit.Finish(t, s, e, other)
}

// TestTakersOfOverlappingValuesExcludeEachOther: callers of two engines take random sets, and nobody is left behind.
func TestTakersOfOverlappingValuesExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	values := []string{"a", "b", "c", "d", "e"}
	var inside [5]atomic.Int32
	var callers sync.WaitGroup
	for i := range 24 {
		first, second := i%5, (i%5+1+i%3)%5
		g := engines[i%2].GroupLock("g", engine.KryoStrings(values[first], values[second]))
		callers.Go(func() {
			for range 40 {
				err := g.Do(testkit.Limited(t), func(context.Context) error {
					for _, v := range []int{first, second} {
						if n := inside[v].Add(1); n != 1 {
							t.Errorf("%d have %s", n, values[v])
						}
					}
					inside[first].Add(-1)
					inside[second].Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	testkit.Finish(t, s, engines...)
}

// TestBusyCallersOfOneSetLeaveTheOthersOfTheirEngineATurn: callers that take a set again and again hand it to each
// other. Another set of the same engine that shares a value hears of their release over the same connection.
func TestBusyCallersOfOneSetLeaveTheOthersOfTheirEngineATurn(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ctx, stop := context.WithCancel(testkit.Limited(t))
	ab := e.GroupLock("g", engine.KryoStrings("a", "b"))
	var busy sync.WaitGroup
	for range 16 {
		busy.Go(func() {
			for ctx.Err() == nil {
				_ = ab.Do(ctx, func(context.Context) error { return nil })
			}
		})
	}
	bc := e.GroupLock("g", engine.KryoStrings("b", "c"))
	for range 20 {
		began := time.Now()
		testkit.Release(t, takeValues(t, bc))
		require.Less(t, testkit.Ran(began), 5*time.Second)
	}
	stop()
	busy.Wait()
	testkit.Finish(t, s, e)
}

func TestAnOwnerEntersItsValuesAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	g := e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.As(engine.NewOwner()))
	one := takeValues(t, g)
	two := takeValues(t, g.With(engine.WatchdogLease(time.Minute)))
	requireTaken(t, s, one.OwnerID(), 2, time.Minute, valueA, valueB)
	testkit.Release(t, two)
	require.Equal(t, "1", s.Do(t, "HGET", "g", valueB+":"+one.OwnerID()+":lock_count"))
	require.Equal(t, one.OwnerID(), s.Do(t, "HGET", "g", valueA))
	till, err := strconv.ParseInt(s.Do(t, "HGET", "g", valueA+":"+one.OwnerID()+":expire_time"), 10, 64)
	require.NoError(t, err)
	require.Less(t, till, time.Now().Add(31*time.Second).UnixMilli(), "its other handle asked for 30 s")
	testkit.Release(t, one)
	testkit.Finish(t, s, e)
}

func TestValuesAreRenewedExtendedAndLostAsAWhole(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	t.Run("renewed", func(t *testing.T) {
		ls := takeValues(t, e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.WatchdogLease(time.Second)))
		testkit.RequireKept(t, e, ls, 0, 3)
		requireTaken(t, s, ls.OwnerID(), 1, time.Second, valueA, valueB)
		testkit.Release(t, ls)
	})
	t.Run("extended", func(t *testing.T) {
		ls := takeValues(t, e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.FixedLease(2*time.Second)))
		require.NoError(t, ls.Extend(testkit.Limited(t), 20*time.Second))
		requireTaken(t, s, ls.OwnerID(), 1, 20*time.Second, valueA, valueB)
		testkit.Release(t, ls)
	})
	t.Run("one is taken away", func(t *testing.T) {
		ls := takeValues(t, e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.WatchdogLease(time.Second)))
		s.Do(t, "HSET", "g", valueA, "somebody", valueA+":somebody:expire_time", "99999999999999")
		testkit.Await(t, ls.Context().Done(), "the next renewal finds it lost")
		require.ErrorIs(t, context.Cause(ls.Context()), engine.ErrLost)
		testkit.Eventually(t, "the other is given back", func() bool { return s.Do(t, "HEXISTS", "g", valueB) == "0" })
		require.Equal(t, "somebody", s.Do(t, "HGET", "g", valueA))
		require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrLost)
		s.Do(t, "DEL", "g")
	})
	t.Run("its time is over", func(t *testing.T) {
		long := takeValues(t, e.GroupLock("g", engine.PlainStrings("c")))
		ls := takeValues(t, e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.FixedLease(200*time.Millisecond)))
		next := takeValues(t, e.GroupLock("g", engine.PlainStrings("ab")))
		require.True(t, ls.Lost(), "the hash lives on for the sake of another value")
		testkit.Release(t, next)
		testkit.Release(t, long)
	})
	testkit.Finish(t, s, e)
}

// TestWhatOthersHaveLeftGoesWithTheirValue: a holder that died leaves two fields beside the value, which nobody needs.
func TestWhatOthersHaveLeftGoesWithTheirValue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	s.Do(t, "HSET", "g", valueA, "dead:1", valueA+":dead:1:expire_time", "1000", valueA+":dead:1:lock_count", "3")
	ls := takeValues(t, e.GroupLock("g", engine.PlainStrings("a", "ab")))
	requireTaken(t, s, ls.OwnerID(), 1, 30*time.Second, valueA, valueB)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

func TestWhoHasWhichValue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	b := takeValues(t, e.GroupLock("g", engine.KryoStrings("b")))
	cd := takeValues(t, other.GroupLock("g", engine.KryoStrings("d", "c"), engine.FixedLease(10*time.Second)))
	all := e.GroupLock("g", engine.KryoStrings("d", "a", "b"))
	holders, err := all.Holders(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, holders, 2)
	for i, want := range []engine.ValueHolder{
		{Value: 0, OwnerID: cd.OwnerID(), Holds: 1, Remaining: 10 * time.Second},
		{Value: 2, OwnerID: b.OwnerID(), Mine: true, Holds: 1, Remaining: 30 * time.Second},
	} {
		require.InDelta(t, want.Remaining, holders[i].Remaining, float64(2*time.Second))
		holders[i].Remaining = want.Remaining
		require.Equal(t, want, holders[i])
	}
	testkit.Release(t, b)
	testkit.Release(t, cd)
	holders, err = all.Holders(testkit.Limited(t))
	require.NoError(t, err)
	require.Empty(t, holders)
	testkit.Finish(t, s, e, other)
}

func TestValuesAreForceReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, other := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	values := engine.PlainStrings("a", "ab")
	was, err := e.GroupLock("g", values).ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.False(t, was)
	mine := takeValues(t, e.GroupLock("g", values))
	beside := takeValues(t, e.GroupLock("g", engine.PlainStrings("c")))
	was, err = e.GroupLock("g", values).ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, mine.Lost())
	require.False(t, beside.Lost())
	theirs := takeValues(t, other.GroupLock("g", values))
	f := e.GroupLock("g", engine.PlainStrings("ab", "d")).AcquireAsync(testkit.Limited(t))
	testkit.Parked(t, s, "g", 1, 1, e)
	was, err = e.GroupLock("g", engine.PlainStrings("ab")).ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	testkit.Release(t, testkit.Get(t, f))
	require.ErrorIs(t, theirs.Release(testkit.Limited(t)), engine.ErrLost)
	require.ErrorIs(t, mine.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Release(t, beside)
	testkit.Finish(t, s, e, other)
}

// TestAnswersOfAGroupLockAreLost: a request that is sent again counts once.
func TestAnswersOfAGroupLockAreLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	for _, script := range []string{"group", "groupcount", "grouprelease"} {
		t.Run(script, func(t *testing.T) {
			p := faultproxy.Run(t, s.Addr())
			e := testkit.Open(t, p.Addr())
			g := e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.As(engine.NewOwner()))
			p.DropReply(testkit.ScriptCall(script), 1)
			one := takeValues(t, g)
			two := takeValues(t, g)
			requireTaken(t, s, one.OwnerID(), 2, 30*time.Second, valueA, valueB)
			testkit.Release(t, two)
			testkit.Release(t, one)
			testkit.NoKeys(t, s)
			require.NoError(t, testkit.Close(e))
		})
	}
}

func TestAGroupIsNoReadWriteLockAndNoString(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	g := e.GroupLock("g", engine.PlainStrings("a"))
	rw := testkit.Acquire(t, e.RWLock("g").ReadLock())
	_, err := g.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	_, err = g.ForceRelease(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	testkit.Release(t, rw)
	s.Do(t, "SET", "g", "text")
	_, err = g.TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrWrongKind)
	s.Do(t, "DEL", "g")
	testkit.Finish(t, s, e)
}

func TestAThousandValuesAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	values := make([]string, engine.MaxGroupValues+1)
	for i := range values {
		values[i] = fmt.Sprint("value ", i)
	}
	bad := e.GroupLock("g", engine.KryoStrings(values...))
	require.ErrorIs(t, bad.Err(), engine.ErrName)
	_, err := bad.TryAcquire(testkit.Limited(t))
	require.ErrorContains(t, err, "1001 values of a group are not from 1 to 1000")
	g := e.GroupLock("g", engine.KryoStrings(values[1:]...), engine.WatchdogLease(2*time.Second), engine.As(engine.NewOwner()))
	ls, again := takeValues(t, g), takeValues(t, g)
	testkit.RequireKept(t, e, ls, 0, 2)
	require.Equal(t, int64(3000), testkit.Int(t, s, "HLEN", "g"))
	_, err = e.GroupLock("g", engine.KryoStrings(values[1000])).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	holders, err := g.Holders(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, holders, engine.MaxGroupValues)
	testkit.Release(t, again)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

// TestValuesAreKeptAndGivenBackWhenMemoryIsFull: nothing new is taken then.
func TestValuesAreKeptAndGivenBackWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	g := e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.WatchdogLease(2*time.Second), engine.As(engine.NewOwner()))
	ls, again := takeValues(t, g), takeValues(t, g)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	testkit.RequireKept(t, e, ls, 0, 4)
	_, err := e.GroupLock("g", engine.PlainStrings("c")).TryAcquire(testkit.Limited(t))
	require.Equal(t, engine.ClassOOM, testkit.ServerClass(err))
	testkit.Release(t, again)
	require.Equal(t, "1", s.Do(t, "HGET", "g", valueA+":"+ls.OwnerID()+":lock_count"))
	testkit.Release(t, ls)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	testkit.Finish(t, s, e)
}

// TestTheHashLivesAsLongAsTheLongestOfItsValues: whoever comes with a shorter lease ends nobody else's.
func TestTheHashLivesAsLongAsTheLongestOfItsValues(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	long := takeValues(t, e.GroupLock("g", engine.PlainStrings("a"), engine.FixedLease(time.Minute)))
	short := takeValues(t, e.GroupLock("g", engine.PlainStrings("ab"), engine.WatchdogLease(time.Second), engine.As(engine.NewOwner())))
	testkit.RequireKept(t, e, short, 0, 2)
	require.InDelta(t, time.Minute.Milliseconds(), testkit.Int(t, s, "PTTL", "g"), 10_000)
	testkit.Release(t, short)
	testkit.Release(t, long)
	testkit.Finish(t, s, e)
}

// TestValuesAreHandedToTheNextWithoutACommand: as a Lock is.
func TestValuesAreHandedToTheNextWithoutACommand(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	g := e.GroupLock("g", engine.PlainStrings("a", "ab"))
	ls := takeValues(t, g)
	f := e.GroupLock("g", engine.PlainStrings("ab", "a")).AcquireAsync(testkit.Limited(t))
	testkit.Release(t, ls)
	next := testkit.Get(t, f)
	require.Equal(t, ls.OwnerID(), next.OwnerID(), "the same values, in whatever order they are named")
	require.Equal(t, int64(1), e.Stats().GrantsByHandOff)
	testkit.Release(t, next)
	testkit.Finish(t, s, e)
}

func TestWhoIsRefusedIsToldOfTheValueThatIsHeldLongest(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	a := takeValues(t, e.GroupLock("g", engine.PlainStrings("a"), engine.FixedLease(10*time.Second)))
	b := takeValues(t, e.GroupLock("g", engine.PlainStrings("b"), engine.FixedLease(20*time.Second)))
	for _, values := range [][]string{{"a", "b"}, {"b", "c", "a"}} {
		_, err := e.GroupLock("g", engine.PlainStrings(values...)).TryAcquire(testkit.Limited(t))
		var held *engine.HeldError
		require.ErrorAs(t, err, &held)
		require.InDelta(t, 20*time.Second, held.Remaining, float64(2*time.Second))
	}
	testkit.Release(t, a)
	testkit.Release(t, b)
	testkit.Finish(t, s, e)
}

// TestALateCopyOfAnAcquireOfValuesChangesNoCount: it was sent, and held up; its owner has entered again since.
func TestALateCopyOfAnAcquireOfValuesChangesNoCount(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	sent := testkit.WatchCommands(p, testkit.ScriptCall("group"))
	g := e.GroupLock("g", engine.PlainStrings("a", "ab"), engine.As(engine.NewOwner()))
	one, two := takeValues(t, g), takeValues(t, g)
	s.Do(t, testkit.Await(t, sent, "the acquire")...)
	requireTaken(t, s, one.OwnerID(), 2, 30*time.Second, valueA, valueB)
	testkit.Release(t, two)
	testkit.Release(t, one)
	testkit.Finish(t, s, e)
}
