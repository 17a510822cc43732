package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// lineUp starts n waiters one after the other, each seen in the queue before the next.
func lineUp(t *testing.T, s *redistest.Server, n int, lock func(i int) *engine.FairLock) []*engine.Future[*engine.Lease] {
	t.Helper()
	fs := make([]*engine.Future[*engine.Lease], n)
	for i := range fs {
		l := lock(i)
		fs[i] = l.AcquireAsync(limited(t))
		eventually(t, "it stands in the queue", func() bool {
			return s.Do(t, "LLEN", slot.FairQueue(l.Name())) == fmt.Sprint(i+1)
		})
	}
	return fs
}

func TestFairLockIsGrantedInTheOrderOfAsking(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	held := acquire(t, a.FairLock("q").Lock)
	fs := lineUp(t, s, 10, func(i int) *engine.FairLock {
		return []*engine.Engine{a, a, b}[i%3].FairLock("q")
	})
	places, err := b.FairLock("q").Queue(limited(t))
	require.NoError(t, err)
	require.Len(t, places, 10)
	require.False(t, places[0].Mine)
	require.True(t, places[2].Mine)
	require.Greater(t, places[0].Kept, time.Second)
	require.Less(t, places[0].Kept, time.Hour, "a time that is left, not a time of day")
	_, err = a.FairLock("q").TryAcquire(limited(t))
	var busy *engine.HeldError
	require.ErrorAs(t, err, &busy)
	require.Positive(t, busy.Remaining, "it is held here, for so long")

	for i, f := range fs {
		release(t, held)
		held, err = f.Await(limited(t))
		require.NoError(t, err)
		require.Equal(t, places[i].OwnerID, held.OwnerID())
		for _, later := range fs[i+1:] {
			_, _, ok := later.Result()
			require.False(t, ok, "not before its turn")
		}
	}
	release(t, held)
	polled := a.Stats().GrantsByPoll + b.Stats().GrantsByPoll
	require.LessOrEqual(t, polled, int64(1), "the message goes to whoever is next")
	finish(t, s, a, b)
}

func TestFairWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	l := a.FairLock("q")
	held := acquire(t, b.FairLock("q").Lock)
	for name, leave := range map[string]func(*testing.T){
		"Cancel": func(t *testing.T) {
			ctx, cancel := context.WithCancel(limited(t))
			f := l.AcquireAsync(ctx)
			eventually(t, "it queues", func() bool { return exists(t, s, slot.FairQueue("q")) })
			cancel()
			_, err := f.Await(limited(t))
			require.ErrorIs(t, err, context.Canceled)
		},
		"MaxWait": func(t *testing.T) {
			_, err := l.With(engine.MaxWait(50 * time.Millisecond)).Acquire(limited(t))
			var busy *engine.HeldError
			require.ErrorAs(t, err, &busy)
			require.Positive(t, busy.Remaining)
		},
		"FutureCancel": func(t *testing.T) {
			f := l.AcquireAsync(limited(t))
			eventually(t, "it queues", func() bool { return exists(t, s, slot.FairQueue("q")) })
			require.True(t, f.Cancel())
		},
		"Close": func(t *testing.T) {
			c := openEngine(t, s.Addr())
			f := c.FairLock("q").AcquireAsync(limited(t))
			eventually(t, "it queues", func() bool { return exists(t, s, slot.FairQueue("q")) })
			require.NoError(t, c.Close(limited(t)))
			_, err := f.Await(limited(t))
			require.ErrorIs(t, err, engine.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			leave(t)
			eventually(t, "the queue is empty", func() bool {
				return !exists(t, s, slot.FairQueue("q")) && !exists(t, s, slot.FairTimeouts("q"))
			})
		})
	}
	release(t, held)
	finish(t, s, a, b)
}

// A waiter gives up while its engine gets no answer, for longer than its lease and an attempt: no lease ends a place, so
// it is taken out of the queue all the same.
func TestFairWaiterThatGivesUpInALongOutageLeavesTheQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	a, b := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	held := acquire(t, b.FairLock("q").Lock)
	f := a.FairLock("q", engine.FixedLease(500*time.Millisecond)).AcquireAsync(limited(t))
	eventually(t, "it queues", func() bool { return exists(t, s, slot.FairQueue("q")) })
	dropped := p.DropCommand(scriptCall("fairrelease"), -1)
	require.True(t, f.Cancel())
	await(t, dropped.C(), "its leaving")
	lastUntil(time.Now().Add(attemptLimit + 2*time.Second)) // longer than a lease and an attempt
	dropped.Remove()
	eventually(t, "the queue is empty", func() bool { return !exists(t, s, slot.FairQueue("q")) })
	release(t, held)
	finish(t, s, a, b)
}

