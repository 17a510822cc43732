package family_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

func TestFairLockIsGrantedInTheOrderOfAsking(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, a.FairLock("q").Lock)
	fs := testkit.LineUp(t, s, 10, func(i int) *engine.FairLock {
		return []*engine.Engine{a, a, b}[i%3].FairLock("q")
	})
	places, err := b.FairLock("q").Queue(testkit.Limited(t))
	require.NoError(t, err)
	require.Len(t, places, 10)
	require.False(t, places[0].Mine)
	require.True(t, places[2].Mine)
	require.Greater(t, places[0].Kept, time.Second)
	require.Less(t, places[0].Kept, time.Hour, "a time that is left, not a time of day")
	_, err = a.FairLock("q").TryAcquire(testkit.Limited(t))
	var busy *engine.HeldError
	require.ErrorAs(t, err, &busy)
	require.Positive(t, busy.Remaining, "it is held here, for so long")

	for i, f := range fs {
		testkit.Release(t, held)
		held, err = f.Await(testkit.Limited(t))
		require.NoError(t, err)
		require.Equal(t, places[i].OwnerID, held.OwnerID())
		for _, later := range fs[i+1:] {
			_, _, ok := later.Result()
			require.False(t, ok, "not before its turn")
		}
	}
	testkit.Release(t, held)
	polled := a.Stats().GrantsByPoll + b.Stats().GrantsByPoll
	require.LessOrEqual(t, polled, int64(1), "the message goes to whoever is next")
	testkit.Finish(t, s, a, b)
}

func TestFairWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	l := a.FairLock("q")
	held := testkit.Acquire(t, b.FairLock("q").Lock)
	for name, leave := range map[string]func(*testing.T){
		"Cancel": func(t *testing.T) {
			ctx, cancel := context.WithCancel(testkit.Limited(t))
			f := l.AcquireAsync(ctx)
			testkit.Eventually(t, "it queues", func() bool { return testkit.Exists(t, s, slot.FairQueue("q")) })
			cancel()
			_, err := f.Await(testkit.Limited(t))
			require.ErrorIs(t, err, context.Canceled)
		},
		"MaxWait": func(t *testing.T) {
			_, err := l.With(engine.MaxWait(50 * time.Millisecond)).Acquire(testkit.Limited(t))
			var busy *engine.HeldError
			require.ErrorAs(t, err, &busy)
			require.Positive(t, busy.Remaining)
		},
		"FutureCancel": func(t *testing.T) {
			f := l.AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it queues", func() bool { return testkit.Exists(t, s, slot.FairQueue("q")) })
			require.True(t, f.Cancel())
		},
		"Close": func(t *testing.T) {
			c := testkit.Open(t, s.Addr())
			f := c.FairLock("q").AcquireAsync(testkit.Limited(t))
			testkit.Eventually(t, "it queues", func() bool { return testkit.Exists(t, s, slot.FairQueue("q")) })
			require.NoError(t, c.Close(testkit.Limited(t)))
			_, err := f.Await(testkit.Limited(t))
			require.ErrorIs(t, err, engine.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			leave(t)
			testkit.Eventually(t, "the queue is empty", func() bool {
				return !testkit.Exists(t, s, slot.FairQueue("q")) && !testkit.Exists(t, s, slot.FairTimeouts("q"))
			})
		})
	}
	testkit.Release(t, held)
	testkit.Finish(t, s, a, b)
}

// A waiter gives up while its engine gets no answer, for longer than its lease and an attempt: no lease ends a place, so
// it is taken out of the queue all the same.
func TestFairWaiterThatGivesUpInALongOutageLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	a, b := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, b.FairLock("q").Lock)
	f := a.FairLock("q", engine.FixedLease(500*time.Millisecond)).AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it queues", func() bool { return testkit.Exists(t, s, slot.FairQueue("q")) })
	dropped := p.DropCommand(testkit.ScriptCall("fairrelease"), -1)
	require.True(t, f.Cancel())
	testkit.Await(t, dropped.C(), "its leaving")
	testkit.LastUntil(time.Now().Add(testkit.AttemptLimit + 2*time.Second)) // longer than a lease and an attempt
	dropped.Remove()
	testkit.Eventually(t, "the queue is empty", func() bool { return !testkit.Exists(t, s, slot.FairQueue("q")) })
	testkit.Release(t, held)
	testkit.Finish(t, s, a, b)
}

// Waiters keep their place however long the holder stays, and nobody asks in a hot loop.
func TestFairWaitersKeepTheirPlaceBehindALongHold(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, b.FairLock("q").Lock)
	fs := testkit.LineUp(t, s, 3, func(int) *engine.FairLock { return a.FairLock("q") })
	before := s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1")
	// What two grants of another Redisson client would do to everybody's score.
	for _, f := range []string{"0", "1", "2"} {
		field := s.Do(t, "LINDEX", slot.FairQueue("q"), f)
		s.Do(t, "ZINCRBY", slot.FairTimeouts("q"), "-1000", field)
	}
	began, polls := time.Now(), a.Stats().WokenByPoll
	testkit.Eventually(t, "each has asked three times", func() bool { return a.Stats().WokenByPoll >= polls+9 })
	require.Greater(t, time.Since(began), time.Second, "about once a second each")
	require.Equal(t, before, s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1"))
	testkit.Release(t, held)
	for _, f := range fs {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, a, b)
}