// Waiters keep their place however long the holder stays, and nobody asks in a hot loop.
func TestFairWaitersKeepTheirPlaceBehindALongHold(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	held := acquire(t, b.FairLock("q").Lock)
	fs := lineUp(t, s, 3, func(int) *engine.FairLock { return a.FairLock("q") })
	before := s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1")
	// What two grants of another Redisson client would do to everybody's score.
	for _, f := range []string{"0", "1", "2"} {
		field := s.Do(t, "LINDEX", slot.FairQueue("q"), f)
		s.Do(t, "ZINCRBY", slot.FairTimeouts("q"), "-1000", field)
	}
	began, polls := time.Now(), a.Stats().WokenByPoll
	eventually(t, "each has asked three times", func() bool { return a.Stats().WokenByPoll >= polls+9 })
	require.Greater(t, time.Since(began), time.Second, "about once a second each")
	require.Equal(t, before, s.Do(t, "LRANGE", slot.FairQueue("q"), "0", "-1"))
	release(t, held)
	for _, f := range fs {
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	finish(t, s, a, b)
}

// A head that died delays the others by seconds.
func TestFairHeadThatDiedIsPassedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	dead, a, b := openEngine(t, p.Addr()), openEngine(t, s.Addr()), openEngine(t, s.Addr())
	held := acquire(t, b.FairLock("q").Lock)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	_ = dead.FairLock("q").AcquireAsync(ctx)
	eventually(t, "it queues", func() bool { return exists(t, s, slot.FairQueue("q")) })
	p.RefuseNew(true)
	p.CutAll()
	next := a.FairLock("q").AcquireAsync(limited(t))
	eventually(t, "it stands behind", func() bool { return s.Do(t, "LLEN", slot.FairQueue("q")) == "2" })
	began := time.Now()
	release(t, held)
	ls, err := next.Await(limited(t))
	require.NoError(t, err)
	require.Less(t, time.Since(began), 9*time.Second)
	release(t, ls)
	p.RefuseNew(false)
	cancel()
	finish(t, s, dead, a, b)
}

func TestFairReentryAndNonReentrant(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	o := engine.NewOwner()
	ctx := engine.WithOwner(limited(t), o)
	l := e.FairLock("q")
	one, err := l.Acquire(ctx)
	require.NoError(t, err)
	waiting := lineUp(t, s, 1, func(int) *engine.FairLock { return l })
	two, err := l.TryAcquire(ctx)
	require.NoError(t, err, "who holds enters again, whoever waits")
	require.Equal(t, "2", s.Do(t, "HGET", "q", one.OwnerID()))
	require.Equal(t, 2, o.Holds(l.Lock))
	_, err = l.With(engine.NonReentrant()).Acquire(ctx)
	require.ErrorIs(t, err, engine.ErrReentry)
	release(t, one)
	require.Equal(t, "1", s.Do(t, "HGET", "q", two.OwnerID()))
	release(t, two)
	ls, err := waiting[0].Await(limited(t))
	require.NoError(t, err)
	release(t, ls)
	finish(t, s, e)
}

func TestReleasingAFairLockThatIsGoneIsAnError(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e := openEngine(t, s.Addr())
	ls := acquire(t, e.FairLock("q").Lock)
	s.Do(t, "DEL", "q")
	err := ls.Release(limited(t))
	require.ErrorIs(t, err, engine.ErrLost)
	require.ErrorIs(t, ls.Release(limited(t)), engine.ErrNotHeld)
	finish(t, s, e)
}

func TestForceReleaseOfAFairLockWakesWhoIsNext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a, b := openEngine(t, s.Addr()), openEngine(t, s.Addr())
	held := acquire(t, a.FairLock("q").Lock)
	fs := lineUp(t, s, 2, func(int) *engine.FairLock { return b.FairLock("q") })
	was, err := b.FairLock("q").ForceRelease(limited(t))
	require.NoError(t, err)
	require.True(t, was)
	for _, f := range fs {
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	require.ErrorIs(t, held.Release(limited(t)), engine.ErrLost)
	finish(t, s, a, b)
}

func TestFault_C021_FairRepliesLost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e, other := openEngine(t, p.Addr()), openEngine(t, s.Addr())
	for _, times := range []int{1, 5} {
		lost := p.DropReply(scriptCall("fair"), times, faultproxy.Cut)
		ls := acquire(t, e.FairLock("q").Lock)
		require.Equal(t, times, lost.Hits())
		require.Equal(t, "1", s.Do(t, "HGET", "q", ls.OwnerID()))
		lost = p.DropReply(scriptCall("fairrelease"), times, faultproxy.Cut)
		release(t, ls)
		require.Equal(t, times, lost.Hits())
		require.Empty(t, s.Keys(t))

		// And of a waiter's enqueueing: it stands in the queue once.
		held := acquire(t, other.FairLock("q").Lock)
		lost = p.DropReply(scriptCall("fair"), times, faultproxy.Cut)
		f := e.FairLock("q").AcquireAsync(limited(t))
		eventually(t, "the replies were lost", func() bool { return lost.Hits() == times })
		eventually(t, "it was told", func() bool { return e.Stats().WokenBySubscribe+e.Stats().WokenByPoll > 0 })
		require.Equal(t, "1", s.Do(t, "LLEN", slot.FairQueue("q")))
		release(t, held)
		ls, err := f.Await(limited(t))
		require.NoError(t, err)
		release(t, ls)
	}
	finish(t, s, e, other)
}

// Many in three engines, some leaving: one at a time, everybody served, nothing left.
func TestFairLockUnderContention(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	engines := []*engine.Engine{openEngine(t, s.Addr()), openEngine(t, s.Addr()), openEngine(t, s.Addr())}
	const callers, rounds = 30, 15
	var w witness
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
				w.enter()
				w.leave()
				if err := ls.Release(t.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		require.NoError(t, await(t, done, "a caller"))
	}
	require.Zero(t, w.violations.Load())
	finish(t, s, engines...)
}