// A head that died delays the others by seconds.
func TestFairHeadThatDiedIsPassedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	dead, a, b := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, b.FairLock("q").Lock)
	ctx, cancel := context.WithCancel(testkit.Limited(t))
	defer cancel()
	_ = dead.FairLock("q").AcquireAsync(ctx)
	testkit.Eventually(t, "it queues", func() bool { return testkit.Exists(t, s, slot.FairQueue("q")) })
	p.RefuseNew(true)
	p.CutAll()
	next := a.FairLock("q").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it stands behind", func() bool { return s.Do(t, "LLEN", slot.FairQueue("q")) == "2" })
	began := time.Now()
	testkit.Release(t, held)
	ls, err := next.Await(testkit.Limited(t))
	require.NoError(t, err)
	require.Less(t, testkit.Ran(began), 9*time.Second)
	testkit.Release(t, ls)
	p.RefuseNew(false)
	cancel()
	testkit.Finish(t, s, dead, a, b)
}

func TestFairReentryAndNonReentrant(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(testkit.Limited(t), o)
	l := e.FairLock("q")
	one, err := l.Acquire(ctx)
	require.NoError(t, err)
	waiting := testkit.LineUp(t, s, 1, func(int) *engine.FairLock { return l })
	two, err := l.TryAcquire(ctx)
	require.NoError(t, err, "who holds enters again, whoever waits")
	require.Equal(t, "2", s.Do(t, "HGET", "q", one.OwnerID()))
	require.Equal(t, 2, o.Holds(l.Lock))
	_, err = l.With(engine.NonReentrant()).Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrReentry)
	testkit.Release(t, one)
	require.Equal(t, "1", s.Do(t, "HGET", "q", two.OwnerID()))
	testkit.Release(t, two)
	ls, err := waiting[0].Await(testkit.Limited(t))
	require.NoError(t, err)
	testkit.Release(t, ls)
	testkit.Finish(t, s, e)
}

func TestReleasingAFairLockThatIsGoneIsAnError(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := testkit.Open(t, s.Addr())
	ls := testkit.Acquire(t, e.FairLock("q").Lock)
	s.Do(t, "DEL", "q")
	err := ls.Release(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	require.ErrorIs(t, ls.Release(testkit.Limited(t)), engine.ErrNotHeld)
	testkit.Finish(t, s, e)
}

func TestForceReleaseOfAFairLockWakesWhoIsNext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())
	held := testkit.Acquire(t, a.FairLock("q").Lock)
	fs := testkit.LineUp(t, s, 2, func(int) *engine.FairLock { return b.FairLock("q") })
	was, err := b.FairLock("q").ForceRelease(testkit.Limited(t))
	require.NoError(t, err)
	require.True(t, was)
	for _, f := range fs {
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	require.ErrorIs(t, held.Release(testkit.Limited(t)), engine.ErrLost)
	testkit.Finish(t, s, a, b)
}

func TestC021_FairRepliesLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := testkit.Open(t, p.Addr()), testkit.Open(t, s.Addr())
	for _, times := range []int{1, 5} {
		lost := p.DropReply(testkit.ScriptCall("fair"), times, faultproxy.Cut)
		ls := testkit.Acquire(t, e.FairLock("q").Lock)
		require.Equal(t, times, lost.Hits())
		require.Equal(t, "1", s.Do(t, "HGET", "q", ls.OwnerID()))
		lost = p.DropReply(testkit.ScriptCall("fairrelease"), times, faultproxy.Cut)
		testkit.Release(t, ls)
		require.Equal(t, times, lost.Hits())
		require.Empty(t, s.Keys(t))

		// And of a waiter's enqueueing: it stands in the queue once.
		held := testkit.Acquire(t, other.FairLock("q").Lock)
		lost = p.DropReply(testkit.ScriptCall("fair"), times, faultproxy.Cut)
		f := e.FairLock("q").AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "the replies were lost", func() bool { return lost.Hits() == times })
		testkit.Eventually(t, "it was told", func() bool { return e.Stats().WokenBySubscribe+e.Stats().WokenByPoll > 0 })
		require.Equal(t, "1", s.Do(t, "LLEN", slot.FairQueue("q")))
		testkit.Release(t, held)
		ls, err := f.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, ls)
	}
	testkit.Finish(t, s, e, other)
}

// Many in three engines, some leaving: one at a time, everybody served, nothing left.
func TestFairLockUnderContention(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr()), testkit.Open(t, s.Addr())}
	const callers, rounds = 30, 15
	var w testkit.Witness
	done := make(chan error, callers)
	for c := range callers {
		l := engines[c%3].FairLock("q")
		go func() {
			for r := range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
				if (c+r)%7 == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(c*r)*100*time.Microsecond)
				}
				ls, err := l.Acquire(ctx)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						done <- err
						return
					}
					continue
				}
				w.Enter()
				w.Leave()
				if err := ls.Release(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		require.NoError(t, testkit.Await(t, done, "a caller"))
	}
	require.Zero(t, w.Violations.Load())
	testkit.Finish(t, s, engines...)
}
